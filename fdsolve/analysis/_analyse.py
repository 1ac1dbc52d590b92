"""`fd.analyse`: accuracy, stability and dispersion of the user's own declaration."""

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..planning import Plan, Stability, make_plan
from ..stencil import WholeRead
from ._dataset import Analysis, to_dataset
from ._dispersion import disperse
from ._linearise import Site, check_site, linearise
from ._modified import SCALES, Equation, Modified, modified_terms, parabolic_degree, split_terms
from ._scale import scaled_plan
from ._symbol import Symbol, make_symbol

_WAVENUMBERS = {1: 64, 2: 24, 3: 10}


def analyse(
    fields: Any,
    /,
    *,
    stepper: Any = None,
    about: Any = None,
    at: Any = None,
    wavenumbers: Any = None,
    parameters: Any = None,
    **keywords: Any,
) -> Analysis:
    """What the declared scheme does to waves, from the declaration itself: accuracy, stability, dispersion.

    Arguments: `fields`, `stepper` and parameters as for `solve`; `about=dict(u=1.0)`, the constant state that rules
    which are not affine are linearised about; `at=dict(x=0.3, t=0.0)`, where weights that vary are frozen;
    `wavenumbers`, how many phases θ = kΔx in (0, π] are looked at along each axis.

    Looks at the rule that holds on most points of each field, away from walls. Returns an xarray Dataset that prints
    the modified equation, `u_t = −1 u_x + [0.005 u_xx + …]`, its leading error in brackets, with the order of accuracy
    and the largest stable step, and plots itself, `.plot()`. Per wavenumber it holds the amplification factor |G| of
    one time step, that of the exact equation, and the relative errors of phase and group velocity.

    For plain rules of one step the time derivatives of the error are eliminated by the logarithm of the symbol: the
    modified equation is exact to the degree shown. For rates it is that of the semi-discrete equation, and the
    stepper's order is told beside it. Rules of two time derivatives are told as u_tt = …

    Sources: Warming & Hyett, J. Comput. Phys. 14 (1974) 159 (modified equation); Charney, Fjørtoft & von Neumann,
    Tellus 2 (1950) 237 (stability); Trefethen, SIAM Review 24 (1982) 113 (group velocity).

    Raises PlanningError for rules that are not affine, or whose weights vary, where neither `about` nor `at` says more.
    """
    own = make_plan(fields, {**(parameters or {}), **keywords}, stepper, None)
    site = check_site(own, about, at)
    count = _to_count(wavenumbers, len(own.problem.scope.grid.space))
    symbol = symbol_of(own, site)
    found = modified_of(own, site, symbol)
    waves = disperse(symbol, _spacing(own), found if isinstance(found, Modified) else None, count)
    largest = _largest_step(own, site, symbol)
    return to_dataset(own, symbol, found, waves, largest)


def symbol_of(plan: Plan, site: Site) -> Symbol:
    """The symbol of a plan's main rules."""
    time = plan.problem.scope.grid.time
    rules = linearise(plan, site)
    assert time is not None
    return make_symbol(rules, time.step if site.step is None else site.step, plan.structure.stepper)


def _spacing(plan: Plan) -> np.ndarray:
    grid = plan.problem.scope.grid
    return np.array([grid.space_axis(axis).step for axis in grid.space])


def modified_of(plan: Plan, site: Site, symbol: Symbol) -> Modified | str:
    """The modified equation; or why there is none."""
    first = modified_terms(symbol, _spacing(plan))
    if isinstance(first, str):
        return first
    found = _refined(plan, site, first, 1)
    if isinstance(found, str) or symbol.has_rates:
        return found
    ratio = parabolic_degree(found.exact)
    return found if ratio == 1 else _refined(plan, site, first, ratio)


def _refined(plan: Plan, site: Site, first: Equation, ratio: int) -> Modified | str:
    """The modified equation from the same rules on finer grids, Δt ∝ Δx^ratio."""
    found = [first]
    for scale in SCALES[1:]:
        finer = scaled_plan(plan, site.at, scale, scale**ratio)
        if isinstance(finer, str):
            return f"no finer grid to compare with: {finer}"
        one = modified_terms(symbol_of(finer, site), _spacing(finer))
        if isinstance(one, str):
            return one
        found.append(one)
    return split_terms(found, ratio)


def _to_count(value: Any, axes: int) -> int:
    if value is None:
        return _WAVENUMBERS.get(axes, 6)
    if isinstance(value, bool) or not isinstance(value, int) or value < 4:
        raise DeclarationError(f"fd.analyse: wavenumbers= takes a whole number of at least 4, got {value!r}.")
    return value


def _largest_step(plan: Plan, site: Site, symbol: Symbol) -> float:
    """The largest step up to which no wave grows faster than the equation lets it; inf, 0 for none, nan if not read."""
    known = plan.stability
    if isinstance(known, Stability) and not known.alone:
        return np.nan if known.largest is None else known.largest
    if not symbol.has_rates and not _reads_step(plan):
        return np.nan

    def stable(step: float) -> bool:
        if not _reads_step(plan):
            return is_stable(replace(symbol, step=step))
        return is_stable(symbol_of(plan, replace(site, step=step)))

    here = stable(symbol.step)
    step, factor = symbol.step, 2.0 if here else 0.5
    for _ in range(40):
        if stable(step * factor) != here:
            break
        step *= factor
    else:
        return np.inf if here else 0.0
    low, high = sorted((step, step * factor))
    while high - low > 1e-5 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if stable(middle) else (low, middle)
    # A bound that only small growth allows is none: every step amplifies something.
    return low if low > 1e-9 * symbol.step else 0.0


def _reads_step(plan: Plan) -> bool:
    return any(WholeRead("dt") in rule.operands for rule in plan.structure.rules)


def is_stable(symbol: Symbol) -> bool:
    """Whether no root exceeds 1, or what the constant mode or the exact rates grow by, but for rounding."""
    axes = len(next(iter(symbol.rules[0].weights))[2]) if symbol.rules[0].weights else 1
    line = np.linspace(-np.pi, np.pi, {1: 129, 2: 25, 3: 11}.get(axes, 7))
    theta = np.stack(np.meshgrid(*[line] * axes, indexing="ij"), axis=-1).reshape(-1, axes)
    growth = np.abs(symbol.roots(theta)).max(axis=-1)
    if symbol.has_rates:
        exact = np.exp(np.linalg.eigvals(symbol.rates(1j * theta)).real * symbol.step).max(axis=-1)
    else:
        exact = np.full(len(theta), np.abs(symbol.roots(np.zeros((1, axes)))).max())
    return bool((growth <= np.maximum(1.0, exact) * (1 + 1e-7)).all())
