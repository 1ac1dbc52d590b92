"""What depends on what: never less than derivatives at many points show, and no more where all is plain."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fdsolve.adjoint import traces
from fdsolve.adjoint.traces._exact import first_pattern, state_pattern
from fdsolve.kernels import conv

N = 6
MATRIX = np.triu(np.random.default_rng(3).standard_normal((N, N)), 3)


def tridiagonal(u):
    low = jnp.full(N, -0.3).at[0].set(0.0)
    return lax.linalg.tridiagonal_solve(low, 2.0 + u**2, low[::-1], u[:, None])[:, 0]


def solved(u, k):
    return lax.custom_linear_solve(
        lambda v: (2 + k**2) * v, u, lambda matvec, b: b / lax.stop_gradient(2 + k**2), symmetric=True
    )


def counted(u):
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.roll(c[1], 1) * 0.5), (0, u))[1]


def swept(u, k):
    return lax.scan(lambda carry, x: (0.5 * carry + x, k[0] * carry + x), 0.0, u)[1]


@jax.custom_vjp
def doubled(u):
    return 2 * u


doubled.defvjp(lambda u: (2 * u, None), lambda _, c: (2 * c,))

STEPS = {
    "neighbours": lambda u, k: u + k[:N] * (jnp.roll(u, 1) - u),
    "where the state says": lambda u, k: jnp.where(u > 0.3, jnp.roll(u, 1) * k[0], -u),
    "cond": lambda u, k: lax.cond(u[0] > 0.5, lambda: u * k[1], lambda: u[::-1] - k[2]),
    "switch on a known number": lambda u, k: lax.switch(1, [lambda: u[::-1], lambda: u * k[0], lambda: u * 0]),
    "sorted": lambda u, k: jnp.sort(u) + k[0],
    "largest": lambda u, k: u + k[0] * jnp.max(u[:2]),
    "taken where the state says": lambda u, k: u[jnp.argsort(u)] + k[jnp.argmax(u)],
    "put where the state says": lambda u, k: jnp.zeros(N).at[jnp.argsort(u)].add(k[:N] * u),
    "sliced where the state says": lambda u, k: u + jnp.sum(lax.dynamic_slice(k, ((u[0] > 0.4).astype(int),), (2,))),
    "a matrix with zeros": lambda u, k: MATRIX @ u + k[0],
    "a matrix of parameters": lambda u, k: u + k[:9].reshape(3, 3).sum(0).repeat(2) * u,
    "a convolution": lambda u, k: conv(u[None, None], k[None, None, :3], (1,), [(1, 1)])[0, 0],
    "cumulated": lambda u, k: jnp.cumsum(u) * k[0],
    "cumulated back": lambda u, k: lax.cumsum(u, reverse=True) + k[:N],
    "tridiagonal": lambda u, k: tridiagonal(u) + k[0],
    "solved by points": lambda u, k: solved(u, k[:N]),
    "a loop of unknown turns": lambda u, k: counted(u) + k[0],
    "a sweep": swept,
    "a derivative of its own": lambda u, k: doubled(u) * k[:N],
    "checkpointed": lambda u, k: jax.checkpoint(lambda v: jnp.sin(v) * k[0])(u),
    "rounded": lambda u, k: u - jnp.floor(u * 3) + jnp.sign(k[0]),
    "through complex numbers": lambda u, k: jnp.abs(lax.complex(u, jnp.roll(u, 1)) * k[0].astype(complex)),
    "padded and joined": lambda u, k: jnp.concatenate([k[:2], jnp.pad(u[1:3], (1, 1))]),
    "transformed": lambda u, k: jnp.fft.irfft(jnp.fft.rfft(u) * 0.5, N) + k[0],
}
PLAIN = ("neighbours", "switch on a known number", "a matrix with zeros", "cumulated", "cumulated back",
         "solved by points", "a derivative of its own", "checkpointed", "padded and joined")  # fmt: skip


def made(step):
    return traces.make_update(lambda p, u, x, c: step(u, p["k"]), dict(k=jnp.full(9, 0.7)), jnp.linspace(0.2, 0.9, N))


@partial(jax.jit, static_argnums=0)
def jacobians(step, u, k):
    by = jax.jacrev if step is STEPS["a derivative of its own"] else jax.jacfwd
    return by(step, (0, 1))(u, k)


@pytest.mark.parametrize("name", STEPS)
def test_patterns_hold_wherever_the_derivative_does_not_vanish(name):
    step, draw = STEPS[name], np.random.default_rng(1)
    update = made(step)
    found = state_pattern(update), first_pattern(update, np.arange(9))
    shown = np.zeros((N, N), bool), np.zeros((N, 9), bool)
    for _ in range(300):
        u, k = draw.uniform(-1, 1, N), draw.uniform(-1, 1, 9)
        for one, values in zip(shown, jacobians(step, u, k), strict=True):
            one |= np.abs(np.asarray(values)) > 1e-13
    for mine, there in zip(found, shown, strict=True):
        assert not (there & ~mine).any()
        assert name not in PLAIN or (there == mine).all()


def gradient(method, step, parameters, u):
    update = traces.make_update(step, parameters, u)
    follower = traces.Follower(traces.follow(update, method), lambda u, x: jnp.sum(u**2))
    state, aside = update.packing.pack(u)
    held = follower.start(update.join(parameters), state, aside, (None, None), None)
    for _ in range(2):
        held = follower.advance(held, (None, None), None)[0]
    return held["gradient"]


@pytest.mark.parametrize("layout", [("NCH", "OIH", "NCH"), ("HNC", "IHO", "CNH")])
def test_the_array_under_a_convolution_may_be_the_parameter(layout):
    draw = np.random.default_rng(0).standard_normal
    array, kernel, u = (jnp.asarray(draw(shape)) for shape in ((2, 2, 7), (3, 2, 3), (2, 3, 7)))
    order = lambda name, spec: [name.index(letter) for letter in spec]  # noqa: E731
    array = jnp.transpose(array, order("NCH", layout[0]))
    kernel = jnp.transpose(kernel, order("OIH", layout[1]))
    u = jnp.transpose(u, order("NCH", layout[2]))

    def step(p, u, x, c):
        return 0.5 * u + conv(p["f"], kernel, (1,), [(1, 1)], dimension_numbers=layout)

    exact, found = (gradient(one, step, dict(f=array), u) for one in (traces.Exact(), traces.DRTRL()))
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)


def test_a_choice_by_a_parameter_alone():
    step = lambda p, u, x, c: 0.5 * u + jnp.where(p["k"] > 0.3, 0.2 * u, 0.0) + p["k"]  # noqa: E731
    u = jnp.linspace(0.2, 0.9, N)
    exact, found = (gradient(one, step, dict(k=0.4), u) for one in (traces.Exact(), traces.DRTRL()))
    np.testing.assert_allclose(found, exact, rtol=1e-12)


@jax.custom_jvp
def rounded(u):
    """Flat, with the slope of what it rounds."""
    return jnp.round(u)


@rounded.defjvp
def _slope(values, tangents):
    return rounded(*values), tangents[0]


def test_a_derivative_of_ones_own_counts_not_the_function():
    def step(p, u, x, c):
        return 0.3 * rounded(jnp.roll(u, 1)) + p["k"] * u

    u, k = jnp.linspace(0.2, 3.9, N), jnp.linspace(0.3, 0.7, N)
    exact = gradient(traces.Exact(), step, dict(k=k), u)
    blind = gradient(traces.Exact(), lambda p, u, x, c: 0.3 * jnp.round(jnp.roll(u, 1)) + p["k"] * u, dict(k=k), u)
    assert np.max(np.abs(jax.tree.leaves(exact)[0] - jax.tree.leaves(blind)[0])) > 1e-2
    np.testing.assert_allclose(
        jax.tree.leaves(gradient(traces.SnAp(N), step, dict(k=k), u))[0], jax.tree.leaves(exact)[0], rtol=1e-12
    )
