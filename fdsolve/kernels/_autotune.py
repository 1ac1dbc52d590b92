"""Measuring: candidates are checked against the judge before they are timed."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import FdsolveError, PlanningError
from ._registry import Kernel, describe_error

ROUNDS = 7
SAMPLE_SECONDS = 2e-3
MAX_REPEATS = 1000
TOLERANCE = 256
"""How many units of rounding a result may be off, of the largest entry of the judge's."""
JUDGES = ("reference", "slices")


@dataclass(frozen=True)
class Measured:
    """The fastest of the kernels that gave the judge's answer; median times in seconds; who was refused, and why."""

    backend: str
    times: tuple[tuple[str, float], ...]
    refused: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return ", ".join(f"{name} {_show_time(seconds)}" for name, seconds in self.times)


def measure(call: Any, candidates: Sequence[Kernel], make_operands: Callable[[], Sequence[Any]]) -> Measured:
    """Times the candidates on concrete operands, interleaved, after checking each against the judge.

    The judge is `reference`, or `slices` where there is none. Raises PlanningError where no judge is among the
    candidates, or none of them gives its answer.
    """
    judge = next((k for name in JUDGES for k in candidates if k.backend == name), None)
    if judge is None:
        raise PlanningError(f"No judge to check kernels of `{call.operation}` against: {' or '.join(JUDGES)}.")
    with jax.ensure_compile_time_eval():
        operands = make_operands()
        expected = _run(judge, call, operands)
        runs, refused = {}, []
        for kernel in candidates:
            if kernel.backend == "reference":
                continue
            try:
                compiled = jax.jit(partial(kernel, call))
                found = jax.block_until_ready(compiled(*operands))
            except Exception as error:
                refused.append((kernel.backend, f"failed to build: {describe_error(error)}"))
                continue
            if (why := difference(found, expected)) is not None:
                refused.append((kernel.backend, f"wrong: {why}"))
                continue
            runs[kernel.backend] = partial(compiled, *operands)
        if not runs:
            reasons = "; ".join(f"{name}: {why}" for name, why in refused)
            raise PlanningError(f"No kernel of `{call.operation}` gives the judge's answer. {reasons}.")
        times = _time(runs)
    ranked = tuple(sorted(times.items(), key=lambda entry: entry[1]))
    return Measured(ranked[0][0], ranked, tuple(refused))


def difference(found: Any, expected: Any) -> str | None:
    """How a result differs from the one expected beyond rounding; None if it does not."""
    ours, theirs = jax.tree.leaves(found), jax.tree.leaves(expected)
    if jax.tree.structure(found) != jax.tree.structure(expected):
        return "gives another structure of arrays"
    for mine, other in zip(ours, theirs, strict=True):
        a, b = np.asarray(mine), np.asarray(other)
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"gives {a.dtype}{list(a.shape)}, the judge {b.dtype}{list(b.shape)}"
        if not jnp.issubdtype(b.dtype, jnp.inexact):
            if not np.array_equal(a, b):
                return f"differs in {int((a != b).sum())} of {a.size} entries"
            continue
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return "is not finite where the judge is, or the other way round"
        finite = np.isfinite(b)
        off = np.max(np.abs(a - b), where=finite, initial=0.0)
        allowed = TOLERANCE * float(jnp.finfo(b.dtype).eps) * np.max(np.abs(b), where=finite, initial=0.0)
        if off > allowed:
            return f"differs by {off:.3g} where {allowed:.3g} is allowed"
    return None


def fingerprint(kernels: Sequence[Kernel]) -> str:
    """Who takes part in a measurement: names, and a digest of their functions' own code."""
    return ", ".join(sorted(f"{one.backend} {_digest(one)}" for one in kernels))


def _digest(kernel: Kernel) -> str:
    code = getattr(kernel.function, "__code__", None)
    seen = (code.co_code, code.co_names, [c for c in code.co_consts if not hasattr(c, "co_code")]) if code else kernel
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:12]


def _run(kernel: Kernel, call: Any, operands: Sequence[Any]) -> Any:
    try:
        return jax.block_until_ready(jax.jit(partial(kernel, call))(*operands))
    except FdsolveError:
        raise
    except Exception as error:
        raise PlanningError(
            f"The judge `{kernel.backend}` of `{call.operation}` failed: {describe_error(error)}"
        ) from error


def _time(runs: dict[str, Any]) -> dict[str, float]:
    """The median time of each run in seconds, taken in turns so that a disturbance meets all of them."""
    repeats, samples = {}, {name: [] for name in runs}
    for name, run in runs.items():
        repeats[name] = min(MAX_REPEATS, max(1, round(SAMPLE_SECONDS / max(_once(run, 1), 1e-9))))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            samples[name].append(_once(run, repeats[name]))
    return {name: median(found) for name, found in samples.items()}


def _once(run: Any, repeats: int) -> float:
    start = perf_counter()
    for _ in range(repeats):
        result = run()
    jax.block_until_ready(result)
    return (perf_counter() - start) / repeats


def _show_time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"
