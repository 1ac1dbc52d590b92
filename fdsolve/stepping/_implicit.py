"""Implicit stages: v = b + cΔt f(v) for the rates f of a level, solved as systems of equations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import Partial

from ..errors import PlanningError
from ..kernels import take_box
from ..planning import Array, ImplicitSystem, Structure, implicit_system
from ..region import Box
from ..schemes import ALL, AbstractSystem, Part, Values, Walls
from ..solvers import AbstractNonlinearSolver, Banded, StencilMatrix, SystemOutline, Vector, probe
from ._linear_system import Prepared, prepare_linear, solve_linear, spoiled
from ._nonlinear_system import solve_nonlinear

Key = tuple[Any, ...]
"""What one matrix serves: the kind of system, the factor, and the part of the rates or the axis."""


@dataclass(frozen=True)
class Canvas:
    """The arrays on which the unknown values of fields lie: from boxes to whole fields and back."""

    storages: tuple[Array, ...]
    boxes: tuple[tuple[Box, ...], ...]

    @classmethod
    def of(cls, structure: Structure, given: Sequence[tuple[str, tuple[Box, ...]]], fields: Sequence[str]) -> "Canvas":
        """Of the fields of a system; `given` are the boxes on which they have rates."""
        by_name = dict(given)
        return cls(tuple(structure.array(name) for name in fields), tuple(by_name[name] for name in fields))

    def whole(self, number: int) -> Box:
        """The field's own points, or with its ghosts where some of these are unknown too."""
        storage, boxes = self.storages[number], self.boxes[number]
        if all(box.intersect(storage.interior) == box for box in boxes):
            return storage.interior
        return Box(storage.origin, tuple(o + n for o, n in zip(storage.origin, storage.padded_shape, strict=True)))

    def vector(self, values: Values) -> Vector:
        """Values on boxes as whole arrays, zero elsewhere."""
        found = {}
        for number, (storage, boxes) in enumerate(zip(self.storages, self.boxes, strict=True)):
            whole = self.whole(number)
            array = jnp.zeros(whole.shape, storage.dtype)
            for value, box in zip(values[storage.name], boxes, strict=True):
                if box == whole:
                    array = value
                else:
                    start = [a - o for a, o in zip(box.start, whole.start, strict=True)]
                    array = lax.dynamic_update_slice(array, value, start)
            found[storage.name] = array
        return found

    def values(self, x: Vector, base: Values) -> Values:
        """Whole arrays as values on boxes; other fields as they stand in `base`."""
        found = dict(base)
        for number, (storage, boxes) in enumerate(zip(self.storages, self.boxes, strict=True)):
            origin = self.whole(number).start
            found[storage.name] = tuple(take_box(x[storage.name], origin, box) for box in boxes)
        return found

    def free(self) -> dict[str, jax.Array]:
        """Where values are unknown."""
        ones = {
            storage.name: tuple(jnp.ones(box.shape, storage.dtype) for box in boxes)
            for storage, boxes in zip(self.storages, self.boxes, strict=True)
        }
        return {name: jnp.abs(array) > 0 for name, array in self.vector(ones).items()}


@dataclass(frozen=True, eq=False)
class Stage:
    """F(v) = v − b − cΔt f(v) of an implicit stage, on whole arrays."""

    system: Any
    known: ImplicitSystem
    canvas: Canvas
    base: Values
    factor: float
    fraction: Any
    part: Part
    walls: Walls | None

    def residual(self, x: Vector) -> Vector:
        """F."""
        slopes = self.system.rates(self.canvas.values(x, self.base), self.fraction, self.walls, self.part)
        moved, start = self.canvas.vector({**self.base, **slopes}), self.canvas.vector(self.base)
        step = self.system.step * jnp.asarray(self.factor, self.system.step.dtype)
        return {name: x[name] - start[name] - step.astype(x[name].dtype) * moved[name] for name in x}


