"""Maps and scans from a table of functions and the index keys each is applied at."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..errors import DeclarationError
from ._arguments import Geometry, make_geometry
from ._map import map_windows
from ._regions import Assignments, table_key
from ._scan import scan_windows

MAP_KINDS = ("vmap", "lmap", "pmap")
SCAN_KINDS = ("scan",)

FunctionTable = Mapping[Any, Sequence[Any]]
"""Functions, and the keys each is applied at."""


def apply_windows(
    assignments: Assignments,
    geometry: Geometry,
    relative: bool,
    named_axis: Mapping[int, Any] | None,
    array: jax.Array,
    arguments: tuple[tuple[Any, ...], dict[str, Any]],
    *,
    in_order: bool,
    reverse: bool,
    keep: bool,
) -> jax.Array:
    """All windows, at once or `in_order`; with `keep` the results are put back into the array at the centres."""
    if in_order:
        result = scan_windows(assignments, geometry, relative, named_axis, array, arguments, reverse)
    else:
        # The array's dtype is kept where results are put back into it.
        result = map_windows(assignments, geometry, relative, named_axis, array, arguments, keep_dtype=keep)
    return _put_back(array, geometry, result) if keep else result


def _put_back(array: jax.Array, geometry: Geometry, result: jax.Array) -> jax.Array:
    if all(s == 1 for s in geometry.strides):
        return lax.dynamic_update_slice(array, result, geometry.first)
    stops = (f + (n - 1) * s + 1 for f, n, s in zip(geometry.first, geometry.counts, geometry.strides, strict=True))
    places = tuple(slice(f, b, s) for f, b, s in zip(geometry.first, stops, geometry.strides, strict=True))
    return array.at[places].set(result, indices_are_sorted=True, unique_indices=True)


def check_kind(kind: Any, options: Mapping[str, Any] | None, *, is_scan: bool) -> bool:
    """Refuses unknown kinds; tells whether the order is reversed. All kinds give the same numbers."""
    known = SCAN_KINDS if is_scan else MAP_KINDS
    name = "scan_kind" if is_scan else "map_kind"
    if kind not in known:
        raise DeclarationError(f"{name} takes {', '.join(map(repr, known))}, got {kind!r}.")
    return bool(is_scan and (options or {}).get("reverse", False))


def _table(func_map: FunctionTable) -> Assignments:
    if not func_map:
        raise DeclarationError("The table of functions is empty: give at least one function.")
    functions = tuple(func_map)
    for function in functions:
        if not callable(function):
            raise DeclarationError(f"The table of functions holds {function!r}, which is no function.")
    keys = tuple((i, table_key(key)) for i, found in enumerate(func_map.values()) for key in found)
    return Assignments(functions, keys)


def _entry(
    func_map: FunctionTable, shape: Any, kernel_size: Any, strides: Any, border: Any, relative: bool, is_offset: bool
) -> Callable[..., jax.Array]:
    """What the four entry points share: everything but the order, which the caller adds."""
    assignments = _table(func_map)
    geometry = make_geometry(tuple(shape), kernel_size, strides, border, is_offset=is_offset)

    def call(array: Any, arguments: tuple[tuple[Any, ...], dict[str, Any]], in_order: bool, reverse: bool) -> jax.Array:
        array = jnp.asarray(array)
        if array.shape != geometry.shape:
            raise DeclarationError(f"Made for arrays of shape {geometry.shape}, got one of shape {array.shape}.")
        return apply_windows(
            assignments, geometry, relative, None, array, arguments, in_order=in_order, reverse=reverse, keep=is_offset
        )

    return call


def kernel_map(
    func_map: FunctionTable,
    shape: tuple[int, ...],
    kernel_size: Any,
    strides: Any,
    border: Any,
    relative: bool = False,
    map_kind: str = "vmap",
    map_kwargs: Mapping[str, Any] | None = None,
) -> Callable[..., jax.Array]:
    """The map of a table {function: keys} over arrays of `shape`; a key holds an index or a range for each axis.

    >>> kernel_map({lambda x: x[0] + x[1]: ()}, (4,), (2,), (1,), ((0, 0),))(jnp.arange(4)).tolist()
    [1, 3, 5]
    """
    check_kind(map_kind, map_kwargs, is_scan=False)
    run = _entry(func_map, shape, kernel_size, strides, border, relative, False)
    return lambda array, *args, **kwargs: run(array, (args, kwargs), False, False)


def offset_kernel_map(
    func_map: FunctionTable,
    shape: tuple[int, ...],
    kernel_size: Any,
    strides: Any,
    offset: Any,
    relative: bool = False,
    map_kind: str = "vmap",
    map_kwargs: Mapping[str, Any] | None = None,
) -> Callable[..., jax.Array]:
    """As `kernel_map`, put back into the array from `offset` entries after its ends."""
    check_kind(map_kind, map_kwargs, is_scan=False)
    run = _entry(func_map, shape, kernel_size, strides, offset, relative, True)
    return lambda array, *args, **kwargs: run(array, (args, kwargs), False, False)


def kernel_scan(
    func_map: FunctionTable,
    shape: tuple[int, ...],
    kernel_size: Any,
    strides: Any,
    border: Any,
    relative: bool = False,
    scan_kind: str = "scan",
    scan_kwargs: Mapping[str, Any] | None = None,
) -> Callable[..., jax.Array]:
    """As `kernel_map`, in row-major order and in place: each window sees the new values of those before it.

    >>> kernel_scan({lambda x: x[0] + x[1]: ()}, (4,), (2,), (1,), ((0, 0),), True)(jnp.arange(4)).tolist()
    [1, 3, 5]
    """
    reverse = check_kind(scan_kind, scan_kwargs, is_scan=True)
    run = _entry(func_map, shape, kernel_size, strides, border, relative, False)
    return lambda array, *args, **kwargs: run(array, (args, kwargs), True, reverse)


def offset_kernel_scan(
    func_map: FunctionTable,
    shape: tuple[int, ...],
    kernel_size: Any,
    strides: Any,
    offset: Any,
    relative: bool = False,
    scan_kind: str = "scan",
    scan_kwargs: Mapping[str, Any] | None = None,
) -> Callable[..., jax.Array]:
    """As `kernel_scan`, put back into the array from `offset` entries after its ends."""
    reverse = check_kind(scan_kind, scan_kwargs, is_scan=True)
    run = _entry(func_map, shape, kernel_size, strides, offset, relative, True)
    return lambda array, *args, **kwargs: run(array, (args, kwargs), True, reverse)
