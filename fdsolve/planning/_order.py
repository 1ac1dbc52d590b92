"""The order of evaluation: pieces after the same-level points they read; pieces that read each other are swept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np

from ..errors import PlanningError
from ..region import Box, Part
from ..solvers import SystemOutline
from ..stencil import StateRead, Traced
from ._pieces import Piece

MIN_ASSOCIATIVE_LENGTH = 64
MAX_ASSOCIATIVE_WIDTH = 32
MAX_ASSOCIATIVE_ORDER = 4


@dataclass(frozen=True)
class Parallel:
    """One piece, all its points at once."""

    piece: Piece


@dataclass(frozen=True)
class Sweep:
    """Pieces that read each other or themselves at their own level.

    `method` is "scan" (along one axis, the others at once), "associative" (an affine recurrence along one axis),
    "wavefront" (hyperplanes direction·p = const, one after the other) or "points" (one by one). `direction` is the
    integer vector λ with λ·v < 0 for every dependence vector v. `inner` lists the reads (by piece) that meet points of
    the sweep, `order` that of the pieces on one hyperplane.
    """

    pieces: tuple[Piece, ...]
    method: str
    direction: tuple[int, ...]
    reason: str
    inner: tuple[tuple[int, StateRead], ...] = ()
    order: tuple[int, ...] = ()
    sequence: str = ""


@dataclass(frozen=True)
class Solve:
    """Residuals that determine fields together, with all that holds beside them and reads those.

    `inner` are the stages that follow from the unknown values before the residuals can be told, `guesses` where the
    iteration starts. `outline` says what is known of the system; `affine`, whether it is linear; `fixed`, whether its
    matrix is the same at all levels. `solver` solves it, for `reasons`.
    """

    residuals: tuple[Piece, ...]
    inner: "tuple[Stage, ...]"
    guesses: tuple[Piece, ...] = ()
    outline: SystemOutline | None = None
    affine: bool = False
    fixed: bool = False
    solver: Any = None
    linear: Any = None
    reasons: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """As sweeps name theirs."""
        return "solve"

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that are determined."""
        return tuple(dict.fromkeys(piece.field for piece in self.residuals))

    @property
    def beside(self) -> tuple[Piece, ...]:
        """The pieces of the inner stages."""
        return tuple(piece for stage in self.inner for piece in pieces_of(stage))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces."""
        return (*self.residuals, *self.beside, *self.guesses)


Stage = Parallel | Sweep | Solve


def pieces_of(stage: Stage) -> tuple[Piece, ...]:
    """The pieces of a stage."""
    return (stage.piece,) if isinstance(stage, Parallel) else stage.pieces


Masks = Mapping[str, Part]
"""Points of the masked pieces, by the name of their mask."""


def make_schedule(
    pieces: Sequence[Piece], rules: Sequence[Traced], axes: tuple[str, ...], masks: Masks | None = None
) -> tuple[Stage, ...]:
    """Orders pieces; a schedule for those that depend on each other at the same level."""
    edges: list[set[int]] = [set() for _ in pieces]
    for reader, needed, _ in dependences(pieces, rules, masks):
        edges[reader].add(needed)
    stages: list[Stage] = []
    for group in _components(edges):
        alone = len(group) == 1 and group[0] not in edges[group[0]]
        if alone and pieces[group[0]].role == "residual":
            _refuse_idle_residual(pieces[group[0]])
        if alone:
            stages.append(Parallel(pieces[group[0]]))
        elif any(pieces[i].role == "residual" for i in group):
            stages.append(_make_solve([pieces[i] for i in sorted(group)], rules, axes, masks))
        else:
            ordered = sorted(group)
            stages.append(make_sweep([pieces[i] for i in ordered], rules, axes, masks))
    return tuple(stages)


def _make_solve(pieces: Sequence[Piece], rules: Sequence[Traced], axes: tuple[str, ...], masks: Masks | None) -> Solve:
    """Residuals are solved for together; what depends on them is ordered as if they were known."""
    residuals = tuple(piece for piece in pieces if piece.role == "residual")
    others = [piece for piece in pieces if piece.role != "residual"]
    return Solve(residuals, make_schedule(others, rules, axes, masks))


def _refuse_idle_residual(piece: Piece) -> None:
    raise PlanningError(
        f"{piece.label} does not depend on `{piece.field}`, so that it determines nothing. Let the residual read "
        f"`{piece.field}[...]`, or assign the value itself, without `fd.residual`."
    )


def _meet(a: Piece, b: Piece, offset: tuple[int, ...], masks: Masks | None) -> bool:
    """Whether points of `a`, moved by `offset`, fall on points of `b`; exact where the masks are known."""
    if a.box.shift(offset).intersect(b.box).empty:
        return False
    if not masks or (a.mask is None and b.mask is None):
        return True
    first, second = ((masks.get(p.mask) if p.mask else None) or Part(p.box) for p in (a, b))
    return first.shift(offset).intersect(second) is not None


def _components(edges: Sequence[set[int]]) -> list[list[int]]:
    """Strongly connected components, prerequisites first (Tarjan 1972)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in range(len(edges)):
        if root in index:
            continue
        work = [(root, iter(sorted(edges[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(edges[other]))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        other = stack.pop()
                        on_stack.discard(other)
                        component.append(other)
                        if other == node:
                            break
                    found.append(component)
    return found


def dependences(
    pieces: Sequence[Piece], rules: Sequence[Traced], masks: Masks | None = None
) -> list[tuple[int, int, tuple[int, ...]]]:
    """Same-level dependences: (reader, read, vector from the point to the one it needs).

    A piece that lies over earlier ones of its field (it adds, or holds under a mask or predicate) comes after them.
    """
    found = []
    for i, piece in enumerate(pieces):
        zero = (0,) * piece.box.ndim
        for read in rules[piece.rule].reads:
            if read.level == 0:
                for j, other in enumerate(pieces):
                    if other.field == read.field and _meet(piece, other, read.offset, masks):
                        found.append((i, j, read.offset))
        found.extend(
            (i, j, zero) for j in range(i) if pieces[j].field == piece.field and _meet(piece, pieces[j], zero, masks)
        )
    return found


def make_sweep(
    pieces: Sequence[Piece], rules: Sequence[Traced], axes: tuple[str, ...], masks: Masks | None = None
) -> Sweep:
    """The fastest order that respects the dependences of a group of pieces."""
    needed = dependences(pieces, rules, masks)
    _refuse_operations(pieces)
    _refuse_self_reads(pieces, needed, axes)
    bounds = _bounds([piece.box for piece in pieces])
    direction = _find_direction(needed, bounds)
    inner = _inner_reads(pieces, rules, needed)
    if direction is None:
        zero = (0,) * bounds.ndim
        return Sweep(tuple(pieces), "points", zero, "no hyperplane orders its points", inner)
    moving = [axis for axis, weight in enumerate(direction) if weight]
    order = _order_within_plane(len(pieces), needed, direction)
    if len(moving) > 1:
        names = ", ".join(axes[a] for a in moving)
        reason = f"same-level reads along {names}: skewed hyperplanes"
        return Sweep(tuple(pieces), "wavefront", direction, reason, inner, order)
    axis = moving[0]
    if _is_associative(pieces, rules, needed, axis, bounds):
        reason = f"an affine recurrence along {axes[axis]} alone"
        return Sweep(tuple(pieces), "associative", direction, reason, inner, order)
    return Sweep(tuple(pieces), "scan", direction, f"same-level reads behind along {axes[axis]}", inner, order)


def _inner_reads(
    pieces: Sequence[Piece], rules: Sequence[Traced], needed: list[tuple[int, int, tuple[int, ...]]]
) -> tuple[tuple[int, StateRead], ...]:
    met = {(i, pieces[j].field, vector) for i, j, vector in needed}
    return tuple(
        (i, read)
        for i, piece in enumerate(pieces)
        for read in rules[piece.rule].reads
        if read.level == 0 and (i, read.field, read.offset) in met
    )


def _refuse_operations(pieces: Sequence[Piece]) -> None:
    for piece in pieces:
        if piece.operation is not None:
            others = next((p.label for p in pieces if p.operation is None and p.role != "ghost"), "a rule")
            raise PlanningError(
                f"{piece.label} needs all values of a level that {others} is still computing. Read an older level "
                f'there, for example at="t-1".'
            )


def _refuse_self_reads(
    pieces: Sequence[Piece], needed: list[tuple[int, int, tuple[int, ...]]], axes: tuple[str, ...]
) -> None:
    for i, j, vector in needed:
        if i == j and not any(vector):
            point = ", ".join(f"{a}={p}" for a, p in zip(axes, pieces[i].box.start, strict=True))
            raise PlanningError(
                f"{pieces[i].label} reads the value it defines: a cycle of one point at {point}. Read an older level, "
                f'for example {pieces[i].field}["t-1"] (operators: at="t-1"), or give the rule as fd.rate(...).'
            )


def _bounds(boxes: Sequence[Box]) -> Box:
    return Box(
        tuple(min(part) for part in zip(*(b.start for b in boxes), strict=True)),
        tuple(max(part) for part in zip(*(b.stop for b in boxes), strict=True)),
    )


def _find_direction(needed: list[tuple[int, int, tuple[int, ...]]], bounds: Box) -> tuple[int, ...] | None:
    """The direction with the fewest hyperplanes; one component is ±1, so that an axis can be eliminated."""
    vectors = {vector for _, _, vector in needed}
    best, fewest = None, None
    for candidate in _candidates(vectors, bounds.ndim):
        planes = 1 + sum(abs(w) * (n - 1) for w, n in zip(candidate, bounds.shape, strict=True))
        simple = sum(1 for w in candidate if w)
        cost = (simple > 1, planes)
        if (fewest is None or cost < fewest) and _orders(candidate, needed):
            best, fewest = candidate, cost
    return best


def _candidates(vectors: set[tuple[int, ...]], ndim: int) -> list[tuple[int, ...]]:
    reach = min(3, 1 + max((abs(x) for v in vectors for x in v), default=0))
    found = set()
    if ndim <= 4:
        found.update(c for c in product(range(-reach, reach + 1), repeat=ndim) if 1 in c or -1 in c)
    # Row-major orders of the axes: each axis outweighs what the faster ones can reach.
    extents = [max((abs(v[a]) for v in vectors), default=0) for a in range(ndim)]
    for order in permutations(range(ndim)):
        weights, total = [0] * ndim, 0
        for axis in reversed(order):
            weights[axis] = total + 1
            total += extents[axis] * weights[axis]
        for signs in product((1, -1), repeat=ndim):
            found.add(tuple(s * w for s, w in zip(signs, weights, strict=True)))
    return sorted(found)


def _orders(direction: tuple[int, ...], needed: list[tuple[int, int, tuple[int, ...]]]) -> bool:
    """Whether every dependence lies on an earlier hyperplane, or on the same one in an acyclic order of pieces."""
    level: dict[int, set[int]] = {}
    for i, j, vector in needed:
        step = sum(w * x for w, x in zip(direction, vector, strict=True))
        if step > 0:
            return False
        if step == 0:
            if i == j:
                return False
            level.setdefault(i, set()).add(j)
    nodes = {i for i, _, _ in needed} | {j for _, j, _ in needed}
    edges = [level.get(i, set()) for i in range(max(nodes) + 1)]
    return all(len(group) == 1 for group in _components(edges))


def _order_within_plane(
    count: int, needed: list[tuple[int, int, tuple[int, ...]]], direction: tuple[int, ...]
) -> tuple[int, ...]:
    """The order of a sweep's pieces on one hyperplane."""
    edges: list[set[int]] = [set() for _ in range(count)]
    for i, j, vector in needed:
        if sum(w * x for w, x in zip(direction, vector, strict=True)) == 0:
            edges[i].add(j)
    return tuple(group[0] for group in _components(edges))


def _is_associative(
    pieces: Sequence[Piece],
    rules: Sequence[Traced],
    needed: list[tuple[int, int, tuple[int, ...]]],
    axis: int,
    bounds: Box,
) -> bool:
    (first, *others) = pieces
    along = all(x == 0 for _, _, v in needed for a, x in enumerate(v) if a != axis)
    order = max(abs(v[axis]) for _, _, v in needed)
    length = bounds.shape[axis]
    width = bounds.size // max(length, 1)
    return (
        not others
        and along
        and rules[first.rule].affine
        and np.issubdtype(rules[first.rule].dtype, np.inexact)
        and first.mask is None
        and first.predicate is None
        and not first.adds
        and order <= MAX_ASSOCIATIVE_ORDER
        and length >= MIN_ASSOCIATIVE_LENGTH
        and width <= MAX_ASSOCIATIVE_WIDTH
    )
