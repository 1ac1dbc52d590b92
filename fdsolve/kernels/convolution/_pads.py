"""Padding: how many points go around each axis, and what they hold."""

from collections.abc import Sequence
from operator import index
from typing import Any

import jax
import jax.numpy as jnp

from ...errors import DeclarationError
from ._call import dilate

_ZEROS = ("SAME", "SAME_LOWER", "VALID")
_MODES = {"PERIODIC": "wrap", "WRAP": "wrap", "REFLECT": "reflect", "SYMMETRIC": "symmetric"}
_KNOWN = (
    '"SAME", "SAME_LOWER", "VALID", "periodic" (or "wrap"), "reflect", "symmetric", or an entry for each axis: one of '
    'these, a pair (low, high), or (low, high, "periodic")'
)

Pad = tuple[int, int, str | None]
"""How many points before and after, in steps of the dilated array, and the mode of `jnp.pad` (None: zeros)."""


def parse_padding(
    padding: Any, size: Sequence[int], window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[Pad, ...]:
    """The padding of every axis.

    `size` is that of lhs, `window` that of rhs with its dilation; `dilation` that of lhs. Raises DeclarationError.
    """
    rank = len(size)
    if isinstance(padding, str):
        padding = [padding] * rank
    try:
        entries = list(padding)
    except TypeError as error:
        raise DeclarationError(f"padding= takes {_KNOWN}; got {padding!r}.") from error
    if len(entries) != rank:
        raise DeclarationError(f"padding= takes an entry for each of {rank} axes, got {len(entries)}: {padding!r}.")
    return tuple(_parse_entry(*one) for one in zip(entries, size, window, strides, dilation, strict=True))


def _parse_entry(entry: Any, size: int, window: int, stride: int, dilation: int) -> Pad:
    if isinstance(entry, str):
        name = entry.upper()
        if name in _MODES:
            return _around(_MODES[name], size, window, stride, dilation)
        if name not in _ZEROS:
            raise DeclarationError(f"padding= takes {_KNOWN}; got {entry!r}.")
        if name == "VALID":
            return 0, 0, None
        if dilation != 1:
            raise DeclarationError(
                f'padding="{name}" says nothing with lhs_dilation={dilation}. Give pairs (low, high), or call '
                "conv_transpose."
            )
        total = max(-(-size // stride) * stride - stride + window - size, 0)
        low = total // 2 if name == "SAME" else total - total // 2
        return low, total - low, None
    try:
        low, high, *mode = entry
        pair = index(low), index(high)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"padding= takes {_KNOWN}; got the entry {entry!r}.") from error
    if not mode:
        return (*pair, None)
    if len(mode) != 1 or str(mode[0]).upper() not in _MODES:
        raise DeclarationError(f"padding= takes {_KNOWN}; got the entry {entry!r}.")
    return (*pair, _MODES[mode[0].upper()])


def _around(mode: str, size: int, window: int, stride: int, dilation: int) -> Pad:
    """The window centred on every `stride`-th point, from the first, once around (or from end to end)."""
    dilated = dilate(size, dilation)
    extent = dilated if mode == "reflect" else size * dilation
    low = (window - 1) // 2
    return low, (-(-extent // stride) - 1) * stride + window - low - dilated, mode


def fill_padding(
    values: jax.Array, pads: Sequence[Pad], dilation: Sequence[int]
) -> tuple[jax.Array, tuple[tuple[int, int], ...]]:
    """The array with what is not zeros around it, and the pairs (low, high) of zeros that are left.

    The axes are the last ones of the array. An array that will be dilated is first extended, then dilated; what that
    puts too far out is cut by negative pairs.
    """
    lead = values.ndim - len(pads)
    left = []
    for axis, ((low, high, mode), factor) in enumerate(zip(pads, dilation, strict=True), lead):
        if mode is None:
            left.append((low, high))
            continue
        before, after = max(0, -(-low // factor)), max(0, -(-high // factor))
        if before or after:
            if values.shape[axis] == 0:
                raise DeclarationError(f"Padding of the kind {mode!r} repeats points, and axis {axis - lead} has none.")
            width = [(0, 0)] * values.ndim
            width[axis] = before, after
            values = jnp.pad(values, width, mode=mode)  # type: ignore[arg-type]
        left.append((low - before * factor, high - after * factor))
    return values, tuple(left)
