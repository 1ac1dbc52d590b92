"""Scalar code: the jaxpr of a rule as LLVM instructions on one point's values."""

from collections.abc import Callable, Sequence
from math import frexp
from typing import Any

import jax.numpy as jnp
import numpy as np
from llvmlite import ir

from ...stencil import ALL_CALLS, SAME, follow, inner_of, literal_key, value_key, why_not_pointwise
from ._elementary import FLAGS, exponential, hyperbolic_tangent

BOOL, I32, I64, F32, F64 = ir.IntType(1), ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()

_TYPES = {
    np.dtype(bool): BOOL, np.dtype(np.int32): I32, np.dtype(np.int64): I64,
    np.dtype(np.float32): F32, np.dtype(np.float64): F64,
}  # fmt: skip
_TWOS = 100
"""Exponents of powers of two whose inverses are normal numbers of all precisions."""
_INTRINSICS = {
    "sqrt": "sqrt", "log": "log", "sin": "sin", "cos": "cos", "exp2": "exp2", "floor": "floor",
    "ceil": "ceil", "abs": "fabs",
}  # fmt: skip
_LIBRARY = {
    "tan": "tan", "sinh": "sinh", "cosh": "cosh", "asin": "asin", "acos": "acos", "atan": "atan",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "expm1": "expm1", "log1p": "log1p", "cbrt": "cbrt",
    "erf": "erf", "erfc": "erfc", "atan2": "atan2", "rem": "fmod",
}  # fmt: skip
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

Emit = Callable[["Scalars", Any, list[Any]], Any]


def llvm_type(dtype: Any) -> ir.Type | None:
    """The LLVM type of values of a dtype; None where there is none here."""
    return _TYPES.get(np.dtype(dtype))


def stored_type(dtype: Any) -> ir.Type:
    """The LLVM type of entries of an array: truth values take a byte."""
    return ir.IntType(8) if np.dtype(dtype) == bool else _TYPES[np.dtype(dtype)]


def load_entry(builder: Any, pointer: Any, dtype: Any, at: Any = 0) -> Any:
    """The entry of an array with so many others between it and the pointer."""
    kind = stored_type(dtype)
    if not (isinstance(at, int) and at == 0):
        pointer = builder.gep(pointer, [at], source_etype=kind)
    value = builder.load(pointer, typ=kind)
    return builder.icmp_unsigned("!=", value, ir.Constant(kind, 0)) if np.dtype(dtype) == bool else value


def unsupported(jaxpr: Any) -> str | None:
    """Why a scalar jaxpr has no LLVM code here; None where it has."""
    return why_not_pointwise(jaxpr, lambda dtype: llvm_type(dtype) is not None, _RULES.__contains__)


class Scalars:
    """Emits scalar code with a builder, in a module that declares what it calls; what was done to the same values
    before is not done again. One serves code without branches."""

    def __init__(self, module: ir.Module, builder: Any):
        self.module, self.builder = module, builder
        self._found: dict[Any, tuple[Any, list[Any]]] = {}
        self._constants: dict[Any, ir.Constant] = {}

    def run(self, jaxpr: Any, consts: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """The values of a jaxpr's results."""
        return follow(
            jaxpr,
            [*consts, *values],
            self.evaluate,
            self._literal,
        )

    def evaluate(self, eqn: Any, given: list[Any]) -> list[Any]:
        """The values of an equation's results."""
        name = eqn.primitive.name
        if name in SAME:
            return [given[0]]
        if name not in ALL_CALLS:
            key = name, tuple(map(id, given)), value_key(eqn.params)
            if key not in self._found:  # values are held too, so that no other gets their numbers
                self._found[key] = _RULES[name](self, eqn, given), given
            return [self._found[key][0]]
        inner = inner_of(eqn)
        assert inner is not None  # asked by `unsupported`
        return self.run(inner.jaxpr, [constant(np.asarray(c).dtype, c) for c in inner.consts], given)

    def _literal(self, one: Any) -> ir.Constant:
        key = literal_key(one)
        if key not in self._constants:
            self._constants[key] = constant(one.aval.dtype, one.val)
        return self._constants[key]

    def call(self, name: str, *values: Any) -> Any:
        """A function of real numbers declared in the module."""
        kind = values[0].type
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(kind, [kind] * len(values)), name)
            function.attributes.add("nounwind")
        return self.builder.call(function, values, fastmath=FLAGS if name.startswith("llvm.") else ())

    def intrinsic(self, name: str, *values: Any) -> Any:
        """An LLVM intrinsic on reals."""
        return self.call(f"llvm.{name}.{'f32' if values[0].type == F32 else 'f64'}", *values)

    def library(self, name: str, *values: Any) -> Any:
        """A function of the C mathematics library."""
        return self.call(name + ("f" if values[0].type == F32 else ""), *values)


def constant(dtype: Any, value: Any) -> ir.Constant:
    """A number as a constant of its dtype."""
    kind, number = _TYPES[np.dtype(dtype)], np.asarray(value).item()
    return ir.Constant(kind, float(number) if kind in (F32, F64) else int(number))


def _is_float(value: Any) -> bool:
    return value.type in (F32, F64)


