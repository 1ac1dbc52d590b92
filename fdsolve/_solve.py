"""The two doors: `plan` says what will run, `solve` runs it."""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ._chunked import solve_in_chunks
from .adjoint import AbstractAdjoint, AbstractWhole, count_bytes, fit_adjoint, show_jump, show_needs
from .errors import DeclarationError, FdsolveError, NotFiniteWarning, PlanningError, RunError
from .kernels import Arrays, Chosen, choose_kernels, forwards_alone, give_up, kernels_of, names_of, resolve
from .monitors import AbstractMonitor, Checkpoints, Unwatched, check_monitors, note_unwatched
from .planning import Plan, make_plan, show_bytes, show_option, show_wrong
from .running import Kept, explain_last_level
from .solution import Solution, check_logs, make_histories
from .stepping import (
    ASSEMBLY,
    Carry,
    begin,
    describe_adjoint,
    find_jump,
    finish,
    first_carry,
    interiors,
    make_run,
    solves_of,
)


def plan(
    fields: Any,
    /,
    *,
    stepper: Any = None,
    solver: Any = None,
    save: Any = None,
    adjoint: Any = None,
    kernel: Any = "auto",
    monitors: Any = (),
    progress: Any = False,
    parameters: Any = None,
    **keywords: Any,
) -> Plan:
    """What `solve` with the same arguments will run, and why; print it."""
    _check_kernel(kernel)
    watching = _check_options(adjoint, monitors, progress)
    made = make_plan(fields, _join_parameters(parameters, keywords), stepper, save, solver)
    return _with_kernels(_with_notes(made, watching, progress), kernel, adjoint)[0]


def solve(
    fields: Any,
    /,
    *,
    stepper: Any = None,
    solver: Any = None,
    save: Any = None,
    adjoint: Any = None,
    kernel: Any = "auto",
    monitors: Any = (),
    progress: Any = False,
    parameters: Any = None,
    **keywords: Any,
) -> Solution:
    """Solves the problem that the fields' assignments declare.

    Arguments: `fields`, a field or a sequence of coupled ones; `stepper` for rates (default RK4); `solver` for
    residuals, such as `fd.solvers.Newton()` or `fd.solvers.Multigrid()` (default: chosen by the plan); `save`
    (`fd.every(n)`, `fd.at(times)`, `fd.final()`, and `fd.receivers(...)` alone or beside one of them in a list; default
    every level); parameters of rules by keyword, or in
    `parameters=dict(...)` where their names clash with an option. Pure: works under jit, grad, jvp and vmap over
    parameters, initial and boundary values.

    `monitors`: what watches the run, such as `[fd.monitors.Conservation(), fd.monitors.Steady(1e-6)]`, and
    `fd.Checkpoints(path)`; `progress=True` shows a bar; `save=fd.stream(path, fd.every(10))` writes while it runs. A
    traced run (jit, grad, jvp, vmap) is not watched: the plan notes it, and asking for records raises RunError.

    Raises DeclarationError or PlanningError for what does not fit together, before anything runs; RunError for a
    history that does not fit in memory, for an initial state that is not finite, and where equations could not be
    solved (in a traced run, fields are nan from there on). Warns where the declared step is unstable.
    """
    declared = {
        "fields": fields,
        "stepper": stepper,
        "solver": solver,
        "save": save,
        "adjoint": adjoint,
        "kernel": kernel,
        "monitors": monitors,
        "progress": progress,
        "parameters": _join_parameters(parameters, keywords),
    }
    return solve_declared(declared)


