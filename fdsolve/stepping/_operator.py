"""What a declaration's residuals or rates do about a state, as a linear map of the unknown values."""

from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..errors import PlanningError
from ..kernels import Arrays, Level, selector, take_box
from ..planning import Known, PhaseStructure, Solve, Structure, outline_system, pieces_of
from ..schemes import ALL
from ..solvers import StencilMatrix, SystemOutline, Vector, probe
from ._fill import complete, complete_inner
from ._implicit import Canvas
from ._linear_system import masked
from ._state import State
from ._system import System
from ._systems import Equations
from ._time import time_of


@dataclass(frozen=True)
class Operator:
    """F of F(x) = 0, or of dx/dt = F(x), for the unknown values x of `fields`: static.

    `stage` holds all residuals of the last level, None for rates; `affine` says whether F is.
    """

    structure: Structure
    axes: tuple[str, ...]
    fields: tuple[str, ...]
    stage: Solve | None
    outline: SystemOutline
    affine: bool

    @property
    def phase(self) -> PhaseStructure:
        """What happens at the last level."""
        return self.structure.phases[self.structure.segments[-1].phases[-1]]

    @property
    def number(self) -> int:
        """The last level."""
        return self.structure.segments[-1].stop - 1

    @property
    def canvas(self) -> Canvas:
        """Where the unknown values of rates lie."""
        return Canvas.of(self.structure, self.phase.given, self.fields)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a field's array of unknown values."""
        if self.stage is not None:
            return self.structure.array(name).shape
        return self.canvas.whole(self.fields.index(name)).shape


def find_operator(structure: Structure, axes: tuple[str, ...]) -> Operator:
    """The operator of a plan: of its rates where it has some, else of all its residuals together.

    Raises PlanningError where there are neither.
    """
    phase = structure.phases[structure.segments[-1].phases[-1]]
    assert structure.facts is not None
    solved = [stage for stage in phase.stages if isinstance(stage, Solve)]
    if phase.rates:
        fields = tuple(dict.fromkeys(piece.field for piece in phase.rates))
        beside = [p for stage in phase.every_stage if not isinstance(stage, Solve) for p in pieces_of(stage)]
        known = outline_system(structure.facts, phase.rates, beside, structure.rules, scaled=True)
        _check_matrix(fields, known)
        outline = known.outline
        if solved:  # through what is solved for, rows depend on points anywhere
            outline = replace(outline, layout=None)
        return Operator(structure, axes, fields, None, outline, known.affine)
    if not solved:
        raise PlanningError(
            "There is no operator: no rule of the last level is a residual or a rate. Give one as fd.residual(...), or "
            "as fd.rate(...) on a grid with time."
        )
    inner = tuple(one for stage in phase.stages for one in (stage.inner if isinstance(stage, Solve) else (stage,)))
    stage = Solve(
        tuple(piece for one in solved for piece in one.residuals),
        inner,
        tuple(piece for one in solved for piece in one.guesses),
    )
    known = outline_system(structure.facts, stage.residuals, stage.beside, structure.rules)
    _check_matrix(stage.fields, known)
    return Operator(structure, axes, stage.fields, stage, known.outline, known.affine)


def _check_matrix(fields: tuple[str, ...], known: Known) -> None:
    """Refuses an operator whose derivative has no matrix over the numbers that its fields hold."""
    if known.parts is not None:
        raise PlanningError(
            f"The operator of {', '.join(fields)} has no complex matrix: it takes conj, abs, real or imag of unknown "
            f"values, or real fields beside complex ones. Declare real and imaginary parts as two real fields."
        )


