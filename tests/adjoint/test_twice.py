"""Derivatives backwards of derivatives backwards: those of forward over reverse."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

from .test_reversible import WALL, at, make_loss, string

POINT = dict(a=jnp.asarray(0.7), k=jnp.linspace(0.2, 0.4, 8))
ALONG = dict(a=jnp.asarray(0.3), k=jnp.cos(jnp.arange(8.0)))


def loss(adjoint: Any, save: Any = None) -> Any:
    """A scalar of an initial amplitude and a field of coefficients, by a rule that is not linear."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=13), x=fd.Axis(0.0, 8.0, num=8, periodic=True)))
    u[...] = lambda u, k: u["t-1"] + k[...] * jnp.sin(u["t-1", "x+1"] - u["t-1", "x-1"])
    u[0] = lambda x, a: a * jnp.sin(2 * np.pi * x / 8)

    def of(parameters: dict[str, Any]) -> Any:
        solution = fd.solve(u, adjoint=adjoint, save=save or fd.final(), kernel="slices", **parameters)
        return jnp.sum(jnp.sin(3 * solution["u"]))

    return of


def inner(one: dict[str, Any], other: dict[str, Any]) -> Any:
    return sum(jnp.vdot(one[key], other[key]) for key in one)


def curved(of: Any, along: dict[str, Any]) -> Any:
    """p ↦ the Hessian's product with a direction, backwards twice."""
    return jax.grad(lambda p: inner(jax.grad(of)(p), along))


CASES = {
    "some levels": (fd.adjoint.Checkpointed(snapshots=2), fd.every(6)),
    "states outside": (fd.adjoint.Checkpointed(snapshots=3, storage=fd.adjoint.Host()), None),
}


@pytest.mark.parametrize("name", CASES)
def test_checkpoints(name: str) -> None:
    adjoint, save = CASES[name]
    twice, once = curved(loss(adjoint, save), ALONG), jax.grad(loss(fd.adjoint.Full(), save))
    found, expected = jax.jit(lambda p: (twice(p), jax.jvp(once, (p,), (ALONG,))[1]))(POINT)
    for key in POINT:
        assert float(jnp.abs(expected[key]).max()) > 1e-2
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-9, atol=1e-10)


