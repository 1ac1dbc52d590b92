"""Functions of the user that are differentiated: how many arguments they take, and what they must not do."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from .errors import DeclarationError


def takes(function: Callable[..., Any], count: int, *names: str) -> bool:
    """Whether a function takes so many arguments, and options of these names; true where it does not tell."""
    try:
        inspect.signature(function).bind(*(None,) * count, **dict.fromkeys(names))
    except TypeError:
        return False
    except ValueError:
        return True
    return True


@contextmanager
def traced_by_jax(what: str) -> Iterator[None]:
    """Tells whose function turned traced values into numbers, or mixed units. Raises DeclarationError."""
    try:
        yield
    except (
        jax.errors.TracerIntegerConversionError,
        jax.errors.TracerArrayConversionError,
        jax.errors.ConcretizationTypeError,
    ) as error:
        by_number = re.search(r"\bu?int\d+\[\]", str(error))  # NumPy makes an array of a number it is indexed by
        if isinstance(error, jax.errors.TracerIntegerConversionError) or by_number:
            raise DeclarationError(
                f"{what} takes an element of a list or NumPy array by a number that is traced (that of the subset is). "
                f"Stack the elements into one array of jax.numpy: data = jnp.stack(shots), and data[k]."
            ) from error
        raise DeclarationError(
            f"{what} turns its parameters into NumPy arrays or numbers, and has no derivative there. Write it in "
            f"jax.numpy; a solution's arrays are solution['u'], without to_xarray()."
        ) from error
    except Exception as error:
        if type(error).__name__ != "UnitMismatchError":  # saiunit's, which nobody need have loaded
            raise
        which = str(error).rpartition("match:")[2].strip() or str(error)
        raise DeclarationError(
            f"{what} puts quantities of units together that do not match: {which}. Fields that are declared with units "
            f"are quantities there; give the data in a unit of the same kind, 1.0 * saiunit.kelvin."
        ) from error


def check_arrays(value: Any, what: str) -> Any:
    """What a function returned, where that is a pytree of arrays. Raises DeclarationError, and says what to return."""
    for leaf in jax.tree.leaves(value):
        if not _is_array(leaf):
            raise DeclarationError(
                f"{what} returns a {type(leaf).__name__}; a real scalar, or arrays of residuals, is wanted: "
                f"fd.misfit(solution, observations), or jnp.sum(solution['u'] ** 2)."
            )
    return value


def _is_array(leaf: Any) -> bool:
    """Whether JAX takes something as an array; a labelled one has a dtype, and is none."""
    try:
        jnp.result_type(leaf)
    except TypeError:
        return False
    return not hasattr(leaf, "coords")
