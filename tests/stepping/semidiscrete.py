"""Ordinary differential equations as a stepper sees them, with dense systems solved by Newton's method: a reference."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fdsolve.schemes import ALL, AbstractStepper, AbstractSystem, Part, Values, Walls

Function = Callable[[float, np.ndarray], np.ndarray]


def nothing(t: float, y: np.ndarray) -> np.ndarray:
    """No rate."""
    return 0 * y


@dataclass(frozen=True, eq=False)
class Equation:
    """y' = stiff(t, y) + rest(t, y) with the Jacobians of both; `along` splits the Jacobian by axis."""

    stiff: Function
    stiff_slope: Function
    rest: Function = nothing
    rest_slope: Function = lambda t, y: np.zeros((y.size, y.size))
    along: tuple[np.ndarray, ...] = ()

    def chosen(self, part: Part) -> tuple[Function, Function]:
        """The rates of a part, and their Jacobian."""
        kept = [
            (f, df)
            for implicit, f, df in ((True, self.stiff, self.stiff_slope), (False, self.rest, self.rest_slope))
            if part.has("u", 0 if implicit else 1, False, implicit)
        ]
        return lambda t, y: sum((f(t, y) for f, _ in kept), 0 * y), lambda t, y: sum(
            (df(t, y) for _, df in kept), np.zeros((y.size, y.size))
        )


@dataclass(frozen=True, eq=False)
class DenseSystem(AbstractSystem):
    """One step of an equation from a time on. `tries` limits Newton's method."""

    equation: Equation
    time: float
    size: float
    number: int
    start: Values
    tries: int = 5

    @property
    def step(self) -> Any:
        return np.asarray(self.size)

    def _at(self, fraction: Any) -> float:
        return self.time + float(fraction) * self.size

    def rates(self, values: Values, fraction: Any, walls: Walls | None = None, part: Part = ALL) -> Values:
        f, _ = self.equation.chosen(part)
        return {"u": (f(self._at(fraction), values["u"][0]),)}

    def solve(
        self,
        base: Values,
        factor: Any,
        fraction: Any,
        guess: Values | None = None,
        part: Part = ALL,
        walls: Walls | None = None,
    ) -> tuple[Values, Any]:
        f, slope = self.equation.chosen(part)
        known, t, h = base["u"][0], self._at(fraction), factor * self.size
        y = known if guess is None else guess["u"][0]
        for _ in range(self.tries):
            residual = y - known - h * f(t, y)
            y = y - np.linalg.solve(np.eye(y.size) - h * slope(t, y), residual)
        left = np.abs(y - known - h * f(t, y)).max()
        return {"u": (y,)}, np.asarray(left < 1e-9 * max(1.0, np.abs(known).max()))

    def axis_solve(self, axis: str, factor: Any, rhs: Values, fraction: Any) -> Values:
        (box,) = rhs["u"]
        matrix = self.equation.along["xyz".index(axis)]
        return {"u": (np.linalg.solve(np.eye(box.size) - factor * self.size * matrix, box),)}

    def axis_change(self, axis: str, fraction: Any) -> Values:
        return {"u": (0 * self.start["u"][0],)}

    def speeds(self, values: Values, fraction: Any) -> Any:
        raise NotImplementedError

    def symbol(self) -> Any:
        raise NotImplementedError

    def constant_rates(self, fraction: Any) -> Values:
        raise NotImplementedError


def march(
    stepper: AbstractStepper, equation: Equation, start: Any, stop: float, num_steps: int, tries: int = 5
) -> tuple[np.ndarray, Any]:
    """The last values, and the stepper's memory then."""
    size, values = stop / num_steps, {"u": (np.asarray(start),)}
    memory = stepper.begin(values)
    for number in range(1, num_steps + 1):
        system = DenseSystem(equation, (number - 1) * size, size, number, values, tries)
        step = stepper.first_step if number <= stepper.starting_steps else stepper.step
        values, memory = step(system, memory, None)
    return values["u"][0], memory
