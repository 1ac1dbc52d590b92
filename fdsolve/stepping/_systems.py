"""Residuals solved for the fields they determine, inside a level: values, derivatives and how it went."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import Arrays, Level, evaluate, selector, take_box
from ..planning import PhaseStructure, Piece, Solve, Structure
from ..solvers import AbstractNonlinearSolver, Continuation, Report, Vector, kept_finite
from ._linear_system import Prepared, prepare_linear, solve_linear, spoiled
from ._nonlinear_system import solve_nonlinear

Complete = Callable[[Level], Level]
Systems = Mapping[Any, Prepared]
"""Systems whose matrix is the same at all levels, made ready before the march."""


@dataclass(frozen=True, eq=False)
class Equations:
    """F(x) = 0 for the unknown values of a stage, at a level on which everything before it stands.

    `complete` carries out the stages that follow from the unknown values.
    """

    stage: Solve
    level: Level
    axes: tuple[str, ...]
    complete: Complete

    def free(self) -> dict[str, jax.Array]:
        """Where residuals hold, by field: later rules take points away again."""
        structure = self.level.structure
        found = {name: jnp.zeros(structure.array(name).shape, bool) for name in self.stage.fields}
        for piece in (*self.stage.residuals, *self.stage.beside):
            if piece.field not in found or piece.adds:
                continue
            box = piece.box.intersect(structure.array(piece.field).interior)
            if box.empty:
                continue
            origin = (0,) * box.ndim
            held = selector(self.level, piece, self.axes, box)
            here = jnp.full(box.shape, piece.role == "residual")
            if held is not None:
                here = jnp.where(held, here, take_box(found[piece.field], origin, box))
            found[piece.field] = lax.dynamic_update_slice(found[piece.field], here, box.start)
        return found

    def guess(self, free: Mapping[str, jax.Array]) -> Vector:
        """Where the iteration starts: the declared guess, the level before, or zero."""
        found = {}
        for name in self.stage.fields:
            storage = self.level.structure.array(name)
            older = self.level.older.get(name, ())
            start = jnp.zeros(storage.shape, storage.dtype)
            if storage.kept and older:
                start = take_box(older[0], storage.origin, storage.interior)
            for piece in (piece for piece in self.stage.guesses if piece.field == name):
                value, held = evaluate(self.level, piece, self.axes), selector(self.level, piece, self.axes, piece.box)
                if held is not None:
                    value = jnp.where(held, value, take_box(start, (0,) * start.ndim, piece.box))
                start = lax.dynamic_update_slice(start, value, piece.box.start)
            found[name] = jnp.where(free[name], start, jnp.zeros((), start.dtype))
        return lax.stop_gradient(found)

    def standing(self, x: Vector, free: Mapping[str, jax.Array]) -> Level:
        """The level with unknown values put in, and all that follows from them."""
        level = self.level
        for name in self.stage.fields:
            storage = level.structure.array(name)
            base = level.current.get(name)
            base = jnp.zeros(storage.padded_shape, storage.dtype) if base is None else base
            inside = take_box(base, storage.origin, storage.interior)
            value = jnp.where(free[name], x[name], inside)
            level = level.with_current(name, lax.dynamic_update_slice(base, value, storage.lower))
        return self.complete(level)

    def residual(self, x: Vector, free: Mapping[str, jax.Array]) -> Vector:
        """F(x); zero at points that are not unknown."""
        level = self.standing(x, free)
        found = {name: jnp.zeros_like(x[name]) for name in x}
        for piece in self.stage.residuals:
            found[piece.field] = _add_piece(found[piece.field], level, piece, self.axes)
        return {name: jnp.where(free[name], one, jnp.zeros((), one.dtype)) for name, one in found.items()}


def _add_piece(total: jax.Array, level: Level, piece: Piece, axes: tuple[str, ...]) -> jax.Array:
    value, held = evaluate(level, piece, axes), selector(level, piece, axes, piece.box)
    below = take_box(total, (0,) * total.ndim, piece.box)
    value = below + value if piece.adds else value
    value = value if held is None else jnp.where(held, value, below)
    return lax.dynamic_update_slice(total, value, piece.box.start)


def solve_stage(stage: Solve, level: Level, axes: tuple[str, ...], complete: Complete) -> tuple[Level, Report]:
    """The level with the fields of a stage determined; they are nan where the solver did not get there."""
    equations = Equations(stage, level, axes, complete)
    free = equations.free()
    guess = equations.guess(free)

    def residual(x: Vector) -> Vector:
        return equations.residual(x, free)

    if isinstance(stage.solver, AbstractNonlinearSolver):
        before = 0
        if isinstance(stage.solver, Continuation):
            guess, before = _continued(stage.solver, equations, guess, free)
        x, report = solve_nonlinear(stage.solver, stage.linear, stage.outline, residual, guess, free)
        report = report._replace(iterations=report.iterations + before)
    else:
        zeros = {name: jnp.zeros_like(one) for name, one in guess.items()}
        value, push = jax.linearize(residual, zeros)
        rhs = {name: -one for name, one in value.items()}
        prepared = level.systems.get(stage)
        x, report = solve_linear(stage.linear, stage.outline, push, rhs, guess, free, prepared)
    return equations.standing(spoiled(x, report), free), report


def _continued(
    solver: Continuation, equations: Equations, guess: Vector, free: Mapping[str, jax.Array]
) -> tuple[Vector, jax.Array]:
    """The solution at the last parameter before the given one, and the iterations to it; without derivatives."""
    level, stage = equations.level, equations.stage
    stopped = lax.stop_gradient((level.arrays, level.current, level.older, level.time))
    level = replace(level, **dict(zip(("arrays", "current", "older", "time"), stopped, strict=True)), cuts={})
    key = solver.key(level.arrays.wholes)
    last = level.arrays.wholes[key]
    targets = jnp.stack([jnp.asarray(target, last.dtype) for target in solver.targets(last)])

    def one(x: Vector, target: jax.Array) -> tuple[Vector, jax.Array]:
        arrays = replace(level.arrays, wholes={**level.arrays.wholes, key: target})
        moved = replace(equations, level=replace(level, arrays=arrays))

        def residual(x: Vector) -> Vector:
            return moved.residual(x, free)

        found, report = solve_nonlinear(solver.newton, stage.linear, stage.outline, residual, x, free)
        return kept_finite(found, x), report.iterations

    x, counts = lax.scan(one, guess, targets)
    return lax.stop_gradient(x), jnp.sum(counts)


def prepare_system(
    stage: Solve, structure: Structure, arrays: Arrays, number: Any, axes: tuple[str, ...], complete: Complete
) -> Prepared:
    """The matrix of a stage whose matrix does not depend on the level, and what its solver makes of it."""
    current = {one.name: jnp.zeros(one.padded_shape, one.dtype) for one in structure.arrays}
    older = {one.name: (current[one.name],) * max(one.kept, 1) for one in structure.arrays}
    time = arrays.wholes["times"][number] if "times" in arrays.wholes else None
    level = Level(structure, arrays, current, older, number, 1.0, time)
    equations = Equations(stage, level, axes, complete)
    free = equations.free()
    zeros = {name: jnp.zeros(structure.array(name).shape, structure.array(name).dtype) for name in stage.fields}
    push = jax.linearize(lambda x: equations.residual(x, free), zeros)[1]
    return lax.stop_gradient(prepare_linear(stage.linear, stage.outline, push, free))


def solve_stages(phase: PhaseStructure) -> tuple[Solve, ...]:
    """The systems of a phase."""
    return tuple(stage for stage in phase.stages if isinstance(stage, Solve))
