"""Convolution along one axis as matrix products over offset loads: no im2col in memory.

After the depthwise kernel of AWS' NKI library: there, row k of a tile is the line loaded from point k on, and the
weights of up to 128 points multiply it at once. Here the line is loaded in blocks, from block k on, and a banded matrix
of the weights multiplies each; so one line alone is already a matrix product, and strides and dilations are bands of
other slopes. Blocks are summed one after another in float32 (float64 for float64); bands are made once for each tile of
channels, which need nothing from each other and may lie on several devices.
"""

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._registry import register
from ._bilinear import bilinear
from ._call import ConvCall
from ._tiles import Tiling, why_not

_UNROLL = 4  # blocks of the contraction


def _rank(call: ConvCall) -> int:
    """Before `taps` where many lines share the weights of a long window; elsewhere fused slices cost less."""
    shared = call.groups == call.features_in == call.features_out == 1
    return 120 if shared and max(call.window, default=1) >= 128 else 40


@register("conv", backend="gemm", priority=_rank, serves=why_not)
@bilinear("gemm")
def gemm(call: ConvCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Blocks of lines times banded matrices, in tiles: windows along one axis, long ones best."""
    tiling = Tiling.of(call)
    axis = tiling.axis
    values = lhs.reshape(*lhs.shape[:3], tiling.before, call.size[axis], *tiling.tail(tiling.after))
    weights = rhs.reshape(*rhs.shape[:3], call.window[axis])
    cuts = (tiling.batches, tiling.leading, tiling.along, tiling.trailing)

    def run_group(number: jax.Array, out: jax.Array) -> jax.Array:
        group = tiling.groups.start(number)
        band = tiling.make_band(lax.dynamic_slice_in_dim(weights, group, tiling.groups.size, 0))

        def run_tile(turn: jax.Array, out: jax.Array) -> jax.Array:
            starts = []
            for cut in reversed(cuts):
                starts.append(cut.start(turn % cut.count))
                turn = turn // cut.count
            after, along, before, batch = starts
            place = group, batch, jnp.zeros_like(group), before, along, *tiling.tail(after)
            summed = _multiply(tiling, tiling.load(values, place), band).astype(jnp.dtype(call.result))
            return lax.dynamic_update_slice(out, summed, place)

        return lax.fori_loop(0, prod(cut.count for cut in cuts), run_tile, out)

    shape = (*call.out_shape[:3], tiling.before, tiling.along.padded, *tiling.tail(tiling.after))
    out = lax.fori_loop(0, tiling.groups.count, run_group, jnp.zeros(shape, jnp.dtype(call.result)))
    return lax.slice_in_dim(out, 0, call.out[axis], axis=4).reshape(call.out_shape)


def _multiply(tiling: Tiling, tile: jax.Array, band: jax.Array) -> jax.Array:
    """The sum over the bands, from a tile of lhs to one of the result."""
    call, block = tiling.call, tiling.block
    lead, tail = tile.shape[:4], tile.shape[5:]
    reading = tiling.blocks * block

    def product(number: Any) -> jax.Array:
        lines = lax.dynamic_slice_in_dim(tile, number * block, reading, 4).reshape(*lead, tiling.blocks, block, *tail)
        matrix = lax.dynamic_slice_in_dim(band, number * block, block, 3)
        return lax.dot_general(  # (group, batch, before, blocks, *after, features_out, width)
            lines,
            matrix,
            (((2, 5), (2, 3)), ((0,), (0,))),
            precision=call.dot_precision,
            preferred_element_type=call.accumulator,
        )

    total = product(0)
    if tiling.bands <= _UNROLL:
        for number in range(1, tiling.bands):
            total = total + product(number)
    else:
        total = lax.fori_loop(1, tiling.bands, lambda number, total: total + product(number), total)
    total = jnp.transpose(total, (0, 1, 5, 2, 3, 6, 4) if tail else (0, 1, 4, 2, 3, 5))
    return total.reshape(*total.shape[:4], tiling.along.size, *tail)
