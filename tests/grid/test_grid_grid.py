"""Grids: axes by name, in order."""

import copy
import pickle

import pytest

from fdsolve.errors import DeclarationError
from fdsolve.grid import Axis, Grid, Time

T, X, Y = Time(0.0, 0.5, num=151), Axis(0.0, 2.0, num=51), Axis.from_points([0.0, 0.1, 0.3], units="m")


def test_a_grid_keeps_its_axes_in_order() -> None:
    grid = Grid(t=T, y=Y, x=X)
    assert grid.names == ("t", "y", "x") == tuple(grid)
    assert grid.space == ("y", "x")
    assert (grid.time, grid.time_name) == (T, "t")
    assert grid.shape == (151, 3, 51) and grid.ndim == 3
    assert grid.axes == dict(t=T, y=Y, x=X) and list(grid.axes) == ["t", "y", "x"]


def test_an_axis_is_reached_by_name() -> None:
    grid = Grid(t=T, x=X)
    assert grid.x is X and grid["x"] is X and grid.t is T
    assert "x" in grid and "z" not in grid and "x" in dir(grid)
    assert hasattr(grid, "x") and not hasattr(grid, "z")


def test_a_grid_without_time() -> None:
    grid = Grid(x=X, y=Y)
    assert grid.time is None and grid.time_name is None and grid.space == ("x", "y")


def test_a_grid_of_time_alone() -> None:
    grid = Grid(t=T)
    assert grid.space == () and grid.shape == (151,) and grid.time is T


def test_time_may_have_any_name_and_space_may_be_called_t() -> None:
    assert Grid(season=T, x=X).time_name == "season"
    assert Grid(t=X).time is None


def test_names_near_the_refused_ones_are_allowed() -> None:
    assert Grid(d=X, depth=X, dxy=Y, x=X).names == ("d", "depth", "dxy", "x")


def test_a_grid_is_a_value() -> None:
    grid = Grid(t=T, x=X)
    assert grid == Grid(t=T, x=X) and hash(grid) == hash(Grid(t=T, x=X))
    assert grid != Grid(t=T, y=X) and Grid(x=X, y=Y) != Grid(y=Y, x=X)
    for again in (copy.copy(grid), copy.deepcopy(grid), pickle.loads(pickle.dumps(grid))):
        assert again == grid and again.shape == grid.shape


def test_a_grid_is_frozen_and_hands_out_copies() -> None:
    grid = Grid(x=X)
    grid.axes.clear()
    assert grid.names == ("x",)
    with pytest.raises(AttributeError, match="cannot assign"):
        grid.x = Y


def test_an_unknown_name_is_both_errors() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = Grid(x=X).z
    assert isinstance(caught.value, DeclarationError)


def test_a_grid_prints_a_line_for_each_axis() -> None:
    assert repr(Grid(t=T, x=X, y=Y)).splitlines() == [
        "Grid 151 × 51 × 3",
        "├── t: Time(0.0, 0.5, num=151), step 0.003333",
        "├── x: Axis(0.0, 2.0, num=51), step 0.04",
        '└── y: Axis(0.0, 0.3, num=3, stretched, units="m"), spacing 0.1 to 0.2',
    ]
