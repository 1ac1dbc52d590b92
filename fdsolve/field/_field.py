"""Fields: unknowns on a grid, and the list of what was assigned to their regions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..grid import Grid, to_attributes
from ..pictures import Html, code, details, name_with_unit, page, quiet, table
from ..region import AbstractRegion, Coordinates, Layout, Place, Terms, to_interpolation, to_region
from ..units import to_name
from ._checks import check_rule
from ._conditions import AbstractBoundary
from ._rules import Marked, bare, describe_rule, own


@dataclass(frozen=True, eq=False)
class Assignment:
    """One line of a declaration: region, points, rule, whether it adds, and which of the rule's results it takes."""

    region: AbstractRegion
    terms: Terms
    rule: Any
    adds: bool = False
    component: int | None = None
    partners: tuple[str, ...] = ()

    def describe(self, field_name: str) -> str:
        """The line as it was written, for messages: "`advect` on u[1:, 0]"."""
        return f"`{describe_rule(self.rule)}` on {field_name}{self.region!r}"


@dataclass(frozen=True)
class Target:
    """What `u[region]` gives outside a rule: a place that can be added to."""

    owner: Any
    region: AbstractRegion
    added: Any = None

    def __iadd__(self, rule: Any) -> "Target":
        return replace(self, added=rule)

    def _refuse(self, *_: Any) -> Any:
        name = self.owner.name if isinstance(self.owner, Field) else "together(...)"
        raise DeclarationError(
            f"{name}{self.region!r} is a region to assign to (`=`, `+=`), not a value to calculate with. Inside a "
            f"rule a "
            f"field is read through the argument of its name; after solving, its values are solution[name]."
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = _refuse
    __isub__ = __imul__ = __itruediv__ = __ipow__ = __neg__ = __abs__ = __array__ = _refuse


class Locator:
    """`u.loc`: regions by coordinate."""

    def __init__(self, owner: "Field | Together"):
        self._owner = owner

    def __getitem__(self, key: Any) -> Target:
        return Target(self._owner, Coordinates(key))

    def __setitem__(self, key: Any, rule: Any) -> None:
        self._owner[Coordinates(key)] = rule


@dataclass(frozen=True, eq=False, repr=False)
class Field:
    """An unknown of the problem: a quantity on a grid, defined region by region by assignments.

    Arguments: `name`, an identifier, the name rules read it by; `grid`; `at=dict(x="face")` staggers it on an axis;
    `units`, a name or a unit of saiunit; `attrs`, further attributes for output, as
    `dict(standard_name="air_temperature", long_name="…")`; `dtype`, default the float type of JAX (float64 where x64
    is enabled).

    >>> import fdsolve as fd
    >>> u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=5)))
    >>> u[...] = lambda x: x**2
    >>> u[-1] = 7.0
    >>> print(u)
    Field u (x: 5)
      u[...] = lambda
      u[-1] = 7.0
    """

    name: str
    grid: Grid
    at: Mapping[str, str] | None = None
    units: str | None = None
    dtype: Any = None
    attrs: Mapping[str, Any] | None = None
    layout: Layout = field(init=False)
    assignments: list[Assignment] = field(init=False, default_factory=list)

    def __init__(
        self, name: Any, grid: Any, *, at: Any = None, units: Any = None, dtype: Any = None, attrs: Any = None
    ):
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
            got = repr(name) if isinstance(name, str) else f"an object of type {type(name).__name__}"
            raise DeclarationError(
                f'A field\'s name is a Python name that rules read it by, got {got}: fd.Field("u", grid).'
            )
        if not isinstance(grid, Grid):
            raise DeclarationError(f"Field `{name}`: the second argument is a Grid, got {type(grid).__name__}.")
        units = to_name(units)
        _check_field(name, grid, at, units, dtype)
        named = dict(to_attributes(attrs, f"Field `{name}`: `attrs=`")) or None
        given = dict(name=name, grid=grid, at=at, units=units, dtype=dtype, attrs=named)
        for key, value in given.items():
            object.__setattr__(self, key, value)
        object.__setattr__(self, "layout", Layout.at(grid, at, f"Field `{name}`"))
        object.__setattr__(self, "assignments", [])

    @property
    def loc(self) -> Locator:
        """Regions by coordinate: `u.loc[dict(x=0.5, t=slice(0, 1))]`, both ends included."""
        return Locator(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of points on each axis, time included."""
        return self.layout.shape

    def __getitem__(self, key: Any) -> Target:
        return Target(self, to_region(key))

    def __setitem__(self, key: Any, rule: Any) -> None:
        if isinstance(rule, Target):
            self._add(rule)
            return
        self._assign(to_region(key), rule, adds=False)

    def _add(self, target: Target) -> None:
        if target.owner is not self or target.added is None:
            raise DeclarationError(
                f"Field `{self.name}`: assign a number, an array or a function, not a region of a field. To copy "
                f"from a "
                f"field write a rule that reads it: lambda v: v[...]."
            )
        self._assign(target.region, target.added, adds=True)

    def _assign(self, region: AbstractRegion, rule: Any, adds: bool) -> None:
        self.assignments.append(self._checked(region, rule, adds))

    def _checked(
        self,
        region: AbstractRegion,
        rule: Any,
        adds: bool,
        component: int | None = None,
        partners: tuple[str, ...] = (),
    ) -> Assignment:
        what = f"{self.name}{region!r}"
        check_rule(rule, what)
        if isinstance(region, Place) and not adds:
            raise DeclarationError(f"{what}: a place between points takes `+=` (a source), not `=`.")
        if adds and isinstance(rule, AbstractBoundary):
            raise DeclarationError(f"{what}: `+=` adds a value or a rate; assign a boundary condition with `=`.")
        if isinstance(region, Place):
            _check_place(region, self.layout, what)
        return Assignment(region, region.resolve(self.layout, what), own(rule), adds, component, partners)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size}" for name, size in zip(self.layout.names, self.shape, strict=True))
        place = self.layout.describe_place()
        head = f"Field {self.name} ({sizes})" + (f" on {place}" if place else "")
        lines = [
            f"  {self.name}{a.region!r} {'+=' if a.adds else '='} {describe_rule(a.rule)}" for a in self.assignments
        ]
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        place = self.layout.describe_place()
        title = f"Field {name_with_unit(self.name, self.units)}" + (f" on {place}" if place else "")
        rows = [
            (code(self.name + repr(a.region)), "+=" if a.adds else "=", code(describe_rule(a.rule)))
            for a in self.assignments
        ]
        listed = table(rows, ("region", "", "rule")) if rows else quiet("nothing is assigned yet")
        return page(title, listed, details("grid", Html(self.grid._repr_html_())))


@dataclass(frozen=True)
class Together:
    """Several fields set by one function; made by `fd.together`."""

    fields: tuple[Field, ...]

    @property
    def loc(self) -> Locator:
        """Regions by coordinate."""
        return Locator(self)  # type: ignore[arg-type]

    def __getitem__(self, key: Any) -> Target:
        return Target(self, to_region(key))

    def __setitem__(self, key: Any, rule: Any) -> None:
        region, adds = to_region(key), False
        if isinstance(rule, Target):
            if rule.owner is not self or rule.added is None:
                raise DeclarationError("fd.together: assign a function, not a region of a field.")
            region, rule, adds = rule.region, rule.added, True
        names = [one.name for one in self.fields]
        function = bare(rule)
        if isinstance(function, Sequence) and not isinstance(function, str) and len(function) == len(names):
            parts = [replace(rule, function=value) if isinstance(rule, Marked) else value for value in function]
            # Checked for all before the first is assigned: an assignment that fails leaves nothing behind.
            made = [one._checked(region, part, adds) for one, part in zip(self.fields, parts, strict=True)]
            for one, assignment in zip(self.fields, made, strict=True):
                one.assignments.append(assignment)
            return
        if isinstance(function, AbstractBoundary) and not isinstance(rule, Marked):
            self._assign_each(region, function, adds)
            return
        if not callable(function):
            raise DeclarationError(
                f"together({', '.join(names)}){region!r}: give one function that returns a tuple or dict of "
                f"{len(names)} values, got {describe_rule(rule)}."
            )
        made = [one._checked(region, rule, adds, index, tuple(names)) for index, one in enumerate(self.fields)]
        for one, assignment in zip(self.fields, made, strict=True):
            one.assignments.append(assignment)

    def _assign_each(self, region: AbstractRegion, condition: AbstractBoundary, adds: bool) -> None:
        """Gives every field the same boundary condition."""
        made = [one._checked(region, condition, adds) for one in self.fields]
        for one, assignment in zip(self.fields, made, strict=True):
            one.assignments.append(assignment)


def together(*fields: Any) -> Together:
    """Sets several fields by one function, which returns a tuple in the order given, or a dict by field name.

    `fd.together(u, v)[...] = fd.rate(lambda u, v: (v[...], -u[...]))`. A boundary condition holds for each of them:
    `fd.together(u, v)[dict(x=0)] = fd.boundary.Dirichlet(0.0)`.
    """
    if len(fields) < 2 or not all(isinstance(one, Field) for one in fields):
        got = ", ".join(one.name if isinstance(one, Field) else type(one).__name__ for one in fields) or "none"
        raise DeclarationError(
            f"`fd.together` takes two or more fields, got {got}. Write fd.together(u, v)[...] = rule."
        )
    if len({one.name for one in fields}) < len(fields):
        raise DeclarationError(f"`fd.together`: a field is named twice in {', '.join(one.name for one in fields)}.")
    if any(one.grid != fields[0].grid for one in fields):
        raise DeclarationError("`fd.together`: the fields are on different grids; fields set together share one.")
    return Together(tuple(fields))


def point(*, interpolation: Any = "linear", **coordinates: Any) -> AbstractRegion:
    """A place between the points, by coordinates of every space axis: `u[fd.point(x=0.31, y=0.77)] += source`.

    What is added is shared among the points around it: with `interpolation="linear"` among 2ᵈ of them, by multilinear
    weights that sum to one; with "sinc" among 8ᵈ, by Kaiser-windowed sinc functions, whose error is two
    orders smaller (see `fd.Sinc`). A traced coordinate (to differentiate with respect to it)
    spreads the weights over the whole axis. `fd.receivers` records fields at such places.
    """
    chosen = to_interpolation(interpolation, "`fd.point`")
    if not coordinates:
        raise DeclarationError("`fd.point` takes a coordinate for each space axis, for example fd.point(x=0.3).")
    return Place(dict(coordinates), chosen)


def _check_field(name: str, grid: Grid, at: Any, units: Any, dtype: Any) -> None:
    if name in {*grid.names, *(f"d{axis}" for axis in grid.names)}:
        raise DeclarationError(f"Field `{name}`: the name is that of an axis or its spacing; choose another.")
    if name in {"grid_topology", "receiver", "bnds"} or name in _coordinates_of(grid):
        raise DeclarationError(
            f"Field `{name}`: Datasets of this grid have a coordinate or dimension of that name; choose another."
        )
    if not grid.space:
        raise DeclarationError(
            f"Field `{name}`: its grid has no space axis; declare one, for example x=fd.Axis(0, 1, 51)."
        )
    if at is not None and not isinstance(at, Mapping):
        raise DeclarationError(f'Field `{name}`: `at=` takes a dict by axis name, as in at=dict(x="face"); got {at!r}.')
    if units is not None and not isinstance(units, str):
        raise DeclarationError(f'Field `{name}`: `units=` takes a string such as "m/s", got {units!r}.')
    if dtype is None:
        return
    try:
        numeric = np.dtype(dtype).kind in "biufc"  # bfloat16 and the like are of another kind
    except TypeError:
        numeric = False
    if not numeric:
        raise DeclarationError(f"Field `{name}`: {dtype!r} is no dtype that fields have; give jnp.float32 or the like.")


def _coordinates_of(grid: Grid) -> set[str]:
    """The names in Datasets that are made of those of the axes: faces, and the bounds of cells."""
    return {f"{axis}{ending}" for axis in grid.space for ending in ("_face", "_bnds", "_face_bnds")}


def _check_place(region: Place, layout: Layout, what: str) -> None:
    missing = set(layout.space) - set(region.coordinates)
    unknown = set(region.coordinates) - set(layout.space)
    if missing or unknown:
        raise DeclarationError(
            f"{what}: `fd.point` takes a coordinate for each space axis ({', '.join(layout.space)}); "
            + (f"missing: {', '.join(sorted(missing))}" if missing else f"unknown: {', '.join(sorted(unknown))}")
            + "."
        )
