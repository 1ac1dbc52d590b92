"""The axes of a parameter, for integrals of its slopes."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, eq=False)
class Line:
    """One axis: distances to the next value, (num − 1,) or (num,) if periodic, what of the line is around each, (num,),
    which together is all of it, and what of it lies before the first value and after the last."""

    distances: np.ndarray
    widths: np.ndarray
    beyond: tuple[float, float]
    periodic: bool

    @property
    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """What of the line is around each value, before it and after it, (num,): up to the middles, and at ends to the
        wall."""
        half = self.distances / 2
        if self.periodic:
            return np.roll(half, 1), half
        return np.append(self.beyond[0], half), np.append(half, self.beyond[1])

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

    def corner(self, sides: Mapping[int, int]) -> np.ndarray:
        """Volumes around the points that lie before them (0) or after them (1) along some axes."""
        result = np.ones(())
        for axis, line in enumerate(self.each):
            result = np.multiply.outer(result, line.halves[sides[axis]] if axis in sides else line.widths)
        return result

    def beside(self, middles: jax.Array, axis: int, side: int) -> jax.Array:
        """At each point the value at the middle before it (0) or after it (1) along an axis; 0 beyond the ends."""
        if self.each[axis].periodic:
            return middles if side else jnp.roll(middles, 1, axis)
        return jnp.pad(middles, [((0, 1) if side else (1, 0)) if k == axis else (0, 0) for k in range(middles.ndim)])

    def at_middles(self, values: jax.Array, axis: int, side: int) -> jax.Array:
        """The transpose of `beside`."""
        if self.each[axis].periodic:
            return values if side else jnp.roll(values, -1, axis)
        num = values.shape[axis]
        return jax.lax.slice_in_dim(values, 1 - side, num - side, axis=axis)

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
