"""Patterns of approximate traces hold for the whole run: within as many steps as they reach, gradients are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import fdsolve as fd
from fdsolve.kernels import _numbers

NUM, LAST = 9, 6
W = np.cos(np.arange(NUM))


def declared(rule, first=1, periodic=True):
    axis = fd.Axis(0.0, 8.0, num=NUM, periodic=periodic)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=LAST + 1), x=axis))
    u[...] = rule
    if not periodic:
        u[dict(x=[0, -1])] = 0.0
    u[:first] = lambda x, f: jnp.sin(x) + f
    return u


def late(rule):
    u = declared(lambda u: 0.9 * u["t-1"])
    u[4:] = rule
    return u


def flow(u, t, k, dt):
    speed = jnp.cos(4.0 * t)  # it turns round on the way
    return u["t-1"] - k * jnp.where(speed > 0, u["t-1"] - u["t-1", "x-1"], u["t-1"] - u["t-1", "x+1"]) * jnp.abs(speed)


PROBLEMS = {
    "two levels back": declared(lambda u, k: 0.5 * u["t-1"] + 0.3 * u["t-2"] + k * u["t-1", "x+1"], first=2),
    "a wave between walls": declared(
        lambda u, k: 2 * u["t-1"] - u["t-2"] + k * fd.schemes.laplacian(u, at="t-1"), first=2, periodic=False
    ),
    "a field of coefficients, two levels back": declared(
        lambda u, k: 0.5 * u["t-1"] + 0.3 * u["t-2"] + k[...] * u["t-1", "x+1"], first=2
    ),
    "from a later level on": late(lambda u, k: u["t-1"] + k * u["t-1", "x-1"] ** 2),
    "upwind of a flow that turns": declared(flow),
    "upwind of the field itself": declared(
        lambda u, k: u["t-1"] - k * jnp.where(u["t-1"] > 0, u["t-1", "x-1"], jnp.maximum(u["t-1", "x+1"], 0.1))
    ),
    "only for a while": declared(lambda u, t, k: u["t-1"] + jnp.where((t > 0.4) & (t < 0.8), k * u["t-1", "x+1"], 0.0)),
    "clipped": declared(
        lambda u, k: u["t-1"] + k * jnp.clip(u["t-1", "x+1"], -0.2, 0.2) + jax.nn.relu(u["t-1", "x-1"])
    ),
    "a source whose sign changes": declared(lambda u, t, k: 0.9 * u["t-1"] + jnp.where(t < 0.5, k, -k)),
    "limited by a parameter on both sides": declared(
        lambda u, k: 0.9 * u["t-1"] + jnp.clip(0.5 * (u["t-1", "x+1"] - u["t-1"]), -k, k)
    ),
    "a distance from a parameter": declared(
        lambda u, k: 0.9 * u["t-1"] + 0.1 * jnp.maximum(u["t-1", "x+1"] - k, k - u["t-1", "x+1"])
    ),
    "a rate that is next to nothing at one": declared(
        lambda u, k: u["t-1"] + 30 * k * jnp.exp(-800 / (250 + 50 * u["t-1"]) ** 1) * jnp.tanh(40 * u["t-1", "x+1"])
    ),
    "a median": declared(lambda u, k: jnp.median(jnp.stack([u["t-1", "x-1"], u["t-1"], u["t-1", "x+1"]])) + 0.3 * k),
    "a place that the field says": declared(
        lambda u, k: 0.5 * jnp.stack([u["t-1", "x-1"], u["t-1", "x+1"]])[(u["t-1"] > 0.5).astype(int)] + k
    ),
    "as a factor": declared(lambda u, t, k: u["t-1"] + k * u["t-1", "x+1"] * jnp.asarray(t > 0.5, float)),
}


def gradients(u, adjoint, parameters):
    def loss(p):
        return jnp.vdot(W, fd.solve(u, **p, save=fd.final(), adjoint=adjoint)["u"][-1])

    return jax.grad(loss)(parameters)


@pytest.mark.parametrize("name", PROBLEMS)
def test_exact_within_its_steps(name):
    values = np.linspace(0.1, 0.3, NUM)
    parameters = dict(k=jnp.asarray(values) if "field of" in name else 0.2, f=0.1)
    exact = gradients(PROBLEMS[name], fd.adjoint.Full(), parameters)
    found = gradients(PROBLEMS[name], fd.adjoint.Online("snap", n=3 * LAST), parameters)
    for one in parameters:
        assert np.any(np.asarray(exact[one]))
        np.testing.assert_allclose(found[one], exact[one], rtol=1e-11, atol=1e-13, err_msg=one)


def test_a_known_source_that_begins_late():
    amounts = np.concatenate([np.zeros(4), np.ones(3)])
    u = declared(lambda u, k, q: u["t-1"] + k * q[...])
    given = xr.DataArray(amounts, dict(t=np.linspace(0.0, 1.0, LAST + 1)), ("t",))

    def loss(k, adjoint):
        return jnp.vdot(W, fd.solve(u, k=k, q=given, f=0.1, save=fd.final(), adjoint=adjoint)["u"][-1])

    exact, found = (jax.grad(loss)(0.2, one) for one in (fd.adjoint.Full(), fd.adjoint.Online("snap", n=3 * LAST)))
    assert exact != 0
    np.testing.assert_allclose(found, exact, rtol=1e-12)


@pytest.mark.parametrize("method", ["snap", "d_rtrl"])
def test_a_series_in_time_beside_another_parameter(method):
    options = dict(n=3 * LAST) if method == "snap" else dict(rule="coupled")
    u = declared(lambda u, x, k, q: 0.9 * u["t-1"] + k * q * jnp.sin(x))
    q = jnp.linspace(1.0, 2.0, LAST + 1)

    def loss(p, adjoint):
        found = fd.solve(u, k=p[0], q=fd.along(p[1:], "t"), f=0.1, save=fd.final(), adjoint=adjoint)
        return jnp.sum(found["u"] ** 2)

    p = jnp.append(0.2, q)
    exact = jax.grad(loss)(p, fd.adjoint.Full())
    np.testing.assert_allclose(jax.grad(loss)(p, fd.adjoint.Online(method, **options)), exact, rtol=1e-12, atol=1e-13)


def diagonal_cases():
    front = declared(lambda u, x, t, k: 0.9 * u["t-1"] + jnp.where(x < 8 * t, k[...], 0.0))
    signs = declared(lambda u, x, t, k: 0.9 * u["t-1"] + jnp.where(x < 8 * t, k[...], -2 * k[...]))
    return dict(front=front, signs=signs)


@pytest.mark.parametrize("rule", ["diagonal", "coupled"])
@pytest.mark.parametrize("name", diagonal_cases())
def test_points_that_a_front_comes_to_later_are_followed(name, rule, recwarn):
    parameters = dict(k=jnp.linspace(0.1, 0.3, NUM), f=0.1)
    u = diagonal_cases()[name]
    exact, found = (
        gradients(u, adjoint, parameters)["k"]
        for adjoint in (fd.adjoint.Full(), fd.adjoint.Online("d_rtrl", rule=rule))
    )
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    assert not recwarn.list


@pytest.mark.parametrize("rule", ["diagonal", "coupled"])
def test_a_step_that_is_diagonal_for_a_while_is_not_called_exact(rule):
    u = declared(lambda u, t, k: 0.5 * u["t-1"] + jnp.where(t > 0.5, 0.3 * u["t-1", "x+1"], 0.0) + k[...])
    with pytest.warns(fd.errors.FdsolveWarning, match="not exact"):
        gradients(u, fd.adjoint.Online("d_rtrl", rule=rule), dict(k=jnp.linspace(0.1, 0.3, NUM), f=0.1))


@pytest.mark.filterwarnings("ignore:These gradients are not exact")
def test_complex_fields_keep_both_parts():
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=LAST + 1), x=fd.Axis(0.0, 8.0, num=NUM, periodic=True))
    u = fd.Field("u", grid, dtype=complex)
    u[...] = lambda u, x, k: 0.5 * u["t-1"] + 1j * k * jnp.exp(1j * x)
    u[0] = lambda x: jnp.exp(1j * x)

    def loss(k, adjoint):
        return jnp.sum(jnp.abs(fd.solve(u, k=k, save=fd.final(), adjoint=adjoint)["u"]) ** 2)

    exact = jax.grad(loss)(0.3, fd.adjoint.Full())
    for options in (dict(method="snap", n=9), dict(method="d_rtrl", otherwise="forward")):
        np.testing.assert_allclose(jax.grad(loss)(0.3, fd.adjoint.Online(**options)), exact, rtol=1e-12)
    with pytest.raises(fd.adjoint.traces.CannotFollow, match="several points"):
        jax.grad(loss)(0.3, fd.adjoint.Online("pp_prop", alpha_x=0.5, alpha_f=0.0))


def test_waves_in_a_pair_of_fields_are_refused_in_a_solve_too():
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis(0.0, 8.0, num=8, periodic=True))
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = lambda u, v: u["t-1"] + 0.4 * v["t"]
    v[...] = lambda u, v, c: v["t-1"] + 0.4 * c * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
    u[0], v[0] = (lambda x: jnp.sin(np.pi * x / 4)), 0.0

    def loss(c):
        found = fd.solve((u, v), c=c, save=fd.final(), adjoint=fd.adjoint.Online("d_rtrl", rule="coupled"))
        return jnp.sum(found["u"] ** 2)

    with (
        pytest.warns(fd.errors.FdsolveWarning, match="not exact"),
        pytest.raises(fd.errors.DeclarationError, match="is not for waves"),
    ):
        jax.grad(loss)(1.0)


@pytest.mark.parametrize("method", ["uoro", "d_rtrl", "pp_prop", "snap", "forward_gradient"])
@pytest.mark.filterwarnings("ignore:These gradients are not exact")
def test_fields_of_single_precision_beside_double(method):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=LAST + 1), x=fd.Axis(0.0, 8.0, num=NUM, periodic=True))
    u = fd.Field("u", grid, dtype=np.float32)
    u[...] = lambda u, k: 0.9 * u["t-1"] + 0.1 * k * u["t-1"]
    u[0] = lambda x: jnp.sin(x)

    def loss(k, adjoint):
        return jnp.sum(fd.solve(u, k=k, save=fd.final(), adjoint=adjoint)["u"] ** 2)

    found = jax.grad(loss)(0.3, fd.adjoint.Online(method))
    if method in ("snap", "forward_gradient"):
        np.testing.assert_allclose(found, jax.grad(loss)(0.3, fd.adjoint.Full()), rtol=1e-5)
    stream = fd.online(u, dict(k=0.3), loss=lambda state, data: jnp.sum(state["u"] ** 2), method=method)
    first, second = stream.step().gradient["k"], stream.step().gradient["k"]
    assert first.dtype == second.dtype and np.isfinite(second)


def test_parameters_are_followed_into_long_rules():
    """Their equations stand in one of the step's, which has a way back of its own."""

    def bent(u, k):
        v = u["t-1"]
        return 0.5 * v + 0.1 * (v / (1.0 + v**2) + jnp.sqrt(1.0 + v**2) - jnp.sin(v * v)) + k[...]

    u, parameters = declared(bent), dict(k=jnp.linspace(0.1, 0.3, NUM), f=0.1)
    exact, found = (
        gradients(u, adjoint, parameters)["k"]
        for adjoint in (fd.adjoint.Full(), fd.adjoint.Online("d_rtrl", rule="diagonal"))
    )
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_numbers_are_followed_into_rules_at_many_points(monkeypatch):
    monkeypatch.setattr(_numbers, "LARGE", 1)
    u = declared(lambda u, k: 0.5 * u["t-1"] + k * u["t-1", "x+1"])
    with pytest.warns(fd.errors.FdsolveWarning, match="not exact"):
        gradients(u, fd.adjoint.Online("d_rtrl", rule="diagonal"), dict(k=0.3, f=0.1))
