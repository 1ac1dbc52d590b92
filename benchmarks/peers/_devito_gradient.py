"""Devito's gradient of a wave by its coefficients: every level kept, the adjoint wave marched back, both correlated.

u'' = 2u' − u + m Lu' with a symmetric stencil L has the adjoint w = 2w' − w'' + m Lw' for w = mλ, from w = m u_T and 0
at the end, and ∂L/∂m = Σ w' Lu / m: the exact gradient of the discrete ½‖u_T‖².
"""

from typing import Any

import numpy as np
from devito import Eq, Function, Grid, Inc, Operator, TimeFunction, configuration

from ._cases import Case
from ._devito import reader
from ._equations import laplacian

configuration["log-level"] = "ERROR"
configuration["language"] = "openmp"
configuration["autotuning"] = "off"


class DevitoGradient:
    """The two operators of an acoustic case on the points inside the frame, around which Devito's halo is zero."""

    label = "Devito"
    temporary = 0

    def __init__(self, case: Case) -> None:
        self._steps, self._order, self._reach = case.steps, 2 * case.equation.reach, case.equation.reach
        size = tuple(n - 2 * self._reach for n in case.shape)
        self._grid = Grid(shape=size, extent=tuple(n - 1.0 for n in size), dtype=np.dtype(case.dtype).type)
        inner = (slice(self._reach, -self._reach),) * case.equation.rank
        self._start, self._speed = case.initial()[0][inner], case.coefficients()[0][inner]
        self._m = Function(name="m", grid=self._grid, space_order=self._order)
        self._m.data[:] = self._speed
        made = self._fields()
        u, w, total = made["u"], made["w"], made["total"]
        there, back = (reader(one, self._grid.dimensions) for one in (u, w))
        rank, order = case.equation.rank, self._order
        opt = ("advanced", {"openmp": True})
        forward = Eq(u.forward, 2.0 * u - u.backward + self._m * laplacian(there, rank, order))
        adjoint = Eq(w.backward, 2.0 * w - w.forward + self._m * laplacian(back, rank, order))
        self._forward: Any = Operator([forward], opt=opt)
        self._adjoint: Any = Operator([adjoint, Inc(total, w * laplacian(there, rank, order))], opt=opt)
        self._tuned = [self._tune(self._forward, u=u), self._tune(self._adjoint, **made)]
        self._held: dict[str, Any] = {}

    def _fields(self) -> dict[str, Any]:
        """All levels of u; two of w and a third to write; the sum. Memory is taken when data are asked for."""
        options = dict(grid=self._grid, space_order=self._order)
        return dict(
            u=TimeFunction(name="u", time_order=2, save=self._steps + 2, **options),
            w=TimeFunction(name="w", time_order=2, **options),
            total=Function(name="total", **options),
        )

    def _tune(self, operator: Any, **fields: Any) -> dict[str, Any]:
        operator.apply(time_m=1, time_M=2, dt=1.0, autotune="basic", **fields)
        return operator._state["autotuning"][-1].get("tuned", {})  # empty where nothing is blocked

    def run(self) -> None:
        """What is timed: the steps forward, and those back. The first run takes the memory."""
        self._held = self._held or self._fields()
        u, w, total = (self._held[name] for name in ("u", "w", "total"))
        u.data[0], u.data[1] = self._start, self._start
        self._forward.apply(time_m=1, time_M=self._steps, dt=1.0, u=u, **self._tuned[0])
        w.data[self._steps % 3], w.data[(self._steps + 1) % 3] = self._speed * u.data[self._steps + 1], 0.0
        total.data[:] = 0.0
        self._adjoint.apply(time_m=1, time_M=self._steps, dt=1.0, **self._held, **self._tuned[1])

    def answer(self) -> list[np.ndarray]:
        """The gradient inside the frame."""
        self.run()
        return [np.array(self._held["total"].data) / self._speed]
