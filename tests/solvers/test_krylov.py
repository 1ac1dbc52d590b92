"""Krylov methods: agreement with dense solves, preconditioners, and failures that are told."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from fdsolve.errors import DeclarationError
from fdsolve.solvers import CG, GMRES, BiCGStab, Diagonal, LinearSystem, Lines, Multigrid, StencilMatrix

from .grids import NODES, PERIODIC, Side, dense, diffusion, random_vector, solved, system_of, two_fields

ALL = [
    CG(),
    CG(Diagonal()),
    CG(Lines("x")),
    CG(Multigrid()),
    GMRES(restart=40),
    GMRES(preconditioner=Multigrid()),
    BiCGStab(),
    BiCGStab(Multigrid()),
]


def inclusion(ratio: float, num: int = 37) -> np.ndarray:
    """Another coefficient in a rectangle."""
    kappa = np.ones((num, num))
    kappa[num // 4 : num // 2, num // 3 : -num // 4] = ratio
    return kappa


def windy(num: int = 25) -> LinearSystem:
    """Diffusion and a wind: an unsymmetric matrix."""
    system = diffusion((num, num), (NODES, NODES))
    matrix = system.matrix
    assert matrix is not None
    wind = jnp.asarray([0.0, -0.4, 0.4, 0.2, -0.2])[:, None, None]
    return system_of(StencilMatrix(matrix.layout, (matrix.values[0] * (1 + wind),), matrix.free))


@pytest.mark.parametrize("solver", ALL, ids=repr)
def test_they_agree_with_a_dense_solve(solver: Any) -> None:
    system = diffusion((25, 24), (NODES, PERIODIC), inclusion(5.0, 25)[:, :24])
    right = random_vector(system)
    x, report = solved(system, solver, right)
    assert bool(report.converged) and float(report.residual) <= 1e-10
    wanted = np.linalg.solve(dense(system), np.asarray(right["u"]).ravel())
    np.testing.assert_allclose(np.asarray(x["u"]).ravel(), wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())
    history = np.asarray(report.history)
    assert np.isfinite(history[: min(64, int(report.iterations))]).all()


@pytest.mark.parametrize("solver", [GMRES(), BiCGStab(Diagonal()), GMRES(preconditioner=Multigrid())], ids=repr)
def test_unsymmetric_matrices(solver: Any) -> None:
    system = windy()
    right = random_vector(system)
    x, report = solved(system, solver, right)
    assert bool(report.converged)
    np.testing.assert_allclose(system.apply(x)["u"], right["u"], atol=1e-8)


@pytest.mark.parametrize("solver", [CG(Multigrid()), GMRES(preconditioner=Diagonal())], ids=repr)
def test_two_fields_or_complex_numbers(solver: Any) -> None:
    system = two_fields(9) if isinstance(solver, GMRES) else diffusion((25, 24), (NODES, NODES), dtype="complex128")
    right = {name: array + array[::-1] for name, array in random_vector(system).items()}
    x, report = solved(system, solver, right)
    assert bool(report.converged)
    for name in right:
        np.testing.assert_allclose(system.apply(x)[name], right[name], atol=1e-8)


@pytest.mark.parametrize("ratio", [1e3, 1e-3])
def test_multigrid_makes_jumps_of_coefficients_harmless(ratio: float) -> None:
    _, report = solved(diffusion((37, 37), (NODES, NODES), inclusion(ratio)), CG(Multigrid()))
    assert bool(report.converged)
    assert float(report.residual) ** (1 / int(report.iterations)) <= 0.3


def test_multigrid_with_holes() -> None:
    y, x = np.mgrid[:37, :37]
    holes = ((x - 12) ** 2 + (y - 20) ** 2 < 16) | (abs(x - 25) + abs(y - 8) < 4)
    _, report = solved(diffusion((37, 37), (NODES, NODES), holes=holes), CG(Multigrid()))
    assert bool(report.converged)
    assert float(report.residual) ** (1 / int(report.iterations)) <= 0.3


def test_nothing_fixes_the_mean() -> None:
    system = diffusion((24, 24), (Side("slope", "slope", True), PERIODIC))
    right = system.apply(random_vector(system))
    x, report = solved(system, CG(Multigrid()), right)
    assert bool(report.converged)
    np.testing.assert_allclose(system.apply(x)["u"], right["u"], atol=1e-8)


def test_negative_definite_matrices_are_served_too() -> None:
    system = diffusion((9, 9), (NODES, NODES))
    matrix = system.matrix
    assert matrix is not None
    negative = system_of(StencilMatrix(matrix.layout, (-matrix.values[0],), matrix.free))
    assert bool(solved(negative, CG())[1].converged)


def test_an_indefinite_matrix_is_noticed() -> None:
    solver = CG()
    _, report = solved(diffusion((17, 17), (NODES, NODES), shift=-0.5), solver)
    assert not bool(report.converged) and int(report.iterations) < solver.max_iterations
    assert "not symmetric and definite" in solver.explain(report)


def test_too_few_iterations_are_told() -> None:
    solver = CG(max_iterations=3)
    _, report = solved(diffusion((17, 17), (NODES, NODES)), solver)
    assert not bool(report.converged) and int(report.iterations) == 3
    assert "wanted 1e-10" in solver.explain(report) and "max_iterations" in solver.explain(report)
    assert "converged in" in CG(Multigrid()).explain(solved(diffusion((9, 9), (NODES, NODES)), CG())[1])


def test_a_zero_right_hand_side() -> None:
    system = diffusion((9, 9), (NODES, NODES))
    zero = {"u": jnp.zeros((9, 9))}
    for solver in (CG(), GMRES(), BiCGStab()):
        x, report = solved(system, solver, zero)
        assert bool(report.converged) and not x["u"].any()


def test_refusals_and_wrong_options() -> None:
    outline = diffusion((9, 9), (NODES, NODES)).outline
    assert CG().refuse(replace(outline, layout=None)) is None
    assert "global" in str(CG(Diagonal()).refuse(replace(outline, layout=None)))
    assert "no such axis" in str(CG(Lines("q")).refuse(outline))
    with pytest.raises(DeclarationError, match=r"restart=0"):
        GMRES(restart=0)
    with pytest.raises(DeclarationError, match=r"max_iterations=0"):
        BiCGStab(max_iterations=0)
