"""Views: what a rule reads. A view gives the value at an offset; arithmetic on views is lazy."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import jax
from jax.core import Tracer

from ..errors import DeclarationError, PlanningError
from ..grid import Grid
from ..region import Layout
from ._offsets import Shift, parse_offsets
from ._world import AbstractWorld, Exact


class AbstractContext(ABC):
    """What a view needs to know while a rule is traced: where it stands, and how to read.

    `stage` tells that the rule is a rate.
    """

    grid: Grid
    target: Layout
    what: str
    stage: bool

    @abstractmethod
    def read_field(self, name: str, shift: Shift) -> jax.Array:
        """The value of a field at the rule's point moved by `shift`."""

    @abstractmethod
    def read_parameter(self, name: str, shift: Shift) -> jax.Array:
        """The value of a parameter that is labelled by axes, at the rule's point moved by `shift`."""

    @abstractmethod
    def read_coordinate(self, axis: str, shift: Shift) -> jax.Array:
        """The coordinate of the rule's point moved by `shift`."""

    @abstractmethod
    def read_weight(self, axis: str, derivative: int, offsets: tuple[float, ...], index: int, shift: Shift) -> Any:
        """Weight `index` of the finite difference over `offsets` (in steps) for a derivative at the moved point."""

    @abstractmethod
    def read_measure(self, axis: str, name: str, shift: Shift, view: "AbstractView | None" = None) -> Any:
        """A geometric quantity of a curvilinear axis (`Axis.measure`) at the rule's point moved by `shift`.

        It goes with a view: beyond walls where that is an even mirror image, cells are mirror images too.
        """

    @abstractmethod
    def note_shifted_constant(self, value: Any) -> None:
        """Tells that a plain value was used at an offset: it must be the same at every point."""

    @abstractmethod
    def room(self, view: "AbstractView", axis: str, shift: Shift, rows: int = 0) -> tuple[int | None, int | None]:
        """Half steps from the moved point to the lower and upper wall of an axis; None where reads beyond are served.

        Served are the reads of a view whose fields all have ghost values beyond that wall, and those far from it:
        near are the rows whose reads would leave the grid, and with them as many `rows` as the operator asks for.
        """

    @abstractmethod
    def register(self, view: "AbstractView", operation: Any) -> int:
        """Numbers a view that is computed at every point first; the rule numbers the same ones each time it runs."""

    @abstractmethod
    def read_derived(self, derived: Any, shift: Shift) -> jax.Array:
        """The value of a derived view at the rule's point moved by `shift`."""

    @abstractmethod
    def name_derived(self, derived: Any, level: int) -> str:
        """The name of the hidden field that holds a derived view of a level."""

    @abstractmethod
    def enroll(self, view: "AbstractView") -> int:
        """Numbers a difference along an axis; the rule numbers the same ones each time it runs."""

    @abstractmethod
    def stretched(self, view: Any, shift: Shift) -> Any:
        """A difference along an axis at the moved point where a layer stretches the coordinate; None elsewhere."""

    @abstractmethod
    def within(self) -> AbstractContextManager[None]:
        """The reads at offsets made meanwhile are those of an operator, none that the rule asks for itself."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Adds a line to the notes of the plan; one that stands there already is not repeated."""

    def look(self, view: "AbstractView", shift: Shift) -> Any:
        """What a rule sees of a view when it reads it, `view["x+1"]`."""
        return view.value(shift)

    def parity(self, axis: str, shift: Shift) -> int:
        """0 where the moved point lies on a multiple of a step from the lower wall, 1 half-way between."""
        moved = shift[self.grid.names.index(axis)]
        return int(self.target.shift(axis) + 2 * moved) % 2


