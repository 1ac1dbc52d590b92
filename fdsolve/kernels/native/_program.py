"""One level as a list of operations: what the generated code does, row by row."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from ...planning import Array, Parallel, Piece, Stage
from ...region import Box, Points
from ...schemes import AbstractRungeKutta
from ...stencil import Operand, ProfileRead, StateRead, Traced, WholeRead, make_traced
from .._march_call import MarchCall, why_in_turn
from ._scalar import supports_dtype, unsupported
from ._unset import without_unread, without_unset
from ._within import at_stage, wall_at_stage

LANES = 16
"""Entries of the last axis of an array in which rows are added up: points that a loop computes at a time."""


class Unserved(Exception):
    """Why a level cannot be generated."""


class At(Enum):
    """The levels of a pass at which an operation is done."""

    EVERY, FIRST, LATER, LAST = range(4)


@dataclass(frozen=True)
class Operation:
    """A rule on the points of a box of an array; its reads name arrays and how many levels they lie behind.

    `number` and `held` index the constants of the rule and of the predicate (None: they have none). `fraction` is how
    far its time lies from the level before to this one. `in_lanes`: its array has `LANES` entries along the last axis,
    in which all points of a row are added to what stood there a level before. Operations of the same `loop`, none of
    which reads what another writes, are done on the same rows at the same time, so that one loop can do all.
    """

    array: str
    box: Box
    rule: Traced
    number: int | None
    mask: str | None = None
    predicate: Traced | None = None
    held: int | None = None
    adds: bool = False
    fraction: float = 1.0
    in_lanes: bool = False
    at: At = At.EVERY
    loop: str = ""

    @property
    def reads(self) -> tuple[StateRead, ...]:
        """What it reads of arrays."""
        return self.rule.reads

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Everything that it reads."""
        return (*self.rule.operands, *(self.predicate.operands if self.predicate is not None else ()))


