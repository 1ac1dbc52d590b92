"""Offsets of a read: `u["t-1", "x+1/2"]`, `u[-1, +1]`, `u[...]`."""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import DeclarationError

Shift = tuple[Fraction, ...]
"""Offsets in steps of each grid axis, in grid order; multiples of one half."""

_OFFSET = re.compile(r"^\s*([A-Za-z_]\w*)\s*(?:([+-])\s*(\d+(?:\s*/\s*2)?))?\s*$")


def parse_offsets(key: Any, names: tuple[str, ...], what: str) -> Shift:
    """The offsets that a view's key names; axes left out are not moved.

    >>> [str(s) for s in parse_offsets(("t-1", "x + 1/2"), ("t", "x", "y"), "u")]
    ['-1', '1/2', '0']
    """
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) == 1 and parts[0] is Ellipsis:
        return (Fraction(0),) * len(names)
    if parts and all(isinstance(part, str) for part in parts):
        return _parse_named(parts, names, what)
    if not parts:
        raise DeclarationError(f"{what}: a read without an offset is written `[...]`, got `[()]`.")
    for part in parts:
        if part is None or part is Ellipsis or isinstance(part, slice | Mapping | list | bool | np.bool_):
            shown = "..." if part is Ellipsis else str(part)
            raise DeclarationError(
                f"{what}: `{shown}` is no offset; write `[...]` for the point itself, or an offset such as "
                f'"{names[-1]}-1" or "{names[-1]}+1/2".'
            )
    if any(isinstance(part, str) for part in parts):
        raise DeclarationError(f"{what}: offsets are all by name or all by position, got {key!r}. Name them all.")
    if len(parts) != len(names):
        raise DeclarationError(
            f"{what}: {len(parts)} offset{'s' * (len(parts) > 1)} by position for {len(names)} axes "
            f"({', '.join(names)}); "
            f'give one for each axis, or name them: "{names[-1]}+1".'
        )
    return tuple(_to_half(part, what) for part in parts)


def _parse_named(parts: tuple[str, ...], names: tuple[str, ...], what: str) -> Shift:
    shift = dict.fromkeys(names, Fraction(0))
    seen = set()
    for part in parts:
        match = _OFFSET.match(part)
        if match is None:
            raise DeclarationError(
                f'{what}: cannot read the offset "{part}"; write an axis name, a sign and a number, '
                f'for example "{names[-1]}-1", "{names[-1]}+2" or "{names[-1]}+1/2".'
            )
        name, sign, amount = match.groups()
        if name not in shift:
            raise DeclarationError(f'{what}: unknown axis `{name}` in "{part}"; the axes are {", ".join(names)}.')
        if name in seen:
            raise DeclarationError(f"{what}: axis `{name}` is named twice in {', '.join(parts)}.")
        seen.add(name)
        if amount is not None:
            size = Fraction(amount.replace(" ", ""))
            shift[name] = size if sign == "+" else -size
    return tuple(shift.values())


def _to_half(part: Any, what: str) -> Fraction:
    if isinstance(part, int | np.integer | Fraction) or (isinstance(part, float) and float(part * 2).is_integer()):
        half = Fraction(float(part))
        if (half * 2).denominator == 1:
            return half
    raise DeclarationError(
        f"{what}: the offset {part!r} is neither a whole number of steps nor a half; write -1, +1 or 0.5."
    )


def add_shifts(a: Shift, b: Shift) -> Shift:
    """The sum of two offsets."""
    return tuple(p + q for p, q in zip(a, b, strict=True))


def show_shift(shift: Shift, names: tuple[str, ...]) -> str:
    """The offsets as a key, without the axes that do not move: `"t-1", "x+1/2"`; `...` for none."""
    moved = [f'"{n}{"+" if s > 0 else "-"}{abs(s)}"' for n, s in zip(names, shift, strict=True) if s != 0]
    return ", ".join(moved) or "..."
