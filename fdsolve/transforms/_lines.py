"""How a field continues along an axis beyond its unknown points: not at all, around a ring, or mirrored at two walls.

Positions count from the first unknown point. Each line knows the modes that it carries: which angles θ they have, how
values become coefficients and back, and by which factor a shift multiplies a mode.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_TINY = 1e-9
"""Values of a wave of amplitude one that are rounding."""


@dataclass(frozen=True)
class AbstractLine(ABC):
    """`size` unknown points along an axis, the first at index `start`, and what lies beyond them."""

    start: int
    size: int

    @property
    @abstractmethod
    def mirrors(self) -> bool:
        """Whether it continues as its mirror image."""

    @property
    @abstractmethod
    def angles(self) -> np.ndarray:
        """θ of each mode, in radians a point."""

    @property
    def empty(self) -> np.ndarray:
        """Which modes vanish at all points: their coefficients mean nothing."""
        return np.zeros(self.angles.size, bool)

    @property
    @abstractmethod
    def length(self) -> int:
        """Points that its transform acts on."""

    @abstractmethod
    def image(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The unknown points that stand at positions, and the signs with which they do (0: a constant stands there)."""

    @abstractmethod
    def shift(self, offset: int, other: "AbstractLine") -> np.ndarray:
        """The factor of each mode in the values of `other` at an offset from the own points, less one for `self`."""

    @abstractmethod
    def forward(self, values: jax.Array, axis: int) -> jax.Array:
        """The coefficients of the modes along an axis, of real or complex values."""

    @abstractmethod
    def backward(self, modes: jax.Array, axis: int) -> jax.Array:
        """The values with given coefficients, the inverse of `forward`."""