def solve_declared(declared: Mapping[str, Any], kept: Kept | None = None) -> Solution:
    """Solves what the options of `solve` declare, all in one dict; from a checkpoint on, if one is given."""
    kernel, adjoint = declared["kernel"], declared["adjoint"]
    _check_kernel(kernel)
    watching = _check_options(adjoint, declared["monitors"], declared["progress"])
    made = make_plan(*(declared[name] for name in ("fields", "parameters", "stepper", "save", "solver")))
    made, chosen = _with_kernels(_with_notes(made, watching, declared["progress"]), kernel, adjoint)
    arrays, concrete = Arrays(**made.operands), not _is_traced(made)
    axes = made.problem.scope.grid.space
    _check_memory(made)
    carry, finite = begin(made.structure, axes, arrays)
    if concrete:
        made.warn_if_unstable()
        check_logs(made, carry[0].logs, made.structure.first_level)
        _check_initial(made, finite, carry)
    build = partial(_build, made, chosen, kernel, adjoint)
    if _goes_in_chunks(made, watching, declared["progress"], concrete):
        return solve_in_chunks(made, arrays, carry, watching, declared, build, kept)
    made, (history, carry, hidden, failed, finite) = build(partial(_finish, axes=axes, arrays=arrays, carry=carry))
    if not concrete:
        history, carry, hidden = _one_way(made, (history, carry, hidden))
    last = interiors(made.structure, carry[0])
    if concrete:
        _check_stepper(made, failed)
        check_logs(made, carry[0].logs, made.structure)
        _warn_not_finite(made, arrays, finite, last, history)
    reports = dict(zip(solves_of(made.structure), carry[0].logs, strict=True))
    records = {} if concrete or not watching else Unwatched(watching)
    return Solution(made, *make_histories(made, history, last, hidden), carry[1], reports, records)


def _build(
    made: Plan, chosen: tuple[Chosen, ...], kernel: Any, adjoint: Any, work: Callable[[Plan], Any]
) -> tuple[Plan, Any]:
    """What `work` gives for the first plan whose kernels build, after that plan."""
    while True:
        try:
            return made, work(made)
        except (FdsolveError, FloatingPointError):
            raise
        except Exception as error:  # a kernel does not build: the next one, if it was not asked for
            _explain_one_way(made, error)
            give_up(chosen, error)
            made, chosen = _with_kernels(made, kernel, adjoint)


def _finish(made: Plan, axes: tuple[str, ...], arrays: Arrays, carry: Carry) -> Any:
    """The rest of a run, or all of it by an adjoint that acts on whole runs."""
    adjoint = made.structure.adjoint
    if isinstance(adjoint, AbstractWhole) and made.problem.scope.grid.time is not None:
        return adjoint.whole(make_run(made.structure, axes, made.problem.store.repeats), arrays)
    return finish(made.structure, axes, arrays, carry)


def _goes_in_chunks(made: Plan, watching: Sequence[AbstractMonitor], progress: bool, concrete: bool) -> bool:
    """Whether something is to be done while the run is under way. Raises where it cannot be."""
    writes = made.stream is not None or any(isinstance(one, Checkpoints) for one in watching)
    if made.problem.scope.grid.time is None and (writes or watching):
        raise DeclarationError("Monitors, fd.stream and fd.Checkpoints act while a run marches; the grid has no time.")
    if writes and not concrete:
        raise RunError(
            "fd.stream and fd.Checkpoints write files while a run is under way, which jit, grad and vmap cannot; leave "
            "them out there."
        )
    return concrete and bool(writes or watching or progress) and made.problem.scope.grid.time is not None


def _is_traced(made: Plan) -> bool:
    """Whether it runs under jit, grad, jvp or vmap."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(made.operands))


def _with_notes(made: Plan, watching: Sequence[AbstractMonitor], progress: bool) -> Plan:
    """The plan, which notes what does not watch a traced run."""
    if made.problem.scope.grid.time is None or not (watching or progress) or not _is_traced(made):
        return made
    return replace(made, notes=(*made.notes, note_unwatched(watching, progress)))


def _check_one_way(made: Plan, adjoint: AbstractAdjoint | None) -> None:
    """Refuses adjoints that go forward in time with a stepper whose derivatives go back alone."""
    stepper = made.structure.stepper
    if stepper is not None and isinstance(adjoint, AbstractWhole) and (why := stepper.why_not_forward(f"{adjoint!r}")):
        raise PlanningError(why)


def _one_way(made: Plan, results: Any) -> Any:
    """The results of a traced run, which say so where gradients are asked of a stepper that has tangents alone."""
    stepper, why = made.structure.stepper, None
    if stepper is not None and not isinstance(made.structure.adjoint, AbstractWhole):
        why = stepper.why_not_back()
    return results if why is None else forwards_alone(why, results)


def _explain_one_way(made: Plan, error: Exception) -> None:
    """The same for JAX's own error where jvp meets such a stepper."""
    stepper = made.structure.stepper
    if stepper is None or not isinstance(error, TypeError) or "custom_vjp" not in str(error):
        return
    if why := stepper.why_not_forward("jax.jvp"):
        raise PlanningError(why) from error


