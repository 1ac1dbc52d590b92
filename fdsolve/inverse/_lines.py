"""The axes of a parameter, for integrals of its slopes."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, eq=False)
class Line:
    """One axis: distances to the next value, (num − 1,) or (num,) if periodic, and what of the line is around each,
    (num,), which together is all of it."""

    distances: np.ndarray
    widths: np.ndarray
    periodic: bool

    @property
    def between_middles(self) -> np.ndarray:
        """The distances of the middles on both sides of the values that have two neighbours."""
        before = np.roll(self.distances, 1) if self.periodic else self.distances[:-1]
        return (before + self.distances[len(self.distances) - len(before) :]) / 2


@dataclass(frozen=True, eq=False)
class Lines:
    """All axes of an array."""

    each: tuple[Line, ...]

    def volumes(self, between: int | None) -> np.ndarray:
        """Volumes around the points, or around the middles between them along one axis."""
        result = np.ones(())
        for axis, line in enumerate(self.each):
            result = np.multiply.outer(result, line.distances if axis == between else line.widths)
        return result

    def slope(self, array: jax.Array, axis: int) -> jax.Array:
        """(mᵢ₊₁ − mᵢ)/Δ along an axis, at the middles."""
        line = self.each[axis]
        rise = jnp.roll(array, -1, axis) - array if line.periodic else jnp.diff(array, axis=axis)
        return rise / self._column(line.distances, axis, array)

    def change_of_slope(self, slope: jax.Array, axis: int) -> jax.Array:
        """The second derivative at the points that have two neighbours."""
        line = self.each[axis]
        rise = slope - jnp.roll(slope, 1, axis) if line.periodic else jnp.diff(slope, axis=axis)
        return rise / self._column(line.between_middles, axis, slope)

    def inner(self, volumes: np.ndarray, axis: int) -> np.ndarray:
        """The volumes of the points that have two neighbours along an axis."""
        return volumes if self.each[axis].periodic else np.take(volumes, range(1, volumes.shape[axis] - 1), axis)

    def _column(self, values: np.ndarray, axis: int, like: jax.Array) -> jax.Array:
        return jnp.asarray(values.reshape([-1 if k == axis else 1 for k in range(len(self.each))]), like.dtype)
