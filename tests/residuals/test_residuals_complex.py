"""Complex equations that are not holomorphic, and systems of real and complex fields: values and derivatives."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import ADI, ARK3, BDF2, RK4, CrankNicolson, Theta, laplacian

RING = fd.Axis(0.0, 6.0, num=6, periodic=True)
FIELD = np.random.default_rng(1).normal(size=(2, 6))
Q = FIELD[0] + 1j * FIELD[1]


def z(real: Any) -> Any:
    """A real number as a complex one: the tests convert none by themselves."""
    return jnp.asarray(real).astype(complex)


def size(u: Any) -> Any:
    """|u|²."""
    return z(jnp.abs(u[...]) ** 2)


def steady(rule: Any, **options: Any) -> Callable[[Any], Any]:
    def run(c: Any) -> Any:
        u = fd.Field("u", fd.Grid(x=RING), dtype=complex)
        u[...] = fd.residual(rule)
        return fd.solve(u, c=c, q=Q, **options)["u"]

    return run


def cubic(u: Any, c: Any, q: Any) -> Any:
    return laplacian(u) - 2 * u[...] - 0.5 * size(u) * u[...] - z(c) * q[...]


def conjugate(u: Any, c: Any, q: Any) -> Any:
    return laplacian(u) - 2 * u[...] + 0.7j * jnp.conj(u[...]) - z(c) * q[...]


def real_part(u: Any, c: Any, q: Any) -> Any:
    return laplacian(u) - 2 * u[...] - z(0.3 * c * u[...].real) - 0.1j * z(u[...].imag ** 3) - q[...]


def holomorphic(u: Any, c: Any, q: Any) -> Any:
    return laplacian(u) - 2 * u[...] - 0.1 * u[...] ** 3 + 0.1 * jnp.exp(1j * z(c) * u[...]) - z(c) * q[...]


STEADY = {
    "|u|²u": steady(cubic),
    "conj": steady(conjugate),
    "real and imag": steady(real_part),
    "holomorphic": steady(holomorphic),
    "Picard": steady(cubic, solver=fd.solvers.Picard()),
    "dense": steady(cubic, solver=fd.solvers.Dense()),
    "Krylov": steady(cubic, solver=fd.solvers.Newton(linear=fd.solvers.GMRES(tolerance=1e-12))),
    "rows that read all points": steady(
        lambda u, c, q: cubic(u, c, q) - 0.1 * fd.reduce(jnp.sum, fd.apply(jnp.conj, u))[...]
    ),
}


def loss_of(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A loss that both parts enter."""

    def loss(c: Any) -> Any:
        u = run(c)
        return jnp.sum(jnp.sin(u.real + 0.2 * np.arange(u.size).reshape(u.shape)) + jnp.cos(0.3 + u.imag))

    return loss


def check_gradient(run: Callable[[Any], Any], at: float, step: float = 1e-4) -> None:
    """Against central differences."""
    both = jax.jit(jax.value_and_grad(loss_of(run)))
    expected = (both(at + step)[0] - both(at - step)[0]) / (2 * step)
    np.testing.assert_allclose(both(at)[1], expected, rtol=2e-6)


@pytest.mark.parametrize("case", STEADY)
def test_steady_gradients(case: str) -> None:
    check_gradient(STEADY[case], 0.5)


def test_gradient_by_a_complex_field() -> None:
    """Of all real and imaginary parts of the data, against differences along a direction."""

    def loss(q: Any) -> Any:
        u = fd.Field("u", fd.Grid(x=RING), dtype=complex)
        u[...] = fd.residual(cubic)
        found = fd.solve(u, c=0.5, q=q)["u"]
        return jnp.sum(jnp.sin(found.real) + found.imag**2)

    way = np.random.default_rng(2).normal(size=6) + 1j * np.random.default_rng(3).normal(size=6)
    loss = jax.jit(loss)
    expected = (loss(Q + 1e-4 * way) - loss(Q - 1e-4 * way)) / 2e-4
    np.testing.assert_allclose(jnp.sum(jax.grad(loss)(jnp.asarray(Q)) * way).real, expected, rtol=1e-6)


