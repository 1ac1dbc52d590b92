"""Regions of a field: index keys, coordinate keys, predicates, boolean arrays, and their algebra."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError
from ._box import Box
from ._interpolation import AbstractInterpolation, check_coordinate, check_inside, place_span
from ._keys import Selection, resolve_axis_key, resolve_coordinate_key
from ._layout import Layout
from ._points import Points
from ._signature import signature_of
from ._terms import Predicate, Term, Terms

MAX_LEVEL_PATTERNS = 64


class AbstractRegion(ABC):
    """A set of points and levels, described without a field; `resolve` says which they are on one."""

    # NumPy arrays leave `mask | region` to us.
    __array_ufunc__ = None

    @abstractmethod
    def resolve(self, layout: Layout, what: str) -> Terms:
        """The points of the region on `layout`; error messages begin with `what`."""

    def __or__(self, other: Any) -> "AbstractRegion":
        return Combined("|", (self, to_region(other)))

    def __and__(self, other: Any) -> "AbstractRegion":
        return Combined("&", (self, to_region(other)))

    def __sub__(self, other: Any) -> "AbstractRegion":
        return Combined("-", (self, to_region(other)))

    def __ror__(self, other: Any) -> "AbstractRegion":
        return Combined("|", (to_region(other), self))

    def __rand__(self, other: Any) -> "AbstractRegion":
        return Combined("&", (to_region(other), self))

    def __rsub__(self, other: Any) -> "AbstractRegion":
        return Combined("-", (to_region(other), self))

    def __invert__(self) -> "AbstractRegion":
        return Combined("~", (self,))


@dataclass(frozen=True, eq=False, repr=False)
class Index(AbstractRegion):
    """Positions, as NumPy indexing or as a dict by axis name; lists select orthogonally."""

    key: Any

    def select(self, layout: Layout, what: str) -> Selection:
        """The positions picked on each axis."""
        by_axis = _by_axis(layout, self.key, what)
        found = [resolve_axis_key(layout, name, by_axis.get(name, slice(None)), what) for name in layout.names]
        return Selection.of(layout, found)

    def resolve(self, layout: Layout, what: str) -> Terms:
        selection = self.select(layout, what)
        empty = [name for name, p in zip(layout.names, selection.positions, strict=True) if p.size == 0]
        if empty:
            raise DeclarationError(f"{what}: the region is empty (no position on axis `{empty[0]}`).")
        return selection.to_terms()

    def __repr__(self) -> str:
        return f"[{show_key(self.key)}]"


@dataclass(frozen=True, eq=False, repr=False)
class Coordinates(AbstractRegion):
    """Coordinates by axis name, both ends of a slice included, matched to 1e-6 of a step."""

    key: Any

    def select(self, layout: Layout, what: str) -> Selection:
        """The positions picked on each axis."""
        if not isinstance(self.key, Mapping):
            raise DeclarationError(f"{what}: `.loc` takes a dict by axis name, for example `.loc[dict(x=0.5)]`.")
        _check_axes(layout, self.key, what)
        found = [
            resolve_coordinate_key(layout, name, self.key[name], what)
            if name in self.key
            else resolve_axis_key(layout, name, slice(None), what)
            for name in layout.names
        ]
        return Selection.of(layout, found)

    def resolve(self, layout: Layout, what: str) -> Terms:
        selection = self.select(layout, what)
        empty = [name for name, p in zip(layout.names, selection.positions, strict=True) if p.size == 0]
        if empty:
            raise DeclarationError(f"{what}: the region is empty (no coordinate on axis `{empty[0]}` lies in it).")
        return selection.to_terms()

    def __repr__(self) -> str:
        return f".loc[{show_key(self.key)}]"


@dataclass(frozen=True, eq=False, repr=False)
class Mask(AbstractRegion):
    """A boolean array of the field's whole shape, or of its space shape (then for all levels)."""

    array: np.ndarray

    def resolve(self, layout: Layout, what: str) -> Terms:
        array, box = self.array, Box.of_shape(layout.space_shape)
        if array.shape == layout.space_shape:
            terms = [Term(np.ones(layout.num_levels, bool), Points.of_mask(box, array))]
        elif array.shape == layout.shape:
            patterns: dict[bytes, list[int]] = {}
            for level in range(layout.num_levels):
                patterns.setdefault(np.packbits(array[level]).tobytes(), []).append(level)
            if len(patterns) > MAX_LEVEL_PATTERNS:
                raise DeclarationError(
                    f"{what}: the boolean array differs at {len(patterns)} levels; give `fd.where` with a predicate "
                    f"of `{layout.grid.time_name}` instead (at most {MAX_LEVEL_PATTERNS} patterns are compiled)."
                )
            terms = []
            for same in patterns.values():
                levels = np.zeros(layout.num_levels, bool)
                levels[same] = True
                terms.append(Term(levels, Points.of_mask(box, array[same[0]])))
        else:
            raise DeclarationError(
                f"{what}: the boolean array has shape {array.shape}; the field has shape {layout.shape} "
                f"and {layout.space_shape} in space."
            )
        kept = tuple(term for term in terms if not term.points.empty)
        if not kept:
            raise DeclarationError(f"{what}: the region is empty (no entry of the boolean array is true).")
        return Terms(layout, kept)

    def __repr__(self) -> str:
        return f"[boolean array {self.array.shape}]"


