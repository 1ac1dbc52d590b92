"""The default adjoint: all is kept where it fits easily, else as many states as there is room for."""

from dataclasses import dataclass
from typing import Any

from ..kernels import detect_platform
from ._base import AbstractRepeated, March, Quick, Step, show_jump, show_needs
from ._block import LONGEST, longest_unrolled
from ._checkpointed import plain_march, reversed_march, show_cuts, usual_states
from ._fit import cut_steps
from ._peak import count_bytes
from ._twolevel import show_blocks
from ._ways import KEPT, LIGHT, OWN, SHORT

EASY = 2**24
"""Bytes that a CPU sooner keeps than computes again: caches hold little more, and fresh memory is slow."""
BESIDE = 16
"""Runs beside each other, under vmap, of which few bytes are little still."""
RECYCLED, FEW, FRESH = 30 * 2**20, 8, 8
"""Bytes of a program's arrays up to which the allocator of Linux's C library hands out the same memory at every call,
the fewest states that are worth it, and the steps that a state in fresh pages costs where it does not."""
LONG, MOST = 128, 2**29
"""Equations a step, for each number of the state, from which on what a kernel's derivative reads is sooner kept than
computed again; and the most bytes of it."""
WORKING = 5
"""States' worth of arrays that reversing a step takes beside the states kept: its own, cotangents, and what is new."""


@dataclass(frozen=True)
class Fitted(AbstractRepeated):
    """Checkpoints in `memory` bytes for a run of `total` steps: 2√T states where they fit, else as many as do.

    Where the derivative of JAX and of the march's kernel keeps no more than `easy` bytes, or than those states are, it
    is that: this is known when it is traced. `small`: it does, unless there are many runs beside each other. A kernel's
    derivative of long rules may keep `worth` bytes.
    """

    memory: int
    total: int
    easy: int
    small: bool = False
    worth: int = 0

    def march(self, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None = None) -> Any:
        if self.small and isinstance(quick, Quick) and quick.jumps(count):
            return quick.run(consts, carry, start, count)
        return super().march(step, consts, carry, start, count, quick)

    def describe_jump(self, kernel: str, state_bytes: int) -> str | None:
        return show_jump(kernel) if self.small else super().describe_jump(kernel, state_bytes)

    def march_as(
        self, once: bool, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None
    ) -> Any:
        run = quick or plain_march(step)
        if count == 1:
            return run(consts, carry, start, count)
        cut = cut_steps(count, self.num_states(count, count_bytes(carry), longest_unrolled(run) > 0))
        rooms = self.easy * count // self.total, self.memory // 2
        worth = self.worth * count // self.total
        return reversed_march(step, run, consts, carry, start, cut, rooms, once, small=self.small, worth=worth)

    def num_states(self, count: int, state_bytes: int, unrolled: bool) -> int:
        """How many states are held for so many steps; blocks that are `unrolled` cost little to compute again."""
        most, recycled = (room // max(state_bytes, 1) - WORKING for room in (self.memory, RECYCLED))
        usual = max(1, min(usual_states(count), most))
        if not unrolled or not FEW <= recycled < usual:
            return usual
        few, many = (cut_steps(count, states, LONGEST) for states in (recycled, usual))
        return recycled if few.recomputed < many.recomputed + FRESH * many.states else usual

    def describe(self, count: int, state_bytes: int) -> str:
        usual, short = (self.num_states(count, state_bytes, unrolled) for unrolled in (False, True))
        shown = show_cuts(count, usual, short, state_bytes)
        if self.small:
            needs = show_needs(self.total, state_bytes)
            own = OWN * self.total * state_bytes > self.easy
            more = show_blocks(count, state_bytes, self.memory // 2) if own else ""
            heavy = (
                f" and, on a CPU, where `slices` would keep more than {LIGHT} states a step or {self.easy // SHORT} "
                f"bytes, or with solves and sweeps more than {self.easy}: then it {shown}"
            )
            return (
                f"keeps what all {self.total} steps need, which fits, {needs}; none is computed again, but under "
                f"vmap{heavy if detect_platform() == 'cpu' and count > 2 else ''}{more}"
            )
        more = show_blocks(count, state_bytes, self.memory // 2)
        own = f" ({self.worth} by a kernel with a derivative of its own: steps are long)" if self.worth else ""
        return (
            f"where what all steps need fits in {self.easy} bytes{own}, or in those of the states said here, it keeps "
            f"that; else it {shown}{more}"
        )


def fit_adjoint(steps: int, state_bytes: int, available: int | None, work: float = 0.0) -> Fitted | None:
    """The default for so many steps of a state, with so many bytes free; None where all that steps need is little.

    `work`: equations a step for each number of the state. The memory is a power of two, so that programs stay the same
    while what is free changes a little.
    """
    if available is None or steps < 2:
        return None
    on_cpu = detect_platform() == "cpu"
    small = KEPT * steps * state_bytes <= min(KEPT * EASY if on_cpu else available, available // 4)
    if small and (not on_cpu or BESIDE * steps * state_bytes <= EASY):
        return None
    memory = 1 << max(0, (available // 2).bit_length() - 1)
    worth = min(MOST, memory // 2) if on_cpu and work >= LONG else 0
    return Fitted(memory, steps, min(EASY if on_cpu else memory, memory // 2), small, worth)
