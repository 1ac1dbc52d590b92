"""Rows of points near walls that supply no ghost values: an operator closes its stencil there, row by row."""

from typing import Any

from ..region import Box, Layout, Points
from ..stencil import Near, ProfileRead
from ._phases import FieldPhase
from ._problem import Problem
from ._walls import Side

NearWalls = tuple[tuple[str, bool, Near], ...]
"""Walls without ghost values close to a row of points: axis, side, and how far from the row."""


def split_near_walls(
    book: Any, fields: dict[str, FieldPhase], layouts: tuple[Layout, Layout], rule: int, points: Points
) -> list[tuple[Points, NearWalls]]:
    """The points of a rule in groups that see the same walls: rows close to open walls, and the rest.

    `rule` is the rule as traced away from walls: its reads tell how many rows would leave the grid, and its operators
    along which axes they ask how much room there is, and for how many rows. `layouts` are that of the points and that
    of the place from which the rule's offsets count.
    """
    groups: list[tuple[Points, NearWalls]] = [(points, ())]
    rooms = book.rooms_of(rule)
    for position, axis in enumerate(layouts[0].space):
        if axis not in rooms or layouts[0].grid.space_axis(axis).periodic:
            continue
        groups = [
            (part, (*walls, *more))
            for group, walls in groups
            for part, more in _split_axis(book, fields, layouts, rule, position, group, rooms[axis])
        ]
    return groups


def _split_axis(
    book: Any,
    fields: dict[str, FieldPhase],
    layouts: tuple[Layout, Layout],
    rule: int,
    position: int,
    points: Points,
    wanted: int,
) -> list[tuple[Points, NearWalls]]:
    """The points in groups along one axis; where a wall is open in part, its open and its served parts are apart."""
    result, axis = [], layouts[0].space[position]
    for part, open_below, open_above in _by_openness(book, fields, rule, position, points):
        bounds = part.bounds()
        for start, stop, near in _rows(book, layouts, rule, position, (open_below, open_above), wanted, bounds):
            if not near:  # also what lies beyond the walls
                start, stop = _widest(start, stop, layouts[0].space_shape[position], bounds, position)
            group = part.intersect(Points.of_box(bounds.with_range(position, start, stop)))
            if not group.empty:
                result.append((group, tuple((axis, upper, wall) for upper, wall in near)))
    return result


def _widest(start: int, stop: int, size: int, bounds: Box, position: int) -> tuple[int, int]:
    """An index range that touches an end of the axis, continued as far as the points go."""
    start = min(bounds.start[position], start) if start == 0 else start
    return start, max(bounds.stop[position], stop) if stop == size else stop


def _by_openness(
    book: Any, fields: dict[str, FieldPhase], rule: int, position: int, points: Points
) -> list[tuple[Points, frozenset[str], frozenset[str]]]:
    """Points with the names that have no ghost values below, and above: usually all points together."""
    groups = [(points, [frozenset[str](), frozenset[str]()])]
    for source in sorted({r.field for r in book.reach(rule)}):
        for upper in (False, True):
            one = fields.get(source)  # the result of an operation has no values beyond walls
            served = Points() if one is None else _served(book.problem, one, source, Side(position, upper))
            divided = []
            for group, names in groups:
                inside = group.intersect(served)
                outside = group.subtract(served)
                if not inside.empty:
                    divided.append((inside, names))
                if not outside.empty:
                    more = list(names)
                    more[upper] = names[upper] | {source}
                    divided.append((outside, more))
            groups = divided
    parameters = {
        read.name.split(" ", 1)[1]
        for read in book.rules[rule].operands
        if isinstance(read, ProfileRead) and read.name.startswith("parameter ")
    }
    if parameters:
        ends = [_mirrors(book, fields, rule, Side(position, upper)) for upper in (False, True)]
        groups = [
            (group, [own if end and not own else own | parameters for own, end in zip(names, ends, strict=True)])
            for group, names in groups
        ]
    return [(group, names[0], names[1]) for group, names in groups]


def _mirrors(book: Any, fields: dict[str, FieldPhase], rule: int, side: Side) -> bool:
    """Whether coefficients are mirrored at a wall.

    Where nothing flows through it: they are right there, and conserve exactly; to stencils of more neighbours only if
    ghost values are mirrored too, as those of a higher order are not. And where values are given half a step outside
    the points, to stencils of one neighbour: the flux from there, k₀(u_w − u₀)/½Δx, is wrong by O(Δx) of itself over
    half a cell, u by O(Δx²), and k₀ is positive where k is; an extrapolated k need not be.
    """
    rules = [span.assignment.rule for one in fields.values() for span in one.walls if span.side == side]
    given = [one.sets_value_on_points for one in rules]
    near = _reach_of_parameters(book, rule, book.problem.scope.grid.space[side.axis]) <= 1
    if rules and all(given):
        return near
    zero = all(isinstance(c, int | float) and c == 0 for one in rules for c in one.coefficients)
    return bool(rules) and zero and not any(given) and (near or all(one.even for one in rules))


