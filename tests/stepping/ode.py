"""A random coupled problem for steppers, as a declaration and as plain NumPy."""

from typing import Any

import jax.numpy as jnp
import numpy as np

import fdsolve as fd

NUM_POINTS = 5


class Problem:
    """u' = a·cos(t)·v₊ − b·u², v' = −c·u₋ + d·sin(v) + t on a ring of points, split into two groups each."""

    def __init__(self, seed: int):
        random = np.random.default_rng(seed)
        self.weights = random.uniform(0.3, 1.2, 4)
        self.start = random.uniform(-1.0, 1.0, (2, NUM_POINTS))

    def first(self, t: float, y: np.ndarray) -> np.ndarray:
        """The rates assigned with `=`."""
        a, _, c, _ = self.weights
        return np.stack([a * np.cos(t) * np.roll(y[1], -1), -c * np.roll(y[0], 1)])

    def second(self, t: float, y: np.ndarray) -> np.ndarray:
        """The rates assigned with `+=`."""
        _, b, _, d = self.weights
        return np.stack([-b * y[0] ** 2, d * np.sin(y[1]) + t])

    def both(self, t: float, y: np.ndarray) -> np.ndarray:
        """All rates."""
        return self.first(t, y) + self.second(t, y)

    def declare(self, num_steps: int, stop: float = 1.0, split: bool = False) -> tuple[fd.Field, fd.Field]:
        """The same for fdsolve."""
        a, b, c, d = (float(w) for w in self.weights)
        axis = fd.Axis(0.0, 1.0, NUM_POINTS, periodic=True)
        grid = fd.Grid(t=fd.Time(0.0, stop, num=num_steps + 1), x=axis)
        u, v = fd.Field("u", grid), fd.Field("v", grid)
        rules: list[tuple[fd.Field, Any, Any]] = [
            (u, lambda v, t: a * jnp.cos(t) * v["x+1"], lambda u: -b * u[...] ** 2),
            (v, lambda u: -c * u["x-1"], lambda v, t: d * jnp.sin(v[...]) + t),
        ]
        for field, first, second in rules:
            field[...] = fd.rate(first)
            field[...] += fd.rate(second)
        if not split:
            u[...] = fd.rate(lambda u, v, t: a * jnp.cos(t) * v["x+1"] - b * u[...] ** 2)
            v[...] = fd.rate(lambda u, v, t: -c * u["x-1"] + d * jnp.sin(v[...]) + t)
        u[0], v[0] = self.start
        return u, v

    def solve(self, stepper: Any, num_steps: int, stop: float = 1.0, split: bool = False) -> np.ndarray:
        """The last level, (2, points)."""
        found = fd.solve(self.declare(num_steps, stop, split), stepper=stepper, save=fd.final())
        return np.stack([found.final["u"], found.final["v"]])
