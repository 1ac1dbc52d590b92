"""Closures near walls that supply no values: order, stability of every scheme × closure × equation, notes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import Arithmetic, Harmonic, average, derivative, divergence, laplacian
from fdsolve.schemes._closures import close
from fdsolve.schemes._divergence import FluxDivergence
from fdsolve.schemes._sbp import summation_by_parts
from fdsolve.views import apply, coordinate

from .matrices import AXES, N, matrix

ORDERS = (2, 4, 6, 8)


def points_of(axis, on):
    return axis.positions(on == "face", 0, axis.size(on == "face"))


def growth(matrix):
    """The largest real part of an eigenvalue."""
    return np.linalg.eigvals(matrix).real.max()


@pytest.mark.parametrize("kind", AXES)
@pytest.mark.parametrize("order", ORDERS)
def test_advection_is_stable_with_a_value_at_the_inflow(kind, order):
    """u_t + c u_x = 0 with the inflow value given.

    On stretched axes central differences of order 4 and more are skew in no norm, and modes may grow at a rate of the
    order of c/length, as those of the interior do; it stays bounded under refinement.
    """
    axis = AXES[kind]()
    d = matrix(axis, lambda u: derivative(u, "x", order=order))
    allowed = 1e-8 if axis.uniform or order == 2 else 3.0 / axis.length
    assert max(growth(-d[1:, 1:]), growth(d[:-1, :-1])) < allowed


@pytest.mark.parametrize("order", [4, 6, 8])
def test_growth_on_stretched_axes_stays_bounded(order):
    found = [
        growth(-matrix(AXES["stretched"](n), lambda u: derivative(u, "x", order=order))[1:, 1:]) for n in (81, 161)
    ]
    assert found[1] < max(1.5 * found[0], 1.0)


@pytest.mark.parametrize("kind", ["nodes", "cells"])
@pytest.mark.parametrize("order", ORDERS)
def test_first_derivatives_sum_by_parts(kind, order):
    """uᵀH D v + (D u)ᵀ H v = u_N v_N − u_0 v_0, with the norm H of the closure."""
    axis = AXES[kind]()
    d = matrix(axis, lambda u: derivative(u, "x", order=order))
    norm, block = np.ones(N), summation_by_parts(order).norm
    norm[: block.size], norm[-block.size :] = block, block[::-1]
    both = norm[:, None] * d + (norm[:, None] * d).T
    wanted = np.zeros((N, N))
    wanted[0, 0], wanted[-1, -1] = -1.0, 1.0
    np.testing.assert_allclose(both * axis.step, wanted, atol=1e-11)
    assert block.min() > 0.2


@pytest.mark.parametrize("kind", AXES)
@pytest.mark.parametrize("order", ORDERS)
def test_heat_and_waves_have_real_negative_spectra(kind, order):
    """u_xx with values at both ends: eigenvalues real and negative, for u_t = u_xx and u_tt = u_xx."""
    found = np.linalg.eigvals(matrix(AXES[kind](), lambda u: derivative(u, "x", 2, order=order))[1:-1, 1:-1])
    assert np.abs(found.imag).max() < 1e-9 * np.abs(found).max()
    assert found.real.max() < -9.5


@pytest.mark.parametrize("kind", AXES)
@pytest.mark.parametrize("order", ORDERS)
def test_diffusion_and_waves_in_flux_form_have_real_negative_spectra(kind, order):
    """(k u_x)_x with values at both ends and a coefficient that varies threefold."""

    def operator(u):
        k = 1 + 0.5 * apply(lambda x: jnp.sin(7 * x), coordinate(u, "x"))
        return divergence(k, u, order=order, mean=Harmonic() if order == 4 else Arithmetic())

    found = np.linalg.eigvals(matrix(AXES[kind](), operator)[1:-1, 1:-1])
    assert np.abs(found.imag).max() < 1e-9 * np.abs(found).max()
    assert found.real.max() < -9.5


@pytest.mark.parametrize("kind", AXES)
@pytest.mark.parametrize("order", ORDERS)
def test_staggered_waves_keep_an_imaginary_spectrum(kind, order):
    """p_t = v_x, v_t = p_x with v = 0 on the walls (where v has points) and nothing said of p."""
    axis = AXES[kind]()
    wall, inner = ("face", "point") if axis.cells else ("point", "face")
    slope = matrix(axis, lambda u: derivative(u, "x", order=order), inner, wall)[1:-1]
    spread = matrix(axis, lambda u: derivative(u, "x", order=order), wall, inner)[:, 1:-1]
    a, b = slope.shape[0], spread.shape[0]
    assert growth(np.block([[np.zeros((a, a)), slope], [spread, np.zeros((b, b))]])) < 1e-9


@pytest.mark.parametrize("kind", AXES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n, places", [(1, ("point", "point")), (2, ("point", "point"))])
def test_closing_rows_between_like_places_are_of_the_order_they_tell(kind, order, n, places):
    axis = AXES[kind]()
    rows = slice(1, -1) if n == 2 else slice(None)
    d = matrix(axis, lambda u: derivative(u, "x", n, order=order), *places)[rows]
    exact = order // 2 if n == 1 else min(order, 4)
    if not axis.uniform:
        exact = 1 if n == 1 else exact - 1
    assert_exact(d, points_of(axis, places[0]), points_of(axis, places[1])[rows], n, exact)


@pytest.mark.parametrize("kind", AXES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("places", [("face", "point"), ("point", "face")])
def test_closing_rows_between_points_and_faces_are_of_the_order_they_tell(kind, order, places):
    axis = AXES[kind]()
    d = matrix(axis, lambda u: derivative(u, "x", order=order), *places)
    exact = min(order, 4) - (not axis.uniform)
    assert_exact(d, points_of(axis, places[0]), points_of(axis, places[1]), 1, exact)
    mean = matrix(axis, lambda u: average(u, order=order), *places)
    assert_exact(mean, points_of(axis, places[0]), points_of(axis, places[1]), 0, order)


def assert_exact(rows, sources, targets, n, exact):
    """Each row gives the n-th derivative of polynomials of degree up to n + exact − 1."""
    for row, here in zip(rows, targets, strict=True):
        got = [row @ (sources - here) ** k for k in range(n + exact)]
        wanted = [float(np.prod(range(1, n + 1))) if k == n else 0.0 for k in range(n + exact)]
        np.testing.assert_allclose(got, wanted, atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 11, 13, 15])
@pytest.mark.parametrize("order", ORDERS)
def test_short_axes_take_what_fits(n, order):
    axis = fd.Axis(0.0, 1.0, n + 1)
    d = matrix(axis, lambda u: derivative(u, "x", order=order))
    np.testing.assert_allclose(d @ axis.points, np.ones(n + 1), atol=1e-10)
    assert growth(-d[1:, 1:]) < 1e-9


@pytest.mark.parametrize("n, order", [(3, 2), (3, 4), (4, 2), (4, 6)])
def test_higher_derivatives_narrow_as_far_as_they_fit(n, order):
    axis, reach = AXES["nodes"](), (n + 1) // 2
    d = matrix(axis, lambda u: derivative(u, "x", n, order=order))
    assert np.isnan(d[:reach]).all() and np.isnan(d[-reach:]).all()
    np.testing.assert_allclose(d[reach:-reach] @ axis.points**n, np.prod(range(1, n + 1)), rtol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_second_derivatives_on_the_outermost_point_leave_the_grid(order):
    for kind in ("nodes", "stretched cells"):
        for operator in (lambda u: derivative(u, "x", 2, order=order), lambda u: FluxDivergence(None, u, "x", order)):
            d = matrix(AXES[kind](), operator)
            assert np.isnan(d[[0, -1]]).all() and np.isfinite(d[1:-1]).all()


def test_a_closure_beyond_the_wall_is_none():
    assert close(1, 4, False, (-2, None), N, True) is None
    assert close(2, 4, False, (0, None), N, True) is None
    assert close(1, 4, True, (0, None), N, False) is None


def solved(axis, rule, rows=slice(None), condition=None, at=None):
    """The rule's matrix as the planner and the kernels make it."""
    grid = fd.Grid(x=axis)
    u, d = fd.Field("u", grid), fd.Field("d", grid, at=at)
    u[...] = lambda q: q
    d[...] = 0.0
    d[rows] = rule
    if condition is not None:
        u[dict(x=0)] = condition
    plan = fd.plan([u, d], q=fd.along(axis.points, "x"))
    of = jax.jacobian(lambda q: fd.solve([u, d], q=fd.along(q, "x"))["d"])
    return np.asarray(of(jnp.asarray(axis.points))), str(plan)


