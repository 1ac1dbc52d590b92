"""`kmap`, `kscan`, `smap` and `sscan`: decorators of a function of a window, or containers of functions by region."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError
from ._arguments import make_geometry
from ._functional import apply_windows, check_kind
from ._regions import Assignments, index_key
from ._window import describe


class _Windows:
    """What the four share: the arguments, the functions by region, and the call."""

    def __init__(
        self,
        kernel_size: Any,
        strides: Any,
        border: Any,
        relative: bool,
        named_axis: Mapping[int, Any] | None,
        *,
        in_order: bool,
        is_offset: bool,
        reverse: bool,
    ):
        self.kernel_size, self.strides, self.border = kernel_size, strides, border
        self.relative = bool(relative)
        self.named_axis = None if named_axis is None else dict(named_axis)
        self._in_order, self._is_offset, self._reverse = in_order, is_offset, reverse
        self._assigned: list[tuple[Callable[..., Any], Any]] = []

    def __repr__(self) -> str:
        border = "offset" if self._is_offset else "padding"
        text = (
            f"{type(self).__name__}(kernel_size={self.kernel_size}, strides={self.strides}, {border}={self.border}, "
            f"relative={self.relative}, named_axis={self.named_axis})"
        )
        if self._assigned:
            text += f" with {len(self._assigned)} assigned regions"
        return text

    def __setitem__(self, index: Any, function: Any) -> None:
        if not callable(function):
            raise DeclarationError(f"F[...] = {function!r}: a region takes a function of a window.")
        self._assigned.append((function, index))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Decorates a function, or applies the functions assigned so far to an array (and extra arguments)."""
        if len(args) == 1 and not kwargs and callable(args[0]):
            return self._decorate(args[0])
        if not args:
            raise DeclarationError(f"{type(self).__name__} is called with an array, or with a function to decorate.")
        if not self._assigned:
            raise DeclarationError(
                f"No function is assigned: write F[...] = function, or use {type(self).__name__} as a decorator."
            )
        array = self._to_array(args[0])
        functions: list[Callable[..., Any]] = []
        keys = []
        for function, index in self._assigned:
            number = next((i for i, known in enumerate(functions) if known is function), len(functions))
            if number == len(functions):
                functions.append(function)
            keys.append((number, index_key(index, array.shape)))
        return self._apply(Assignments(tuple(functions), tuple(keys)), array, (args[1:], kwargs))

    def _decorate(self, function: Callable[..., Any]) -> Callable[..., jax.Array]:
        @wraps(function)
        def call(array: Any, *args: Any, **kwargs: Any) -> jax.Array:
            return self._apply(Assignments((function,), ()), self._to_array(array), (args, kwargs))

        call.__doc__ = f"{describe(function)} at every window of an array."
        return call

    def _to_array(self, array: Any) -> jax.Array:
        if not isinstance(array, jax.Array | np.ndarray | list | tuple | int | float | complex):
            raise DeclarationError(f"{type(self).__name__} takes an array or a function, got {type(array).__name__}.")
        return jnp.asarray(array)

    def _apply(
        self, assignments: Assignments, array: jax.Array, arguments: tuple[tuple[Any, ...], dict[str, Any]]
    ) -> jax.Array:
        geometry = make_geometry(array.shape, self.kernel_size, self.strides, self.border, is_offset=self._is_offset)
        return apply_windows(
            assignments,
            geometry,
            self.relative,
            self.named_axis,
            array,
            arguments,
            in_order=self._in_order,
            reverse=self._reverse,
            keep=self._is_offset,
        )