@dataclass(frozen=True, eq=False, repr=False)
class Where(AbstractRegion):
    """The points where a predicate of coordinates, time and parameters holds."""

    predicate: Callable[..., Any]

    def resolve(self, layout: Layout, what: str) -> Terms:
        names = list(signature_of(self.predicate, what).parameters)
        whole = Points.of_box(Box.of_shape(layout.space_shape))
        levels = np.ones(layout.num_levels, bool)
        if not all(name in layout.space for name in names):
            return Terms(layout, (Term(levels, whole, Predicate(self.predicate)),))
        with jax.ensure_compile_time_eval():
            value = self._evaluate({name: _open_coordinate(layout, name) for name in names}, what)
        if isinstance(value, Tracer):
            return Terms(layout, (Term(levels, whole, Predicate(self.predicate)),))
        array = np.asarray(value)
        if array.dtype != bool:
            raise DeclarationError(
                f"{what}: the predicate returned {'nothing' if value is None else array.dtype}; a predicate returns "
                f"true "
                f"or false, as a comparison does."
            )
        if array.ndim > len(layout.space) or any(
            n not in (1, m) for n, m in zip(array.shape[::-1], layout.space_shape[::-1], strict=False)
        ):
            raise DeclarationError(
                f"{what}: the predicate returned an array of shape {array.shape}; the points have shape "
                f"{layout.space_shape}. Calculate it from its arguments."
            )
        points = Points.of_mask(Box.of_shape(layout.space_shape), np.broadcast_to(array, layout.space_shape))
        if points.empty:
            raise DeclarationError(f"{what}: the region is empty (the predicate holds at no point).")
        return Terms(layout, (Term(levels, points),))

    def _evaluate(self, coordinates: Mapping[str, np.ndarray], what: str) -> Any:
        try:
            return self.predicate(**coordinates)
        except (TypeError, ValueError) as error:
            short = " ".join(str(error).split())
            raise DeclarationError(
                f"{what}: the predicate failed on the arrays of coordinates it is called with ({short:.120}). Use "
                f"`&`, `|` "
                f"and `~` on comparisons in brackets for `and`, `or` and `not`, and functions of `np` or `jnp`."
            ) from error

    def __repr__(self) -> str:
        name = getattr(self.predicate, "__name__", type(self.predicate).__name__)
        arguments = ", ".join(signature_of(self.predicate, "fd.where").parameters)
        return f"[where({'' if name == '<lambda>' else name + ': '}{arguments})]"


@dataclass(frozen=True, eq=False, repr=False)
class Combined(AbstractRegion):
    """Union `|`, intersection `&`, difference `-` or complement `~` of regions."""

    operator: str
    parts: tuple[AbstractRegion, ...]

    def __post_init__(self) -> None:
        if any(isinstance(part, Place) for part in self.parts):
            raise DeclarationError(
                f"{self!r}: a place between points is not combined with regions. For a source that acts at some times "
                f"multiply it, for example by jnp.where(t < 1, 1.0, 0.0); for several places write several `+=`."
            )

    def resolve(self, layout: Layout, what: str) -> Terms:
        first, *others = (part.resolve(layout, what) for part in self.parts)
        if self.operator == "~":
            found = first.complement()
        elif self.operator == "|":
            found = first.union(others[0])
        elif self.operator == "&":
            found = first.intersect(others[0])
        else:
            found = first.intersect(others[0].complement())
        if found.empty:
            raise DeclarationError(f"{what}: the region {self!r} is empty.")
        return found

    def __repr__(self) -> str:
        shown = [repr(part) for part in self.parts]
        return f"~{shown[0]}" if self.operator == "~" else f"({f' {self.operator} '.join(shown)})"


@dataclass(frozen=True, eq=False, repr=False)
class Place(AbstractRegion):
    """A place between the points, where a source acts with the weights of an interpolation on the points around it."""

    coordinates: dict[str, Any]
    interpolation: AbstractInterpolation

    def resolve(self, layout: Layout, what: str) -> Terms:
        spans = []
        for name in layout.space:
            value, owner, face = self.coordinates[name], layout.grid.space_axis(name), name in layout.faces
            check_coordinate(name, value, what)
            check_inside(name, owner, face, value, self.interpolation, what, read=False)
            spans.append(place_span(owner, face, value, self.interpolation))
        box = Box(tuple(a for a, _ in spans), tuple(b for _, b in spans))
        return Terms(layout, (Term(np.ones(layout.num_levels, bool), Points.of_box(box)),))

    def __repr__(self) -> str:
        shown = {name: "traced" if isinstance(v, Tracer) else show_key(v) for name, v in self.coordinates.items()}
        return "[point(" + ", ".join(f"{name}={value}" for name, value in shown.items()) + ")]"


