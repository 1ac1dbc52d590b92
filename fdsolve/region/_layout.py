"""Where the points of one field lie: its axes, its shape, and whether each axis holds points or faces."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import DeclarationError
from ..grid import Grid


@dataclass(frozen=True)
class Layout:
    """The index space of a field: the grid and the axes on which the field lies on faces.

    `faces` holds the names of the staggered axes. Index space and coordinates follow `fdsolve.grid.Axis`: in units
    of one step the entity with index i lies at i + shift/2, and the lower wall at 0.
    """

    grid: Grid
    faces: frozenset[str] = frozenset()

    @classmethod
    def at(cls, grid: Grid, at: Mapping[str, str] | None, owner: str) -> "Layout":
        """The layout that `at=dict(x="face")` asks for; errors name `owner`."""
        faces = set()
        for axis, place in (at or {}).items():
            if axis not in grid.space:
                raise DeclarationError(
                    f"{owner}: `at=` names the axis `{axis}`; the space axes of the grid are {', '.join(grid.space)}."
                )
            if place not in ("face", "point"):
                raise DeclarationError(f'{owner}: `at=` takes "face" or "point" for axis `{axis}`, got {place!r}.')
            if place == "face":
                faces.add(axis)
        return cls(grid, frozenset(faces))

    @property
    def space(self) -> tuple[str, ...]:
        """Names of the space axes, in array order."""
        return self.grid.space

    @property
    def space_shape(self) -> tuple[int, ...]:
        """Number of points on each space axis."""
        return tuple(self.grid.space_axis(name).size(name in self.faces) for name in self.grid.space)

    @property
    def num_levels(self) -> int:
        """Number of time levels; 1 on a grid without time."""
        return self.grid.time.num if self.grid.time is not None else 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all axes, in array order."""
        return self.grid.names

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of points on each axis, time included."""
        return (self.num_levels, *self.space_shape) if self.grid.time is not None else self.space_shape

    def shift(self, axis: str) -> int:
        """Half indices from the lower wall to the entity of index 0 on a space axis (0 or 1)."""
        return self.grid.space_axis(axis).shift(axis in self.faces)

    def describe_place(self) -> str:
        """`x faces` and the like, for messages; empty where nothing is staggered."""
        return ", ".join(f"{name} faces" for name in self.space if name in self.faces)
