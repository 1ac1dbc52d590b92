"""Poles of curvilinear axes: ends of the grid that are no walls, and want no condition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..field import AbstractCondition, AbstractWall, Assignment
from ..grid import Pole, find_pole
from ..region import Box, Index, Layout, Points
from ._walls import Side


@dataclass(frozen=True, eq=False)
class BeyondPole(AbstractCondition):
    """Beyond a pole lies the grid itself: the point behind it, half a turn on along the angles around it.

    Without such angles that is the mirror image. Components of vectors change sign there, scalars do not; where a
    field is a radial component that is read beyond the pole, assign `Antisymmetric()` to that end.
    """

    pole: Pole

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return ()

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        return wall.interior(wall.layer if wall.on_point else wall.layer - 1)

    def __repr__(self) -> str:
        return "pole"


def pole_walls(layout: Layout, taken: Sequence[tuple[Side, Points]]) -> list[tuple[Assignment, Side, Points]]:
    """The ends of axes that are poles, but for the points for which a condition was assigned."""
    grid, shape, found = layout.grid, layout.space_shape, []
    for position, name in enumerate(layout.space):
        for upper in (False, True):
            pole = find_pole({axis: grid.space_axis(axis) for axis in grid.space}, name, upper)
            if pole is None:
                continue
            side = Side(position, upper)
            at = side.index(shape)
            points = Points.of_box(Box.of_shape(shape).with_range(position, at, at + 1))
            for other, others in taken:
                points = points.subtract(others) if other == side else points
            if not points.empty:
                region = Index({name: -1 if upper else 0})
                found.append((Assignment(region, region.resolve(layout, "a pole"), BeyondPole(pole)), side, points))
    return found