@dataclass(frozen=True)
class Program:
    """The operations of one level in order, on padded arrays.

    `kept` lists how many levels of an array are kept (0: it lives within the level). `wraps` tells whether the first
    axis is periodic: rows are then counted round, and `left` are the ghost pieces that need not be computed inside.
    `direction` is −1 where levels are counted back.
    """

    arrays: tuple[Array, ...]
    kept: tuple[int, ...]
    operations: tuple[Operation, ...]
    wraps: bool
    left: tuple[Piece, ...]
    direction: int = 1

    def array(self, name: str) -> Array:
        """An array by name."""
        return next(one for one in self.arrays if one.name == name)

    def written_once(self, name: str) -> bool:
        """Whether nothing of an array is written and then written over, or added to, within a level."""
        own = [one for one in self.operations if one.array == name]
        whole = not any(one.adds or one.mask is not None or one.predicate is not None for one in own)
        return whole and not any(a.box.meets(b.box) for a, b in combinations(own, 2))

    @property
    def state(self) -> tuple[tuple[Array, int], ...]:
        """The arrays that live from level to level, and how many levels of each are kept."""
        return tuple((one, kept) for one, kept in zip(self.arrays, self.kept, strict=True) if kept)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of all arrays."""
        return np.dtype(self.arrays[0].dtype)


def make_program(call: MarchCall) -> Program:
    """The operations of one level of a march; raises Unserved where there is no such list."""
    structure, phase = call.structure, call.phase
    pieces = _parallel(call.phase.stages)
    for one in structure.arrays:
        if not supports_dtype(one.dtype):
            raise Unserved(f"`{one.name}` has dtype {np.dtype(one.dtype)}")
    if len({one.dtype for one in structure.arrays}) > 1:
        raise Unserved("fields have different dtypes")
    if not 1 <= len(call.axes) <= 4:
        raise Unserved(f"the grid has {len(call.axes)} space axes")
    carried = {one.name: max(one.kept, 1) for one in structure.carried}
    if phase.rates:
        extra, operations = _explicit(call, pieces)
    else:
        extra, operations = [], [_operation(call, piece) for piece in pieces]
    arrays = (*structure.arrays, *extra)
    operations = without_unread(without_unset(arrays, operations), carried)
    kept = tuple(carried.get(one.name, 0) for one in arrays)
    for operation in operations:
        _check(operation)
    _check_reads(arrays, operations)
    if len(call.axes) == 1:
        return Program(tuple(map(_lift_array, arrays)), kept, tuple(map(_lift, operations)), False, ())
    wraps, operations, left = _unwrap(call, arrays, operations, pieces)
    return Program(arrays, kept, tuple(operations), wraps, left)


def _check_reads(arrays: Sequence[Array], operations: Sequence[Operation]) -> None:
    """Refuses reads of entries that no operation writes: the portable kernel has zeros there, and a ring has anything.

    Where a mask or predicate leaves points out, those may read anything that is stored.
    """
    written: dict[str, list[Box]] = {one.name: [] for one in arrays}
    for operation in operations:
        written[operation.array].append(operation.box)
    whole = {
        one.name: Box(one.origin, tuple(n + a for n, a in zip(one.shape, one.upper, strict=True))) for one in arrays
    }
    for operation in operations:
        loose = operation.mask is not None or operation.predicate is not None
        for read in dict.fromkeys(operation.reads):
            wanted = operation.box.shift(read.offset)
            boxes = [whole[read.field]] if loose else written[read.field]
            if not any(box.contains(wanted) for box in boxes) and not _covered(wanted, boxes):
                raise Unserved(f"a rule of `{operation.array}` reads `{read.field}` where nothing sets it")


def _covered(wanted: Box, boxes: Sequence[Box]) -> bool:
    left = Points.of_box(wanted)
    for box in boxes:
        if wanted.meets(box):
            left = left.subtract(Points.of_box(box))
    return left.empty


def _lift_array(one: Array) -> Array:
    """An array of one axis as one row of two."""
    return replace(one, shape=(1, *one.shape), lower=(0, *one.lower), upper=(0, *one.upper))


def _lift(operation: Operation) -> Operation:
    """An operation along one axis as one on a single row."""

    def lifted(rule: Traced) -> Traced:
        operands = tuple(replace(o, offset=(0, *o.offset)) if isinstance(o, StateRead) else o for o in rule.operands)
        return replace(rule, operands=operands)

    box = Box((0, *operation.box.start), (1, *operation.box.stop))
    predicate = None if operation.predicate is None else lifted(operation.predicate)
    return replace(operation, box=box, rule=lifted(operation.rule), predicate=predicate)


def _parallel(stages: Iterable[Stage]) -> list[Piece]:
    found = []
    for stage in stages:
        if not isinstance(stage, Parallel):
            raise Unserved(why_in_turn(stage))
        if stage.piece.operation is not None:
            raise Unserved("a derived field is an operation on a whole line")
        found.append(stage.piece)
    return found


def _operation(
    call: MarchCall,
    piece: Piece,
    rename: Callable[[str, int], tuple[str, int]] | None = None,
    fraction: float = 1.0,
    wall: Sequence[float] = (),
) -> Operation:
    """A piece as an operation; `rename` gives the array and level that stand for a field at a level, `wall` the weights
    of the derivatives in time of a boundary value."""
    rules, time_axis = call.structure.rules, call.structure.time_axis
    rule = rules[piece.rule]
    predicate = rules[piece.predicate] if piece.predicate is not None else None
    array = piece.field
    if rename is not None:
        array = rename(piece.field, 0)[0]
        rule = _renamed(rule, rename)
        predicate = None if predicate is None else _renamed(predicate, rename)
    made = wall_at_stage(rule, time_axis, wall, fraction) if wall else at_stage(rule, time_axis, fraction)
    held = None if predicate is None else at_stage(predicate, time_axis, fraction)
    if made is None or (predicate is not None and held is None):
        raise Unserved(f"a rule of `{array}` reads an array at other times than that of its stage")
    at = 0.0 if wall else fraction
    return Operation(array, piece.box, made, piece.rule, piece.mask, held, piece.predicate, piece.adds, at)


def _renamed(rule: Traced, rename: Callable[[str, int], tuple[str, int]]) -> Traced:
    operands = tuple(
        StateRead(*rename(one.field, one.level), one.offset) if isinstance(one, StateRead) else one
        for one in rule.operands
    )
    return replace(rule, operands=operands)


def _check(operation: Operation) -> None:
    for rule, number in ((operation.rule, operation.number), (operation.predicate, operation.held)):
        if rule is None:
            continue
        if reason := unsupported(rule.jaxpr):
            raise Unserved(f"a rule of `{operation.array}`: {reason}")
        if any(np.shape(const) for const in rule.consts):
            raise Unserved(f"a rule of `{operation.array}` reads a whole array")
        for one, variable in zip(rule.operands, rule.jaxpr.invars, strict=True):
            if variable.aval.shape:
                raise Unserved(f"a rule of `{operation.array}` reads {one} whole")
        assert number is not None or not rule.consts


def _explicit(call: MarchCall, pieces: list[Piece]) -> tuple[list[Array], list[Operation]]:
    """The stages of an explicit Runge–Kutta step: slopes, the state at each stage, and what stands beside it."""
    structure, phase, stepper = call.structure, call.phase, call.structure.stepper
    if not isinstance(stepper, AbstractRungeKutta):
        raise Unserved(f"the stepper {stepper!r} is no explicit Runge–Kutta method")
    tableau, given = stepper.tableau, {name: _disjoint(boxes) for name, boxes in phase.given}
    if any(read.level < 0 for p in pieces for read in structure.rules[p.rule].reads):
        raise Unserved("a plain rule beside rates reads older levels")
    views = _parallel(phase.views)
    within = {piece.field for piece in views}
    extra: list[Array] = []
    operations: list[Operation] = []
    for stage, time in enumerate(tableau.times):
        rename = _stage_names(stage, within)
        if stage:
            extra += [replace(one, name=rename(one.name, 0)[0], kept=0) for one in structure.arrays]
            operations += _combined(call, given, rename, tableau.stages[stage])
            walls = [p.field in given and structure.is_timed(p) for p in pieces]
            weights = tableau.wall_coefficients[stage]
            operations += [
                _operation(call, piece, rename, time, weights if wall else ())
                for piece, wall in zip(pieces, walls, strict=True)
            ]
        operations += [_operation(call, piece, rename, time) for piece in views]
        for name, boxes in given.items():
            slope = replace(structure.array(name), name=f"{name} slope {stage}", kept=0)
            extra.append(slope)
            operations += _slopes(call, slope.name, name, boxes, rename, time)
    operations += _combined(call, given, lambda name, level: (name, level), tableau.weights)
    operations += [_operation(call, piece) for piece in pieces]
    return extra, operations


def _stage_names(stage: int, within: Collection[str]) -> Callable[[str, int], tuple[str, int]]:
    """What stands for a field at a stage; the first has all but what lives `within` a step from the level before."""
    if stage == 0:
        return lambda name, level: (name, level if name in within else level - 1)
    return lambda name, level: (f"{name} stage {stage}", level)


def _disjoint(boxes: Iterable[Box]) -> list[Box]:
    """Boxes of the same points, none in two: what is added to a slope is added once."""
    found: list[Box] = []
    for box in boxes:
        found += _without([box], found)
    return found


def _without(boxes: Iterable[Box], others: Iterable[Box]) -> list[Box]:
    left = list(boxes)
    for other in others:
        left = [rest for box in left for rest in box.subtract(other)]
    return left


def _slopes(
    call: MarchCall, slope: str, name: str, boxes: Sequence[Box], rename: Any, time: float
) -> Iterator[Operation]:
    pieces = [piece for piece in call.phase.rates if piece.field == name]
    bare = _without(boxes, [p.box for p in pieces if p.mask is None and p.predicate is None and not p.adds])
    if bare:  # points that no rate sets everywhere: those that some add to, or set in places
        dtype = call.structure.array(name).dtype
        zero = _compose(lambda: jnp.zeros((), dtype), (), dtype)
        yield from (Operation(slope, box, zero, None) for box in bare)
    for piece in pieces:
        made = _operation(call, piece, rename, time)
        for box in boxes:
            common = box.intersect(piece.box)
            if not common.empty:
                yield replace(made, array=slope, box=common)


def _combined(
    call: MarchCall, given: Mapping[str, Sequence[Box]], rename: Any, weights: Sequence[float]
) -> Iterator[Operation]:
    """uⁿ⁻¹ + Δt Σ wᵢ kᵢ on the boxes that rates fill."""
    rank = len(call.axes)
    for name, boxes in given.items():
        dtype = np.dtype(call.structure.array(name).dtype)
        used = [i for i, weight in enumerate(weights) if weight]
        reads = [StateRead(name, -1, (0,) * rank)]
        reads += [StateRead(f"{name} slope {i}", 0, (0,) * rank) for i in used]

        def combine(step: Any, start: Any, *slopes: Any, used: list[int] = used, dtype: Any = dtype) -> Any:
            total = sum(jnp.asarray(weights[i], dtype) * k for i, k in zip(used, slopes, strict=True))
            return start + step * total

        rule = _compose(combine, (WholeRead("dt"), *reads), dtype)
        yield from (Operation(rename(name, 0)[0], box, rule, None) for box in boxes)


def same_value(read: StateRead, dtype: Any) -> Traced:
    """The rule that copies what it reads."""
    return _compose(lambda value: value, (read,), dtype)


def _compose(function: Callable[..., Any], operands: tuple[Operand, ...], dtype: Any) -> Traced:
    """A rule written here, all of whose operands have one dtype."""
    closed = jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct((), np.dtype(dtype)) for _ in operands])
    return make_traced(jex.ClosedJaxpr(closed.jaxpr, closed.consts), operands, dtype)


def _unwrap(
    call: MarchCall, arrays: Sequence[Array], operations: list[Operation], pieces: list[Piece]
) -> tuple[bool, list[Operation], tuple[Piece, ...]]:
    """Leaves out the ghost rows of a periodic first axis: rows are counted round instead."""
    sizes = {one.shape[0] for one in call.structure.arrays}
    if len(sizes) > 1:
        return False, operations, ()
    (size,) = sizes

    def repeats(array: str, box: Box, rule: Traced) -> bool:
        move = size if box.start[0] < 0 else -size
        return (
            (box.stop[0] <= 0 or box.start[0] >= size)
            and not rule.jaxpr.eqns
            and rule.reads == (StateRead(array, 0, (move, *(0,) * (len(call.axes) - 1))),)
        )

    ghosts = [op for op in operations if repeats(op.array, op.box, op.rule)]
    rest = [op for op in operations if op not in ghosts]
    if not ghosts or any(op.box.stop[0] <= 0 or op.box.start[0] >= size for op in rest):
        return False, operations, ()
    whole = [_all_round(call.axes[0], arrays, op, size) for op in rest]
    if not all(whole):
        return False, operations, ()
    rules = call.structure.rules
    left = [piece for piece in pieces if repeats(piece.field, piece.box, rules[piece.rule])]
    left += [piece for piece in pieces if piece.box.start[0] < 0 < piece.box.stop[0] or piece.box.stop[0] > size]
    return True, [op for op in whole if op is not None], tuple(left)


def _all_round(axis: str, arrays: Sequence[Array], operation: Operation, size: int) -> Operation | None:
    """An operation on rows counted round; None where what it does beyond an end is not what it does at the other.

    Hidden arrays are held where they are read, perhaps from one row before the first to one before the last.
    """
    box = operation.box
    one = next(one for one in arrays if one.name == operation.array)
    if one.kept and min(one.lower[0], one.upper[0]) < 0:
        return None
    if not one.hidden or (box.start[0] >= 0 and box.stop[0] <= size):
        return replace(operation, box=box.with_range(0, max(box.start[0], 0), min(box.stop[0], size)))
    placed = operation.mask is not None or any(
        isinstance(read, ProfileRead) and axis in read.axes for read in operation.operands
    )
    if placed or box.shape[0] < size:
        return None
    return replace(operation, box=box.with_range(0, 0, size))