@dataclass(frozen=True, eq=False)
class Running:
    """An operator with its arrays; `base` is the state that rates start from, where values that are not unknown come
    from."""

    operator: Operator
    arrays: Arrays
    base: Vector

    @property
    def equations(self) -> Equations:
        """The residuals, on a level on which nothing stands yet."""
        operator, structure = self.operator, self.operator.structure
        assert operator.stage is not None
        zeros = {one.name: jnp.zeros(one.padded_shape, one.dtype) for one in structure.arrays}
        older = {one.name: (zeros[one.name],) * max(one.kept, 1) for one in structure.arrays}
        time = time_of(self.arrays, operator.number)
        level = Level(structure, self.arrays, {}, older, operator.number, 1.0, time)
        stage, phase, axes = operator.stage, operator.phase, operator.axes
        return Equations(stage, level, axes, lambda level: complete_inner(structure, phase, stage, level, axes))

    @property
    def system(self) -> System:
        """The rates."""
        operator, levels = self.operator, {}
        for one in operator.structure.carried:
            array = jnp.zeros(one.padded_shape, one.dtype)
            if one.name in self.base:
                array = lax.dynamic_update_slice(array, self.base[one.name], one.lower)
            levels[one.name] = (array,) * max(one.kept, 1)
        number = max(operator.number, 1)
        return System(operator.structure, operator.phase, self.arrays, State(levels), number, operator.axes)

    def free(self) -> dict[str, jax.Array]:
        """Where values are unknown: not where rules under run-time predicates set them."""
        operator = self.operator
        if operator.stage is not None:
            return self.equations.free()
        found, level = operator.canvas.free(), self.system._moment({}, 1.0)
        for piece in (one for stage in operator.phase.stages for one in pieces_of(stage)):
            if piece.field in found and piece.predicate is not None and piece.role in ("value", "hole"):
                held = selector(level, piece, operator.axes, piece.box)
                start = operator.canvas.whole(operator.fields.index(piece.field)).start
                assert held is not None
                here = take_box(found[piece.field], start, piece.box) & ~held
                place = [a - b for a, b in zip(piece.box.start, start, strict=True)]
                found[piece.field] = lax.dynamic_update_slice(found[piece.field], here, place)
        return found

    def start(self) -> Vector:
        """The state about which the operator is looked at: `base`, else the declared guess."""
        operator = self.operator
        if operator.stage is None:
            system = self.system
            found = operator.canvas.vector(system.start)  # type: ignore[attr-defined]
        elif self.base:
            found = {name: self.base[name] for name in operator.fields}
        else:
            found = self.equations.guess(self.free())
        free = self.free()
        return {name: jnp.where(free[name], one, jnp.zeros((), one.dtype)) for name, one in found.items()}

    def value(self, x: Vector) -> Vector:
        """F(x); zero at points that are not unknown."""
        if self.operator.stage is not None:
            return self.equations.residual(x, self.free())
        system, canvas = self.system, self.operator.canvas
        start = system.start  # type: ignore[attr-defined]
        slopes = canvas.vector({**start, **system.rates(canvas.values(x, start), 1.0, None, ALL)})
        return masked(slopes, self.free())

    def completed(self, x: Vector) -> Vector:
        """The declared fields, on all their points."""
        operator, structure = self.operator, self.operator.structure
        if operator.stage is not None:
            level = self.equations.standing(x, self.free())
        else:
            system = self.system
            values = operator.canvas.values(x, system.start)  # type: ignore[attr-defined]
            level = system._moment(system._padded(values, {}), 1.0)
            level = complete(structure, operator.phase, level, operator.axes)
        return {one.name: take_box(level.current[one.name], one.origin, one.interior) for one in structure.declared}


@partial(jax.jit, static_argnums=0)
def find_free(operator: Operator, arrays: Arrays) -> dict[str, jax.Array]:
    """Where values are unknown."""
    return Running(operator, arrays, {}).free()


@partial(jax.jit, static_argnums=0)
def find_matrix(
    operator: Operator, arrays: Arrays, base: Vector
) -> tuple[StencilMatrix | jax.Array, dict[str, jax.Array]]:
    """The derivative of F about the state: in stencil form, or (points, points) where rows can depend on points
    anywhere; and where values are unknown."""
    running = Running(operator, arrays, base)
    x, free = running.start(), running.free()

    def push(v: Vector) -> Vector:
        return jax.jvp(running.value, (x,), (v,))[1]

    if operator.outline.layout is not None:
        return probe(jax.linearize(running.value, x)[1], operator.outline.layout, free), free
    sizes = {name: int(one.size) for name, one in x.items()}
    dtype = jnp.result_type(*x.values())

    def column(at: jax.Array) -> jax.Array:
        unit, begin = {}, 0
        for name, one in x.items():
            flat = (jnp.arange(begin, begin + sizes[name]) == at).astype(one.dtype).reshape(one.shape)
            unit[name], begin = jnp.where(free[name], flat, jnp.zeros((), one.dtype)), begin + sizes[name]
        return jnp.concatenate([one.astype(dtype).ravel() for one in push(unit).values()])

    return lax.map(column, jnp.arange(sum(sizes.values()))).T, free


@partial(jax.jit, static_argnums=0)
def find_change(operator: Operator, arrays: Arrays, base: Vector, v: Vector) -> Vector:
    """The derivative of F about the state along each of the vectors stacked in v (real ones along a real F)."""
    running = Running(operator, arrays, base)
    x = running.start()
    return jax.vmap(lambda one: jax.jvp(running.value, (x,), (one,))[1])(v)


@partial(jax.jit, static_argnums=0)
def find_images(operator: Operator, arrays: Arrays, base: Vector, v: Vector) -> tuple[Vector, Vector]:
    """What `find_change` gives, and how the declared fields follow the changes of the unknown values."""
    running = Running(operator, arrays, base)
    x = running.start()

    def both(x: Vector) -> tuple[Vector, Vector]:
        return running.value(x), running.completed(x)

    return jax.vmap(lambda one: jax.jvp(both, (x,), (one,))[1])(v)


def as_vectors(operator: Operator, flat: Any) -> Vector:
    """Rows of values at all points (field after field) as stacked arrays by field."""
    found, at = {}, 0
    for name in operator.fields:
        shape = operator.shape(name)
        size = prod(shape)
        found[name] = jnp.asarray(flat[:, at : at + size].reshape(-1, *shape))
        at += size
    return found
