"""Datasets written to NetCDF and Zarr: whole or not at all, and read again bit for bit."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import xarray as xr

from ..errors import DeclarationError, RunError
from ._atomic import to_path, written_beside
from ._encoding import encoding_of, split_complex
from ._held import METADATA, publish, read_documents
from ._need import need
from ._open import find_engine


@runtime_checkable
class HasDataset(Protocol):
    """What has a Dataset of itself, as a solution has."""

    def to_xarray(self) -> xr.Dataset:
        """The Dataset."""
        ...


def to_netcdf(data: Any, path: Any, *, engine: str | None = None, compression: int | None = None) -> Path:
    """Writes a solution, or a Dataset, to a NetCDF-4 file; returns its path. A file of that name is replaced.

    The file is written beside and takes the name when it is complete. Complex variables become pairs, `u_real` and
    `u_imag`, which `fd.open_dataset` joins; numbers come back bit for bit.

    Arguments:
        engine: "netcdf4" or "h5netcdf"; default the one that is installed.
        compression: 1 (fast) to 9 (small), lossless; None writes the numbers as they are.

    Raises: DeclarationError for what is no Dataset; RunError where no library for NetCDF is installed.

    >>> import tempfile, fdsolve as fd, xarray as xr
    >>> data = xr.Dataset({"u": ("x", [1 + 2j, 3j])})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with fd.open_dataset(fd.to_netcdf(data, f"{folder}/u.nc")) as back:
    ...         print(back.u.values)
    [1.+2.j 0.+3.j]
    """
    dataset, place = _dataset_of(data, "fd.to_netcdf"), to_path(path, "fd.to_netcdf")
    chosen: Any = find_engine(engine)
    if compression is not None and (isinstance(compression, bool) or compression not in range(1, 10)):
        raise DeclarationError(f"fd.to_netcdf: compression= takes a whole number from 1 to 9, got {compression!r}.")
    if place.is_dir():
        raise RunError(f"{place} is a folder; fd.to_netcdf writes a file. Give a name such as {place.name}/run.nc.")
    ready = _held_by_netcdf(split_complex(dataset))
    encoding = encoding_of(ready)
    for name, one in ready.variables.items():
        if compression is not None and one.ndim and one.dtype.kind in "iufb":
            encoding[str(name)] |= {"zlib": True, "complevel": compression, "shuffle": True}
    with written_beside(place) as partial:
        ready.to_netcdf(partial, mode="w", format="NETCDF4", engine=chosen, encoding=encoding)
    return place


def to_zarr(data: Any, path: Any) -> Path:
    """Writes a solution, or a Dataset, to a Zarr store (format 3); returns its path. A store of that name is replaced.

    The store is written beside and takes the name when it is complete; numbers come back bit for bit.

    Raises: DeclarationError for what is no Dataset; RunError where Zarr is not installed, and where something else
    than a Zarr store is at `path`.
    """
    dataset, place = _dataset_of(data, "fd.to_zarr"), to_path(path, "fd.to_zarr")
    need("zarr", "io")
    if place.exists() and not (place / METADATA).is_file() and not (place.is_dir() and not any(place.iterdir())):
        raise RunError(f"There is something else than a Zarr store at {place}. Remove it, or choose another path.")
    encoding = encoding_of(dataset)
    bare = dataset.drop_encoding()
    with written_beside(place) as partial:
        # Chunks of zeros are written as well: left out, they would come back without the signs of their zeros.
        bare.to_zarr(partial, mode="w", zarr_format=3, consolidated=False, encoding=encoding, write_empty_chunks=True)
        publish(partial, read_documents(partial))
    return place


def _dataset_of(data: Any, what: str) -> xr.Dataset:
    found = data.to_xarray() if isinstance(data, HasDataset) else data
    if isinstance(found, xr.DataArray):
        raise DeclarationError(
            f"{what} takes a solution or a Dataset, got a DataArray: give array.to_dataset(name=...)."
        )
    if not isinstance(found, xr.Dataset):
        raise DeclarationError(f"{what} takes a solution or a Dataset, got {type(data).__name__}.")
    return found


def _held_by_netcdf(dataset: xr.Dataset) -> xr.Dataset:
    """Without what the variables carry of an earlier file; 16-bit floats as 32-bit ones, which hold them exactly."""
    small = [name for name, one in dataset.variables.items() if one.dtype.kind in "fV" and one.dtype.itemsize == 2]
    return dataset.drop_encoding().assign({name: dataset[name].astype(np.float32) for name in small})
