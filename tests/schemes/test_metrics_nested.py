"""Operators of operators beside insulated walls of curvilinear axes: the inner one is mirrored, as its field is."""

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Extrapolate, Neumann, Symmetric
from fdsolve.schemes import biharmonic, divergence, laplacian
from tests.schemes.test_metrics import GRIDS, PI, angle, radius, walls

UNEVEN = 1.0 + np.cumsum([0.1, 0.12, 0.2, 0.15, 0.11, 0.13, 0.17, 0.1])
AXES = {
    "cells": lambda metric: fd.Axis(1.0, 2.0, 8, cells=True, metric=metric),
    "nodes": lambda metric: fd.Axis(1.0, 2.0, 9, metric=metric),
    "stretched cells": lambda metric: fd.Axis.from_points(UNEVEN, cells=True, metric=metric),
    "stretched nodes": lambda metric: fd.Axis.from_points(UNEVEN, metric=metric),
}
NESTED = {
    "laplacian": (lambda c: laplacian(laplacian(c)), lambda c: laplacian(c), lambda m: laplacian(m)),
    "order 4": (
        lambda c: laplacian(laplacian(c, order=4), order=4),
        lambda c: laplacian(c, order=4),
        lambda m: laplacian(m, order=4),
    ),
    "mobility": (
        lambda c, k: divergence(k, c**3 - laplacian(c)),
        lambda c: c[...] ** 3 - laplacian(c)[...],
        lambda m, k: divergence(k, m),
    ),
}


def both(grid, rules, condition=None, **parameters):
    """A nested operator, and the same through a field of its own: at all points."""
    nested, inner, outer = rules
    c, m, a, b = (fd.Field(name, grid) for name in "cmab")
    c[...] = np.random.default_rng(9).normal(size=grid.shape)
    m[...], a[...], b[...] = inner, nested, outer
    for one in (c, m, a, b):  # on a and b for the mobility, which is mirrored with them
        walls(one, grid, condition or Neumann(0.0))
    found = fd.solve([c, m, a, b], **parameters)
    return np.asarray(found["a"]), np.asarray(found["b"])


@pytest.mark.parametrize("rules", NESTED)
@pytest.mark.parametrize("metric", ["radius", "spherical radius"])
@pytest.mark.parametrize("place", AXES)
def test_an_insulated_wall_mirrors_the_inner_operator(place, metric, rules):
    grid = fd.Grid(r=AXES[place](metric))
    parameters = dict(k=np.random.default_rng(2).uniform(1, 2, grid.shape)) if rules == "mobility" else {}
    nested, apart = both(grid, NESTED[rules], **parameters)
    np.testing.assert_allclose(nested, apart, rtol=0, atol=1e-12 * np.abs(apart).max())


@pytest.mark.parametrize("kind", GRIDS)
def test_what_two_operators_move_is_conserved(kind):
    """Poles, periodic axes and insulated walls together, as for the equation of Cahn and Hilliard."""
    grid = fd.Grid(**GRIDS[kind]())
    for condition in (Neumann(0.0), Symmetric()):
        nested, apart = both(grid, NESTED["laplacian"], condition)
        moved = nested * grid.volumes()
        assert abs(moved.sum()) < 1e-13 * np.abs(moved).sum()
        np.testing.assert_allclose(nested, apart, rtol=0, atol=1e-12 * np.abs(apart).max())


def test_a_staggered_field_is_mirrored_about_its_own_points():
    """On the faces of cells a wall has a point of the field on it."""
    grid = fd.Grid(r=radius(8, 0.4), q=angle(6))
    c, m, a, b = (fd.Field(name, grid, at=dict(r="face")) for name in "cmab")
    c[...] = np.random.default_rng(9).normal(size=c.shape)
    m[...], a[...], b[...] = NESTED["laplacian"][1], NESTED["laplacian"][0], NESTED["laplacian"][2]
    for one in (c, m):
        one[dict(r=[0, -1])] = Neumann(0.0)
    found = fd.solve([c, m, a, b])
    np.testing.assert_allclose(found["a"], found["b"], rtol=0, atol=1e-11 * float(jnp.abs(found["b"]).max()))


GHOSTS = {
    "Dirichlet(0.3)": (Dirichlet(0.3), lambda inner: 0.6 - inner),
    "Neumann(0.7)": (Neumann(0.7), lambda inner: inner + np.array([1, 3]) * 0.1 * 0.7),
    "Extrapolate(1)": (Extrapolate(1), lambda inner: inner[[0, 0]]),
}


@pytest.mark.parametrize("name", GHOSTS)
def test_beyond_other_walls_rings_grow_as_the_radius_does(name):
    """Two balances one after the other in plain numpy, with the rings that would lie beyond the rim."""
    condition, beyond = GHOSTS[name]
    grid = fd.Grid(r=radius(10))
    values = np.random.default_rng(3).normal(size=10)
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = values
    u[dict(r=-1)] = condition
    d[...] = lambda u: biharmonic(u)

    def balance(whole, first):
        """From centres first + ½, … tenths to all but the outermost."""
        edges = (first + 1 + np.arange(len(whole) - 1)) / 10
        flux = np.abs(edges) * np.diff(whole) / 0.1
        return np.diff(flux) / np.abs(np.diff(edges * np.abs(edges)) / 2)

    extended = np.concatenate([values[1::-1], values, beyond(values[:-3:-1])])
    expected = balance(balance(extended, -2), -1)
    np.testing.assert_allclose(np.asarray(fd.solve([u, d])["d"]), expected, rtol=1e-9)


def test_mass_stays_in_a_disc_under_cahn_hilliard():
    grid = fd.Grid(
        t=fd.Time(0.0, 0.002, num=41), r=radius(12), q=fd.Axis(0.0, 2 * PI, 8, periodic=True, metric="angle")
    )
    c = fd.Field("c", grid)
    c[...] = fd.rate(lambda c: laplacian(c**3 - c - 1e-6 * laplacian(c)))
    c[0] = np.random.default_rng(1).uniform(-0.1, 0.5, grid.shape[1:])
    c[dict(r=-1)] = Neumann(0.0)
    levels = np.asarray(fd.solve(c, save=fd.every(40))["c"])
    masses = (levels * grid.volumes()).sum(axis=(1, 2))
    assert masses[-1] == pytest.approx(masses[0], rel=1e-13)
    assert np.abs(levels[-1] - levels[0]).max() > 1e-3
