"""Systems of equations: what can be told of the residuals that are solved together before any number is known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..boundary import Dirichlet, Neumann
from ..errors import PlanningError
from ..region import Box, Layout, Points
from ..solvers import MatrixLayout, Parts, Side, SystemOutline, choose
from ..stencil import AFFINE, CONSTANT, Operand, ProfileRead, StateRead, Traced, WholeRead, depends_on, output_degrees
from ._holomorphy import check_precision, derivative_of, find_parts, is_holomorphic, outline_of_parts, say_parts
from ._mirrors import find_mirrors, true_sides
from ._order import Solve
from ._phases import FieldPhase, Phase
from ._pieces import Piece
from ._problem import Problem

MAX_DEPTH = 12
"""Pieces that a read may pass through before it comes to an unknown."""

Marks = Callable[[Operand], bool]


@dataclass(frozen=True)
class Place:
    """What is static about where a field lies: its shape and dtype, what holds at its sides, and if it has holes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    sides: tuple[tuple[Side, Side], ...]
    holes: bool


@dataclass(frozen=True)
class Facts:
    """What systems of equations must know of a problem: axes, which of them are periodic or uniform, and its fields."""

    axes: tuple[str, ...]
    time_axis: str | None
    periodic: tuple[bool, ...]
    uniform: tuple[bool, ...]
    places: tuple[Place, ...]

    def place(self, name: str) -> Place:
        """Where a field lies."""
        return next(one for one in self.places if one.name == name)


def gather_facts(problem: Problem, phase: Phase, hidden: Sequence[str] = ()) -> Facts:
    """The facts of a phase; `hidden` are fields of which there are rates, though nobody declared them."""
    grid, places = problem.scope.grid, []
    for name in problem.names:
        layout, one = problem.scope.layouts[name], phase.fields[name]
        sides = tuple(_sides(layout, one, axis) for axis in range(len(grid.space)))
        dtype = np.dtype(problem.scope.dtypes[name]).str
        places.append(Place(name, layout.space_shape, dtype, sides, bool(one.holes)))
    inner = ((Side("other", True), Side("other", True)),) * len(grid.space)
    for name in hidden:
        dtype = np.dtype(problem.scope.dtypes[name]).str
        places.append(Place(name, problem.scope.layouts[name].space_shape, dtype, inner, False))
    return Facts(
        grid.space,
        grid.time_name,
        tuple(grid.space_axis(axis).periodic for axis in grid.space),
        tuple(grid.space_axis(axis).uniform for axis in grid.space),
        tuple(places),
    )


@dataclass(frozen=True)
class Known:
    """What is known of a system: its outline, whether it is affine, and whether its matrix is always the same; `parts`,
    where its derivative has a matrix only for the parts of its complex fields, how these are."""

    outline: SystemOutline
    affine: bool
    fixed: bool
    parts: Parts | None = None

    @property
    def solved(self) -> SystemOutline:
        """The outline of what is solved."""
        return self.outline if self.parts is None else outline_of_parts(self.outline, self.parts)


