"""Reconstruction: the value of a quantity at a face, seen from one side, from the points upwind of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import jax

from ..errors import DeclarationError, PlanningError
from ..views import AbstractContext, AbstractView, Shift, add_shifts
from ._limiters import van_leer
from ._polynomials import face_weights

HALF = Fraction(1, 2)
Read = Callable[[Fraction], Any]
"""A quantity at an offset, in steps, from a face."""


class AbstractReconstruction(ABC):
    """A way to find the value at a face from 2·reach − 1 points: `reach` upwind of it, reach − 1 downwind."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """How many points upwind of the face it reads."""

    @property
    @abstractmethod
    def order(self) -> int:
        """Its order on smooth fields."""

    @property
    @abstractmethod
    def narrower(self) -> "AbstractReconstruction | None":
        """What takes its place near a wall without ghost values; None for the narrowest."""

    @abstractmethod
    def face(self, values: Sequence[Any], averages: bool) -> Any:
        """The value at the face on a uniform axis, from the farthest point upwind to the farthest downwind.

        `averages`: the values are taken for cell averages, so that differences of faces are derivatives; else they are
        interpolated.
        """


class AbstractPositionedReconstruction(AbstractReconstruction):
    """A reconstruction that also goes by the positions of the points, for stretched axes."""

    @abstractmethod
    def face_by_position(self, values: Sequence[Any], beside: "Beside") -> Any:
        """The value at the face by interpolation between points where they are."""


@dataclass(frozen=True)
class Beside:
    """One side of a face on a stretched axis: distances and weights of the points, upwind ones first.

    `side` is 1 where upwind is towards the lower wall, else −1.
    """

    context: AbstractContext
    axis: str
    face: Shift
    side: int

    def interpolation(self, count: int) -> list[Any]:
        """The weights of the `count` points of a window for the value at the face."""
        offsets = window(_reach(count), self.side)
        ascending = tuple(sorted(map(float, offsets)))
        return [
            self.context.read_weight(self.axis, 0, ascending, ascending.index(float(offset)), self.face)
            for offset in offsets
        ]

    def slope(self, near: Any, far: Any, offset: Fraction) -> Any:
        """The slope, towards the face, between a point and the next one upwind; `offset` is that of their middle."""
        place = along(self.context, self.face, self.axis, self.side * offset)
        return times(self.context.read_weight(self.axis, 1, (-0.5, 0.5), 1, place), near - far)

    def distance(self) -> Any:
        """From the point upwind of the face to the face."""
        point = along(self.context, self.face, self.axis, -self.side * HALF)
        return self.side * (
            self.context.read_coordinate(self.axis, self.face) - self.context.read_coordinate(self.axis, point)
        )


@dataclass(frozen=True)
class Upwind(AbstractPositionedReconstruction):
    """The polynomial through `order` points, one more upwind of the face than downwind: order 1, 3 or 5.

    Linear, with a leading error that damps. Good values: 1 for robustness (it keeps positive fields positive under
    |c|Δt/Δx ≤ 1), 3 for smooth fields, 5 with `RK4` or `SSPRK3`. On stretched axes it interpolates by position, and the
    flux form is of order 2. Source: Leonard, Comput. Methods Appl. Mech. Eng. 19 (1979) 59, for order 3.
    """

    order: int = 1  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.order not in (1, 3, 5) or isinstance(self.order, bool):
            raise DeclarationError(f"Upwind(order): the order is 1, 3 or 5, got {self.order!r}. Write Upwind(3).")

    @property
    def reach(self) -> int:
        return _reach(self.order)

    @property
    def narrower(self) -> AbstractReconstruction | None:
        return Upwind(self.order - 2) if self.order > 1 else None

    def face(self, values: Sequence[Any], averages: bool) -> Any:
        return weighted(face_weights(1 - self.reach, self.order, averages), values)

    def face_by_position(self, values: Sequence[Any], beside: Beside) -> Any:
        return weighted(beside.interpolation(self.order), values) if self.order > 1 else values[0]


@dataclass(frozen=True)
class TVD(AbstractPositionedReconstruction):
    """Faces from a limited slope: order 2 on smooth fields, no new extrema (order 1 at those that are there).

    Under `fd.rate` the value at a face is u + ½ limiter(u − u₋₁, u₊₁ − u), van Leer's MUSCL (J. Comput. Phys. 32
    (1979) 101); in a plain rule `convection` takes the one-step flux of Sweby (SIAM J. Numer. Anal. 21 (1984) 995).
    Total variation does not grow under |c|Δt/Δx ≤ 1 in one step; with faces under `SSPRK3` or `Heun` under ½.

    `limiter`: `minmod`, `superbee`, `van_leer`, `mc`, or a function of two neighbouring differences. Good values:
    `mc` or `van_leer`; `minmod` near vacuum; `superbee` for jumps carried far.
    """

    limiter: Callable[[Any, Any], Any] = van_leer

    def __post_init__(self) -> None:
        if not callable(self.limiter):
            raise DeclarationError(
                f"TVD(limiter) takes a function of two neighbouring differences, got {self.limiter!r}. "
                f"Write TVD(fd.schemes.van_leer)."
            )

    @property
    def reach(self) -> int:
        return 2

    @property
    def order(self) -> int:
        return 2

    @property
    def narrower(self) -> AbstractReconstruction | None:
        return Upwind(1)

    def face(self, values: Sequence[Any], averages: bool) -> Any:
        upper, here, lower = values
        return here + 0.5 * self.limiter(here - upper, lower - here)

    def face_by_position(self, values: Sequence[Any], beside: Beside) -> Any:
        upper, here, lower = values
        slopes = beside.slope(here, upper, Fraction(-1)), beside.slope(lower, here, Fraction(0))
        return here + times(beside.distance(), self.limiter(*slopes))

    def __repr__(self) -> str:
        return f"TVD({getattr(self.limiter, '__name__', self.limiter)})"


def _reach(count: int) -> int:
    return (count + 1) // 2


def window(reach: int, side: int) -> tuple[Fraction, ...]:
    """Offsets from a face, in steps, of the points that a reconstruction reads, the farthest upwind first.

    >>> [str(o) for o in window(2, 1)], [str(o) for o in window(2, -1)]
    (['-3/2', '-1/2', '1/2'], ['3/2', '1/2', '-1/2'])
    """
    return tuple(side * (j - reach + HALF) for j in range(2 * reach - 1))


def widest(
    scheme: AbstractReconstruction, views: Sequence[AbstractView], axis: str, face: Shift, side: int
) -> AbstractReconstruction | None:
    """The scheme, or the widest narrower one whose points lie within open walls; None where not one point does."""
    rooms = [view.context.room(view, axis, face) for view in views]
    below = min((room[0] for room in rooms if room[0] is not None), default=None)
    above = min((room[1] for room in rooms if room[1] is not None), default=None)
    found: AbstractReconstruction | None = scheme
    while found is not None and not all(_inside(below, above, offset) for offset in window(found.reach, side)):
        found = found.narrower
    if found is not scheme:
        name = "one-sided from within" if found is None else repr(found)
        short = [f"`{view!r}`" for view, room in zip(views, rooms, strict=True) if room != (None, None)]
        lacking = f" for {' and '.join(short)}" if len(short) < len(views) else ""
        views[0].context.note(f"{scheme} becomes {name} at walls of `{axis}` that supply no ghost values{lacking}")
    return found


def _inside(below: int | None, above: int | None, offset: Fraction) -> bool:
    return (below is None or below + 2 * offset >= 0) and (above is None or above - 2 * offset >= 0)


def reconstruct(
    scheme: AbstractReconstruction,
    context: AbstractContext,
    axis: str,
    face: Shift,
    side: int,
    read: Read,
    averages: bool,
) -> Any:
    """The value at a face seen from one side: 1 from the lower side, −1 from the upper."""
    values = [read(offset) for offset in window(scheme.reach, side)]
    if context.grid.space_axis(axis).uniform:
        return scheme.face(values, averages)
    if not isinstance(scheme, AbstractPositionedReconstruction):
        raise PlanningError(
            f"{context.what}: {scheme} is for uniform axes, and `{axis}` is stretched. Use fd.schemes.Upwind(3) or "
            f"fd.schemes.TVD(fd.schemes.van_leer), or map the axis to a uniform one."
        )
    return scheme.face_by_position(values, Beside(context, axis, face, side))


def along(context: AbstractContext, shift: Shift, axis: str, offset: Fraction) -> Shift:
    """A shift moved along one axis."""
    return add_shifts(shift, tuple(offset if name == axis else Fraction(0) for name in context.grid.names))


def weighted(weights: Sequence[Any], values: Sequence[Any]) -> Any:
    """Σ wᵢ vᵢ."""
    return reduce(lambda a, b: a + b, (times(w, v) for w, v in zip(weights, values, strict=True)))


def times(a: Any, b: Any) -> Any:
    """A product in the wider dtype: weights and velocities are real where a field may be complex."""
    with jax.numpy_dtype_promotion("standard"):
        return a * b
