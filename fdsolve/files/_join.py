"""Complex variables from the pairs that NetCDF holds, read where they are looked at."""

from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from ._encoding import PART, WHOLE


class Joined(BackendArray):
    """The complex array of two real variables; nothing is read before it is indexed."""

    def __init__(self, real: xr.Variable, imaginary: xr.Variable):
        self._real, self._imaginary = real, imaginary
        self.shape = real.shape
        self.dtype = np.result_type(real.dtype, np.complex64)

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        real, imaginary = np.asarray(self._real[key].values), np.asarray(self._imaginary[key].values)
        made = np.empty(real.shape, self.dtype)
        made.real, made.imag = real, imaginary  # re + 1j * im would lose infinities and signs of zeros
        return made


def join_complex(dataset: xr.Dataset) -> xr.Dataset:
    """Pairs written by `split_complex` as complex variables again."""
    halves: dict[str, dict[str, str]] = {}
    for key, one in dataset.variables.items():
        if PART in one.attrs and WHOLE in one.attrs:
            halves.setdefault(str(one.attrs[WHOLE]), {})[str(one.attrs[PART])] = str(key)
    made = dataset
    for name, pair in halves.items():
        if set(pair) != {"real", "imaginary"}:
            continue
        real, imaginary = dataset.variables[pair["real"]], dataset.variables[pair["imaginary"]]
        attributes = {k: v for k, v in real.attrs.items() if k not in (PART, WHOLE, "complex_standard_name")}
        if "complex_standard_name" in real.attrs:
            attributes["standard_name"] = real.attrs["complex_standard_name"]
        if "long_name" in attributes:
            attributes["long_name"] = attributes["long_name"].removesuffix(", real part")
        whole = indexing.LazilyIndexedArray(Joined(real, imaginary))
        made = made.drop_vars(list(pair.values())).assign({name: xr.Variable(real.dims, whole, attributes)})
    return made