def to_region(key: Any) -> AbstractRegion:
    """The region a key in `u[...]` stands for."""
    if isinstance(key, AbstractRegion):
        return key
    traced = [part for part in _key_parts(key) if isinstance(part, Tracer)]
    if traced:
        raise DeclarationError(
            f"A region's key is known when it is declared, got a traced value of shape {traced[0].shape}. For a region "
            f"that depends on parameters write fd.where(lambda x, c: x < c)."
        )
    if isinstance(key, np.ndarray | jax.Array) and key.dtype == bool:
        return Mask(np.asarray(key))
    if isinstance(key, list) and _is_boolean(key):
        return Mask(np.asarray(key))
    return Index(_own(key))


def _own(key: Any) -> Any:
    """The key, with copies of what could be written into after it was used."""
    if isinstance(key, Mapping):
        return {name: _own(value) for name, value in key.items()}
    if isinstance(key, tuple):
        return tuple(_own(part) for part in key)
    return key.copy() if isinstance(key, np.ndarray | list) else key


def _key_parts(key: Any) -> tuple[Any, ...]:
    if isinstance(key, Mapping):
        return tuple(part for value in key.values() for part in _key_parts(value))
    if isinstance(key, slice):
        return (key.start, key.stop, key.step)
    return tuple(part for value in key for part in _key_parts(value)) if isinstance(key, tuple | list) else (key,)


def _is_boolean(key: list[Any]) -> bool:
    try:
        return np.asarray(key).dtype == bool
    except ValueError:  # a ragged list, which resolving refuses
        return False


def where(predicate: Any) -> AbstractRegion:
    """The points where `predicate` holds.

    Its arguments are found by name: an axis' name is its coordinates, the time axis' name the time, anything else a
    parameter of `solve`. A predicate of space coordinates alone is evaluated when planning; one of time or parameters
    is a run-time mask, and lies over points that other rules cover.

    >>> import fdsolve as fd
    >>> grid = fd.Grid(x=fd.Axis(0.0, 1.0, num=5))
    >>> u = fd.Field("u", grid)
    >>> u[...] = 0.0
    >>> u[fd.where(lambda x: x > 0.6)] = 1.0
    >>> fd.solve(u)["u"].tolist()
    [0.0, 0.0, 0.0, 1.0, 1.0]
    """
    if not callable(predicate):
        raise DeclarationError(
            f"`fd.where` takes a function of coordinates, for example lambda x: x < 1; got {predicate!r}."
        )
    signature_of(predicate, "`fd.where`")
    return Where(predicate)


def _open_coordinate(layout: Layout, name: str) -> np.ndarray:
    axis = layout.space.index(name)
    values = layout.grid.space_axis(name).positions(name in layout.faces, 0, layout.space_shape[axis])
    return values.reshape([-1 if a == axis else 1 for a in range(len(layout.space))])


def _check_axes(layout: Layout, key: Mapping[str, Any], what: str) -> None:
    for name in key:
        if name not in layout.names:
            raise DeclarationError(f"{what}: unknown axis `{name}`; the axes are {', '.join(layout.names)}.")


def _by_axis(layout: Layout, key: Any, what: str) -> dict[str, Any]:
    if isinstance(key, Mapping):
        _check_axes(layout, key, what)
        return dict(key)
    parts = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(part, Mapping) for part in parts):
        raise DeclarationError(f"{what}: a dict key stands alone; put every axis into it.")
    if any(part is None for part in parts):
        raise DeclarationError(f"{what}: `None` (a new axis) has no meaning in a region.")
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        raise DeclarationError(f"{what}: a key takes one `...` only.")
    if len(parts) - len(dots) > len(layout.names):
        raise DeclarationError(
            f"{what}: {len(parts) - len(dots)} positions for {len(layout.names)} axes ({', '.join(layout.names)})."
        )
    if dots:
        fill = len(layout.names) - len(parts) + 1
        parts[dots[0] : dots[0] + 1] = [slice(None)] * fill
    return dict(zip(layout.names, parts, strict=False))


def show_key(key: Any) -> str:
    """A key as the user wrote it."""
    if isinstance(key, Mapping):
        return "dict(" + ", ".join(f"{name}={show_key(value)}" for name, value in key.items()) + ")"
    if isinstance(key, tuple):
        return ", ".join(show_key(part) for part in key)
    if isinstance(key, slice):
        a, b, step = ("" if part is None else str(part) for part in (key.start, key.stop, key.step))
        return f"{a}:{b}" + (f":{step}" if step else "")
    if isinstance(key, str):
        return f'"{key}"'
    if not isinstance(key, list | str) and np.ndim(key) and np.size(key) > 6:
        return f"array {np.shape(key)}"
    return "..." if key is Ellipsis else " ".join(str(key).split())


class RegionMaker:
    """`fd.region[key]` and `fd.region.loc[key]`: regions on their own, to be combined with |, &, - and ~."""

    def __init__(self, by_coordinate: bool = False):
        self._by_coordinate = by_coordinate

    def __getitem__(self, key: Any) -> AbstractRegion:
        return Coordinates(key) if self._by_coordinate else to_region(key)

    @property
    def loc(self) -> "RegionMaker":
        """Regions by coordinate."""
        return RegionMaker(by_coordinate=True)


region = RegionMaker()
