"""The march along time: segments of levels with one structure, and the levels that are saved on the way."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import lcm
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer

from ..adjoint import AbstractRepeated, Quick, Rooms
from ..kernels import Arrays, Kernel, MarchCall, detect_platform, get, register
from ..planning import Parallel, Piece, Segment, Structure
from ._hidden import hidden_points
from ._level import make_level
from ._logs import Log, solves_of, start_logs
from ._prepare import prepare_stages, prepare_systems
from ._record import recorded, start_records
from ._saves import Advance, Carry, Keep, Leap, find_gaps, march_flagged, march_leaping, march_saving
from ._shown import Saved, is_finite, keep, shown, start_means, without_means
from ._spare import count_usual_pieces, make_spare, newest, turn_of, with_spare, without_spare
from ._state import State
from ._system import System
from ._systems import Systems
from ._undo import adjoint_of

MAX_RUNS = 8


def begin(structure: Structure, axes: tuple[str, ...], arrays: Arrays) -> tuple[Carry, jax.Array]:
    """The first level: the state from which `finish` goes on, and whether each declared field is finite there."""
    return _begin(structure.first_level, axes, arrays)


@partial(jax.jit, static_argnums=(0, 1))
def _begin(structure: Structure, axes: tuple[str, ...], arrays: Arrays) -> tuple[Carry, jax.Array]:
    step = recorded(structure, axes, arrays, partial(_step, structure, structure.segments[0], arrays, axes, None, {}))
    state, records = step((_empty_state(structure), start_records(structure)), 0)
    return (state, records), is_finite(structure, state)


Finished = tuple[Saved, Carry, Saved, Any, jax.Array]


def finish(structure: Structure, axes: tuple[str, ...], arrays: Arrays, carry: Carry) -> Finished:
    """Runs a plan from its first level on; the state given is used up.

    Gives the saved levels of each field, stacked (nothing where only the last is saved, which is the last state); the
    last state and records; where holes hide points; the first level at which the stepper failed (None where it
    cannot); and for each declared field whether its last level is finite.
    """
    traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((arrays, carry)))
    run = _finish if traced or structure.segments[-1].stop <= 1 else _finish_in_place
    return run(structure, axes, arrays, carry)


def make_ready(structure: Structure, axes: tuple[str, ...], arrays: Arrays, carry: Carry) -> tuple[Carry, Any, Systems]:
    """What a march needs beside the first level: the carry there with the stepper's memory and the logs of all
    systems, and what `make_prepared` gives."""
    begun, prepared, systems = _prepared(structure, axes, arrays)
    state = State(carry[0].levels, begun.memory, _joined(structure, begun.logs, carry[0].logs))
    return (state, {**carry[1], **start_means(structure, axes, arrays, state)}), prepared, systems


def make_prepared(structure: Structure, axes: tuple[str, ...], arrays: Arrays) -> tuple[Any, Systems]:
    """What the stepper and the systems of equations make once for all steps."""
    return _prepared(structure, axes, arrays)[1:]


def _prepared(structure: Structure, axes: tuple[str, ...], arrays: Arrays) -> tuple[State, Any, Systems]:
    """The same, and an empty state with the stepper's memory."""
    begun, prepared = _prepare(structure, axes, arrays, _empty_state(structure))
    systems = {
        **prepare_systems(structure, arrays, axes),
        **prepare_stages(structure, arrays, axes, begun, prepared),
    }
    return begun, prepared, systems


def _finished(structure: Structure, axes: tuple[str, ...], arrays: Arrays, carry: Carry) -> Finished:
    carry, prepared, systems = make_ready(structure, axes, arrays, carry)
    parts: list[Saved] = []
    if 0 in structure.saved_levels:
        parts.append({name: array[None] for name, array in shown(structure, axes, arrays, carry[0]).items()})
    for segment in map(after_first, structure.segments):
        if segment.start < segment.stop:
            carry, saved = _run_segment(structure, segment, arrays, carry, axes, prepared, systems)
            parts.extend(saved)
    parts = [] if structure.saves_last_only else parts
    history = {
        name: jnp.concatenate([part[name] for part in parts]) if len(parts) > 1 else parts[0][name]
        for name in (parts[0] if parts else ())
    }
    failed = structure.stepper.report(carry[0].memory) if structure.stepper is not None else None
    finite = is_finite(structure, carry[0])
    return history, (carry[0], without_means(carry[1])), hidden_points(structure, axes, arrays), failed, finite


_finish = jax.jit(_finished, static_argnums=(0, 1))
_finish_in_place = jax.jit(_finished, static_argnums=(0, 1), donate_argnums=3)


