"""Several levels of a constant affine march as one level of a wider stencil.

The wider stencil is what a unit impulse has become after m levels (turned round), a function of the weights. Beyond
periodic ends and mirrors the values continue as they do for the narrow one, so that nothing is lost at an edge. What m
levels make of zeros is added where the march has a constant.

Weights stand at differences, Σ w x(o) = f x(b) + Σ w (x(o) − x(b)), where f is what m levels make of ones, asked of the
rules: the sum of the weights would round, the same way at all points, and long waves drift.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import product
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..planning import Structure
from ..schemes import Part, Values
from ..stencil import StateRead
from ..transforms import AbstractLine
from ._affine_level import Levels, Rates, assembled, completed, next_level, unknowns
from ._affine_march import AffineMarch, affine_march
from ._affine_rules import weights_in
from ._level import Arrays
from ._march_call import MarchCall
from ._registry import register

Unknown = tuple[str, int]
"""A field, and the age of its level: 0 for the newest."""
Taps = dict[tuple[Unknown, Unknown], tuple[tuple[int, ...], ...]]
"""The offsets at which an unknown reads another one."""

Apply = Callable[[int, Callable[[StateRead], Any]], Any]
"""(number of a rule, what stands where it reads) ↦ what it makes of that."""
Both = tuple[dict[Unknown, jax.Array], dict[Unknown, jax.Array]]
"""The values with their rim, and arrays of the same shapes for the next ones."""

MOST_STEPS = 4
MOST_TAPS = 64
GOOD_TAPS = 16
FAR_BYTES = 2**23
"""A field of one axis beyond which loops wait for memory: its rows are not cut into tiles that stay in cache."""


def why_not(call: MarchCall) -> str | None:
    """Why powers do not serve a march; None if they do."""
    march = affine_march(call)
    if isinstance(march, str):
        return march
    if num_composed(call) < 2:
        return f"two levels of it make a stencil of more than {MOST_TAPS} points, or one wider than the domain"
    return None


def rank(call: MarchCall) -> int:
    """First of the kernels that compute every level where memory is what counts, else after the portable kernel."""
    largest = max(prod(one.shape) * np.dtype(one.dtype).itemsize for one in call.structure.arrays)
    pays = call.platform == "cpu" and len(call.axes) == 1 and largest >= FAR_BYTES
    return 15 if pays and call.steps >= 4 * num_composed(call) else -20


@register("march", backend="powers", priority=rank, serves=why_not)
def march_by_powers(call: MarchCall, arrays: Arrays, levels: Levels, start: Any) -> Levels:
    """Several levels at a time by the stencil that they compose to: fewer passes over the arrays."""
    return march_composed(call, arrays, levels, num_composed(call))


def march_composed(call: MarchCall, arrays: Arrays, levels: Levels, together: int) -> Levels:
    """All levels, `together` at a time; the first ones, and those left over, one by one."""
    march = affine_march(call)
    assert isinstance(march, AffineMarch)
    # Levels given need not heed the walls; those computed do, and then mirrors stand for them.
    singles = min(march.held, call.steps)
    turns, rest = divmod(call.steps - singles, together)
    for _ in range(singles + rest):
        levels = next_level(call, march, arrays, levels)
    if not turns:
        return levels
    layout = _Layout.of(call, march, together)
    # Behind a barrier: else the weights are composed anew at every point.
    weights = lax.optimization_barrier(_composed_weights(call, march, arrays, layout))
    constant = None if march.linear else _constants(call, march, arrays, together)
    held = unknowns(call, march, levels)
    wide = {key: layout.widened(key, held[key[0]][key[1]]) for key in layout.keys}

    def body(both: Both, _: None) -> tuple[Both, None]:
        wide, spare = both
        new = {key: layout.gather(key, wide, weights) for key in layout.keys}
        if constant is not None:
            new = {key: value + constant[key] for key, value in new.items()}
        return ({key: layout.filled(key, spare[key], new[key]) for key in layout.keys}, wide), None

    spare = jax.tree.map(lambda a: lax.stop_gradient(jnp.zeros_like(a)), wide)
    (wide, _), _ = lax.scan(body, (wide, spare), None, length=turns, unroll=min(2, turns))
    return assembled(call, march, arrays, {key: layout.inner(key, array) for key, array in wide.items()})


def num_composed(call: MarchCall) -> int:
    """How many levels to take together: two, or more while the stencil stays small and within the domain.

    Measured: 13 points for two levels of 5 gain a quarter, 25 for three lose what the passes saved.
    """
    march = affine_march(call)
    assert isinstance(march, AffineMarch)
    best = 1
    for together in range(2, MOST_STEPS + 1):
        if 2 * together * _reach_of_step(call.structure, march) >= MOST_TAPS:
            break
        taps = support(call.structure, march, together)
        most = max(sum(len(o) for (own, _), o in taps.items() if own == key) for key, _ in taps)
        if most > (MOST_TAPS if together == 2 else GOOD_TAPS) or not _Layout.of(call, march, together).fits:
            break
        best = together
    return best


@dataclass(frozen=True, eq=False)
class _Layout:
    """Arrays of the unknown points and a rim of their images, as wide as the composed stencil reaches."""

    march: AffineMarch
    taps: Taps
    reach: int
    low: dict[str, tuple[int, ...]]
    high: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, call: MarchCall, march: AffineMarch, together: int) -> "_Layout":
        taps = support(call.structure, march, together)
        ndim = len(march.fields[0].lines)
        low = {one.name: [0] * ndim for one in march.fields}
        high = {one.name: [0] * ndim for one in march.fields}
        for (own, other), offsets in taps.items():
            here, there = march.field(own[0]).box, march.field(other[0]).box
            for axis in range(ndim):
                first, last = (pick(o[axis] for o in offsets) for pick in (min, max))
                below = there.start[axis] - (here.start[axis] + first)
                above = here.stop[axis] + last - there.stop[axis]
                low[other[0]][axis] = max(low[other[0]][axis], below)
                high[other[0]][axis] = max(high[other[0]][axis], above)
        reach = together * _reach_of_step(call.structure, march)
        return cls(march, taps, reach, {n: tuple(v) for n, v in low.items()}, {n: tuple(v) for n, v in high.items()})

    @property
    def keys(self) -> list[Unknown]:
        """All unknowns."""
        return [(one.name, age) for one in self.march.fields for age in range(one.held)]

    @property
    def fits(self) -> bool:
        """Whether a point of the rim is the image of an unknown point, not of an image."""
        return all(
            max(a, b) < line.size
            for one in self.march.fields
            for a, b, line in zip(self.low[one.name], self.high[one.name], one.lines, strict=True)
        )

    def widened(self, key: Unknown, values: jax.Array) -> jax.Array:
        """The values with their rim."""
        low, high = self.low[key[0]], self.high[key[0]]
        shape = [a + n + b for a, n, b in zip(low, values.shape, high, strict=True)]
        return self.filled(key, jnp.zeros(shape, values.dtype), values)

    def filled(self, key: Unknown, wide: jax.Array, values: jax.Array) -> jax.Array:
        """An array with rim, holding other values: blocks of the values themselves, so that XLA copies nothing."""
        ends = zip(self.march.field(key[0]).lines, self.low[key[0]], self.high[key[0]], strict=True)
        for runs in product(*(_runs(*one) for one in ends)):
            wide = lax.dynamic_update_slice(wide, _image(values, runs), [run.place for run in runs])
        return wide

    def inner(self, key: Unknown, wide: jax.Array) -> jax.Array:
        """The values without their rim."""
        low = self.low[key[0]]
        return lax.slice(wide, low, [a + n for a, n in zip(low, self.march.field(key[0]).box.shape, strict=True)])

    def gather(self, key: Unknown, wide: dict[Unknown, jax.Array], weights: Any) -> jax.Array:
        """The new values of an unknown: Σ weight · value at an offset, as differences from the one nearest to it."""
        here = self.march.field(key[0]).box
        terms = []
        for other in self.keys:
            low, there = self.low[other[0]], self.march.field(other[0]).box
            offsets = self.taps.get((key, other), ())
            parts = []
            for offset in offsets:
                start = [b - c + o + a for a, b, c, o in zip(low, here.start, there.start, offset, strict=True)]
                stop = [s + n for s, n in zip(start, here.shape, strict=True)]
                parts.append(lax.slice(wide[other], start, stop))
            if parts:
                even, rest = weights[key, other]
                base = min(range(len(offsets)), key=lambda at: sum(map(abs, offsets[at])))
                terms.append(even * parts[base])
                terms += [rest[at] * (part - parts[base]) for at, part in enumerate(parts) if at != base]
        return reduce(jnp.add, terms)


@dataclass(frozen=True)
class _Run:
    """Points in a row along an axis that repeat unknown points in a row: `count` from `begin` on, put at `place`."""

    place: int
    begin: int
    count: int
    turned: bool
    sign: int


def _runs(line: AbstractLine, low: int, high: int) -> list[_Run]:
    """The unknown points of a line, and the runs of images around them; where a constant stands there is none."""
    places, signs = line.image(np.arange(-low, line.size + high))
    found, at = [], 0
    while at < places.size:
        stop = at + 1
        step = int(places[stop] - places[at]) if stop < places.size else 0
        while stop < places.size and places[stop] - places[stop - 1] == step and signs[stop] == signs[at]:
            if abs(step) != 1:
                break
            stop += 1
        if signs[at]:
            begin = int(min(places[at], places[stop - 1]))
            found.append(_Run(at, begin, stop - at, step < 0 and stop - at > 1, int(signs[at])))
        at = stop
    return found


def _image(values: jax.Array, runs: tuple[_Run, ...]) -> jax.Array:
    """A block of the rim: what its runs on each axis repeat."""
    part = lax.slice(values, [r.begin for r in runs], [r.begin + r.count for r in runs])
    turned = [axis for axis, run in enumerate(runs) if run.turned]
    part = lax.rev(part, turned) if turned else part
    return part if prod(run.sign for run in runs) == 1 else -part


@lru_cache(maxsize=64)
def support(structure: Structure, march: AffineMarch, together: int) -> Taps:
    """Where a composed stencil has weights: told by the impulses for made-up weights."""
    random = np.random.default_rng(3)
    table = {
        piece.rule: list(random.uniform(0.6, 1.4, len(structure.rules[piece.rule].reads)).astype(np.float32))
        for piece in march.pieces
    }
    with jax.ensure_compile_time_eval():
        found = _impulses(structure, march, table, np.float32(1.0), np.dtype(np.float32), together)
        arrays = {key: np.asarray(array) for key, array in found.items()}
    centre = together * _reach_of_step(structure, march)
    taps: Taps = {}
    for key, array in arrays.items():
        offsets = tuple(tuple(int(centre - i) for i in index) for index in np.argwhere(array))
        if offsets:
            taps[key] = offsets
    return taps


def _composed_weights(call: MarchCall, march: AffineMarch, arrays: Arrays, layout: _Layout) -> Any:
    """What the composed stencil makes of ones, and its weights in the order of its taps."""
    structure, dtype = call.structure, np.dtype(call.structure.arrays[0].dtype)
    table = {piece.rule: weights_in(structure, arrays, piece.rule) for piece in march.pieces}
    table = {rule: [w.astype(dtype) for w in weights] for rule, weights in table.items()}
    together = layout.reach // _reach_of_step(structure, march)
    step = arrays.wholes.get("dt")
    found = _impulses(structure, march, table, step, dtype, together)
    even = _of_ones(structure, march, arrays, step, dtype, together)
    return {
        key: (even[key], [found[key][tuple(layout.reach - o for o in offset)] for offset in offsets])
        for key, offsets in layout.taps.items()
    }


def _of_ones(
    structure: Structure, march: AffineMarch, arrays: Arrays, step: Any, dtype: Any, together: int
) -> dict[tuple[Unknown, Unknown], Any]:
    """What levels without walls make of an unknown that is 1 everywhere."""
    parts: dict[int, list[tuple[StateRead, Any]]] = {}
    for number in {piece.rule for piece in march.pieces}:
        reads = structure.rules[number].reads
        kinds = {(read.field, read.level): read for read in reads}
        along = [[int((read.field, read.level) == kind) for read in reads] for kind in kinds]
        even = weights_in(structure, arrays, number, along) if reads else []
        parts[number] = [(read, one.astype(dtype)) for read, one in zip(kinds.values(), even, strict=True)]

    def apply(rule: int, look: Any) -> Any:
        return reduce(jnp.add, [one * look(read) for read, one in parts[rule]])

    keys = [(one.name, age) for one in march.fields for age in range(one.held)]
    found = {}
    for unit in keys:
        state = {key: jnp.asarray(key == unit, dtype) for key in keys}
        for _ in range(together):
            state = _homogeneous_step(structure, march, apply, step, state)
        found.update({(key, unit): state[key] for key in keys})
    return found


@lru_cache(maxsize=64)
def _reach_of_step(structure: Structure, march: AffineMarch) -> int:
    """How far an impulse can get in one step, on any axis."""
    offsets = [max(map(abs, r.offset)) for p in march.pieces for r in structure.rules[p.rule].reads]
    return max(1, max(offsets, default=0) * _stages(structure, march))


def _stages(structure: Structure, march: AffineMarch) -> int:
    """How often in a step rules read what rules have given."""
    if not march.rated:
        return len(march.pieces)
    count = 0

    def slopes(values: Values, part: Part) -> Values:
        nonlocal count
        count += 1
        return {name: boxes for name, boxes in values.items() if part.fields is None or name in part.fields}

    assert structure.stepper is not None
    with jax.ensure_compile_time_eval():
        start = {one.name: (jnp.zeros((), np.float32),) for one in march.fields}
        structure.stepper.step(Rates(0, np.float32(1.0), start, slopes), None, None)
    return count


def _impulses(
    structure: Structure, march: AffineMarch, table: dict[int, list[Any]], step: Any, dtype: Any, together: int
) -> dict[tuple[Unknown, Unknown], Any]:
    """What unit impulses become: by unknown and the place of the impulse, arrays around it."""

    def apply(rule: int, look: Any) -> Any:
        reads = structure.rules[rule].reads
        return reduce(jnp.add, [w * _moved(look(r), r.offset) for r, w in zip(reads, table[rule], strict=True)])

    reach = together * _reach_of_step(structure, march)
    shape = (2 * reach + 1,) * len(march.fields[0].lines)
    keys = [(one.name, age) for one in march.fields for age in range(one.held)]
    found = {}
    for unit in keys:
        state = {key: jnp.zeros(shape, dtype) for key in keys}
        state[unit] = state[unit].at[(reach,) * len(shape)].set(np.ones((), dtype))
        for _ in range(together):
            state = _homogeneous_step(structure, march, apply, step, state)
        found.update({(key, unit): state[key] for key in keys})
    return found


def _homogeneous_step(
    structure: Structure, march: AffineMarch, apply: Apply, step: Any, state: dict[Unknown, Any]
) -> dict[Unknown, Any]:
    """One level without its constant and without walls; `apply` is what a rule makes of what it looks at."""
    new: dict[str, Any] = {}
    if march.rated:

        def slopes(values: Values, part: Part) -> Values:
            slope: dict[str, Any] = {}
            for piece in march.pieces:
                if part.has(piece.field, piece.group, structure.is_linear(piece.rule)):
                    if not structure.rules[piece.rule].reads:
                        continue
                    term = apply(piece.rule, lambda read: values[read.field][0])
                    slope[piece.field] = slope[piece.field] + term if piece.field in slope else term
            return {name: (one,) for name, one in slope.items()}

        assert structure.stepper is not None
        start = {name: (state[name, 0],) for name, _ in state}
        reached, _ = structure.stepper.step(Rates(0, step, start, slopes), None, None)
        new = {name: values[0] for name, values in reached.items()}
    else:
        for piece in march.pieces:
            if structure.rules[piece.rule].reads:
                term = apply(piece.rule, lambda r: state[r.field, -r.level - 1] if r.level else new[r.field])
                new[piece.field] = new[piece.field] + term if piece.adds else term
    return {(name, age): state[name, age - 1] if age else new[name] for name, age in state}


def _moved(array: Any, offset: tuple[int, ...]) -> Any:
    """array[p + offset] at every p, zeros from outside."""
    around = [(-o, o, 0) for o in offset]
    return lax.pad(array, jnp.zeros((), array.dtype), around)


def _constants(call: MarchCall, march: AffineMarch, arrays: Arrays, together: int) -> dict[Unknown, jax.Array]:
    """What some levels make of zeros."""
    dtype = call.structure.arrays[0].dtype
    around = completed(call, march, arrays, {one.name: jnp.zeros(one.box.shape, dtype) for one in march.fields})
    levels = {one.name: (around[one.name],) * one.held for one in march.fields}
    for _ in range(together):
        levels = next_level(call, march, arrays, levels)
    found = unknowns(call, march, levels)
    return {(name, age): value for name, values in found.items() for age, value in enumerate(values)}
