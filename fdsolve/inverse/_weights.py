"""Weights of observations: given, or one over the standard deviation that comes with them, in the field's units."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import DeclarationError
from ..units import conversion, in_words, is_quantity, magnitude, rescaled, to_name, units_of

SIGMA = "1/sigma"


def weights_of(weight: Any, name: str, observed: xr.DataArray, units: str | None, kept: np.ndarray, what: str) -> Any:
    """The weights of the values that count: a number, or (num,); None for 1.

    `observed` are the observations as they were given, `units` those of the field `name`, `kept` which values count.
    """
    if isinstance(weight, dict | xr.Dataset):
        if name not in weight:
            raise DeclarationError(f"{what}: weight= has no entry `{name}`; it has {', '.join(map(str, weight))}.")
        weight = weight[name]
    if weight is None:
        return None
    of = "" if not isinstance(weight, str) else f" (1/`{SIGMA[2:]}`)"
    if isinstance(weight, str):
        weight = _one_over_sigma(weight, name, observed, units, what)
    if isinstance(weight, xr.DataArray):
        try:
            weight = xr.align(_in_order(weight, observed), observed, join="exact")[0]
            weight = weight.broadcast_like(observed).transpose(*observed.dims).data
        except ValueError:
            raise DeclarationError(
                f"{what}: the weights do not fit the observations: they lie along {_dims(weight)}, and the "
                f"observations along {_dims(observed)}, at other places. One weight is wanted for each of these "
                f"places, under its label; or an array without labels."
            ) from None
    weight = _numbers(weight, f'{what}: weight= is a number, an array or "{SIGMA}"')
    if np.ndim(weight):
        try:
            weight = (jnp if isinstance(weight, jax.Array) else np).broadcast_to(weight, observed.shape)
        except ValueError:
            raise DeclarationError(
                f"{what}: weight= has the shape {np.shape(weight)}, and the observations {observed.shape}."
            ) from None
        weight = weight.reshape(-1)[kept]
    if not isinstance(weight, Tracer):
        good = np.isfinite(np.asarray(weight)) & (np.asarray(weight) >= 0)
        if not good.all():
            raise DeclarationError(
                f"{what}: weights{of} are finite and not negative, got {np.ravel(weight)[~np.ravel(good)][0]}."
            )
    return weight


def _one_over_sigma(weight: str, name: str, observed: xr.DataArray, units: str | None, what: str) -> Any:
    if weight != SIGMA:
        raise DeclarationError(f'{what}: weight= is a number, an array or "{SIGMA}", got {weight!r}.')
    if "sigma" in observed.coords:
        sigma = observed.coords["sigma"]
    elif "sigma" in observed.attrs:
        sigma = observed.attrs["sigma"]
    else:
        raise DeclarationError(
            f'{what}: weight="{SIGMA}" wants the standard deviation of the observations, in a coordinate or an '
            f"attribute `sigma`: observations.assign_attrs(sigma=0.1)."
        )
    sigma = _in_units(sigma, name, observed, units, what)
    values = sigma.data if isinstance(sigma, xr.DataArray) else sigma
    if not isinstance(values, Tracer) and (np.asarray(values) <= 0).any():
        raise DeclarationError(f"{what}: `sigma` is positive, got {float(np.min(np.asarray(values)))}.")
    return 1 / sigma


def _in_units(sigma: Any, name: str, observed: xr.DataArray, units: str | None, what: str) -> Any:
    """Standard deviations in the units of the field, or of the values where the field has none.

    They are in units of their own, as attribute or quantity, or else in those of the values.
    """
    own, wanted = units_of(observed), f"{what}: `sigma` is a number or an array"
    target, whose = (units, f"`{name}`") if units is not None else (own, "the array of observations")
    given: Any = units_of(sigma) or own
    if is_quantity(sigma):
        given, sigma = to_name(sigma.unit), magnitude(sigma)
        if target is None:
            raise DeclarationError(
                f"{wanted}, got a quantity in {given}, and neither the field nor the observations have units. Declare "
                f"the field with units=, or give `sigma` as a number."
            )
    array = _numbers(sigma.data if isinstance(sigma, xr.DataArray) else sigma, wanted)
    if given is not None and target is not None:
        alike = 'dataarray.sigma.attrs["units"] = "{}"'
        factor = conversion(given, {str(target): 1}, f"{what}: `sigma` of the observations", whose, alike)
        return rescaled(sigma, factor) if isinstance(sigma, xr.DataArray) else array * factor
    return sigma if isinstance(sigma, xr.DataArray) else array


def _numbers(value: Any, wanted: str) -> Any:
    """An array of real numbers, a traced one as it is. Raises DeclarationError for anything else."""
    if is_quantity(value):
        raise DeclarationError(
            f"{wanted}, got a quantity, {in_words(value)}. Residuals are plain numbers in the units of the field, and "
            f"weights in one over these: give its magnitude in them, value.to_decimal(...)."
        )
    try:
        array: Any = value if isinstance(value, jax.Array) else np.asarray(value)
        good = jnp.issubdtype(array.dtype, jnp.floating) or array.dtype.kind in "iub"
    except (TypeError, ValueError):  # ragged lists
        good = False
    if not good:
        raise DeclarationError(f"{wanted}, of real numbers, got {' '.join(f'{value!r:.60}'.split())}.")
    return array


def _in_order(weight: xr.DataArray, observed: xr.DataArray) -> xr.DataArray:
    """Weights in the order of the observations, along dimensions that have the same labels."""
    both = [dim for dim in weight.dims if dim in weight.indexes and dim in observed.indexes]
    pairs = {dim: (weight.indexes[dim], observed.indexes[dim]) for dim in both}
    same = [dim for dim, (own, other) in pairs.items() if own.is_unique and other.is_unique and set(own) == set(other)]
    return weight.reindex({dim: observed.indexes[dim] for dim in same})


def _dims(array: xr.DataArray) -> str:
    return ", ".join(f"`{dim}` ({num})" for dim, num in array.sizes.items()) or "no dimension"
