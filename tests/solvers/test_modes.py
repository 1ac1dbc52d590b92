"""Modes and growth rates against what is known in closed form; their derivatives, and messages."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import fdsolve as fd
from fdsolve.schemes import laplacian
from fdsolve.steady import _eigen

BESSEL = np.array([2.404825558, 3.831705970, 3.831705970, 5.135622302])


def line() -> fd.Field:
    """c u'' with a value at one end and a slope at the other."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=11)))
    u[...] = fd.residual(lambda u, c: c * laplacian(u) + 3.0)
    u[dict(x=0)] = 2.0
    u[dict(x=-1)] = fd.boundary.Neumann(1.0)
    return u


def line_values(step: float, count: int) -> np.ndarray:
    """−(2/h sin(kh/2))², k = (n − ½)π."""
    return -4 / step**2 * np.sin((np.arange(1, count + 1) - 0.5) * np.pi * step / 2) ** 2


@pytest.fixture
def only_large() -> Iterator[None]:
    """Even small systems are solved as large ones."""
    small, _eigen.SMALL = _eigen.SMALL, 0
    yield
    _eigen.SMALL = small


def test_a_line_with_mixed_ends() -> None:
    found = fd.modes(line(), 4, c=1.0)
    np.testing.assert_allclose(found.values, line_values(0.1, 4), rtol=1e-12)
    x = np.linspace(0.0, 1.0, 11)
    for k in range(4):
        shape = np.sin((k + 0.5) * np.pi * x)
        top = shape[np.argmax(np.abs(np.round(shape, 12)))]
        np.testing.assert_allclose(found["u"][k], shape / top, atol=1e-11)  # zero at the wall: without the constant
    assert float(found.residuals.max()) < 1e-9 and "Modes(-2.46" in repr(found)
    with pytest.raises(fd.DeclarationError, match="no field `v`"):
        found["v"]


@pytest.mark.parametrize(("sigma", "wanted"), [("largest", [9, 8]), ("growing", [0, 1]), (-100.0, [2, 1])])
def test_which_ones(sigma: object, wanted: list[int], only_large: None) -> None:
    found = fd.modes(line(), 2, c=2.0, sigma=sigma)
    np.testing.assert_allclose(found.values, 2 * line_values(0.1, 10)[wanted], rtol=1e-10)


def test_weights_scale_the_eigenvalues() -> None:
    w = jnp.linspace(1.0, 2.0, 11)
    found = fd.modes(line(), 10, c=1.0, weight=w)
    matrix, unknowns = fd.plan(line(), c=1.0).matrix().toarray(), fd.plan(line(), c=1.0).unknowns()
    exact = np.linalg.eigvals(matrix / np.asarray(w)[unknowns.indices[:, 0]][:, None])
    np.testing.assert_allclose(np.sort(found.values), np.sort(exact.real), rtol=1e-10)
    labelled = xr.DataArray(np.asarray(w), dims="x")
    np.testing.assert_allclose(fd.modes(line(), 1, c=1.0, weight=dict(u=labelled)).values, found.values[:1])


def test_a_square_membrane(only_large: None) -> None:
    step = 1 / 24
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=25), y=fd.Axis(0.0, 1.0, num=25)))
    u[...] = fd.residual(lambda u: laplacian(u))
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    found = fd.modes(u, 4)
    one = -4 / step**2 * np.sin(np.arange(1, 4) * np.pi * step / 2) ** 2
    exact = np.sort((one[:, None] + one[None, :]).ravel())[::-1][:4]
    np.testing.assert_allclose(found.values, exact, rtol=1e-10)
    np.testing.assert_allclose(found.values[0], -2 * np.pi**2, rtol=2e-3)