class AbstractView(ABC):
    """A quantity a rule can read at its point and at offsets from it.

    `view[...]` is the value at the point, `view["x+1"]` at a neighbour: JAX scalars. Arithmetic on views gives views
    that can be read and differenced again; `fd.apply` lifts any other function.
    """

    __array_ufunc__ = None

    context: AbstractContext
    hint = ""

    @abstractmethod
    def value(self, shift: Shift) -> jax.Array:
        """The value at the rule's point moved by `shift`."""

    @abstractmethod
    def parity(self, axis: str) -> int | None:
        """0 or 1: where the view's own points lie on a space axis, in half steps; None if it lies anywhere."""

    def exact(self, world: AbstractWorld) -> Exact:
        """The quantity that the view stands for, without differences: what it tends to as the grid is refined.

        `fd.manufactured` finds the differential equation of a rule by it. An operator of your own gives it by those of
        its parts, as in `world.derivative(self.view.exact(world), self.axis)`.
        """
        raise PlanningError(
            f"{self.context.what}: `{self}` has no exact counterpart, so that the differential equation is not known. "
            f"Give {type(self).__name__} a method `exact`, or write it with operators that have one."
        )

    def sources(self) -> frozenset[str]:
        """The names of the fields and labelled parameters that the view reads: its own, and those of its parts."""
        found: set[str] = {self.name} if isinstance(self, FieldView | ParameterView) else set()
        for part in vars(self).values():
            for item in part.values() if isinstance(part, Mapping) else part if isinstance(part, tuple) else (part,):
                if isinstance(item, AbstractView):
                    found |= item.sources()
        return frozenset(found)

    def __getitem__(self, key: Any) -> jax.Array:
        try:
            offsets = parse_offsets(key, self.context.grid.names, self.context.what)
        except DeclarationError as error:
            raise DeclarationError(f"{error}{self.hint}") from None
        return self.context.look(self, offsets)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{type(self).__name__} is no array: write `{self}[...]`, or `fd.apply(function, {self})`.")

    def __bool__(self) -> bool:
        raise DeclarationError(
            f"{self.context.what}: `{self}` has no truth value while the rule is traced. For `if` use "
            f"`jnp.where(u[...] > 0, a, b)`; for `and`, `or`, `max` use `&`, `|`, `jnp.maximum` on values, `u[...]`."
        )

    def __iter__(self) -> Any:
        raise DeclarationError(f"{self.context.what}: `{self}` cannot be iterated over; read it at offsets.")

    def __neg__(self) -> "AbstractView":
        return apply(operator.neg, self)

    def __pos__(self) -> "AbstractView":
        return self

    def __abs__(self) -> "AbstractView":
        return apply(abs, self)

    def __add__(self, other: Any) -> "AbstractView":
        return apply(operator.add, self, other)

    def __radd__(self, other: Any) -> "AbstractView":
        return apply(operator.add, other, self)

    def __sub__(self, other: Any) -> "AbstractView":
        return apply(operator.sub, self, other)

    def __rsub__(self, other: Any) -> "AbstractView":
        return apply(operator.sub, other, self)

    def __mul__(self, other: Any) -> "AbstractView":
        return apply(operator.mul, self, other)

    def __rmul__(self, other: Any) -> "AbstractView":
        return apply(operator.mul, other, self)

    def __truediv__(self, other: Any) -> "AbstractView":
        return apply(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> "AbstractView":
        return apply(operator.truediv, other, self)

    def __floordiv__(self, other: Any) -> "AbstractView":
        return apply(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> "AbstractView":
        return apply(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> "AbstractView":
        return apply(operator.mod, self, other)

    def __rmod__(self, other: Any) -> "AbstractView":
        return apply(operator.mod, other, self)

    def __pow__(self, other: Any) -> "AbstractView":
        return apply(operator.pow, self, other)

    def __rpow__(self, other: Any) -> "AbstractView":
        return apply(operator.pow, other, self)

    def __lt__(self, other: Any) -> "AbstractView":
        return apply(operator.lt, self, other)

    def __le__(self, other: Any) -> "AbstractView":
        return apply(operator.le, self, other)

    def __gt__(self, other: Any) -> "AbstractView":
        return apply(operator.gt, self, other)

    def __ge__(self, other: Any) -> "AbstractView":
        return apply(operator.ge, self, other)

    def __eq__(self, other: object) -> "AbstractView":  # type: ignore[override]
        return apply(operator.eq, self, other)

    def __ne__(self, other: object) -> "AbstractView":  # type: ignore[override]
        return apply(operator.ne, self, other)

    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False, repr=False)
class FieldView(AbstractView):
    """A field of the problem, as a rule reads it."""

    name: str
    layout: Layout
    context: AbstractContext

    def value(self, shift: Shift) -> jax.Array:
        return self.context.read_field(self.name, shift)

    def exact(self, world: AbstractWorld) -> Exact:
        return world.field(self.name)

    def parity(self, axis: str) -> int | None:
        return self.layout.shift(axis) % 2

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, repr=False)
class ParameterView(AbstractView):
    """A parameter labelled by axes, read like a field."""

    name: str
    axes: tuple[str, ...]
    faces: frozenset[str]
    context: AbstractContext
    hint = (
        " The parameter has the shape of the grid and is read like a field; to index it as an array pass fd.whole(...)."
    )

    def value(self, shift: Shift) -> jax.Array:
        return self.context.read_parameter(self.name, shift)

    def exact(self, world: AbstractWorld) -> Exact:
        return world.parameter(self.name)

    def parity(self, axis: str) -> int | None:
        if axis not in self.axes:
            return None
        return self.context.grid.space_axis(axis).shift(axis in self.faces) % 2

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, repr=False)
class CoordinateView(AbstractView):
    """The coordinate of a space axis, as a quantity that can be differenced."""

    axis: str
    context: AbstractContext

    def value(self, shift: Shift) -> jax.Array:
        return self.context.read_coordinate(self.axis, shift)

    def exact(self, world: AbstractWorld) -> Exact:
        return world.coordinate(self.axis)

    def parity(self, axis: str) -> int | None:
        return None

    def __repr__(self) -> str:
        return self.axis


