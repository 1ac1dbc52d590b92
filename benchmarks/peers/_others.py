"""kernex, py-pde and findiff on what they can express: heat in two dimensions between cold walls."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ._cases import Case
from ._equations import Heat, sum_of

PROBLEM = "heat2d"


class Kernex:
    """kernex's map of the interior, padded by zeros, in a compiled loop."""

    label = "kernex"

    def __init__(self, case: Case) -> None:
        import jax
        import jax.numpy as jnp
        import kernex

        jax.config.update("jax_enable_x64", case.dtype == "float64")

        @kernex.kmap(kernel_size=(3, 3), padding="same", relative=True)
        def step(x: Any) -> Any:
            return x[0, 0] + Heat.k * (x[1, 0] + x[-1, 0] + x[0, 1] + x[0, -1] - 4 * x[0, 0])

        self._march = jax.jit(
            lambda u: jnp.pad(jax.lax.fori_loop(0, case.steps, lambda _, v: step(v), u[1:-1, 1:-1]), 1)
        )
        self._start = jnp.asarray(case.initial()[0])

    def run(self) -> None:
        """What is timed: the steps of the case, from its initial state."""
        self._march(self._start).block_until_ready()

    def answer(self) -> list[Any]:
        """The field after the steps of the case."""
        return [self._march(self._start)]


class PyPde:
    """py-pde's diffusion equation by forward Euler, compiled by numba.

    Its grid are the points inside the frame, its walls the zeros of the frame as virtual points.
    """

    label = "py-pde"

    def __init__(self, case: Case) -> None:
        import pde

        size = case.num - 2
        grid = pde.CartesianGrid([(0, size), (0, size)], [size, size])
        equation = pde.DiffusionPDE(diffusivity=Heat.k, bc={"virtual_point": "0"})
        self._start = pde.ScalarField(grid, case.initial()[0][1:-1, 1:-1], dtype=case.dtype)
        solver = pde.EulerSolver(equation, backend="numba")
        self._march: Callable[..., Any] = solver.make_stepper(self._start, dt=1.0)
        self._state, self._steps = self._start.copy(), case.steps
        self._march(self._state, 0.0, 2.0)

    def run(self) -> None:
        """What is timed: the steps of the case, from wherever the last run ended."""
        self._march(self._state, 0.0, float(self._steps))

    def answer(self) -> list[np.ndarray]:
        """The field after the steps of the case, from its initial state."""
        self._state = self._start.copy()
        self.run()
        return [np.pad(self._state.data, 1)]


class Findiff:
    """findiff's operator on a NumPy array."""

    label = "findiff"

    def __init__(self, case: Case) -> None:
        import findiff

        self._laplacian: Any = sum_of([findiff.FinDiff(axis, 1.0, 2, acc=2) for axis in (0, 1)])
        self._case = case
        self._now = case.initial()[0]

    def run(self) -> None:
        """What is timed: the steps of the case, from wherever the last run ended."""
        for _ in range(self._case.steps):
            self._now[1:-1, 1:-1] += (Heat.k * self._laplacian(self._now)[1:-1, 1:-1]).astype(self._now.dtype)

    def answer(self) -> list[np.ndarray]:
        """The field after the steps of the case, from its initial state."""
        self._now = self._case.initial()[0]
        self.run()
        return [self._now.copy()]


PACKAGES: dict[str, type[Any]] = {"kernex": Kernex, "pde": PyPde, "findiff": Findiff}


def make_other(package: str, case: Case) -> Any:
    """The contestant of a package. Raises ImportError where it is not installed, or cannot express the case."""
    importlib.import_module(package)
    if case.problem != PROBLEM:
        raise ImportError(f"it is compared on {PROBLEM} alone")
    return PACKAGES[package](case)
