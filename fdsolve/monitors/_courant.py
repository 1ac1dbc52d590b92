"""The Courant number of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import DeclarationError
from ..grid import scaling_axes
from ..stepping import largest
from ._base import EVERY, AbstractMonitor, Look, Measured, Watched, to_every, to_positive
from ._conservation import call_by_name


@dataclass(frozen=True)
class CFL(AbstractMonitor):
    """Keeps the Courant number Δt ∑ₐ max |sₐ| / (hₐ Δa) over the axes a; the run stops where it is above `limit`.

    hₐ is the scale factor of a curvilinear axis (r along an angle), else 1: speeds are lengths over time.

    `speed`: a number, or a function of fields and parameters by name, for all axes; or a tuple of pairs (axis, one of
    these), or a dict of them. Source: Courant, Friedrichs & Lewy, Math. Ann. 100 (1928) 32.
    """

    speed: Any
    limit: Any = None
    every: Any = EVERY

    def __post_init__(self) -> None:
        to_every(self.every, "CFL")
        to_positive(self.limit, "limit", "CFL")
        if isinstance(self.speed, Mapping):
            object.__setattr__(self, "speed", tuple(self.speed.items()))

    @property
    def may_stop(self) -> bool:
        return self.limit is not None

    def _speeds(self, watched: Watched) -> dict[str, Any]:
        given = dict(self.speed) if isinstance(self.speed, tuple) else dict.fromkeys(watched.space, self.speed)
        for axis, speed in given.items():
            if axis not in watched.space:
                raise DeclarationError(
                    f"monitors.CFL: speed= names the axis {axis!r}; there are {', '.join(watched.space)}."
                )
            if not isinstance(speed, int | float | Callable):
                raise DeclarationError(
                    f"monitors.CFL: speed= takes a number or a function of fields by name, got {speed!r}."
                )
        return given

    def check(self, watched: Watched) -> None:
        self._speeds(watched)

    def measure(self, watched: Watched, look: Look) -> Measured:
        total = jnp.zeros(())
        for axis, speed in self._speeds(watched).items():
            found = call_by_name(speed, look, "monitors.CFL: speed=") if callable(speed) else jnp.asarray(float(speed))
            found = _in_coordinate(jnp.abs(found), watched, axis)
            total = total + (largest(found) / watched.spacing(axis)).astype(total.dtype)
        return {"courant": total * jnp.asarray(look.step, total.dtype)}

    def judge(self, first: Measured, now: Measured) -> str | None:
        if self.limit is None or not float(now["courant"]) > self.limit:
            return None
        return f"CFL: the Courant number is {float(now['courant']):.4g}, above {self.limit:g}"


def _in_coordinate(speed: jax.Array, watched: Watched, axis: str) -> jax.Array:
    """A speed along an axis in its coordinate: over the scale factor at each point, or for a number over the least."""
    for other in scaling_axes(watched.grid.axes, axis):
        owner, position = watched.grid.space_axis(other), watched.space.index(other)
        wide = speed.ndim == len(watched.space)
        face = wide and speed.shape[position] != owner.size(False)
        by = jnp.asarray(owner.measure("inverse scale", face, 0, owner.size(face)), speed.dtype)
        speed = speed * (jnp.moveaxis(by.reshape(-1, *(1,) * (speed.ndim - 1)), 0, position) if wide else by.max())
    return speed
