"""Coordinates that come from outside, in the units of an axis."""

from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..units import conversion
from ._axis import Axis
from ._time import Time

_ANGLES = ("angle", "colatitude", "azimuth")


def in_axis_units(coordinate: Any, owner: Axis | Time, name: str, what: str) -> np.ndarray:
    """The values of a coordinate (a DataArray or Variable) along axis `name`, in the units of that axis.

    Datetimes, and numbers where the coordinate or the axis says nothing of units, are as they are. "hours since ..."
    are hours on a time axis without `since=`.

    Raises: DeclarationError where the units cannot be converted, or count from a date that a time axis has another for.
    """
    values = np.asarray(coordinate.values)
    given, own = coordinate.attrs.get("units"), _units(owner)
    if own is None or not isinstance(given, str) or not given.strip() or values.dtype.kind not in "iuf":
        return values
    unit, since, _ = given.partition(" since ")
    if since and isinstance(owner, Time) and owner.since is not None:
        raise DeclarationError(
            f'{what}: the coordinate `{name}` is numbers in "{given}", and the time axis has its own `since=`. Make '
            f"datetimes of them: xarray.decode_cf(dataset)."
        )
    remedy = f'dataarray.{name}.attrs["units"] = "{{}}"'
    factor = conversion(unit, {own: 1}, f"{what}: the coordinate `{name}`", f"axis `{name}`", remedy)
    return values if factor == 1.0 else values.astype(float) * factor


def _units(owner: Axis | Time) -> str | None:
    """The units of an axis; an angle of a curvilinear grid is in radians."""
    if isinstance(owner, Axis) and owner.units is None and owner.metric in _ANGLES:
        return "rad"
    return owner.units  # with the unit of saiunit, where it was given as one
