"""Parameters and inputs of a stream as arrays of JAX."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError


def check_names(params: Any, inputs: Any, parameters: Any) -> None:
    """Refuses what is no dict of parameters by name, nothing to follow, and names in two of them."""
    if not params:
        raise DeclarationError(f"fd.online: params= takes a dict of parameters by name, got {params!r}.")
    for name, value in (("params", params), ("inputs", inputs), ("parameters", parameters)):
        if value is not None and not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
            raise DeclarationError(f"fd.online: {name}= takes a dict of parameters by name, got {value!r}.")
    places: dict[str, str] = {}
    for where, names in (("params", params), ("inputs", inputs), ("parameters", parameters)):
        for name in names or {}:
            if name in places:
                raise DeclarationError(
                    f"fd.online: `{name}` is given twice, in {places[name]}= and in {where}=. Either it is followed "
                    f"(params=), or comes with every step (inputs=), or stays as it is (parameters=)."
                )
            places[name] = where


def to_array(what: str, value: Any) -> jax.Array:
    """A number or array as an array of JAX. Raises DeclarationError for anything else."""
    if isinstance(value, Mapping):
        raise DeclarationError(f"{what} is a {type(value).__name__}. Give its arrays one by one, each by a name.")
    try:
        if not isinstance(value, str | bytes | None):
            return jnp.asarray(value)
    except (TypeError, ValueError):
        pass
    shown = " ".join(f"{value!r:.60}".split())
    raise DeclarationError(f"{what} is no number or array, got {shown}.")


def to_real(name: str, value: Any) -> jax.Array:
    """A parameter as an array; whole numbers are refused."""
    array = to_array(f"fd.online: the parameter `{name}`", value)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise DeclarationError(
            f"fd.online: derivatives are taken with respect to real floating numbers, and `{name}` has dtype "
            f"{array.dtype}. Give it as a float, such as {name}=1.0, or among parameters=dict(...)."
        )
    if not isinstance(array, Tracer) and not np.isfinite(np.asarray(array)).all():
        raise DeclarationError(f"fd.online: the parameter `{name}` is not finite; every gradient would be nan.")
    return array
