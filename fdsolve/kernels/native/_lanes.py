"""A few points of a row at once, as vectors: what is read in some columns alone is zero in the lanes of others."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ...stencil import ALL_CALLS, SAME, Operand, ProfileRead, StateRead, Traced, follow, inner_of
from ._code import VOID, Code
from ._scalar import BOOL, F32, FLAGS, I32, Scalars, constant, stored_type


class _Zero:
    """What is zero in all lanes."""


ZERO = _Zero()


def _add(builder: Any, a: Any, b: Any) -> Any:
    if a is ZERO or b is ZERO:
        return b if a is ZERO else a
    return builder.fadd(a, b, flags=FLAGS)


def _sub(builder: Any, a: Any, b: Any) -> Any:
    if a is ZERO or b is ZERO:
        return a if b is ZERO else _neg(builder, b)
    return builder.fsub(a, b, flags=FLAGS)


def _mul(builder: Any, a: Any, b: Any) -> Any:
    return ZERO if a is ZERO or b is ZERO else builder.fmul(a, b, flags=FLAGS)


def _neg(builder: Any, a: Any) -> Any:
    return ZERO if a is ZERO else builder.fneg(a)


_RULES: dict[str, Callable[..., Any]] = {"add": _add, "add_any": _add, "sub": _sub, "mul": _mul, "neg": _neg}


def is_polynomial(jaxpr: Any, dtype: Any, moving: Sequence[bool]) -> bool:
    """Whether a scalar jaxpr only adds and multiplies what depends on those inputs that are `moving`, constants first,
    in one dtype: so that it has code for lanes, and is zero where all that it multiplies is."""
    able = True

    def evaluate(eqn: Any, given: list[bool]) -> list[bool]:
        nonlocal able
        inner = inner_of(eqn) if eqn.primitive.name in ALL_CALLS else None
        if inner is not None and any(given):
            return follow(inner.jaxpr, [*[False] * len(inner.consts), *given], evaluate, lambda literal: False)
        if any(given):
            able = able and eqn.primitive.name in (*_RULES, *SAME)
            able = able and all(np.dtype(one.aval.dtype) == dtype for one in (*eqn.invars, *eqn.outvars))
        return [any(given)] * len(eqn.outvars)

    follow(jaxpr, moving, evaluate, lambda literal: False)
    return able


def has_lanes(rule: Traced, last: str) -> bool:
    """The same of a rule on points along a `last` axis."""

    def moves(one: Operand) -> bool:
        return isinstance(one, StateRead) or (isinstance(one, ProfileRead) and one.axes[-1:] == (last,))

    return is_polynomial(rule.jaxpr, rule.dtype, [*[False] * len(rule.consts), *map(moves, rule.operands)])


class Lanes:
    """Emits code for `count` points of a row at once, those of which `inside` is true."""

    def __init__(self, code: Code, dtype: Any, inside: Sequence[bool]):
        self.code, self.inside, self.count = code, tuple(inside), len(inside)
        self.kind, self.scalars = stored_type(dtype), Scalars(code.module, code.builder)
        self.vector = ir.VectorType(self.kind, self.count)

    def load(self, pointer: Any, where: Sequence[bool]) -> Any:
        """Entries from a pointer on: in lanes that are inside and of which `where` is true; zero in others."""
        mask = [a and b for a, b in zip(self.inside, where, strict=True)]
        if not any(mask):
            return ZERO
        if all(mask):
            return self.code.builder.load(pointer, typ=self.vector, align=self._align())
        name = f"llvm.masked.load.{self._suffix()}"
        given = (pointer, ir.Constant(I32, self._align()), self._mask(mask), ir.Constant(self.vector, None))
        return self._call(name, self.vector, given)

    def store(self, value: Any, pointer: Any) -> None:
        """Stores entries in lanes that are inside."""
        value = ir.Constant(self.vector, None) if value is ZERO else value
        if all(self.inside):
            self.code.builder.store(value, pointer, align=self._align())
            return
        given = (value, pointer, ir.Constant(I32, self._align()), self._mask(self.inside))
        self._call(f"llvm.masked.store.{self._suffix()}", VOID, given)

    def spread(self, value: Any) -> Any:
        """A number in all lanes; others as they are."""
        if value is ZERO or value.type == self.vector:
            return value
        if isinstance(value, ir.Constant):
            return ZERO if value.constant == 0.0 else ir.Constant(self.vector, [value.constant] * self.count)
        builder, zeros = self.code.builder, ir.Constant(ir.VectorType(I32, self.count), None)
        first = builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, ir.Constant(I32, 0))
        return builder.shuffle_vector(first, ir.Constant(self.vector, ir.Undefined), zeros)

    def add(self, a: Any, b: Any) -> Any:
        """a + b."""
        return _add(self.code.builder, a, self.spread(b))

    def run(self, jaxpr: Any, consts: Sequence[Any], values: Sequence[Any]) -> Any:
        """The value of a jaxpr's only result; numbers that are the same in all lanes are computed once."""
        (result,) = follow(jaxpr, [*consts, *values], self._evaluate, _literal)
        return self.spread(result)

    def _evaluate(self, eqn: Any, given: list[Any]) -> list[Any]:
        name = eqn.primitive.name
        if not any(one is ZERO or one.type == self.vector for one in given):
            return self.scalars.evaluate(eqn, given)
        if name in SAME:
            return [given[0]]
        if name not in ALL_CALLS:
            return [_RULES[name](self.code.builder, *map(self.spread, given))]
        inner = inner_of(eqn)
        assert inner is not None  # asked before
        consts = [constant(np.asarray(c).dtype, c) for c in inner.consts]
        return follow(inner.jaxpr, [*consts, *given], self._evaluate, _literal)

    def _mask(self, lanes: Sequence[bool]) -> Any:
        return ir.Constant(ir.VectorType(BOOL, self.count), [int(one) for one in lanes])

    def _align(self) -> int:
        return 4 if self.kind == F32 else 8

    def _suffix(self) -> str:
        return f"v{self.count}f{8 * self._align()}.p0"

    def _call(self, name: str, result: ir.Type, given: Sequence[Any]) -> Any:
        function = self.code.module.globals.get(name)
        if function is None:
            kind = ir.FunctionType(result, [one.type for one in given])
            function = ir.Function(self.code.module, kind, name)
        return self.code.builder.call(function, given)


def _literal(literal: Any) -> Any:
    return constant(literal.aval.dtype, literal.val)
