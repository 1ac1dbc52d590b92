"""Quantities of saiunit at the door: what they are made of. saiunit itself is loaded by those who use it."""

import math
import re
import sys
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError
from ._measure import NAMES, Measure

_TOKEN = re.compile(r"\s*(?:(?P<power>(?:\^|\*\*)\s*\(?[+-]?\d+(?:[./]\d+)?\)?)"
                    r"|(?P<name>(?:°|degrees?)\s*[CF](?![^\W\d])|[^\W\d]+|[%°])(?P<raised>[+-]?\d+)?"
                    r"|(?P<one>\d+(?:\.\d+)?)|(?P<mark>[*/·.()]))")  # fmt: skip
_WORDS = {"days": "d", "day": "d", "hours": "h", "hour": "h", "minutes": "min", "seconds": "s", "us": "us"}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


class UnitName(str):
    """The name of a unit that was given as one of saiunit, not as a string; `unit` is that one."""

    unit: Any

    def __new__(cls, name: str, unit: Any) -> "UnitName":
        made = super().__new__(cls, name)
        made.unit = unit
        return made

    def __reduce__(self) -> Any:
        return UnitName, (str(self), self.unit)


def is_quantity(value: Any) -> bool:
    """Whether a value is a quantity of saiunit; nobody can have made one before saiunit was loaded."""
    saiunit = sys.modules.get("saiunit")
    return saiunit is not None and isinstance(value, saiunit.Quantity)


def is_unit(value: Any) -> bool:
    """Whether a value is a unit of saiunit."""
    saiunit = sys.modules.get("saiunit")
    return saiunit is not None and isinstance(value, saiunit.Unit)


def quantity(array: Any, *names: str | None) -> Any:
    """An array as a quantity in the product of the units of these names; as it is where one of them is not known."""
    units = [to_unit(name) for name in names]
    if any(unit is None for unit in units):
        return array
    return sys.modules["saiunit"].Quantity(array, unit=math.prod(units[1:], start=units[0]))


def with_unit(array: Any, unit: Any) -> Any:
    """An array as a quantity in a unit of saiunit; as it is without one."""
    return array if unit is None else sys.modules["saiunit"].Quantity(array, unit=unit)


def magnitude(value: Any) -> Any:
    """The number or array of a quantity, whole numbers as real ones."""
    found: Any = value.mantissa
    if isinstance(found, int) and not isinstance(found, bool):
        return float(found)
    dtype = getattr(found, "dtype", None)
    if dtype is None or np.dtype(dtype).kind not in "iu":
        return found
    return (found if isinstance(found, jax.Array) else np.asarray(found)).astype(jnp.result_type(float))


def plain(value: Any) -> Any:
    """What a quantity is in its unit; anything else as it is."""
    return magnitude(value) if is_quantity(value) else value


def scaled(number: Any, factor: float) -> Any:
    """A number or array times a factor, in its own precision; untouched where that is 1."""
    if factor == 1.0:
        return number
    if isinstance(number, jax.Array):
        return number * jnp.asarray(factor, number.dtype)
    return number * (np.asarray(number).dtype.type(factor) if isinstance(number, np.ndarray) else factor)


def name_of(unit: Any) -> str:
    """How a unit of saiunit is written here: "m^2/s", "W/(K m)"."""
    return str(unit).replace(" / ", "/").replace(" * ", " ")


def in_words(value: Any) -> str:
    """A quantity in messages: "300 K", "array in K"."""
    number = magnitude(value)
    if np.ndim(number) or isinstance(number, Tracer):
        return f"array in {name_of(value.unit)}"
    return f"{number:g} {name_of(value.unit)}"


def measure_of(unit: Any) -> Measure:
    """A unit of saiunit as exponents of base units."""
    exponents = (Fraction(float(unit.dim.get_dimension(name))).limit_denominator(1000) for name in NAMES)
    return Measure(tuple(exponents), float(unit.magnitude))