def _reach_of_parameters(book: Any, rule: int, axis: str) -> int:
    """How many points away along an axis a rule reads parameters."""
    reads = [read for read in book.rules[rule].operands if isinstance(read, ProfileRead)]
    offsets = [dict(zip(read.axes, read.offset, strict=True)).get(axis, 0) for read in reads]
    return max((abs(offset) for offset in offsets), default=0)


def _served(problem: Problem, one: FieldPhase, name: str, side: Side) -> Points:
    """The points of all lines along an axis at whose end a field has ghost values, or a hole."""
    shape = problem.scope.layouts[name].space_shape
    found = Points()
    for span in one.walls:
        if span.side == side:
            found = found.union(span.points)
    at = side.index(shape)
    face = Points.of_box(Box.of_shape(shape).with_range(side.axis, at, at + 1))
    for hole in one.holes:
        if hole.predicate is None and not (foot := hole.points.intersect(face)).empty:
            found = found.union(foot)
            found = face if face.subtract(found).empty else found
    reach = tuple(n if a == side.axis else 0 for a, n in enumerate(shape))
    lines = Points()
    for part in found.parts:
        if part.mask is None:
            # Wide enough for any staggered field beside it.
            lines = lines.union(Points.of_box(part.box.with_range(side.axis, -1, shape[side.axis] + 2)))
            continue
        mask = part.mask.repeat(reach[side.axis], axis=side.axis)
        lines = lines.union(Points.of_mask(part.box.with_range(side.axis, 0, reach[side.axis]), mask))
    return _widened(lines, shape, side.axis)


def _widened(lines: Points, shape: tuple[int, ...], axis: int) -> Points:
    """Boxes that reach both ends across the wall reach one further, where staggered fields have one point more."""
    parts = Points()
    for part in lines.parts:
        box = part.box
        if part.mask is None:
            for other, size in enumerate(shape):
                if other != axis and box.start[other] == 0 and box.stop[other] == size:
                    box = box.with_range(other, -1, size + 2)
            parts = parts.union(Points.of_box(box))
        else:
            parts = parts.union(Points((part,)))
    return parts


def _rows(
    book: Any,
    layouts: tuple[Layout, Layout],
    rule: int,
    position: int,
    open_names: tuple[frozenset[str], frozenset[str]],
    wanted: int,
    bounds: Box,
) -> list[tuple[int, int, list[tuple[bool, Near]]]]:
    """Index ranges along an axis, with the open walls that a stencil in them must heed.

    Where some of the points, which lie in `bounds`, read beyond a wall, at least `wanted` rows next to it heed it.
    """
    points, target = layouts
    axis = points.space[position]
    size, shift = points.space_shape[position], target.shift(axis)
    across = 2 * (size - 1) + 2 * points.shift(axis)  # half steps between the walls
    below, above = 0, 0
    for name, offset, other in _reads_along(book, rule, position, axis):
        if name in open_names[0]:
            below = max(below, -offset)
        if name in open_names[1]:
            above = max(above, size - other + offset)
    below = min(max(below, wanted), size) if bounds.start[position] < below else 0
    above = min(max(above, wanted), size) if bounds.stop[position] > size - above else 0
    if not below and not above:
        return [(0, size, [])]
    first, last = below, max(below, size - above)
    ranges = [(i, i + 1) for i in range(below)]
    ranges += [(first, last)] if last > first else []
    ranges += [(i, i + 1) for i in range(last, size)]
    rows = []
    for start, stop in ranges:
        near = []
        if start < below or start >= last:
            for upper, names in ((False, open_names[0]), (True, open_names[1])):
                halves = across - (2 * start + shift) if upper else 2 * start + shift
                near += [(upper, Near(halves, names))] if names else []
        rows.append((start, stop, near))
    return rows


def _reads_along(book: Any, rule: int, position: int, axis: str) -> list[tuple[str, int, int]]:
    """The fields and labelled parameters a rule reads: name, offset along an axis, and how many points it has there."""
    scope = book.problem.scope
    found = [
        (read.field, read.offset[position], scope.layouts[read.field].space_shape[position])
        for read in book.reach(rule)
    ]
    for read in book.rules[rule].operands:
        if isinstance(read, ProfileRead) and read.name.startswith("parameter ") and axis in read.axes:
            name = read.name.split(" ", 1)[1]
            size = scope.grid.space_axis(axis).size(axis in scope.parameters[name].faces)
            found.append((name, read.offset[read.axes.index(axis)], size))
    return found
