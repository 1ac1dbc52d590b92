"""Generated code under vmap: one call for all shots, whatever they have in common, against shots one by one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels.native import _launch, _nested, _slabs

NUM = 48, 21
SHOTS = 3


def wave(levels: int, nonlinear: float = 0.0) -> fd.Field:
    """Two levels kept, a coefficient at every point, a source between the points, walls of two kinds."""
    axes = {name: fd.Axis(0.0, 1.0, num=num) for name, num in zip("xy", NUM, strict=True)}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=levels), **axes))
    near = ("x-1", "x+1", "y-1", "y+1")
    u[...] = lambda u, c: (
        2 * u["t-1"]
        - u["t-2"]
        + 0.2 * c[...] * (sum(u["t-1", one] for one in near) - 4 * u["t-1"])
        - nonlinear * u["t-1"] ** 3
    )
    u[[0, 1]] = lambda x, y: jnp.sin(3 * x) * jnp.cos(5 * y)
    u[dict(x=0)], u[dict(x=-1)] = fd.boundary.Neumann(0.1), fd.boundary.Dirichlet(0.3)
    u[dict(y=[0, -1])] = 0.0
    u[fd.point(x=0.31, y=0.47)] += lambda t, q: q * jnp.sin(5 * t)
    return u


RANDOM = np.random.default_rng(5)
SPEEDS = jnp.asarray(1 + 0.1 * RANDOM.standard_normal((SHOTS, *NUM)))
STRENGTHS = jnp.asarray([0.5, 0.7, -0.2])
SAVES = dict(
    last=fd.final(), some=fd.every(11), all=fd.every(1), receivers=fd.receivers(dict(x=[0.2, 0.93], y=[0.6, 0.11]))
)
OWN = dict(speeds=(0, None), strengths=(None, 0), both=(0, 0))


def gradients(save: Any, adjoint: Any, own: str, together: bool, nonlinear: float = 0.1) -> Any:
    """Values and gradients by speeds and strengths of all shots' sum, as one batch or one after the other."""
    u, axes = wave(45, nonlinear), OWN[own]

    def kept(c: Any, q: Any) -> Any:
        return fd.solve(u, c=c, q=q, save=save, kernel="native", adjoint=adjoint)["u"]

    def loss(c: Any, q: Any) -> Any:
        if together:
            found = jax.vmap(kept, axes)(c, q)
        else:
            each = [[x if a is None else x[k] for x, a in zip((c, q), axes, strict=True)] for k in range(SHOTS)]
            found = jnp.stack([kept(*one) for one in each])
        return jnp.sum(jnp.sin(3 * found)), found

    given = [x[0] if a is None else x for x, a in zip((SPEEDS, STRENGTHS), axes, strict=True)]
    return jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(*given)


def agree(found: Any, expected: Any) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert float(jnp.abs(b).max()) > 1e-3
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("adjoint", [None, fd.adjoint.Full(), fd.adjoint.Checkpointed(levels=2)], ids=repr)
@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("save", SAVES)
def test_together_as_one_by_one(save: str, own: str, adjoint: Any) -> None:
    agree(*(gradients(SAVES[save], adjoint, own, together) for together in (True, False)))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_teams_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer threads than shots, and more: the rest help within a shot."""
    expected = gradients(SAVES["receivers"], None, "strengths", together=False)
    monkeypatch.setattr(_launch, "num_threads", lambda: threads)
    agree(gradients(SAVES["receivers"], None, "strengths", together=True), expected)


@pytest.mark.parametrize("own", OWN)
def test_blocks_that_are_gone_back_through_by_slabs(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, pull_slabs = [], _nested.pull_slabs

    def counted(*given: Any) -> Any:
        asked.append(given)
        return pull_slabs(*given)

    monkeypatch.setattr(_nested, "pull_slabs", counted)
    monkeypatch.setattr(_slabs, "stays_in_cache", lambda call: False)
    adjoint = fd.adjoint.Checkpointed(levels=2)
    agree(*(gradients(SAVES["last"], adjoint, own, together) for together in (True, False)))
    assert asked


def test_one_call_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a call for each shot in a loop; but where they do not start at the same level, there is one for each."""
    sizes, call = [], _launch._call

    def counted(code: Any, size: Any, *given: Any) -> Any:
        sizes.append(size)
        return call(code, size, *given)

    monkeypatch.setattr(_launch, "_call", counted)
    jax.clear_caches()
    gradients(SAVES["receivers"], None, "both", together=True)
    assert SHOTS in sizes
    monkeypatch.setattr(_launch, "MOST_ENTRIES", 10)
    jax.clear_caches()
    sizes.clear()
    found = gradients(SAVES["last"], None, "both", together=True)
    assert SHOTS not in sizes
    agree(found, gradients(SAVES["last"], None, "both", together=False))


def test_shots_of_shots() -> None:
    u, places = wave(20, 0.1), SAVES["receivers"]

    def kept(c: Any, q: Any) -> Any:
        return fd.solve(u, c=c, q=q, save=places, kernel="native")["u"]

    def loss(c: Any, q: Any) -> Any:
        return jnp.sum(jax.vmap(jax.vmap(kept, (None, 0)), (0, None))(c, q) ** 3)

    def one_by_one(c: Any, q: Any) -> Any:
        return sum(jnp.sum(kept(c[i], q[j]) ** 3) for i in range(2) for j in range(SHOTS))

    found, expected = (jax.jit(jax.value_and_grad(f, (0, 1)))(SPEEDS[:2], STRENGTHS) for f in (loss, one_by_one))
    agree(found, expected)
