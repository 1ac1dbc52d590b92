"""The Courant number on curvilinear axes: speeds are lengths over time."""

import numpy as np
import pytest

import fdsolve as fd


def ring(start=0.5):
    grid = fd.Grid(
        t=fd.Time(0.0, 0.1, num=11),
        r=fd.Axis(start, 2.0, num=6, cells=True, metric="radius"),
        q=fd.Axis(0.0, 2 * np.pi, num=12, cells=True, periodic=True, metric="angle"),
    )
    u, v = fd.Field("u", grid, dtype=float), fd.Field("v", grid, at=dict(r="face"), dtype=float)
    for field in (u, v):
        field[...] = np.random.default_rng(len(field.name)).uniform(0.5, 2.0, field.shape[1:])
    return grid, [u, v]


def courant(fields, speed):
    kept = fd.solve(fields, monitors=[fd.monitors.CFL(speed, every=1)]).monitors
    return float(kept["CFL"].courant[1])


def test_speeds_across_an_angle_count_by_the_radius():
    grid, fields = ring()
    step, dq, dr = 0.01, 2 * np.pi / 12, 0.25
    first = fd.solve(fields, save=fd.at([0.0]))
    u, v = (np.abs(np.asarray(first[name])[0]) for name in ("u", "v"))
    radii, faces = grid.r.points, grid.r.lower + 0.25 * np.arange(7)
    assert courant(fields, dict(q=3.0)) == pytest.approx(step * 3.0 / (radii[0] * dq), rel=1e-12)
    assert courant(fields, dict(q=lambda u: u)) == pytest.approx(step * (u / radii[:, None]).max() / dq, rel=1e-12)
    assert courant(fields, dict(q=lambda v: v)) == pytest.approx(step * (v / faces[:, None]).max() / dq, rel=1e-12)
    assert courant(fields, dict(r=lambda u: u)) == pytest.approx(step * u.max() / dr, rel=1e-12)


def test_a_pole_counts_nothing():
    _, fields = ring(0.0)
    found = courant(fields, dict(q=lambda v: v))
    assert 0 < found < 1
