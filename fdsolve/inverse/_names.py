"""Names of the leaves of a pytree of parameters."""

from collections.abc import Callable
from typing import Any

import jax
import xarray as xr

from ..errors import DeclarationError
from ..units import is_quantity, plain

ALONE = "parameter"
"""The name of a parameter that is not in a dict."""


def is_leaf(value: Any) -> bool:
    """A labelled array is one leaf, and so is a quantity."""
    return isinstance(value, xr.DataArray) or is_quantity(value)


def by_name(tree: Any) -> Any:
    """A Dataset as the dict of its variables; any other pytree as it is."""
    return {str(name): one for name, one in tree.data_vars.items()} if isinstance(tree, xr.Dataset) else tree


def path_name(path: Any) -> str:
    """The name of a leaf: its keys joined by dots."""
    keys = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
    return ".".join(keys) or ALONE


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree by name, in its order; a labelled array alone has its own name."""
    if isinstance(tree, xr.DataArray) and tree.name is not None:
        return {str(tree.name): tree}
    try:
        pairs = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)[0]
    except ValueError as error:  # keys that cannot be sorted
        raise DeclarationError(
            "The keys of the parameters are of different types, and have no order. Name all of them by strings."
        ) from error
    found = {path_name(path): leaf for path, leaf in pairs}
    if len(found) < len(pairs):
        names = [path_name(path) for path, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DeclarationError(f"Two parameters are called `{twice}`: name keys without dots that others give rise to.")
    return found


def pick(tree: Any, name: str | None) -> Any:
    """The leaf of a name, in its unit; the only one where no name is given."""
    leaves = {one: plain(leaf) for one, leaf in named_leaves(tree).items()}
    known = ", ".join(f"`{one}`" for one in leaves)
    if name is None and len(leaves) == 1:
        return next(iter(leaves.values()))
    if name is None:
        raise DeclarationError(f"Regularisation wants the name of a parameter as its second argument: one of {known}.")
    if name not in leaves:
        raise DeclarationError(f"Regularisation: there is no parameter `{name}`; the parameters are {known}.")
    return leaves[name]


class _MissingError(KeyError):
    """A key that was asked of the parameters."""


class _Asked(dict[Any, Any]):
    """A dict that tells keys it lacks from those that other dicts lack."""

    def __missing__(self, key: Any) -> Any:
        raise _MissingError(key)


jax.tree_util.register_pytree_node(
    _Asked, lambda tree: (list(tree.values()), tuple(tree)), lambda keys, values: _Asked(zip(keys, values, strict=True))
)


def check_names(what: str, function: Callable[..., Any], parameters: Any, *rest: Any) -> None:
    """Raises DeclarationError where a function that ended in a KeyError had asked the parameters for it."""
    try:
        jax.eval_shape(lambda tree, *others: function(_asked(tree), *others), parameters, *rest)
    except _MissingError as error:
        known = ", ".join(named_leaves(parameters))
        raise DeclarationError(
            f"{what} asks for {error.args[0]!r}, and there is none; the parameters are {known}."
        ) from None
    except Exception:  # what it is about is told by the error at hand
        return


def _asked(tree: Any) -> Any:
    """A pytree with dicts that tell what they lack."""
    if type(tree) is dict:
        return _Asked({key: _asked(value) for key, value in tree.items()})
    return [_asked(value) for value in tree] if type(tree) is list else tree
