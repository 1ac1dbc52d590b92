"""Rules as `native` differentiates them: the derivatives of JAX, with one division for all that divide by a number."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fdsolve.kernels.native._derivable import derivable

RULES = {
    "quotient": lambda x, y, c: (x + c) / (x * y + 3.0),
    "by what stays": lambda x, y, c: x * y / c,
    "of what stays": lambda x, y, c: c / (2.0 + y) + 1.5 / x,
    "powers": lambda x, y, c: x**-2 + c * y**-3 + x**2 + y**-1 * x,
    "extremes": lambda x, y, c: jnp.maximum(x, y) * c + jnp.minimum(x * c, y) ** 2,
    "extremes with what stays": lambda x, y, c: jnp.maximum(x, c) + jnp.minimum(c, y * x) + jnp.maximum(0.3, x),
    "nested": lambda x, y, c: jnp.maximum(x / (1.0 + y**2), jnp.minimum(y / (c + x), 1.0 / y)) / (x + y),
    "called": lambda x, y, c: jax.jit(lambda a, b: jnp.clip(a / b, 0.2, 0.9))(x, y) + c,
}


def _grads(function: Any, values: Any) -> list[Any]:
    return [np.asarray(one) for one in jax.grad(function, argnums=(0, 1))(*values)]


@pytest.mark.parametrize("name", RULES)
def test_derivatives_are_those_of_jax(name: str) -> None:
    closed = jax.make_jaxpr(RULES[name])(*[jax.ShapeDtypeStruct((), jnp.float64)] * 3)

    def short(*values: Any) -> Any:
        return derivable(closed)(values, (True, True, False))[0]

    rng = np.random.default_rng(sum(map(ord, name)))
    for _ in range(20):
        values = rng.uniform(0.1, 2.0, 3)
        assert np.isclose(short(*values), RULES[name](*values), rtol=1e-14)
        np.testing.assert_allclose(_grads(short, values), _grads(RULES[name], values), rtol=1e-13)


@pytest.mark.parametrize("pick", [lax.max, lax.min])
def test_each_side_of_a_tie_has_half(pick: Any) -> None:
    closed = jax.make_jaxpr(pick)(jnp.zeros(()), jnp.zeros(()))
    for x, y in ((2.0, 2.0), (0.0, -0.0), (1.0, 2.0), (2.0, 1.0)):
        for moving in ((True, True), (True, False), (False, True)):
            places = [k for k in (0, 1) if moving[k]]
            short = jax.grad(lambda *values, moving=moving: derivable(closed)(values, moving)[0], argnums=places)
            assert short(x, y) == jax.grad(pick, argnums=places)(x, y)


def test_there_is_one_division_by_each_number() -> None:
    """Of three quotients by y, forth and back; JAX's derivatives have seven."""
    rule = jax.make_jaxpr(lambda x, y: (x / y + x**2 / y) * y**-2)(1.0, 2.0)

    def both(x: Any, y: Any) -> Any:
        return jax.value_and_grad(lambda *values: derivable(rule)(values, (True, True))[0], argnums=(0, 1))(x, y)

    eqns = jax.make_jaxpr(both)(1.0, 2.0).eqns
    inverses = [eqn for eqn in eqns if eqn.primitive.name == "integer_pow" and eqn.params["y"] < 0]
    assert all(eqn.primitive.name != "div" for eqn in eqns)
    assert len({(eqn.invars[0], eqn.params["y"]) for eqn in inverses}) == 1
