"""Rules computed together: the same values as each by itself, and what they have in common once."""

from collections import Counter
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import _long
from fdsolve.stencil import StateRead, WholeRead, inner_of, may_share, share, trace

HERE, NEXT, P = StateRead("u", -1, (0,)), StateRead("u", -1, (1,)), WholeRead("p")


def traced(function: Any, operands: Any) -> Any:
    return trace(lambda reader: (function(*(reader(o, (), jnp.float64) for o in operands)), []), "a rule", jnp.float64)


def long(x: Any, y: Any) -> Any:
    """Forty operations, a choice in a call of its own among them."""
    for k in range(10):
        x = jnp.sin(x) * y + jnp.where(x > y, x, 0.5 * k)
    return x


def operations(function: Any, *given: Any) -> Counter[str]:
    """How often which operation stands in a program."""
    found: Counter[str] = Counter()

    def walk(jaxpr: Any) -> None:
        for eqn in jaxpr.eqns:
            inner = inner_of(eqn)
            found[eqn.primitive.name] += 1
            for branch in eqn.params.get("branches", ()):
                walk(branch.jaxpr)
            if inner is not None:
                walk(inner.jaxpr)

    walk(jax.make_jaxpr(function)(*given).jaxpr)
    return found


def test_rules_together_are_the_same_as_alone() -> None:
    functions = [
        lambda a, b, p: long(a, p) + b,
        lambda a, b, p: long(a, p) * b,
        lambda a, b, p: long(a, p) - long(b, p),
    ]
    rules = tuple(traced(one, (HERE, NEXT, P)) for one in functions)
    assert all(map(may_share, rules))
    together = share(rules)
    assert together is not None
    for a, b, p in np.random.default_rng(0).normal(size=(8, 3)):
        known = {HERE: a, NEXT: b, P: p}
        found = together(*(jnp.asarray(known[one]) for one in together.operands))
        np.testing.assert_allclose(found, [one(a, b, p) for one in functions], rtol=1e-14)
    count = operations(together, *(0.5 for _ in together.operands))
    assert count["sin"] == 20, "of a once, and of b once"


def test_what_differs_is_not_taken_for_the_same() -> None:
    """Numbers, directions and operands that differ: nothing is in common but the start."""
    functions = [
        lambda a, b: long(a, b) + 2.0,
        lambda a, b: long(a, b) + 3.0,
        lambda a, b: long(a, b) - b,
        lambda a, b: b - long(a, b),
        lambda a, b: jnp.where(long(a, b) > b, a, b),
        lambda a, b: jnp.where(long(a, b) > b, b, a),
    ]
    together = share(tuple(traced(one, (HERE, NEXT)) for one in functions))
    assert together is not None
    order = [together.operands.index(one) for one in (HERE, NEXT)]
    for pair in np.random.default_rng(1).normal(size=(8, 2)):
        given = [jnp.asarray(pair[order.index(k)]) for k in range(2)]
        np.testing.assert_allclose(together(*given), [one(*pair) for one in functions], rtol=1e-14)


def test_short_rules_and_rules_with_arrays_stay_alone() -> None:
    table = jnp.asarray([1.5, -2.0, 0.25])
    assert not may_share(traced(lambda a, p: a * p, (HERE, P)))
    assert not may_share(traced(lambda a, p: long(a, p) * table[1], (HERE, P)))
    apart = [traced(lambda a, p, k=k: long(a + k, p), (HERE, P)) for k in (1.0, 2.0)]
    assert all(map(may_share, apart))
    assert share(tuple(apart)) is None, "long, and nothing in common"


@pytest.mark.parametrize("axes", [1, 2])
def test_the_fluxes_of_a_system_are_computed_once(axes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The roots of an HLLC flux stand in a step once an axis, not once a component; in its gradient, too.

    Where code is generated for fluxes, they are one loop an axis.
    """
    law, flux, names = fd.schemes.IdealGas(1.4), fd.schemes.HLLC(), ("rho", "m", "E") if axes == 1 else "rmnE"
    space = {name: fd.Axis(0.0, 1.0, 6, cells=True, periodic=True) for name in "xy"[:axes]}
    fields = [fd.Field(name, fd.Grid(t=fd.Time(0.0, 0.02, num=3), **space)) for name in names]
    rates = [
        lambda rho, m, E: fd.schemes.conservation(law, (rho, m, E), flux=flux),
        lambda r, m, n, E: fd.schemes.conservation(law, (r, m, n, E), flux=flux),
    ]
    fd.together(*fields)[...] = fd.rate(rates[axes - 1])
    start = law.to_conservative((1.2, *(0.1,) * axes, 0.9))
    for field, value in zip(fields, start, strict=True):
        field[0] = lambda x, a, value=value: value * (1 + a * jnp.sin(2 * jnp.pi * x))

    def solve(a: Any) -> Any:
        options: Any = dict(stepper=fd.schemes.Euler(), save=fd.final(), kernel="slices")
        return jnp.sum(fd.solve(fields, a=a, **options)[names[0]] ** 2)

    def in_program(text: str, function: Any) -> int:
        jax.clear_caches()
        return jax.jit(function).lower(0.1).as_text().count(text)

    if find_spec("llvmlite") is not None:
        assert 0 < in_program("custom_call @fdsolve_", solve) <= 2 * axes
    monkeypatch.setattr(_long, "_loops", lambda: None)
    one = operations(lambda *sides: flux.flux(law, *sides, 0), start, start)["sqrt"]
    count = in_program("stablehlo.sqrt", solve)
    assert 0 < count <= 2 * axes * one, "two steps may stand one after the other"
    assert axes > 1 or in_program("stablehlo.sqrt", jax.grad(solve)) <= 2 * count
