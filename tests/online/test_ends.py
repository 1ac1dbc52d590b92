"""Traces where the state ends: what lies beyond an end is made of the state, and is a part of it for every method."""

import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

U0, NU, N = np.array([1, 2, 0, -1, 3, 0.5, -2, 1]), 0.2, 8
ENDS = ["ring", "mirror", "zero", "mixed"]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fd.FdsolveWarning)
        yield


def heat(ends: str, steps: int) -> fd.Field:
    """u + ν (u[-1] − 2 u + u[+1]), with walls at faces of cells."""
    ring = ends == "ring"
    axis = fd.Axis(0.0, 8.0, num=N, periodic=ring, cells=not ring)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, float(steps), num=steps + 1), x=axis))
    u[...] = lambda u, nu: u["t-1"] + nu * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
    if ends == "mirror":
        u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    if ends in ("zero", "mixed"):
        u[dict(x=0)] = fd.boundary.Dirichlet(0.0)
        u[dict(x=-1)] = fd.boundary.Dirichlet(0.0) if ends == "zero" else fd.boundary.Neumann(0.0)
    u[0] = U0
    return u


def second_difference(ends: str) -> np.ndarray:
    """The same stencil as a matrix of the cells alone."""
    found = np.zeros((N, N))
    for i in range(N):
        found[i, i] -= 2
        for j in (i - 1, i + 1):
            if 0 <= j < N or ends == "ring":
                found[i, j % N] += 1
            else:
                found[i, i] += 1 if ends == "mirror" or (ends == "mixed" and j == N) else -1
    return found


def by_hand(ends: str, steps: int, window: int, method: dict[str, Any]) -> float:
    """d(½ ‖u‖²)/dν at the end: reversal within the last window, traces before it."""
    stencil = second_difference(ends)
    matrix = np.eye(N) + NU * stencil
    levels = [U0]
    for _ in range(steps):
        levels.append(matrix @ levels[-1])
    slope = np.ones(N) if method.get("rule", "diagonal") == "diagonal" else np.diag(matrix)
    last = steps if window == 1 else (steps - 1) // window * window
    # Traces up to the last window.
    alpha = method.get("alpha_x", 0.0)
    trace, acting = np.zeros(N), np.zeros(N)
    for level in levels[:last]:
        if method["method"] == "d_rtrl":
            trace = slope * trace + stencil @ level
        else:
            trace, acting = alpha * trace + stencil @ level, alpha * slope * acting + (1 - alpha)
    if method["method"] == "pp_prop" and last:
        trace = trace * acting / (1 - alpha**last)
    # Reversal within it.
    across, total = levels[-1], 0.0
    for level in reversed(levels[last:-1]):
        total, across = total + across @ stencil @ level, matrix.T @ across
    return float(total + across @ trace)


METHODS = [
    dict(method="d_rtrl", rule="diagonal"),
    dict(method="d_rtrl", rule="coupled"),
    dict(method="pp_prop", alpha_x=0.5, alpha_f=0.5, rule="coupled"),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda one: "-".join(map(str, one.values())))
@pytest.mark.parametrize("ends", ENDS)
def test_ends_are_parts_of_the_state(ends: str, method: dict[str, Any]) -> None:
    """Where a ring is cut, and that walls have points beyond them, is seen by no method and no window."""
    steps = 5
    for window in (1, 3):
        u, wanted = heat(ends, steps), by_hand(ends, steps, window, method)
        stream = fd.online(
            u, dict(nu=NU), loss=lambda state, last: last * 0.5 * jnp.sum(state["u"] ** 2), window=window, **method
        )
        for step in range(1, steps + 1):
            found = stream.step(float(step == steps))
        np.testing.assert_allclose(found.gradient["nu"], wanted, rtol=1e-12)
    adjoint = fd.adjoint.Online(window=3, **method)
    loss = lambda nu: 0.5 * jnp.sum(fd.solve(u, nu=nu, adjoint=adjoint, save=fd.final())["u"] ** 2)  # noqa: E731
    np.testing.assert_allclose(jax.grad(loss)(NU), wanted, rtol=1e-12)


@pytest.mark.parametrize("rule", ["diagonal", "coupled"])
def test_what_a_rule_stores_is_a_part_of_the_state_it_is_made_of(rule: str) -> None:
    """Stored views (fluxes) are carried from step to step, and make no difference."""
    for window in (1, 3):
        adjoint = fd.adjoint.Online("d_rtrl", rule=rule, window=window)
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 5.0, num=6), x=fd.Axis(0.0, 8.0, num=N, periodic=True)))
        u[...] = fd.rate(lambda u, nu: nu * fd.stored(fd.schemes.laplacian(u)))
        u[0] = U0

        def loss(nu: Any, u: Any = u, adjoint: Any = adjoint) -> Any:
            options: Any = dict(stepper=fd.schemes.Euler(), save=fd.final(), adjoint=adjoint)
            return 0.5 * jnp.sum(fd.solve(u, nu=nu, **options)["u"] ** 2)

        wanted = by_hand("ring", 5, window, dict(method="d_rtrl", rule=rule))
        np.testing.assert_allclose(jax.grad(loss)(NU), wanted, rtol=1e-12)


def test_where_a_ring_is_cut_is_not_seen() -> None:
    """The same ring begun at another point has the same gradient; that of all steps in one window is exact."""
    found = []
    for turn in (0, 3, 7):
        u = heat("ring", 5)
        u[0] = np.roll(U0, turn)
        stream = fd.online(u, dict(nu=NU), loss=lambda state, data: jnp.sum(state["u"] ** 3), window=2, method="d_rtrl")
        for _ in range(5):
            last = stream.step(0.0)
        found.append(float(last.gradient["nu"]))
    np.testing.assert_allclose(found, found[0], rtol=1e-12)


@pytest.mark.parametrize("window", [1, 3])
def test_exact_methods_beside_others_stay_exact(window: int) -> None:
    """A value at a wall, which lies beyond the end alone, and a coefficient there, followed exactly within windows in
    which another parameter is not."""
    axis = fd.Axis(0.0, 8.0, num=N, cells=True)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 6.0, num=7), x=axis))
    u[...] = lambda u, nu, q: (1 - q) * u["t-1"] + nu * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda wall: wall)
    u[dict(x=-1)] = fd.boundary.Robin(1.0, lambda beta: beta, 0.3)
    u[0] = U0
    at = dict(nu=NU, q=0.1, wall=0.7, beta=0.4)

    def gradient(adjoint: Any) -> Any:
        return jax.grad(lambda p: jnp.sum(fd.solve(u, **p, adjoint=adjoint, save=fd.final())["u"] ** 2))(at)

    wanted = gradient(fd.adjoint.Full())
    rough = dict(nu=fd.adjoint.traces.DRTRL("coupled"), q="forward", wall="forward", beta="forward")
    found = gradient(fd.adjoint.Online(rough, window=window))
    for name in ("q", "wall", "beta"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-11, err_msg=name)
    assert abs(found["nu"] - wanted["nu"]) > 1e-3 * abs(wanted["nu"])
