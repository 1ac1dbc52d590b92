"""A few words over the LLVM builder: whole numbers, memory, loops and branches."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from ._scalar import BOOL, I32, I64

POINTER = ir.PointerType()
VOID = ir.VoidType()
STACK = 64
"""Bytes, of which the stack's addresses are a multiple: as many as the widest vector has."""
Number = Any
"""An i64 value, or an int known when the code is generated."""


class Code:
    """Emits into one function; whole numbers known beforehand are folded."""

    def __init__(
        self, module: ir.Module, name: str, result: ir.Type, arguments: Sequence[ir.Type], internal: bool = True
    ):
        self.module = module
        self.function = ir.Function(module, ir.FunctionType(result, arguments), name)
        self.function.attributes.add("nounwind")
        if internal:
            self.function.linkage = "internal"
        self.builder: Any = ir.IRBuilder(self.function.append_basic_block("entry"))

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The function's arguments."""
        return self.function.args

    def value(self, number: Number) -> Any:
        """As an i64 value."""
        return ir.Constant(I64, number) if isinstance(number, int) else number

    def add(self, a: Number, b: Number) -> Number:
        """a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(b, int) and b == 0:
            return a
        if isinstance(a, int) and a == 0:
            return b
        return self.builder.add(self.value(a), self.value(b))

    def sub(self, a: Number, b: Number) -> Number:
        """a − b."""
        if isinstance(b, int):
            return self.add(a, -b)
        return self.builder.sub(self.value(a), b)

    def mul(self, a: Number, b: Number) -> Number:
        """a · b."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for one, other in ((a, b), (b, a)):
            if isinstance(one, int) and one in (0, 1):
                return other if one else 0
        return self.builder.mul(self.value(a), self.value(b))

    def div(self, a: Number, b: Number) -> Number:
        """⌊a / b⌋ for a ≥ 0."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return self.builder.sdiv(self.value(a), self.value(b))

    def rest(self, a: Number, b: Number) -> Number:
        """a − b⌊a / b⌋ for 0 ≤ a, b < 2³¹."""
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        short = (self.builder.trunc(self.value(one), I32) for one in (a, b))
        return self.builder.zext(self.builder.urem(*short), I64)

    def below(self, a: Number, b: Number) -> Any:
        """a < b."""
        return self.builder.icmp_signed("<", self.value(a), self.value(b))

    def equal(self, a: Number, b: Number) -> Any:
        """a = b."""
        return self.builder.icmp_signed("==", self.value(a), self.value(b))

    def choose(self, condition: Any, a: Number, b: Number) -> Any:
        """a where the condition holds, else b."""
        return self.builder.select(condition, self.value(a), self.value(b))

    def least(self, a: Number, b: Number) -> Number:
        """min(a, b)."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.choose(self.below(a, b), a, b)

    def most(self, a: Number, b: Number) -> Number:
        """max(a, b)."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.choose(self.below(a, b), b, a)

    def round_up(self, a: Number, multiple: int) -> Number:
        """The next multiple of a power of two."""
        if isinstance(a, int):
            return -(-a // multiple) * multiple
        return self.builder.and_(self.add(a, multiple - 1), ir.Constant(I64, -multiple))

    def power_of_two(self, a: Number) -> Any:
        """The least power of two from a ≥ 1 on."""
        zeros = self.builder.ctlz(self.value(self.sub(a, 1)), ir.Constant(BOOL, False))
        return self.builder.shl(ir.Constant(I64, 1), self.builder.sub(ir.Constant(I64, 64), zeros))

    def address(self, pointer: Any) -> Any:
        """A pointer as a number."""
        return self.builder.ptrtoint(pointer, I64)

    def pointer(self, address: Number) -> Any:
        """A number as a pointer."""
        return self.builder.inttoptr(self.value(address), POINTER)

    def load(self, address: Number, at: Number = 0, kind: ir.Type = I64) -> Any:
        """The entry at an address and a number of bytes on; i32 is widened."""
        found = self.builder.load(self.pointer(self.add(address, at)), typ=kind)
        return self.builder.sext(found, I64) if kind == I32 else found

    def store(self, value: Number, address: Number, at: Number = 0) -> None:
        """Stores an i64 at an address and a number of bytes on."""
        self.builder.store(self.value(value), self.pointer(self.add(address, at)))

    def count(self, address: Number, at: int, change: Number) -> Any:
        """Adds to a shared counter; its value before."""
        return self.builder.atomic_rmw("add", self.pointer(self.add(address, at)), self.value(change), "seq_cst")

    def raise_to(self, address: Number, value: Number) -> Any:
        """Raises a shared counter to a value, if it is less; its value before."""
        return self.builder.atomic_rmw("max", self.pointer(address), self.value(value), "seq_cst")

    def look(self, address: Number, at: int) -> Any:
        """The value of a shared counter; what was written before it was set is seen then."""
        return self.builder.load_atomic(self.pointer(self.add(address, at)), "acquire", 8, typ=I64)

    def call(self, name: str, result: ir.Type, *values: Any) -> Any:
        """A C function of the process."""
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(result, [v.type for v in values]), name)
        return self.builder.call(function, values)

    def table(self, entries: Number) -> Any:
        """The address of a table of i64 entries on the stack, which stays aligned for vectors: where a function has
        many arguments, LLVM stores several at once, and takes the stack to be as it was when the function began."""
        table = self.builder.alloca(I64, self.value(entries))
        table.align = STACK
        return self.builder.ptrtoint(table, I64)

    @contextmanager
    def loop(self, start: Number, stop: Number, vectorised: bool = False, whole: bool = False) -> Iterator[Any]:
        """for i in range(start, stop); points that lie beside each other are computed together, or never are, as where
        C functions are called, of which LLVM would complain; `whole`: none of them is written out before."""
        builder = self.builder
        before = builder.block
        body, after = self.function.append_basic_block("loop"), self.function.append_basic_block("after")
        start, stop = self.value(start), self.value(stop)
        builder.cbranch(builder.icmp_signed("<", start, stop), body, after)
        builder.position_at_end(body)
        index = builder.phi(I64)
        index.add_incoming(start, before)
        yield index
        following = builder.add(index, ir.Constant(I64, 1), flags=("nsw",))
        index.add_incoming(following, builder.block)
        branch = builder.cbranch(builder.icmp_signed("<", following, stop), body, after)
        together = vectorised and not any(map(_calls, self.function.blocks[self.function.blocks.index(body) :]))
        words = [["llvm.loop.vectorize.enable", ir.Constant(BOOL, together)]]
        words += [["llvm.loop.unroll.disable"]] if whole else []
        about = [self.module.add_metadata(word) for word in words]
        branch.set_metadata("llvm.loop", self.module.add_metadata([f"{_LOOP} {len(self.module.metadata)}", *about]))
        builder.position_at_end(after)

    @contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        """if condition."""
        with self.builder.if_then(condition):
            yield

    @contextmanager
    def forever(self) -> Iterator[Any]:
        """A loop left by `leave(condition)`, which is yielded."""
        builder = self.builder
        body, after = self.function.append_basic_block("again"), self.function.append_basic_block("after")
        builder.branch(body)
        builder.position_at_end(body)

        def leave(condition: Any) -> None:
            stay = self.function.append_basic_block("stay")
            builder.cbranch(condition, after, stay)
            builder.position_at_end(stay)

        yield leave
        builder.branch(body)
        builder.position_at_end(after)


def _calls(block: ir.Block) -> bool:
    """Whether a block calls functions that are no intrinsics."""
    calls = (one for one in block.instructions if isinstance(one, ir.CallInstr))
    return any(not getattr(one.callee, "name", "").startswith("llvm.") for one in calls)


_LOOP = "loop"
"""What stands in the metadata of a loop for the metadata itself, which must be their own first entry."""


def text_of(module: ir.Module) -> str:
    """The text of a module; what it says of its loops is each loop's own."""
    return re.sub(rf'^(!\d+) = !\{{ !"{_LOOP} \d+", ', r"\1 = distinct !{ \1, ", str(module), flags=re.MULTILINE)
