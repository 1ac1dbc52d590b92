"""How rules use the ghost values of a field: as diffusion, waves or advection do; and where something flows in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..field import AbstractOrdered, Use
from ..stencil import ProfileRead, StateRead, WholeRead
from ._ghosts import Uses
from ._phases import Phase
from ._pieces import Piece, RuleBook
from ._walls import Side

_DEMANDING = (Use.DIFFUSION, Use.WAVE, Use.ADVECTION)
_MOST_READS = 64
_GEOMETRY = ("coordinate ", "spacing ", "weight ")


@dataclass(frozen=True)
class Moments:
    """Σ w·Δx and Σ w·Δx² of what a rule reads of one field along an axis, as shares of Σ |w·Δx| and Σ |w| Δx²."""

    first: float
    second: float
    tolerance: float

    @property
    def odd(self) -> bool:
        """Whether the rule has a first derivative."""
        return bool(abs(self.first) > self.tolerance)

    @property
    def even(self) -> bool:
        """Whether the rule has a second derivative."""
        return bool(abs(self.second) > self.tolerance)


def find_uses(book: RuleBook, phases: Sequence[Phase], pieces: Sequence[Sequence[Piece]]) -> Uses:
    """What the ghost values of each field beyond each wall are used for: the most demanding of all uses.

    It depends on the structure of the rules alone: parameters take made-up values, so that a plan is the same under
    `jax.jit`. Looked at only where a condition of high order depends on it.
    """
    found: Uses = {}
    for phase, group in zip(phases, pieces, strict=True):
        for name, one in phase.fields.items():
            layout = book.problem.scope.layouts[name]
            for wall in one.walls:
                rule, on_point = wall.assignment.rule, layout.shift(layout.space[wall.side.axis]) == 0
                if not isinstance(rule, AbstractOrdered):
                    continue
                if all(rule.stable_order(use, on_point) == rule.order for use in Use):
                    continue
                uses = [_use(book, piece, name, wall.side) for piece in group if _reaches(book, piece, name, wall.side)]
                known = [*uses, found.get((name, wall.side), Use.DIFFUSION)]
                found[name, wall.side] = max(known, key=_DEMANDING.index)
    return found


def _reaches(book: RuleBook, piece: Piece, name: str, side: Side) -> bool:
    """Whether a piece reads a field beyond a wall."""
    size = book.problem.scope.layouts[name].space_shape[side.axis]
    for read in book.rules[piece.rule].reads:
        box = piece.box.shift(read.offset)
        if read.field == name and (box.stop[side.axis] > size if side.upper else box.start[side.axis] < 0):
            return piece.role in ("value", "rate")
    return False


def _use(book: RuleBook, piece: Piece, name: str, side: Side) -> Use:
    scope, rule = book.problem.scope, book.rules[piece.rule]
    axis = scope.grid.space[side.axis]
    owner = book.hidden[piece.field].owner if piece.field in book.hidden else piece.field
    levels = {read.level for read in rule.reads if read.field == owner}
    moments = _moments(book, piece, name, side, generic=True)
    if moments is None:
        return Use.DIFFUSION
    if moments.odd and not moments.even:
        staggered = scope.layouts[owner].shift(axis) != scope.layouts[name].shift(axis)
        return Use.WAVE if staggered else Use.ADVECTION
    imaginary = jnp.issubdtype(scope.dtypes[name], jnp.complexfloating)
    return Use.WAVE if owner != name or imaginary or min(levels, default=0) < -1 else Use.DIFFUSION


def inflow_notes(book: RuleBook, phases: Sequence[Phase], pieces: Sequence[Sequence[Piece]]) -> list[str]:
    """Walls where a first derivative carries a field into the grid and nothing gives its value."""
    notes: dict[str, None] = {}
    for phase, group in zip(phases, pieces, strict=True):
        for piece in group:
            name = piece.field
            if name not in phase.fields or piece.role not in ("value", "rate") or phase.levels[0] == 0:
                continue
            layout = book.problem.scope.layouts[name]
            for position, axis in enumerate(layout.space):
                for side in (Side(position, False), Side(position, True)):
                    at = side.index(layout.space_shape)
                    touches = piece.box.start[position] <= at < piece.box.stop[position]
                    closed = any(wall.side == side for wall in phase.fields[name].walls)
                    if not touches or closed or layout.grid.space_axis(axis).periodic:
                        continue
                    moments = _moments(book, piece, name, side, generic=False)
                    if moments is None or not moments.odd or moments.first * side.outward < 0:
                        continue
                    notes[
                        f"inflow without a value at the {side.word} end of {axis}: {piece.label} carries `{name}` in; "
                        f"assign {name}[dict({axis}={-1 if side.upper else 0})] = fd.boundary.Dirichlet(...)"
                    ] = None
    return list(notes)


def _moments(book: RuleBook, piece: Piece, name: str, side: Side, generic: bool) -> Moments | None:
    """The moments of a piece's weights in its row next to a wall; None where they are not known.

    With `generic` parameters and times have made-up values and nonlinear rules are linearised about a constant;
    otherwise only affine rules with known weights have moments.
    """
    rule = book.rules[piece.rule]
    if len(rule.reads) > _MOST_READS:
        return None
    found = {i: o for i, o in enumerate(rule.operands) if isinstance(o, StateRead) and o.field == name}
    reads = list(found)
    if not any(read.offset[side.axis] for read in found.values()) or not (generic or rule.affine):
        return None
    row = [(a + b) // 2 for a, b in zip(piece.box.start, piece.box.stop, strict=True)]
    row[side.axis] = piece.box.stop[side.axis] - 1 if side.upper else piece.box.start[side.axis]
    values, consts = _operand_values(book, piece, tuple(row), generic)
    if values is None or any(isinstance(c, Tracer) for c in consts):
        return None
    with jax.ensure_compile_time_eval():
        function = rule.function(consts)

        def of_reads(*states: Any) -> Any:
            given = list(values)
            for index, state in zip(reads, states, strict=True):
                given[index] = state
            return function(*given)

        weights = []
        for index in range(len(reads)):
            states = tuple(values[i] for i in reads)
            tangents = tuple(jnp.ones_like(s) if i == index else jnp.zeros_like(s) for i, s in enumerate(states))
            weights.append(complex(jax.jvp(of_reads, states, tangents)[1]))
    places = np.array([_distance(book, piece, read, side.axis, row[side.axis]) for read in found.values()])
    return _shares(np.array(weights), places, book.problem.scope.real)


def _shares(weights: np.ndarray, places: np.ndarray, real: Any) -> Moments | None:
    if not np.isfinite(weights).all():
        return None
    scale = np.abs(weights) @ np.abs(places), np.abs(weights) @ places**2
    if not all(scale):
        return None
    total = weights @ places
    first = np.real(total) if abs(np.real(total)) > abs(np.imag(total)) else abs(np.imag(total))
    return Moments(float(first / scale[0]), float(abs(weights @ places**2) / scale[1]), 10 * np.finfo(real).eps ** 0.5)


def _distance(book: RuleBook, piece: Piece, read: StateRead, axis: int, row: int) -> float:
    """How far along an axis a read lies from the point of the rule in a row."""
    scope = book.problem.scope
    owner, name = scope.grid.space_axis(scope.grid.space[axis]), scope.grid.space[axis]
    here = book.hidden[piece.field].layout if piece.field in book.hidden else scope.layouts[piece.field]
    at = row + read.offset[axis]
    there = scope.layouts[read.field]
    ends = owner.positions(name in there.faces, at, at + 1)[0], owner.positions(name in here.faces, row, row + 1)[0]
    return float(ends[0] - ends[1])


def _operand_values(
    book: RuleBook, piece: Piece, row: tuple[int, ...], generic: bool
) -> tuple[list[Any] | None, tuple[Any, ...]]:
    """A value for each operand of a rule at a point, and for its constants; no values where one is traced."""
    rule, store, grid = book.rules[piece.rule], book.problem.store, book.problem.scope.grid
    random = np.random.default_rng(7)
    made = {name: float(random.uniform(0.6, 1.4)) for name in sorted({o.field for o in rule.reads})}
    known = {"dt": grid.time.step, "t": grid.time.start} if grid.time is not None else {}
    values: list[Any] = []
    for operand, variable in zip(rule.operands, rule.jaxpr.invars, strict=True):
        spec = variable.aval
        value: Any = random.uniform(0.6, 1.4, spec.shape)
        if isinstance(operand, StateRead):
            value = made[operand.field]
        elif isinstance(operand, ProfileRead) and (not generic or operand.name.startswith(_GEOMETRY)):
            at = dict(zip(grid.space, row, strict=True))
            start = tuple(at.get(axis, 0) + offset for axis, offset in zip(operand.axes, operand.offset, strict=True))
            array = store.find(operand).build(start, tuple(s + 1 for s in start))
            if isinstance(array, Tracer):
                return None, ()
            value = np.asarray(array).reshape(-1)[0]
        elif isinstance(operand, WholeRead) and not generic:
            value = known.get(operand.name, store.wholes.get(operand.name))
            if value is None or isinstance(value, Tracer):
                return None, ()
        values.append(np.asarray(value).astype(spec.dtype))
    consts = rule.consts
    if generic:
        consts = tuple(
            random.uniform(0.6, 1.4, np.shape(c)).astype(c.dtype) if isinstance(c, Tracer) else c for c in consts
        )
    return values, consts
