"""Affinity from the jaxpr: what it calls affine is, what it refuses need not be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fdsolve.stencil import AFFINE, StateRead, WholeRead, linear_weights, trace

READS = [StateRead("u", -1, (k,)) for k in (-1, 0, 1)]

AFFINE_RULES = {
    "sum": lambda a, b, c, p: a + b - 3.0 * c,
    "constant part": lambda a, b, c, p: p * a + p**2 + 1.0,
    "division by a constant": lambda a, b, c, p: (a - b) / (p + 2.0),
    "where on a parameter": lambda a, b, c, p: jnp.where(p > 0, a, b),
    "dot": lambda a, b, c, p: jnp.dot(jnp.stack([a, b, c]), jnp.array([1.0, -2.0, 1.0])),
    "window sum": lambda a, b, c, p: jnp.sum(jnp.stack([a, b, c]) * jnp.array([0.1, 0.2, 0.3])),
    "mean and reshape": lambda a, b, c, p: jnp.stack([a, b, c, c]).reshape(2, 2).mean(),
    "a parameter beside": lambda a, b, c, p: a - 2.0 * b + p**2 * jnp.sin(p),
    "a number times both": lambda a, b, c, p: 3.0 * (a + p) - b,
    "a parameter times both": lambda a, b, c, p: p * (a + p) - b,
    "in a call": lambda a, b, c, p: jax.jit(lambda x, y: x * y)(a - b, p),
    "entered call": lambda a, b, c, p: jax.jit(lambda x, y: x - y)(a, b),
    "transposed and flipped": lambda a, b, c, p: jnp.flip(jnp.stack([a, b, c]))[0] + b,
}
NONLINEAR_RULES = {
    "product": lambda a, b, c, p: a * b,
    "division by the state": lambda a, b, c, p: a / b,
    "step function": lambda a, b, c, p: jnp.where(a > 0.5, 1.0, 0.0),
    "floor": lambda a, b, c, p: jnp.floor(a),
    "sign": lambda a, b, c, p: jnp.sign(a),
    "absolute value": lambda a, b, c, p: jnp.abs(a),
    "maximum": lambda a, b, c, p: jnp.maximum(a, b),
    "stopped gradient": lambda a, b, c, p: jax.lax.stop_gradient(a),
    "square": lambda a, b, c, p: a**2,
    "custom derivative": lambda a, b, c, p: jax.nn.relu(a),
    "through an integer": lambda a, b, c, p: a.astype(jnp.int32).astype(jnp.float64),
}


def traced(function, dtype=jnp.float64):
    def call(reader):
        values = [reader(read, (), dtype) for read in READS]
        return function(*values, reader(WholeRead("p"), (), jnp.float64)), []

    return trace(call, "a rule", dtype)


def split(rule):
    """The rule as a function of its reads, given the parameter."""
    own = [o for o in rule.operands if isinstance(o, StateRead)]

    def function(p):
        def of_reads(*reads):
            known = {**dict(zip(own, reads, strict=True)), WholeRead("p"): jnp.asarray(p)}
            return rule.function(rule.consts)(*(known[o] for o in rule.operands))

        return of_reads

    return own, function


@pytest.mark.parametrize("name", AFFINE_RULES)
@pytest.mark.parametrize("p", [0.7, -1.3])
def test_affine_rules_equal_constant_plus_weights(name, p):
    rule = traced(AFFINE_RULES[name])
    assert rule.degree <= AFFINE
    own, function = split(rule)
    weights, constant = linear_weights(function(p), len(own), jnp.float64)
    generator = np.random.default_rng(1)
    for _ in range(5):
        reads = generator.normal(size=len(own))
        expected = float(
            AFFINE_RULES[name](*[dict(zip(own, map(jnp.asarray, reads), strict=True)).get(r, 0.0) for r in READS], p)
        )
        assert float(constant) + float(np.dot(weights, reads)) == pytest.approx(expected, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("name", AFFINE_RULES)
def test_what_weights_depend_on(name):
    rule = traced(AFFINE_RULES[name])
    own, function = split(rule)
    first, second = (linear_weights(function(p), len(own), jnp.float64)[0] for p in (0.7, -1.3))
    differ = not np.allclose(first, second)
    assert rule.weights_depend_on(lambda operand: operand == WholeRead("p")) == differ
    assert not rule.weights_depend_on(lambda operand: operand == WholeRead("q"))


@pytest.mark.parametrize("name", NONLINEAR_RULES)
def test_other_rules_are_not_affine(name):
    assert traced(NONLINEAR_RULES[name]).degree > AFFINE


def test_complex_weights_keep_both_parts_and_conjugation_is_not_affine():
    rule = traced(lambda a, b, c, p: (2 + 3j) * a - 1j * b, jnp.complex128)
    own, function = split(rule)
    weights, _ = linear_weights(function(0.0), len(own), jnp.complex128)
    assert sorted(map(complex, weights), key=abs) == [-1j, 2 + 3j]
    assert traced(lambda a, b, c, p: jnp.conj(a) + b, jnp.complex128).degree > AFFINE
    assert traced(lambda a, b, c, p: a.real.astype(jnp.complex128), jnp.complex128).degree > AFFINE


def test_only_what_is_used_is_read():
    rule = traced(lambda a, b, c, p: a + 0.0 * 1.0)
    assert rule.reads == (READS[0],)


def test_equal_rules_have_equal_structure_whatever_arrays_they_close_over():
    def make(array):
        return traced(lambda a, b, c, p: a + jnp.sum(array) * b)

    one, other = make(jnp.arange(3.0)), make(jnp.ones(3))
    assert one == other
    assert hash(one) == hash(other)
    assert one != traced(lambda a, b, c, p: a + 2.0 * b)
    assert traced(lambda a, b, c, p: a + 2.0 * b) != traced(lambda a, b, c, p: a + 2.5 * b)
