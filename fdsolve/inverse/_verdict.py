"""The verdict of a direction in `fd.check_gradient`: Taylor remainders, kinks, jumps, and what rounding hides."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

FLOOR = 200.0  # roundings of the function's value below which a remainder tells nothing
ROUNDINGS = 8.0  # of the value, that a difference of two values has at least
TOLD = {8: 1e-3, 4: 1e-2}  # of hJv: where remainders and rounding are less, they tell that Jv is right
BEYOND = 1.1  # of the second difference at a kink, that remainders are at most
STEEP = 2.2  # slope above which something else may be hidden below
JUMP = 0.25  # slope of the second difference below which f jumps; at a kink it is about 1


@dataclass(frozen=True)
class Row:
    """One direction, `along` one parameter or "all".

    `steps` are h, `remainders` ‖f(x ± hv) − f(x) ∓ hJv‖, the larger of both, `slopes` theirs (nan below rounding),
    `mismatch` is |⟨Jv, w⟩ − ⟨v, Jᵀw⟩|/(‖Jv‖‖w‖); `verdict` "pass", "fail", "kink", or "hidden" where rounding hides how
    f changes, and `reason` what it rests on.
    """

    along: str
    steps: tuple[float, ...]
    remainders: tuple[float, ...]
    slopes: tuple[float, ...]
    mismatch: float
    verdict: str
    reason: str


@dataclass(frozen=True)
class Measured:
    """What is found along a direction v, with a random w in the space of values."""

    value: float  # ‖f(x)‖
    change: float  # ‖Jv‖
    above: np.ndarray  # ‖f(x + hv) − f(x) − hJv‖ by step
    below: np.ndarray  # ‖f(x − hv) − f(x) + hJv‖
    both: np.ndarray  # ‖f(x + hv) + f(x − hv) − 2f(x)‖
    mismatch: float
    derivative_is_finite: bool
    gradient: np.ndarray  # Jᵀw
    counts: bool  # whether any entry of it along v is other than zero

    @property
    def remainders(self) -> np.ndarray:
        """The larger of both sides by step; those above where f is not finite below."""
        return np.where(np.isfinite(self.below), np.maximum(self.above, self.below), self.above)


def compare(
    values: np.ndarray,
    change: np.ndarray,
    mismatch: float,
    steps: np.ndarray,
    back: np.ndarray,
    vector: np.ndarray,
) -> Measured:
    """Norms of the remainders."""
    middle, up, down = values[0], values[1 : len(steps) + 1], values[len(steps) + 1 :]
    return Measured(
        float(norm(middle)),
        float(norm(change)),
        norm(up - middle - steps[:, None] * change),
        norm(down - middle + steps[:, None] * change),
        norm(up + down - 2 * middle),
        float(mismatch),
        bool(np.isfinite(back).all() and np.isfinite(change).all()),
        back,
        bool(back[vector != 0].any()),
    )


def norm(vectors: np.ndarray) -> Any:
    """The norms of vectors along the last axis, of entries whose squares underflow too."""
    most = np.max(np.abs(vectors), axis=-1, initial=0.0, keepdims=True)
    unit = np.where(np.isfinite(most) & (most > 0), most, 1.0)
    return unit[..., 0] * np.linalg.norm(vectors / unit, axis=-1)


def bends(one: Measured, eps: float) -> float | None:
    """The slope of the second difference where it is that of a kink, about 1 at the smallest steps."""
    floor = FLOOR * eps * one.value
    usable = np.flatnonzero(np.isfinite(one.both) & (one.both > floor))
    if usable.size < 3:
        return None
    last = one.both[usable[-3:]]
    slopes = -np.diff(np.log2(last))
    return float(slopes[-1]) if (slopes < 1.3).all() else None


def judge(one: Measured, along: str, first: float, limits: tuple[float, float], eps: float, alone: str) -> Row:
    """The verdict of a direction; `alone` is that where f does not change along it."""
    least, match = limits
    left = one.remainders
    steps = first * 0.5 ** np.arange(len(left))
    floor = FLOOR * eps * (one.value + steps * one.change)
    clear = np.isfinite(left) & (left > floor)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.where(clear[1:] & clear[:-1], np.log2(left[:-1] / left[1:]), np.nan)
    known = slopes[np.isfinite(slopes)]
    bend = bends(one, eps)
    if not one.derivative_is_finite:
        verdict, reason = "fail", "the derivative is not finite" + (", and f bends" if bend is not None else "")
    elif one.mismatch > match and not (_is_rounding(one, first, eps) or _is_across(one, steps, bend, eps)):
        verdict, reason = "fail", f"forward and reverse differ by {one.mismatch:.0e}, {match:.0e} is allowed"
    elif bend is not None and bend < JUMP:
        verdict, reason = "fail", f"f jumps: its second difference falls with slope {bend:.2f} instead of 2"
    elif bend is not None and _is_beyond(one, eps):
        verdict, reason = "fail", "f bends, and Jv is not between its slopes on both sides"
    elif bend is not None:
        verdict, reason = "kink", f"f bends: its second difference falls with slope {bend:.2f} instead of 2"
    elif one.change == 0 and not left.any() and not one.counts:
        verdict, reason = alone, "f does not change along it"
    elif known.size == 0:
        verdict, reason = _without_slope(one, steps, eps)
    elif known[-1] < least:
        verdict, reason = "fail", f"Taylor slope {known[-1]:.2f}, {least:g} is wanted"
    else:
        verdict, reason = "pass", f"Taylor slope {known[-1]:.2f}"
    return Row(along, tuple(steps), tuple(left), tuple(slopes), one.mismatch, verdict, reason)


def is_unsure(row: Row) -> bool:
    """Whether smaller steps may tell otherwise: kinks near x spoil slopes, and what they add may fall faster."""
    if row.verdict == "fail":
        return row.reason.startswith(("Taylor", "f jumps", "f bends"))
    return row.reason.startswith("Taylor") and bool(np.array(row.slopes)[np.isfinite(row.slopes)][-1] > STEEP)


def settle(one: Measured, row: Row, limits: tuple[float, float], eps: float) -> Row:
    """The row at smaller steps of a direction that is unsure, where the last two slopes there tell; else `row`."""
    first = row.steps[-1] / 2
    closer = judge(one, row.along, first, limits, eps, "fail")
    known = np.array(closer.slopes)[np.isfinite(closer.slopes)]
    if not closer.reason.startswith("Taylor") or known.size < 2:
        return row
    passes, fails = (known[-2:] >= limits[0]).all(), (np.abs(known[-2:] - 1) < 0.3).all()
    if not (passes if closer.verdict == "pass" else fails) or closer.verdict == row.verdict:
        return row
    return replace(closer, reason=f"{closer.reason} at h below {2 * first:.0e}; f bends further off")


def _is_rounding(one: Measured, first: float, eps: float) -> bool:
    """Whether forward and reverse differ by less than f's rounding shows at the largest step, as of an invariant."""
    apart = one.mismatch * max(one.change, np.finfo(float).tiny)
    return bool(first * apart <= ROUNDINGS * eps * one.value)


