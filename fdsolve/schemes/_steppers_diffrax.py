"""Error-controlled and stiff stepping by diffrax, level by level."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import DeclarationError, PlanningError
from ._steppers import AbstractStepper, AbstractSystem, Modes, NoGrowth, Outline, Values


@dataclass(frozen=True)
class Diffrax(AbstractStepper):
    """Hands the rates to a diffrax solver, which steps from level to level under error control.

    Arguments: `solver`, an object such as `diffrax.Tsit5()` or, for stiff problems, `diffrax.Kvaerno5()`; `rtol`,
    `atol`, the tolerances of a step; `adjoint`, a diffrax adjoint (default: checkpointed reverse mode; for jvp,
    `fd.adjoint.Forward` and `fd.online` `diffrax.ForwardMode()`; `diffrax.DirectAdjoint()` has both); `max_steps`, how
    many steps a level may take. Plain rules and boundary values beside the rates are set at every evaluation; a plain
    rule that reads an older level is an error, since steps do not end on levels.

    A level that fails (too many steps, a nonlinear solve that does not converge) raises RunError after the run. Source:
    Kidger, On Neural Differential Equations (2021), chapter 5. Good values: rtol = 1e-6 and atol = 1e-9, and Tsit5
    unless its steps are held down by stability.
    """

    solver: Any
    rtol: float = 1e-6
    atol: float = 1e-9
    adjoint: Any = None
    max_steps: int = 4096
    order: int = field(init=False, default=0, repr=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        diffrax = _load()
        if not isinstance(self.solver, diffrax.AbstractSolver):
            got = f"the class {self.solver.__name__}" if isinstance(self.solver, type) else repr(self.solver)
            raise DeclarationError(f"Diffrax takes a solver such as diffrax.Tsit5(), got {got}.")
        _check_kind(diffrax, self.solver)
        if self.adjoint is not None and not isinstance(self.adjoint, diffrax.AbstractAdjoint):
            raise DeclarationError(f"Diffrax: adjoint= takes a diffrax adjoint, got {self.adjoint!r}.")
        if isinstance(self.adjoint, diffrax.BacksolveAdjoint | diffrax.ImplicitAdjoint):
            raise DeclarationError(
                f"Diffrax: {type(self.adjoint).__name__} takes derivatives by the `args` of a vector field, and rates "
                f"here have none. Take diffrax.RecursiveCheckpointAdjoint(), ForwardMode() or DirectAdjoint()."
            )
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < np.inf:
                raise DeclarationError(f"Diffrax: {name}= is a number above 0, got {value!r}.")
        if isinstance(self.max_steps, bool) or not isinstance(self.max_steps, int) or self.max_steps < 1:
            raise DeclarationError(f"Diffrax: max_steps= is a whole number of at least 1, got {self.max_steps!r}.")
        object.__setattr__(self, "order", int(self.solver.order(diffrax.ODETerm(lambda t, y, args: y)) or 0))

    @property
    def evaluations(self) -> int:
        return self.max_steps

    def why_not_forward(self, what: str) -> str | None:
        if not (self.adjoint is None or isinstance(self.adjoint, _load().RecursiveCheckpointAdjoint)):
            return None
        return (
            f"{what} takes derivatives forward in time, and {self!r} has them in reverse alone. Take "
            f"fd.schemes.Diffrax(..., adjoint=diffrax.ForwardMode()), which serves jvp, Forward() and streams by "
            f'"forward" and "forward_gradient"; diffrax.DirectAdjoint() has both and serves "uoro" and window= too.'
        )

    def why_not_back(self) -> str | None:
        if not isinstance(self.adjoint, _load().ForwardMode):
            return None
        return (
            f"{self!r} has derivatives forward in time alone, and gradients here go back. Leave its adjoint= out, "
            f"or take fd.solve(..., adjoint=fd.adjoint.Forward()) for few parameters; jax.jvp and jax.jacfwd serve."
        )

    def bind(self, outline: Outline) -> "Diffrax":
        if outline.older:
            raise PlanningError(
                f"{outline.older[0]} reads an older level, and diffrax takes steps that do not end on levels. Read the "
                f"same level there, or take a stepper of fixed steps such as fd.schemes.RK4()."
            )
        return self

    def begin(self, start: Values) -> Any:
        real = next(box.real.dtype for boxes in start.values() for box in boxes)
        return jnp.asarray(0.01, real), jnp.asarray(-1, jnp.int32)

    def step(self, system: AbstractSystem, memory: Any, prepared: Any) -> tuple[Values, Any]:
        diffrax = _load()
        first, failed = memory

        def rate(fraction: Any, values: Values, args: Any) -> Values:
            slopes = system.rates(values, fraction)
            return {
                name: tuple(slope * system.step.astype(slope.dtype) for slope in boxes)
                for name, boxes in slopes.items()
            }

        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(rate),
            self.solver,
            t0=jnp.zeros((), first.dtype),
            t1=jnp.ones((), first.dtype),
            dt0=first,
            y0=system.start,
            stepsize_controller=diffrax.PIDController(rtol=self.rtol, atol=self.atol),
            saveat=diffrax.SaveAt(t1=True),
            adjoint=self.adjoint or diffrax.RecursiveCheckpointAdjoint(),
            max_steps=self.max_steps,
            throw=False,
        )
        # The mean step of this level starts the next one: no stiff solver begins from nothing each time.
        taken = jnp.maximum(solution.stats["num_accepted_steps"], 1).astype(first.dtype)
        bad = solution.result != diffrax.RESULTS.successful
        failed = jnp.where((failed < 0) & bad, jnp.asarray(system.number, jnp.int32), failed)
        values = {name: tuple(box[0] for box in boxes) for name, boxes in solution.ys.items()}
        return values, (lax.stop_gradient(1 / taken), failed)

    def report(self, memory: Any) -> Any:
        return memory[1]

    def explain(self, level: int, time: float) -> str:
        return (
            f"{self!r} could not reach level {level}, t = {time:g}: more than max_steps={self.max_steps} steps, or a "
            f"nonlinear solve that did not converge. Loosen rtol and atol, take a stiff solver such as "
            f"diffrax.Kvaerno5(), or look whether the solution grows without bound."
        )

    def amplify(self, modes: Modes) -> NoGrowth:
        return NoGrowth("diffrax controls the error of its own steps")


def _check_kind(diffrax: Any, solver: Any) -> None:
    """Refuses solvers that want the rates in several terms, or that know nothing of their error."""
    if solver.term_structure is not diffrax.AbstractTerm:
        raise DeclarationError(
            f"Diffrax hands over the rates as one term, and {type(solver).__name__} takes several. Take diffrax.Tsit5()"
            f" or, for stiff rates, diffrax.Kvaerno5(); steps that are implicit in a part of the rates are "
            f"fd.schemes.ARK3() and ARK4(), those of groups fd.schemes.Strang() and StormerVerlet()."
        )
    if not isinstance(solver, diffrax.AbstractAdaptiveSolver):
        raise DeclarationError(
            f"Diffrax controls the error of its steps, and {type(solver).__name__} does not estimate it. Take "
            f"diffrax.Tsit5(), diffrax.HalfSolver(...) around it, or a stepper of fixed steps such as fd.schemes.RK4()."
        )


def _load() -> Any:
    try:
        import diffrax
    except ImportError:
        raise DeclarationError(
            "fd.schemes.Diffrax needs the package diffrax: pip install 'fdsolve[adaptive]'. Steppers of fixed steps, "
            "such as fd.schemes.RK4(), do without."
        ) from None
    return diffrax
