"""Binomial checkpointing: which states are kept, and when steps are computed again.

With s states kept and at most r visits of any step, β(s, r) = C(s + r, s) steps can be reversed; reversing l of them
takes r l − β(s + 1, r − 1) steps forward at best (Griewank & Walther, ACM Trans. Math. Softw. 26 (2000) 19).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np


@dataclass(frozen=True, eq=False)
class Schedule:
    """What is done to reverse steps in turn, the last first.

    Before step i of the reversal the legs first[i] … first[i + 1] − 1 are run: leg j starts from the state kept in slot
    `source[j]`, which is that before step `at[j]`, takes `length[j]` steps, and keeps what it came to in slot
    `target[j]`. Then the state before the step is reached from slot `source_last[i]`, before step `at_last[i]`, by
    `length_last[i]` steps. `forward` counts the steps forward.
    """

    first: np.ndarray
    source: np.ndarray
    at: np.ndarray
    length: np.ndarray
    target: np.ndarray
    source_last: np.ndarray
    at_last: np.ndarray
    length_last: np.ndarray
    forward: int


def capacity(states: int, visits: int) -> int:
    """β: how many steps can be reversed."""
    return comb(states + visits, states) if states >= 0 and visits >= 0 else 0


def least_visits(steps: int, states: int) -> int:
    """How often a step must be computed at most."""
    visits = 0
    while capacity(states, visits) < steps:
        visits += 1
    return visits


def least_forward(steps: int, states: int) -> int:
    """The steps forward that reversing takes at best, those of a first run to the end not counted apart."""
    visits = least_visits(steps, states)
    return visits * steps - capacity(states + 1, visits - 1)


@lru_cache(maxsize=32)
def make_schedule(steps: int, states: int) -> Schedule:
    """The schedule for so many steps with so many states kept, the first one among them."""
    legs: list[tuple[int, int, int, int]] = []
    lasts: list[tuple[int, int, int]] = []
    first = [0]

    def reverse_one(slot: int, at: int, step: int) -> None:
        lasts.append((slot, at, step - at))
        first.append(len(legs))

    # Parts still to be reversed, the next one last: (slot, at, stop) for steps at … stop − 1.
    pending = [(0, 0, steps)]
    while pending:
        slot, at, stop = pending.pop()
        size, free = stop - at, states - slot
        if size == 1:
            reverse_one(slot, at, at)
        elif free == 1:
            for step in range(stop - 1, at - 1, -1):
                reverse_one(slot, at, step)
        else:
            cut = _cut(size, free)
            legs.append((slot, at, cut, slot + 1))
            pending += [(slot, at, at + cut), (slot + 1, at + cut, stop)]
    source, starts, lengths, targets = np.array(legs, np.int32).reshape(-1, 4).T
    source_last, at_last, length_last = np.array(lasts, np.int32).reshape(-1, 3).T
    forward = int(lengths.sum() + length_last.sum())
    return Schedule(
        np.array(first, np.int32), source, starts, lengths, targets, source_last, at_last, length_last, forward
    )


def _cut(size: int, states: int) -> int:
    """Where the next state is kept."""
    visits = least_visits(size, states)
    return max(1, capacity(states, visits - 2), size - capacity(states - 1, visits))