def _joined(structure: Structure, logs: tuple[Log, ...], first: tuple[Log, ...]) -> tuple[Log, ...]:
    """The logs of all systems, from those of the first level's."""
    known = dict(zip(solves_of(structure.first_level), first, strict=True))
    return tuple(known.get(stage, log) for stage, log in zip(solves_of(structure), logs, strict=True))


def after_first(segment: Segment) -> Segment:
    """A segment without level 0."""
    if segment.start > 0:
        return segment
    return replace(segment, start=1, phases=segment.phases if len(segment.phases) == 1 else segment.phases[1:])


def _empty_state(structure: Structure) -> State:
    return State(
        {
            one.name: tuple(jnp.zeros(one.padded_shape, one.dtype) for _ in range(max(one.kept, 1)))
            for one in structure.carried
        },
        None,
        start_logs(structure),
    )


def _prepare(structure: Structure, axes: tuple[str, ...], arrays: Arrays, state: State) -> tuple[State, Any]:
    """The state with the stepper's memory, and the arrays that it makes once for all steps."""
    phase = next((phase for phase in structure.phases if phase.rates), None)
    if phase is None or structure.stepper is None:
        return state, None
    system = System(structure, phase, arrays, state, 1, axes)
    memory = structure.stepper.begin(system.start)
    return State(state.levels, memory, state.logs), structure.stepper.prepare(system)


def _run_segment(
    structure: Structure,
    segment: Segment,
    arrays: Arrays,
    carry: Carry,
    axes: tuple[str, ...],
    prepared: Any,
    systems: Systems,
) -> tuple[Carry, list[Saved]]:
    """Advances through a segment in runs between saves; returns the saved levels in order."""
    wanted = [n for n in structure.saved_levels if segment.start <= n < segment.stop]
    gaps = find_gaps(segment.start, wanted)
    saved: list[Saved] = []
    at = segment.start
    step, turn, advance = marcher(structure, segment, arrays, axes, prepared, systems)
    leap: Leap | None = None
    if structure.adjoint is not None:
        turn, (advance, leap) = 1, _by_adjoint(structure, segment, arrays, axes, prepared, systems)
    if turn > 1:
        carry = (with_spare(carry[0]), carry[1])
    keeping: Keep = partial(keep, structure, axes, arrays)
    if len(gaps) > MAX_RUNS and leap is not None:
        carry, kept = march_leaping(keeping, leap, carry, at, wanted)
        saved.append(kept)
        at, gaps = wanted[-1] + 1, []
    if len(gaps) > MAX_RUNS:
        carry, kept = march_flagged(keeping, step, carry, segment, wanted, turn)
        saved.append(kept)
        at, gaps = segment.stop, []
    for gap, count in gaps:
        carry, kept = march_saving(keeping, advance, carry, at, gap, count, turn)
        saved.append(kept)
        at += gap * count
    if at < segment.stop:
        carry = advance(carry, at, segment.stop - at)
    return (without_spare(carry[0]), carry[1]) if turn > 1 else carry, saved


def marcher(
    structure: Structure, segment: Segment, arrays: Arrays, axes: tuple[str, ...], prepared: Any, systems: Systems
) -> tuple[Callable[[Carry, Any], Carry], int, Advance]:
    """One step of a segment, after how many steps arrays are back in their places, and the march by many steps."""
    step = _recorded_step(structure, segment, arrays, axes, prepared, systems)
    if _level_kernel(structure, segment, axes) is not None:  # it writes a new level where the oldest stands
        return step, 1, partial(_march, step, lcm(*(max(one.kept, 1) for one in structure.carried)))
    turn = turn_of(structure, segment)
    advance: Advance = partial(_march, step, turn)
    if (kernel := march_kernel(structure, segment)) is None:
        return step, turn, advance
    return step, 1, partial(_march_by_kernel, kernel, structure, segment, axes, arrays, advance)


def _recorded_step(
    structure: Structure, segment: Segment, arrays: Arrays, axes: tuple[str, ...], prepared: Any, systems: Systems
) -> Callable[[Carry, Any], Carry]:
    """A level and what is written down of it."""
    kernel, call = _level_kernel(structure, segment, axes), _march_call(structure, segment, axes, 1)
    if kernel is None:
        step = partial(_step, structure, segment, arrays, axes, prepared, systems)
        return recorded(structure, axes, arrays, step)
    return recorded(structure, axes, arrays, lambda s, number: _marched(kernel, call, arrays, (s, {}), number)[0])


