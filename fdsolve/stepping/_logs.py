"""How the systems of a march were solved: what is kept of the reports, level after level."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..planning import Solve, Structure
from ..solvers import HISTORY, Report


class Log(NamedTuple):
    """The first level at which a system was not solved (−1: none) and what happened there, else at the last level.

    `iterations` counts those of all levels; `report` is that of the failed level, or of the last.
    """

    failed: jax.Array
    iterations: jax.Array
    defect: jax.Array
    report: Report


def solves_of(structure: Structure) -> tuple[Solve, ...]:
    """All systems of a run, in order."""
    return tuple(
        dict.fromkeys(stage for phase in structure.phases for stage in phase.stages if isinstance(stage, Solve))
    )


def start_logs(structure: Structure) -> tuple[Log, ...]:
    """Before the first level."""
    return tuple(_empty(structure, stage) for stage in solves_of(structure))


def _empty(structure: Structure, stage: Solve) -> Log:
    real = jnp.finfo(structure.array(stage.fields[0]).dtype).dtype
    zero = jnp.zeros((), real)
    history = jnp.full((HISTORY,), jnp.nan, real)
    report = Report(jnp.zeros((), jnp.int32), zero, jnp.asarray(True), history, zero)
    return Log(jnp.asarray(-1, jnp.int32), jnp.zeros((), jnp.int32), zero, report)


def updated(structure: Structure, logs: tuple[Log, ...], reports: Mapping[Any, Report], number: Any) -> tuple[Log, ...]:
    """The logs after one more level."""
    return tuple(
        _after(log, reports[stage], number) if stage in reports else log
        for stage, log in zip(solves_of(structure), logs, strict=True)
    )


def _after(log: Log, report: Report, number: Any) -> Log:
    as_kept = Report(*(jnp.asarray(new).astype(old.dtype) for new, old in zip(report, log.report, strict=True)))
    as_kept = jax.lax.stop_gradient(as_kept)
    going = log.failed < 0
    kept = Report(*(jnp.where(going, new, old) for new, old in zip(as_kept, log.report, strict=True)))
    failed = jnp.where(going & ~as_kept.converged, jnp.asarray(number, jnp.int32), log.failed)
    defect = jnp.where(going, jnp.maximum(log.defect, as_kept.defect), log.defect)
    return Log(failed, log.iterations + as_kept.iterations, defect, kept)
