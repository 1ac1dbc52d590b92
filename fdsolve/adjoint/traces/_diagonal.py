"""Traces with a diagonal in the place of D: one number for each entry of the state that a parameter reaches at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import DeclarationError
from ._embedding import Embedded, embed
from ._exact import first_pattern, moved_at_start
from ._method import AbstractMethod, Trace, entries_of, rows_of, start_along
from ._operations import Stencil
from ._patterns import STATE, colour, find_ends, find_pattern, mark, owners, push_state
from ._proof import prove
from ._registry import AbstractOperation, Site
from ._sites import CannotFollow, Walk, make_walk
from ._update import Point, Update
from ._waves import refuse_waves

RULES = ("diagonal", "coupled")


@dataclass(frozen=True)
class DRTRL(AbstractMethod):
    """ε' = D̃ ε + B with D̃ diagonal. `rule`: "diagonal" drops every edge by which an operation with parameters reads
    the state (D̃ = 1 for u + K∗u); "coupled" takes the diagonal of D.

    B is the true Jacobian, by the rules of the operations. Exact only where D is diagonal. Source: Wang et al.,
    "A diagonal real-time recurrent learning" (brainscale, 2024).
    """

    rule: str = "diagonal"

    def __post_init__(self) -> None:
        check_rule("DRTRL", self.rule)

    def check(self, update: Update, point: Point) -> None:
        refuse_waves(update, "d_rtrl", point)

    def follow(self, update: Update, own: tuple[int, ...]) -> Trace:
        refuse_waves(update, "d_rtrl", update.example if update.is_concrete else None)
        walk, sites = None, []
        try:
            walk = make_walk(update)
            sites = embed(walk, own)
        except CannotFollow as error:
            if self.rule == "diagonal":
                raise CannotFollow(f'{error} Or rule="coupled", which needs no rules.', error.sources) from None
        slope = find_slope(update, walk, self.rule)
        begun = {k for k in own if moved_at_start(update, entries_of(update, (k,))).any()}
        banded = begun | {k for one in sites if not one.fits for k in one.site.sources}
        banded |= set(own) - {k for one in sites for k in one.site.sources}
        banded &= set(own)
        apart = [k for k in own if k not in banded]
        used = [one for one in sites if set(one.site.sources) & set(apart)]
        bands = {k: Band.of(update, k) for k in sorted(banded)}
        return _combine(self, update, own, walk, used, apart, bands, slope)


def check_rule(what: str, rule: Any) -> None:
    """Refuses an unknown rule."""
    if rule not in RULES:
        raise DeclarationError(f'{what}: rule= is "diagonal" or "coupled", got {rule!r}.')


def _combine(
    method: DRTRL,
    update: Update,
    own: tuple[int, ...],
    walk: Walk | None,
    used: list[Embedded],
    apart: list[int],
    bands: dict[int, "Band"],
    slope: "Slope",
) -> Trace:
    dtype = update.packing.dtype
    held = np.zeros(update.num_parameters, dtype)
    held[entries_of(update, apart)] = 1
    if walk is not None and used:
        numbers = [one.number for one in used]
        for one, tap in zip(used, walk.like(numbers), strict=True):
            prove(one.site, one.operation, tap.others)

    def start(theta: Any, constants: Any) -> Any:
        zeros = [jnp.zeros((len(one.operation.adjacency(one.site)), *one.site.out.shape), dtype) for one in used]
        return zeros, {
            str(k): band.seen * start_along(update, theta, constants, band.moves) for k, band in bands.items()
        }

    def advance(point: Point, trace: Any) -> Any:
        known = slope.at(point)
        slopes, taps = walk.slopes_at(point, [one.number for one in used]) if walk and used else ([], [])
        sites = [
            one.operation.propagate(one.take(known), eps)
            + one.take(df) * one.operation.jacobian(one.site, tap.raw, tap.others).astype(dtype)
            for one, eps, df, tap in zip(used, trace[0], slopes, taps, strict=True)
        ]
        return sites, {str(k): known * trace[1][str(k)] + band.jacobian(update, point) for k, band in bands.items()}

    def gradient(point: Point, trace: Any, delta: Any) -> Any:
        total = jnp.zeros((update.num_parameters,), dtype)
        if walk is not None and used:
            found = [
                one.operation.solve(one.site, one.take(delta), eps) for one, eps in zip(used, trace[0], strict=True)
            ]
            total = held * walk.pull_raws(point, [one.number for one in used], found)
        for k, band in bands.items():
            p = update.parameters[k]
            total = total.at[p.start : p.stop].add(band.operation.solve(band.site, delta, trace[1][str(k)]).ravel())
        return total

    shapes = []
    for k in own:
        if k in bands:
            shapes.append(("stencil", (len(bands[k].moves), update.num_states)))
            continue
        mine = [one for one in used if k in one.site.sources]
        name = " + ".join(dict.fromkeys(one.site.name for one in mine))
        count = sum(len(one.operation.adjacency(one.site)) for one in mine)
        shapes.append((name, (count, *mine[0].site.out.shape)))
    how = f"d_rtrl, {method.rule}"
    rows = rows_of(update, own, how, shapes, slope.structure, slope.exact, slope.because)
    return Trace(start, advance, gradient, rows, is_whole=False)


@dataclass(frozen=True, eq=False)
class Band:
    """A parameter followed into the whole state, by probing with combs."""

    operation: AbstractOperation
    site: Site
    moves: Any
    seen: Any

    @staticmethod
    def of(update: Update, number: int) -> "Band":
        """The band of a parameter. Raises CannotFollow where it reaches nothing that is seen at once."""
        p = update.parameters[number]
        pattern = first_pattern(update, entries_of(update, (number,)))
        hidden = pattern.any(0) & ~pattern[update.seen].any(0)
        if hidden.any() or not pattern.any():
            raise CannotFollow(
                f"A diagonal trace cannot follow the parameter `{p.name}`: it enters the step only through points "
                f"beside the field (boundary values), or not at all, and its gradient would be zero. Take "
                f'method="forward" for it, or otherwise="forward".',
                frozenset([number]),
            )
        colours = colour(pattern)
        table = owners(pattern, colours, p.size)
        combs = np.zeros((len(table), update.num_parameters), update.packing.dtype)
        combs[colours, np.arange(p.start, p.stop)] = 1
        raw = jax.ShapeDtypeStruct(p.shape, p.dtype)
        out = jax.ShapeDtypeStruct((update.num_states,), update.packing.dtype)
        site = Site("stencil", lambda value, others: value, raw, out, 0, {}, frozenset([number]))
        return Band(Stencil(table), site, combs, (table < p.size).astype(update.packing.dtype))

    def jacobian(self, update: Update, point: Point) -> Any:
        """B along each comb, (colours, N)."""
        theta, state, aside, inputs = point

        def along(move: Any) -> Any:
            return jax.jvp(lambda p: update.step(p, state, aside, inputs)[0], (theta,), (move,))[1]

        return self.seen * jax.vmap(along)(self.moves)


@dataclass(frozen=True, eq=False)
class Slope:
    """D̃ (N,) `at` a point, the structure of D in words, and whether D is that diagonal where it is seen, at any step;
    `because`."""

    at: Callable[[Point], Any]
    structure: str
    exact: bool
    because: str


def find_slope(update: Update, walk: Walk | None, rule: str) -> Slope:
    """D̃ of an update by a rule."""
    function = update.step
    if rule == "diagonal":
        assert walk is not None
        function = walk.cut

    def settled(theta: Any, state: Any, aside: Any, inputs: Any) -> Any:
        """The same with what lies beyond the ends as a part of what it is made of."""
        return function(theta, update.settle(theta, state, aside, inputs), aside, inputs)

    push = push_state(settled)
    ones = np.ones((update.num_states,), update.packing.dtype)

    def plain(point: Point) -> Any:
        return push(point, ones)

    reads = rule == "diagonal" and walk is not None and _reads(walk)
    slope = plain if _is_diagonal(update, function) else _combed(update, push, settled)
    if not _is_diagonal(update, update.step):
        why = f"D is not diagonal, and the rule `{rule}` drops the rest"
        return Slope(slope, f"D is no diagonal matrix; D̃ by the rule `{rule}`", False, why)
    if reads:
        why = f'the rule `{rule}` drops how parameters act through the state; rule="coupled" is exact here'
        return Slope(slope, f"D is diagonal; D̃ by the rule `{rule}`", False, why)
    return Slope(slope, "D is diagonal", True, "D is diagonal")


def _is_diagonal(update: Update, function: Any) -> bool:
    """Whether each number of the next state that is seen depends on none but that of its own place, at any step."""
    first, last = find_ends(lambda marks: mark(update, function, STATE, marks)[0], update.num_states)
    places = np.arange(update.num_states)
    return bool(((last < 0) | ((first == places) & (last == places)))[update.seen].all())


def _reads(walk: Walk) -> bool:
    """Whether an operation with parameters reads the state."""
    apart = [k for k, (_, operation) in enumerate(walk.sites) if not operation.places]

    def read(theta: Any, state: Any, aside: Any, inputs: Any) -> Any:
        taps = walk.tapped(theta, state, aside, inputs, walk.still)[1]
        return [taps[k].others for k in apart]

    marks = jnp.ones((walk.update.num_states,), np.float32)
    with jax.ensure_compile_time_eval():
        return any(bool(jnp.any(one > 0)) for one in jax.tree.leaves(mark(walk.update, read, STATE, marks)))


def _combed(update: Update, push: Any, function: Any) -> Callable[[Point], Any]:
    """The diagonal of a matrix from probes with combs."""
    pattern = find_pattern(update, function, STATE, np.arange(update.num_states), "∂u'/∂u")
    pattern = pattern | np.eye(len(pattern), dtype=bool)
    colours = colour(pattern)
    combs = (np.arange(colours.max() + 1)[:, None] == colours).astype(update.packing.dtype)

    def slope(point: Point) -> Any:
        return jnp.sum(combs * jax.vmap(lambda comb: push(point, comb))(combs), 0)

    return slope