def test_forward_and_reverse() -> None:
    loss = loss_of(STEADY["|u|²u"])
    gradient = jax.jit(jax.grad(loss))(0.5)
    np.testing.assert_allclose(jax.jit(lambda c: jax.jvp(loss, (c,), (1.0,))[1])(0.5), gradient, rtol=1e-9)


def test_second_derivatives() -> None:
    def loss(c: Any) -> Any:
        return jnp.sum(jnp.sin(STEADY["|u|²u"](c).real))

    first = jax.jit(jax.grad(loss))
    expected = (first(0.5 + 1e-4) - first(0.5 - 1e-4)) / 2e-4
    np.testing.assert_allclose(jax.jit(jax.grad(jax.grad(loss)))(0.5), expected, rtol=1e-5)


@pytest.mark.parametrize("rule", [cubic, conjugate])
def test_newton_converges_quadratically(rule: Any) -> None:
    u = fd.Field("u", fd.Grid(x=RING), dtype=complex)
    u[...] = fd.residual(rule)
    solution = fd.solve(u, c=0.5, q=Q)
    assert solution.equations[0].iterations <= (2 if rule is conjugate else 6)
    text = str(fd.plan(u, c=0.5, q=Q))
    assert "real and imaginary parts" in text


HOLOMORPHIC = {
    "exp": lambda u: jnp.exp(u[...]),
    "log": lambda u: jnp.log(u[...]),
    "sqrt": lambda u: jnp.sqrt(u[...]),
    "trigonometry": lambda u: jnp.sin(u[...]) + jnp.cos(u[...]) + jnp.tanh(u[...]),
    "powers": lambda u: u[...] ** 3 + jnp.square(u[...]) + u["x-1"] * u["x+1"],
    "division": lambda u: 1.0 / (2.0 + u[...]) + u["x-1"] / u[...],
    "a choice by places": lambda u, x: jnp.where(x < 3, u[...] ** 2, u[...]),
}
OTHERS = {
    "conj": lambda u: jnp.conj(u[...]),
    "abs": lambda u: z(jnp.abs(u[...])),
    "real": lambda u: u[...] * z(u[...].real),
    "imag of a neighbour": lambda u: z(u["x-1"].imag),
    "angle": lambda u: z(jnp.angle(u[...])),
}


@pytest.mark.parametrize("case", [*HOLOMORPHIC, *OTHERS])
def test_only_rules_that_are_not_holomorphic_are_taken_apart(case: str) -> None:
    u = fd.Field("u", fd.Grid(x=RING), dtype=complex)
    u[...] = fd.residual(lambda u: laplacian(u) - 2 * u[...])
    u[...] += fd.residual({**HOLOMORPHIC, **OTHERS}[case])
    assert ("imaginary parts" in str(fd.plan(u))) == (case in OTHERS)


def test_walls_that_are_not_holomorphic() -> None:
    """The equation is linear; only its ghosts are not."""

    def run(c: Any) -> Any:
        u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=6)), dtype=complex)
        u[...] = fd.residual(lambda u, c: laplacian(u) - 2 * u[...] + 1 + 0.5j)
        u[dict(x=0)] = lambda u, c: z(c) * jnp.conj(u["x+1"]) + 0.3
        u[dict(x=-1)] = 0.2j
        return fd.solve(u, c=c)["u"]

    check_gradient(run, 0.5)


def test_singular_in_the_real_part_only() -> None:
    """Real constants are not seen: their mean is fixed, as for real equations."""

    def run(c: Any) -> Any:
        u = fd.Field("u", fd.Grid(x=RING), dtype=complex)
        u[...] = fd.residual(
            lambda u, x, c: z(c) * laplacian(u) - 1j * z(u[...].imag) - z(jnp.cos(np.pi * x / 3)) - 0.5j
        )
        return fd.solve(u, c=c)["u"]

    found = run(0.5)
    np.testing.assert_allclose(jnp.sum(found.real), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.imag, -0.5, rtol=1e-12)
    check_gradient(run, 0.5)


