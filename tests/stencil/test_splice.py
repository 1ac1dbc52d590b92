"""Rules put together from others: the same as tracing them again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fdsolve.stencil import Splice, StateRead, WholeRead, trace

HERE, NEXT, P = StateRead("u", -1, (0,)), StateRead("u", -1, (1,)), WholeRead("p")
TABLE = jnp.asarray([1.5, -2.0, 0.25])


def traced(function, operands):
    return trace(lambda reader: (function(*(reader(o, (), jnp.float64) for o in operands)), []), "a rule", jnp.float64)


def value(rule, known):
    return float(rule.function(rule.consts)(*(jnp.asarray(known[one]) for one in rule.operands)))


INNER = {
    "product": lambda a, p: a * p + 1.0,
    "one of its operands": lambda a, p: a + 0.0 * 3.0,
    "an entered call": lambda a, p: jax.jit(lambda x, y: jnp.where(x > y, x, jnp.sin(y)))(a, p),
    "an array that it holds": lambda a, p: a * TABLE[1] + jnp.sum(TABLE) * p,
}


def either(held, value):
    return jnp.where(held > 0, value, -value)


@pytest.mark.parametrize("name", INNER)
def test_rules_within_rules(name):
    inner = traced(INNER[name], (HERE, P))
    made = Splice({HERE: np.float64, NEXT: np.float64, P: np.float64})

    def of(read):
        return made.call(inner, *(made.known[read if one == HERE else one] for one in inner.operands))

    left, right = of(HERE), of(NEXT)  # the same rule twice, of different reads
    total = made.apply(jnp.add, made.apply(jnp.multiply, left, made.number(2, np.float64)), right)
    found = made.made(made.apply(either, made.known[NEXT], total), np.float64)
    assert HERE in found.operands
    for here, beside, p in np.random.default_rng(0).normal(size=(8, 3)):
        known = {HERE: here, NEXT: beside, P: p}
        wanted = float(either(beside, 2 * INNER[name](here, p) + INNER[name](beside, p)))
        assert value(found, known) == pytest.approx(wanted, rel=1e-14)


def test_what_is_not_needed_is_no_operand():
    made = Splice({HERE: np.float64, NEXT: np.float64, P: np.float64})
    made.apply(jnp.multiply, made.known[NEXT], made.known[P])
    found = made.made(made.known[HERE], np.float64)
    assert found.operands == (HERE,)
    assert not found.jaxpr.eqns
    assert found == traced(lambda a: a, (HERE,))
    assert made.made(made.number(0, np.float64), np.float64).operands == ()
