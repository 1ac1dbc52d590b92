"""The rules of an operation held against its derivative, once, before they are used."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import DeclarationError
from ._operations import PLACED, STANDARD
from ._registry import AbstractOperation, Site

_LOSS = 1e4
"""Roundings that the two sides of a comparison may lie apart."""


def prove(site: Site, operation: AbstractOperation, others: Sequence[Any]) -> None:
    """Raises DeclarationError where an operation's rules do not give a gradient over one step: `solve` of `jacobian`
    is the transpose of ∂y/∂raw, compared along a random direction, or over two: `solve` of δ by what `propagate` makes
    of a trace is that of slope · δ by the trace. `others` are like the further operands.

    Operations that are known from the start are not looked at, and those on complex numbers only for their shapes.
    """
    if STANDARD.get(site.name, PLACED) is operation:
        return
    combs = np.asarray(operation.adjacency(site))
    shape = tuple(site.raw.shape)
    if combs.shape[1:] != shape or combs.ndim != len(shape) + 1 or not len(combs):
        raise _wrong(site, f"`adjacency` has the shape {combs.shape}, wanted is (colours, {_listed(shape)})")
    left = np.argwhere(~combs.astype(bool).any(axis=0))
    if len(left):
        raise _wrong(
            site, f"`adjacency` leaves {_entries(len(left))} of the parameter out, the first at {_place(left[0])}"
        )
    out = jax.ShapeDtypeStruct((len(combs), *site.out.shape), site.out.dtype)
    made = jax.eval_shape(lambda raw, rest: operation.jacobian(site, raw, rest), site.raw, tuple(others))
    if made.shape != out.shape:
        raise _wrong(site, f"`jacobian` gives the shape {made.shape}, wanted is (colours, *y), {out.shape}")
    moved = jax.eval_shape(operation.propagate, site.out, out)
    if moved.shape != out.shape:
        raise _wrong(site, f"`propagate` gives the shape {moved.shape}, wanted is that of the trace, {out.shape}")
    found = jax.eval_shape(lambda delta, trace: operation.solve(site, delta, trace), site.out, out)
    if found.shape != shape:
        raise _wrong(site, f"`solve` gives the shape {found.shape}, wanted is that of the parameter, {shape}")
    if not jnp.issubdtype(site.raw.dtype, jnp.complexfloating):
        _compare(site, operation, others)


def _compare(site: Site, operation: AbstractOperation, others: Sequence[Any]) -> None:
    """⟨δ, ∂y/∂raw · v⟩ by JAX and ⟨solve(δ, jacobian), v⟩ by the rules; then a step on."""
    rng = np.random.default_rng(0)

    def like(one: Any) -> Any:
        if not jnp.issubdtype(one.dtype, jnp.inexact):
            return jnp.zeros(one.shape, one.dtype)
        return jnp.asarray(rng.uniform(0.5, 1.5, one.shape), one.dtype)

    def both(raw: Any, rest: tuple[Any, ...], v: Any, delta: Any) -> tuple[Any, Any, Any]:
        along = jax.jvp(lambda value: site.apply(value, rest), (raw,), (v,))[1]
        found = operation.solve(site, delta, operation.jacobian(site, raw, rest))
        return jnp.vdot(delta, along), jnp.vdot(found, v), jnp.sum(jnp.abs(delta * along)) + jnp.sum(jnp.abs(found * v))

    def onward(raw: Any, rest: tuple[Any, ...], v: Any, delta: Any, slope: Any) -> tuple[Any, Any, Any]:
        trace = operation.jacobian(site, raw, rest)
        wanted = operation.solve(site, slope * delta, trace)
        found = operation.solve(site, delta, operation.propagate(slope, trace))
        return jnp.vdot(wanted, v), jnp.vdot(found, v), jnp.sum(jnp.abs(wanted * v)) + jnp.sum(jnp.abs(found * v))

    with jax.ensure_compile_time_eval():
        given = like(site.raw), tuple(map(like, others)), like(site.raw), like(site.out)
        wanted, found, agree = _held(site, jax.jit(both)(*given))
        then, moved, agree_then = _held(site, jax.jit(onward)(*given, like(site.out)))
    if not agree:
        raise _wrong(
            site,
            f"over one step, `solve` of `jacobian` gives {found:.6g} for {wanted:.6g} along a random direction. Either "
            "two entries of one colour reach the same entry of y, or `jacobian` is not ∂y/∂raw along each colour, or "
            "`solve` gives an entry of the parameter what belongs to another",
        )
    if not agree_then:
        raise _wrong(
            site,
            f"over two steps, `solve` of what `propagate` makes of a trace gives {moved:.6g} for {then:.6g} along a "
            "random direction. `propagate(slope, trace)` is the trace where each entry of y has gone on by its own "
            "slope: slope * trace, unless the trace is kept in another form",
        )


def _held(site: Site, found: tuple[Any, Any, Any]) -> tuple[float, float, bool]:
    """Two sides of a comparison and whether they agree up to roundings of what is summed; what is not finite does."""
    wanted, made, size = map(float, found)
    close = _LOSS * float(jnp.finfo(site.out.dtype).eps) * size
    return wanted, made, not np.isfinite([wanted, size]).all() or abs(made - wanted) <= close


def _wrong(site: Site, how: str) -> DeclarationError:
    return DeclarationError(
        f"The operation registered for `{site.name}` has wrong rules: {how}. Here the parameter is of shape "
        f"{tuple(site.raw.shape)} and y of {tuple(site.out.shape)}; traces.withdraw({site.name!r}) forgets it."
    )


def _entries(count: int) -> str:
    return "an entry" if count == 1 else f"{count} entries"


def _place(index: np.ndarray) -> str:
    return f"({', '.join(map(str, index))})" if len(index) != 1 else str(index[0])


def _listed(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape)) or "…"
