"""The curl as a circulation around faces: ∇·∇× and ∇×∇ vanish to rounding on staggered places, at order 2."""

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import curl, divergence, gradient
from tests.schemes.test_metrics import PI, order_between


def ring(metric, n=6):
    return fd.Axis(0.0, 2 * PI, n, cells=True, periodic=True, metric=metric)


def uneven(lower, upper, n, metric):
    """Cells whose centres lie anywhere."""
    steps = np.random.default_rng(n).uniform(0.5, 1.5, n)
    points = lower + (upper - lower) * np.cumsum(steps) / (steps.sum() + 0.5)
    return fd.Axis.from_points(points, cells=True, metric=metric)


def cylinder():
    line = fd.Axis(0.0, 1.0, 4, cells=True, periodic=True)
    return dict(r=fd.Axis(0.5, 1.0, 5, cells=True, metric="radius"), q=ring("angle"), z=line)


def stretched_cylinder():
    return cylinder() | dict(r=uneven(0.5, 1.0, 5, "radius"))


def shell():
    radius = fd.Axis(0.5, 1.0, 5, cells=True, metric="spherical radius")
    return dict(r=radius, q=fd.Axis(0.5, 2.5, 4, cells=True, metric="colatitude"), f=ring("azimuth"))


def stretched_shell():
    return shell() | dict(r=uneven(0.5, 1.0, 5, "spherical radius"), q=uneven(0.5, 2.5, 4, "colatitude"))


def ball():
    radius = fd.Axis(0.0, 1.0, 4, cells=True, metric="spherical radius")
    return dict(r=radius, q=fd.Axis(0.0, PI, 4, cells=True, metric="colatitude"), f=ring("azimuth"))


PLACES = [cylinder, stretched_cylinder, shell, stretched_shell, ball]


def components(grid, prefix, edges):
    """Fields for the components of a vector, on the edges along their axes or on the faces across them."""
    names = {axis: {other: "face" for other in grid.space if (other != axis) == edges} for axis in grid.space}
    return [fd.Field(f"{prefix}{n}", grid, at=place) for n, place in enumerate(names.values())]


@pytest.mark.parametrize("axes", PLACES)
def test_the_divergence_of_a_curl_vanishes_to_rounding(axes):
    grid = fd.Grid(**axes())
    potential, field = components(grid, "A", True), components(grid, "B", False)
    divergences = fd.Field("d", grid)
    random = np.random.default_rng(7)
    for n, (a, b) in enumerate(zip(potential, field, strict=True)):
        values = random.normal(size=a.shape)
        if axes is ball and n == 0:  # on the axis one edge, not one an azimuth
            values[:, [0, -1]] = values[:, [0, -1], :1]
        a[...] = values
        b[...] = lambda A0, A1, A2, n=n: curl((A0, A1, A2))[n]
    divergences[...] = lambda B0, B1, B2: divergence((B0, B1, B2))
    found = fd.solve([*potential, *field, divergences])
    size = max(float(abs(found[b.name]).max()) for b in field)
    assert size > 1.0
    # At the centre of a ball cells are thousands of times smaller than their faces' fluxes are large.
    assert (np.abs(np.asarray(found["d"])) * grid.volumes()).max() < 1e-13 * size


@pytest.mark.parametrize("axes", PLACES[:-1])
def test_the_curl_of_a_gradient_vanishes_to_rounding(axes):
    """Points, the edges between them, and the faces that these surround."""
    grid = fd.Grid(**axes())
    u = fd.Field("u", grid, at=dict.fromkeys(grid.space, "face"))
    slopes = components(grid, "A", True)
    turns = components(grid, "B", False)
    u[...] = np.random.default_rng(8).normal(size=u.shape)
    for n, (a, b) in enumerate(zip(slopes, turns, strict=True)):
        a[...] = lambda u, n=n: gradient(u)[n]
        b[...] = lambda A0, A1, A2, n=n: curl((A0, A1, A2))[n]
    found = fd.solve([u, *slopes, *turns])
    size = max(float(abs(found[a.name]).max()) for a in slopes)
    assert max(float(abs(found[b.name]).max()) for b in turns) < 1e-11 * size


def test_the_order_of_the_curl_on_a_shell():
    """The radial part of that of (0, 0, r² sin²θ cos φ)."""

    def error(n):
        radius = fd.Axis(0.5, 1.0, n, cells=True, metric="spherical radius")
        grid = fd.Grid(r=radius, q=fd.Axis(0.5, 2.5, 2 * n, cells=True, metric="colatitude"), f=ring("azimuth", 2 * n))
        fields = components(grid, "A", True)
        for one in fields[:2]:
            one[...] = 0.0
        fields[2][...] = lambda r, q, f: r**2 * jnp.sin(q) ** 2 * jnp.cos(f)
        turn = fd.Field("B0", grid, at=dict(r="face"))
        turn[...] = lambda A0, A1, A2: curl((A0, A1, A2))[0]
        got = np.asarray(fd.solve([*fields, turn])["B0"])
        r, q, f = np.meshgrid(grid.r.positions(True, 0, n + 1), grid.q.points, grid.f.points, indexing="ij")
        return np.abs(got - 3 * r * np.sin(q) * np.cos(q) * np.cos(f)).max()

    assert order_between((6, 12), error) > 1.9
