"""Waves: where the state swings, a diagonal in the place of D gives gradients of the wrong sign."""

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import DeclarationError
from ._patterns import push_state
from ._update import Point, Update

MAX_VECTORS = 24


def refuse_waves(update: Update, method: str, point: Point | None) -> None:
    """Raises DeclarationError for diagonal traces of steps of second order in time, or whose modes swing undamped at a
    point (None: no numbers are known)."""
    if update.is_deep:
        why = "it reads two levels back (second order in time)"
    elif point is not None and (found := _swinging(update, point)) is not None:
        why = f"a mode of it turns by {abs(np.angle(found)):.2g} rad a step and is damped by {1 - abs(found):.2g} only"
    else:
        return
    raise DeclarationError(
        f'method="{method}" is not for waves, and this step is one: {why}. Its gradients would have the wrong sign '
        f'within about ten steps. Take method="forward" (exact, for few parameters), or '
        f"adjoint=fd.adjoint.Checkpointed() or Reversible()."
    )


def _swinging(update: Update, point: Point) -> complex | None:
    """An eigenvalue of D near the unit circle and away from the real axis, by Arnoldi's iteration; None if none."""
    push, count = push_state(update.step), min(update.num_states, MAX_VECTORS)
    with jax.ensure_compile_time_eval():
        apply = jax.jit(lambda v: push(point, v))
        vector = np.random.default_rng(5).standard_normal(update.num_states)
        basis, small = [vector / np.linalg.norm(vector)], np.zeros((count + 1, count))
        used = 0
        for k in range(count):
            new = np.asarray(apply(jnp.asarray(basis[k], update.packing.dtype)), float)
            if not np.isfinite(new).all():
                return None
            for _ in range(2):
                for j, one in enumerate(basis):
                    part = one @ new
                    small[j, k] += part
                    new = new - part * one
            used, small[k + 1, k] = k + 1, np.linalg.norm(new)
            if small[k + 1, k] < 1e-10:
                break
            basis.append(new / small[k + 1, k])
    values = np.linalg.eigvals(small[:used, :used])
    swinging = [v for v in values if abs(v) > 0.97 and abs(np.angle(v)) > 0.1 and abs(v.imag) > 1e-3]
    return complex(max(swinging, key=abs)) if swinging else None
