"""Declarations as plain data: properties draw them, the reference evaluates them, `translate` hands them to fdsolve."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Line:
    """A space axis: walls and number of points, or the points themselves."""

    lower: float
    upper: float
    num: int
    periodic: bool = False
    cells: bool = False
    points: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Expr:
    """A rule's expression: an operation and its arguments. Plain numbers stand for themselves."""

    op: str
    args: tuple[Any, ...]

    def __add__(self, other: Any) -> "Expr":
        return Expr("add", (self, other))

    def __radd__(self, other: Any) -> "Expr":
        return Expr("add", (other, self))

    def __sub__(self, other: Any) -> "Expr":
        return Expr("sub", (self, other))

    def __rsub__(self, other: Any) -> "Expr":
        return Expr("sub", (other, self))

    def __mul__(self, other: Any) -> "Expr":
        return Expr("mul", (self, other))

    def __rmul__(self, other: Any) -> "Expr":
        return Expr("mul", (other, self))

    def __truediv__(self, other: Any) -> "Expr":
        return Expr("div", (self, other))

    def at(self, **offsets: Any) -> "Expr":
        """The value at offsets in steps, `t` in levels: `view("u").at(t=-1, x=Fraction(1, 2))`."""
        return Expr("at", (self, tuple((name, Fraction(by)) for name, by in offsets.items())))

    def seen_from(self, **offsets: Any) -> "Expr":
        """The view seen from an offset, to be differenced there."""
        return Expr("moved", (self, tuple((name, Fraction(by)) for name, by in offsets.items())))


def name(of: str) -> Expr:
    """A coordinate, the time, a spacing or a scalar parameter."""
    return Expr("name", (of,))


def view(of: str) -> Expr:
    """A field or a labelled parameter, to be read with `.at()` or differenced."""
    return Expr("view", (of,))


def place(axis: str, of: str) -> Expr:
    """The coordinate of an axis as a view (`of`: any field the rule names anyway)."""
    return Expr("place", (axis, of))


def call(function: str, *args: Any) -> Expr:
    """sin, tanh, exp, abs, maximum, or `choose` (a where b > c else d)."""
    return Expr(function, args)


def derivative(of: Expr, axis: str, n: int = 1, order: int = 2) -> Expr:
    """∂ⁿ/∂axisⁿ of a view."""
    return Expr("derivative", (of, axis, n, order))


def laplacian(of: Expr, axes: tuple[str, ...]) -> Expr:
    """The sum of the second derivatives along `axes`, which are all the space axes."""
    return Expr("laplacian", (of, axes))


def divergence(coefficient: Expr, of: Expr, axes: tuple[str, ...]) -> Expr:
    """∇·(k ∇u) in flux form."""
    return Expr("divergence", (coefficient, of, axes))


@dataclass(frozen=True)
class Region:
    """A set of points and levels.

    Kinds: "index" (one key an axis, time first), "loc" (by axis name: a coordinate or a pair of ends), "where" (an
    expression that is positive inside), "mask" (a boolean array), "|", "&", "-", "~" (of regions), "place"
    (coordinates).
    """

    kind: str
    args: tuple[Any, ...]


def index(*keys: Any) -> Region:
    """Positions, one key an axis: integers, slices or lists."""
    return Region("index", keys)


@dataclass(frozen=True, eq=False)
class Values:
    """An array assigned to an index region, broadcast as NumPy does."""

    array: np.ndarray


@dataclass(frozen=True)
class Condition:
    """A boundary condition: "dirichlet" (g), "neumann" (g) or "robin" (a, b, g); each coefficient any rule."""

    kind: str
    coefficients: tuple[Any, ...]


@dataclass(frozen=True)
class Rule:
    """One assignment: `kind` is "value" or "rate"; `body` a number, Expr, Values or Condition."""

    region: Region
    body: Any
    kind: str = "value"
    adds: bool = False


@dataclass(frozen=True)
class Unknown:
    """A field: its name, the axes on which it lies on faces, its assignments."""

    name: str
    rules: tuple[Rule, ...]
    faces: frozenset[str] = frozenset()
    dtype: str = "float64"


@dataclass(frozen=True, eq=False)
class Labelled:
    """A parameter labelled by axes."""

    axes: tuple[str, ...]
    array: np.ndarray
    faces: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Declaration:
    """A whole problem. `times` is (start, stop, number of levels), or None; `stepper` one of "Euler", "Heun", "RK4"."""

    lines: dict[str, Line]
    unknowns: tuple[Unknown, ...]
    times: tuple[float, float, int] | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    stepper: str = "RK4"


def names_in(thing: Any) -> list[str]:
    """The argument names an expression needs, each once, in order of appearance."""
    found: dict[str, None] = {}

    def visit(part: Any) -> None:
        if not isinstance(part, Expr):
            return
        if part.op in ("name", "view"):
            found[part.args[0]] = None
        elif part.op == "place":
            found[part.args[1]] = None
        for inner in part.args:
            visit(inner)

    visit(thing)
    return list(found)
