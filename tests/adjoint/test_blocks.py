"""Blocks of steps that are gone back through: what they hold of the states on the way."""

import jax.numpy as jnp
import pytest

from fdsolve.adjoint._base import plain
from fdsolve.adjoint._block import Block

SPEED, STATE = jnp.linspace(0.1, 0.4, 5), (jnp.ones(5), jnp.arange(5.0))


def wave(speed, levels, number):
    now, before = levels
    return 2 * now - before + speed * (jnp.roll(now, 1) - 2 * now + jnp.roll(now, -1)), now


def damped(speed, levels, number):
    now, before = levels
    return wave(speed, (now, before * now), number)


@pytest.mark.parametrize(
    ("step", "of_consts", "read"),
    [(wave, [0], [0]), (wave, [], []), (damped, [0], [0, 1])],
    ids=["by a coefficient", "by no constant", "not linear"],
)
def test_a_block_holds_the_levels_that_its_way_back_reads(step, of_consts, read):
    block = Block(step, lambda *given: plain(step, *given), SPEED, of_consts)
    assert block.read_of(STATE, jnp.int32(3)) == read