def _check_stepper(made: Plan, failed: Any) -> None:
    """Refuses a run in which the stepper could not take a step as it was told to."""
    level = -1 if failed is None else int(failed)
    if level >= 0:
        time, stepper = made.problem.scope.grid.time, made.structure.stepper
        assert time is not None and stepper is not None
        raise RunError(stepper.explain(level, float(time.points[level])))


def _warn_not_finite(
    made: Plan, arrays: Arrays, finite: jax.Array, last: Mapping[str, jax.Array], history: Mapping[str, jax.Array]
) -> None:
    """Warns where the last level holds nan or infinity: what was saved before may still be good."""
    if not np.all(finite):
        warnings.warn(explain_last_level(made, arrays, last, history), NotFiniteWarning, stacklevel=4)


def _not_finite(made: Plan, finite: jax.Array, last: Mapping[str, jax.Array]) -> Iterator[tuple[str, str]]:
    """The fields that are not finite, and where."""
    axes = made.problem.scope.grid.space
    for (name, array), good in zip(last.items(), np.asarray(finite), strict=True):
        if not good:
            wrong = np.argwhere(~np.isfinite(np.asarray(array)))
            place = ", ".join(f"{axis}={int(i)}" for axis, i in zip(axes, wrong[0], strict=True))
            yield name, f"{len(wrong)} points, the first at {place}"


