"""The checks of what rules read: levels before the first, points beyond walls, parameters beyond either."""

from fractions import Fraction

import numpy as np

from ..errors import PlanningError
from ..field import AbstractCondition
from ..region import Box, Part, Points
from ..stencil import Labelled, ProfileRead, StateRead
from ..views import show_shift
from ._phases import FieldPhase, Phase, WallSpan
from ._pieces import Piece, RuleBook
from ._problem import Problem


def check_reads(
    problem: Problem,
    book: RuleBook,
    phases: list[Phase],
    of_level: list[int],
    phase: int,
    levels: np.ndarray,
    piece: Piece,
) -> None:
    """Refuses reads of levels before the first, and reads beyond walls without a condition."""
    grid = problem.scope.grid
    if piece.rule in book.copies:  # copies of ghosts that no condition supplies: who reads them is refused himself
        return
    for operand in book.rules[piece.rule].operands:
        if isinstance(operand, ProfileRead) and grid.time is not None and grid.time_name in operand.axes:
            offset = operand.offset[0]
            if not levels[0] + offset >= 0 or not levels[-1] + offset < grid.time.num:
                raise PlanningError(
                    f"{piece.label} reads `{operand.name.split(' ', 1)[1]}` {offset:+d} levels away, outside the axis "
                    f"`{grid.time_name}`."
                )
        if not isinstance(operand, StateRead):
            continue
        if levels[0] + operand.level < 0:
            raise PlanningError(
                f'{piece.label} reads `{operand.field}["{grid.time_name}{operand.level}"]` at level {levels[0]}: there '
                f"is no level {levels[0] + operand.level}. Start the region at {-operand.level}, and assign the levels "
                f"before it."
            )
        if book.hides(operand.field):  # held wherever it is read
            continue
        served = {of_level[int(n) + operand.level] for n in levels}
        for other in served:
            _check_ghosts(problem, piece, operand, phases[other].fields[operand.field])


def _check_ghosts(problem: Problem, piece: Piece, read: StateRead, field: FieldPhase) -> None:
    layout = problem.scope.layouts[read.field]
    box, shape = piece.box.shift(read.offset), layout.space_shape
    for axis, name in enumerate(layout.space):
        if layout.grid.space_axis(name).periodic:
            continue
        for upper in (False, True):
            beyond = box.stop[axis] - shape[axis] if upper else -box.start[axis]
            if beyond <= 0:
                continue
            missing = _wall_points(problem, piece, read.offset, shape, axis, upper)
            for span in field.walls:
                if span.side.axis == axis and span.side.upper == upper:
                    missing = missing.subtract(span.points)
            for hole in field.holes:  # what lies behind one is its own
                missing = missing if hole.predicate is not None else missing.subtract(hole.points)
            if not missing.empty:
                raise PlanningError(_beyond_message(problem, piece, read, axis, upper, beyond, missing))


def _wall_points(
    problem: Problem, piece: Piece, offset: tuple[int, ...], shape: tuple[int, ...], axis: int, upper: bool
) -> Points:
    """The wall points behind the ghost points that a piece reads beyond one end of an axis."""
    part = problem.store.masks[piece.mask] if piece.mask is not None else Part(piece.box)
    moved = part.shift(offset)
    start, stop = moved.box.start[axis], moved.box.stop[axis]
    outside = moved.restrict(
        moved.box.with_range(axis, shape[axis], stop) if upper else moved.box.with_range(axis, start, 0)
    )
    if outside is None:
        return Points()
    at = shape[axis] - 1 if upper else 0
    if outside.mask is None:
        low = [min(max(a, 0), n - 1) for a, n in zip(outside.box.start, shape, strict=True)]
        high = [min(max(b, 1), n) for b, n in zip(outside.box.stop, shape, strict=True)]
        return Points.of_box(Box(tuple(low), tuple(high)).with_range(axis, at, at + 1))
    index = np.argwhere(outside.mask) + np.array(outside.box.start)
    index = np.clip(index, 0, np.array(shape) - 1)
    index[:, axis] = at
    mask = np.zeros(shape, bool)
    mask[tuple(index.T)] = True
    return Points.of_mask(Box.of_shape(shape), mask)


