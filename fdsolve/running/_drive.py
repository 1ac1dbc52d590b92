"""The loop over chunks.

A chunk ends where something is to be done: a level is saved that its program does not keep itself, a monitor looks, a
checkpoint is due, the structure changes; and after about a quarter of a second, so that a bar moves, a fault is found
early, and Ctrl-C is heard.
"""

import signal
import threading
import time as clock
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import gcd
from typing import Any

import jax
import numpy as np

from ..errors import FdsolveError, RunError
from ..kernels import Arrays
from ..monitors import AbstractProgress, Watch
from ..planning import Plan
from ..solution import check_logs
from ..stepping import Carry, Ready, keep, march_chunk, shown, steps_a_turn
from ._keeper import Keeper
from ._sinks import AbstractSink, Nowhere

CHUNK_SECONDS = 0.25
FIRST_TURNS = 2
ROOM_BYTES = 2**25
MAX_ROOM = 256
LONGEST_GAP = 64


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a run in chunks ended: the state at `level`; why it stopped before the end; the error to raise, if any, and
    whether it came from values that are not finite, with the state before them."""

    carry: Carry
    level: int
    reason: str | None = None
    error: FdsolveError | None = None
    broken: "Broken | None" = None


@dataclass(frozen=True, eq=False)
class Broken:
    """Values that are not finite: the level they appeared at first, its state and that of the level before."""

    level: int
    before: Carry
    after: Carry


@dataclass
class Drive:
    """A run of a plan in chunks, from level `level` on."""

    plan: Plan
    axes: tuple[str, ...]
    arrays: Arrays
    ready: Ready
    watch: Watch
    progress: AbstractProgress
    sink: AbstractSink
    keeper: Keeper | None = None
    level: int = 0
    _pace: float | None = None
    _seen: set[Any] = field(default_factory=set)
    _interrupted: bool = False

    def run(self, carry: Carry) -> Outcome:
        """Runs to the last level, or to where it must stop."""
        last = self.plan.structure.segments[-1].stop - 1
        outcome = Outcome(carry, self.level)
        with self._listening():
            if self.level == 0:
                self._save_here(0, carry)
                outcome = self._attend(carry, 0, last)
            while outcome.level < last and outcome.reason is None and outcome.error is None:
                outcome = self._chunk(outcome.carry, outcome.level, last)
                self.progress.show(outcome.level, self._time(outcome.level))
        self.progress.close()
        return outcome

    def _time(self, level: int) -> float:
        time = self.plan.problem.scope.grid.time
        assert time is not None
        return float(time.points[level])

    def _chunk(self, carry: Carry, at: int, last: int) -> Outcome:
        """The next chunk, and what is done after it."""
        stop = self.watch.next_level(at, last)
        stop = stop if self.keeper is None else min(stop, self.keeper.next_level(at))
        number, gap, turns, keeps = self._choose(at, min(stop, last))
        after, kept, finite, failed = self._march(number, gap, keeps, carry, at, turns)
        if not np.all(np.asarray(finite)):
            broken = self._bisect(number, carry, at, gap * turns)
            if keeps:
                self._save_kept(at, gap, (broken.level - 1 - at) // gap, kept)
            return Outcome(broken.after, broken.level, broken=broken, reason="not finite")
        level = at + gap * turns
        if keeps:
            self._save_kept(at, gap, turns, kept)
        else:
            after = self._save_here(level, after)
        error = self._fault(after, failed)
        if error is not None:
            return Outcome(after, level, error=error)
        outcome = self._attend(after, level, last)
        if outcome.reason is None and self._interrupted and level < last:
            return Outcome(after, level, "interrupted from the keyboard")
        return outcome

    def _march(self, number: int, gap: int, keeps: bool, carry: Carry, at: int, turns: int) -> Any:
        """Runs a chunk, and learns how long a step takes."""
        key, room = (number, gap, keeps), self._room if keeps else 0
        begun = clock.perf_counter()
        found = march_chunk(
            self.plan.structure,
            number,
            gap,
            room,
            self.axes,
            self.arrays,
            self.ready,
            carry,
            np.int32(at + 1),
            np.int32(turns),
        )
        jax.block_until_ready(found[2])
        if key in self._seen:
            self._pace = (clock.perf_counter() - begun) / (gap * turns)
        self._seen.add(key)
        return found

    @cached_property
    def _stride(self) -> int:
        """The levels between two looks, checkpoints or saves, if there are any."""
        saved = () if isinstance(self.sink, Nowhere) else self.plan.structure.saved_levels
        gaps = {b - a for a, b in pairwise(saved)}
        kept = [self.keeper.every] if self.keeper is not None else []
        return gcd(*(one.every for one in self.watch.monitors), *kept, *gaps)

    @property
    def _room(self) -> int:
        size = self.plan.bytes_saved // max(len(self.plan.structure.saved_levels), 1)
        return int(np.clip(ROOM_BYTES // max(size, 1), 1, MAX_ROOM))

    def _choose(self, at: int, stop: int) -> tuple[int, int, int, bool]:
        """The segment, the steps a turn, the turns, and whether each turn's level is kept by the program."""
        structure = self.plan.structure
        number = next(k for k, one in enumerate(structure.segments) if one.start <= at + 1 < one.stop)
        stop = min(stop, structure.segments[number].stop - 1)
        saved = () if isinstance(self.sink, Nowhere) else structure.saved_levels
        place = bisect_right(saved, at)
        coming = saved[place] if place < len(saved) else None
        gap = self._regular(saved, place, at)
        if gap is not None and at + gap <= stop:
            turns = 0
            while turns < self._room and place + turns < len(saved) and saved[place + turns] <= stop:
                if saved[place + turns] != at + gap * (turns + 1):
                    break
                turns += 1
            return number, gap, self._limited(turns, gap), True
        stop = stop if coming is None else min(stop, coming)
        gap = next(k for k in steps_a_turn(structure, number, self._stride) if k <= stop - at)
        return number, gap, self._limited((stop - at) // gap, gap), False

    def _regular(self, saved: Sequence[int], place: int, at: int) -> int | None:
        """The gap between saves, where it is the same to the next two (or there is one only) and short."""
        if place >= len(saved):
            return None
        gap = saved[place] - at
        if place + 1 < len(saved) and saved[place + 1] - saved[place] != gap:
            return None
        return gap if gap <= LONGEST_GAP else None

    def _limited(self, turns: int, gap: int) -> int:
        if self._pace is None:
            return min(turns, FIRST_TURNS)
        return min(turns, max(1, int(CHUNK_SECONDS / max(self._pace * gap, 1e-9))))

    def _save_kept(self, at: int, gap: int, turns: int, kept: Any) -> None:
        if turns > 0:
            levels = [at + gap * (k + 1) for k in range(turns)]
            self.sink.append(levels, {name: np.asarray(array)[:turns] for name, array in kept.items()})

    def _save_here(self, level: int, carry: Carry) -> Carry:
        """Saves a level; gives the carry that goes on."""
        if isinstance(self.sink, Nowhere) or level not in self.plan.structure.saved_levels:
            return carry
        structure = self.plan.structure
        if level == 0:
            fields = shown(structure, self.axes, self.arrays, carry[0])
        else:
            carry, fields = keep(structure, self.axes, self.arrays, carry)
        self.sink.append([level], {name: np.asarray(array)[None] for name, array in fields.items()})
        return carry

    def _attend(self, carry: Carry, level: int, last: int) -> Outcome:
        """Monitors look; a checkpoint is written."""
        reason = self.watch.look(level, last, carry[0])
        if self.keeper is not None and (level == last or (level and level % self.keeper.every == 0)):
            self.sink.flush()
            self.keeper.write(level, carry, self.sink.num_saved, self.watch.keep())
        return Outcome(carry, level, reason if level < last else None)

    def _fault(self, carry: Carry, failed: Any) -> FdsolveError | None:
        """What went wrong in a chunk, apart from values that are not finite."""
        level = -1 if failed is None else int(failed)
        if level >= 0:
            assert self.plan.structure.stepper is not None
            return RunError(self.plan.structure.stepper.explain(level, self._time(level)))
        try:
            check_logs(self.plan, carry[0].logs, self.plan.structure)
        except RunError as error:
            return error
        return None

    def _bisect(self, number: int, carry: Carry, at: int, count: int) -> Broken:
        """The first level that is not finite, found by running the chunk again from its start."""
        good, bad = 0, count
        state = carry
        while bad - good > 1:
            middle = (good + bad) // 2
            found = self._march(number, 1, False, state, at + good, middle - good)
            if np.all(np.asarray(found[2])):
                good, state = middle, found[0]
            else:
                bad = middle
        after = self._march(number, 1, False, state, at + good, 1)[0]
        return Broken(at + bad, state, after)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Ctrl-C ends the run after the chunk; a second one at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def note(number: int, frame: Any) -> None:
            if self._interrupted and callable(before):
                before(number, frame)
            self._interrupted = True

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