def solve_implicit(
    system: Any,
    base: Values,
    factor: float,
    fraction: Any,
    guess: Values | None,
    part: Part,
    walls: Walls | None,
) -> tuple[Values, jax.Array]:
    """v, and whether it was found."""
    known = implicit_system(system.structure, system.phase, part)
    if known is None:
        return base, jnp.asarray(True)
    canvas = Canvas.of(system.structure, system.phase.given, known.fields)
    stage = Stage(system, known, canvas, base, factor, fraction, part, walls)
    start, free = canvas.vector(base if guess is None else guess), canvas.free()
    if isinstance(known.solver, AbstractNonlinearSolver):
        x, report = solve_nonlinear(known.solver, known.linear, known.outline, stage.residual, start, free)
    else:
        zeros = {name: jnp.zeros_like(one) for name, one in start.items()}
        value, push = jax.linearize(stage.residual, zeros)
        rhs = {name: -one for name, one in value.items()}
        prepared = system.systems.get(("implicit", factor, part)) if known.fixed else None
        x, report = solve_linear(known.linear, known.outline, push, rhs, lax.stop_gradient(start), free, prepared)
    return canvas.values(spoiled(x, report), base), report.converged


def prepare_implicit(system: Any, factor: float, part: Part) -> Prepared | None:
    """The matrix of a stage that is the same in all steps; None where there is none."""
    known = implicit_system(system.structure, system.phase, part)
    if known is None or not known.fixed or isinstance(known.solver, AbstractNonlinearSolver):
        return None
    canvas = Canvas.of(system.structure, system.phase.given, known.fields)
    stage = Stage(system, known, canvas, system.start, factor, 1.0, part, None)
    zeros = {name: jnp.zeros_like(one) for name, one in canvas.vector(system.start).items()}
    push = jax.linearize(stage.residual, zeros)[1]
    return lax.stop_gradient(prepare_linear(known.linear, known.outline, push, canvas.free()))


_WHOLE = "Take fd.schemes.CrankNicolson(), which splits nothing."


def solve_along(system: Any, axis: str, factor: float, rhs: Values, fraction: Any) -> Values:
    """(I − cΔt A_axis) v = rhs, with the entries along one axis of the Jacobian of the rates."""
    known = _system_along(system)
    if known is None:
        return rhs
    canvas = Canvas.of(system.structure, system.phase.given, known.fields)
    right, parts = canvas.vector(rhs), known.outline.parts
    prepared = system.systems.get(("axis", factor, axis)) if known.fixed else None
    outline, matrix = along_axis(known, canvas, rates_along(system, canvas, axis, fraction), system, axis, factor)
    right = right if parts is None else parts.split(right)
    apply, start = Partial(StencilMatrix.apply, matrix), lax.stop_gradient(right)
    x, _ = solve_linear(Banded(axis), outline, apply, right, start, matrix.free, prepared)
    return canvas.values(x if parts is None else parts.join(x), rhs)


def prepare_along(system: Any, axis: str, factor: float) -> Prepared | None:
    """The factors of an axis that are the same in all steps; None where there are none."""
    known = _system_along(system)
    if known is None or not known.fixed:
        return None
    canvas = Canvas.of(system.structure, system.phase.given, known.fields)
    outline, matrix = along_axis(known, canvas, rates_along(system, canvas, axis, 1.0), system, axis, factor)
    return lax.stop_gradient(prepare_linear(Banded(axis), outline, matrix.apply, matrix.free))


def _system_along(system: Any) -> ImplicitSystem | None:
    """The system whose entries are split by axes; refused where they can lie anywhere, or lines are not shared."""
    known = implicit_system(system.structure, system.phase, ALL)
    if known is None:
        return None
    what, layout = repr(system.structure.stepper), known.outline.layout
    if layout is None:
        raise PlanningError(
            f"{what} splits the entries of rows by the axis along which they reach, and those of "
            f"{', '.join(known.fields)} can depend on points anywhere (an operation on all values at once). {_WHOLE}"
        )
    if any(system.structure.array(name).hidden for name in known.fields):
        raise PlanningError(
            f"{what} splits rates by axes, and absorbing layers (PML) remember derivatives at their own points, which "
            f"belong to no axis. {_WHOLE}"
        )
    if len(set(layout.shapes)) > 1:
        listed = (f"{name} at {' × '.join(map(str, layout.shape(name)))}" for name in layout.fields)
        raise PlanningError(
            f"{what} splits rates by axes and solves along lines that all fields share, and these lie at different "
            f"points ({', '.join(listed)}). {_WHOLE}"
        )
    return known


