"""Row functions: one operation along the last axis, the loop that the compiler vectorises."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from ...stencil import Operand, ProfileRead, StateRead, Traced, WholeRead
from ._code import POINTER, VOID, Code
from ._operands import TIME_BEFORE, TurnedRead
from ._program import Operation
from ._scalar import I64, Scalars, stored_type

MAX_UNROLLED = 8
"""Points; shorter boxes are written out, and inlined."""
MAX_INLINED = 16
"""Operations; where there are more, inlining takes long to compile."""
_TIMES = ("t", "passed")


@dataclass(frozen=True)
class RowRead:
    """A row of an array: which, how many levels back, and how it is moved along all axes but the last.

    Even and odd offsets along the last axis have a pointer each. Through one, the compiler would see that an entry was
    read one turn before, and shuffle registers instead of reading it again, which is slower.
    """

    array: str
    lag: int
    moved: tuple[int, ...]
    odd: bool = False


@dataclass(frozen=True)
class ProfileRow:
    """A row of a profile, or its one entry there where it does not run along the last axis.

    `turn`: how many rows further on, counted round a periodic first axis, before it is moved.
    """

    name: str
    axes: tuple[str, ...]
    moved: tuple[int, ...]
    along: bool
    turn: int = 0


@dataclass(frozen=True)
class Entry:
    """One number: a parameter, a constant ("rule 3 0"), the time of the level or of the one before, or Δt."""

    name: str
    behind: int = 0


Source = RowRead | ProfileRow | Entry


@dataclass(frozen=True)
class Row:
    """A row function, and what its pointers point to: the row written, then the sources."""

    function: ir.Function
    sources: tuple[Source, ...]


def write_rows(
    module: ir.Module, operations: Sequence[Operation], axes: tuple[str, ...], dtypes: Mapping[str, Any]
) -> list[Row]:
    """The row function of each operation; those that do the same with other rows share one.

    `dtypes` are those of shared arrays by name.
    """
    found: dict[Any, ir.Function] = {}
    rows = []
    for operation in operations:
        writer = RowWriter(module, operation, axes, dtypes, len(operations) <= MAX_INLINED)
        key = writer.signature()
        if key not in found:
            found[key] = writer.write(f"row_{len(found)}")
        rows.append(Row(found[key], tuple(writer.sources)))
    return rows


class RowWriter:
    """Writes the row function of an operation: f(out, sources …, number of points)."""

    def __init__(
        self, module: ir.Module, operation: Operation, axes: tuple[str, ...], dtypes: Mapping[str, Any], inline: bool
    ):
        self.module, self.operation, self.axes, self.dtypes = module, operation, axes, dtypes
        self.real = np.dtype(operation.rule.dtype)
        self.sources: list[Source] = []
        self._collect()
        width = operation.box.shape[-1]
        self.unrolled = width if width <= MAX_UNROLLED and inline else 0

    def signature(self) -> Hashable:
        """All that the function's text depends on; of its sources only their kinds and places."""
        operation, place = self.operation, self.sources.index
        reads = tuple(
            (tuple(place(one) for one in self._sources_of(operand)), _variant(operand))
            for operand in operation.operands
        )
        kinds = tuple((type(one), getattr(one, "along", False), np.dtype(self._dtype(one))) for one in self.sources)
        consts = tuple(place(one) for one in self._constants())
        mask = None if operation.mask is None else place(self._mask_row())
        predicate = None if operation.predicate is None else operation.predicate.key
        whole = (operation.rule.key, predicate, operation.adds, operation.fraction, self.unrolled)
        return whole, reads, kinds, consts, mask

    def write(self, name: str) -> ir.Function:
        """The function."""
        code = self.code = Code(self.module, name, VOID, [POINTER] * (1 + len(self.sources)) + [I64])
        code.arguments[0].add_attribute("noalias")
        code.function.attributes.add("alwaysinline" if self.unrolled else "noinline")
        self.entries = {
            source: self._load(pointer, self._dtype(source), 0)
            for source, pointer in zip(self.sources, code.arguments[1:], strict=False)
            if isinstance(source, Entry) or (isinstance(source, ProfileRow) and not source.along)
        }
        if self.unrolled:
            for j in range(self.unrolled):
                with code.when(code.below(j, code.arguments[-1])):
                    self._point(ir.Constant(I64, j))
        else:
            with code.loop(0, code.arguments[-1], vectorised=True) as j:
                self._point(j)
        code.builder.ret_void()
        return code.function

    def _constants(self) -> list[Entry]:
        operation, found = self.operation, []
        for rule, number in ((operation.rule, operation.number), (operation.predicate, operation.held)):
            found += [Entry(f"rule {number} {k}") for k in range(len(rule.consts) if rule is not None else 0)]
        return found

    def _collect(self) -> None:
        operation = self.operation
        for operand in operation.operands:
            for source in self._sources_of(operand):
                self._add(source)
        for source in self._constants():
            self._add(source)
        if operation.mask is not None:
            self._add(self._mask_row())

    def _add(self, source: Source) -> None:
        if source not in self.sources:
            self.sources.append(source)

    def _mask_row(self) -> ProfileRow:
        assert self.operation.mask is not None
        space = tuple(axis for axis in self.axes if axis)
        return ProfileRow(self.operation.mask, space, (0,) * (len(space) - 1), True)

    def _sources_of(self, operand: Operand) -> list[Source]:
        if isinstance(operand, StateRead):
            return [RowRead(operand.field, -operand.level, operand.offset[:-1], bool(operand.offset[-1] % 2))]
        if isinstance(operand, ProfileRead):
            along = bool(operand.axes) and operand.axes[-1] == self.axes[-1]
            moved = operand.offset[:-1] if along else operand.offset
            turn = operand.turn if isinstance(operand, TurnedRead) else 0
            return [ProfileRow(operand.name, operand.axes, moved, along, turn)]
        if operand == TIME_BEFORE:
            return [Entry("times", 1)]
        if operand.name == "t":
            whole = self.operation.fraction == 1.0
            return [Entry("times")] if whole else [Entry("times", 1), Entry("dt")]
        return [Entry("dt" if operand.name == "passed" else operand.name)]

    def _dtype(self, source: Source) -> Any:
        return self.real if isinstance(source, RowRead) else self.dtypes[source.name]

    def _load(self, pointer: Any, dtype: Any, at: Any) -> Any:
        builder, kind = self.code.builder, stored_type(dtype)
        if not (isinstance(at, int) and at == 0):
            pointer = builder.gep(pointer, [at], source_etype=kind)
        value = builder.load(pointer, typ=kind)
        return builder.icmp_unsigned("!=", value, ir.Constant(kind, 0)) if np.dtype(dtype) == bool else value

    def _point(self, j: Any) -> None:
        operation, code = self.operation, self.code
        scalars = Scalars(code.module, code.builder)
        value = self._rule(scalars, operation.rule, operation.number, j)
        out = code.builder.gep(code.arguments[0], [j], source_etype=stored_type(self.real))
        held = None
        if operation.mask is not None:
            held = self._at(self._mask_row(), j, 0)
        if operation.predicate is not None:
            holds = self._rule(scalars, operation.predicate, operation.held, j)
            held = holds if held is None else code.builder.and_(held, holds)
        if held is not None or operation.adds:
            below = code.builder.load(out, typ=stored_type(self.real))
            if operation.adds:
                value = code.builder.fadd(value, below, flags=("contract", "nsz"))
            if held is not None:
                value = code.builder.select(held, value, below)
        code.builder.store(value, out)

    def _rule(self, scalars: Scalars, rule: Traced, number: int | None, j: Any) -> Any:
        values = [self._operand(operand, j) for operand in rule.operands]
        consts = [self.entries[Entry(f"rule {number} {k}")] for k in range(len(rule.consts))]
        (result,) = scalars.run(rule.jaxpr, consts, values)
        return result

    def _operand(self, operand: Operand, j: Any) -> Any:
        if isinstance(operand, WholeRead):
            return self._whole(operand)
        (source,) = self._sources_of(operand)
        if source in self.entries:
            return self.entries[source]
        return self._at(source, j, operand.offset[-1])

    def _whole(self, operand: WholeRead) -> Any:
        builder, fraction = self.code.builder, self.operation.fraction
        found = [self.entries[source] for source in self._sources_of(operand)]  # type: ignore[index]
        if operand.name == "passed":
            return builder.fmul(found[0], ir.Constant(found[0].type, fraction))
        if operand.name == "t" and fraction != 1.0:
            return builder.fadd(found[0], builder.fmul(found[1], ir.Constant(found[1].type, fraction)))
        return found[0]

    def _at(self, source: Source, j: Any, offset: int) -> Any:
        pointer = self.code.arguments[1 + self.sources.index(source)]
        at = self.code.builder.add(j, ir.Constant(I64, offset)) if offset else j
        return self._load(pointer, self._dtype(source), at)


def _variant(operand: Operand) -> Any:
    """What the text of a read depends on beside its source."""
    return (
        operand.name
        if isinstance(operand, WholeRead) and operand.name in _TIMES
        else getattr(operand, "offset", ())[-1:]
    )
