"""The loop over chunks.

A chunk ends where something is to be done: a level is saved that its program does not keep itself, a monitor looks, a
checkpoint is due, the structure changes; and after about a quarter of a second, so that a bar moves, a fault is found
early, and Ctrl-C is heard.
"""

import signal
import threading
import time as clock
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import gcd
from typing import Any

import jax
import numpy as np

from ..errors import FdsolveError, RunError
from ..kernels import Arrays
from ..monitors import AbstractProgress, Looking, Watch
from ..planning import Plan
from ..solution import check_logs
from ..stepping import Carry, Ready, keep, march_chunk, shown, steps_a_turn
from ._keeper import Keeper
from ._sinks import AbstractSink, levels_kept

CHUNK_SECONDS = 0.25
FIRST_TURNS = 2
ROOM_BYTES = 2**25
MAX_ROOM = 256
LONGEST_GAP = 64
AHEAD_BYTES = 2**26


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a run in chunks ended: the state at `level`; why it stopped before the end; the error to raise, if any, and
    whether it came from values that are not finite, with the state before them; whether it was the keyboard."""

    carry: Carry
    level: int
    reason: str | None = None
    error: FdsolveError | None = None
    broken: "Broken | None" = None
    interrupted: bool = False


@dataclass(frozen=True, eq=False)
class Broken:
    """Values that are not finite: the level they appeared at first, its state and that of the level before, and the
    level that the stepper could not reach (None: it says of none, −1: it reached all)."""

    level: int
    before: Carry
    after: Carry
    failed: Any


@dataclass(frozen=True, eq=False)
class Flight:
    """A chunk under way, from the state `before` at level `at`: `turns` times `gap` steps in segment `number`, the
    look behind it, and what will be there when it has landed."""

    number: int
    gap: int
    turns: int
    keeps: bool
    before: Carry
    at: int
    begun: float
    look: Looking | None
    after: Carry
    kept: Mapping[str, Any]
    finite: Any
    failed: Any

    @property
    def level(self) -> int:
        """The level at its end."""
        return self.at + self.gap * self.turns


@dataclass
class Drive:
    """A run of a plan in chunks, from level `level` on."""

    plan: Plan
    axes: tuple[str, ...]
    arrays: Arrays
    ready: Ready
    watch: Watch
    keeper: Keeper | None = None
    level: int = 0
    progress: AbstractProgress = field(init=False)
    sink: AbstractSink = field(init=False)
    _pace: float | None = None
    _seen: set[Any] = field(default_factory=set)
    _clear: float = 0.0
    _landed: float = 0.0
    _interrupted: bool = False

    def build(self, carry: Carry) -> None:
        """Compiles the program of each segment, by a chunk of no turns: a kernel that does not build is told before
        anyone looks and anything is written."""
        segments = self.plan.structure.segments
        for segment in segments:
            at = max(self.level, segment.start - 1)
            if at + 1 < segment.stop:
                number, gap, _, keeps = self._choose(at, self._stop(at, segments[-1].stop - 1))
                self._march(number, gap, keeps, carry, at, 0, False)

    def run(self, carry: Carry, progress: AbstractProgress, sink: AbstractSink) -> Outcome:
        """Runs to the last level, or to where it must stop; `sink` takes what `levels_kept` names."""
        self.progress, self.sink = progress, sink
        last = self.plan.structure.segments[-1].stop - 1
        outcome = Outcome(carry, self.level)
        with self._listening(), closing(progress):
            if self.level == 0:
                self._save_here(0, carry)
                look = self.watch.look(0, last, carry[0]) if self.watch.is_due(0, last) else None
                outcome = self._attend(carry, 0, last, look)
            flight = None
            while outcome.level < last and outcome.reason is None and outcome.error is None:
                flight = flight or self._start(outcome.carry, outcome.level, last)
                ahead = self._start(flight.after, flight.level, last) if self._goes_on(flight, last) else None
                outcome = self._land(flight, last)
                self.progress.show(outcome.level, self._time(outcome.level))
                flight = ahead
        return outcome

    def _time(self, level: int) -> float:
        time = self.plan.problem.scope.grid.time
        assert time is not None
        return float(time.points[level])

    def _start(self, carry: Carry, at: int, last: int) -> Flight:
        """Dispatches the next chunk, and the look behind it."""
        number, gap, turns, keeps = self._choose(at, self._stop(at, last))
        begun, new = clock.perf_counter(), (number, gap, keeps) not in self._seen
        level, looks = at + gap * turns, self.watch.is_due(at + gap * turns, last)
        after, kept, finite, failed = self._march(number, gap, keeps, carry, at, turns, not looks)
        look = self.watch.look(level, last, after[0]) if looks else None
        finite = finite if look is None else look.finite
        if new:  # it was compiled, which took time that no chunk takes
            self._seen.add((number, gap, keeps))
            self._clear = clock.perf_counter()
        return Flight(number, gap, turns, keeps, carry, at, begun, look, after, kept, finite, failed)

    def _stop(self, at: int, last: int) -> int:
        """The next level at which someone looks or a checkpoint is due, or the last."""
        stop = self.watch.next_level(at, last)
        return stop if self.keeper is None else min(stop, self.keeper.next_level(at))

    def _goes_on(self, flight: Flight, last: int) -> bool:
        """Whether the next chunk can be dispatched before this one has landed: nothing that is done in between needs
        or changes the state, nobody who looks can stop the run, and one more state is little memory."""
        level = flight.level
        kept = self.keeper is not None and level % self.keeper.every == 0
        saves = not flight.keeps and level in self._saved
        judged = flight.look is not None and self.watch.may_stop(flight.look)
        small = sum(leaf.nbytes for leaf in jax.tree.leaves(flight.before)) <= AHEAD_BYTES
        return level < last and small and not (kept or saves or judged or self._interrupted)

    def _land(self, flight: Flight, last: int) -> Outcome:
        """Waits for a chunk; what is done after it."""
        after, level, look = flight.after, flight.level, flight.look
        if not np.all(np.asarray(flight.finite)):
            broken = self._bisect(flight.number, flight.before, flight.at, level - flight.at)
            if flight.keeps:
                self._save_kept(flight, (broken.level - 1 - flight.at) // flight.gap)
            return Outcome(broken.after, broken.level, broken=broken, reason="not finite")
        now = clock.perf_counter()
        if flight.begun >= self._clear:
            self._pace = (now - max(flight.begun, self._landed)) / (level - flight.at)
        self._landed = now
        if flight.keeps:
            self._save_kept(flight, flight.turns)
        else:
            after = self._save_here(level, after)
        error = self._fault(after, flight.failed)
        if error is not None:
            return Outcome(after, level, error=error)
        outcome = self._attend(after, level, last, look)
        if outcome.reason is None and self._interrupted and level < last:
            return Outcome(after, level, "interrupted from the keyboard", interrupted=True)
        return outcome

    def _march(self, number: int, gap: int, keeps: bool, carry: Carry, at: int, turns: int, check: bool = True) -> Any:
        """Dispatches a chunk."""
        room = self._room if keeps else 0
        return march_chunk(
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
            np.bool_(check),
        )

    @cached_property
    def _stride(self) -> int:
        """The levels between two looks, checkpoints or saves, if there are any."""
        gaps = {b - a for a, b in pairwise(self._saved)}
        kept = [self.keeper.every] if self.keeper is not None else []
        return gcd(*(one.every for one in self.watch.monitors), *kept, *gaps)

    @cached_property
    def _saved(self) -> tuple[int, ...]:
        return levels_kept(self.plan)

    @property
    def _room(self) -> int:
        size = self.plan.bytes_saved // max(len(self.plan.structure.saved_levels), 1)
        return int(np.clip(ROOM_BYTES // max(size, 1), 1, MAX_ROOM))

    def _choose(self, at: int, stop: int) -> tuple[int, int, int, bool]:
        """The segment, the steps a turn, the turns, and whether each turn's level is kept by the program."""
        structure = self.plan.structure
        number = next(k for k, one in enumerate(structure.segments) if one.start <= at + 1 < one.stop)
        stop = min(stop, structure.segments[number].stop - 1)
        saved = self._saved
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

    def _save_kept(self, flight: Flight, turns: int) -> None:
        if turns > 0:
            levels = [flight.at + flight.gap * (k + 1) for k in range(turns)]
            self.sink.append(levels, {name: np.asarray(array)[:turns] for name, array in flight.kept.items()})

    def _save_here(self, level: int, carry: Carry) -> Carry:
        """Saves a level; gives the carry that goes on."""
        if level not in self._saved:
            return carry
        structure = self.plan.structure
        if level == 0:
            fields = shown(structure, self.axes, self.arrays, carry[0])
        else:
            carry, fields = keep(structure, self.axes, self.arrays, carry)
        self.sink.append([level], {name: np.asarray(array)[None] for name, array in fields.items()})
        return carry

    def _attend(self, carry: Carry, level: int, last: int, look: Looking | None) -> Outcome:
        """Monitors judge what they saw; a checkpoint is written."""
        reason = None if look is None else self.watch.take(look)
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
        after, _, _, failed = self._march(number, 1, False, state, at + good, 1)
        return Broken(at + bad, state, after, failed)

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