@pytest.mark.parametrize("kind, n, order", [("nodes", 1, 8), ("stretched cells", 1, 4), ("cells", 2, 6)])
def test_the_planner_closes_rows_as_the_operators_do(kind, n, order):
    axis, rows = AXES[kind](), slice(n - 1, N + 1 - n)
    got, plan = solved(axis, lambda u: derivative(u, "x", n, order=order), rows)
    wanted = matrix(axis, lambda u: derivative(u, "x", n, order=order))
    np.testing.assert_allclose(got[rows], wanted[rows], atol=1e-9)
    closed = order // 2 if n == 1 else 4
    for side in ("lower", "upper"):
        power = "" if n == 1 else ", 2"
        line = f"derivative(u, x{power}) of order {order} closes at order {closed} at the {side} wall of x"
        assert plan.count(line) == 1


def test_rules_that_read_no_further_than_the_wall_are_not_closed():
    """Values given on two rows leave an order-4 derivative its central stencil in all others."""
    d, plan = solved(AXES["nodes"](), lambda u: derivative(u, "x", order=4), slice(2, -2))
    assert "closes" not in plan
    for i in range(2, N - 2):
        np.testing.assert_allclose(d[i, i - 2 : i + 3] * 0.05, [1 / 12, -2 / 3, 0, 2 / 3, -1 / 12], atol=1e-12)


def test_one_wall_may_be_served_and_the_other_open():
    d, plan = solved(AXES["cells"](), lambda u: derivative(u, "x", order=6), condition=fd.boundary.Neumann(0.0))
    assert "closes at order 3 at the upper wall of x" in plan and "lower wall" not in plan
    np.testing.assert_allclose(d[0, :3] * 60 / N, [-45.0, 54.0, -10.0], atol=1e-9)
    wanted = matrix(AXES["cells"](), lambda u: derivative(u, "x", order=6))
    np.testing.assert_allclose(d[8:], wanted[8:], atol=1e-9)


def test_second_derivatives_on_the_wall_still_want_a_condition():
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, N))
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = 1.0
    d[...] = lambda u: laplacian(u, order=4)
    expected = re.escape("outside the lower end of axis `x`. Assign a boundary condition")
    with pytest.raises(fd.PlanningError, match=expected):
        fd.plan([u, d])