class kmap(_Windows):
    """A function of every window of an array, all at once.

    Window p holds `kernel_size` entries around its centre; centres are `strides` apart. As a decorator, the function is
    applied at all windows, with further arguments passed on; as a container, `F[region] = function` assigns it where
    the centres lie in a region of the array, the last assignment wins, and what is left takes the first function.

    Args:
        kernel_size: entries of a window along each axis, −1 for the whole axis; one integer for all axes.
        strides: distance of one window from the next, for each axis or one integer for all.
        padding: zeros around the array: "valid" (none), "same", an integer, or a tuple with one of these or a pair
            (before, after) an axis; negative numbers leave windows out.
        relative: index windows by offsets from the centre instead of from their corner.
        named_axis: names for axes, {0: "n", 1: "i"}: the function then reads `u["i", "n-1"]`.
        map_kind: "vmap", "lmap" or "pmap", all the same here.
        map_kwargs: accepted, not needed.

    The result has one entry a window, with further axes where the function returns an array.

    >>> @kmap(kernel_size=(3,))
    ... def total(x):
    ...     return jnp.sum(x)
    >>> total(jnp.array([1, 2, 3, 4, 5])).tolist()
    [6, 9, 12]
    """

    def __init__(
        self,
        kernel_size: Any = 1,
        strides: Any = 1,
        padding: Any = 0,
        relative: bool = False,
        named_axis: Mapping[int, Any] | None = None,
        map_kind: str = "vmap",
        map_kwargs: Mapping[str, Any] | None = None,
    ):
        check_kind(map_kind, map_kwargs, is_scan=False)
        super().__init__(
            kernel_size, strides, padding, relative, named_axis, in_order=False, is_offset=False, reverse=False
        )


class kscan(_Windows):
    """A function of every window, one after the other in row-major order, in place.

    Each window sees the new values of the windows before it. Arguments as for `kmap`; results keep the array's dtype
    and are scalars. `scan_kwargs={"reverse": True}` turns the order round.

    >>> @kscan(kernel_size=(3,))
    ... def total(x):
    ...     return jnp.sum(x)
    >>> total(jnp.array([1, 2, 3, 4, 5])).tolist()
    [6, 13, 22]
    """

    def __init__(
        self,
        kernel_size: Any = 1,
        strides: Any = 1,
        padding: Any = 0,
        relative: bool = False,
        named_axis: Mapping[int, Any] | None = None,
        scan_kind: str = "scan",
        scan_kwargs: Mapping[str, Any] | None = None,
    ):
        reverse = check_kind(scan_kind, scan_kwargs, is_scan=True)
        super().__init__(
            kernel_size, strides, padding, relative, named_axis, in_order=True, is_offset=False, reverse=reverse
        )


class smap(_Windows):
    """As `kmap`, put back into the array: centres lie from `offset` entries after the start to as many before the end.

    Points outside keep their values; the result has the array's shape and dtype.

    >>> @smap(kernel_size=(2,), relative=True, offset=((2, 0),))
    ... def pair(x):
    ...     return x[0] + x[1]
    >>> pair(jnp.array([1, 2, 3, 4, 5])).tolist()
    [1, 2, 7, 9, 5]
    """

    def __init__(
        self,
        kernel_size: Any = 1,
        strides: Any = 1,
        offset: Any = 0,
        relative: bool = False,
        named_axis: Mapping[int, Any] | None = None,
        map_kind: str = "vmap",
        map_kwargs: Mapping[str, Any] | None = None,
    ):
        check_kind(map_kind, map_kwargs, is_scan=False)
        super().__init__(
            kernel_size, strides, offset, relative, named_axis, in_order=False, is_offset=True, reverse=False
        )


class sscan(_Windows):
    """As `kscan`, put back into the array from `offset` entries after its ends, like `smap`.

    >>> @sscan(kernel_size=(3,), relative=True, offset=((2, 0),))
    ... def total(x):
    ...     return x[-1] + x[0] + x[1]
    >>> total(jnp.array([1, 2, 3, 4, 5])).tolist()
    [1, 2, 9, 18, 23]
    """

    def __init__(
        self,
        kernel_size: Any = 1,
        strides: Any = 1,
        offset: Any = 0,
        relative: bool = False,
        named_axis: Mapping[int, Any] | None = None,
        scan_kind: str = "scan",
        scan_kwargs: Mapping[str, Any] | None = None,
    ):
        reverse = check_kind(scan_kind, scan_kwargs, is_scan=True)
        super().__init__(
            kernel_size, strides, offset, relative, named_axis, in_order=True, is_offset=True, reverse=reverse
        )