def test_a_disc_cut_from_a_square() -> None:
    """√−λ are the zeros of Bessel functions; the stair at the edge leaves an error of first order."""
    errors = []
    for num in (25, 49):
        axes = [fd.Axis(-1.05, 1.05, num=num) for _ in "xy"]
        u = fd.Field("u", fd.Grid(x=axes[0], y=axes[1]))
        u[...] = fd.residual(lambda u: laplacian(u))
        u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
        u[fd.where(lambda x, y: x**2 + y**2 >= 1.0)] = fd.boundary.Dirichlet(0.0)
        found = fd.modes(u, 4)
        errors.append(np.abs(np.sqrt(-np.asarray(found.values)) / BESSEL - 1).max())
    assert errors[1] < 0.025 and errors[1] < 0.75 * errors[0]
    assert float(jnp.abs(found["u"][:, 0, 0]).max()) == 0.0


def brusselator(num: int = 12) -> tuple[fd.Field, fd.Field]:
    """A reaction of two substances on a ring: a' = Δa + 1 − (b + 1) a + a² c, c' = D Δc + b a − a² c."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 6.0, num=num, periodic=True))
    a, c = fd.Field("a", grid), fd.Field("c", grid)
    a[...] = fd.rate(lambda a, c, b: laplacian(a) + 1 - (b + 1) * a + a * a * c)
    c[...] = fd.rate(lambda a, c, b, D: D * laplacian(c) + b * a - a * a * c)
    a[0], c[0] = 1.0, 1.5
    return a, c


def growth_rates(num: int, b: float, D: float) -> np.ndarray:
    """Of the state a = 1, c = b, wave by wave."""
    step = 6.0 / num
    waves = -4 / step**2 * np.sin(np.pi * np.arange(num) / num) ** 2
    return np.concatenate([np.linalg.eigvals([[w + b - 1, 1.0], [-b, D * w - 1]]) for w in waves])


@pytest.mark.parametrize(("b", "D"), [(1.6, 16.0), (2.5, 1.0)])
def test_growth_rates_of_a_reaction(b: float, D: float) -> None:
    exact = growth_rates(12, b, D)
    at = dict(a=jnp.ones(12), c=jnp.full(12, b))
    found = fd.stability(brusselator(), at, 6, b=b, D=D)
    order = np.sort(exact.real)[::-1]
    np.testing.assert_allclose(np.real(found.values), order[:6], atol=1e-10)
    np.testing.assert_allclose(float(found.growth), order[0], atol=1e-10)
    assert found.stable == (order[0] <= 0)
    gaps = np.abs(np.asarray(found.values)[:, None] - exact[None, :]).min(axis=1)
    assert gaps.max() < 1e-8  # complex pairs too
    assert float(found.residuals.max()) < 1e-9


def test_growth_rates_of_large_systems(only_large: None) -> None:
    at = dict(a=jnp.ones(12), c=jnp.full(12, 2.5))
    found = fd.stability(brusselator(), at, 2, b=2.5, D=1.0)
    np.testing.assert_allclose(np.real(found.values), np.sort(growth_rates(12, 2.5, 1.0).real)[-2:], atol=1e-8)


def test_a_steady_state_that_was_solved_for() -> None:
    """Bratu's lower branch is stable, and the slowest mode comes to rest at the fold."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=17)))
    u[...] = fd.residual(lambda u, strength: laplacian(u) + strength * jnp.exp(u[...]))
    u[dict(x=[0, -1])] = 0.0

    def slowest(strength: jax.Array) -> jax.Array:
        return fd.stability(u, fd.solve(u, strength=strength), 1, strength=strength).growth

    near, far = float(slowest(jnp.asarray(3.4))), float(slowest(jnp.asarray(1.0)))
    assert far < near < 0 and near > -3.0
    strength, small = jnp.asarray(2.0), 1e-4
    slope = (slowest(strength + small) - slowest(strength - small)) / (2 * small)
    np.testing.assert_allclose(jax.grad(slowest)(strength), slope, rtol=1e-5)  # through the state, too


