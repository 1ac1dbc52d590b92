"""Profiles cut out before all steps: which are, and that their gradients are those of another adjoint."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import fdsolve as fd
from fdsolve.kernels import Arrays
from fdsolve.planning import Parallel

NUM = 12


def at_points(u, k):
    """Of order 4, and so with other rules beside walls, which read k at their own points."""
    return u["t-1"] + 1e-3 * k[...] * fd.schemes.laplacian(u, order=4, at="t-1")


def between_points(u, k):
    above, below = k["x+1"] + k[...], k[...] + k["x-1"]
    return u["t-1"] + 0.5 * (above * (u["t-1", "x+1"] - u["t-1"]) - below * (u["t-1"] - u["t-1", "x-1"]))


def field(rule):
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=30), x=fd.Axis(0.0, 1.0, num=NUM)))
    u[...] = 0.0
    u[1:, 1:-1] = rule
    u[0] = lambda x: jnp.sin(3 * x)
    u[dict(x=[0, -1])] = 0.0
    return u


@pytest.mark.parametrize(("rule", "cut"), [(at_points, True), (between_points, False)])
def test_profiles_are_cut_where_their_boxes_do_not_overlap(rule, cut):
    plan = fd.plan(field(rule), k=np.linspace(0.1, 0.3, NUM))
    stages = (stage for phase in plan.structure.phases for stage in phase.stages)
    pieces = [stage.piece for stage in stages if isinstance(stage, Parallel)]
    found = Arrays(**plan.operands).with_cuts(plan.structure, pieces, plan.problem.scope.grid.space)
    assert bool(found.cuts) == cut


@pytest.mark.parametrize("rule", [at_points, between_points])
def test_gradients_by_profiles_are_those_of_the_march_as_it_is(rule):
    def gradient(adjoint):
        def loss(k):
            final = fd.solve(field(rule), k=k, save=fd.final(), kernel="slices", adjoint=adjoint).final["u"]
            return jnp.sum(final**2)

        return jax.grad(loss)(jnp.linspace(0.1, 0.3, NUM))

    assert_allclose(gradient(fd.adjoint.Checkpointed(snapshots=3)), gradient(fd.adjoint.Full()), rtol=1e-12)
