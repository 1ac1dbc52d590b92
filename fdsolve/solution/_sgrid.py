"""Staggered grids as SGRID and COMODO describe them, so that tools such as xgcm know what lies between what."""

from collections.abc import Collection
from typing import Any

from ..grid import Axis, Grid

TOPOLOGY = "grid_topology"
"""The variable whose attributes describe the grid, and its `cf_role`."""
_NAMES = {"X": ("x", "lon", "longitude"), "Y": ("y", "lat", "latitude"), "Z": ("z", "depth", "height", "altitude")}
_LOCATIONS = {
    2: {(): "face", (0,): "edge1", (1,): "edge2", (0, 1): "node"},
    3: {
        (): "volume",
        (0,): "face1",
        (1,): "face2",
        (2,): "face3",
        (1, 2): "edge1",
        (0, 2): "edge2",
        (0, 1): "edge3",
        (0, 1, 2): "node",
    },
}
"""What SGRID calls a place, by the number of axes and those on whose faces it lies; our points are its cells."""


def letters_of(grid: Grid) -> dict[str, str]:
    """CF's letter of each space axis: that of its name, or the next free one; none for a fourth.

    >>> from fdsolve.grid import Axis, Grid
    >>> letters_of(Grid(r=Axis(0.0, 1.0, 3), y=Axis(0.0, 1.0, 3)))
    {'y': 'Y', 'r': 'X'}
    """
    found = {axis: letter for letter, names in _NAMES.items() for axis in grid.space if axis in names}
    found = {axis: letter for axis, letter in found.items() if list(found.values()).count(letter) == 1}
    free = [letter for letter in _NAMES if letter not in found.values()]
    others = [axis for axis in grid.space if axis not in found]
    return {**found, **dict(zip(others, free, strict=False))}


def shift_of(axis: Axis) -> float:
    """COMODO's `c_grid_axis_shift` of the faces: where face 0 lies from point 0, in steps."""
    return -0.5 if axis.cells else 0.5


def location_of(grid: Grid, faces: Collection[str]) -> str:
    """What SGRID calls the place of a field on the faces of some axes."""
    order = _ordered(grid)
    return _LOCATIONS[len(order)][tuple(k for k, axis in enumerate(order) if axis in faces)]


def topology(grid: Grid) -> dict[str, Any] | None:
    """The attributes of SGRID's grid variable; None for what it does not know, one axis and more than three.

    Its cells are our points and its nodes the corners that the faces of all axes make.
    """
    order = _ordered(grid)
    if len(order) not in (2, 3) or len(order) != len(grid.space):
        return None
    cells = " ".join(f"{axis}: {axis}_face (padding: {_padding(grid.space_axis(axis))})" for axis in order)
    return {  # edges and faces are left to SGRID's defaults, which are these: some readers take no others
        "cf_role": TOPOLOGY,
        "topology_dimension": len(order),
        "node_dimensions": " ".join(f"{axis}_face" for axis in order),
        "face_dimensions" if len(order) == 2 else "volume_dimensions": cells,
        "node_coordinates": " ".join(f"{axis}_face" for axis in order),
    }


def _ordered(grid: Grid) -> list[str]:
    """The axes in the order X, Y, Z."""
    letters = letters_of(grid)
    return sorted(letters, key=lambda axis: letters[axis])


def _padding(axis: Axis) -> str:
    """Where points lie beyond the outermost faces."""
    if axis.periodic:
        return "high" if axis.cells else "low"
    return "none" if axis.cells else "both"