def test_derivatives_of_eigenvalues(only_large: None) -> None:
    def second(c: jax.Array) -> jax.Array:
        return fd.modes(line(), 2, c=c, symmetric=True).values[1]

    exact, c = line_values(0.1, 2)[1], jnp.asarray(2.0)
    np.testing.assert_allclose(jax.grad(second)(c), exact, rtol=1e-9)
    np.testing.assert_allclose(jax.jit(jax.grad(second))(c), exact, rtol=1e-9)

    def growth(b: jax.Array) -> jax.Array:  # a complex pair: neither vector is the other's conjugate
        at = dict(a=jnp.ones(12), c=jnp.full(12, b))  # the steady state moves with b
        return fd.stability(brusselator(), at, 1, b=b, D=1.0).growth

    np.testing.assert_allclose(jax.grad(growth)(jnp.asarray(2.6)), 0.5, rtol=1e-6)


def test_what_has_no_derivative_is_told() -> None:
    """Modes, and second derivatives of eigenvalues, which want those of modes, were zero in silence."""

    def first(c: jax.Array) -> jax.Array:
        return fd.modes(line(), 1, c=c, symmetric=True).values[0] ** 2

    def shape(c: jax.Array) -> jax.Array:
        return jnp.sum(fd.modes(line(), 1, c=c)["u"] ** 2)

    c = jnp.asarray(2.0)
    np.testing.assert_allclose(jax.grad(jax.jit(first))(c), 2 * c * line_values(0.1, 1)[0] ** 2, rtol=1e-9)

    def again(c: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda s, _: (s + 0.01 * first(s), None), c, None, length=2)[0]

    for of in (first, jax.jit(first), again):
        for second in (jax.hessian(of), jax.grad(jax.grad(of)), lambda c, of=of: jax.jvp(jax.grad(of), (c,), (c,))):
            with pytest.raises(fd.DeclarationError, match="eigenvalues have first derivatives alone"):
                second(c)
    with pytest.raises(fd.DeclarationError, match="modes have no derivatives, only their eigenvalues have"):
        jax.grad(shape)(c)
    assert jax.grad(lambda c: shape(jax.lax.stop_gradient(c)) * c)(c) == shape(c)


def test_as_a_dataset() -> None:
    found = fd.modes(line(), 2, c=1.0).to_xarray()
    assert found["u"].dims == ("mode", "x") and found["eigenvalue"].dims == ("mode",)
    np.testing.assert_allclose(found["x"], np.linspace(0.0, 1.0, 11))
    with pytest.raises(fd.RunError, match="concrete"):
        jax.jit(lambda c: fd.modes(line(), 1, c=c).to_xarray()["u"].values)(1.0)


@pytest.mark.parametrize(
    ("k", "options", "match"),
    [
        (0, {}, "whole number from 1"),
        (40, {}, "10 unknown values"),
        (2, dict(sigma="near"), "sigma= is"),
        (2, dict(weight=jnp.ones(3)), "weight= of `u`"),
        (2, dict(weight=dict(v=1.0)), "weight= names `v`"),
        (2, dict(at=dict(v=1.0)), "at= names `v`"),
        (2, dict(parameters=[1]), "parameters="),
    ],
)
def test_wrong_arguments(k: int, options: dict, match: str) -> None:
    with pytest.raises(fd.DeclarationError, match=match):
        fd.modes(line(), k, c=1.0, **options)


def test_what_has_no_modes() -> None:
    with pytest.raises(fd.RunError, match="above zero"):
        fd.modes(line(), 2, c=1.0, weight=-1.0)
    with pytest.raises(fd.DeclarationError, match="not affine"):
        fd.modes(brusselator(), 2, b=1.0, D=1.0)
    plain = fd.Field("plain", fd.Grid(x=fd.Axis(0.0, 1.0, num=9)))
    plain[...] = 1.0
    with pytest.raises(fd.PlanningError, match="no operator"):
        fd.modes(plain, 2)
