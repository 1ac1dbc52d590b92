"""Row functions: a bundle of operations along the last axis, loops that the compiler vectorises."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from ...region import Box
from ...stencil import Operand, ProfileRead, StateRead, Traced, WholeRead
from ._bundles import Bundle
from ._code import POINTER, VOID, Code
from ._lanes import Lanes
from ._operands import TIME_BEFORE, TurnedRead, are_ragged
from ._program import LANES, Operation, Program
from ._scalar import I64, Scalars, load_entry, stored_type
from ._schedule import Schedule
from ._sources import Entry, ProfileRow, RowRead, Source

MAX_UNROLLED = 8
"""Points; shorter boxes are written out, and inlined where they are alone."""
MAX_INLINED = 16
"""Operations; where there are more, inlining takes long to compile."""
BLOCK = LANES
"""Points that a loop computes at a time; the last ones again, where they do not fill a block."""
_TIMES = ("t", "passed")


@dataclass(frozen=True)
class Ragged:
    """How a loop over few points is written of which not all do the same: as so many, vectors of lanes."""

    width: int


Manner = int | tuple[int, ...] | Ragged
"""How a loop is written: so many points written out; ragged ones; or in blocks, the last of which lies over the one
before, or where a point must not be computed twice, is followed by shorter ones, of these lengths."""
Span = tuple[int, int]
"""Where a loop along the last axis starts and stops."""


@dataclass(frozen=True)
class Row:
    """A row function, and its arguments: the arrays written, what its pointers point to, and the ends of its loops."""

    function: ir.Function
    targets: tuple[str, ...]
    sources: tuple[Source, ...]
    spans: tuple[Span, ...]


def write_rows(
    module: ir.Module,
    program: Program,
    schedule: Schedule,
    bundles: Sequence[Bundle],
    axes: tuple[str, ...],
    dtypes: Mapping[str, Any],
    prefix: str = "row",
) -> list[Row]:
    """The row function of each bundle; those that do the same with other rows share one.

    `dtypes` are those of shared arrays by name.
    """
    found: dict[Any, ir.Function] = {}
    rows = []
    inline = len(program.operations) <= MAX_INLINED
    for bundle in bundles:
        operations = [program.operations[number] for number in bundle]
        writer = RowWriter(module, operations, axes, dtypes, inline, schedule.fewest, program.arrays[0].lower[-1])
        key = writer.signature()
        if key not in found:
            found[key] = writer.write(f"{prefix}_{len(found)}")
        rows.append(Row(found[key], tuple(writer.targets), tuple(writer.sources), writer.spans))
    return rows


class RowWriter:
    """Writes the row function of a bundle: f(targets …, sources …, the first and the last point of each loop …)."""

    def __init__(
        self,
        module: ir.Module,
        operations: Sequence[Operation],
        axes: tuple[str, ...],
        dtypes: Mapping[str, Any],
        inline: bool,
        fewest: int,
        phase: int,
    ):
        self.module, self.operations, self.axes, self.dtypes = module, operations, axes, dtypes
        self.fewest, self.phase = fewest, phase
        self.real = np.dtype(operations[0].rule.dtype)
        self.targets = list(dict.fromkeys(one.array for one in operations))
        groups: dict[tuple[Span, int, bool], list[Operation]] = {}
        for number, one in enumerate(operations):
            turn = sum(other.array == one.array for other in operations[:number]) if one.adds else 0
            groups.setdefault(((one.box.start[-1], one.box.stop[-1]), turn, are_ragged(one.operands)), []).append(one)
        self.groups = dict(sorted(groups.items(), key=lambda pair: pair[0][1]))  # what adds comes after what it adds to
        self.sources: list[Source] = []
        for one in operations:
            self._collect(one)
        self.spans: tuple[Span, ...] = tuple(span for span, *_ in self.groups)
        self.inlined = inline and len(operations) == 1 and _width(self.spans[0]) <= MAX_UNROLLED

    def signature(self) -> Hashable:
        """All that the function's text depends on; of its sources only their kinds and places."""
        kinds = tuple((type(one), getattr(one, "along", False), np.dtype(self._dtype(one))) for one in self.sources)
        loops = tuple(
            (self._manner(span, group), tuple(self._signature_of(one) for one in group))
            for (span, *_), group in self.groups.items()
        )
        return kinds, loops, self.inlined

    def _signature_of(self, operation: Operation) -> Hashable:
        place = self.sources.index
        reads = tuple(
            (tuple(place(one) for one in self._sources_of(operation, operand)), _variant(operand, operation.box))
            for operand in operation.operands
        )
        consts = tuple(place(one) for one in self._constants(operation))
        mask = None if operation.mask is None else place(self._mask_row(operation))
        predicate = None if operation.predicate is None else operation.predicate.key
        target = self.targets.index(operation.array)
        how = operation.adds, operation.in_lanes, operation.fraction
        return (operation.rule.key, predicate, how, target, reads, consts, mask)

    def _manner(self, span: Span, group: Sequence[Operation]) -> Manner:
        width = _width(span)
        if are_ragged(group[0].operands):
            return Ragged(width)
        if width <= MAX_UNROLLED:
            return width
        if width >= BLOCK and not any(self._overwrites(one) for one in group):
            return ()
        rest = width % BLOCK
        return (BLOCK, *(length for length in (8, 4, 2, 1) if rest & length))

    def _overwrites(self, operation: Operation) -> bool:
        """Whether an operation may write where it reads."""
        own = (
            read
            for read in operation.operands
            if isinstance(read, StateRead) and read.field in self.targets and not _is_lane(operation, read)
        )
        return operation.adds or any(-read.level >= self.fewest and not any(read.offset) for read in own)

    def write(self, name: str) -> ir.Function:
        """The function."""
        pointers = len(self.targets) + len(self.sources)
        code = self.code = Code(self.module, name, VOID, [POINTER] * pointers + [I64] * (2 * len(self.groups)))
        for target in code.arguments[: len(self.targets)]:
            target.add_attribute("noalias")
        code.function.attributes.add("alwaysinline" if self.inlined else "noinline")
        self.entries = {
            source: self._load(pointer, self._dtype(source), 0)
            for source, pointer in zip(self.sources, code.arguments[len(self.targets) :], strict=False)
            if isinstance(source, Entry) or (isinstance(source, ProfileRow) and not source.along)
        }
        for k, ((span, *_), group) in enumerate(self.groups.items()):
            start, stop = code.arguments[pointers + 2 * k : pointers + 2 * k + 2]
            self._loop(self._manner(span, group), group, start, stop)
        code.builder.ret_void()
        return code.function

    def _loop(self, manner: Manner, group: Sequence[Operation], start: Any, stop: Any) -> None:
        """Computes the operations at all points from a first one to a last."""
        code = self.code
        if isinstance(manner, Ragged):
            for first in range(0, manner.width, BLOCK):
                self._lanes(group, start, first, manner.width)
            return
        lanes = [self._begin_lanes(one) for one in group if one.in_lanes]
        if isinstance(manner, int):
            for j in range(manner):
                self._point(group, code.add(start, j))
        elif manner:
            with code.loop(0, code.div(code.sub(stop, start), BLOCK)) as block:
                self._short(group, code.add(start, code.mul(block, BLOCK)), BLOCK)
            for k, length in enumerate(manner[1:]):
                self._short(group, code.sub(stop, sum(manner[1 + k :])), length)
        else:
            self._blocks(group, start, stop)
        for out, before in lanes:
            self._end_lanes(out, before)

    def _blocks(self, group: Sequence[Operation], start: Any, stop: Any) -> None:
        """Blocks of points, the first and the last of which lie over their neighbours where they do not fill one."""
        code, last = self.code, self.code.sub(stop, BLOCK)
        zero = code.sub(code.builder.and_(code.add(start, self.phase), ir.Constant(I64, -BLOCK)), self.phase)
        begin = code.choose(code.equal(zero, start), zero, code.add(zero, BLOCK))
        whole = code.div(code.sub(stop, begin), BLOCK)
        end = code.add(begin, code.mul(whole, BLOCK))
        with code.when(code.below(zero, start)):
            self._short(group, start, BLOCK, code.sub(start, zero))
        with code.loop(0, whole) as block:
            self._short(group, code.add(begin, code.mul(block, BLOCK)), BLOCK)
        with code.when(code.below(end, stop)):
            self._short(group, last, BLOCK, code.sub(last, end))

    def _short(self, group: Sequence[Operation], first: Any, length: int, moved: Any = None) -> None:
        """So many points, of which the last were added up before where they are `moved`. Two are left as they are: LLVM
        may make of their loop what it cannot vectorise any more, and says so aloud."""
        code, part = self.code, moved is not None and any(one.in_lanes for one in group)
        with code.loop(0, length, vectorised=length > 2, whole=part) as j:
            again = code.builder.icmp_unsigned(">=", code.add(moved, j), ir.Constant(I64, BLOCK)) if part else None
            self._point(group, code.add(first, j), j, again)

    def _lanes(self, group: Sequence[Operation], start: Any, first: int, width: int) -> None:
        """A block of ragged points, from the one `first` after the start; all is read before anything is written."""
        code, count = self.code, BLOCK if width - first > BLOCK // 2 else BLOCK // 2
        lanes, found = Lanes(code, self.real, [first + k < width for k in range(count)]), []

        def pointer(array: Any, offset: int) -> Any:
            return code.builder.gep(array, [code.value(code.add(start, first + offset))], source_etype=lanes.kind)

        def value(operation: Operation, operand: Operand) -> Any:
            if isinstance(operand, WholeRead):
                return self._whole(operation, operand)
            (source,) = self._sources_of(operation, operand)
            if source in self.entries:
                return self.entries[source]
            columns = getattr(operand, "columns", ()) or ((operation.box.start[-1], operation.box.stop[-1]),)
            places = (operation.box.start[-1] + first + k for k in range(count))
            where = [any(low <= j < high for low, high in columns) for j in places]
            array = code.arguments[len(self.targets) + self.sources.index(source)]
            return lanes.load(pointer(array, operand.offset[-1]), where)

        for operation in group:
            rule, number = operation.rule, operation.number
            consts = [self.entries[Entry(f"rule {number} {k}")] for k in range(len(rule.consts))]
            result = lanes.run(rule.jaxpr, consts, [value(operation, operand) for operand in rule.operands])
            out = pointer(code.arguments[self.targets.index(operation.array)], 0)
            found.append((lanes.add(lanes.load(out, lanes.inside), result) if operation.adds else result, out))
        for result, out in found:
            lanes.store(result, out)

    def _begin_lanes(self, operation: Operation) -> tuple[Any, Any]:
        """Sets the lanes of a row to nothing; they, and those of the level before, as pointers."""
        code, out = self.code, self.code.arguments[self.targets.index(operation.array)]
        kind = stored_type(self.real)
        with code.loop(0, LANES, vectorised=True) as lane:
            code.builder.store(ir.Constant(kind, 0.0), code.builder.gep(out, [lane], source_etype=kind))
        (read,) = (one for one in operation.operands if _is_lane(operation, one))
        (source,) = self._sources_of(operation, read)
        return out, code.arguments[len(self.targets) + self.sources.index(source)]

    def _end_lanes(self, out: Any, before: Any) -> None:
        """Adds what was there a level before."""
        code, kind = self.code, stored_type(self.real)
        with code.loop(0, LANES, vectorised=True) as lane:
            there = code.builder.gep(out, [lane], source_etype=kind)
            value = code.builder.fadd(self._load(before, self.real, lane), code.builder.load(there, typ=kind))
            code.builder.store(value, there)

    def _constants(self, operation: Operation) -> list[Entry]:
        found = []
        for rule, number in ((operation.rule, operation.number), (operation.predicate, operation.held)):
            found += [Entry(f"rule {number} {k}") for k in range(len(rule.consts) if rule is not None else 0)]
        return found

    def _collect(self, operation: Operation) -> None:
        for operand in operation.operands:
            for source in self._sources_of(operation, operand):
                self._add(source)
        for source in self._constants(operation):
            self._add(source)
        if operation.mask is not None:
            self._add(self._mask_row(operation))

    def _add(self, source: Source) -> None:
        if source not in self.sources:
            self.sources.append(source)

    def _mask_row(self, operation: Operation) -> ProfileRow:
        assert operation.mask is not None
        space = tuple(axis for axis in self.axes if axis)
        return ProfileRow(operation.mask, space, (0,) * (len(space) - 1), True)

    def _sources_of(self, operation: Operation, operand: Operand) -> list[Source]:
        twice = not are_ragged(operation.operands)  # these are no loops
        if isinstance(operand, StateRead):
            return [RowRead(operand.field, -operand.level, operand.offset[:-1], twice and operand.offset[-1] % 2 == 1)]
        if isinstance(operand, ProfileRead):
            along = bool(operand.axes) and operand.axes[-1] == self.axes[-1]
            moved = operand.offset[:-1] if along else operand.offset
            turn = operand.turn if isinstance(operand, TurnedRead) else 0
            odd = twice and along and operand.offset[-1] % 2 == 1
            return [ProfileRow(operand.name, operand.axes, moved, along, turn, odd)]
        if operand == TIME_BEFORE:
            return [Entry("times", 1)]
        if operand.name == "t":
            whole = operation.fraction == 1.0
            return [Entry("times")] if whole else [Entry("times", 1), Entry("dt")]
        return [Entry("dt" if operand.name == "passed" else operand.name)]

    def _dtype(self, source: Source) -> Any:
        return self.real if isinstance(source, RowRead) else self.dtypes[source.name]

    def _load(self, pointer: Any, dtype: Any, at: Any) -> Any:
        return load_entry(self.code.builder, pointer, dtype, at)

    def _point(self, group: Sequence[Operation], j: Any, lane: Any = None, again: Any = None) -> None:
        """What the operations give at a point: all is read before anything is written.

        `lane` is where its sums are, `again` whether it was computed before.
        """
        builder, found = self.code.builder, []
        self.scalars, self.loaded = Scalars(self.code.module, builder), {}
        for operation in group:
            pointer = self.code.arguments[self.targets.index(operation.array)]
            at = lane if operation.in_lanes else j
            out = builder.gep(pointer, [self.code.value(at)], source_etype=stored_type(self.real))
            self.lane = builder.load(out, typ=stored_type(self.real)) if operation.in_lanes else None
            value = self._value(operation, out, j)
            if operation.in_lanes and again is not None:
                value = builder.select(again, self.lane, value)
            found.append((value, out))
        for value, out in found:
            builder.store(value, out)

    def _value(self, operation: Operation, out: Any, j: Any) -> Any:
        code = self.code
        value = self._rule(operation, operation.rule, operation.number, j)
        held = None
        if operation.mask is not None:
            held = self._at(self._mask_row(operation), j, 0)
        if operation.predicate is not None:
            holds = self._rule(operation, operation.predicate, operation.held, j)
            held = holds if held is None else code.builder.and_(held, holds)
        if held is not None or operation.adds:
            below = code.builder.load(out, typ=stored_type(self.real))
            if operation.adds:
                value = code.builder.fadd(value, below, flags=("contract", "nsz"))
            if held is not None:
                value = code.builder.select(held, value, below)
        return value

    def _rule(self, operation: Operation, rule: Traced, number: int | None, j: Any) -> Any:
        values = [self._operand(operation, operand, j) for operand in rule.operands]
        consts = [self.entries[Entry(f"rule {number} {k}")] for k in range(len(rule.consts))]
        (result,) = self.scalars.run(rule.jaxpr, consts, values)
        return result

    def _operand(self, operation: Operation, operand: Operand, j: Any) -> Any:
        if isinstance(operand, WholeRead):
            return self._whole(operation, operand)
        if _is_lane(operation, operand):
            return self.lane
        (source,) = self._sources_of(operation, operand)
        if source in self.entries:
            return self.entries[source]
        return self._at(source, j, operand.offset[-1])

    def _whole(self, operation: Operation, operand: WholeRead) -> Any:
        builder, fraction = self.code.builder, operation.fraction
        found = [self.entries[source] for source in self._sources_of(operation, operand)]  # type: ignore[index]
        if operand.name == "passed":
            return builder.fmul(found[0], ir.Constant(found[0].type, fraction))
        if operand.name == "t" and fraction != 1.0:
            return builder.fadd(found[0], builder.fmul(found[1], ir.Constant(found[1].type, fraction)))
        return found[0]

    def _at(self, source: Source, j: Any, offset: int) -> Any:
        if (source, offset) not in self.loaded:
            pointer = self.code.arguments[len(self.targets) + self.sources.index(source)]
            place = self.code.value(self.code.add(j, offset))
            self.loaded[source, offset] = self._load(pointer, self._dtype(source), place)
        return self.loaded[source, offset]


def _is_lane(operation: Operation, operand: Operand) -> bool:
    """Whether an operand is the lane of a row in which an operation adds up."""
    return operation.in_lanes and isinstance(operand, StateRead) and operand.field == operation.array


def _width(span: Span) -> int:
    return span[1] - span[0]


def _variant(operand: Operand, box: Box) -> Any:
    """What the text of a read depends on beside its source."""
    if isinstance(operand, WholeRead):
        return operand.name if operand.name in _TIMES else ()
    columns = getattr(operand, "columns", ())
    return operand.offset[-1:], tuple((low - box.start[-1], high - box.start[-1]) for low, high in columns)
