"""Boundary values known in time: rules whose dependence on time is apart from what they read of the state."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..stencil import ProfileRead, StateRead, Traced, WholeRead, depends_on


def is_timed(rule: Traced, time_axis: str | None) -> bool:
    """Whether a rule varies in time, and its derivative with respect to time does not depend on the state."""
    avals = [v.aval for v in rule.jaxpr.invars]
    moving = [
        (o == WholeRead("t") or (isinstance(o, ProfileRead) and time_axis in o.axes))
        and jnp.issubdtype(aval.dtype, jnp.inexact)
        for o, aval in zip(rule.operands, avals, strict=True)
    ]
    if not any(moving) or not jnp.issubdtype(np.dtype(rule.dtype), jnp.inexact):
        return False
    function = rule.function(rule.consts)

    def derived(times_over: int, *values: Any) -> Any:
        def at(*times: Any) -> Any:
            given = iter(times)
            return function(*(next(given) if m else v for m, v in zip(moving, values, strict=True)))

        found = at
        for _ in range(times_over):
            found = _slope(found)
        return found(*(v for m, v in zip(moving, values, strict=True) if m))

    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    try:
        closed = jax.make_jaxpr(derived, static_argnums=0)(1, *specs)
        jax.make_jaxpr(derived, static_argnums=0)(2, *specs)  # some raise here alone
    except (TypeError, ValueError, NotImplementedError):  # derived in reverse alone (custom_vjp), or not (a callback)
        return False
    marked = [isinstance(o, StateRead) for o in rule.operands]
    return not any(depends_on(closed.jaxpr, [False] * len(closed.jaxpr.constvars) + marked))


def _slope(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *times: jax.jvp(function, times, tuple(map(jnp.ones_like, times)))[1]