def _level_kernel(structure: Structure, segment: Segment, axes: tuple[str, ...]) -> Kernel | None:
    """The kernel that computes the levels of a segment one by one, since receivers listen at each; None for slices."""
    if structure.recording is None:
        return None
    kernel = march_kernel(replace(structure, recording=None), segment)
    return None if kernel is None or kernel.refusal(_march_call(structure, segment, axes, 1)) is not None else kernel


def _by_adjoint(
    structure: Structure, segment: Segment, arrays: Arrays, axes: tuple[str, ...], prepared: Any, systems: Systems
) -> tuple[Advance, Leap | None]:
    """The march of a segment under its adjoint, and by numbers of levels known at run time where it keeps not all.

    All arrays that steps use are handed to it.
    """
    keys = tuple(systems)

    def step(consts: Any, carry: Carry, number: Any) -> Carry:
        own, ready, made = consts
        known = dict(zip(keys, made, strict=True))
        return _recorded_step(structure, segment, own, axes, ready, known)(carry, number)

    def run(consts: Any, carry: Carry, start: Any, count: int) -> Carry:
        own, ready, made = consts
        _, turn, advance = marcher(structure, segment, own, axes, ready, dict(zip(keys, made, strict=True)))
        if turn == 1 or count < 2 * turn:
            return advance(carry, start, count)
        state, records = advance((with_spare(carry[0]), carry[1]), start, count)
        return without_spare(state), records

    def by_blocks(consts: Any, carry: Carry, start: Any, count: int, block: int) -> Carry | None:
        """The same where the kernel has a derivative that keeps the state before each block alone; else None."""
        kernel = march_kernel(structure, segment)
        if kernel is None or not kernel.blocks:
            return None
        call = _march_call(structure, segment, axes, count, block)
        if kernel.refusal(call) is not None:
            return None
        return _marched(kernel, call, consts[0], carry, start)

    def near(block: int, moving: Sequence[int] | None = None) -> bool:
        """Whether the kernel holds the levels of a block in cache while it goes back through them; with the numbers
        of the `moving` leaves of the constants: surely by a derivative of its own along these."""
        kernel = march_kernel(structure, segment)
        names = arrays.leaf_names()  # the first leaves; others are no arrays of kernels
        own = None if moving is None else tuple(names[k] for k in moving if k < len(names))
        call = replace(_march_call(structure, segment, axes, block, block), near=True, own=own)
        return kernel is not None and kernel.blocks and kernel.refusal(call) is None

    def jumps(count: int) -> bool:
        kernel = march_kernel(structure, segment)
        call = _march_call(structure, segment, axes, count)
        return kernel is not None and kernel.jumps and kernel.refusal(call) is None

    adjoint, total = adjoint_of(structure, segment, axes), structure.segments[-1].stop
    rooms = _rooms_of(structure, segment, axes)
    if rooms is not None and isinstance(adjoint, AbstractRepeated):
        arrays = arrays.with_cuts(structure, _pieces_of(structure, segment), axes)
    quick, consts = Quick(run, by_blocks, near, jumps, rooms), (arrays, prepared, tuple(systems.values()))

    def march(carry: Carry, start: Any, count: int) -> Carry:
        own = adjoint if 2 * count > total else adjoint.repeated()
        return own.march(step, consts, carry, start, count, quick)

    if adjoint.keeps_all:
        return march, None
    one = adjoint.repeated()
    return march, Leap(consts, lambda own, carry, start, count: one.march(step, own, carry, start, count, quick))


def _pieces_of(structure: Structure, segment: Segment) -> list[Piece]:
    """The pieces of a segment that are evaluated at all their points at once."""
    stages = (stage for number in set(segment.phases) for stage in structure.phases[number].every_stage)
    return [stage.piece for stage in stages if isinstance(stage, Parallel)]


def _rooms_of(structure: Structure, segment: Segment, axes: tuple[str, ...]) -> Rooms | None:
    """Where new levels of a march by fused slices are written; None where a kernel marches, on other machines than a
    CPU, and where more than rules at points would be computed again: systems, sweeps."""
    kernel, call = march_kernel(structure, segment), _march_call(structure, segment, axes, segment.stop - segment.start)
    served = kernel is not None and kernel.refusal(call) is None
    if served or _level_kernel(structure, segment, axes) is not None or detect_platform() != "cpu":
        return None
    phases = [structure.phases[number] for number in set(segment.phases)]
    simple = all(
        isinstance(one, Parallel) and one.piece.operation is None for phase in phases for one in phase.every_stage
    )
    if not simple or (structure.stepper is not None and structure.stepper.solves):
        return None
    turn, pieces = turn_of(structure, segment), count_usual_pieces(structure, segment)
    if turn == 1:
        return Rooms(pieces=pieces)
    return Rooms(
        fresh=lambda carry: make_spare(carry[0]),
        open=lambda carry, spare: (with_spare(carry[0], spare), carry[1]),
        close=lambda carry: (without_spare(carry[0]), carry[1]),
        newest=lambda carry: newest(carry[0]),
        turn=turn,
        pieces=pieces,
    )


