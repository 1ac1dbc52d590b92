"""Systems of equations beside rules under run-time predicates: points leave the system while it runs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Neumann
from fdsolve.schemes import BDF2, SDIRK2, BackwardEuler, CrankNicolson, laplacian

AXIS, RING = fd.Axis(0.0, 1.0, num=9), fd.Axis(0.0, 1.0, num=8, periodic=True)
PLANES = {"between walls": (AXIS, AXIS), "a ring": (RING, AXIS), "a ring and slopes": (RING, AXIS)}
CHOSEN = np.random.default_rng(3)
SOURCE = CHOSEN.normal(size=(9, 9))


def declare(case: str, region: Any, **time: Any) -> fd.Field:
    """Poisson's equation, or diffusion where there is a time axis; u = s where a mask holds."""
    x, y = PLANES[case]
    u = fd.Field("u", fd.Grid(**time, x=x, y=y))
    rule = lambda u, b: laplacian(u) + b[...]  # noqa: E731
    u[...] = fd.rate(rule) if time else fd.residual(rule)
    if time:
        u[0] = lambda x, y: jnp.sin(2 * jnp.pi * x) * jnp.cos(3 * y)
    if not x.periodic:
        u[dict(x=[0, -1])] = Dirichlet(0.5)
    u[dict(y=[0, -1])] = Neumann(0.0) if "slopes" in case else Dirichlet(0.5)
    if region is not None:
        u[region] = lambda s: s
    return u


def mask(x: Any, y: Any, x0: Any) -> Any:
    """Two pieces of the plane, neither a box nor at its edge alone."""
    return (x > x0) | ((x - 0.25) ** 2 + (y - 0.4) ** 2 < 0.03)


