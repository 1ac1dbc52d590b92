"""Von Neumann stability of the declared step: amplification factor and largest stable step."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..schemes import Modes, NoGrowth
from ..stencil import ProfileRead, StateRead, Traced, WholeRead, linear_weights
from ._order import Solve
from ._own_level import all_waves, fades
from ._pieces import Piece
from ._structure import PhaseStructure, Structure

MAX_DOUBLINGS = 40
TOLERANCES = (1e-6, 1e-8)


@dataclass(frozen=True)
class Stability:
    """The result of the analysis: `factor` is max |G| over wavenumbers at `step`, `largest` the largest stable step.

    `largest` is inf where every step is stable, 0 where none is, None where the rules do not depend on the step.
    `alone`: only the rates marked implicit can be analysed, and the method is unstable for these by themselves.
    """

    step: float
    factor: float
    stable: bool
    largest: float | None
    alone: bool = False


@dataclass(frozen=True)
class Skipped:
    """Why there is no linear stability to tell."""

    reason: str


def main_phase(structure: Structure) -> PhaseStructure:
    """The structure of most levels."""
    counts: dict[int, int] = {}
    for segment in structure.segments:
        phases = segment.phases if len(segment.phases) > 1 else segment.phases * (segment.stop - segment.start)
        for phase in phases:
            counts[phase] = counts.get(phase, 0) + 1
    return structure.phases[max(counts, key=lambda phase: (counts[phase], phase))]


def main_pieces(structure: Structure) -> dict[str, list[Piece]]:
    """For each field the piece with the largest box, and what is added on top of all of it."""
    found: dict[str, list[Piece]] = {}
    pieces = [*main_phase(structure).rates, *main_phase(structure).values]
    for one in structure.arrays:
        own = [p for p in pieces if p.field == one.name and p.role in ("value", "rate") and p.predicate is None]
        if one.hidden and all(p.stretched for p in own):  # a memory variable of an absorbing layer
            continue
        largest = max((p for p in own if not p.adds), key=lambda p: (not p.stretched, p.box.size), default=None)
        if largest is not None:
            found[one.name] = [largest, *(p for p in own if p.adds and p.box.contains(largest.box))]
    return found


def analyse(
    structure: Structure, wholes: dict[str, Any], shifts: dict[str, tuple[int, ...]], step: float
) -> Stability | Skipped:
    """Von Neumann analysis of the main rules of a march with the given parameter values.

    `shifts` are the half-step positions of each field's points. A rate is stable where the stepper does not amplify a
    mode beyond the exact growth of the semi-discrete equation; a plain rule where no wavenumber grows faster than the
    constant mode or 1.
    """
    if structure.time_axis is None:
        return Skipped("no time axis")
    pieces = main_pieces(structure)
    exact = [one.name for one in structure.arrays if not jnp.issubdtype(np.dtype(one.dtype), jnp.inexact)]
    if exact:
        return Skipped(f"{exact[0]} holds no real or complex numbers")
    hindrance, alone = _hindrance(structure, pieces), False
    if hindrance:
        pieces, alone = _implicit_alone(pieces), True
        if not pieces or _hindrance(structure, pieces):
            return Skipped(hindrance)
    values = {name: np.asarray(value) for name, value in wholes.items() if np.size(value) <= 64 and name != "times"}
    missing = [
        n
        for p in pieces.values()
        for q in p
        for n in _wholes_of(structure.rules[q.rule])
        if n not in values and n != "t"
    ]
    if missing:
        return Skipped(f"{missing[0]} is a large array")
    undefined = [name for name, value in values.items() if value.dtype.kind in "fc" and not np.isfinite(value).all()]
    if undefined:
        return Skipped(f"{undefined[0]} is not finite")
    frozen = tuple((name, value.tobytes(), value.dtype.str, value.shape) for name, value in sorted(values.items()))
    if any(isinstance(stage, Solve) for phase in structure.phases for stage in phase.stages):
        return Skipped("equations are solved at each level")
    reason = _no_growth(structure, pieces)
    found = Skipped(reason) if reason else _analyse(structure, frozen, tuple(sorted(shifts.items())), step, alone)
    if not alone:
        return found
    # What is stable for a part need not be for the whole.
    return Skipped(hindrance) if isinstance(found, Skipped) or found.stable else replace(found, alone=True)


def _hindrance(structure: Structure, pieces: dict[str, list[Piece]]) -> str:
    """Which rule has no symbol, and why; "" where all have one."""
    for piece in (p for group in pieces.values() for p in group):
        rule = structure.rules[piece.rule]
        if piece.operation is not None:
            return f"{piece.label} acts on all points at once"
        if not rule.affine:
            return f"{piece.label} is not affine"
        if varies(rule):
            return f"{piece.label} has weights that vary in space or time; fd.analyse freezes them at a place"
    return ""


def _implicit_alone(pieces: dict[str, list[Piece]]) -> dict[str, list[Piece]]:
    """The rates marked implicit, and the plain rules beside them; nothing where no rate is marked."""
    kept = {name: [p for p in group if p.role != "rate" or p.implicit] for name, group in pieces.items()}
    marked = any(p.implicit for group in kept.values() for p in group)
    return {name: group for name, group in kept.items() if group} if marked else {}


def _no_growth(structure: Structure, pieces: dict[str, list[Piece]]) -> str:
    """Why the stepper's growth is not known; "" where it is."""
    names = tuple(sorted(name for name, group in pieces.items() if group[0].role == "rate"))
    if not names or structure.stepper is None:
        return ""
    zero = np.zeros((1, len(names), len(names)), complex)
    table = [(piece, structure.rules[piece.rule]) for group in pieces.values() for piece in group]
    along = (zero,) * len(structure.arrays[0].shape) if _splits(table) else ()
    found = structure.stepper.amplify(Modes(names, {(0, True, False): zero}, np.zeros(1), along))
    return found.reason if isinstance(found, NoGrowth) else ""


