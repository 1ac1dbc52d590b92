"""Direct methods where nothing fixes the mean, and what their residuals are held against."""

from collections.abc import Sequence
from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from ._base import LinearSystem, Report, direct_report
from ._matrix import StencilMatrix, Vector


def pins(matrix: StencilMatrix, axes: Sequence[int]) -> Vector:
    """What to add to the diagonal of a singular matrix so that it can be solved; zeros where it is regular.

    Where A 1 = 0 or 1ᵀA = 0 for the points of a field that share a place on the axes not in `axes`, or for those of all
    fields together, σ e eᵀ is added at the first unknown point of them. With ℓᵀA = 0 it follows from
    (A + σ e eᵀ) x = b and ℓᵀb = 0 that σ (ℓᵀe) eᵀx = 0, so that x solves A x = b and vanishes at that point.
    """
    names, back = matrix.layout.fields, matrix.transpose()
    ones = {name: matrix.free[name].astype(matrix.layout.dtype) for name in names}
    size = {name: jnp.abs(value) for name, value in _largest(matrix).items()}
    scale = _reduced(size, axes)
    found = {name: jnp.zeros_like(ones[name]) for name in names}
    alone = jnp.zeros(scale.shape, bool)
    alike = [{name} for name in names] + ([set(names)] if len(names) > 1 else [])
    units = {
        name: jnp.stack([ones[name] if name in group else jnp.zeros_like(ones[name]) for group in alike])
        for name in names
    }
    vanish = jax.vmap(lambda unit: _vanishes(matrix, back, unit, scale, axes))(units)
    for name, floats in zip(names, vanish, strict=False):
        alone = alone | floats
        found[name] = jnp.where(_first(matrix.free[name], axes) & floats, scale, 0).astype(matrix.layout.dtype)
    if len(names) > 1:
        pin = jnp.where(_first(matrix.free[names[0]], axes) & vanish[-1] & ~alone, scale, 0)
        found[names[0]] = found[names[0]] + pin.astype(matrix.layout.dtype)
    return found


def _largest(matrix: StencilMatrix) -> Vector:
    """The sum of the absolute entries of every row."""
    found = {
        name: jnp.zeros(shape, matrix.layout.dtype).real
        for name, shape in zip(matrix.layout.fields, matrix.layout.shapes, strict=True)
    }
    for (row, _, _), values in zip(matrix.layout.blocks, matrix.values, strict=True):
        found[row] = found[row] + jnp.sum(jnp.abs(values), axis=0)
    return found


def _reduced(x: Vector, axes: Sequence[int]) -> jax.Array:
    """The largest |value| over axes and fields."""
    parts = [jnp.max(jnp.abs(value), axis=tuple(axes), keepdims=True) for value in x.values()]
    return jnp.max(jnp.stack(parts), axis=0)


def _vanishes(
    matrix: StencilMatrix, back: StencilMatrix, unit: Vector, scale: jax.Array, axes: Sequence[int]
) -> jax.Array:
    """Whether A u or Aᵀu is zero, to rounding."""
    level = 8 * jnp.finfo(matrix.layout.dtype).eps * scale
    some = _reduced(unit, axes) > 0
    return some & ((_reduced(matrix.apply(unit), axes) <= level) | (_reduced(back.apply(unit), axes) <= level))


def _first(free: jax.Array, axes: Sequence[int]) -> jax.Array:
    """The first point along axes that is unknown."""
    shape = [n if a in axes else 1 for a, n in enumerate(free.shape)]
    number = jnp.asarray(np.arange(prod(shape), dtype=np.int32).reshape(shape))
    seen = jnp.where(free, number, np.int32(prod(shape)))
    return free & (number == jnp.min(seen, axis=tuple(axes), keepdims=True))


def rounding_report(system: LinearSystem, rhs: Vector, x: Vector, size: jax.Array) -> Report:
    """The report of a direct method: converged where the residual is what rounding explains.

    That is √ε, or 8 ε `size` ‖x‖/‖b‖ where that is more, up to ε^¼: ‖A‖ = `size`, the largest sum of absolute entries
    of a row. Beyond it a system counts as singular.
    """
    epsilon = float(jnp.finfo(next(iter(rhs.values())).dtype).eps)
    top = jnp.sqrt(sum((jnp.sum(jnp.abs(one) ** 2) for one in x.values()), start=jnp.zeros((), size.dtype)))
    bottom = jnp.sqrt(sum((jnp.sum(jnp.abs(one) ** 2) for one in rhs.values()), start=jnp.zeros((), size.dtype)))
    explained = 8 * epsilon * size * top / jnp.where(bottom > 0, bottom, jnp.ones_like(bottom))
    return direct_report(system, rhs, x, jnp.clip(explained, epsilon**0.5, epsilon**0.25))


def row_sum(matrix: StencilMatrix) -> jax.Array:
    """‖A‖∞ = maxᵢ Σⱼ |aᵢⱼ|."""
    return jnp.max(jnp.stack([jnp.max(value) for value in _largest(matrix).values()]))