def outline_system(
    facts: Facts,
    rows: Sequence[Piece],
    beside: Sequence[Piece],
    rules: Sequence[Traced],
    scaled: bool = False,
    over: Sequence[Piece] = (),
) -> Known:
    """What can be read off the traced rules of a system: `rows` are its equations, `beside` what follows from the
    unknown values. `scaled` says that the identity is added to the matrix, `over` are rates of other parts that take
    the place of rows under run-time predicates."""
    pieces, fields = [*rows, *beside], tuple(dict.fromkeys(piece.field for piece in rows))
    defined = {piece.field for piece in pieces}
    wraps = _wraps(facts, fields, pieces, rules)
    blocks = _pattern(facts, fields, rows, beside, rules, wraps)
    dtype = np.result_type(*(np.dtype(facts.place(name).dtype) for name in fields))

    def inner(operand: Operand) -> bool:
        return isinstance(operand, StateRead) and operand.level == 0 and operand.field in defined

    def moves(operand: Operand) -> bool:
        older = isinstance(operand, StateRead) and not inner(operand)
        timed = isinstance(operand, ProfileRead) and facts.time_axis in operand.axes
        return older or timed or operand in (WholeRead("t"), WholeRead("passed"))

    affine = all(piece.operation is None and is_affine(rules[piece.rule], inner) for piece in pieces)
    predicates = {piece.predicate for piece in (*pieces, *over) if piece.predicate is not None}
    fixed = affine and not any(
        [
            *(weights_depend(rules[piece.rule], inner, moves) for piece in pieces),
            *(moves(operand) for number in predicates for operand in rules[number].operands),
        ]
    )
    following = [p for p in beside if p.role == "value" and any(inner(read) for read in rules[p.rule].reads)]
    sides = tuple(
        (Side("periodic", True), Side("periodic", True)) if wraps[axis] else _joint_side(facts, fields, axis, following)
        for axis in range(len(wraps))
    )
    mirrors: tuple[bool, ...] = ()
    if affine and len(fields) == 1:
        ghosts = [piece for piece in beside if piece.field == fields[0] and piece.role == "ghost"]
        sides = true_sides(sides, facts.place(fields[0]).shape, ghosts, rules, inner, facts.axes)
        mirrors = find_mirrors(fields[0], rows, beside, rules, inner, facts.axes)
    values = [p for p in beside if p.field in fields and p.role == "value" and p.predicate is not None]
    masked = next((piece.label for piece in (*values, *over)), "")
    shapes = tuple(facts.place(name).shape for name in fields)
    layout = None if blocks is None else MatrixLayout(fields, shapes, wraps, blocks, np.dtype(dtype).str)
    varies = _varies(facts, rows, beside, rules, inner, fields)
    if not affine or masked or not all(_fills_box(facts, name, rows, sides) for name in fields):
        varies = (True,) * len(facts.axes)
    floats = all(side.kind != "value" for pair in sides for side in pair) or len(fields) > 1
    outline = SystemOutline(
        layout,
        affine and not any(varies),
        facts.axes,
        sides,
        any(facts.place(name).holes for name in fields),
        facts.uniform,
        floats and not scaled,
        bool(np.issubdtype(dtype, np.complexfloating)),
        varies,
        mirrors,
        masked=masked,
    )
    # What an operation on all values does is not known: it may be the sum of their squares.
    known = affine or not np.issubdtype(dtype, np.complexfloating)
    holomorphic = known or all(p.operation is None and is_holomorphic(rules[p.rule], inner) for p in pieces)
    return Known(outline, affine, fixed, find_parts(fields, [facts.place(f).dtype for f in fields], holomorphic))


def _fills_box(facts: Facts, field: str, rows: Sequence[Piece], sides: Sequence[tuple[Side, Side]]) -> bool:
    """Whether the unknown values of a field are all those between walls on which values are known."""
    size = 1
    for num, pair in zip(facts.place(field).shape, sides, strict=True):
        size *= num - sum(side.kind == "value" and side.on_point for side in pair)
    return size == sum(piece.box.size for piece in rows if piece.field == field)


def _joint_side(facts: Facts, fields: tuple[str, ...], axis: int, following: Sequence[Piece]) -> tuple[Side, Side]:
    """What holds at both sides of an axis; walls with values that follow from unknown ones are of no simple kind."""
    first, *others = fields
    place = facts.place(first)
    boxes = [piece.box for piece in following if piece.field == first]
    low = any(box.start[axis] <= 0 for box in boxes)
    high = any(box.stop[axis] >= place.shape[axis] for box in boxes)
    other = Side("other", True)
    return other if others or low else place.sides[axis][0], other if others or high else place.sides[axis][1]


