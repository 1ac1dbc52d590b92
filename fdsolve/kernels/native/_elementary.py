"""exp and tanh without calls, so that loops over them are vectors: those of the C library take a point at a time.

x = k ln 2 + r with |r| ≤ ½ ln 2, ln 2 in two parts of which the first times k is exact (Cody & Waite, Software Manual
for the Elementary Functions, 1980), and eʳ − 1 by its series. Errors: two units in the last place at most, of tanh
three.
"""

from dataclasses import dataclass
from math import factorial, log
from typing import Any

from llvmlite import ir

FLAGS = ("contract", "nsz")
"""What arithmetic on reals may do: fuse, and forget signs of zeros."""


@dataclass(frozen=True)
class _Format:
    """A real of so many bits: the type of whole numbers of that many, bits of the fraction, the exponent's offset, ln 2
    in two parts, terms of the series, where the exponential is zero and infinite, and from where on tanh is one."""

    whole: ir.IntType
    fraction: int
    offset: int
    high: float
    low: float
    terms: int
    zero: float
    infinite: float
    one: float


_FORMATS = {
    "float": _Format(ir.IntType(32), 23, 127, 0.693359375, -2.12194440054690583e-4, 7, -104.0, 89.0, 10.0),
    "double": _Format(
        ir.IntType(64), 52, 1023, 6.93147180369123816490e-1, 1.90821492927058770002e-10, 13, -746.0, 710.0, 20.0
    ),
}


def exponential(builder: Any, x: Any) -> Any:
    """eˣ."""
    form, kind = _FORMATS[str(x.type)], x.type
    number = builder.fcmp_ordered("ord", x, x)
    given = builder.select(number, x, ir.Constant(kind, 0.0))
    for sign, end in (("<", form.zero), (">", form.infinite)):
        given = builder.select(builder.fcmp_ordered(sign, given, ir.Constant(kind, end)), ir.Constant(kind, end), given)
    power, rest = _reduced(builder, given, form)
    first = builder.ashr(power, ir.Constant(power.type, 1))  # in two steps, since the last ones have no power of two
    found = builder.fadd(ir.Constant(kind, 1.0), rest, flags=FLAGS)
    for part in (first, builder.sub(power, first)):
        found = builder.fmul(found, _two_to(builder, part, form, kind), flags=FLAGS)
    return builder.select(number, found, x)


def hyperbolic_tangent(builder: Any, x: Any) -> Any:
    """tanh |x| = −m/(2 + m), m = e^(−2|x|) − 1, with the sign of x."""
    form, kind = _FORMATS[str(x.type)], x.type
    magnitude = _call(builder, "fabs", x)
    end = ir.Constant(kind, form.one)
    magnitude = builder.select(builder.fcmp_ordered("<", magnitude, end), magnitude, end)
    power, rest = _reduced(builder, builder.fmul(ir.Constant(kind, -2.0), magnitude), form)
    scale = _two_to(builder, power, form, kind)
    less = builder.fsub(scale, ir.Constant(kind, 1.0))
    less = builder.fadd(builder.fmul(scale, rest, flags=FLAGS), less, flags=FLAGS)
    found = builder.fdiv(less, builder.fadd(ir.Constant(kind, 2.0), less, flags=FLAGS), flags=FLAGS)
    found = _call(builder, "copysign", found, x)
    return builder.select(builder.fcmp_ordered("ord", x, x), found, x)


def _reduced(builder: Any, x: Any, form: _Format) -> tuple[Any, Any]:
    """k and eʳ − 1 of x = k ln 2 + r."""
    kind = x.type
    count = _call(builder, "roundeven", builder.fmul(x, ir.Constant(kind, 1.0 / log(2.0))))
    for part in (form.high, form.low):
        x = builder.fsub(x, builder.fmul(count, ir.Constant(kind, part), flags=FLAGS), flags=FLAGS)
    series = ir.Constant(kind, 1.0 / factorial(form.terms))
    for n in range(form.terms - 1, 1, -1):
        series = builder.fadd(builder.fmul(series, x, flags=FLAGS), ir.Constant(kind, 1.0 / factorial(n)), flags=FLAGS)
    square = builder.fmul(x, x)
    rest = builder.fadd(builder.fmul(square, series, flags=FLAGS), x, flags=FLAGS)
    power = builder.fptosi(count, ir.IntType(32))  # what processors do with vectors
    return power if power.type == form.whole else builder.sext(power, form.whole), rest


def _two_to(builder: Any, power: Any, form: _Format, kind: Any) -> Any:
    """2ᵏ."""
    exponent = builder.add(power, ir.Constant(form.whole, form.offset))
    return builder.bitcast(builder.shl(exponent, ir.Constant(form.whole, form.fraction)), kind)


def _call(builder: Any, name: str, *given: Any) -> Any:
    kind = given[0].type
    full = f"llvm.{name}.{'f32' if kind == ir.FloatType() else 'f64'}"
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(kind, [kind] * len(given)), full)
    return builder.call(function, given)
