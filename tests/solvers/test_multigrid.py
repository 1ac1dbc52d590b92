"""Multigrid: its factors, agreement with dense solves on random matrices, and what it refuses."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdsolve.errors import DeclarationError
from fdsolve.solvers import Multigrid, Report

from .grids import (
    CELLS,
    NODES,
    PERIODIC,
    Side,
    dense,
    diffusion,
    laplacian_of_order_four,
    random_vector,
    solved,
    transposed,
    two_fields,
)

WALLS = (37, 38)
"""Points of the walled grids: three grids, with odd and even sizes."""


def factor(report: Report) -> float:
    """The residual factor a cycle over the last cycles before rounding."""
    history = np.asarray(report.history)[: int(report.iterations)]
    first = min(2, len(history) - 2)
    return float((history[-1] / history[first]) ** (1 / (len(history) - 1 - first)))


@pytest.mark.parametrize(
    ("shape", "sides"),
    [
        (WALLS, (NODES, NODES)),
        (WALLS, (CELLS, CELLS)),
        (WALLS, (NODES, CELLS)),
        (WALLS, (Side("value", "slope", False), Side("slope", "value", True))),
        (WALLS, (Side("value", "slope", False), Side("slope", "slope", False))),
        ((36, 37), (PERIODIC, NODES)),
        ((36, 37), (PERIODIC, CELLS)),
        ((33, 33), (PERIODIC, NODES)),
    ],
)
def test_a_cycle_reduces_the_residual_of_poisson_by_more_than_six(
    shape: tuple[int, ...], sides: tuple[Side, ...]
) -> None:
    _, report = solved(diffusion(shape, sides), Multigrid())
    assert bool(report.converged) and float(report.residual) <= 1e-10
    assert factor(report) <= 0.15


def test_transposed_matrices_take_as_few_cycles() -> None:
    sides = (Side("value", "slope", False), Side("slope", "value", True))
    system = transposed(diffusion(WALLS, sides, 1 + np.random.default_rng(3).random(WALLS)))
    assert system.matrix is not None and not np.allclose(dense(system), dense(system).T)
    x, report = solved(system, Multigrid())
    assert bool(report.converged) and factor(report) <= 0.15
    np.testing.assert_allclose(system.apply(x)["u"], random_vector(system)["u"], atol=1e-7)


def test_an_axis_that_is_stretched() -> None:
    steps = np.diff(np.sinh(np.linspace(0, 1.0, WALLS[0] + 1)))
    kappa = np.broadcast_to(steps[:, None], WALLS)
    system = diffusion(WALLS, (CELLS, CELLS), kappa / kappa.mean())
    _, report = solved(system, Multigrid())
    assert bool(report.converged) and factor(report) <= 0.15


def test_three_axes() -> None:
    _, report = solved(diffusion((17, 17, 17), (NODES,) * 3), Multigrid())
    assert bool(report.converged) and factor(report) <= 0.15


@settings(max_examples=4)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_random_coefficients_and_holes_agree_with_a_dense_solve(seed: int, cells: bool, slope: bool) -> None:
    rng = np.random.default_rng(seed)
    kappa = 10.0 ** rng.uniform(-1, 1, (24, 25))
    holes = rng.random((24, 25)) < 0.1
    side = CELLS if cells else NODES
    system = diffusion((24, 25), (side, replace(side, high="slope") if slope else side), kappa, holes)
    rhs = random_vector(system, seed)
    x, report = solved(system, Multigrid(), rhs)
    assert bool(report.converged)
    wanted = np.linalg.solve(dense(system), np.asarray(rhs["u"]).ravel())
    np.testing.assert_allclose(np.asarray(x["u"]).ravel(), wanted, rtol=0, atol=1e-7 * np.abs(wanted).max())


def test_nothing_fixes_the_mean() -> None:
    system = diffusion((24, 22), (Side("slope", "slope", True), PERIODIC))
    right = system.apply(random_vector(system))
    x, report = solved(system, Multigrid(), right)
    assert bool(report.converged) and factor(report) <= 0.15
    np.testing.assert_allclose(system.apply(x)["u"], right["u"], atol=1e-8)


@pytest.mark.parametrize(
    "solver", [Multigrid("W"), Multigrid("full"), Multigrid(smoother="jacobi"), Multigrid(smoother="line y")]
)
def test_cycles_and_smoothers(solver: Multigrid) -> None:
    shape = WALLS if solver.smoother == "colour" else (25, 24)
    _, report = solved(diffusion(shape, (NODES, NODES)), solver)
    assert bool(report.converged) and int(report.iterations) <= 20


def test_lines_where_one_axis_is_much_finer() -> None:
    system = diffusion((25, 24), (NODES, PERIODIC), weights=(1.0, 1000.0))
    _, lines = solved(system, Multigrid(smoother="line y", max_cycles=12))
    _, points = solved(system, Multigrid(max_cycles=12))
    assert bool(lines.converged) and factor(lines) < 0.2
    assert not bool(points.converged) and float(points.residual) > 1e-10


def test_rows_that_reach_two_points() -> None:
    system = laplacian_of_order_four(24)
    x, report = solved(system, Multigrid())
    assert bool(report.converged) and int(report.iterations) <= 15
    np.testing.assert_allclose(system.apply(x)["u"], random_vector(system)["u"], atol=1e-7)


def test_two_fields_coupled_at_points() -> None:
    system = two_fields(25)
    x, report = solved(system, Multigrid())
    right = random_vector(system)
    assert bool(report.converged) and factor(report) <= 0.15
    for name in right:
        np.testing.assert_allclose(system.apply(x)[name], right[name], atol=1e-7)


def test_complex_entries() -> None:
    system = diffusion((25, 24), (NODES, NODES), shift=0.2j)
    _, report = solved(system, Multigrid())
    assert bool(report.converged) and factor(report) <= 0.15


def test_single_precision_ends_at_rounding() -> None:
    system = diffusion((25, 24), (NODES, NODES), dtype="float32")
    _, report = solved(system, Multigrid())
    assert bool(report.converged) and float(report.residual) < 1e-4


def test_many_right_hand_sides_at_once() -> None:
    system = diffusion((18, 18), (NODES, NODES))
    solver = Multigrid()

    def solve(right: jax.Array) -> jax.Array:
        zero = {"u": jnp.zeros_like(right)}
        return solver.solve(system, solver.prepare(system), {"u": right}, zero)[0]["u"]

    many = jnp.stack([random_vector(system, seed)["u"] for seed in range(3)])
    found = jax.jit(jax.vmap(solve))(many)
    wanted = np.linalg.solve(dense(system), np.asarray(many).reshape(3, -1).T).T
    np.testing.assert_allclose(np.asarray(found).reshape(3, -1), wanted, rtol=1e-7, atol=1e-9)


def test_an_indefinite_matrix_is_not_said_to_have_converged() -> None:
    _, report = solved(diffusion(WALLS, (NODES, NODES), shift=-1.5), Multigrid())
    assert not bool(report.converged)


def test_refusals() -> None:
    system = diffusion((9, 9), (NODES, NODES))
    layout = system.outline.layout
    assert layout is not None
    assert "global" in str(Multigrid().refuse(replace(system.outline, layout=None)))
    assert "no axis 'q'" in str(Multigrid(smoother="line q").refuse(system.outline))
    staggered = replace(layout, fields=("u", "v"), shapes=((9, 9), (9, 10)))
    assert "different shapes" in str(Multigrid().refuse(replace(system.outline, layout=staggered)))
    assert Multigrid(smoother="line 1").refuse(system.outline) is None


@pytest.mark.parametrize(
    "options", [dict(cycle="X"), dict(pre=0, post=0), dict(smoother="magic"), dict(tolerance=0.0), dict(max_cycles=0)]
)
def test_wrong_options(options: dict) -> None:
    with pytest.raises(DeclarationError, match=r"Multigrid"):
        Multigrid(**options)