def outline_solve(
    problem: Problem, phase: Phase, stage: Solve, rules: Sequence[Traced], guesses: Sequence[Piece]
) -> Solve:
    """The stage with what is known of it."""
    _refuse_integers(problem, stage)
    facts = gather_facts(problem, phase)
    check_precision(stage.fields, [facts.place(name).dtype for name in stage.fields])
    known = outline_system(facts, stage.residuals, stage.beside, rules)
    own = tuple(piece for piece in guesses if piece.field in stage.fields)
    return replace(stage, outline=known.solved, affine=known.affine, fixed=known.fixed, guesses=own)


def _refuse_integers(problem: Problem, stage: Solve) -> None:
    for piece in stage.residuals:
        if not jnp.issubdtype(problem.scope.dtypes[piece.field], jnp.inexact):
            raise PlanningError(
                f"{piece.label}: equations are solved for real or complex numbers, and `{piece.field}` has dtype "
                f"{np.dtype(problem.scope.dtypes[piece.field])}. Declare it with dtype=float."
            )


def is_affine(rule: Traced, inner: Marks) -> bool:
    """Whether a rule is affine in the operands marked."""
    degrees = [CONSTANT] * len(rule.jaxpr.constvars) + [AFFINE if inner(o) else CONSTANT for o in rule.operands]
    return output_degrees(rule.jaxpr, degrees)[0] <= AFFINE


def weights_depend(rule: Traced, inner: Marks, marked: Marks) -> bool:
    """Whether the derivative of a rule with respect to its inner reads depends on marked operands."""
    moving = [inner(operand) for operand in rule.operands]
    marks = [marked(operand) for operand in rule.operands]
    if not any(moving) or not any(marks):
        return False
    closed, count = derivative_of(rule, moving)
    flags = [False] * len(closed.jaxpr.constvars) + marks + [False] * count
    return any(depends_on(closed.jaxpr, flags))


def _varies(
    facts: Facts,
    rows: Sequence[Piece],
    beside: Sequence[Piece],
    rules: Sequence[Traced],
    inner: Marks,
    fields: Sequence[str],
) -> tuple[bool, ...]:
    """Along which axes the weights of the unknown values vary; along all where several rules hold."""

    def varies(operand: Operand, axis: str) -> bool:
        known = isinstance(operand, StateRead) and not inner(operand)
        return known or (isinstance(operand, ProfileRead) and axis in operand.axes)

    def either(found: tuple[bool, ...], number: int) -> tuple[bool, ...]:
        along = (weights_depend(rules[number], inner, partial(varies, axis=axis)) for axis in facts.axes)
        return tuple(a or b for a, b in zip(found, along, strict=True))

    derived = [piece for piece in beside if piece.field not in fields and piece.role != "ghost"]
    found = (False,) * len(facts.axes)
    for group in (rows, *([p for p in derived if p.field == name] for name in {p.field for p in derived})):
        numbers = {piece.rule for piece in group}
        if len(numbers) > 1 or any(p.mask is not None or p.predicate is not None or p.adds for p in group):
            return (True,) * len(facts.axes)
        (number,) = numbers
        found = either(found, number)
    for number in {piece.rule for piece in beside if piece.field in fields}:  # walls, and what lies beyond them
        found = either(found, number)
    return found


def _wraps(facts: Facts, fields: tuple[str, ...], pieces: Sequence[Piece], rules: Sequence[Traced]) -> tuple[bool, ...]:
    """Which axes close on themselves: periodic ones, and those whose walls are joined."""
    found = facts.periodic
    for piece in pieces:
        if piece.role == "ghost" and piece.field in fields:
            shape = facts.place(piece.field).shape
            for read in rules[piece.rule].reads:
                found = tuple(f or abs(o) == n for f, o, n in zip(found, read.offset, shape, strict=True))
    return found