def check_parameter_reads(problem: Problem, book: RuleBook, walls: list[WallSpan], piece: Piece) -> None:
    """Refuses reads of a parameter beyond a wall, but where a ghost condition mirrors it along with the field."""
    if piece.role not in ("value", "rate", "residual"):
        return
    grid = problem.scope.grid
    for read in book.rules[piece.rule].operands:
        if not isinstance(read, ProfileRead) or not read.name.startswith("parameter "):
            continue
        name = read.name.split(" ", 1)[1]
        spec = problem.scope.parameters[name]
        assert isinstance(spec, Labelled)
        for axis, offset in zip(read.axes, read.offset, strict=True):
            if axis == grid.time_name or grid.space_axis(axis).periodic:
                continue
            position, size = grid.space.index(axis), grid.space_axis(axis).size(axis in spec.faces)
            start, stop = piece.box.start[position] + offset, piece.box.stop[position] + offset
            for upper, beyond in ((False, -start), (True, stop - size)):
                if beyond > 0 and not any(w.side.axis == position and w.side.upper == upper for w in walls):
                    raise PlanningError(
                        f'Rule {piece.label} reads the parameter `{name}` at "{axis}{offset:+d}", {_count(beyond)} '
                        f"outside "
                        f"the {'upper' if upper else 'lower'} end of axis `{axis}`. "
                        f"{_bound(upper, beyond, piece.box, position).capitalize()}"
                        f", or assign `{piece.field}` a boundary condition there, which mirrors the parameter."
                    )


def _count(beyond: int) -> str:
    return "one point" if beyond == 1 else f"{beyond} points"


def _bound(upper: bool, beyond: int, box: Box, axis: int) -> str:
    return (
        f"end the region at {box.stop[axis] - beyond}" if upper else f"start the region at {box.start[axis] + beyond}"
    )


def _beyond_message(
    problem: Problem, piece: Piece, read: StateRead, axis: int, upper: bool, beyond: int, missing: Points
) -> str:
    grid, layouts = problem.scope.grid, problem.scope.layouts
    name, layout, target = grid.space[axis], layouts[read.field], layouts[piece.field]
    shift = dict.fromkeys(grid.names, Fraction(0))
    for a, offset in zip(grid.space, read.offset, strict=True):
        shift[a] = offset + Fraction(layout.shift(a) - target.shift(a), 2)
    if read.level and grid.time_name is not None:
        shift[grid.time_name] = Fraction(read.level)
    key = show_shift(tuple(shift.values()), grid.names)
    partly = any(isinstance(one.rule, AbstractCondition) for one in problem.assignments[read.field])
    where = f", at all levels, on {show_points(problem, read.field, missing, None)}" if partly else " there"
    return (
        f"Rule {piece.label} reads `{read.field}[{key}]`, {_count(beyond)} outside the {'upper' if upper else 'lower'} "
        f"end of axis `{name}`. Assign a boundary condition{where} (`{read.field}[dict({name}={-1 if upper else 0})] = "
        f"fd.boundary.Neumann(0.0)`), {_bound(upper, beyond, piece.box, axis)}, or declare the axis periodic."
    )


def show_points(problem: Problem, name: str, points: Points, level: int | None) -> str:
    """Points of a field as a user would index them."""
    parts = [str(part.box)[1:-1] + ("" if part.mask is None else " (some)") for part in points.parts[:3]]
    shown = " and ".join(f"{name}[{'' if level is None else f'{level}, '}{part}]" for part in parts)
    return shown + (f" and {len(points.parts) - 3} more boxes" if len(points.parts) > 3 else "")
