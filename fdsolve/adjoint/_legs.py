"""Marches between kept states: down to the last one, and to where a block begins that is reversed."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._base import March, Quick
from ._fit import Cut
from ._storage import AbstractStorage

LEG = 16
"""Steps that a march from a kept state to another takes at once, as far as it goes."""


class Legs:
    """The legs of a cut, for one march: its constants, the state it starts from and the number of its first level."""

    def __init__(self, quick: March, cut: Cut, storage: AbstractStorage, consts: Any, carry: Any, start: Any) -> None:
        self.quick, self.cut, self.storage = quick, cut, storage
        self.consts, self.carry, self.start = consts, carry, jnp.asarray(start)
        plan, none = cut.schedule, np.zeros(1, np.int32)  # no leg is out of reach
        self.again = len(plan.source) > cut.descent
        """Whether there are more legs than those of the first descent."""
        self._apart = bool(plan.length_last.any())
        tables = (plan.source, plan.at, plan.length, plan.target)
        self._tables = tuple(jnp.asarray(np.append(one, none), self.start.dtype) for one in tables)

    def descend(self) -> tuple[Any, Any]:
        """The room with the states that the run keeps on its way, and the last of them."""
        cut, storage = self.cut, self.storage
        room = storage.put(storage.open(self.carry, cut.kept, (self.consts, self.start)), 0, self.carry)
        if cut.descent == 0:
            return room, self.carry
        _, at, length, _ = self._tables
        single = bool((cut.schedule.length[: cut.descent] == 1).all())

        def leg(j: Any, held: Any) -> Any:
            room, state = held
            state = self.advance(at[j], 1 if single else length[j], state)
            return storage.put(room, j + 1, state), state

        return lax.fori_loop(0, cut.descent, leg, (room, self.carry))

    def run(self, places: Any, way: Any) -> tuple[Any, Any]:
        """The places, and the state that a way leads to: legs first … stop − 1, and some blocks from a kept state."""
        first, stop, source, at, length = way
        places = lax.fori_loop(first, stop, self._leg, places) if self.again else places
        places, state = self.storage.get(places, source, self.carry)
        return places, self.advance(at, length, state) if self._apart else state

    def _leg(self, j: Any, places: Any) -> Any:
        source, at, length, target = self._tables
        places, state = self.storage.get(places, source[j], self.carry)
        return self.storage.put(places, target[j], self.advance(at[j], length[j], state))

    def advance(self, begin: Any, number: Any, state: Any) -> Any:
        """The state so many full blocks on, from block `begin`; short blocks several at once, as kernels do sooner."""
        block, start = self.cut.block, self.start
        many = max(1, LEG // block) if not isinstance(number, int) else 1

        def by(size: int, first: Any) -> Callable[..., Any]:
            def one(k: Any, held: Any) -> Any:
                at = begin + first + jnp.asarray(k, start.dtype) * size
                return self.quick(self.consts, held, start + at * block, size * block)

            return one

        if many == 1 or not isinstance(self.quick, Quick):
            return lax.fori_loop(0, number, by(1, 0), state)
        whole = number // many
        state = lax.fori_loop(0, whole, by(many, 0), state)
        return lax.fori_loop(0, number - whole * many, by(1, whole * many), state)

    def entries(self, ahead: bool) -> tuple[Any, Any]:
        """The way to the first block to be reversed, and for each in turn its steps, its number and a way: to itself,
        or where states are found `ahead`, to the next (the last one's leads nowhere else)."""
        plan, cut = self.cut.schedule, self.cut
        steps = np.full(cut.blocks, cut.block)
        steps[0] = cut.last
        first = np.maximum(plan.first, cut.descent)
        way = np.array([first[:-1], first[1:], plan.source_last, plan.at_last, plan.length_last])
        begin, nowhere = way[:, 0], [0, 0, way[2, -1], way[3, -1], 0]
        way = np.column_stack([way[:, 1:], nowhere]) if ahead else way
        entries = (steps, plan.at_last + plan.length_last, tuple(way))
        return jax.tree.map(lambda one: jnp.asarray(one, self.start.dtype), (tuple(begin), entries))
