"""What a function receives: its window as an array, or by names, where a read outside the window is an error."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from ..errors import DeclarationError
from ._arguments import Geometry

_TERM = re.compile(r"^\s*([^\W\d]\w*)\s*(?:([+-])\s*(\d+)\s*)?$")


class Names:
    """The names of a window's axes: all named, or some, the others counted by integers."""

    def __init__(self, named_axis: Mapping[int, Any], ndim: int):
        self.by_axis: dict[int, str] = {}
        for axis, name in named_axis.items():
            if not isinstance(axis, int) or not 0 <= axis < ndim:
                raise DeclarationError(f"named_axis names axis {axis!r} of an array with {ndim} axes.")
            if isinstance(name, int) and name == axis:
                continue
            if not isinstance(name, str) or not name.isidentifier():
                raise DeclarationError(f"named_axis gives axis {axis} the name {name!r}; a name is an identifier.")
            self.by_axis[axis] = name
        if len(set(self.by_axis.values())) < len(self.by_axis):
            raise DeclarationError(f"named_axis={dict(named_axis)!r} gives two axes one name.")
        self.ndim = ndim

    @property
    def complete(self) -> bool:
        """Whether every axis has a name."""
        return len(self.by_axis) == self.ndim

    def offsets(self, key: Any, what: str) -> tuple[int, ...]:
        """The integers that a key such as ("i", "n-1") means, in the order of the axes."""
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) != self.ndim:
            raise DeclarationError(f"{what} reads {_show(key)}; wanted {self.ndim} entries: {self._example()}.")
        if not self.complete:
            return tuple(self._positional(axis, part, key, what) for axis, part in enumerate(parts))
        found: dict[str, int] = {}
        for part in parts:
            name, offset = self._split(part, key, what)
            if name in found:
                raise DeclarationError(f"{what} reads {_show(key)}, with axis `{name}` twice.")
            found[name] = offset
        return tuple(found[self.by_axis[axis]] for axis in range(self.ndim))

    def _positional(self, axis: int, part: Any, key: Any, what: str) -> int:
        wanted = self.by_axis.get(axis)
        if wanted is None and isinstance(part, int | np.integer) and not isinstance(part, bool):
            return int(part)
        if wanted is not None and isinstance(part, str):
            name, offset = self._split(part, key, what)
            if name == wanted:
                return offset
        kind = "an integer" if wanted is None else f"`{wanted}` with an offset"
        raise DeclarationError(
            f"{what} reads {_show(key)}; entry {axis} must be {kind}, for example {self._example()}."
        )

    def _split(self, part: Any, key: Any, what: str) -> tuple[str, int]:
        match = _TERM.match(part) if isinstance(part, str) else None
        if match is None:
            raise DeclarationError(f"{what} reads {_show(key)}: cannot read {part!r}; wanted {self._example()}.")
        name, sign, digits = match.groups()
        if name not in self.by_axis.values():
            known = ", ".join(self.by_axis.values())
            raise DeclarationError(f"{what} reads {_show(key)}: there is no axis `{name}`. Named axes: {known}.")
        return name, 0 if digits is None else int(digits) * (1 if sign == "+" else -1)

    def _example(self) -> str:
        return "x[" + ", ".join(f'"{self.by_axis[a]}"' if a in self.by_axis else "0" for a in range(self.ndim)) + "]"


class NamedWindow(Mapping[Any, jax.Array]):
    """A window whose entries are read by names: `u["i", "n-1"]`."""

    def __init__(self, window: Any, names: Names, bounds: "Bounds"):
        self._window, self._names, self._bounds = window, names, bounds

    def __getitem__(self, key: Any) -> jax.Array:
        offsets = self._names.offsets(key, self._bounds.what)
        self._bounds.check(offsets, key)
        return self._window[offsets]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for place in np.ndindex(*(high - low for low, high in self._bounds.ranges)):
            yield tuple(
                _term(self._names.by_axis.get(axis), low + at)
                for axis, (at, (low, _)) in enumerate(zip(place, self._bounds.ranges, strict=True))
            )

    def __len__(self) -> int:
        return int(np.prod([high - low for low, high in self._bounds.ranges]))


