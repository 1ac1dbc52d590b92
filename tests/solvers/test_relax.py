"""Relaxation: the numbers of the plain loop over the points, by every method; ends, derivatives and messages."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import laplacian

NUM, SWEEPS, K = 7, 4, 2.0
STEP_X, STEP_Y = 1 / (NUM - 1), 1 / NUM


def reaction() -> fd.Field:
    """Δu − k u³ + 5 = 0 with a value, a slope, and on cells values at both walls."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=NUM), y=fd.Axis(0.0, 1.0, num=NUM, cells=True)))
    u[...] = fd.residual(lambda u, k: laplacian(u) - k * u**3 + 5.0)
    u[dict(x=0)] = 1.0
    u[dict(x=-1)] = fd.boundary.Neumann(0.5)
    u[dict(y=[0, -1])] = fd.boundary.Dirichlet(0.3)
    return u


def set_walls(u: np.ndarray) -> None:
    """What holds beside the equations, on an array with one layer around."""
    u[1, 1:-1] = 1.0
    u[-1, 1:-1] = u[-3, 1:-1] + 2 * STEP_X * 0.5
    u[1:-1, 0], u[1:-1, -1] = 0.6 - u[1:-1, 1], 0.6 - u[1:-1, -2]


def loop(order: list[tuple[int, int]], newest: bool, omega: float) -> np.ndarray:
    """The sweeps point by point."""
    u = np.zeros((NUM + 2, NUM + 2))
    set_walls(u)
    for _ in range(SWEEPS):
        before = u.copy()
        source = u if newest else before
        for i, j in order:
            here = before[i, j]
            along_x = (source[i + 1, j] - 2 * here + source[i - 1, j]) / STEP_X**2
            along_y = (source[i, j + 1] - 2 * here + source[i, j - 1]) / STEP_Y**2
            slope = -2 / STEP_X**2 - 2 / STEP_Y**2 - 3 * K * here**2
            u[i, j] = here - omega * (along_x + along_y - K * here**3 + 5) / slope
        set_walls(u)
    return u[1:-1, 1:-1]


ROWS = [(i, j) for i in range(2, NUM + 1) for j in range(1, NUM + 1)]
COLOURS = sorted(ROWS, key=lambda point: (point[0] + point[1]) % 2)


@pytest.mark.parametrize(
    ("method", "omega", "order", "newest"),
    [
        ("jacobi", 0.8, ROWS, False),
        ("gauss-seidel", 1.0, ROWS, True),
        ("red-black", 1.2, COLOURS, True),
        ("sor", 1.5, ROWS, True),
    ],
)
def test_the_same_as_the_plain_loop(method: str, omega: float, order: list[tuple[int, int]], newest: bool) -> None:
    found = fd.relax(reaction(), method=method, omega=omega, sweeps=SWEEPS, every=3, k=K)
    np.testing.assert_allclose(found["u"], loop(order, newest, omega), rtol=0, atol=1e-14)
    (report,) = found.equations
    assert int(report.iterations) == SWEEPS and report.history.shape == (3,)  # at the start, after 3, after 4
    assert 0 < float(report.residual) < 1


def test_laplace_of_cfd_python() -> None:
    """Lesson 9 of CFD Python (Barba & Forsyth): Jacobi's sweeps, 1132 of them, to the published norm."""
    p = fd.Field("p", fd.Grid(y=fd.Axis(0.0, 2.0, num=31), x=fd.Axis(0.0, 2.0, num=31)))
    p[...] = fd.residual(lambda p: laplacian(p))
    p[dict(x=0)] = 0.0
    p[dict(x=-1)] = lambda y: y / 2
    p[dict(y=0)] = lambda p: p["y+1"]
    p[dict(y=-1)] = lambda p: p["y-1"]
    found = fd.relax(p, method="jacobi", sweeps=1132, every=1132)["p"]
    np.testing.assert_allclose(np.linalg.norm(found), 9.51067801, rtol=0, atol=1e-8)


def coupled() -> tuple[fd.Field, fd.Field]:
    """Two fields along a line, one of them with a hole."""
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, num=10))
    w, z = fd.Field("w", grid), fd.Field("z", grid)
    w[...] = fd.residual(lambda w, z: laplacian(w) - w + z + 1.0)
    w[dict(x=0)] = 0.0
    w[dict(x=-1)] = fd.boundary.Neumann(0.0)
    z[...] = fd.residual(lambda w, z: laplacian(z) - w - 1.0)
    z[dict(x=[0, -1])] = 0.0
    w[fd.where(lambda x: (x > 0.6) & (x < 0.7))] = fd.boundary.Neumann(0.0)
    return w, z


def test_coupled_fields_and_holes_arrive_at_the_solution() -> None:
    fields = coupled()
    found, exact = fd.relax(fields, method="red-black", until=1e-10, every=50), fd.solve(fields)
    for name in ("w", "z"):
        np.testing.assert_allclose(found[name], exact[name], atol=1e-8)
    assert np.isnan(found["w"]).any() and not np.isnan(found["z"]).any()
    assert bool(found.equations[0].converged)


def test_over_relaxation_is_faster_and_starts_where_told() -> None:
    u = reaction()
    plain = fd.relax(u, until=1e-8, every=1, k=K)
    over = fd.relax(u, method="sor", until=1e-8, every=1, k=K)
    assert int(over.equations[0].iterations) < int(plain.equations[0].iterations) / 1.5
    further = fd.relax(u, method="jacobi", sweeps=1, start=over, k=K)
    np.testing.assert_allclose(further["u"], over["u"], atol=1e-7)