def _join_parameters(parameters: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    if parameters is not None and not isinstance(parameters, Mapping):
        raise DeclarationError(
            f"parameters= takes a dict of parameters by name, got {parameters!r}. A parameter called `parameters` goes "
            f"into it: parameters=dict(parameters=...)."
        )
    unnamed = [name for name in parameters or {} if not isinstance(name, str)]
    if unnamed:
        raise DeclarationError(
            f"parameters= takes a dict of parameters by name, got the key {unnamed[0]!r}; use a string."
        )
    twice = sorted(set(parameters or {}) & set(keywords))
    if twice:
        raise DeclarationError(f"The parameter `{twice[0]}` is given twice: as a keyword and in parameters=dict(...).")
    return {**(parameters or {}), **keywords}


def _check_kernel(kernel: Any) -> None:
    try:
        resolve(kernel)
    except DeclarationError as error:
        raise DeclarationError(f"{error} A parameter called `kernel` goes into parameters=dict(kernel=...).") from None


def _with_kernels(made: Plan, kernel: Any, adjoint: Any) -> tuple[Plan, tuple[Chosen, ...]]:
    """The plan with the kernels of its operations, and how they were chosen."""
    _check_one_way(made, adjoint)
    fitted = _fit_adjoint(made) if adjoint is None else None
    used = fitted if fitted is not None and _is_traced(made) else adjoint
    bare = replace(made.structure, kernels=(), adjoint=used)
    chosen = choose_kernels(bare, made.problem.scope.grid.space, kernel, made.operands)
    found = replace(
        made, structure=replace(bare, kernels=names_of(chosen)), served=kernels_of(chosen), assembly=ASSEMBLY
    )
    lines = tuple(line for one in chosen for line in one.lines) + _adjoint_lines(found, adjoint or fitted)
    return replace(found, kernels=lines), chosen


def _adjoint_lines(made: Plan, adjoint: AbstractAdjoint | None) -> tuple[str, ...]:
    """What the plan prints of the adjoint, for the longest stretch without a save."""
    levels = made.structure.saved_levels
    if made.problem.scope.grid.time is None:
        return ()
    total = made.structure.segments[-1].stop - 1
    longest = max(b - a for a, b in pairwise(sorted([0, *levels, total])))
    if not longest:
        return ()
    if (jump := find_jump(made.structure)) is not None:
        shown = show_jump(jump) if adjoint is None else adjoint.describe_jump(jump, _state_bytes(made))
        if shown is not None:
            return (f"Adjoint: {shown}",)
    if adjoint is None:
        needs = show_needs(total, _state_bytes(made))
        return (f"Adjoint: keeps what all {total} steps need, which fits, {needs}; none is computed again",)
    axes = made.problem.scope.grid.space
    return (f"Adjoint: {describe_adjoint(made.structure, axes, adjoint, longest, _carry_bytes(made))}",)


def _carry_bytes(made: Plan) -> int:
    """Bytes of all that goes from step to step: levels, what the stepper remembers, records of receivers."""
    structure, axes = made.structure, made.problem.scope.grid.space
    if structure.stepper is None and structure.recording is None and not solves_of(structure):
        return _state_bytes(made)

    def leaves(arrays: Arrays) -> list[Any]:  # alone: a report of a solver, built anew around shapes, is no report
        return jax.tree.leaves(first_carry(structure, axes, arrays))

    return count_bytes(jax.eval_shape(leaves, Arrays(**made.operands)))


def _state_bytes(made: Plan) -> int:
    """Bytes of all levels kept."""
    return sum(
        math.prod(one.padded_shape) * np.dtype(one.dtype).itemsize * max(one.kept, 1) for one in made.structure.carried
    )


def _fit_adjoint(made: Plan) -> AbstractAdjoint | None:
    """The default adjoint, for derivatives that may be asked for; None where all that steps need fits easily."""
    if made.problem.scope.grid.time is None:
        return None
    structure = made.structure
    return fit_adjoint(structure.segments[-1].stop - 1, _state_bytes(made), available_bytes(), structure.work)


def _check_options(adjoint: Any, monitors: Any, progress: Any) -> tuple[AbstractMonitor, ...]:
    """The monitors; refuses wrong values of the three options."""
    if adjoint is not None and not isinstance(adjoint, AbstractAdjoint):
        got = show_wrong("adjoint", adjoint)
        raise DeclarationError(f"adjoint= takes an adjoint such as fd.adjoint.Checkpointed(snapshots=20), got {got}")
    if not isinstance(progress, bool):
        raise DeclarationError(f"progress= is True or False, got {show_option('progress', progress)}")
    return check_monitors(monitors)


def _check_memory(made: Plan) -> None:
    """Refuses a history that would not fit in the memory at hand."""
    wanted, held, available = made.bytes_saved, made.bytes_held, available_bytes()
    wanted = 0 if made.stream is not None else wanted
    if available is None or wanted + held <= 0.9 * available:
        return
    if held > 0.45 * available:
        raise RunError(
            f"The levels held while marching would take {show_bytes(held)}; {show_bytes(available)} are free. Take "
            f"fewer "
            f"points, or a smaller dtype such as jnp.float32."
        )
    total = len(made.structure.saved_levels)
    raise RunError(
        f"The saved history would take {show_bytes(wanted)} ({total} levels); {show_bytes(available)} are free. "
        f"Save less: save=fd.every({max(2, int(np.ceil(wanted / (0.4 * available))))}), fd.at(times) or fd.final()."
    )


def available_bytes() -> int | None:
    """Memory that a run can still use, in bytes; None where it is not known."""
    stats = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _check_initial(made: Plan, finite: jax.Array, carry: Carry) -> None:
    """Refuses to start from values that are not finite."""
    if np.all(finite):
        return
    for name, where in _not_finite(made, finite, interiors(made.structure, carry[0])):
        state = "initial state" if made.problem.scope.grid.time is not None else "solution"
        raise RunError(
            f"The {state} of `{name}` is not finite at {where}. "
            f"Check the rule {'assigned to its first level' if state == 'initial state' else 'there'}."
        )
