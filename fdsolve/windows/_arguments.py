"""What `kernel_size`, `strides`, `padding` and `offset` mean for an array of a given shape."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DeclarationError

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Geometry:
    """Where windows lie: window p, of `size` entries, is centred at entry first + p·strides of the array.

    `padding` counts the zeros before and after each axis; negative ones leave windows out. The centre of a window of k
    entries is its entry (k − 1) // 2; it may lie in the padding.
    """

    shape: tuple[int, ...]
    size: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Pairs

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def centre(self) -> tuple[int, ...]:
        """Position of the centre inside a window."""
        return tuple((k - 1) // 2 for k in self.size)

    @property
    def first(self) -> tuple[int, ...]:
        """The array index of the first window's centre."""
        return tuple(middle - low for middle, (low, _) in zip(self.centre, self.padding, strict=True))

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of windows along each axis."""
        spans = zip(self.shape, self.padding, self.size, self.strides, strict=True)
        return tuple((n + low + high - k) // s + 1 for n, (low, high), k, s in spans)

    @property
    def zeros(self) -> Pairs:
        """The zeros really put around the array: those of `padding` that are not negative."""
        return tuple((max(0, low), max(0, high)) for low, high in self.padding)


def make_geometry(shape: tuple[int, ...], kernel_size: Any, strides: Any, padding: Any, *, is_offset: bool) -> Geometry:
    """The geometry that the arguments of `kmap` and its kin describe; `is_offset` tells what `padding` holds."""
    size = _resolve_size(kernel_size, shape)
    resolved = _resolve_offset(padding, size) if is_offset else _resolve_padding(padding, size)
    geometry = Geometry(shape, size, _resolve_strides(strides, shape), resolved)
    if any(n <= 0 for n in geometry.counts):
        raise DeclarationError(
            f"No window of kernel_size={size} fits into an array of shape {shape} with "
            f"{_show_border(padding, is_offset)}. Use a smaller window, more padding or a larger array."
        )
    return geometry


def _show_border(border: Any, is_offset: bool) -> str:
    return f"{'offset' if is_offset else 'padding'}={border!r}"


def _is_int(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _per_axis(value: Any, shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """One integer for each axis, from one for all or a sequence."""
    if _is_int(value):
        return (int(value),) * len(shape)
    if not isinstance(value, tuple | list) or not all(_is_int(item) for item in value):
        raise DeclarationError(f"{name} takes an integer or a tuple of integers, got {value!r}.")
    if len(value) != len(shape):
        raise DeclarationError(
            f"{name}={tuple(value)} has {len(value)} entries, the array of shape {shape} has {len(shape)} axes."
        )
    return tuple(int(item) for item in value)


def _resolve_size(value: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    sizes = _per_axis(value, shape, "kernel_size")
    if any(k < 1 and k != -1 for k in sizes):
        raise DeclarationError(f"kernel_size takes positive integers, or -1 for a whole axis, got {value!r}.")
    return tuple(n if k == -1 else k for k, n in zip(sizes, shape, strict=True))


def _resolve_strides(value: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = _per_axis(value, shape, "strides")
    if any(s < 1 for s in strides):
        raise DeclarationError(f"strides takes positive integers, got {value!r}.")
    return strides


def _resolve_padding(value: Any, size: tuple[int, ...]) -> Pairs:
    items = _items(value, size, "padding")
    return tuple(_one_padding(item, k) for item, k in zip(items, size, strict=True))


def _items(value: Any, size: tuple[int, ...], name: str) -> Sequence[Any]:
    if isinstance(value, tuple | list):
        if len(value) != len(size):
            raise DeclarationError(
                f"{name}={value!r} has {len(value)} entries for a window of {len(size)} axes; give one an axis."
            )
        return value
    return (value,) * len(size)


def _one_padding(item: Any, size: int) -> tuple[int, int]:
    if isinstance(item, str):
        if item.lower() == "same":
            return (size - 1) // 2, size // 2
        if item.lower() == "valid":
            return 0, 0
        raise DeclarationError(f'padding takes "same" or "valid" as words, got {item!r}.')
    return _pair(item, "padding", 'an integer, a pair (before, after), "same" or "valid"')


def _pair(item: Any, name: str, wanted: str) -> tuple[int, int]:
    if _is_int(item):
        return int(item), int(item)
    if isinstance(item, tuple | list) and len(item) == 2 and all(_is_int(part) for part in item):
        return int(item[0]), int(item[1])
    raise DeclarationError(f"{name} takes {wanted} for an axis, got {item!r}.")


def _resolve_offset(value: Any, size: tuple[int, ...]) -> Pairs:
    """Padding that puts the first centre at entry `before` and the last at `after` entries from the end."""
    found = []
    for item, k in zip(_items(value, size, "offset"), size, strict=True):
        before, after = _pair(item, "offset", "an integer or a pair (before, after)")
        if before < 0 or after < 0:
            raise DeclarationError(f"offset takes integers that are not negative, got {value!r}.")
        found.append(((k - 1) // 2 - before, k // 2 - after))
    return tuple(found)
