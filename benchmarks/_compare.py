"""Comparisons of fdsolve with others: the same numbers first, then times, gradients and memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._table import Row, show_seconds
from ._timing import interleave

Function = Callable[..., Any]
Arguments = Sequence[Any]


@dataclass(frozen=True)
class Choice:
    """Which cases of the kernels' benchmarks to run (all where empty), with which kernels, on how many threads."""

    problems: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    kernels: tuple[str, ...] = ("native", "auto")
    threads: int = 2


@dataclass(frozen=True)
class Settings:
    """How long to measure: seconds for each comparison, and whether large cases are left out."""

    budget: float = 3.0
    quick: bool = False
    choice: Choice = Choice()


def compare(
    settings: Settings, what: str, ours: Function, other: Function, arguments: Arguments, **options: Any
) -> Row:
    """A row that compares two compiled functions of the same arguments, which must agree."""
    (row,) = compare_several(settings, [(what, ours)], other, arguments, **options)
    return row


def compare_several(
    settings: Settings,
    ours: Sequence[tuple[str, Function]],
    other: Function,
    arguments: Arguments,
    *,
    against: str = "by hand",
    bar: float | None = None,
    wants_more: bool = False,
    note: str = "",
    least: int = 5,
    tolerance: float = 1e-4,
) -> list[Row]:
    """A row for each of several functions against another; all are timed in the same rounds."""
    expected = other(*arguments)
    for what, function in ours:
        check_agreement(what, function(*arguments), expected, tolerance)
    functions = [*(function for _, function in ours), other]
    samples = interleave([partial(f, *arguments) for f in functions], budget=settings.budget, least=least)
    shown = f"{show_seconds(samples.median(-1))} ({against})"
    rows = []
    for i, (what, _) in enumerate(ours):
        ratio, low, high = samples.ratio(-1, i) if wants_more else samples.ratio(i, -1)
        seconds = show_seconds(samples.median(i))
        rows.append(Row(what, seconds, shown, ratio, (low, high), bar, wants_more, note))
    return rows


def check_agreement(what: str, ours: Any, other: Any, tolerance: float) -> None:
    """Refuses to time functions that give different numbers: largest difference over the largest value."""
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(other), strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        scale = np.abs(b).max() + np.finfo(np.float32).tiny
        apart = np.abs(a - b).max() / scale
        if not apart <= tolerance:
            raise AssertionError(f"{what}: results differ by {apart:.3g} of the largest value")


def gradient(function: Callable[..., Any], argument: int = 0) -> Callable[..., Any]:
    """The compiled gradient of the mean square of a function's result."""
    return jax.jit(jax.grad(lambda *a: jnp.mean(jnp.square(function(*a))), argnums=argument))


def compile_for(function: Function, arguments: Arguments) -> Any:
    """The compiled program for arguments of these shapes: a function that also tells its memory."""
    return function.lower(*arguments).compile()  # type: ignore[attr-defined]


def memory_row(what: str, ours: Any, other: Any, size: int, bar: float, note: str) -> Row:
    """The largest temporary memory of a compiled program in units of `size` bytes."""
    held, others = (one.memory_analysis().temp_size_in_bytes / size for one in (ours, other))
    return Row(what, f"{held:.3g} arrays", f"{others:.3g} arrays (by hand)", held, None, bar, note=note)
