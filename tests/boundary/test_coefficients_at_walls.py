"""Coefficients of the flux form where values are given at walls between cells."""

import numpy as np

import fdsolve as fd


def test_a_coefficient_that_jumps_next_to_a_wall_stays_positive_there():
    k = np.array([0.01, 1.0, 1.0, 2.0, 2.0, 0.02])
    grid = fd.Grid(x=fd.Axis(0.0, 6.0, num=6, cells=True))
    p = fd.Field("p", grid)
    p[...] = fd.residual(lambda p, k: fd.schemes.divergence(k, p, mean=fd.schemes.Harmonic()))
    p[dict(x=0)], p[dict(x=-1)] = fd.boundary.Dirichlet(1.0), fd.boundary.Dirichlet(0.0)
    found = np.asarray(fd.solve(p, k=k)["p"])
    resistance = np.concatenate([[0.5 / k[0]], 0.5 / k[:-1] + 0.5 / k[1:], [0.5 / k[-1]]])
    drops = np.cumsum(resistance) / resistance.sum()
    np.testing.assert_allclose(found, 1.0 - drops[:-1], rtol=0, atol=1e-12)
