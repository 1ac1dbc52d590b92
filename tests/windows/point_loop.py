"""The reference: functions of windows, point by point in plain Python, and random cases to judge by it."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

Rule = Callable[[Any, ModuleType], Any]


@dataclass
class Case:
    """One random use of `kmap` or its kin: an array, windows, and rules assigned to regions in order."""

    array: np.ndarray
    size: tuple[int, ...]
    strides: tuple[int, ...]
    border: tuple[tuple[int, int], ...]
    relative: bool
    rules: list[Rule]
    regions: list[Any]

    def centres(self) -> list[range]:
        """Array indices of the windows' centres along each axis, by the padding."""
        parts = zip(self.array.shape, self.size, self.strides, self.border, strict=True)
        return [range((k - 1) // 2 - low, n + high - k // 2, s) for n, k, s, (low, high) in parts]

    def rule_at(self, centre: tuple[int, ...]) -> Rule:
        """The last rule assigned to a point, the first where there is none. An axis left out of an index is any."""
        for rule, region in zip(reversed(self.rules), reversed(self.regions), strict=True):
            parts = region if isinstance(region, tuple) else (region,)
            held = zip(centre, parts, self.array.shape, strict=False)
            if all(c in np.atleast_1d(np.arange(n)[part]) for c, part, n in held):
                return rule
        return self.rules[0]

    def run(self, *, in_order: bool, reverse: bool = False) -> np.ndarray:
        """The values of all windows by the double loop; `in_order` writes each result before the next is read."""
        zeros = [(max(0, low), max(0, high)) for low, high in self.border]
        padded = np.pad(self.array, zeros)
        ranges = self.centres()
        result = np.zeros([len(r) for r in ranges], self.array.dtype)
        places = list(np.ndindex(*result.shape))
        for place in reversed(places) if reverse else places:
            centre = tuple(r[p] for r, p in zip(ranges, place, strict=True))
            window = padded[self.corner(centre, zeros)]
            if self.relative:
                window = np.roll(window, [-((k - 1) // 2) for k in self.size], range(window.ndim))
            result[place] = self.rule_at(centre)(window, np)
            if in_order:
                padded[tuple(c + low for c, (low, _) in zip(centre, zeros, strict=True))] = result[place]
        return result

    def corner(self, centre: tuple[int, ...], zeros: list[tuple[int, int]]) -> tuple[slice, ...]:
        """The slices of a window in the padded array."""
        starts = [c - (k - 1) // 2 + low for c, k, (low, _) in zip(centre, self.size, zeros, strict=True)]
        return tuple(slice(a, a + k) for a, k in zip(starts, self.size, strict=True))

    def put_back(self, result: np.ndarray) -> np.ndarray:
        """The array with the results at the centres."""
        array = self.array.copy()
        array[np.ix_(*self.centres())] = result
        return array

    def windows(self, kind: Any, border: Any, **options: Any) -> Any:
        """The same case as a container of `kind`."""
        windows = kind(self.size, self.strides, border, self.relative, **options)
        for rule, region in zip(self.rules, self.regions, strict=True):
            windows[region] = lambda x, rule=rule: rule(x, jnp)
        return windows


def affine(picks: list[tuple[tuple[int, ...], float]], constant: float) -> Rule:
    """A weighted sum of some entries and a constant."""
    return lambda x, xp: sum((weight * x[place] for place, weight in picks), constant)


@st.composite
def draw_rule(draw: st.DrawFn, size: tuple[int, ...], relative: bool) -> Rule:
    """A rule of a window: affine, or not, of some entries or of all."""
    lows = [-((k - 1) // 2) if relative else 0 for k in size]
    place = st.tuples(*(st.integers(low, low + k - 1) for low, k in zip(lows, size, strict=True)))
    picks = draw(st.lists(st.tuples(place, st.sampled_from([0.31, -0.27, 0.45])), min_size=1, max_size=3))
    first, weight = picks[0]
    last = picks[-1][0]
    share = 0.7 / np.prod(size)
    weights = 0.4 * np.cos(1.0 + np.arange(np.prod(size), dtype=float)).reshape(size)
    return draw(
        st.sampled_from(
            [
                affine(picks, 0.37),
                affine(picks, 0.37),
                lambda x, xp: 1.43,
                lambda x, xp: xp.sin(x[first]) * x[last] * weight + 1.21,
                lambda x, xp: xp.where(x[first] > 1.4, x[first] * 0.3, 1.0 + 0.2 * x[last]),
                lambda x, xp: xp.sum(x) * share + 0.4,
                lambda x, xp: xp.max(x) - 0.3 * xp.min(x),
                lambda x, xp: xp.sum(x * weights) + 1.1,
                lambda x, xp: xp.mean(xp.abs(x)) * 0.9,
            ]
        )
    )


@st.composite
def draw_region(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """An index of an array: integers, slices with steps and negative ends, some axes left out."""
    parts = []
    for n in shape[: draw(st.integers(1, len(shape)))]:
        index = st.integers(-n, n - 1)
        ends = st.none() | index
        parts.append(draw(index | st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, 3, -1, -2]))))
    return tuple(parts) if len(parts) > 1 or draw(st.booleans()) else parts[0]


@st.composite
def draw_case(draw: st.DrawFn, *, offset: bool = False, max_ndim: int = 3, max_length: int = 7) -> Case:
    """A random case; with `offset` its centres lie inside the array."""
    ndim = draw(st.integers(1, max_ndim))
    shape = tuple(draw(st.integers(2, max_length)) for _ in range(ndim))
    size = tuple(draw(st.integers(1, 4)) for _ in range(ndim))
    strides = tuple(draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in range(ndim))
    if offset:
        away = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(ndim)]
        border = tuple(((k - 1) // 2 - a, k // 2 - b) for k, (a, b) in zip(size, away, strict=True))
    else:
        border = tuple((draw(st.integers(-1, 3)), draw(st.integers(-1, 3))) for _ in range(ndim))
    relative = draw(st.booleans())
    rules = draw(st.lists(draw_rule(size, relative), min_size=1, max_size=4))
    regions = [draw(draw_region(shape)) for _ in rules]
    values = 1.2 + np.random.default_rng(draw(st.integers(0, 99))).random(shape)
    case = Case(values, size, strides, border, relative, rules, regions)
    assume(all(len(r) for r in case.centres()))
    return case


def offsets_of(case: Case) -> tuple[tuple[int, int], ...]:
    """The offset that gives a case's padding."""
    return tuple(((k - 1) // 2 - a, k // 2 - b) for k, (a, b) in zip(case.size, case.border, strict=True))