def test_a_whole_hessian_backwards() -> None:
    """jacrev of jacrev, so under vmap too."""
    rows = jnp.stack([jnp.ones(8), jnp.linspace(0.0, 1.0, 8)])

    def of(adjoint: Any) -> Any:
        return lambda q: loss(adjoint)(dict(a=POINT["a"], k=POINT["k"] + 0.1 * q @ rows))

    q, few = jnp.asarray([0.2, -0.3]), of(fd.adjoint.Checkpointed(snapshots=3))
    found, expected = jax.jit(lambda q: (jax.jacrev(jax.jacrev(few))(q), jax.hessian(of(fd.adjoint.Full()))(q)))(q)
    assert np.abs(expected).min() > 1e-4
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_no_nan_from_points_that_a_mask_leaves_out() -> None:
    """Derivatives of any order, where a rule is not finite outside of its own region."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=8, periodic=True)))
    u[...] = lambda u, k: k[...] * u["t-1"]
    u[fd.where(lambda x, a: x < a)] = lambda u, k, x, a: (
        jnp.sin(u["t-1"]) - k[...] * jnp.sqrt(a - x) * (u["t-1", "x+1"] ** 2 - jnp.cos(u["t-1", "x-1"]))
    )
    u[0] = lambda x: 1 + jnp.sin(6 * x)

    def of(parameters: dict[str, Any]) -> Any:
        return jnp.sum(jnp.sin(fd.solve(u, save=fd.final(), kernel="slices", **parameters)["u"]))

    found, expected = jax.jit(lambda p: (curved(of, ALONG)(p), jax.jvp(jax.grad(of), (p,), (ALONG,))[1]))(POINT)
    for key in POINT:
        assert float(jnp.abs(expected[key]).max()) > 1e-2
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-9, atol=1e-10)


def test_steps_taken_back() -> None:
    point = at((13,))
    along = dict(c=jnp.cos(jnp.arange(13.0)), a=jnp.asarray(0.4), s=jnp.asarray(-2.0))
    full, back = (
        make_loss(lambda: string(WALL, num=13, steps=12), one) for one in (fd.adjoint.Full(), fd.adjoint.Reversible())
    )
    found, expected = jax.jit(lambda p: (curved(back, along)(p), jax.jvp(jax.grad(full), (p,), (along,))[1]))(point)
    for key in point:
        assert float(jnp.abs(expected[key]).max()) > 1e-3
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-9, atol=1e-10)


def plane(save: Any, kernel: str, adjoint: Any) -> Any:
    """A scalar of a wave over a plane that is not linear, by its speeds and its start."""
    g = fd.Grid(t=fd.Time(0.0, 1.0, num=17), x=fd.Axis(0.0, 1.0, num=13), y=fd.Axis(0.0, 1.0, num=11))
    u = fd.Field("u", g)
    u[...] = lambda u, c: (
        2 * u["t-1"]
        - u["t-2"]
        + 0.2 * c[...] * (u["t-1", "x-1"] + u["t-1", "y+1"] - 2 * u["t-1"])
        - 0.1 * u["t-1"] ** 3
    )
    u[[0, 1]] = lambda x, y, a: a * jnp.sin(3 * x) * jnp.cos(5 * y)
    u[dict(x=0)], u[dict(x=-1)] = fd.boundary.Neumann(0.1), fd.boundary.Dirichlet(0.3)
    u[dict(y=[0, -1])] = 0.0

    def of(parameters: dict[str, Any]) -> Any:
        found = fd.solve(u, kernel=kernel, adjoint=adjoint, save=save, **parameters)["u"]
        return jnp.sum(jnp.sin(3 * found))

    return of


SAVES = dict(
    last=fd.final(), some=fd.every(5), all=fd.every(1), receivers=fd.receivers(dict(x=[0.31, 0.77], y=[0.42, 0.2]))
)
ADJOINTS = (None, fd.adjoint.Full(), fd.adjoint.Checkpointed(snapshots=3), fd.adjoint.Reversible())


@pytest.mark.parametrize("adjoint", ADJOINTS, ids=repr)
@pytest.mark.parametrize("save", SAVES)
def test_generated_code(save: str, adjoint: Any) -> None:
    """Products with the Hessian of runs in generated code, whatever they keep on their way."""
    random = np.random.default_rng(1)
    point = dict(a=jnp.asarray(0.7), c=jnp.asarray(1 + 0.1 * random.standard_normal((13, 11))))
    along = dict(a=jnp.asarray(0.3), c=jnp.asarray(random.standard_normal((13, 11))))
    native, slices = plane(SAVES[save], "native", adjoint), plane(SAVES[save], "slices", fd.adjoint.Full())
    forwards = jax.jit(lambda p: jax.jvp(jax.grad(native), (p,), (along,))[1])(point)
    backwards = jax.jit(curved(native, along))(point)
    expected = jax.jit(lambda p: jax.jvp(jax.grad(slices), (p,), (along,))[1])(point)
    for key in point:
        assert float(jnp.abs(expected[key]).max()) > 1e-2
        np.testing.assert_allclose(forwards[key], expected[key], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(backwards[key], expected[key], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("method", [fd.adjoint.traces.SnAp(6), fd.adjoint.traces.DRTRL("coupled")])
@pytest.mark.filterwarnings("ignore:These gradients are not exact")
def test_traces_keep_nothing_of_the_trace_in_which_they_were_found(method):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=5), x=fd.Axis(0.0, 1.0, num=16, periodic=True))

    def of(place: Any) -> Any:
        u = fd.Field("u", grid)
        u[...] = lambda u: 0.9 * u["t-1"]
        u[0] = 0.0
        u[fd.point(x=place, interpolation="sinc")] += 1.0
        found = fd.solve(u, save=fd.final(), adjoint=fd.adjoint.Online(method))["u"]
        return jnp.sum(jnp.sin(found) * jnp.arange(16.0))

    twice = jax.grad(jax.grad(of))
    np.testing.assert_allclose(jax.jit(twice)(0.43), twice(0.43), rtol=1e-10)
