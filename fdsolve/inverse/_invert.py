"""`fd.invert`: the parameters that fit."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._losses import takes
from ..errors import DeclarationError
from ._bounds import Bounds
from ._flat import Flatness
from ._frame import is_positive
from ._inversion import Inversion
from ._methods import DENSE, AbstractMethod, Report, num_iterations, relative, to_method
from ._names import by_name
from ._objective import Objective, check_start, to_objective
from ._order import in_order
from ._projected import between
from ._regularise import to_terms
from ._space import Space, to_space
from ._subsets import Subsets

LAGGING = 5
"""Times as many iterations for residuals by which methods converge linearly."""

ROUGH = 1e-4
"""The tolerance of searches that see a part of the data at a time."""
USED_UP, NOT_FINITE = "the iterations are used up", "the loss or its gradient is not finite"


@dataclass(frozen=True, eq=False)
class Iterate:
    """What a callback sees: `iteration`, `loss` with regularisation, `gradient_norm`, `parameters`."""

    iteration: int
    loss: float
    gradient_norm: float
    parameters: Any


def invert(
    loss_or_misfit: Any,
    initial: Any,
    *,
    method: Any = None,
    bounds: Any = None,
    transform: Any = None,
    regularise: Any = None,
    grid: Any = None,
    subsets: Any = None,
    seed: Any = 0,
    max_iterations: Any = None,
    tolerance: Any = None,
    callback: Any = None,
    progress: Any = False,
) -> Inversion:
    """Finds the parameters that make a loss least.

    Arguments:
        loss_or_misfit: a function of a pytree like `initial`. One that returns a scalar is a loss L; any other pytree
            of arrays is residuals r, and L = ½‖r‖² (`fd.misfit` makes them). With `subsets=` it takes a second
            argument.
        initial: where to start: a pytree of real arrays, mostly a dict by name, or a Dataset. The loss and the result's
            `parameters` have plain arrays in the places of DataArrays, in the order of axes of `grid`; `to_xarray()`
            has their coordinates. Entries in another order along an axis than there, or elsewhere, are refused.
        method: "levenberg-marquardt" (residuals; the default for them), "gauss-newton" (residuals), "l-bfgs" (the
            default for a scalar), "bfgs", "adam" (the default with subsets), a solver of optimistix or a transformation
            of optax.
        bounds: (lower, upper) by parameter, None where free: dict(kappa=(0, None)). Methods for residuals, of up to 256
            parameters, take steps within them; others keep them by a transform: `Softplus` for one bound, `Logistic`
            for two. What lies at a bound starts 0.02 of the transform's size inside.
        transform: an object by parameter: dict(kappa=fd.inverse.Exponential()).
        regularise: `fd.tikhonov(...)`, `fd.total_variation(...)`, functions of the parameters, or a list of those.
        grid: that of the fields the loss solves for, whose order of axes DataArrays take; by default the one that
            `regularise` names, or on which the loss is seen to solve something. Without one DataArrays stay as they
            are, with a warning where two axes have one size, so that nothing would tell a wrong order.
        subsets: a number n: the function gets k of 0 … n − 1, each once a round, shuffled by `seed`; or a
            `jax.random.key(...)`: it gets a new key at each iteration.
        max_iterations: how many; by method.
        tolerance: ε; ends when the loss fell by less than ε of itself and the variables moved by less than √ε of
            theirs, and no step of that length down the gradient lowers it by more than 10 ε (it is tried); or when the
            gradient's norm is below ε of the loss; or where residuals vanish: the loss is below ε² of that at the
            start, and the variables moved by less than ε. Default 4e-10 in float64, 7e-5 in float32. With a number of
            subsets the iterations are used up, and the mean loss of all tells success, ε 1e-4.
        callback: called with an `Iterate` (iteration, loss, gradient_norm, parameters); a true result ends the search.
        progress: whether to print a line as it goes.

    Methods move free variables: the parameters through their transforms, or divided by the size of their initial
    values; step sizes (of Adam, say) are relative to that size. The loss they see is divided by that at the start.

    Raises: DeclarationError for parameters that are integers, names and bounds that do not fit, a loss that is nan at
    the start or does not depend on a parameter.

    >>> data = jnp.array([1.0, 0.5, 0.25])
    >>> found = invert(lambda p: jnp.exp(-p["rate"] * jnp.arange(3.0)) - data, dict(rate=0.1), bounds=dict(rate=(0, 9)))
    >>> print(f"{float(found.parameters['rate']):.4f}", found.converged)
    0.6931 True
    """
    try:
        order, initial = Subsets.of(subsets, seed), by_name(initial)

        def trial() -> Any:
            space = to_space(initial, None, None)
            given = () if order.example is None else (order.example,)
            anew = lambda *values: loss_or_misfit(*values)  # noqa: E731 - one that JAX has not traced before
            return jax.eval_shape(anew, space.parameters(space.start()), *given)

        space = to_space(in_order(initial, grid, regularise, trial), bounds, transform)
        vector = space.start()
        terms = to_terms(regularise, space.parameters(vector), space.labels)
        objective = to_objective(loss_or_misfit, space, terms, order.example)
        chosen = to_method(method, objective, subsets is not None)
        if any(leaf.bounded for leaf in space.leaves) and (projected := between(chosen, vector.size)):
            chosen, space = projected, space.straight()
            objective, vector = objective.over(space), space.start()
        lags = chosen.wants_residuals and any(term.lags for term in terms)
        limits = _limits(chosen, space, max_iterations, tolerance, lags, subsets is not None)
        if callback is not None and not (callable(callback) and takes(callback, 1)):
            raise DeclarationError(
                f"callback= takes a function of one iterate: def callback(iterate); got {callback!r}."
            )
        loss, slope = check_start(objective, vector, order.examples, chosen.is_dense(vector.size))
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise DeclarationError(
            "The loss reads values that are traced; fd.invert runs outside jit, grad and vmap. Call it for each."
        ) from error
    unit = abs(loss) if loss and subsets is None else 1.0  # one subset does not tell the size of all
    watch = _Watch(space, unit, callback, bool(progress))
    search = _Search(replace(objective, unit=unit), chosen, limits, order, watch)
    return search.run(vector, float(np.linalg.norm(slope / unit)))


@dataclass(frozen=True)
class _Limits:
    iterations: int
    tolerance: float


def _limits(
    chosen: AbstractMethod, space: Space, iterations: Any, tolerance: Any, lags: bool, subsets: bool
) -> _Limits:
    if iterations is None:
        iterations = chosen.max_iterations * (LAGGING if lags else 1)
    if isinstance(iterations, bool) or not isinstance(iterations, Integral) or iterations < 1:
        raise DeclarationError(f"max_iterations= is a whole number of at least 1, got {iterations!r}.")
    if tolerance is None:
        tolerance = max(space.rounding**0.6, ROUGH if subsets else 0.0)
    if not is_positive(tolerance) or not tolerance < 1:
        raise DeclarationError(f"tolerance= is a number between 0 and 1, got {tolerance!r}. Take 1e-8.")
    return _Limits(int(iterations), float(tolerance))


@dataclass(frozen=True, eq=False)
class _Watch:
    """Tells callback and terminal."""

    space: Space
    unit: float
    callback: Callable[[Iterate], Any] | None
    shows: bool

    def tell(self, iteration: int, report: Report) -> bool:
        """Whether to stop."""
        loss, steep = report.loss * self.unit, report.gradient_norm * self.unit
        if self.shows:
            print(f"\riteration {iteration}: loss {loss:.6g}, gradient {steep:.3g}   ", end="", file=sys.stderr)
        if self.callback is None:
            return False
        answer = self.callback(Iterate(iteration, loss, steep, self.space.parameters(report.vector)))
        try:
            return bool(answer)
        except (TypeError, ValueError) as error:
            raise DeclarationError(
                f"callback= returns True to end the search and nothing to go on; got a {type(answer).__name__}, which "
                f"is neither true nor false."
            ) from error

    def close(self) -> None:
        if self.shows:
            print(file=sys.stderr)


@dataclass(frozen=True, eq=False)
class _Search:
    """The loop."""

    objective: Objective
    method: AbstractMethod
    limits: _Limits
    order: Subsets
    watch: _Watch

    def run(self, vector: jax.Array, steepness: float) -> Inversion:
        reports: list[Report] = []
        if steepness == 0 and self.order.example is None:
            reports.append(Report(vector, float(self.objective.loss(vector, self.order.example)), 0.0, True))
            flat = self._flatness.holds_all_around(reports[0])
            away = "" if flat else ", and the loss falls away from it: start elsewhere"
            return self._result(reports, f"the gradient is zero at the start{away}", flat)
        method = self.method
        advance = method.begin(self.objective, vector, steepness)
        bounds = Bounds.of(self.objective, vector.size)
        reason, converged, begun = USED_UP, False, 0
        try:
            for iteration, subset in zip(range(self.limits.iterations + 1), self.order.stream(), strict=False):
                reports.append(advance(subset))
                if self.watch.tell(iteration, reports[-1]):
                    reason = "the callback said so"
                    break
                moved, end = self._at_bounds(bounds, reports, self._judge(reports, begun))
                if moved is not None:
                    bounds, vector = moved
                    advance, begun = self._begin_held(method, bounds, vector), len(reports)
                elif end is not None:
                    reason, converged = self._confirmed(reports, *end)
                    again = method.rescaled() if end[1] and not converged else None
                    if again is None:
                        break
                    method, vector = again, min(reports, key=lambda one: one.loss).vector
                    advance, begun = self._begin_held(method, bounds, vector), len(reports)
        except KeyboardInterrupt:
            if not reports:
                raise
            reason = "interrupted"
        else:
            if reason == USED_UP and self.order.number is not None:
                reason, converged = self._settled(reports)
            elif reason == USED_UP and (near := bounds.num_near(reports[-1].vector)):
                reason += (
                    f" while {near} parameters creep up to their bounds; residuals of up to {DENSE} parameters are "
                    f'fitted within bounds by method="levenberg-marquardt" without that'
                )
        self.watch.close()
        return self._result(reports, reason, converged)

    def _at_bounds(
        self, bounds: Bounds, reports: list[Report], end: tuple[str, bool] | None
    ) -> tuple[tuple[Bounds, jax.Array] | None, tuple[str, bool] | None]:
        """Other bounds that hold, and where the search goes on with them (None where it goes on, or ends, as it is);
        and why it ends if it does."""
        if self.order.example is not None:
            return None, end
        if end is None or not end[1]:
            return bounds.press(reports, end is not None) if self.method.wants_residuals else None, end
        leaving = bounds.leaving(reports[-1].vector)
        if not leaving.any():
            return None, end
        stuck = f"{int(leaving.sum())} parameters stay at bounds away from which the loss falls{self._remedy}"
        return bounds.release(reports[-1].vector, leaving), (stuck, False)

    @property
    def _remedy(self) -> str:
        """What to take instead of steps that are not damped."""
        damped = self.method.wants_residuals and "Marquardt" not in self.method.name
        return '; take method="levenberg-marquardt", whose steps are damped' if damped else ""

    def _confirmed(self, reports: list[Report], reason: str, success: bool) -> tuple[str, bool]:
        """Why a search ends and whether that is success: not where the loss falls along what its curvature promises."""
        best = min(reports, key=lambda one: one.loss)
        if not success or self.order.example is not None or self._flatness.holds_all_around(best):
            return reason, success
        damped = self.objective.compiled is not None and "Gauss" not in self.method.name
        own = 'take method="gauss-newton", or ' if damped else ""
        hidden = "but the loss still falls along variables that the steepest ones hide"
        return f"{reason}, {hidden}; {own}give parameters in units in which all are of one size, by transform=", False

    def _begin_held(self, method: AbstractMethod, bounds: Bounds, vector: jax.Array) -> Callable[[Any], Report]:
        """The method anew, for the variables that are not held."""
        objective, part, whole = bounds.restrict(vector)
        if not part.size:
            loss = float(objective.loss(part))
            return lambda subset: Report(vector, loss, 0.0, True, "all parameters are at their bounds")
        steepness = float(jnp.linalg.norm(jax.grad(objective.loss)(part)))
        if steepness == 0:
            loss = float(objective.loss(part))
            return lambda subset: Report(vector, loss, 0.0, True, "the gradient is zero")
        advance = method.begin(objective, part, steepness)
        return lambda subset: whole(advance(subset))

    def _judge(self, reports: list[Report], begun: int) -> tuple[str, bool] | None:
        """Why to stop here, and whether that is success; the method began anew with the report of number `begun`."""
        last, small = reports[-1], self.limits.tolerance
        if not (math.isfinite(last.loss) and math.isfinite(last.gradient_norm)):
            return f"{NOT_FINITE}{self._remedy}", False
        best = reports[begun + int(np.argmin([one.loss for one in reports[begun:]]))]
        # The best is what is returned; a step too far may end where all is flat.
        far = last.loss > best.loss + small**0.5 * abs(best.loss)
        if last.ended is not None:
            return last.ended, not far
        if self.order.example is not None or self.method.has_own_test:
            return None
        if not far and last.gradient_norm <= small * abs(last.loss):
            return f"the gradient is below {small:.0e} of the loss", True
        still = last.accepted and not far and self._still(reports[begun:])
        crept = self._crept(reports[begun:])
        if still and self._flatness.holds(last, anew=crept):
            return still, True
        if still and crept:
            steep = last.gradient_norm * self.objective.unit
            longer = "; take longer ones" if self.method.takes_subsets else ""  # others choose their length themselves
            return f"steps are too short while the gradient is {steep:.2g}{longer}", False
        since = next(k for k, one in enumerate(reversed(reports)) if one is best)
        if num_iterations(reports[len(reports) - since :]) >= self.method.patience:
            # The gradient is held against that at the start, for residuals as small as these.
            usual = reports[0].gradient_norm * abs(best.loss / (reports[0].loss or 1.0)) ** 0.5
            if best.gradient_norm <= max(1e-3, small**0.5) * usual:
                return f"no smaller loss in {since} iterations", True
            success = self._flatness.holds(best, anew=True)
            return f"no smaller loss in {since} iterations{'' if success else self._remedy}", success
        return None

    @cached_property
    def _flatness(self) -> Flatness:
        return Flatness(self.objective, self.limits.tolerance)

    def _crept(self, reports: list[Report]) -> bool:
        """Whether many steps together are next to none, as a few at a schedule's start are; but not at a fast fall."""
        known = [one for one in reports if one.accepted][-self.method.patience - 1 :]
        if len(known) <= self.method.patience or known[-1].loss < 0.5 * known[0].loss:
            return False
        return relative(known[-1].vector, known[0].vector) <= self.limits.tolerance**0.5

    def _still(self, reports: list[Report]) -> str | None:
        """Why the last steps were next to none; a single one may be short by chance where its length is searched."""
        small, steps = self.limits.tolerance, 1 if self.method.wants_residuals else 3
        pairs = list(pairwise([one for one in reports if one.accepted][-steps - 1 :]))
        if len(pairs) < steps:
            return None
        moved = max(relative(b.vector, a.vector) for a, b in pairs)
        if moved <= small**0.5 and all(0 <= a.loss - b.loss <= small * abs(a.loss) for a, b in pairs):
            return "loss and parameters no longer change"
        # Where residuals vanish, their gradient does as their root, and the loss goes on falling in rounding.
        if moved <= small and abs(reports[-1].loss) <= small**2:
            return f"the loss is below {small**2:.0e} of that at the start, and parameters no longer change"
        return None

    def _result(self, reports: list[Report], reason: str, converged: bool) -> Inversion:
        finite = [one for one in reports if math.isfinite(one.loss)] or reports[:1]
        best = finite[-1] if self.order.example is not None else min(finite, key=lambda one: one.loss)
        unit = self.objective.unit
        asks = converged or reason.startswith((USED_UP, NOT_FINITE))
        if asks and (told := self._why_unsound(best.vector)):
            joint, converged = "but" if converged else "and", False
            reason = f"{reason}, {joint} fields there are not to be trusted: {told.rstrip('.')}"
        elif reason == USED_UP:
            reason += f"; allow more, max_iterations={2 * self.limits.iterations}, or go on from its parameters"
        return Inversion(
            objective=self._whole(),
            vector=best.vector,
            loss=unit * (best.loss if self.order.number is None else self._all_subsets.report(best.vector).loss),
            gradient_norm=best.gradient_norm * unit,
            converged=converged,
            reason=reason,
            method=self.method.name,
            losses=np.array([one.loss * unit for one in reports]),
            gradient_norms=np.array([one.gradient_norm * unit for one in reports]),
        )

    def _why_unsound(self, vector: jax.Array) -> str | None:
        """What is wrong with runs there, whichever subset they are of."""
        seen = (self.objective.why_unsound(vector, subset) for subset in self.order.examples)
        return next((told for told in seen if told), None)

    def _whole(self) -> Objective:
        """The objective as it is, of all subsets."""
        made, number = replace(self.objective, unit=1.0), self.order.number
        if self.order.example is None:
            return made
        if number is None:
            return replace(made, subsets=0)
        each, every = self.objective.function, jnp.arange(number, dtype=jnp.int32)
        function = lambda parameters: jax.lax.map(lambda k: each(parameters, k), every)  # noqa: E731
        return replace(made, function=function, compiled=None, subsets=number)

    @cached_property
    def _all_subsets(self) -> Flatness:
        every = [jnp.asarray(k, jnp.int32) for k in range(self.order.number or 0)]
        return Flatness(self.objective, self.limits.tolerance, every)

    def _settled(self, reports: list[Report]) -> tuple[str, bool]:
        """Why a search over subsets ends, whose own losses tell little; success is judged by the mean of all."""
        last, first = (self._all_subsets.report(one.vector) for one in (reports[-1], reports[0]))
        if not math.isfinite(last.loss):
            return NOT_FINITE, False
        if last.loss <= self.limits.tolerance**2 * abs(first.loss):
            return f"{USED_UP}, and the loss of all subsets is next to none", True
        if self._all_subsets.holds(last, anew=True):
            return f"{USED_UP}, and the loss of all subsets falls no further down its gradient", True
        shorter = "steps that become shorter: method=optax.adam(optax.exponential_decay(0.05, 100, 0.7))"
        return f"{USED_UP}, and the loss of all subsets still falls down its gradient; take more, or {shorter}", False