def schroedinger(stepper: Any, num: int = 8, dims: int = 1) -> Callable[[Any], Any]:
    axes = dict(zip("xy", (RING, fd.Axis(0.0, 5.0, num=5, periodic=True)), strict=False))
    space = dict(list(axes.items())[:dims])
    start = Q if dims == 1 else Q[:, None] * (1 + 0.3j * np.cos(2 * np.pi * np.arange(5) / 5))

    def run(k: Any) -> Any:
        w = fd.Field("w", fd.Grid(t=fd.Time(0.0, 0.4, num=num + 1), **space), dtype=complex)
        w[...] = fd.rate(lambda w, k: 0.3j * laplacian(w) - 1j * z(k) * size(w) * w[...])
        w[0] = start
        return fd.solve(w, k=k, stepper=stepper, save=fd.final())["w"]

    return run


MARCHES = {
    "CrankNicolson": (CrankNicolson(), 1),
    "BDF2": (BDF2(), 1),
    "Theta": (Theta(0.5), 2),
}


@cache
def fine(dims: int) -> np.ndarray:
    """A loss of RK4's on a fine grid, and its derivative."""
    return np.array(jax.jit(jax.value_and_grad(loss_of(schroedinger(RK4(), 256, dims))))(0.5))


@pytest.mark.parametrize("case", MARCHES)
def test_marches(case: str) -> None:
    """Values and derivatives are those of RK4 on a fine grid."""
    stepper, dims = MARCHES[case]
    loss = loss_of(schroedinger(stepper, 32, dims))
    found = np.array(jax.jit(jax.value_and_grad(loss))(0.5))
    np.testing.assert_allclose(found, fine(dims), rtol=5e-4)
    if case == "CrankNicolson":
        along = jax.jit(lambda k: jax.jvp(loss, (k,), (1.0,))[1])(0.5)
        np.testing.assert_allclose(along, found[1], rtol=1e-8)


@pytest.mark.parametrize("method", ["Douglas", "PeacemanRachford"])
def test_orders_of_alternating_directions(method: str) -> None:
    errors = []
    for num in (16, 32):
        found = jax.jit(jax.value_and_grad(loss_of(schroedinger(ADI(method), num, 2))))(0.5)
        errors.append(np.abs(np.array(found) - fine(2)))
    orders = np.log2(errors[0] / errors[1])
    assert np.all(orders > 1.75), (orders, errors)


def mixed(stepper: Any, num: int = 4, **types: Any) -> Callable[[Any], Any]:
    types = {"u": complex, "v": float, **types}
    grid = fd.Grid(t=fd.Time(0.0, 0.2, num=num + 1), x=RING)

    def run(c: Any) -> Any:
        u, v = (fd.Field(name, grid, dtype=types[name]) for name in "uv")
        u[...] = fd.rate(lambda u, v, c: 0.3 * laplacian(u) + 0.1j * z(v[...]) - z(c) * size(u) * u[...], implicit=True)
        v[...] = fd.rate(lambda u, v, c: -0.7 * v[...] + c * u[...].real, implicit=True)
        u[0], v[0] = (lambda x: z(jnp.sin(x)) + 0.3j * z(jnp.cos(x))), 1.0
        found = fd.solve((u, v), c=c, stepper=stepper, save=fd.final())
        assert found["v"].dtype == v.dtype
        return found["u"] + z(found["v"])

    return run


@cache
def mixed_fine() -> np.ndarray:
    """The same of RK4's."""
    return np.array(jax.jit(jax.value_and_grad(loss_of(mixed(RK4(), 64))))(0.4))


@pytest.mark.parametrize("stepper", [CrankNicolson(), ARK3(), BDF2(), ADI()], ids=lambda s: type(s).__name__)
def test_real_beside_complex(stepper: Any) -> None:
    found = jax.jit(jax.value_and_grad(loss_of(mixed(stepper, 32))))(0.4)
    np.testing.assert_allclose(found, mixed_fine(), rtol=2e-4)