@dataclass(frozen=True)
class Still(AbstractLine):
    """An axis along which nothing is read: its points are independent of each other."""

    @property
    def mirrors(self) -> bool:
        return False

    @property
    def length(self) -> int:
        return 1

    @property
    def angles(self) -> np.ndarray:
        return np.zeros(1)

    def image(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return at, np.where((at >= 0) & (at < self.size), 1, 0)

    def shift(self, offset: int, other: AbstractLine) -> np.ndarray:
        return np.zeros(1)

    def forward(self, values: jax.Array, axis: int) -> jax.Array:
        return values

    def backward(self, modes: jax.Array, axis: int) -> jax.Array:
        return modes


@dataclass(frozen=True)
class Ring(AbstractLine):
    """A periodic axis, u(i + size) = sign · u(i). Antiperiodic modes have θ = 2π(k + ½)/size.

    `half`: the values are real, and of each pair of conjugate modes one is kept.
    """

    sign: int = 1
    half: bool = False

    @property
    def mirrors(self) -> bool:
        return False

    @property
    def length(self) -> int:
        return self.size

    @property
    def angles(self) -> np.ndarray:
        if self.half:
            return 2 * np.pi * np.fft.rfftfreq(self.size)
        turn = 0.0 if self.sign == 1 else 0.5
        return 2 * np.pi * (np.fft.fftfreq(self.size) + turn / self.size)

    def image(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turns = np.floor_divide(at, self.size)
        return at - turns * self.size, np.where(turns % 2 == 0, 1, self.sign)

    def shift(self, offset: int, other: AbstractLine) -> np.ndarray:
        angle = self.angles * (offset + self.start - other.start)
        return -2 * np.sin(angle / 2) ** 2 + 1j * np.sin(angle)

    def forward(self, values: jax.Array, axis: int) -> jax.Array:
        if self.half:
            return jnp.fft.rfft(values, axis=axis)
        if self.sign == -1:
            values = values.astype(complex_of(values.dtype)) * self._turned(values, axis, -1)
        return jnp.fft.fft(values, axis=axis)

    def backward(self, modes: jax.Array, axis: int) -> jax.Array:
        if self.half:
            return jnp.fft.irfft(modes, self.size, axis=axis)
        values = jnp.fft.ifft(modes, axis=axis)
        return values * self._turned(values, axis, 1) if self.sign == -1 else values

    def _turned(self, like: jax.Array, axis: int, sense: int) -> jax.Array:
        turn = np.exp(sense * 1j * np.pi * np.arange(self.size) / self.size)
        return jnp.asarray(along(turn, axis, like.ndim), complex_of(like.dtype))


@dataclass(frozen=True)
class Mirror:
    """A wall: `parity` 1 for an even mirror, −1 for an odd one, about a point (`on_point`) or half-way between two.

    The point of an even mirror is unknown, that of an odd one is not.
    """

    parity: int
    on_point: bool

    @property
    def gap(self) -> int:
        """Points between the last unknown one and its image: one of its own, none, or −1 where they are the same."""
        return -self.parity if self.on_point else 0


@dataclass(frozen=True)
class Mirrored(AbstractLine):
    """Walls at both ends. The image of the image has the period M; it changes sign there if the parities differ.

    Mirrored so, a sequence e has the transform E(θ) = σ e^{−iθc/2} r(θ), c the place of the lower mirror in half steps
    and σ = 1 (even) or i (odd), with real r: the coefficients. They are those of the cosine and sine transforms.
    """

    low: Mirror = Mirror(1, True)
    high: Mirror = Mirror(1, True)

    @property
    def mirrors(self) -> bool:
        return True

    @property
    def centre(self) -> int:
        """Where the lower mirror is, in half steps from the first unknown point."""
        return -1 - self.low.gap

    @property
    def period(self) -> int:
        """M, in points."""
        return 2 * self.size + self.low.gap + self.high.gap

    @property
    def twisted(self) -> bool:
        """Whether a period changes the sign."""
        return self.low.parity != self.high.parity

    @property
    def length(self) -> int:
        return 2 * self.period if self.twisted else self.period

    @property
    def angles(self) -> np.ndarray:
        if self.twisted:
            return np.pi * np.arange(1, self.period + 1, 2) / self.period
        return 2 * np.pi * np.arange(self.period // 2 + 1) / self.period

    @property
    def empty(self) -> np.ndarray:
        phases = self.angles * (np.arange(2)[:, None] - self.centre / 2)
        waves = np.cos(phases) if self.low.parity == 1 else np.sin(phases)
        return np.all(np.abs(waves) < _TINY, axis=0)  # at two points in a row, and so at all

    def image(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turns = np.floor_divide(at, self.period)
        here = at - turns * self.period
        sign = np.where(turns % 2 == 0, 1, self.low.parity * self.high.parity)
        inside, beyond = here < self.size, 2 * self.size - 1 + self.high.gap - here
        found = (beyond >= 0) & (beyond < self.size)
        sign = np.where(inside, sign, np.where(found, sign * self.high.parity, 0))
        return np.where(inside, here, np.where(found, beyond, 0)), sign

    def shift(self, offset: int, other: AbstractLine) -> np.ndarray:
        assert isinstance(other, Mirrored)
        if other == self:
            return -2 * np.sin(self.angles * offset / 2) ** 2
        moved = offset + self.start - other.start + (self.centre - other.centre) / 2
        return np.real(other._unit / self._unit * np.exp(1j * self.angles * moved)) - 1

    @property
    def _unit(self) -> complex:
        return 1 + 0j if self.low.parity == 1 else 1j

    def forward(self, values: jax.Array, axis: int) -> jax.Array:
        if jnp.iscomplexobj(values):
            return lax.complex(self.forward(values.real, axis), self.forward(values.imag, axis))
        whole = self._extended(values, axis)
        modes = jnp.fft.rfft(whole, axis=axis)
        if self.twisted:
            modes = lax.slice_in_dim(modes, 1, None, 2, axis)
        turn = np.exp(1j * self.angles * self.centre / 2) / self._unit
        return (modes * jnp.asarray(along(turn, axis, modes.ndim), modes.dtype)).real

    def backward(self, modes: jax.Array, axis: int) -> jax.Array:
        if jnp.iscomplexobj(modes):
            return lax.complex(self.backward(modes.real, axis), self.backward(modes.imag, axis))
        turn = self._unit * np.exp(-1j * self.angles * self.centre / 2)
        dtype = complex_of(modes.dtype)
        whole = modes.astype(dtype) * jnp.asarray(along(turn, axis, modes.ndim), dtype)
        if self.twisted:
            around = [(0, 0, 0)] * modes.ndim
            around[axis] = (1, self.period + 1 - 2 * self.angles.size, 1)
            whole = lax.pad(whole, jnp.zeros((), whole.dtype), around)
        return lax.slice_in_dim(jnp.fft.irfft(whole, self.length, axis=axis), 0, self.size, axis=axis)

    def _extended(self, values: jax.Array, axis: int) -> jax.Array:
        """One period of the mirrored values; two where the sign changes."""
        first, last = (1 if wall.gap < 0 else 0 for wall in (self.low, self.high))
        image = lax.slice_in_dim(values, first, self.size - last, axis=axis)
        image = lax.rev(image, (axis,)) * np.asarray(self.high.parity, values.dtype)
        parts = [values, self._zeros(values, axis, self.high), image, self._zeros(values, axis, self.low)]
        whole = jnp.concatenate([part for part in parts if part.shape[axis]], axis)
        return jnp.concatenate([whole, -whole], axis) if self.twisted else whole

    def _zeros(self, values: jax.Array, axis: int, wall: Mirror) -> jax.Array:
        shape = list(values.shape)
        shape[axis] = max(0, wall.gap)
        return jnp.zeros(shape, values.dtype)


def along(values: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """Values along one axis, with length 1 on the others."""
    return values.reshape([-1 if a == axis else 1 for a in range(ndim)])


def complex_of(dtype: Any) -> np.dtype:
    """The complex dtype of the same precision."""
    return np.result_type(np.complex64, dtype)