def _arithmetic(real: str, whole: str) -> Emit:
    def emit(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
        builder = scalars.builder
        if _is_float(given[0]):
            return getattr(builder, real)(*given, flags=FLAGS)
        return getattr(builder, whole)(*given)

    return emit


def _extreme(comparison: str) -> Emit:
    """max or min, nan where either is nan."""

    def emit(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
        builder, (a, b) = scalars.builder, given
        if not _is_float(a):
            compare = builder.icmp_unsigned if a.type == BOOL else builder.icmp_signed
            return builder.select(compare(comparison, a, b), a, b)
        found = builder.select(
            builder.fcmp_ordered(comparison, a, b), a, b
        )  # an instruction of its own: b if unordered
        return builder.select(builder.fcmp_unordered("uno", a, a), a, found)

    return emit


def _compare(comparison: str) -> Emit:
    def emit(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
        builder, (a, b) = scalars.builder, given
        if _is_float(a):
            order = builder.fcmp_unordered if comparison == "!=" else builder.fcmp_ordered
            return order(comparison, a, b)
        return (builder.icmp_unsigned if a.type == BOOL else builder.icmp_signed)(comparison, a, b)

    return emit


def _convert(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    builder, (a,), kind = scalars.builder, given, _TYPES[np.dtype(eqn.params["new_dtype"])]
    old = a.type
    if old == kind:
        return a
    if kind == BOOL:
        return builder.fcmp_unordered("!=", a, ir.Constant(old, 0.0)) if _is_float(a) else builder.icmp_signed(
            "!=", a, ir.Constant(old, 0)
        )  # fmt: skip
    if _is_float(a):
        if kind in (F32, F64):
            return builder.fptrunc(a, kind) if kind == F32 else builder.fpext(a, kind)
        return _to_whole(scalars, a, kind)
    if kind in (F32, F64):
        return builder.uitofp(a, kind) if old == BOOL else builder.sitofp(a, kind)
    if old == BOOL:
        return builder.zext(a, kind)
    return builder.trunc(a, kind) if old == I64 else builder.sext(a, kind)


def _to_whole(scalars: Scalars, a: Any, kind: Any) -> Any:
    """A real as a whole number, as XLA does it: towards zero, the nearest there is beyond the range, 0 for nan."""
    name = f"llvm.fptosi.sat.i{kind.width}.{'f32' if a.type == F32 else 'f64'}"
    function = scalars.module.globals.get(name)
    if function is None:
        function = ir.Function(scalars.module, ir.FunctionType(kind, [a.type]), name)
    return scalars.builder.call(function, [a])


def _integer_power(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    (a,), power = given, int(eqn.params["y"])
    multiply = _RULES["mul"]
    one = ir.Constant(a.type, 1.0 if _is_float(a) else 1)
    result, base, left = None, a, abs(power)
    while left:
        if left & 1:
            result = base if result is None else multiply(scalars, eqn, [result, base])
        left >>= 1
        if left:
            base = multiply(scalars, eqn, [base, base])
    result = one if result is None else result
    return scalars.builder.fdiv(one, result, flags=FLAGS) if power < 0 else result


def _one_minus_square(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    """(1 − x)(1 + x), which loses nothing near 1; newer versions of JAX differentiate tanh so."""
    (a,) = given
    one = ir.Constant(a.type, 1.0 if _is_float(a) else 1)
    sides = [_RULES[name](scalars, eqn, [one, a]) for name in ("sub", "add")]
    return _RULES["mul"](scalars, eqn, sides)


def _select(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    which, *cases = given
    builder, result = scalars.builder, cases[0]
    for number, case in enumerate(cases[1:], start=1):
        chosen = which if which.type == BOOL else builder.icmp_signed("==", which, ir.Constant(which.type, number))
        result = builder.select(chosen, case, result)
    return result


def _sign(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    builder, (a,) = scalars.builder, given
    if not _is_float(a):
        zero = ir.Constant(a.type, 0)
        above = builder.zext(builder.icmp_signed(">", a, zero), a.type)
        return builder.sub(above, builder.zext(builder.icmp_signed("<", a, zero), a.type))
    one = scalars.intrinsic("copysign", ir.Constant(a.type, 1.0), a)
    moves = builder.fcmp_ordered("!=", a, ir.Constant(a.type, 0.0))
    return builder.select(moves, one, a)  # zeros keep their sign, nan stays nan


def _absolute(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    builder, (a,) = scalars.builder, given
    if _is_float(a):
        return scalars.intrinsic("fabs", a)
    return builder.select(builder.icmp_signed("<", a, ir.Constant(a.type, 0)), builder.neg(a), a)


def _negate(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    (a,) = given
    return scalars.builder.fneg(a) if _is_float(a) else scalars.builder.neg(a)


def _by_intrinsic(name: str) -> Emit:
    return lambda scalars, eqn, given: scalars.intrinsic(name, *given)


def _by_library(name: str) -> Emit:
    return lambda scalars, eqn, given: scalars.library(name, *given)


def _divide(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    """a / b; of whole numbers towards zero, −1 for b = 0 (as XLA does it: the processor would stop the process)."""
    a, b = given
    if _is_float(a):
        inverse = _exact_inverse(scalars, b)
        return (
            scalars.builder.fdiv(a, b, flags=FLAGS)
            if inverse is None
            else scalars.builder.fmul(a, inverse, flags=FLAGS)
        )
    safe, is_zero, is_minus = _safe_divisor(scalars, b)
    builder = scalars.builder
    found = builder.select(is_minus, builder.neg(a), builder.sdiv(a, safe))
    return builder.select(is_zero, ir.Constant(a.type, -1), found)


def _exact_inverse(scalars: Scalars, b: Any) -> Any:
    """1 / b where that is known to be exact: of powers of two, and of a choice between them, by which the derivative
    of a maximum divides; None elsewhere."""
    if isinstance(b, ir.Constant) and isinstance(b.constant, float):
        fraction, exponent = frexp(abs(b.constant))
        return ir.Constant(b.type, 1.0 / b.constant) if fraction == 0.5 and abs(exponent) < _TWOS else None
    if not isinstance(b, ir.SelectInstr):
        return None
    which, *cases = b.operands
    inverses = [_exact_inverse(scalars, case) for case in cases]
    return None if any(one is None for one in inverses) else scalars.builder.select(which, *inverses)


def _remainder(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    """a − b · (a / b), with the sign of a; of whole numbers a for b = 0."""
    a, b = given
    if _is_float(a):
        return scalars.library("fmod", a, b)
    safe, is_zero, _ = _safe_divisor(scalars, b)
    builder = scalars.builder
    return builder.select(is_zero, a, builder.srem(a, safe))  # by −1 nothing remains, nor by 1


def _safe_divisor(scalars: Scalars, b: Any) -> tuple[Any, Any, Any]:
    """1 in place of 0 and −1, by which the processor does not divide all numbers; and whether it is these."""
    builder = scalars.builder
    is_zero = builder.icmp_signed("==", b, ir.Constant(b.type, 0))
    is_minus = builder.icmp_signed("==", b, ir.Constant(b.type, -1))
    return builder.select(builder.or_(is_zero, is_minus), ir.Constant(b.type, 1), b), is_zero, is_minus


def _power(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    """aᵇ; b may be a whole number."""
    a, b = given
    return scalars.intrinsic("pow", a, b if _is_float(b) else scalars.builder.sitofp(b, a.type))


def _inverse_root(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    root = scalars.intrinsic("sqrt", *given)
    return scalars.builder.fdiv(ir.Constant(root.type, 1.0), root, flags=FLAGS)


def _logistic(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    builder, (a,) = scalars.builder, given
    one = ir.Constant(a.type, 1.0)
    return builder.fdiv(one, builder.fadd(one, exponential(builder, builder.fneg(a)), flags=FLAGS), flags=FLAGS)


def _clamp(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    low, a, high = given
    return _RULES["min"](scalars, eqn, [_RULES["max"](scalars, eqn, [a, low]), high])


def _is_finite(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    size = scalars.intrinsic("fabs", *given)
    return scalars.builder.fcmp_ordered("<", size, ir.Constant(size.type, float("inf")))


def _round(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    to_even = int(eqn.params["rounding_method"]) == 1
    return scalars.intrinsic("roundeven" if to_even else "round", *given)


def _not(scalars: Scalars, eqn: Any, given: list[Any]) -> Any:
    return scalars.builder.not_(*given)


_RULES: dict[str, Emit] = {
    "add": _arithmetic("fadd", "add"),
    "add_any": _arithmetic("fadd", "add"),
    "sub": _arithmetic("fsub", "sub"),
    "mul": _arithmetic("fmul", "mul"),
    "div": _divide,
    "max": _extreme(">"),
    "min": _extreme("<"),
    "and": _arithmetic("fadd", "and_"),
    "or": _arithmetic("fadd", "or_"),
    "xor": _arithmetic("fadd", "xor"),
    "neg": _negate,
    "not": _not,
    "square": lambda scalars, eqn, given: _RULES["mul"](scalars, eqn, [given[0], given[0]]),
    "one_minus_square": _one_minus_square,
    "sign": _sign,
    "integer_pow": _integer_power,
    "select_n": _select,
    "convert_element_type": _convert,
    "logistic": _logistic,
    "rsqrt": _inverse_root,
    "clamp": _clamp,
    "is_finite": _is_finite,
    "round": _round,
    **{name: _compare(sign) for name, sign in _COMPARISONS.items()},
    **{name: _by_library(function) for name, function in _LIBRARY.items()},
    **{name: _by_intrinsic(function) for name, function in _INTRINSICS.items()},
    "exp": lambda scalars, eqn, given: exponential(scalars.builder, *given),
    "tanh": lambda scalars, eqn, given: hyperbolic_tangent(scalars.builder, *given),
    "abs": _absolute,
    "rem": _remainder,
    "pow": _power,
}


def supports_dtype(dtype: Any) -> bool:
    """Whether fields of a dtype are served."""
    return np.dtype(dtype) in (np.dtype(np.float32), np.dtype(np.float64)) and bool(jnp.issubdtype(dtype, jnp.floating))