def _step(
    structure: Structure,
    segment: Segment,
    arrays: Arrays,
    axes: tuple[str, ...],
    prepared: Any,
    systems: Systems,
    state: State,
    number: Any,
) -> State:
    def branch(phase: int) -> Any:
        made = structure.phases[phase]
        return lambda s: make_level(structure, made, arrays, s, number, axes, prepared, segment.starting, systems)

    if len(segment.phases) == 1:
        return branch(segment.phases[0])(state)
    used = sorted(set(segment.phases))
    table = jnp.asarray([used.index(p) for p in segment.phases], jnp.int32)
    return lax.switch(table[number - segment.start], [branch(phase) for phase in used], state)


def march_kernel(structure: Structure, segment: Segment) -> Kernel | None:
    """The kernel that marches through a segment; None where levels are computed one by one here."""
    name = dict(structure.kernels).get("march", "slices")
    watched = structure.recording is not None or (structure.showing is not None and structure.showing.averaged)
    alone = len(segment.phases) == 1 and not watched and not segment.starting
    alone = alone and segment.stop - segment.start > 1  # one level alone is not worth a program of its own
    return get("march", name) if name != "slices" and alone else None


def find_jump(structure: Structure) -> str | None:
    """The name of the kernel that jumps over the levels of a segment; None where none does."""
    kernels = [march_kernel(structure, after_first(segment)) for segment in structure.segments]
    return next((kernel.backend for kernel in kernels if kernel is not None and kernel.jumps), None)


def _march_by_kernel(
    kernel: Kernel,
    structure: Structure,
    segment: Segment,
    axes: tuple[str, ...],
    arrays: Arrays,
    otherwise: Advance,
    carry: Carry,
    start: Any,
    count: int,
) -> Carry:
    """`count` levels at once; those that the kernel does not serve one by one."""
    call = _march_call(structure, segment, axes, count)
    if kernel.refusal(call) is not None:
        return otherwise(carry, start, count)
    return _marched(kernel, call, arrays, carry, start)


def _march_call(structure: Structure, segment: Segment, axes: tuple[str, ...], count: int, block: int = 0) -> MarchCall:
    return MarchCall(structure, structure.phases[segment.phases[0]], axes, count, detect_platform(), block)


def _marched(kernel: Kernel, call: MarchCall, arrays: Arrays, carry: Carry, start: Any) -> Carry:
    state, records = carry
    levels = kernel(call, arrays, state.levels, jnp.asarray(start, jnp.int32))
    return State(levels, state.memory, state.logs), records


@register("march", backend="slices")
def march_by_slices(call: MarchCall, arrays: Arrays, levels: Any, start: Any) -> Any:
    """Fused shifted slices, level by level; the portable kernel, for every rule, boundary, rank and dtype."""
    structure, phase = call.structure, call.phase
    state, prepared = _prepare(structure, call.axes, arrays, State(dict(levels)))
    number = structure.phases.index(phase)
    segment = Segment(1, call.steps + 1, (number,))
    step = partial(_step, structure, segment, arrays, call.axes, prepared, {})
    turn = turn_of(structure, segment)
    state = with_spare(state) if turn > 1 else state

    def each(held: Carry, at: Any) -> Carry:
        return step(held[0], at), held[1]

    state, _ = _march(each, turn, (state, {}), start, call.steps)
    return (without_spare(state) if turn > 1 else state).levels


def _march(step: Any, turn: int, carry: Carry, start: Any, count: int) -> Carry:
    """`count` steps from level `start` on, `turn` of them unrolled; first what is left over: in one loop, what it keeps
    for a derivative would be joined to what all others keep, which is copied then."""
    if count == 1:
        return step(carry, start)
    left = count % (turn := min(turn, count))
    first = jnp.asarray(start)

    def each(k: jax.Array, held: Carry) -> Carry:  # levels are counted: a table of them would grow with the run
        return step(held, first + k.astype(first.dtype))

    carry = lax.fori_loop(0, left, each, carry, unroll=left) if left else carry
    return lax.fori_loop(left, count, each, carry, unroll=turn)
