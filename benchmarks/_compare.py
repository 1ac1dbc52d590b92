"""Comparisons of fdsolve with others: the same numbers first, then times, gradients and memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._table import Row, show_seconds
from ._timing import interleave


@dataclass(frozen=True)
class Settings:
    """How long to measure: seconds for each comparison, and whether large cases are left out."""

    budget: float = 3.0
    quick: bool = False


def compare(
    settings: Settings,
    what: str,
    ours: Callable[..., Any],
    other: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    against: str = "by hand",
    bar: float | None = None,
    wants_more: bool = False,
    note: str = "",
    tolerance: float = 1e-3,
    least: int = 5,
) -> Row:
    """A row that compares two compiled functions of the same arguments, which must agree."""
    check_agreement(what, ours(*arguments), other(*arguments), tolerance)
    samples = interleave([lambda: ours(*arguments), lambda: other(*arguments)], budget=settings.budget, least=least)
    ratio, low, high = samples.ratio(1, 0) if wants_more else samples.ratio(0, 1)
    shown = f"{show_seconds(samples.median(1))} ({against})"
    return Row(what, show_seconds(samples.median(0)), shown, ratio, (low, high), bar, wants_more, note)


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


def memory_row(
    what: str,
    ours: Callable[..., Any],
    other: Callable[..., Any] | None,
    arguments: Sequence[Any],
    size: int,
    bar: float,
) -> Row:
    """The largest temporary memory of a compiled function in units of `size` bytes."""
    held = temporary_bytes(ours, arguments) / size
    shown = "–" if other is None else f"{temporary_bytes(other, arguments) / size:.2f} arrays (by hand)"
    return Row(what, f"{held:.2f} arrays", shown, held, None, bar)


def temporary_bytes(function: Callable[..., Any], arguments: Sequence[Any]) -> int:
    """The largest temporary memory of a compiled function."""
    found = function.lower(*arguments).compile().memory_analysis()  # type: ignore[attr-defined]
    return int(found.temp_size_in_bytes)