@pytest.mark.filterwarnings("ignore:Casting complex values")  # from the stability analysis
@pytest.mark.parametrize("stepper", [CrankNicolson(), ADI()], ids=lambda s: type(s).__name__)
def test_real_beside_complex_and_linear(stepper: Any) -> None:
    """Linear over the complex numbers, and prepared once."""

    def run(stepper: Any, num: int = 4) -> Any:
        def at(c: Any) -> Any:
            grid = fd.Grid(t=fd.Time(0.0, 0.2, num=num + 1), x=RING)
            u, v = fd.Field("u", grid, dtype=complex), fd.Field("v", grid, dtype=float)
            u[...] = fd.rate(lambda u, v, c: (0.3 + 0.2j) * laplacian(u) + z(0.1 * c * v[...]))
            v[...] = fd.rate(lambda v, c: -c * v[...])
            u[0], v[0] = (lambda x: z(jnp.sin(x))), 1.0
            return fd.solve((u, v), c=c, stepper=stepper, save=fd.final())["u"]

        return at

    np.testing.assert_allclose(run(stepper, 32)(0.7), run(RK4(), 64)(0.7), rtol=2e-4)
    check_gradient(run(stepper), 0.7)


def test_a_steady_pair_of_real_and_complex() -> None:
    def run(c: Any) -> Any:
        u, v = fd.Field("u", fd.Grid(x=RING), dtype=complex), fd.Field("v", fd.Grid(x=RING))
        u[...] = fd.residual(lambda u, v, c, q: laplacian(u) - 2 * u[...] + 1j * z(v[...]) - z(c) * q[...])
        v[...] = fd.residual(lambda u, v, c: v[...] + 0.1 * v[...] ** 3 - jnp.imag(u[...]) ** 2 + c)
        found = fd.solve((u, v), c=c, q=Q)
        return found["u"] + z(found["v"])

    check_gradient(run, 0.5)


def test_two_precisions_are_refused() -> None:
    u, v = fd.Field("u", fd.Grid(x=RING), dtype=jnp.float32), fd.Field("v", fd.Grid(x=RING))
    u[...] = fd.residual(lambda u, v: laplacian(u) - u[...] + v[...].astype(jnp.float32))
    v[...] = fd.residual(lambda u, v: laplacian(v) - v[...] + u[...].astype(float))
    with pytest.raises(fd.PlanningError, match=r"`u` has dtype float32 and `v` float64.*one precision"):
        fd.solve((u, v))


@pytest.mark.parametrize("stepper", [CrankNicolson(), ADI()], ids=lambda s: type(s).__name__)
def test_two_precisions_are_refused_in_marches(stepper: Any) -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.2, num=5), x=RING)
    u, v = fd.Field("u", grid, dtype=jnp.complex64), fd.Field("v", grid)
    u[...] = fd.rate(lambda u: 0.3 * laplacian(u))
    v[...] = fd.rate(lambda v: -0.7 * v[...])
    u[0], v[0] = 1.0, 1.0
    with pytest.raises(fd.PlanningError, match=r"`u` has dtype complex64 and `v` float64.*one precision"):
        fd.solve((u, v), stepper=stepper, save=fd.final())


def test_rows_that_read_all_points_have_no_parts_along_axes() -> None:
    w = fd.Field("w", fd.Grid(t=fd.Time(0.0, 0.1, num=3), x=RING))
    w[...] = fd.rate(lambda w: laplacian(w) - fd.reduce(jnp.sum, w)[...])
    w[0] = 1.0
    with pytest.raises(fd.PlanningError, match=r"ADI.*points anywhere.*CrankNicolson"):
        fd.solve(w, stepper=ADI(), save=fd.final())


def test_solvers_of_one_field_refuse_both_parts() -> None:
    u = fd.Field("u", fd.Grid(x=RING), dtype=complex)
    u[...] = fd.residual(cubic)
    with pytest.raises(fd.PlanningError, match=r"real and imaginary parts of `u` is not served by Transform"):
        fd.plan(u, c=0.5, q=Q, solver=fd.solvers.Transform())


def test_an_operator_without_a_complex_matrix_is_refused() -> None:
    u = fd.Field("u", fd.Grid(x=RING), dtype=complex)
    u[...] = fd.residual(conjugate)
    with pytest.raises(fd.errors.PlanningError, match="no complex matrix"):
        fd.plan(u, c=0.3, q=Q).matrix()
