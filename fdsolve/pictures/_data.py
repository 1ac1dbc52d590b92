"""From a Dataset to what a picture shows: fields, times and cuts as the caller chose them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ._style import join, label_of, rounded, time_text

PARTS = {"real": np.real, "imag": np.imag, "abs": np.abs}
_SIGNS = {"real": "Re {}", "imag": "Im {}", "abs": "|{}|"}


@dataclass(frozen=True)
class Shown:
    """A field as it is drawn: real values with dimensions (time, *space) or (*space), and the label of its values."""

    array: xr.DataArray
    label: str
    time: str | None

    @property
    def space(self) -> tuple[str, ...]:
        """The dimensions other than time."""
        return tuple(str(dim) for dim in self.array.dims if dim != self.time)

    @property
    def levels(self) -> int:
        """How many times there are; one where there is no time."""
        return 1 if self.time is None else self.array.sizes[self.time]

    def title(self, index: int) -> str:
        """The time, and where other axes were cut."""
        parts = [] if self.time is None else [time_text(self.array[self.time], index)]
        taken = str(self.array.attrs.get("cell_methods", "")).split()  # along these axes there is no cut: "x: mean"
        cuts = {name: at for name, at in self.array.coords.items() if at.ndim == 0 and name != self.time}
        parts += [cut_text(at) for name, at in cuts.items() if f"{name}:" not in taken]
        return ", ".join(parts)

    def level(self, index: int) -> xr.DataArray:
        """The state at one of the times."""
        return self.array if self.time is None else self.array.isel({self.time: index})


def cut_text(at: xr.DataArray) -> str:
    """ "z = 0.25 m"."""
    if at.dtype.kind not in "fiu":
        return ""
    unit = at.attrs.get("units")
    return f"{str(at.name).removesuffix('_face')} = {rounded(float(at))}" + (f" {unit}" if unit else "")


def show(data: xr.Dataset, name: Any, *, part: Any = None, at: Any = None) -> Shown:
    """The field of a name, its real part unless `part` says otherwise, cut where `at` says."""
    if not isinstance(name, str) or name not in data.data_vars:
        raise DeclarationError(f"There is no field {name!r} to draw; there are {join(list(data.data_vars))}.")
    array, label = data[name], label_of(data[name])
    if np.issubdtype(array.dtype, np.complexfloating):
        if part is not None and part not in PARTS:
            raise DeclarationError(f'part= takes "real", "imag" or "abs", got {part!r}.')
        chosen = part or "real"
        label = label.replace(name, _SIGNS[chosen].format(name), 1)
        array = array.copy(data=PARTS[chosen](array.values))
    elif part is not None:
        raise DeclarationError(f"part= is for complex fields, and `{name}` is {array.dtype}; leave it out.")
    array = cut(array, at)
    time = data.attrs.get("time_axis") or _time_of(array)
    return Shown(array.astype(float), label, time if time in array.dims else None)


def _time_of(array: xr.DataArray) -> str | None:
    """The dimension of time: the first one where it is a calendar, or is called as time is."""
    first = str(array.dims[0]) if array.dims else ""
    if first and first in array.coords:
        is_date = np.issubdtype(array[first].dtype, np.datetime64)
        return first if is_date or first in ("t", "time", "tau", "τ") else None
    return None


def cut(array: xr.DataArray, at: Any) -> xr.DataArray:
    """The array at the points nearest to given coordinates, by axis."""
    if at is None:
        return array
    if not isinstance(at, Mapping):
        raise DeclarationError(f"at= takes a dict of coordinates by axis, as in at=dict(z=0.5); got {at!r}.")
    for name, value in at.items():
        dim = name if name in array.dims else f"{name}_face"
        if dim not in array.dims:
            raise DeclarationError(f"at= names the axis {name!r}; `{array.name}` has {join(array.dims)}.")
        array = array.isel({dim: nearest(array[dim], value, f"at= of axis `{name}`")})
    return array


def nearest(coordinate: xr.DataArray, value: Any, what: str) -> int:
    """The index of the point nearest to a coordinate, which must not lie beyond the last points by more than a step."""
    points = coordinate.values
    try:
        wanted = np.datetime64(value) if np.issubdtype(points.dtype, np.datetime64) else float(value)
    except (TypeError, ValueError):
        raise DeclarationError(f"{what} takes a coordinate, got {value!r}.") from None
    distance = np.abs(points - wanted)
    index = int(np.argmin(distance))
    room = np.abs(np.diff(points)).max() if points.size > 1 else np.abs(points[0] - wanted)
    if not distance[index] <= room:
        raise DeclarationError(f"{what} is {value!r}; what was saved runs from {points[0]} to {points[-1]}.")
    return index


def pick_times(shown: Shown, time: Any) -> list[int] | None:
    """The indices of the wanted times; None where the caller leaves them open."""
    if time is None:
        return None
    if shown.time is None:
        raise DeclarationError("time= chooses among saved times, and there is one state only; leave it out.")
    coordinate = shown.array[shown.time]
    single = isinstance(time, str) or np.ndim(time) == 0
    wanted = [time] if single else list(time)
    if not wanted:
        raise DeclarationError("time= takes a time or a list of them, got none.")
    return [nearest(coordinate, value, "time=") for value in wanted]


def on_points(array: xr.DataArray, coordinates: Mapping[str, xr.DataArray]) -> xr.DataArray:
    """A field between the given points, by linear interpolation along each axis where it is staggered."""
    for axis, target in coordinates.items():
        dim = axis if axis in array.dims else f"{axis}_face"
        if dim == axis and array[axis].equals(target):
            continue
        where, here = target.values, array[dim].values
        values = np.apply_along_axis(
            lambda line, h=here, w=where: np.interp(w, h, line), array.get_axis_num(dim), array
        )
        dims = tuple(axis if one == dim else one for one in array.dims)
        coords = {d: array[d] for d in array.dims if d != dim} | {axis: target}
        array = xr.DataArray(values, coords, dims, array.name, array.attrs)
    return array
