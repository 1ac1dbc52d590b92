"""Units as text: whether two are the same one, and what numbers in one are multiplied by to be in another."""

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ._measure import ONE
from ._quantities import Reader, measure_of, to_unit

_ALIKE = (
    ("m", "meter", "meters", "metre", "metres"),
    ("km", "kilometer", "kilometers", "kilometre", "kilometres"),
    ("s", "sec", "second", "seconds"),
    ("min", "minute", "minutes"),
    ("h", "hr", "hour", "hours"),
    ("d", "day", "days"),
    ("kg", "kilogram", "kilograms"),
    ("K", "kelvin", "Kelvin"),
    ("degC", "°C"),
    ("degF", "°F"),
    ("Pa", "pascal", "Pascal"),
    ("N", "newton"),
    ("J", "joule", "joules"),
    ("W", "watt", "watts"),
    ("mol", "mole", "moles"),
    ("rad", "radian", "radians"),
    ("deg", "degree", "degrees", "degrees_north", "degrees_east"),
)


def _degrees(letter: str, *names: str) -> tuple[str, ...]:
    """The ways in which a scale of temperature is written."""
    words = ("degree_", "degrees_", "degree ", "degrees ", "deg_")
    return f"deg{letter}", f"°{letter}", *names, *(word + name for word in words for name in (letter, *names))


_WHOLE = (
    ("1", "", "dimensionless", "unitless", "none", "-"),
    _degrees("C", "celsius", "Celsius"),
    _degrees("F", "fahrenheit", "Fahrenheit"),
)
_FIRST = {name: names[0] for names in _ALIKE for name in names}
_FIRST_WHOLE = {name: names[0] for names in _WHOLE for name in names}


@dataclass(frozen=True)
class Product:
    """A product of names and their powers, sorted by name; names without a power are left out."""

    powers: tuple[tuple[str, Fraction], ...] = ()

    def __mul__(self, other: "Product") -> "Product":
        found = dict(self.powers)
        for name, power in other.powers:
            found[name] = found.get(name, Fraction(0)) + power
        return Product(tuple(sorted((name, power) for name, power in found.items() if power)))

    def __truediv__(self, other: "Product") -> "Product":
        return self * other**-1

    def __pow__(self, power: int | float | Fraction) -> "Product":
        exact = Fraction(power).limit_denominator(1000)
        return Product(tuple((name, one * exact) for name, one in self.powers))


class _Names:
    """What the reader of units takes them from: here they stay names."""

    UNITLESS = Product()

    @staticmethod
    def parse_unit(name: str) -> Product:
        return Product(((_FIRST.get(name, name), Fraction(1)),))


def to_product(text: str) -> Product:
    """A unit as a product of names; what cannot be read is one name.

    >>> to_product("kg m^-1 s-2") == to_product("kilogram/(m second²)")
    True
    >>> to_product("J/(kg °C)") == to_product("J kg-1 degC-1")
    True
    """
    whole = _FIRST_WHOLE.get(text.strip(), text.strip())
    if whole in ("degC", "degF"):
        return Product(((whole, Fraction(1)),))
    try:
        return Reader(_Names, whole).read()
    except (ValueError, LookupError):
        return Product(((whole, Fraction(1)),))


def same_text(one: str, other: str) -> bool:
    """Whether two texts are the same unit, spelled one way or another: "m/s", "m s-1", "metre second^-1"."""
    return to_product(one) == to_product(other)


def conversion(
    given: str, wanted: Mapping[str, int], what: str, whose: str, alike: str = 'dataarray.assign_attrs(units="{}")'
) -> float:
    """What numbers in a unit are multiplied by to be in the product of some units and their powers.

    Texts of the same unit give 1. Where they differ saiunit is asked, if it is installed.

    Arguments: `what` has the unit that is given, `whose` the one that is wanted, `alike` writes a unit there, for
    messages.

    Raises: DeclarationError where the units measure different things, or that cannot be told.
    """
    product = math.prod((to_product(name) ** power for name, power in wanted.items()), start=Product())
    if to_product(given) == product:
        return 1.0
    text = _shown(wanted)
    reason = _why_unknown((given, *wanted))
    if not reason:
        source = measure_of(to_unit(given))
        units = (measure_of(to_unit(name)) ** Fraction(power) for name, power in wanted.items())
        target = math.prod(units, start=ONE)
        if source.exponents == target.exponents:
            return source.size / target.size
        reason = "they measure different things"
    raise DeclarationError(
        f'{what} is in "{given}", and {whose} is in "{text}": {reason}. Convert its values; where the units are the '
        f"same, write them alike: {alike.format(text)}."
    )


def measure_different_things(one: str, other: str) -> bool:
    """Whether that is known of two units."""
    if same_text(one, other) or _why_unknown((one, other)):
        return False
    return measure_of(to_unit(one)).exponents != measure_of(to_unit(other)).exponents


def units_of(array: Any) -> str | None:
    """The units that a DataArray says its values have; None where it says nothing."""
    found = array.attrs.get("units") if isinstance(array, xr.DataArray) else None
    return found if isinstance(found, str) and found.strip() else None


def rescaled(array: xr.DataArray, factor: float) -> xr.DataArray:
    """A DataArray times a factor, in its own precision; whole numbers become real ones."""
    if factor == 1.0:
        return array
    data: Any = array.variable.data
    data = data if np.dtype(data.dtype).kind in "fcV" else data.astype(float)
    return array.copy(data=data * np.asarray(factor, data.dtype))


def _why_unknown(names: tuple[str, ...]) -> str:
    """Why saiunit cannot convert; nothing where it can."""
    try:
        importlib.import_module("saiunit")
    except ImportError:
        return "saiunit would convert them and is not installed (pip install 'fdsolve[units]')"
    unknown = [name for name in names if to_unit(name) is None]
    return f'saiunit does not know "{unknown[0]}"' if unknown else ""


def _shown(wanted: Mapping[str, int]) -> str:
    upper = " ".join(name for name, power in wanted.items() if power > 0)
    lower = "".join(f"/({name})" if " " in name or "/" in name else f"/{name}" for name, p in wanted.items() if p < 0)
    return (upper or "1") + lower
