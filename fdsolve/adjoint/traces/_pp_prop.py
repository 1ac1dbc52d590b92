"""Two small traces for each operation: one of what it reads, one of how its result acts."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import DeclarationError
from ._dependence import is_steady
from ._diagonal import check_rule, find_slope
from ._embedding import Embedded, embed
from ._exact import moved_at_start
from ._method import AbstractMethod, Trace, entries_of, rows_of
from ._patterns import points_near
from ._sites import CannotFollow, Walk, make_walk
from ._update import Point, Update
from ._waves import refuse_waves


@dataclass(frozen=True)
class PPProp(AbstractMethod):
    """ε_x' = α_x ε_x + x and ε_f' = α_f D̃ ε_f + (1 − α_f) D_f for y = K·x; g = VJP_K(ε_x, δ∘ε_f / (1 − α_fⁿ)), n the
    steps that the trace has run (not those of the loss). |x| + |y| numbers.

    `alpha_x`, `alpha_f` in [0, 1); `rule` as for D-RTRL. Exact only for D = d·1, D_f constant and (α_x, α_f) = (d, 0).
    Source: Wang et al. ("ES-D-RTRL", brainscale, 2024).
    """

    alpha_x: float = 0.5
    alpha_f: float = 0.5
    rule: str = "diagonal"

    def __post_init__(self) -> None:
        check_rule("PPProp", self.rule)
        for name in ("alpha_x", "alpha_f"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.floating) or not 0 <= value < 1:
                raise DeclarationError(f"PPProp: {name}= is a number from 0 to below 1, got {value!r}.")

    def check(self, update: Update, point: Point) -> None:
        refuse_waves(update, "pp_prop", point)

    def follow(self, update: Update, own: tuple[int, ...]) -> Trace:
        refuse_waves(update, "pp_prop", update.example if update.is_concrete else None)
        walk = make_walk(update)
        sites = embed(walk, own)
        _check(update, own, sites)
        slope = find_slope(update, walk, self.rule)
        exact = slope.exact and self._is_exact(update, walk, sites, slope.at)
        dtype = update.packing.dtype
        held = np.zeros(update.num_parameters, dtype)
        held[entries_of(update, own)] = 1

        def start(theta: Any, constants: Any) -> Any:
            shapes = walk.like(_numbers(sites))
            xs = [
                [jnp.zeros(x.shape, x.dtype) for x in _moving(one, tap)] for one, tap in zip(sites, shapes, strict=True)
            ]
            return xs, [jnp.zeros(one.site.out.shape, dtype) for one in sites], jnp.zeros((), dtype)

        def advance(point: Point, trace: Any) -> Any:
            known = slope.at(point)
            dfs, taps = walk.slopes_at(point, _numbers(sites))
            xs = [
                [self.alpha_x * old + new for old, new in zip(olds, _moving(one, tap), strict=True)]
                for one, tap, olds in zip(sites, taps, trace[0], strict=True)
            ]
            fs = [
                self.alpha_f * one.take(known) * old + (1 - self.alpha_f) * one.take(df)
                for one, df, old in zip(sites, dfs, trace[1], strict=True)
            ]
            return xs, fs, trace[2] + 1

        def gradient(point: Point, trace: Any, delta: Any) -> Any:
            xs, fs, steps = trace
            norm = jnp.where(steps > 0, 1 - self.alpha_f**steps, jnp.ones((), dtype)).astype(dtype)
            taps = walk.slopes_at(point, _numbers(sites))[1]
            found = [
                _pull(one, tap, x, one.take(delta) * f / norm)
                for one, tap, x, f in zip(sites, taps, xs, fs, strict=True)
            ]
            return held * walk.pull_raws(point, _numbers(sites), found)

        why = "D = d·1, D_f is constant and (α_x, α_f) = (d, 0)" if exact else "traces of x and D_f are averaged apart"
        shapes = []
        for k in own:
            mine = [one for one in sites if k in one.site.sources]
            name = " + ".join(dict.fromkeys(one.site.name for one in mine))
            shapes.append((name, (2 * len(mine), *mine[0].site.out.shape)))
        rows = rows_of(update, own, "pp_prop", shapes, slope.structure, exact, why)
        return Trace(start, advance, gradient, rows, is_whole=False)

    def _is_exact(self, update: Update, walk: Walk, sites: list[Embedded], slope: Any) -> bool:
        values, acting = [], []

        def known_at(point: Any) -> Any:
            return slope(point), walk.slopes_at(point, _numbers(sites))[0]

        with jax.ensure_compile_time_eval():
            known = jax.jit(known_at)
            for point in points_near(update):
                slopes, dfs = known(point)
                values.append(np.asarray(slopes)[update.seen])
                acting.append([np.asarray(one.take(df)) for one, df in zip(sites, dfs, strict=True)])
        aside, inputs = jax.tree.map(lambda leaf: True, (update.example[2], update.example[3][1]))
        constants = jax.tree.map(lambda leaf: False, update.unknown)
        changes = (False, True, aside, (constants, inputs))
        if not is_steady(lambda *point: known_at(point), update.example, changes):
            return False
        close = 1e3 * float(jnp.finfo(update.packing.dtype).eps)
        same = all(np.allclose(a, b, rtol=close) for a, b in zip(*acting, strict=True))
        return same and self.alpha_f == 0 and all(np.allclose(v, self.alpha_x, rtol=0, atol=close) for v in values)


def _check(update: Update, own: tuple[int, ...], sites: list[Embedded]) -> None:
    """Refuses parameters that a trace of inputs cannot follow."""
    for k in own:
        mine = [one for one in sites if k in one.site.sources]
        begun = moved_at_start(update, entries_of(update, (k,)))
        if not mine:
            reason = "no operation of the step takes it"
        elif begun.any():
            seen = begun[update.seen].any()
            reason = "the first state depends on it" if seen else "it enters points beside the field (boundary values)"
        elif not all(one.fits for one in mine):
            reason = "what it makes enters the next state at several points, or beside the field"
        elif not all(one.operation.scales(one.site) for one in mine):
            reason = f"`{mine[0].site.name}` is not linear in what it reads"
        else:
            continue
        raise CannotFollow(
            f"Traces of inputs cannot follow the parameter `{update.parameters[k].name}`: {reason}. Take "
            f'method="forward" for it (exact), or otherwise="forward".',
            frozenset([k]),
        )


def _numbers(sites: list[Embedded]) -> list[int]:
    return [one.number for one in sites]


def _moving(one: Embedded, tap: Any) -> list[Any]:
    """What the operation reads: its further operands; 1 where it reads nothing."""
    if one.operation.places:
        return [jnp.ones((), one.site.out.dtype)]
    return [x for x in tap.others if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]


def _pull(one: Embedded, tap: Any, traced: list[Any], weights: Any) -> Any:
    """VJP of y by the parameter, with traces in the place of what the operation reads."""
    weights = weights.astype(one.site.out.dtype)
    if one.operation.places:
        return jax.vjp(lambda raw: one.site.apply(raw, ()), tap.raw)[1](weights * traced[0])[0]
    kept = iter(traced)
    others = tuple(next(kept) if jnp.issubdtype(jnp.result_type(x), jnp.inexact) else x for x in tap.others)
    return jax.vjp(lambda raw: one.site.apply(raw, others), tap.raw)[1](weights)[0]