def operator(case: str) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Δu as a matrix, of all points with mirrors for slopes; where u is given; and the coordinates."""
    axes = PLANES[case]
    matrices = []
    for axis, slopes in zip(axes, (False, "slopes" in case), strict=True):
        n = axis.num
        one = (np.eye(n, k=1) + np.eye(n, k=-1) - 2 * np.eye(n)) / axis.step**2
        if axis.periodic:
            one[0, -1] = one[-1, 0] = 1 / axis.step**2
        if slopes:
            one[0, 1] = one[-1, -2] = 2 / axis.step**2
        matrices.append(one)
    shape = tuple(axis.num for axis in axes)
    known = np.zeros(shape, bool)
    if not axes[0].periodic:
        known[[0, -1]] = True
    if "slopes" not in case:
        known[:, [0, -1]] = True
    matrix = np.kron(matrices[0], np.eye(shape[1])) + np.kron(np.eye(shape[0]), matrices[1])
    return matrix, known, np.meshgrid(*(axis.points for axis in axes), indexing="ij")


def solved(case: str, x0: float, s: float) -> np.ndarray:
    """The solution by dense elimination in NumPy."""
    matrix, known, places = operator(case)
    inside = np.asarray(mask(places[0], places[1], x0))
    value = np.where(inside, s, 0.5)
    given = (known | inside).ravel()
    right = np.where(given, value.ravel(), -SOURCE[: known.shape[0], : known.shape[1]].ravel())
    return np.linalg.solve(np.where(given[:, None], np.eye(given.size), matrix), right).reshape(known.shape)


@pytest.mark.parametrize("case", PLANES)
def test_points_under_a_predicate_leave_the_system(case: str) -> None:
    u = declare(case, fd.where(mask))
    b = SOURCE[: u.shape[0]]

    def found(x0: Any, s: Any) -> Any:
        return fd.solve(u, b=b, x0=x0, s=s)["u"]

    np.testing.assert_allclose(found(0.6, 1.5), solved(case, 0.6, 1.5), rtol=1e-9, atol=1e-11)
    compiled = jax.jit(found)
    for x0 in (0.3, 0.8, 2.0):
        np.testing.assert_allclose(compiled(x0, -0.7), solved(case, x0, -0.7), rtol=1e-9, atol=1e-11)
    weights = np.random.default_rng(5).normal(size=b.shape)
    slope = jax.jit(jax.grad(lambda s: jnp.sum(weights * found(0.6, s))))(1.5)
    wanted = np.sum(weights * (solved(case, 0.6, 2.5) - solved(case, 0.6, 1.5)))  # the solution is linear in s
    np.testing.assert_allclose(slope, wanted, rtol=1e-8)


def test_transforms_refuse_a_predicate_and_say_which() -> None:
    u = declare("between walls", fd.where(mask))
    with pytest.raises(
        fd.PlanningError, match=r"not served by Transform.*on u\[where.*holds where it is true at run t"
    ):
        fd.plan(u, b=SOURCE, x0=0.6, s=1.0, solver=fd.solvers.Transform())
    assert "refused Transform" in str(fd.plan(u, b=SOURCE, x0=0.6, s=1.0))


@pytest.mark.parametrize("solver", [fd.solvers.Direct(), fd.solvers.GMRES(), fd.solvers.Multigrid()], ids=repr)
def test_other_solvers_take_a_predicate(solver: Any) -> None:
    u = declare("a ring", fd.where(mask))
    found = fd.solve(u, b=SOURCE[:8], x0=0.6, s=1.5, solver=solver)["u"]
    np.testing.assert_allclose(found, solved("a ring", 0.6, 1.5), rtol=1e-7, atol=1e-8)


def test_a_predicate_on_a_line() -> None:
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=12)))
    u[...] = fd.residual(lambda u: laplacian(u))
    u[dict(x=[0, -1])] = Dirichlet(lambda x: x)
    u[fd.where(lambda x, x0: abs(x - x0) < 0.1)] = 2.0
    x = u.grid.x.points
    inside = np.abs(x - 0.5) < 0.1
    low, high = x[inside][[0, -1]]
    wanted = np.where(x < low, 2 * x / low, np.where(x > high, 1 + (1 - x) / (1 - high), 2.0))
    np.testing.assert_allclose(fd.solve(u, x0=0.5)["u"], wanted, atol=1e-12)


STEPPERS = {"backward Euler": BackwardEuler(), "SDIRK2": SDIRK2(), "BDF2": BDF2(), "Crank–Nicolson": CrankNicolson()}


@pytest.mark.parametrize("stepper", STEPPERS)
def test_implicit_steps_beside_a_predicate(stepper: str) -> None:
    """The same as beside a fixed region of the same points."""
    time = fd.Time(0.0, 0.05, num=6)
    b, options = SOURCE[:8], dict(stepper=STEPPERS[stepper], save=fd.final())
    fixed = declare("a ring and slopes", fd.where(lambda x, y: mask(x, y, 0.6)), t=time)
    masked = declare("a ring and slopes", fd.where(mask), t=time)

    def found(s: Any, x0: Any = 0.6) -> Any:
        return fd.solve(masked, b=b, s=s, x0=x0, **options)["u"][-1]

    def wanted(s: Any) -> Any:
        return fd.solve(fixed, b=b, s=s, **options)["u"][-1]

    np.testing.assert_allclose(found(1.5), wanted(1.5), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(jax.jit(found)(1.5), wanted(1.5), rtol=1e-9, atol=1e-11)
    slopes = [jax.grad(lambda s, f=f: jnp.sum(b * f(s)))(1.5) for f in (found, wanted)]
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-8)


def test_implicit_steps_beside_a_predicate_that_moves() -> None:
    """A backward Euler step is a solve with the mask of its new level."""
    time = fd.Time(0.0, 0.3, num=4)
    u = declare("between walls", fd.where(lambda x, y, t: mask(x, y, 0.9 - t)), t=time)
    found = np.asarray(fd.solve(u, b=SOURCE, s=1.5, stepper=BackwardEuler())["u"])
    matrix, known, places = operator("between walls")
    for n in (1, 2, 3):
        inside = np.asarray(mask(places[0], places[1], 0.9 - time.points[n]))
        given, value = (known | inside).ravel(), np.where(inside, 1.5, 0.5).ravel()
        step = np.eye(given.size) - time.step * matrix
        right = np.where(given, value, found[n - 1].ravel() + time.step * SOURCE.ravel())
        wanted = np.linalg.solve(np.where(given[:, None], np.eye(given.size), step), right)
        np.testing.assert_allclose(found[n].ravel(), wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", ["between walls", "a ring"])
def test_operators_know_the_points_under_a_predicate(case: str) -> None:
    """Matrices and modes of rates and of residuals are those of the points that are left."""
    matrix, known, places = operator(case)
    rest = ~(known | np.asarray(mask(places[0], places[1], 0.6))).ravel()
    wanted = matrix[np.ix_(rest, rest)]
    eigenvalues = np.sort(np.linalg.eigvalsh(wanted))[::-1][:3]
    options = dict(b=np.zeros(known.shape), x0=0.6, s=0.0)
    for u in (declare(case, fd.where(mask)), declare(case, fd.where(mask), t=fd.Time(0.0, 0.1, num=3))):
        np.testing.assert_allclose(fd.plan(u, **options).matrix().todense(), wanted, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(fd.modes(u, 3, **options).values, eigenvalues, rtol=1e-8)
