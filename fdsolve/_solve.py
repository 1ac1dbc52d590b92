"""The two doors: `plan` says what will run, `solve` runs it."""

import math
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .adjoint import AbstractAdjoint
from .errors import DeclarationError, FdsolveError, FdsolveWarning, RunError
from .kernels import Arrays, Chosen, choose_kernels, give_up, kernels_of, names_of, resolve
from .planning import Plan, make_plan, show_bytes, show_option
from .region import Box
from .solution import LastLevel, Solution, check_logs
from .stepping import ASSEMBLY, Carry, begin, finish, interiors, solves_of


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
    _check_later(adjoint, monitors, progress)
    return _with_kernels(
        make_plan(fields, _join_parameters(parameters, keywords), stepper, save, solver), kernel, adjoint
    )[0]


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

    Raises DeclarationError or PlanningError for what does not fit together, before anything runs; RunError for a
    history that does not fit in memory, for an initial state that is not finite, and where equations could not be
    solved (in a traced run, fields are nan from there on). Warns where the declared step is unstable.
    """
    _check_kernel(kernel)
    _check_later(adjoint, monitors, progress)
    made, chosen = _with_kernels(
        make_plan(fields, _join_parameters(parameters, keywords), stepper, save, solver), kernel, adjoint
    )
    arrays = Arrays(**made.operands)
    concrete = not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays))
    axes = made.problem.scope.grid.space
    _check_memory(made)
    carry, finite = begin(made.structure, axes, arrays)
    if concrete:
        made.warn_if_unstable()
        check_logs(made, carry[0].logs, made.structure.first_level)
        _check_initial(made, finite, carry)
    while True:
        try:
            history, carry, hidden, failed, finite = finish(made.structure, axes, arrays, carry)
            break
        except (FdsolveError, FloatingPointError):
            raise
        except Exception as error:  # a kernel does not build: the next one, if it was not asked for
            give_up(chosen, error)
            made, chosen = _with_kernels(made, kernel, adjoint)
    last = interiors(made.structure, carry[0])
    if concrete:
        _check_stepper(made, failed)
        check_logs(made, carry[0].logs, made.structure)
        _warn_not_finite(made, finite, last)
    reports = dict(zip(solves_of(made.structure), carry[0].logs, strict=True))
    return Solution(made, *_finish(made, history, last, hidden), carry[1], reports)


def _check_stepper(made: Plan, failed: Any) -> None:
    """Refuses a run in which the stepper could not take a step as it was told to."""
    level = -1 if failed is None else int(failed)
    if level >= 0:
        time, stepper = made.problem.scope.grid.time, made.structure.stepper
        assert time is not None and stepper is not None
        raise RunError(stepper.explain(level, float(time.points[level])))


def _warn_not_finite(made: Plan, finite: jax.Array, last: Mapping[str, jax.Array]) -> None:
    """Warns where the last level holds nan or infinity: what was saved before may still be good."""
    for name, where in _not_finite(made, finite, last):
        warnings.warn(
            f"The last level of `{name}` is not finite at {where}. "
            f"Look at earlier levels, at the step (print the plan), and at divisions and roots in the rules.",
            FdsolveWarning,
            stacklevel=3,
        )


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
    bare = replace(made.structure, kernels=(), adjoint=adjoint)
    chosen = choose_kernels(bare, made.problem.scope.grid.space, kernel, made.operands)
    lines = tuple(line for one in chosen for line in one.lines) + _adjoint_lines(made, adjoint)
    structure = replace(bare, kernels=names_of(chosen))
    found = replace(made, structure=structure, kernels=lines, served=kernels_of(chosen), assembly=ASSEMBLY)
    return found, chosen


def _adjoint_lines(made: Plan, adjoint: AbstractAdjoint | None) -> tuple[str, ...]:
    """What the plan prints of the adjoint, for the longest stretch without a save."""
    levels = made.structure.saved_levels
    if adjoint is None or made.problem.scope.grid.time is None:
        return ()
    marks = [0, *levels, made.structure.segments[-1].stop - 1]
    longest = max(b - a for a, b in pairwise(sorted(marks)))
    held = sum(
        math.prod(one.padded_shape) * np.dtype(one.dtype).itemsize * max(one.kept, 1) for one in made.structure.carried
    )
    return (f"Adjoint: {adjoint.describe(longest, held)}",) if longest else ()


def _check_later(adjoint: Any, monitors: Any, progress: Any) -> None:
    if adjoint is not None and not isinstance(adjoint, AbstractAdjoint):
        got = f"the class {adjoint.__name__}" if isinstance(adjoint, type) else show_option("adjoint", adjoint)
        raise DeclarationError(f"adjoint= takes an adjoint such as fd.adjoint.Checkpointed(snapshots=20), got {got}")
    for name, value, default in (("monitors", monitors, ()), ("progress", progress, False)):
        if not isinstance(value, type(default)) or value:
            raise DeclarationError(f"{name}= is not served yet; leave it out. Got {show_option(name, value)}")


def _check_memory(made: Plan) -> None:
    """Refuses a history that would not fit in the memory at hand."""
    wanted, held, available = made.bytes_saved, made.bytes_held, available_bytes()
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


def _finish(
    made: Plan, history: Mapping[str, jax.Array], last: Mapping[str, jax.Array], hidden: Mapping[str, jax.Array]
) -> tuple[Mapping[str, jax.Array], dict[str, jax.Array]]:
    """Histories at the wanted times, holes marked by nan."""
    histories: dict[str, jax.Array] = {}
    finals = {name: _mark_holes(made, name, array, hidden) for name, array in last.items()}
    if made.structure.saves_last_only:
        return LastLevel(finals, made.problem.scope.grid.time is not None), finals
    for name, array in history.items():
        if made.save.interpolates:
            share = jnp.asarray(made.save.share, jnp.zeros((), array.dtype).real.dtype)
            share = share.reshape((-1,) + (1,) * (array.ndim - 1))
            left, right = jnp.asarray(made.save.left), jnp.asarray(made.save.right)
            array = array[left] * (1 - share) + array[right] * share
        elif made.save.left != tuple(range(len(made.save.levels))):
            array = array[jnp.asarray(made.save.left)]
        histories[name] = _mark_holes(made, name, array, hidden)
    return histories, finals


def _mark_holes(made: Plan, name: str, array: jax.Array, hidden: Mapping[str, jax.Array]) -> jax.Array:
    """The array with nan inside holes, of a fixed shape or `hidden` by parameters; integers keep their zeros."""
    points, nan = made.holes[name], jnp.nan
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return array
    if not points.empty:
        mask = points.to_mask(Box.of_shape(array.shape[array.ndim - len(made.problem.scope.grid.space) :]))
        array = jnp.where(mask, jnp.asarray(nan, array.dtype), array)
    return jnp.where(hidden[name], jnp.asarray(nan, array.dtype), array) if name in hidden else array