def _is_across(one: Measured, steps: np.ndarray, bend: float | None, eps: float) -> bool:
    """Whether forward and reverse differ by no more than the slopes on both sides of a kink, where rounding takes each
    to a side."""
    if bend is None or bend < JUMP:
        return False
    last = _smallest(one, eps)
    return bool(one.mismatch * one.change * steps[last] <= BEYOND * one.both[last])


def _is_beyond(one: Measured, eps: float) -> bool:
    """Whether Jv is not between the slopes on both sides of a kink: remainders are larger than their difference."""
    last = _smallest(one, eps)
    return bool(one.remainders[last] > BEYOND * one.both[last])


def _smallest(one: Measured, eps: float) -> int:
    """The smallest step whose second difference stands out of rounding."""
    return int(np.flatnonzero(np.isfinite(one.both) & (one.both > FLOOR * eps * one.value))[-1])


def _without_slope(one: Measured, steps: np.ndarray, eps: float) -> tuple[str, str]:
    """Verdict and reason where no two remainders one after the other stand out of rounding."""
    left = one.remainders
    seen = np.isfinite(left)
    rest, told = np.maximum(left, ROUNDINGS * eps * one.value), TOLD[8 if eps < 1e-10 else 4]
    if (rest[seen] <= told * one.change * steps[seen]).any():
        return "pass", "affine to rounding"
    if not seen.all():
        return "fail", "f is not finite along it; lower step="
    return "hidden", "f changes by less than its rounding tells; take constants off it, or a larger step="