def _pattern(
    facts: Facts,
    fields: tuple[str, ...],
    rows: Sequence[Piece],
    beside: Sequence[Piece],
    rules: Sequence[Traced],
    wraps: Sequence[bool],
) -> tuple[tuple[str, str, tuple[tuple[int, ...], ...]], ...] | None:
    """The offsets at which rows have entries, through ghosts and other pieces; None where they can lie anywhere."""
    inside = all(p.box.intersect(Box.of_shape(facts.place(p.field).shape)) == p.box for p in rows)
    if not inside or any(piece.operation is not None for piece in (*beside, *rows)):
        return None
    found: dict[tuple[str, str], dict[tuple[int, ...], None]] = {}
    seen: set[Any] = set()

    def follow(row: str, box: Box, field: str, offset: tuple[int, ...], depth: int) -> bool:
        """Looks up what a read at an offset from the rows in `box` meets; false where there is no end of it."""
        if (row, box, field, offset) in seen:
            return True
        seen.add((row, box, field, offset))
        moved = box.shift(offset)
        if any(p.field == field and not moved.intersect(p.box).empty for p in rows):
            wrapped = _wrapped(offset, facts.place(field).shape, wraps)
            found.setdefault((row, field), {})[wrapped] = None
        if depth == 0:
            return False
        for piece in beside:
            common = moved.intersect(piece.box)
            if piece.field != field or common.empty:
                continue
            over = common.shift(tuple(-o for o in offset))
            for read in rules[piece.rule].reads:
                if read.level == 0:
                    further = tuple(a + b for a, b in zip(offset, read.offset, strict=True))
                    if not follow(row, over, read.field, further, depth - 1):
                        return False
        return True

    for piece in rows:
        for read in rules[piece.rule].reads:
            if read.level == 0 and not follow(piece.field, piece.box, read.field, read.offset, MAX_DEPTH):
                return None
    for name in fields:  # the diagonal is wanted where the matrix is changed by it
        found.setdefault((name, name), {})[(0,) * len(wraps)] = None
    return tuple((a, b, tuple(sorted(offsets))) for (a, b), offsets in sorted(found.items()))


def _wrapped(offset: tuple[int, ...], shape: tuple[int, ...], wraps: Sequence[bool]) -> tuple[int, ...]:
    """An offset counted round the axes that wrap, the shorter way."""
    return tuple((o + n // 2) % n - n // 2 if w else o for o, n, w in zip(offset, shape, wraps, strict=True))


def _sides(layout: Layout, one: FieldPhase, axis: int) -> tuple[Side, Side]:
    on_point = layout.shift(layout.space[axis]) == 0
    return Side(_kind(one, layout, axis, False), on_point), Side(_kind(one, layout, axis, True), on_point)


def _kind(one: FieldPhase, layout: Layout, axis: int, upper: bool) -> str:
    """Which condition holds along the whole of a wall."""
    shape = layout.space_shape
    at = shape[axis] - 1 if upper else 0
    wall = Box.of_shape(shape).with_range(axis, at, at + 1)
    spans = [w for w in one.walls if w.side.axis == axis and w.side.upper == upper]
    valued = [p for s in one.spans if s.kind == "value" for p in s.points.parts if p.mask is None]
    if Points.of_box(wall).subtract(Points(tuple(valued))).empty:
        return "value"
    rules = [span.assignment.rule for span in spans]
    if len(rules) == 1 and type(rules[0]) is Neumann and getattr(rules[0], "order", 2) == 2:
        return "slope"
    if len(rules) == 1 and type(rules[0]) is Dirichlet and getattr(rules[0], "order", 2) == 2:
        return "value"
    return "other"


def choose_solver(stage: Solve, asked: Any) -> Solve:
    """The stage with its solver."""
    assert stage.outline is not None
    found = choose(stage.outline, stage.affine, asked, describe_system(stage.outline, stage.fields, stage.affine))
    return replace(stage, solver=found.solver, linear=found.linear, reasons=(*found.reasons, *say_parts(stage.outline)))


def describe_system(outline: SystemOutline, fields: Sequence[str], affine: bool) -> str:
    """What messages call a system."""
    names, kind = ", ".join(f"`{name}`" for name in fields), "linear" if affine else "nonlinear"
    return f"{kind} system for {names if outline.parts is None else f'the real and imaginary parts of {names}'}"