def _term(name: str | None, offset: int) -> Any:
    return offset if name is None else f"{name}{offset:+d}" if offset else name


class Bounds:
    """The integers that may index a window, axis by axis: 0 … k − 1, or offsets from the centre where `relative`."""

    def __init__(self, geometry: Geometry, relative: bool, named: bool, what: str):
        self.size, self.relative, self.what = geometry.size, relative, what
        self.ranges = tuple(
            (-middle, k - middle) if relative else (0, k)
            for middle, k in zip(geometry.centre, geometry.size, strict=True)
        )
        # An array counts from its end, too; names do not.
        self.from_end = not relative and not named

    def check(self, parts: tuple[Any, ...], key: Any) -> None:
        """Refuses integers outside the window, among the parts of a key (entry a belongs to axis a)."""
        for axis, (part, (low, high)) in enumerate(zip(parts, self.ranges, strict=False)):
            if isinstance(part, int | np.integer) and not isinstance(part, bool | np.bool_):
                if not (low - self.size[axis] if self.from_end else low) <= part < high:
                    self._refuse(axis, int(part), key)
            elif self.relative and isinstance(part, slice) and part != slice(None):
                raise DeclarationError(
                    f"{self.what} reads {_show(key)}: a slice has no meaning among offsets from the centre; read the "
                    f"entries one by one, or use relative=False."
                )

    def _refuse(self, axis: int, offset: int, key: Any) -> None:
        low, high = self.ranges[axis]
        kind = "offsets from the centre" if self.relative else "entries"
        raise DeclarationError(
            f"{self.what} reads {_show(key)}, outside its window: kernel_size={self.size} has the {kind} {low} … "
            f"{high - 1} on axis {axis}, got {offset}. Use a larger kernel_size there."
        )


def _show(key: Any) -> str:
    def one(part: Any) -> str:
        if part is Ellipsis:
            return "..."
        if isinstance(part, slice):
            return ":".join("" if a is None else str(a) for a in (part.start, part.stop))
        return repr(part)

    return "x[" + ", ".join(one(part) for part in (key if isinstance(key, tuple) else (key,))) + "]"


def as_window(array: Any, geometry: Geometry, relative: bool, names: Names | None, what: str) -> Any:
    """The window a function receives, from the traced array of its entries (the centre first where `relative`)."""
    bounds = Bounds(geometry, relative, names is not None, what)
    if names is not None:
        return NamedWindow(array, names, bounds)
    array.__class__ = _checked_class(type(array), bounds)
    return array


def _checked_class(base: type, bounds: Bounds) -> type:
    """The class of traced arrays whose integer indices are checked against `bounds`.

    JAX functions take only its own traced arrays, whose out-of-range reads are silently clamped. So the window stays
    one, with this one method put over its own; what is computed from it is an ordinary traced array again.
    """

    def read(self: Any, key: Any) -> jax.Array:
        bounds.check(_by_axis(key, self.ndim), key)
        return base.__getitem__(self, key)  # type: ignore[attr-defined]

    return type("Window", (base,), {"__slots__": (), "__getitem__": read})


def _by_axis(key: Any, ndim: int) -> tuple[Any, ...]:
    """The parts of a NumPy index by axis: `...` is spread, new axes are left out."""
    parts = key if isinstance(key, tuple) else (key,)
    parts = tuple(part for part in parts if part is not None)
    at = [i for i, part in enumerate(parts) if part is Ellipsis]
    if not at:
        return parts
    missing = ndim - (len(parts) - 1)
    return (*parts[: at[0]], *(slice(None),) * missing, *parts[at[0] + 1 :])


def describe(function: Callable[..., Any]) -> str:
    """How messages call a function."""
    name = getattr(function, "__name__", None) or type(function).__name__
    if name != "<lambda>":
        return f"Function `{name}`"
    code = function.__code__
    return f"The lambda of line {code.co_firstlineno}"