def test_complex_and_single_precision() -> None:
    c = fd.Field("c", fd.Grid(x=fd.Axis(0.0, 1.0, num=9)), dtype="complex64")
    c[...] = fd.residual(lambda c, x: laplacian(c) + 5j * c + x)
    c[dict(x=[0, -1])] = 0.0
    found = fd.relax(c, until=1e-5)["c"]
    assert found.dtype == "complex64"
    np.testing.assert_allclose(found, fd.solve(c)["c"], atol=1e-5)


def test_derivatives() -> None:
    u = reaction()

    def energy(k: jax.Array) -> jax.Array:
        return jnp.sum(fd.relax(u, method="red-black", sweeps=3, k=k)["u"] ** 2)

    k, small = jnp.asarray(K), 1e-4
    slope = (energy(k + small) - energy(k - small)) / (2 * small)
    np.testing.assert_allclose(jax.grad(energy)(k), slope, rtol=1e-7)


def test_batches_and_traced_failure() -> None:
    e = line(lambda e, k, x: laplacian(e) - k * e[...] + x)
    many = jax.vmap(lambda k: fd.relax(e, method="jacobi", until=1e-6, k=k)["e"])(jnp.asarray([1.0, 9.0]))
    np.testing.assert_allclose(many[1], fd.relax(e, method="jacobi", until=1e-6, k=9.0)["e"], atol=1e-12)
    short = jax.jit(lambda k: fd.relax(e, method="jacobi", until=1e-6, sweeps=2, k=k)["e"])(1.0)
    assert np.isnan(short).all()  # never a wrong field


def test_the_plan_tells_the_order() -> None:
    plan = fd.relax(reaction(), sweeps=SWEEPS, every=3, k=K).plan
    assert "wavefront" in str(plan)
    assert len(plan.unknowns()) == (NUM - 1) * NUM


def line(rule: Callable[..., jax.Array]) -> fd.Field:
    e = fd.Field("e", fd.Grid(x=fd.Axis(0.0, 1.0, num=9)))
    e[...] = fd.residual(rule)
    e[dict(x=[0, -1])] = 0.0
    return e


def test_what_cannot_be_relaxed() -> None:
    with pytest.raises(fd.PlanningError, match="diagonal is zero"):
        fd.relax(line(lambda e: e["x+1"] - e["x-1"]), sweeps=1)
    with pytest.raises(fd.RunError, match="the diagonal"):
        fd.relax(line(lambda e, x: 0 * x * e[...] + e["x+1"] - x), sweeps=1)
    summed = line(lambda e: laplacian(e))
    summed[3:5] += fd.residual(lambda: 1.0)
    with pytest.raises(fd.PlanningError, match="one residual"):
        fd.relax(summed, sweeps=1)
    q = fd.Field("q", fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=9)))
    q[...] = fd.rate(lambda q: laplacian(q))
    q[0] = q[:, 0] = q[:, -1] = 0.0
    with pytest.raises(fd.PlanningError, match="time axis"):
        fd.relax(q, sweeps=1)
    plain = fd.Field("plain", fd.Grid(x=fd.Axis(0.0, 1.0, num=9)))
    plain[...] = 1.0
    with pytest.raises(fd.PlanningError, match="no rule is a residual"):
        fd.relax(plain, sweeps=1)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "when to end"),
        (dict(sweeps=0), "sweeps= is a whole number"),
        (dict(sweeps=3, every=0), "every= is a whole number"),
        (dict(until=1.5), "between 0 and 1"),
        (dict(sweeps=1, omega=2.5), "between 0 and 2"),
        (dict(sweeps=1, omega="best"), "one number"),
        (dict(sweeps=1, method="ssor"), "method= is one of"),
        (dict(sweeps=1, start=3.0), "start= takes arrays by field"),
        (dict(sweeps=1, start=dict(v=jnp.zeros(3))), "names `v`"),
        (dict(sweeps=1, start=dict(u=jnp.zeros(3))), "has shape"),
    ],
)
def test_wrong_arguments(options: dict, match: str) -> None:
    with pytest.raises(fd.DeclarationError, match=match):
        fd.relax(reaction(), k=K, **options)


def test_sweeps_of_no_known_number_are_differentiated_forwards() -> None:
    e = line(lambda e, x, k: laplacian(e) - k * e[...] + x)

    def of(k: jax.Array) -> jax.Array:
        return jnp.sum(fd.relax(e, method="sor", until=1e-10, k=k)["e"])

    k, small = jnp.asarray(1.0), 1e-4
    slope = (of(k + small) - of(k - small)) / (2 * small)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(of))(k), slope, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.jacfwd(of))(k[None]), slope, rtol=1e-6)
    for back in (jax.grad(of), jax.jit(jax.grad(of))):
        with pytest.raises(fd.PlanningError, match=r"forwards alone .*Give sweeps= without until= for gradients"):
            back(k)


def test_it_says_how_far_it_came() -> None:
    with pytest.raises(fd.RunError, match="brought the residual to"):
        fd.relax(line(lambda e, x: laplacian(e) + x), until=1e-9, sweeps=3)
