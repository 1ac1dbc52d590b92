"""How the variables of a Dataset are written: exact times, no fill values where CF has none, complex numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..errors import DeclarationError

UNITS = {"days": 86400 * 10**9, "hours": 3600 * 10**9, "minutes": 60 * 10**9, "seconds": 10**9}
FINER = {"milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}
PART, WHOLE = "complex_part", "complex_variable"
"""Attributes of a variable that is half of a complex one: which half ("real", "imaginary"), and of what."""


def time_units(origin: Any, *steps: Any) -> dict[str, Any]:
    """The encoding of datetimes that are `origin` plus whole multiples of `steps` (timedelta64): integers, exactly.

    >>> time_units(np.datetime64("2016-06-01"), np.timedelta64(90, "s"))["units"]
    'seconds since 2016-06-01 00:00:00'
    """
    spans = [int(np.asarray(step, "timedelta64[ns]").astype("int64")) for step in steps]
    zero = np.asarray(origin, "datetime64[ns]").astype("datetime64[s]")
    spans.append(int((np.asarray(origin, "datetime64[ns]") - zero).astype("timedelta64[ns]").astype("int64")))
    known = {"seconds": UNITS["seconds"], **FINER}
    unit = next(name for name, length in known.items() if all(span % length == 0 for span in spans))
    since = str(zero).replace("T", " ")
    return {"units": f"{unit} since {since}", "calendar": "proleptic_gregorian", "dtype": "int64"}


def encoding_of(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """The encoding of each variable; what the variables carry of an earlier file is not looked at, times excepted."""
    edges = {one.attrs.get("bounds") for one in dataset.variables.values()}
    found: dict[str, dict[str, Any]] = {}
    for key, one in dataset.variables.items():
        name, chosen = str(key), {}
        if one.dtype.kind == "M":
            given = {k: one.encoding[k] for k in ("units", "calendar", "dtype") if k in one.encoding}
            chosen = {**(given if "units" in given else _units_of(one.values)), "_FillValue": None}
        elif one.dtype.kind == "f" and (key in dataset.coords or name in edges):
            chosen = {"_FillValue": None}  # CF: coordinates and their bounds have no missing values
        found[name] = chosen
    return found


def encode_times(times: np.ndarray, attributes: Mapping[str, Any], dtype: Any) -> np.ndarray:
    """Times as a store holds them, whose coordinate has these attributes and dtype.

    Raises: DeclarationError for numbers where datetimes are held, and the other way round.
    """
    units = str(attributes.get("units", ""))
    if (times.dtype.kind == "M") != (" since " in units):
        held = f"datetimes ({units})" if " since " in units else "numbers"
        raise DeclarationError(f"The store holds {held} as times, got an array of dtype {times.dtype}.")
    if times.dtype.kind != "M":
        return times.astype(dtype)
    unit, _, origin = units.partition(" since ")
    offsets = (times.astype("datetime64[ns]") - np.datetime64(origin.replace(" ", "T"), "ns")).astype("int64")
    length = {**UNITS, **FINER}[unit]
    if (offsets % length).any() and np.dtype(dtype).kind == "i":
        raise DeclarationError(f"The store holds times in whole {unit}; {times[offsets % length != 0][0]} is none.")
    return (offsets // length).astype(dtype) if np.dtype(dtype).kind == "i" else (offsets / length).astype(dtype)


def split_complex(dataset: xr.Dataset) -> xr.Dataset:
    """Complex variables as pairs of real ones, `u_real` and `u_imag`: NetCDF has no complex numbers."""
    made = dataset
    for key in [key for key, one in dataset.variables.items() if one.dtype.kind == "c"]:
        name, one = str(key), dataset.variables[key]
        taken = [other for other in (f"{name}_real", f"{name}_imag") if other in made.variables]
        if taken:
            raise DeclarationError(f"`{name}` is complex and is written as a pair; `{taken[0]}` is taken. Rename it.")
        values: Any = one.values
        made = made.drop_vars(name)
        for suffix, part, half in (("real", "real", values.real), ("imag", "imaginary", values.imag)):
            attributes = {**one.attrs, PART: part, WHOLE: name}
            if "long_name" in attributes:
                attributes["long_name"] = f"{attributes['long_name']}, {part} part"
            attributes.pop("standard_name", None)  # it names the complex quantity, which neither half is
            if "standard_name" in one.attrs:
                attributes["complex_standard_name"] = one.attrs["standard_name"]
            made[f"{name}_{suffix}"] = xr.Variable(one.dims, half, attributes)
    return made


def _units_of(values: np.ndarray) -> dict[str, Any]:
    if not values.size:
        return time_units(np.datetime64("1970-01-01"), np.timedelta64(1, "ns"))
    first = values.reshape(-1)[0]
    return time_units(first, *np.unique(values - first))
