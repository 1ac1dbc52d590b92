"""Rules without differences: what the operators of a rule stand for, applied to an exact solution."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import DeclarationError, PlanningError
from ..grid import Grid
from ..region import Layout, signature_of
from ..stencil import take_value
from ..views import AbstractContext, AbstractView, AbstractWorld, Exact, FieldView, ParameterView, Shift

_HALF_LINE: dict[str, Callable[[Any], Any]] = {"radius": lambda r: r, "spherical radius": lambda r: r**2}
_DENSITIES = {**_HALF_LINE, "colatitude": jnp.sin}
_SCALES: dict[str, Callable[[Any], Any]] = {
    "radius": lambda r: r,
    "spherical radius": lambda r: r,
    "colatitude": jnp.sin,
}
_MEASURES: dict[str, Callable[[Any, Any], Any]] = {
    "density": lambda density, scale: density,
    "inverse density": lambda density, scale: 1 / density,
    "inverse scale": lambda density, scale: 1 / scale,
    "inverse square scale": lambda density, scale: 1 / scale**2,
    "transverse 1": lambda density, scale: 1 / scale,
    "transverse 2": lambda density, scale: 1 / scale**2,
    "pole": lambda density, scale: jnp.zeros_like(scale),
    "limit": lambda density, scale: jnp.ones_like(scale),
}


class ReadByHand(PlanningError):
    """A rule reads neighbours itself, so that its operators do not say what it stands for."""


@dataclass(frozen=True, eq=False)
class World(AbstractWorld):
    """Exact solutions by field, as functions of the coordinates, and calculus on such functions."""

    grid: Grid
    solutions: Mapping[str, Exact]
    what: str

    def field(self, name: str) -> Exact:
        return self.solutions[name]

    def parameter(self, name: str) -> Exact:
        raise PlanningError(
            f"fd.manufactured: {self.what} reads the parameter `{name}`, an array on the grid, which has no value "
            f"between its points and on finer grids. Pass a number, or write it as a function of the coordinates into "
            f"the rule: fd.apply(function, fd.coordinate(u, 'x'))."
        )

    def coordinate(self, axis: str) -> Exact:
        position = self.grid.names.index(axis)
        return lambda point: point[position]

    def measure(self, axis: str, name: str) -> Exact:
        metric, position = self.grid.space_axis(axis).metric, self.grid.names.index(axis)
        one = lambda q: jnp.ones_like(q)  # noqa: E731
        density, scale = _DENSITIES.get(str(metric), one), _SCALES.get(str(metric), one)
        if name not in _MEASURES:
            raise PlanningError(f"fd.manufactured: {self.what}: the measure {name!r} of `{axis}` has no exact form.")
        return lambda point: _MEASURES[name](density(point[position]), scale(point[position]))

    def derivative(self, function: Exact, axis: str, n: int = 1) -> Exact:
        position = self.grid.names.index(axis)

        def slope(point: tuple[Any, ...]) -> Any:
            def along(q: Any) -> Any:
                return jnp.asarray(function((*point[:position], q, *point[position + 1 :])))

            # A strong type of its own: a weak one would not pass as a tangent.
            here = jax.lax.convert_element_type(point[position], jnp.result_type(point[position]))
            return jax.jvp(along, (here,), (jnp.ones_like(here),))[1]

        return slope if n == 1 else self.derivative(slope, axis, n - 1)


@dataclass(eq=False)
class ExactContext(AbstractContext):
    """The context of a rule that is evaluated on exact solutions at one point: operators are those of calculus."""

    world: World
    target: Layout
    point: tuple[Any, ...]
    what: str
    stage: bool

    def __post_init__(self) -> None:
        self.grid = self.world.grid

    def look(self, view: AbstractView, shift: Shift) -> Any:
        if any(shift):
            raise ReadByHand(
                f"fd.manufactured: {self.what} reads neighbours of `{view}` by hand; which derivative that stands "
                f"for is known for rules with constant weights only. Write it with operators, such as "
                f"fd.schemes.derivative(u, 'x')."
            )
        return view.exact(self.world)(self.point)

    def enroll(self, view: AbstractView) -> int:
        return 0

    def register(self, view: AbstractView, operation: Any) -> int:
        return 0

    def note(self, text: str) -> None:
        return

    def note_shifted_constant(self, value: Any) -> None:
        return

    def within(self) -> AbstractContextManager[None]:
        return nullcontext()

    def stretched(self, view: Any, shift: Shift) -> Any:
        return None

    def room(self, view: AbstractView, axis: str, shift: Shift, rows: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def read_field(self, name: str, shift: Shift) -> jax.Array:
        raise self._refused()

    def read_parameter(self, name: str, shift: Shift) -> jax.Array:
        raise self._refused()

    def read_coordinate(self, axis: str, shift: Shift) -> jax.Array:
        raise self._refused()

    def read_weight(self, axis: str, derivative: int, offsets: tuple[float, ...], index: int, shift: Shift) -> Any:
        raise self._refused()

    def read_measure(self, axis: str, name: str, shift: Shift, view: AbstractView | None = None) -> Any:
        raise self._refused()

    def read_derived(self, derived: Any, shift: Shift) -> jax.Array:
        raise self._refused()

    def name_derived(self, derived: Any, level: int) -> str:
        raise self._refused()

    def _refused(self) -> PlanningError:
        return PlanningError(f"fd.manufactured: {self.what} uses an operator that has no exact counterpart.")


def to_exact(solution: Any, name: str, grid: Grid, dtype: Any) -> Exact:
    """A user's exact solution, a function of some of the axes' names, as a function of all coordinates."""
    if not callable(solution):
        raise DeclarationError(
            f"fd.manufactured: the exact solution for `{name}` is a function of the axes, as in "
            f"lambda {', '.join(grid.names)}: ...; got {type(solution).__name__}."
        )
    names = list(signature_of(solution, f"fd.manufactured: the exact solution for `{name}`").parameters)
    wrong = [one for one in names if one not in grid.names]
    if wrong:
        raise DeclarationError(
            f"fd.manufactured: the exact solution for `{name}` asks for `{wrong[0]}`; the axes are "
            f"{', '.join(grid.names)}. Close over other values."
        )

    def exact(point: tuple[Any, ...]) -> Any:
        given = dict(zip(grid.names, point, strict=True))
        with jax.numpy_dtype_promotion("standard"):  # real coordinates meet complex numbers
            return jnp.asarray(solution(**{one: given[one] for one in names})).astype(dtype)

    return exact


def exact_value(rule: Any, world: World, target: Layout, given: Mapping[str, Any], what: str, stage: bool) -> Any:
    """What a rule's function gives on the exact solutions, from the values `given` for its arguments."""
    point = tuple(given[axis] for axis in world.grid.names)
    context = ExactContext(world, target, point, what, stage)

    def argument(name: str) -> Any:
        value = given[name]
        if isinstance(value, FieldView):
            return FieldView(value.name, value.layout, context)
        if isinstance(value, ParameterView):
            return ParameterView(value.name, value.axes, value.faces, context)
        return value

    positional, keywords = [], {}
    for name, parameter in inspect.signature(rule).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            keywords[name] = argument(name)
        else:
            positional.append(argument(name))
    with jax.numpy_dtype_promotion("standard"):
        return map_result(take_value, rule(*positional, **keywords))


def map_result(function: Callable[[Any], Any], result: Any) -> Any:
    """A function of what a rule returned, or of each of several results."""
    if isinstance(result, Mapping):
        return {name: function(value) for name, value in result.items()}
    if isinstance(result, tuple | list):
        return tuple(function(value) for value in result)
    return function(result)
