"""Rules become functions of what they read: in one evaluation, wherever they read it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.stencil import StateRead, WholeRead
from fdsolve.stencil._trace import trace

HERE, NEXT, NUMBER = StateRead("u", -1, (0,)), StateRead("u", -1, (1,)), WholeRead("parameter k")


def _traced(rule: Any) -> tuple[Any, int]:
    """A rule of three operands, traced, and how often it was evaluated."""
    calls = []

    def call(reader: Any) -> tuple[Any, list[Any]]:
        calls.append(1)
        return rule(lambda one: reader(one, (), np.float64)), []

    return trace(call, "the rule", np.float64), len(calls)


def test_a_rule_is_evaluated_once() -> None:
    rule, calls = _traced(lambda read: read(NUMBER) * (read(NEXT) - read(HERE)) + 0 * read(NEXT))
    assert calls == 1
    assert set(rule.operands) == {HERE, NEXT, NUMBER}
    given = {HERE: 1.5, NEXT: 4.0, NUMBER: 2.0}
    assert rule.function(rule.consts)(*(jnp.asarray(given[one]) for one in rule.operands)) == 5.0


def test_the_order_of_reads_does_not_matter() -> None:
    one, _ = _traced(lambda read: read(HERE) - read(NEXT))
    other, _ = _traced(lambda read: -read(NEXT) + read(HERE) if read(NEXT) is None else read(HERE) - read(NEXT))
    assert one == other and hash(one) == hash(other)


def test_reads_within_functions_that_are_traced_apart() -> None:
    """In a branch, a loop's body and a compiled function, one within the other, before and after the same outside."""

    def rule(read: Any) -> Any:
        inner = jax.jit(lambda x: x * read(NEXT))
        looped = jax.lax.fori_loop(0, 3, lambda _, x: x + read(HERE), 0.0)
        chosen = jax.lax.cond(read(NEXT) > 0, lambda: read(NUMBER) + read(HERE), lambda: read(HERE))
        return inner(2.0) + looped + chosen + read(HERE)

    traced, calls = _traced(rule)
    assert calls <= 3
    values = {HERE: 1.5, NEXT: 4.0, NUMBER: 2.0}
    assert traced.function(traced.consts)(*(jnp.asarray(values[one]) for one in traced.operands)) == 8 + 4.5 + 3.5 + 1.5


def test_a_field_is_read_within_a_branch() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=2), x=fd.Axis(0.0, 1.0, num=8, periodic=True)))
    u[...] = lambda u, x: jax.lax.cond(x > 0.5, lambda: u["t-1", "x+1"], lambda: u["t-1", "x-1"])
    u[0] = lambda x: x**2
    x = np.arange(8) / 8
    found = np.asarray(fd.solve(u)["u"])
    np.testing.assert_array_equal(found[1], np.where(x > 0.5, np.roll(x**2, -1), np.roll(x**2, 1)))
