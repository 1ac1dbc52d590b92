"""Linear views of the rates: their symbol in Fourier space, and the speeds at which they carry."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._largest import largest
from ..kernels import Level, evaluate, vectorise_function
from ..planning import PhaseStructure, Piece, Structure
from ..stencil import StateRead, linear_weights
from ..transforms import Ring


def linear_symbol(structure: Structure, phase: PhaseStructure, level: Level, names: tuple[str, ...]) -> jax.Array:
    """Σ w e^{ik·offset} of the linear rates at the wavenumbers of the FFT, shape (*waves, fields, fields); half a wave
    more along axes across whose ends the fields change their sign."""
    shape, signs = structure.array(names[0]).shape, dict(structure.signs)[names[0]]
    place = {name: i for i, name in enumerate(names)}
    complex_dtype = np.result_type(np.complex64, structure.array(names[0]).dtype)
    total = jnp.zeros((*shape, len(names), len(names)), complex_dtype)
    angles = np.meshgrid(*(Ring(0, n, sign).angles for n, sign in zip(shape, signs, strict=True)), indexing="ij")
    for piece in phase.rates:
        if not structure.is_linear(piece.rule):
            continue
        for read, weight in zip(structure.rules[piece.rule].reads, _weights(level, piece), strict=True):
            phases = np.exp(1j * sum(a * o for a, o in zip(angles, read.offset, strict=True)))
            term = weight.astype(complex_dtype) * jnp.asarray(phases, complex_dtype)
            total = total.at[..., place[piece.field], place[read.field]].add(term)
    return total


def _weights(level: Level, piece: Piece) -> list[Any]:
    """The constant weights of an affine rule, by read."""
    rule = level.structure.rules[piece.rule]
    function = rule.function(level.arrays.consts[piece.rule])
    others = {o: _any_value(level, o) for o in rule.operands if not isinstance(o, StateRead)}

    def of_reads(*reads: Any) -> Any:
        known = {**others, **dict(zip(rule.reads, reads, strict=True))}
        return function(*(known[o] for o in rule.operands))

    return linear_weights(of_reads, len(rule.reads), np.dtype(rule.dtype))[0]


def _any_value(level: Level, operand: Any) -> Any:
    """A value of an operand on which weights do not depend: arrays along axes enter as any entry of them."""
    if hasattr(operand, "axes"):
        return level.arrays.profiles[operand.name].ravel()[0]
    return level.time if operand.name == "t" else level.arrays.wholes[operand.name]


def courant_number(structure: Structure, phase: PhaseStructure, level: Level, axes: tuple[str, ...]) -> jax.Array:
    """Δt max Σ_i |a_i|/Δx_i, from the declared speeds or else from the rates linearised about the state."""
    step = level.arrays.wholes["dt"]
    if phase.speeds:
        return step * largest(jnp.stack([largest(evaluate(level, piece, axes)) for piece in phase.speeds]))
    names = tuple(dict.fromkeys(piece.field for piece in phase.rates))
    # Pieces of one group lie beside each other, those of different groups (`+=`) on each other.
    groups = {group: i for i, group in enumerate(dict.fromkeys(piece.group for piece in phase.rates))}
    moments = jnp.zeros((len(groups), len(axes), len(names), len(names)), step.dtype)
    for piece in phase.rates:
        for other, found in _first_moments(structure, level, piece, axes).items():
            if other in names:
                place = moments.at[groups[piece.group], :, names.index(piece.field), names.index(other)]
                moments = place.max(found.astype(step.dtype))
    return step * jnp.sum(jax.vmap(_spectral_radius)(moments.sum(0)))


def _first_moments(structure: Structure, level: Level, piece: Piece, axes: tuple[str, ...]) -> dict[str, jax.Array]:
    """For each field read max |Σ w·offset| over the points of a piece, by axis, in points a time.

    For any consistent scheme the first moment of its weights is the speed over the spacing; diffusion has none.
    """
    rule = structure.rules[piece.rule]
    inexact = [r for r in rule.reads if jnp.issubdtype(structure.array(r.field).dtype, jnp.inexact)]
    if not inexact:
        return {}
    function = rule.function(level.arrays.consts[piece.rule])
    taken = [level.take(operand, piece.box, axes) for operand in rule.operands]
    chosen = [rule.operands.index(read) for read in inexact]

    def moments(*values: Any) -> Any:
        def of_reads(*reads: Any) -> Any:
            given = list(values)
            for position, read in zip(chosen, reads, strict=True):
                given[position] = read
            return function(*given)

        given = [values[position] for position in chosen]
        _, push = jax.linearize(of_reads, *given)
        found: dict[str, Any] = {}
        for number, read in enumerate(inexact):
            one = [jnp.ones_like(v) if i == number else jnp.zeros_like(v) for i, v in enumerate(given)]
            weight = push(*one)
            moved = np.array(structure.moved(piece.field, read))
            found[read.field] = found.get(read.field, 0.0) + weight * jnp.asarray(moved, weight.real.dtype)
        return found

    values, flags = [v for v, _ in taken], [f for _, f in taken]
    result = vectorise_function(moments, values, flags, piece.box.shape)
    return {name: largest(jnp.abs(array), range(len(axes))) for name, array in result.items()}


def _spectral_radius(matrix: jax.Array) -> jax.Array:
    """An upper bound of the spectral radius of a nonnegative matrix, sharp for two fields that carry each other."""
    square = matrix @ matrix
    scale = largest(jnp.sum(square @ square, axis=1))
    safe = jnp.where(scale > 0, scale, jnp.ones_like(scale))
    return jnp.where(scale > 0, safe**0.25, jnp.zeros_like(scale))
