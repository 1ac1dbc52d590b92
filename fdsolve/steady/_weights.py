"""Weights of unknown values: masses and densities, given by field."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import xarray as xr

from ..errors import DeclarationError
from ..solvers import Vector
from ..stepping import Operator


def read_weight(operator: Operator, weight: Any, grid: Any) -> Vector:
    """Real arrays of the fields' shapes.

    Raises DeclarationError where they do not fit.
    """
    alike = dict.fromkeys(operator.fields, 1.0 if weight is None else weight)
    given: Mapping[str, Any] = weight if isinstance(weight, Mapping) else alike
    wrong = [name for name in given if name not in operator.fields]
    if wrong:
        raise DeclarationError(
            f"weight= names `{wrong[0]}`; the fields that are determined are {', '.join(operator.fields)}."
        )
    found = {}
    for name in operator.fields:
        shape = operator.shape(name)
        value: Any = given.get(name, 1.0)
        if isinstance(value, xr.DataArray):
            if set(value.dims) != set(grid.space):
                raise DeclarationError(
                    f"weight= of `{name}` has the dimensions {', '.join(map(str, value.dims))}; the axes are "
                    f"{', '.join(grid.space)}."
                )
            value = value.transpose(*grid.space).values
        real = jnp.finfo(operator.structure.array(name).dtype).dtype
        array = jnp.asarray(value)
        if array.shape not in ((), shape) or not jnp.issubdtype(array.dtype, jnp.number):
            raise DeclarationError(
                f"weight= of `{name}` is a number or an array of the shape {shape}, got the shape {array.shape}."
            )
        if jnp.iscomplexobj(array):
            raise DeclarationError(f"weight= of `{name}` is real and above zero, got complex numbers.")
        found[name] = array.astype(real) if array.shape else jnp.full(shape, array, real)
    return found