@dataclass(frozen=True, eq=False, repr=False)
class Pointwise(AbstractView):
    """A function of views and plain values, taken point by point."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    context: AbstractContext

    def value(self, shift: Shift) -> jax.Array:
        values = []
        for argument in self.arguments:
            if isinstance(argument, AbstractView):
                values.append(argument.value(shift))
            else:
                if any(shift):
                    self.context.note_shifted_constant(argument)
                values.append(argument)
        if any(shift) and getattr(self.function, "__module__", None) != "_operator":
            for captured in _captured(self.function, values):
                self.context.note_shifted_constant(captured)
        return self.function(*values)

    def exact(self, world: AbstractWorld) -> Exact:
        parts = [exact_part(part, world) for part in self.arguments]
        return lambda point: self.function(*(part(point) for part in parts))

    def parity(self, axis: str) -> int | None:
        found = (part.parity(axis) for part in self.arguments if isinstance(part, AbstractView))
        return next((p for p in found if p is not None), None)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "function")
        return f"{name}({', '.join(str(part) for part in self.arguments)})"


def _captured(function: Callable[..., Any], values: list[Any]) -> list[Any]:
    """The traced values that a function uses besides its arguments: they do not move with the point."""
    traced = [value for value in values if isinstance(value, Tracer)]

    def of_traced(*given: Any) -> Any:
        rest = iter(given)
        return function(*(next(rest) if isinstance(value, Tracer) else value for value in values))

    return [const for const in jax.make_jaxpr(of_traced)(*traced).consts if isinstance(const, Tracer)]


def exact_part(part: Any, world: AbstractWorld) -> Exact:
    """The exact counterpart of what is a view, or a value that is the same everywhere."""
    return part.exact(world) if isinstance(part, AbstractView) else lambda point: part


def apply(function: Any, *arguments: Any) -> Any:
    """Lifts a function of scalars to views: the result can be read and differenced again.

    `fd.apply(jnp.exp, u)` is the view of exp(u). Plain values among the arguments stay as they are.
    """
    contexts = [argument.context for argument in arguments if isinstance(argument, AbstractView)]
    if not callable(function):
        raise DeclarationError(
            f"`fd.apply` takes a function and what it is applied to, as in fd.apply(jnp.exp, u); got {function!r} "
            f"first."
        )
    if not contexts:
        return function(*arguments)
    if any(context is not contexts[0] for context in contexts):
        raise DeclarationError(
            f"{contexts[0].what}: {' and '.join(map(str, arguments))} belong to different rules. Read what a rule "
            f"needs "
            f"through its own arguments."
        )
    return Pointwise(function, arguments, contexts[0])


def coordinate(view: Any, axis: Any) -> AbstractView:
    """The coordinate of an axis as a view, so that it moves with the point when differenced.

    `derivative(fd.coordinate(u, "x") * u, "x")` is ∂(x u)/∂x; the argument `x` of a rule is its value at the point.
    """
    if not isinstance(view, AbstractView):
        raise DeclarationError(
            f"`fd.coordinate` takes a view of the rule it is used in and the name of an axis, as in "
            f'fd.coordinate(u, "x"); got {type(view).__name__} first.'
        )
    if axis not in view.context.grid.names:
        raise DeclarationError(
            f"{view.context.what}: unknown axis `{axis}`; the axes are {', '.join(view.context.grid.names)}."
        )
    return CoordinateView(axis, view.context)
