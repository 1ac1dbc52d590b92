"""Rules of derivatives that hold wherever JAX differentiates: in loops, under vmap, once more."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.custom_derivatives import SymbolicZero

from fdsolve._own_derivative import instantiated, own_derivative
from fdsolve._tangents import moves


@own_derivative
def cubed(shift: float, pair: tuple[Any, Any]) -> dict[str, Any]:
    """x³ + y of a pair (x, y) by numpy, which JAX cannot look into; and an integer."""
    x, y = pair
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    value = jax.pure_callback(
        lambda a, b: np.asarray(a) ** 3 + np.asarray(b) + shift, like, x, y, vmap_method="expand_dims"
    )
    return dict(count=jnp.asarray(3), value=value)


SEEN: list[list[bool]] = []


@cubed.defjvp
def _push(shift: float, primals: Any, tangents: Any) -> Any:
    ((x, _),), (along,) = primals, tangents
    SEEN.append([moves(one) for one in along])
    out = cubed(shift, *primals)
    moved = 3 * x**2 * instantiated(along[0]) + instantiated(along[1])
    return out, dict(count=np.zeros((), jax.dtypes.float0), value=moved)


def opaque(x: Any, y: Any) -> Any:
    return cubed(0.5, (x, y))["value"]


def plain(x: Any, y: Any) -> Any:
    return x**3 + y + 0.5


def in_a_loop(f: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, y: Any) -> Any:
        last, seen = lax.scan(lambda c, k: (0.3 * f(c, k * y), f(c, y)), x, jnp.arange(1.0, 4.0))
        return last + jnp.sum(seen, 0)

    return run


def checkpointed(f: Callable[..., Any]) -> Callable[..., Any]:
    return jax.checkpoint(in_a_loop(f))


def batched(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: jnp.sum(jax.vmap(f, (None, 0))(x, jnp.stack([y, 2 * y, x])), 0)


PLACES: dict[str, Callable[..., Any]] = dict(
    alone=lambda f: f,
    loop=in_a_loop,
    checkpoint=checkpointed,
    vmap=batched,
    vmapped_loop=lambda f: batched(in_a_loop(f)),
)
X, Y, V = jnp.asarray([0.7, -0.4]), jnp.asarray([0.3, 0.9]), jnp.asarray([1.3, -0.8])


def along_x(f: Callable[..., Any]) -> Any:
    return jax.jvp(lambda x: jax.grad(lambda x: jnp.sum(f(x, Y) ** 2))(x), (X,), (V,))[1]


ORDERS: dict[str, Callable[..., Any]] = dict(
    value=lambda f: f(X, Y),
    forwards=lambda f: jax.jvp(f, (X, Y), (V, Y)),
    backwards=lambda f: jax.grad(lambda x, y: jnp.sum(f(x, y) ** 2), (0, 1))(X, Y),
    forwards_over_backwards=along_x,
    backwards_twice=lambda f: jax.grad(lambda x: jnp.vdot(jax.grad(lambda x: jnp.sum(f(x, Y) ** 2))(x), V))(X),
    hessian=lambda f: jax.hessian(lambda x: jnp.sum(f(x, Y) ** 2))(X),
)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("place", PLACES)
def test_it_is_the_functions_own(place: str, order: str, jit: bool) -> None:
    of, where = ORDERS[order], PLACES[place]
    found, expected = (
        (jax.jit(lambda g=g: of(where(g))) if jit else lambda g=g: of(where(g)))() for g in (opaque, plain)
    )
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert float(jnp.abs(b).max()) > 1e-3
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("place", ["alone", "vmap"])
def test_what_does_not_move_is_a_symbol(place: str) -> None:
    SEEN.clear()
    jax.jvp(lambda x: PLACES[place](opaque)(x, Y), (X,), (V,))
    (seen,) = SEEN
    assert seen == [True, place == "vmap"]
    SEEN.clear()
    jax.grad(lambda y: jnp.sum(opaque(X, y)))(Y)
    (seen,) = SEEN
    assert seen == [False, True]


def test_symbols_as_arrays() -> None:
    none, whole = (SymbolicZero(jax.typeof(jnp.ones(2, t)).to_tangent_aval()) for t in (float, int))
    assert instantiated(none).tolist() == [0.0, 0.0]
    assert instantiated(whole).dtype == jax.dtypes.float0
    assert instantiated(X) is X