def rates_along(system: Any, canvas: Canvas, axis: str, fraction: Any) -> Callable[[Vector], Vector]:
    """The derivative along an axis of the rates at the level before."""

    def rates(x: Vector) -> Vector:
        slopes = system.axis_rates(axis, canvas.values(x, system.start), fraction)
        return canvas.vector({**system.start, **slopes})

    return rates


def along_axis(
    known: ImplicitSystem, canvas: Canvas, push: Callable[[Vector], Vector], system: Any, axis: str, factor: float
) -> tuple[SystemOutline, StencilMatrix]:
    """I − cΔt A_axis, of entries that reach along the axis; of the parts of the unknown values, where they are."""
    layout, free, parts = known.outline.layout, canvas.free(), known.outline.parts
    assert layout is not None
    if parts is not None:
        push, free = parts.through(push), parts.of_both(free)
    position, zero = known.outline.axes.index(axis), (0,) * layout.ndim
    blocks = tuple(
        (row, column, (zero, *(o for o in offsets if o[position] and sum(map(bool, o)) == 1)))
        for row, column, offsets in layout.blocks
    )
    thin = replace(layout, blocks=blocks)
    step, values = system.step * jnp.asarray(factor, system.step.dtype), []
    for (row, column, _), own in zip(blocks, probe(push, thin, free).values, strict=True):
        entries = -step.astype(own.dtype) * own
        values.append(entries.at[0].add(free[row].astype(own.dtype)) if row == column else entries)
    return replace(known.outline, layout=thin, constant=False, parts=None), StencilMatrix(thin, tuple(values), free)


@dataclass(frozen=True, eq=False)
class Recording(AbstractSystem):
    """A system that writes down which systems of equations a step solves, and solves none."""

    inner: Any
    solved: list[Key]

    def __post_init__(self) -> None:
        for name in ("number", "step", "start", "signs"):
            object.__setattr__(self, name, getattr(self.inner, name))

    def rates(self, values: Values, fraction: Any, walls: Walls | None = None, part: Part = ALL) -> Values:
        return self.inner.rates(values, fraction, walls, part)

    def speeds(self, values: Values, fraction: Any) -> Any:
        return self.inner.speeds(values, fraction)

    def symbol(self) -> Any:
        return self.inner.symbol()

    def constant_rates(self, fraction: Any) -> Values:
        return self.inner.constant_rates(fraction)

    def solve(
        self,
        base: Values,
        factor: Any,
        fraction: Any,
        guess: Values | None = None,
        part: Part = ALL,
        walls: Walls | None = None,
    ) -> tuple[Values, Any]:
        self.solved.append(("implicit", float(factor), part))
        return base, jnp.asarray(True)

    def axis_solve(self, axis: str, factor: Any, rhs: Values, fraction: Any) -> Values:
        self.solved.append(("axis", float(factor), axis))
        return rhs

    def axis_change(self, axis: str, fraction: Any) -> Values:
        return self.inner.axis_change(axis, fraction)


def prepare_stepper(system: Any, memory: Any, prepared: Any, starts: bool) -> dict[Key, Prepared]:
    """The matrices of a stepper's systems that are the same in all steps, by what they serve."""
    stepper, solved = system.structure.stepper, []
    if not stepper.solves:
        return {}
    recording = Recording(system, solved)
    for advance in (stepper.step, *((stepper.first_step,) if starts else ())):
        jax.eval_shape(lambda advance=advance: advance(recording, memory, prepared)[0])
    found: dict[Key, Prepared] = {}
    for key in dict.fromkeys(solved):
        kind, factor, what = key
        made = prepare_implicit(system, factor, what) if kind == "implicit" else prepare_along(system, what, factor)
        if made is not None:
            found[key] = made
    return found
