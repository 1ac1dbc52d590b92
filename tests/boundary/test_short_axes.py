"""Axes of few points: walls at both ends, and ghosts that mirror every point there is."""

from itertools import product

import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import laplacian

CONDITIONS = {"Neumann": (fd.boundary.Neumann(0.0), 1), "Dirichlet": (fd.boundary.Dirichlet(0.0), -1)}


def mirrored(values, axis, sign, reach):
    """Values of cells with `reach` mirrored ones on either side of an axis."""
    size = values.shape[axis]
    below, above = (np.flip(np.take(values, at, axis), axis) for at in (range(reach), range(size - reach, size)))
    return np.concatenate([sign * below, values, sign * above], axis)


def laplacian_of(values, signs, weights):
    reach = len(weights) // 2
    found = np.zeros_like(values)
    for axis, sign in enumerate(signs):
        wide = mirrored(values, axis, sign, reach)
        for k, weight in enumerate(weights):
            found += weight * np.take(wide, range(k, k + values.shape[axis]), axis)
    return found


def solved(values, names, order):
    grid = fd.Grid(**{k: fd.Axis(0.0, float(n), n, cells=True) for k, n in zip("xyz", values.shape, strict=False)})
    s, lap = fd.Field("s", grid, dtype=float), fd.Field("lap", grid, dtype=float)
    s[...] = values
    for axis, name in zip(grid.space, names, strict=True):
        s[{axis: [0, -1]}] = CONDITIONS[name][0]
    lap[...] = lambda s: laplacian(s, order=order)
    return np.asarray(fd.solve([s, lap])["lap"])


@pytest.mark.parametrize("shape", [(1,), (2,), (2, 2), (2, 3), (1, 2), (3, 1), (2, 1, 2)])
def test_few_cells(shape):
    values = np.random.default_rng(sum(shape)).normal(size=shape)
    for names in product(CONDITIONS, repeat=len(shape)):
        wanted = laplacian_of(values, [CONDITIONS[name][1] for name in names], [1, -2, 1])
        np.testing.assert_allclose(solved(values, names, 2), wanted, rtol=0, atol=1e-13, err_msg=str(names))


@pytest.mark.parametrize(
    ("order", "weights"),
    [(4, [-1 / 12, 4 / 3, -5 / 2, 4 / 3, -1 / 12]), (6, [1 / 90, -3 / 20, 3 / 2, -49 / 18, 3 / 2, -3 / 20, 1 / 90])],
)
def test_as_many_ghosts_as_cells(order, weights):
    values = np.random.default_rng(order).normal(size=order // 2)
    for name, (_, sign) in CONDITIONS.items():
        wanted = laplacian_of(values, [sign], weights)
        np.testing.assert_allclose(solved(values, [name], order), wanted, rtol=0, atol=1e-13)
    with pytest.raises(fd.PlanningError, match=f"which has only {order // 2 - 1} to mirror. Give the axis more points"):
        solved(values[1:], ["Neumann"], order)


def test_a_node_on_the_wall_mirrors_nothing():
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, 3))
    s, lap = fd.Field("s", grid), fd.Field("lap", grid)
    s[...] = 1.0
    s[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    lap[...] = lambda s: laplacian(s, order=6)
    with pytest.raises(
        fd.PlanningError, match=r"reads? 3 points beyond the wall of axis `x`, which has only 2 to mirror"
    ):
        fd.plan([s, lap])


def test_the_ends_of_two_points_are_walls_and_all_of_them_a_hole():
    grid = fd.Grid(x=fd.Axis(0.0, 2.0, 2, cells=True))
    for region in (np.s_[:], ..., dict(x=slice(0, 2))):
        u = fd.Field("u", grid)
        u[...] = 1.0
        u[region] = fd.boundary.Neumann(0.0)
        with pytest.raises(fd.PlanningError, match="cuts out every point"):
            fd.plan(u)
    u = fd.Field("u", grid)
    u[...] = 1.0
    u.loc[dict(x=[0.5, 1.5])] = fd.boundary.Dirichlet(0.0)
    assert "x lower Dirichlet(0.0), x upper Dirichlet(0.0)" in str(fd.plan(u))
