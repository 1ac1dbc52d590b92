"""Devito: symbolic equations, the C that it generates and gcc compiles, with OpenMP and all its optimisations."""

from collections.abc import Callable
from typing import Any

import numpy as np
from devito import Eq, Function, Grid, Operator, TimeFunction, configuration

from ._cases import Case

configuration["log-level"] = "ERROR"
configuration["language"] = "openmp"
configuration["autotuning"] = "off"


class Devito:
    """The operator of a case on the points inside the frame, which Devito's halo stands for.

    The halo is never written: it keeps the values of the frame.
    """

    label = "Devito"

    def __init__(self, case: Case) -> None:
        self.case, equation = case, case.equation
        rank, reach = equation.rank, equation.reach
        size = tuple(n - 2 * reach for n in case.shape)
        grid = Grid(shape=size, extent=tuple(n - 1.0 for n in size), dtype=np.dtype(case.dtype).type)
        space, time = {"grid": grid, "space_order": 2 * reach}, 2 if equation.two_levels else 1
        self._fields: list[Any] = [TimeFunction(name=f, time_order=time, **space) for f in equation.fields]
        given = [Function(name=f"c{k}", **space) for k in range(equation.num_coefficients)]
        for function, array in zip(given, case.coefficients(), strict=True):
            _fill(function.data_with_halo, array, reach, rank)
        read = [reader(f, grid.dimensions) for f in self._fields]
        read += [reader(f.backward, grid.dimensions) for f in self._fields if equation.two_levels]
        read += [reader(f, grid.dimensions) for f in given]
        rules = equation.step(*read)
        updates = [Eq(f.forward, rule) for f, rule in zip(self._fields, rules, strict=True)]
        self._operator: Any = Operator(updates, opt=("advanced", {"openmp": True}))
        self._restart()
        self._operator.apply(time_m=1, time_M=2, dt=1.0, autotune="basic")
        self._tuned = self._operator._state["autotuning"][-1].get("tuned", {})  # empty where nothing is blocked

    def _restart(self) -> None:
        """The initial state at every level, halo and all."""
        for field, start in zip(self._fields, self.case.initial(), strict=True):
            for level in range(field.data_with_halo.shape[0]):
                _fill(field.data_with_halo[level], start, self.case.equation.reach, self.case.equation.rank)

    def run(self) -> None:
        """What is timed: the steps of the case, from wherever the last run ended."""
        self._operator.apply(time_m=1, time_M=self.case.steps, dt=1.0, **self._tuned)

    def answer(self) -> list[np.ndarray]:
        """The fields after the steps of the case, from its initial state."""
        self._restart()
        self.run()
        inner, found = (slice(self.case.equation.reach, -self.case.equation.reach),) * self.case.equation.rank, []
        for field, start in zip(self._fields, self.case.initial(), strict=True):
            start[inner] = field.data[(self.case.steps + 1) % field.data.shape[0]]
            found.append(start)
        return found


def _fill(target: Any, array: np.ndarray, reach: int, rank: int) -> None:
    """Writes an array to points and halo (Devito's may be wider than the frame)."""
    wide = target.shape[-1] - array.shape[-1]
    assert wide >= 0 and wide % 2 == 0, (target.shape, array.shape, reach)
    target[(slice(wide // 2, -(wide // 2) or None),) * rank] = array


def reader(function: Any, dimensions: Any) -> Callable[..., Any]:
    """The values of a function so many points further along each dimension."""
    return lambda *by: function.subs({d: d + k * d.spacing for d, k in zip(dimensions, by, strict=True) if k})