def to_unit(name: Any) -> Any:
    """The unit of saiunit that a name stands for; None where it is not known there (or saiunit is not loaded)."""
    if isinstance(name, UnitName):
        return name.unit
    saiunit = sys.modules.get("saiunit")
    if saiunit is None or not isinstance(name, str) or not name.strip():
        return None
    try:
        return Reader(saiunit, name).read()
    except (ValueError, LookupError):
        return None


class Reader:
    """Reads "W/(m K)", "m s-1", "kg m^-3", "m**2/s", "m²/s": a slash divides by the one factor that follows it."""

    def __init__(self, saiunit: Any, text: str):
        self.saiunit = saiunit
        text = re.sub("([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)", lambda found: found[1].translate(_RAISED), text)
        self.tokens, at = [], 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError
            self.tokens.append(found)
            at = found.end()

    def read(self) -> Any:
        """The whole text."""
        result = self._product()
        if self.tokens:
            raise ValueError
        return result

    def _product(self) -> Any:
        result, divides = self._factor(), False
        while self.tokens:
            mark = self.tokens[0]["mark"]
            if mark == ")":
                break
            if mark is not None and mark in "*/·.":
                self.tokens.pop(0)
                divides = mark == "/"
            factor = self._factor()
            result = result / factor if divides else result * factor
            divides = False
        return result

    def _factor(self) -> Any:
        token = self.tokens.pop(0)
        if token["mark"] == "(":
            result = self._product()
            if self.tokens.pop(0)["mark"] != ")":
                raise ValueError
        elif token["one"] is not None:
            if float(token["one"]) != 1:
                raise ValueError
            result = self.saiunit.UNITLESS
        elif token["name"] is not None:
            name = _WORDS.get(token["name"], token["name"])
            result = self.saiunit.parse_unit(name)
            if token["raised"]:
                result = result ** int(token["raised"])
        else:
            raise ValueError
        if self.tokens and self.tokens[0]["power"]:
            exponent = Fraction(self.tokens.pop(0)["power"].lstrip("^* ").strip("()"))
            result = result ** (int(exponent) if exponent.denominator == 1 else float(exponent))
        return result


def to_name(units: Any) -> Any:
    """`units=` as it is kept: a unit of saiunit, or one of it (`1 / u.meter`), as its name, anything else as it is."""
    if is_quantity(units) and isinstance(units.mantissa, int | float) and units.mantissa == 1:
        units = units.unit
    return UnitName(name_of(units), units) if is_unit(units) else units


def to_magnitudes(values: tuple[Any, ...], units: Any, what: str) -> tuple[tuple[Any, ...], Any]:
    """Numbers of one kind, some of them quantities, as magnitudes in one unit, and that unit's name.

    In `units` where it is given, else in the unit of the last quantity. Plain numbers beside quantities are zero or
    None. Raises DeclarationError.
    """
    units = to_name(units)
    given = [value for value in values if is_quantity(value)]
    if not given:
        return values, units
    unit = given[-1].unit if units is None else to_unit(units)
    if unit is None:
        raise DeclarationError(f"{what}: saiunit does not know the unit {units!r}. Give `units=` as one of its units.")
    result = []
    for value in values:
        if is_quantity(value):
            if not value.unit.has_same_dim(unit):
                raise DeclarationError(f"{what} are in {name_of(unit)}, got {value}. Give all of them in one unit.")
            factor = measure_of(value.unit).size / measure_of(unit).size
            number = magnitude(value)
            result.append(number if value.unit.has_same_magnitude(unit) else np.asarray(number, float) * factor)
        elif value is None or (np.ndim(value) == 0 and not isinstance(value, str) and value == 0):
            result.append(value)
        else:
            raise DeclarationError(
                f"{what} are in {name_of(unit)}, got {value!r} without a unit. Give all of them one."
            )
    return tuple(result), UnitName(name_of(unit), unit)