def _splits(table: list[tuple[Piece, Traced]]) -> bool:
    """Whether all rules are rates that read their own field along single axes."""
    return all(
        piece.role == "rate" and read.field == piece.field and sum(map(bool, read.offset)) <= 1
        for piece, rule in table
        for read in rule.reads
    )


@lru_cache(maxsize=64)
def _analyse(
    structure: Structure, frozen: tuple[Any, ...], shifts: tuple[Any, ...], step: float, alone: bool
) -> Stability | Skipped:
    values = {name: np.frombuffer(data, dtype).reshape(shape) for name, data, dtype, shape in frozen}
    pieces = _implicit_alone(main_pieces(structure)) if alone else main_pieces(structure)
    rated = {name for name, group in pieces.items() if group[0].role == "rate"}
    table = [(p, structure.rules[p.rule]) for group in pieces.values() for p in group]
    rules = tuple(rule for _, rule in table)
    reads_step = bool(rated) or any("dt" in _wholes_of(rule) for rule in rules)
    consts = [rule.consts for rule in rules]

    def weights_at(steps: np.ndarray) -> list[np.ndarray]:
        return [np.asarray(w) for w in _weights_at(rules, values, consts, jnp.asarray(steps, values["dt"].dtype))]

    def test(steps: np.ndarray, tolerance: float, weights: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        return _growth(structure, table, weights, dict(shifts), steps, rated, tolerance)

    declared = np.array([step])
    weights = weights_at(declared)
    for (piece, _), own in zip(table, weights, strict=True):
        if not np.isfinite(own).all():
            return Skipped(f"{piece.label} has a factor that is not finite")
    factor, stable = test(declared, TOLERANCES[0], weights)
    if np.isnan(factor[0]):
        return Skipped(f"{_summing(table)} sums up what it reads of its own level, along which waves do not fade")
    largest = None
    if reads_step:
        largest, stricter = (
            _largest_step(lambda steps, t=t: test(steps, t, weights_at(steps))[1], step) for t in TOLERANCES
        )
        # A bound that shrinks with the tolerance is none: every step amplifies something, small ones only a little.
        largest = 0.0 if stricter < 0.5 * largest else largest
    return Stability(step, float(factor[0]), bool(stable[0]), largest)


def _wholes_of(rule: Traced) -> list[str]:
    return [o.name for o in rule.operands if isinstance(o, WholeRead)]


def varies(rule: Traced) -> bool:
    """Whether the weights of an affine rule depend on the point or the time."""
    return rule.weights_depend_on(lambda operand: isinstance(operand, ProfileRead) or operand == WholeRead("t"))


def _specs(rule: Traced, others: list[Any]) -> list[jax.ShapeDtypeStruct]:
    avals = dict(zip(rule.operands, (v.aval for v in rule.jaxpr.invars), strict=True))
    return [jax.ShapeDtypeStruct(avals[o].shape, avals[o].dtype) for o in others]


def weight_function(rule: Traced, along: Any = None) -> Callable[[list[Any], Any], list[Any]]:
    """The weights of an affine rule as a function of its other operands and constants; or its weights along rows of
    numbers, one a read (see `linear_weights`)."""
    others = [o for o in rule.operands if not isinstance(o, StateRead)]
    dtypes = {o: v.aval.dtype for o, v in zip(rule.operands, rule.jaxpr.invars, strict=True)}

    def weights(values: list[Any], consts: Any) -> list[Any]:
        given = dict(zip(others, values, strict=True))
        evaluate = rule.function(tuple(consts))

        def of_reads(*reads: Any) -> Any:
            # Fields of other precision are perturbed in one dtype, and read in their own.
            own = [jax.lax.convert_element_type(r, dtypes[o]) for r, o in zip(reads, rule.reads, strict=True)]
            known = {**given, **dict(zip(rule.reads, own, strict=True))}
            return evaluate(*(known[o] for o in rule.operands))

        if not rule.reads:
            return []
        return linear_weights(of_reads, len(rule.reads), dtypes[rule.reads[0]], along)[0]

    return weights


@partial(jax.jit, static_argnums=0)
def _weights_at(
    rules: tuple[Traced, ...], values: dict[str, Any], consts: list[Any], steps: jax.Array
) -> list[jax.Array]:
    """Weights of each rule, shape (steps, reads)."""
    found = []
    for rule, own in zip(rules, consts, strict=True):
        others = [o for o in rule.operands if not isinstance(o, StateRead)]
        specs = _specs(rule, others)
        base = [
            jnp.asarray(values.get(getattr(o, "name", ""), jnp.zeros(s.shape, s.dtype)), s.dtype)
            for o, s in zip(others, specs, strict=True)
        ]

        def at(
            step: jax.Array, rule: Traced = rule, others: Any = others, base: Any = base, own: Any = own
        ) -> jax.Array:
            inputs = [step.astype(b.dtype) if o == WholeRead("dt") else b for o, b in zip(others, base, strict=True)]
            weights = weight_function(rule)(inputs, own)
            return jnp.stack(weights) if weights else jnp.zeros((0,), step.dtype)

        found.append(jax.vmap(at)(steps))
    return found


def _summing(table: list[tuple[Piece, Traced]]) -> str:
    """The label of a rule that reads its own field, or one that is computed with it, at its own level."""
    own = [[r.field for r in rule.reads if r.level == 0 and any(r.offset)] for _, rule in table]
    found = (piece.label for (piece, _), names in zip(table, own, strict=True) if piece.field in names)
    return next(found, next(piece.label for (piece, _), names in zip(table, own, strict=True) if names))


def _growth(
    structure: Structure,
    table: list[tuple[Piece, Traced]],
    weights: list[np.ndarray],
    shifts: dict[str, tuple[int, ...]],
    steps: np.ndarray,
    rated: set[str],
    tolerance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """max |G| over wavenumbers for each step, and whether the step is stable.

    nan, and not stable, where what a level reads of itself does not fade along its way (a running sum): such a level is
    not made of waves.
    """
    ndim = len(structure.arrays[0].shape)
    waves = all_waves(ndim)
    names = [a.name for a in structure.arrays if any(p.field == a.name for p, _ in table)]
    place = {name: i for i, name in enumerate(names)}
    depth = max([1] + [-r.level for _, rule in table for r in rule.reads])
    blocks = np.zeros((depth + 1, len(steps), len(waves), len(names), len(names)), complex)
    parts: dict[tuple[int, bool, bool], np.ndarray] = {}
    moments = np.zeros((ndim, len(steps), len(names), len(names)))
    for (piece, rule), values in zip(table, weights, strict=True):
        own = blocks
        if piece.field in rated:
            key = (piece.group, structure.is_linear(piece.rule), piece.implicit)
            own = parts.setdefault(key, np.zeros_like(blocks[:1]))
        for k, read in enumerate(rule.reads):
            if read.field not in place:
                continue
            at = (place[piece.field], place[read.field])
            moved = np.array(
                [o + (b - a) / 2 for o, a, b in zip(read.offset, shifts[piece.field], shifts[read.field], strict=True)]
            )
            own[(-read.level, slice(None), slice(None), *at)] += values[:, k, None] * np.exp(1j * waves @ moved)
            if piece.field in rated:
                moments[(slice(None), slice(None), *at)] += np.real(values[None, :, k] * moved[:, None])
    is_rate = np.array([name in rated for name in names])
    known = fades(blocks[0][..., ~is_rate, :][..., ~is_rate], ndim)
    blocks[:, ~known] = 0.0
    for part in parts.values():
        part[:, ~known] = 0.0
    if rated:
        kinds = {
            key: _eliminate(part[0], blocks[0], is_rate) * steps[:, None, None, None] for key, part in parts.items()
        }
        carried = np.abs(moments[..., is_rate, :][..., is_rate])
        courant = steps * np.abs(np.linalg.eigvals(carried)).max(axis=-1).sum(axis=0)
        wide = np.broadcast_to(courant[:, None], (len(steps), len(waves)))
        along = _along(table, weights, waves, steps, names) if _splits(table) else ()
        found, stable = _rate_growth(
            structure, Modes(tuple(n for n in names if n in rated), kinds, wide, along), tolerance
        )
        return np.where(known, found, np.nan), stable & known
    solved = np.linalg.solve(np.eye(len(names)) - blocks[0], np.concatenate(list(blocks[1:]), axis=-1))
    companion = np.zeros((*solved.shape[:2], depth * len(names), depth * len(names)), complex)
    companion[..., : len(names), :] = solved
    for row in range(len(names), depth * len(names)):
        companion[..., row, row - len(names)] = 1
    radius = np.abs(np.linalg.eigvals(companion)).max(axis=-1)
    flat = radius[:, np.argmin(np.abs(waves).sum(axis=1))]
    bound = np.maximum(1.0, flat)[:, None] * (1 + tolerance)
    return np.where(known, radius.max(axis=1), np.nan), (radius <= bound).all(axis=1) & known


def _along(
    table: list[tuple[Piece, Traced]],
    weights: list[np.ndarray],
    waves: np.ndarray,
    steps: np.ndarray,
    names: list[str],
) -> tuple[np.ndarray, ...]:
    """The rates times Δt split by axis, as steppers that go along one axis take them."""
    ndim = waves.shape[1]
    found = np.zeros((ndim, len(steps), len(waves), len(names), len(names)), complex)
    for (piece, rule), values in zip(table, weights, strict=True):
        for k, read in enumerate(rule.reads):
            reached = [axis for axis, offset in enumerate(read.offset) if offset]
            at = (slice(None), slice(None), names.index(piece.field), names.index(read.field))
            for axis in range(ndim):
                moving = np.exp(1j * waves @ np.array(read.offset)) - 1 if axis in reached else 0 * waves[:, 0]
                found[(axis, *at)] += (values[:, k] * steps)[:, None] * (moving + 1 / ndim)
    return tuple(found)


def _eliminate(part: np.ndarray, plain_block: np.ndarray, is_rate: np.ndarray) -> np.ndarray:
    """The matrix of some rates on the fields with rates; plain rules beside them are solved for."""
    rate, plain = np.flatnonzero(is_rate), np.flatnonzero(~is_rate)
    matrix = part[..., rate[:, None], rate]
    if plain.size:
        inner = np.eye(plain.size) - plain_block[..., plain[:, None], plain]
        given = np.linalg.solve(inner, plain_block[..., plain[:, None], rate])
        matrix = matrix + part[..., rate[:, None], plain] @ given
    return matrix


def _rate_growth(structure: Structure, modes: Modes, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Growth of a stepper on the modes of the semi-discrete equation, against their exact growth."""
    assert structure.stepper is not None
    found = structure.stepper.amplify(modes)
    assert not isinstance(found, NoGrowth)
    growth, exact = np.abs(found), np.exp(np.clip(modes.eigenvalues.real, None, 50.0))
    by_mode = growth.ndim > modes.courant.ndim + 1
    if structure.stepper.solves:  # 1/(1 − z) > eᶻ: implicit methods overshoot what grows, to the order of the method
        exact = exact ** np.where(exact > 1, 2, 1)
    bound = exact[..., None] if by_mode else exact.max(axis=-1, keepdims=True)
    good = growth <= np.maximum(1.0, bound) * (1 + tolerance)
    axes = tuple(range(1, growth.ndim))
    return growth.max(axis=axes), np.asarray(good.all(axis=axes))


def _largest_step(stable: Callable[[np.ndarray], np.ndarray], step: float) -> float:
    """The largest step up to which stability holds, to six digits: by doublings, then by bisection on grids."""
    is_stable = bool(stable(np.array([step]))[0])
    scale = step * 2.0 ** np.arange(0, MAX_DOUBLINGS + 1)
    if not is_stable:
        scale = step / 2.0 ** np.arange(0, MAX_DOUBLINGS + 1)
    for begin in range(1, MAX_DOUBLINGS + 1, 4):
        trial = scale[begin : begin + 4]
        turned = np.flatnonzero(stable(trial) != is_stable)
        if turned.size:
            at = begin + int(turned[0])
            low, high = sorted((float(scale[at]), float(scale[at - 1])))
            break
    else:
        return np.inf if is_stable else 0.0
    for _ in range(10):
        grid = np.linspace(low, high, 6)
        good = stable(grid[1:5])
        last = int(np.argmin(good)) if not good.all() else 4
        low, high = float(grid[last]), float(grid[last + 1])
        if high - low < 1e-6 * high:
            break
    return low
