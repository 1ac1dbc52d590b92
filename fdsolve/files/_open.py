"""Datasets read from files, lazily."""

from pathlib import Path
from typing import Any

import xarray as xr

from ..errors import RunError
from ._atomic import to_path
from ._held import METADATA
from ._join import join_complex
from ._need import need
from ._stream import GROWS, RUN

ENGINES = {"netcdf4": ("netCDF4",), "h5netcdf": ("h5netcdf", "h5py")}
"""What xarray calls the libraries that write NetCDF files, and the modules they want, in the order they are tried."""


def find_engine(engine: str | None) -> str:
    """The library for NetCDF files: the one asked for, or the first that is installed."""
    if engine is not None:
        if engine not in ENGINES:
            raise RunError(f"engine= takes {' or '.join(map(repr, ENGINES))}, got {engine!r}.")
        for module in ENGINES[engine]:
            need(module, "io")
        return engine
    for name in ENGINES:
        try:
            return find_engine(name)
        except RunError:
            continue
    raise RunError("NetCDF files want netCDF4 or h5netcdf: pip install 'fdsolve[io]'.")


def open_dataset(path: Any, *, engine: str | None = None) -> xr.Dataset:
    """A Dataset from a NetCDF file or a Zarr store, also one that is being written; values are read when looked at.

    Complex variables that NetCDF holds as pairs come back complex. `engine`: "netcdf4" or "h5netcdf" (default: the one
    installed), for NetCDF. Close it, or use it in a `with`.

    Raises: RunError where nothing that can be read is at `path`, and where a library is missing.
    """
    place = to_path(path, "fd.open_dataset")
    # A time in "days" since nothing is a number of days; xarray would make a timedelta of it.
    options: Any = {"decode_timedelta": False}
    if (place / METADATA).is_file() or (place / ".zgroup").is_file():
        need("zarr", "io")
        return _opened(place, "Zarr store", engine="zarr", **options)
    if not place.is_file():
        raise RunError(f"There is no NetCDF file and no Zarr store at {place}.")
    chosen: Any = find_engine(engine)
    return _opened(place, "NetCDF file", engine=chosen, **options)


def _opened(place: Path, kind: str, **options: Any) -> xr.Dataset:
    """What is at a place. Raises RunError where it is something else, or damaged."""
    try:
        found = xr.open_dataset(place, **options)
    except Exception as error:  # each library has its own for a file that is cut short, or none of its kind
        raise RunError(
            f"{place} cannot be read as a {kind}: {type(error).__name__}: {error}. It is of another kind, or was not "
            f"written to its end."
        ) from error
    return _restored(found)


def _restored(dataset: xr.Dataset) -> xr.Dataset:
    """As it was before it was written: complex variables, bounds among the coordinates."""
    joined = join_complex(dataset)
    edges = {one.attrs.get("bounds") for one in joined.variables.values()} & set(joined.data_vars)
    joined = joined.set_coords(sorted(map(str, edges)))
    joined.attrs = {name: value for name, value in dataset.attrs.items() if name not in (GROWS, RUN)}
    joined.set_close(dataset.close)
    return joined
