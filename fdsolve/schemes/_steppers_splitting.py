"""Splitting: several rates taken one after the other, each by its own stepper."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import DeclarationError, PlanningError
from ._steppers import ALL, AbstractOneStep, AbstractSystem, Modes, NoGrowth, Outline, Part, Values
from ._tableau import RK4


class AbstractSplitting(AbstractOneStep):
    """Groups of rates, one after the other: `turns` lists (group, fraction of the step) in order."""

    steppers: tuple[Any, ...]

    @property
    @abstractmethod
    def turns(self) -> tuple[tuple[int, float], ...]:
        """Which group is taken over which part of the step."""

    @property
    @abstractmethod
    def splitting_order(self) -> int:
        """The order with exact solutions of the groups."""

    @property
    def order(self) -> int:
        return min(self.splitting_order, *(one.order for one in self.steppers))

    @property
    def evaluations(self) -> int:
        return sum(self.steppers[group].evaluations for group, _ in self.turns)

    @property
    def solves(self) -> bool:
        return any(one.solves for one in self.steppers)

    @property
    def solver(self) -> Any:
        """The solver of those steppers that solve systems of equations."""
        return next((one.solver for one in self.steppers if one.solves), None)

    def advance(
        self,
        system: AbstractSystem,
        values: Values,
        start: Any = 0.0,
        length: Any = 1.0,
        part: Part = ALL,
    ) -> Values:
        return self.attempt(system, values, start, length, part)[0]

    def attempt(
        self,
        system: AbstractSystem,
        values: Values,
        start: Any = 0.0,
        length: Any = 1.0,
        part: Part = ALL,
    ) -> tuple[Values, Any]:
        done, good = [0.0] * len(self.steppers), None
        for group, share in self.turns:
            own = replace(part, group=group)
            begun = start + done[group] * length
            values, solved = self.steppers[group].attempt(system, values, begun, share * length, own)
            good = good if solved is None else solved if good is None else good & solved
            done[group] += share
        return values, good

    def amplify(self, modes: Modes) -> np.ndarray | NoGrowth:
        found = self.propagator(modes)
        return found if isinstance(found, NoGrowth) else np.linalg.eigvals(found)

    def propagator(self, modes: Modes) -> np.ndarray | NoGrowth:
        total: Any = np.eye(len(modes.names))
        for group, share in self.turns:
            factor = self.steppers[group].propagator(modes.of(Part(group=group)).scaled(share))
            if isinstance(factor, NoGrowth):
                return factor
            total = factor @ total
        return total


@dataclass(frozen=True, init=False)
class Lie(AbstractSplitting):
    """Lie splitting, order 1: every group of rates over the whole step, in the order of assignment.

    The first group holds the rates assigned with `=`, each `+=` of a field adds another: `u[...] = fd.rate(a)`,
    `u[...] += fd.rate(b)`. `Lie()` takes each by RK4, `Lie(stepper)` each by that, `Lie(first, second, …)` each by its
    own one-step method. Source: Hundsdorfer & Verwer, Numerical Solution of Time-Dependent
    Advection-Diffusion-Reaction Equations (2003), section IV.1.
    """

    steppers: tuple[Any, ...]

    def __init__(self, *steppers: Any):
        object.__setattr__(self, "steppers", _checked("Lie", steppers))

    @property
    def turns(self) -> tuple[tuple[int, float], ...]:
        return tuple((group, 1.0) for group in range(len(self.steppers)))

    @property
    def splitting_order(self) -> int:
        return 1

    def bind(self, outline: Outline) -> "Lie":
        return Lie(*_one_each("Lie", self.steppers, outline))


@dataclass(frozen=True, init=False)
class Strang(AbstractSplitting):
    """Strang splitting, order 2: every group of rates over half a step, the last over the whole, and back.

    Groups and steppers as in `Lie`; the order is that of the steppers, if lower. Boundary values that depend on time,
    and stiff groups, can lower it to 1 near walls. Good values: the stiff or dear group last. Source: Strang, SIAM J.
    Numer. Anal. 5 (1968) 506.
    """

    steppers: tuple[Any, ...]

    def __init__(self, *steppers: Any):
        object.__setattr__(self, "steppers", _checked("Strang", steppers))

    @property
    def turns(self) -> tuple[tuple[int, float], ...]:
        last = len(self.steppers) - 1
        half = tuple((group, 0.5) for group in range(last))
        return (*half, (last, 1.0), *half[::-1])

    @property
    def splitting_order(self) -> int:
        return 2

    def bind(self, outline: Outline) -> "Strang":
        return Strang(*_one_each("Strang", self.steppers, outline))


def _checked(name: str, steppers: tuple[Any, ...]) -> tuple[Any, ...]:
    for one in steppers:
        if not isinstance(one, AbstractOneStep):
            got = f"the class {one.__name__}; write {one.__name__}()" if isinstance(one, type) else repr(one)
            raise DeclarationError(
                f"{name} takes one-step methods such as fd.schemes.RK4(), one for each group of rates; got {got}."
            )
    return steppers or (RK4(),)


def _one_each(name: str, steppers: tuple[Any, ...], outline: Outline) -> tuple[Any, ...]:
    count = outline.num_groups
    if count == 1:
        raise PlanningError(
            f"{name} splits several rates, and there is one group. Add the others with `+=`: u[...] = fd.rate(a), "
            f"u[...] += fd.rate(b); or take a stepper without splitting."
        )
    if len(steppers) not in (1, count):
        shown = "; ".join(
            f"{group}: " + ", ".join(dict.fromkeys(one.label for one in outline.rates if one.group == group))
            for group in range(count)
        )
        raise PlanningError(
            f"{name} has {len(steppers)} steppers for {count} groups of rates ({shown}). Give one for each, or one for "
            f"all."
        )
    own = steppers * count if len(steppers) == 1 else steppers
    given = {one.solver for one in own if one.solves}
    if len(given) > 1:
        raise PlanningError(
            f"{name} has steppers with different solvers, {' and '.join(sorted(map(repr, given)))}. Give all of them "
            f"the same solver=."
        )
    return tuple(
        one.bind(replace(outline, rates=tuple(r for r in outline.rates if r.group == group)))
        for group, one in enumerate(own)
    )
