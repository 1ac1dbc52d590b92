"""Where holes lie whose shape depends on parameters."""

import jax
import jax.numpy as jnp
from jax import lax

from ..kernels import Arrays, Level, selector, take_box
from ..planning import Structure, pieces_of


def hidden_points(structure: Structure, axes: tuple[str, ...], arrays: Arrays) -> dict[str, jax.Array]:
    """By field, where holes lie whose shape depends on parameters; fields without such holes are left out."""
    level, hidden = Level(structure, arrays, {}, {}, 0, 1.0, None), {}
    for stage in structure.phases[structure.segments[-1].phases[-1]].stages:
        for piece in pieces_of(stage):
            if piece.role == "hole" and piece.predicate is not None:
                held = selector(level, piece, axes, piece.box)
                assert held is not None
                shape = structure.array(piece.field).shape
                mask = hidden.get(piece.field, jnp.zeros(shape, bool))
                here = take_box(mask, (0,) * len(shape), piece.box) | held
                hidden[piece.field] = lax.dynamic_update_slice(mask, here, piece.box.start)
    return hidden
