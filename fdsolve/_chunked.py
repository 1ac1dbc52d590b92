"""A solve that is run in chunks: with monitors, a bar, a store that is written on the way, checkpoints."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from .errors import FdsolveError, FdsolveWarning, RunError
from .files import ZarrStream, check_place
from .kernels import Arrays
from .monitors import AbstractMonitor, Checkpoints, Watch, make_progress
from .planning import Plan, SavePlan
from .running import AbstractSink, Drive, Keeper, Kept, Memory, Nowhere, Outcome, Store, explain_not_finite
from .solution import (
    LastLevel,
    Solution,
    StoredHistory,
    holes_of,
    make_histories,
    mark_holes,
    mark_shown,
    time_coordinate,
)
from .stepping import Carry, get_ready, hidden_points, interiors, shown, solves_of, without_means

Build = Callable[[Callable[[Plan], Any]], tuple[Plan, Any]]
"""Does something for a plan, or for the next one where a kernel does not build: that plan, and what it gave."""


def solve_in_chunks(
    made: Plan,
    arrays: Arrays,
    carry: Carry,
    monitors: Sequence[AbstractMonitor],
    declared: Mapping[str, Any],
    build: Build,
    kept: Kept | None = None,
) -> Solution:
    """Runs a plan in chunks from its first level on, or from a checkpoint of it; what it gives if it stops early is
    what there is.

    `declared` is what the problem was solved with, for checkpoints; `build` does what it is given for the first plan
    whose kernels build.

    Raises RunError, with what there is as its `solution`, where values are not finite or equations were not solved.
    """
    structure, axes = made.structure, made.problem.scope.grid.space
    keeper, level = _make_keeper(monitors), 0 if kept is None else kept.level
    hidden = hidden_points(structure, axes, arrays)
    holes = {name: holes_of(made, name, hidden) for name in made.problem.names}
    watch = Watch([one for one in monitors if not isinstance(one, Checkpoints)], made, holes)

    def get_drive(made: Plan) -> tuple[Drive, Carry]:
        begun, ready = get_ready(made.structure, axes, arrays, carry)
        begun = begun if kept is None else kept.carry(begun)
        drive = Drive(made, axes, arrays, ready, watch, keeper, level)
        drive.build(begun)
        return drive, begun

    if made.stream is not None and kept is None:
        check_place(Path(made.stream.path), made.stream.overwrite)
    if keeper is not None and kept is None:
        keeper.check()
    made, (drive, begun) = build(get_drive)
    if keeper is not None and kept is None:
        used = {"march": "slices", "stencil": "slices", **dict(made.structure.kernels)}
        keeper.begin({**declared, "kernel": used, "monitors": monitors})
    sink = _make_sink(made, arrays, keeper, carry, hidden, kept)
    if keeper is not None and kept is not None:
        keeper.go_on()
        watch.restore(kept.watched)
    time = made.problem.scope.grid.time
    assert time is not None
    bar = make_progress(declared["progress"], level, structure.segments[-1].stop - 1, time.units)
    try:
        outcome = drive.run(begun, bar, sink)
    finally:
        sink.close()
    if keeper is not None and not outcome.interrupted:
        keeper.end()
    return _conclude(made, arrays, outcome, sink, watch, hidden)


def _make_keeper(monitors: Sequence[AbstractMonitor]) -> Keeper | None:
    found = [one for one in monitors if isinstance(one, Checkpoints)]
    if len(found) > 1:
        raise RunError(f"One fd.Checkpoints(...) serves a run; got {len(found)}.")
    return Keeper(found[0].path, found[0].every, found[0].overwrite) if found else None


def _make_sink(
    made: Plan,
    arrays: Arrays,
    keeper: Keeper | None,
    carry: Carry,
    hidden: Mapping[str, jax.Array],
    kept: Kept | None,
) -> AbstractSink:
    """Where saved levels go: memory, the store asked for, or with checkpoints one beside them."""
    if made.stream is None and made.structure.saves_last_only:
        return Nowhere()
    path = made.stream.path if made.stream is not None else keeper.store if keeper is not None else None
    count, time = len(made.structure.saved_levels), made.problem.scope.grid.time
    first = shown(made.structure, made.problem.scope.grid.space, arrays, carry[0])
    if path is None or not count:
        return Memory(count, first if count else {})
    assert time is not None
    if kept is not None:
        stream = ZarrStream.reopen(path, kept.num_saved, count, run=kept.run)
    else:
        overwrite = made.stream is not None and made.stream.overwrite
        run = None if keeper is None else keeper.run
        stream = ZarrStream(path, _template(made, first), count, overwrite=overwrite, run=run)
    return Store(stream, _times_saved(made), lambda name, array: mark_shown(made, name, jnp.asarray(array), hidden))


def _times_saved(made: Plan) -> np.ndarray:
    """The times of the levels that are saved: as they were asked for, unless what was asked for lies between them."""
    save, time = made.save, made.problem.scope.grid.time
    assert time is not None
    asked = np.asarray(time.points)[list(save.levels)]
    if not save.interpolates:
        asked[list(save.left)] = save.times
    return time_coordinate(made, asked).values


def _template(made: Plan, first: Mapping[str, jax.Array]) -> xr.Dataset:
    """The Dataset to come, without a state yet; from the first."""
    save = SavePlan((0,), (0,), (0,), (0.0,), (float(made.problem.scope.grid.time.points[0]),))  # type: ignore[union-attr]
    history = {name: array[None] for name, array in first.items()}
    one = Solution(replace(made, save=save), history, first).to_xarray()
    return one.isel({made.problem.scope.grid.time_name: slice(0, 0)})


def _conclude(
    made: Plan, arrays: Arrays, outcome: Outcome, sink: AbstractSink, watch: Watch, hidden: Mapping[str, jax.Array]
) -> Solution:
    """The solution, or the error with what there is of one."""
    last = made.structure.segments[-1].stop - 1
    error, reason = outcome.error, outcome.reason
    if outcome.broken is not None:
        error = RunError(explain_not_finite(made, arrays, outcome.broken))
    ended = outcome.level < last or error is not None
    solution = _collect(_shortened(made, sink, outcome) if ended else made, outcome, sink, watch, hidden)
    if error is not None:
        raise _with_solution(error, solution)
    if outcome.interrupted:
        warnings.warn(
            f"Interrupted at level {outcome.level} of {last}: the solution ends there.", FdsolveWarning, stacklevel=4
        )
    return replace(solution, stopped=reason)


def _with_solution(error: FdsolveError, solution: Solution) -> FdsolveError:
    error.solution = solution  # type: ignore[attr-defined]
    return error


def _shortened(made: Plan, sink: AbstractSink, outcome: Outcome) -> Plan:
    """The plan of a run that ended early: with the saves that it made."""
    time, save, count = made.problem.scope.grid.time, made.save, sink.num_saved
    assert time is not None
    if isinstance(sink, Nowhere):
        return replace(made, save=SavePlan((outcome.level,), (0,), (0,), (0.0,), (float(time.points[outcome.level]),)))
    states = [k for k, right in enumerate(save.right) if right < count]
    return replace(
        made,
        save=SavePlan(
            save.levels[:count],
            tuple(save.left[k] for k in states),
            tuple(save.right[k] for k in states),
            tuple(save.share[k] for k in states),
            tuple(save.times[k] for k in states),
        ),
    )


def _collect(
    made: Plan, outcome: Outcome, sink: AbstractSink, watch: Watch, hidden: Mapping[str, jax.Array]
) -> Solution:
    """The solution of what there is."""
    structure, carry = made.structure, outcome.carry
    last = interiors(structure, carry[0])
    reports = dict(zip(solves_of(structure), carry[0].logs, strict=True))
    finals = {name: mark_holes(made, name, array, hidden) for name, array in last.items()}
    if made.stream is not None:
        showing = structure.showing
        names = tuple(finals) if showing is None else tuple(one.name for one in showing.fields)
        history: Mapping[str, Any] = StoredHistory(made.stream.path, names)
    elif isinstance(sink, Nowhere):
        history = LastLevel(finals, True)
    else:
        found = {name: jnp.asarray(array) for name, array in sink.read().items()}
        history, _ = make_histories(made, found, last, hidden)
    return Solution(made, history, finals, _recorded(made, outcome), reports, watch.to_datasets())


def _recorded(made: Plan, outcome: Outcome) -> Mapping[str, jax.Array]:
    """What receivers recorded of the levels that there are."""
    records, reached = without_means(outcome.carry[1]), outcome.level - (outcome.broken is not None)
    if made.receivers is None:
        return records
    return {name: array[: reached // made.receivers.n + 1] for name, array in records.items()}
