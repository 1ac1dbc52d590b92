"""The way back through rules: the derivatives of JAX, with one division for all that divide by a number."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fdsolve.kernels._derivable import pull_through

RULES: dict[str, Callable[..., Any]] = {
    "sums": lambda x, y, c: x - y + c * x - (-y) * x,
    "quotient": lambda x, y, c: (x + c) / (x * y + 3.0),
    "by what stays": lambda x, y, c: x * y / c,
    "of what stays": lambda x, y, c: c / (2.0 + y) + 1.5 / x,
    "powers": lambda x, y, c: x**-2 + c * y**-3 + x**2 + y**-1 * x + y**3 + x**1 + y**0,
    "extremes": lambda x, y, c: jnp.maximum(x, y) * c + jnp.minimum(x * c, y) ** 2,
    "extremes with what stays": lambda x, y, c: jnp.maximum(x, c) + jnp.minimum(c, y * x) + jnp.maximum(0.3, x),
    "nested": lambda x, y, c: jnp.maximum(x / (1.0 + y**2), jnp.minimum(y / (c + x), 1.0 / y)) / (x + y),
    "called": lambda x, y, c: jax.jit(lambda a, b: jnp.clip(a / b, 0.2, 0.9))(x, y) + c,
    "functions": lambda x, y, c: jnp.sqrt(x) * jnp.exp(-y) + jnp.sin(x * y) - jnp.cos(c + y) + jnp.tanh(x) * jnp.log(y),
    "choices": lambda x, y, c: jnp.where(x > y, x * y, jnp.where(y > c, abs(x - y), x)) + abs(c - y),
    "whole numbers": lambda x, y, c: lax.select_n((3 * x).astype(int) % 3, x, y, c * x) + jnp.floor(y) * x,
    "other precision": lambda x, y, c: (x.astype(jnp.float32) * 2).astype(float) + y,
    "a derivative of its own": lambda x, y, c: _twice(x * y) + jax.nn.softplus(x),
    "nothing": lambda x, y, c: c + 0.0 * lax.stop_gradient(x),
}


@jax.custom_jvp
def _twice(x: Any) -> Any:
    return 2 * x


_twice.defjvp(lambda primals, tangents: (2 * primals[0], 3 * tangents[0]))


def _pulled(rule: Callable[..., Any], values: Any, places: tuple[int, ...]) -> list[Any]:
    closed = jax.make_jaxpr(rule)(*values)
    return [float(one) for one in pull_through(closed, list(values), places, [jnp.asarray(1.25)])]


@pytest.mark.parametrize("name", RULES)
def test_cotangents_are_those_of_jax(name: str) -> None:
    rule, rng = RULES[name], np.random.default_rng(sum(map(ord, name)))
    for places in ((0, 1), (1,), (0,)):
        for _ in range(5):
            values = [jnp.asarray(one) for one in rng.uniform(0.1, 2.0, 3)]
            expected = [1.25 * float(one) for one in jax.grad(rule, argnums=places)(*values)]
            np.testing.assert_allclose(_pulled(rule, values, places), expected, rtol=3e-14, atol=1e-15)


@pytest.mark.parametrize("pick", [lax.max, lax.min])
def test_each_side_of_a_tie_has_half(pick: Any) -> None:
    for x, y in ((2.0, 2.0), (0.0, -0.0), (1.0, 2.0), (2.0, 1.0)):
        for places in ((0, 1), (0,), (1,)):
            expected = [1.25 * float(one) for one in jax.grad(pick, argnums=places)(x, y)]
            assert _pulled(pick, [jnp.asarray(x), jnp.asarray(y)], places) == expected


def test_several_results() -> None:
    """Each has a cotangent of its own."""

    def rule(x: Any, y: Any) -> Any:
        common = x * y / (x + y)
        return common, common**2, y

    x, y, along = jnp.asarray(0.7), jnp.asarray(1.9), [jnp.asarray(one) for one in (0.3, -1.2, 2.0)]
    found = pull_through(jax.make_jaxpr(rule)(x, y), [x, y], (0, 1), along)
    np.testing.assert_allclose(found, jax.vjp(rule, x, y)[1](tuple(along)), rtol=1e-14)


def test_there_is_one_division_by_each_number() -> None:
    """Of three quotients by y, forth and back; JAX's derivatives have seven."""
    rule = jax.make_jaxpr(lambda x, y: (x / y + x**2 / y) * y**-2)(1.0, 2.0)
    eqns = jax.make_jaxpr(lambda x, y, ct: pull_through(rule, [x, y], (0, 1), [ct]))(1.0, 2.0, 1.0).eqns
    inverses = [eqn for eqn in eqns if eqn.primitive.name == "integer_pow" and eqn.params["y"] < 0]
    assert all(eqn.primitive.name != "div" for eqn in eqns)
    assert len({(eqn.invars[0], eqn.params["y"]) for eqn in inverses}) == 1
