"""The implicit matrix product: its tiles, and the memory it takes."""

import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fdsolve.kernels import StencilCall, conv, dispatch
from fdsolve.kernels.convolution import ConvCall
from fdsolve.kernels.convolution._tiles import BLOCK, CHANNELS, LIMIT, ROWS, Tiling, tile_bound, why_not

from .conv_cases import assert_close, draw_array

SHAPES = {  # groups, batch, size, window: depthwise lines, lines of a field along each axis, a long window
    "depthwise": (300, 3, (2000,), (9,)),
    "last axis": (1, 1, (700, 3000), (1, 33)),
    "first axis": (1, 1, (3000, 700), (65, 1)),
    "long": (2, 1, (9000,), (1500,)),
}


def make_call(name: str, dtype: str = "float32", **changes: object) -> ConvCall:
    groups, batch, size, window = SHAPES[name]
    plain = dict(
        strides=(1,) * len(size),
        padding=((0, 0),) * len(size),
        lhs_dilation=(1,) * len(size),
        rhs_dilation=(1,) * len(size),
        dtype=dtype,
        result=dtype,
    )
    return ConvCall(groups, batch, 1, 1, size, window, **{**plain, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SHAPES)
def test_tiles_are_within_their_limits(name: str) -> None:
    tiling = Tiling.of(make_call(name))
    rows = tiling.batches.size * tiling.leading.size * tiling.blocks * tiling.trailing.size
    assert tiling.block <= BLOCK and rows <= ROWS and tiling.groups.size <= CHANNELS
    assert tile_bound(tiling.call) <= LIMIT * 4


@pytest.mark.parametrize("name", ["depthwise", "long"])
def test_many_tiles_give_what_taps_give(name: str) -> None:
    groups, batch, size, window = SHAPES[name]
    random = np.random.default_rng(0)
    lhs = draw_array(random, (batch, groups, *size), "float32")
    rhs = draw_array(random, (groups, 1, *window), "float32")
    got = conv(lhs, rhs, (1,), "VALID", feature_group_count=groups, kernel="gemm")
    wide = np.lib.stride_tricks.sliding_window_view(np.asarray(lhs, np.float64), window[0], axis=2)
    wanted = np.einsum("ngqs,gs->ngq", wide[:, ::37], np.asarray(rhs[::37, 0], np.float64), optimize=True)
    np.testing.assert_allclose(got[:, ::37], wanted, rtol=0, atol=5e-6 * np.abs(wanted).max())


MEMORY = """
import jax, jax.numpy as jnp
from fdsolve.kernels.convolution import ConvCall
from fdsolve.kernels import get
from fdsolve.kernels.convolution._tiles import tile_bound
for groups, size, window, axis in [(256, (16384,), (129,), 0), (1, (512, 4096), (1, 65), 1)]:
    for padded in (0, 32):
        rank = len(size)
        pads = tuple((padded, padded) if a == axis else (0, 0) for a in range(rank))
        ones = (1,) * rank
        call = ConvCall(groups, 1, 1, 1, size, window, ones, pads, ones, ones, "float32", "float32")
        shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in (call.lhs_shape, call.rhs_shape)]
        run = jax.jit(lambda x, w: get("conv", "gemm")(call, x, w)).lower(*shapes).compile()
        temporary = run.memory_analysis().temp_size_in_bytes
        columns = 4 * groups * window[axis] * call.out[0] * (call.out[1] if rank > 1 else 1)
        copy = 4 * groups * size[0] if rank == 1 else 0  # of channels, which XLA lays out anew
        print(temporary, tile_bound(call) + copy, columns)
"""


def test_temporary_memory_is_below_the_bound_of_a_tile() -> None:
    """And far below the matrix of im2col. A process of its own compiles as users do, with optimisation."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    assert len(rows) == 4
    for temporary, bound, columns in rows:
        assert temporary <= bound
        assert bound < columns / 10


SHARDED = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
from fdsolve.kernels import conv
random = np.random.default_rng(0)
x = jnp.asarray(random.standard_normal((1, 6, 300)).astype("f4"))
w = jnp.asarray(random.standard_normal((6, 1, 40)).astype("f4"))
mesh = Mesh(np.asarray(jax.devices()), ("c",))
def run(x, w):
    return conv(x, w, (1,), "SAME", feature_group_count=x.shape[1], kernel="gemm")
split = jax.jit(jax.shard_map(run, mesh=mesh, in_specs=(P(None, "c"), P("c")), out_specs=P(None, "c"), check_vma=False))
out = split(x, w)
assert len(out.sharding.device_set) == 2
program = split.lower(x, w).compile().as_text()
assert not any(word in program for word in ("all-gather", "all-reduce", "all-to-all", "collective-permute"))
assert np.abs(np.asarray(out) - np.asarray(run(x, w))).max() < 1e-5
"""


def test_channels_lie_on_several_devices_without_communication() -> None:
    done = subprocess.run([sys.executable, "-c", SHARDED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_sums_in_float32() -> None:
    """Of bfloat16 too: a thousand small terms do not vanish beside the sum."""
    lhs, rhs = jnp.full((1, 1, 4100), 0.01, jnp.bfloat16), jnp.ones((1, 1, 4000), jnp.bfloat16)
    got = conv(lhs, rhs, (1,), "VALID", kernel="gemm")
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(got, np.float32), 4000 * float(lhs[0, 0, 0]), rtol=4e-3)


def test_refusals_name_the_reason() -> None:
    changed = dict(padding=((1, 1), (0, 0)))
    assert "along one axis" in str(why_not(make_call("last axis", **changed)))  # type: ignore[arg-type]
    assert "int32" in str(why_not(make_call("long", "int32")))
    assert "strides up to" in str(why_not(make_call("long", strides=(1000,))))


@pytest.mark.parametrize("name, dtype", [("conv", "float32"), ("gemm", "float64"), ("gemm", "complex64")])
def test_stencils(name: str, dtype: str) -> None:
    """As kernels of the operation "stencil", weights differentiated too."""
    call = StencilCall((4, 9), dtype, ((0, 2), (0, -1), (0, 0), (0, 2)))
    values, weights = call.examples()

    @partial(jax.jit, static_argnums=2)
    def there_and_back(values: jax.Array, weights: jax.Array, kernel: str) -> tuple[jax.Array, ...]:
        out, back = jax.vjp(lambda v, w: dispatch(call, v, w, explicit=kernel), values, weights)
        return out, *back(values[: call.shape[0], : call.shape[1]])

    both = (there_and_back(values, weights, kernel) for kernel in (name, "slices"))
    for got, wanted in zip(*both, strict=True):
        assert_close(got, wanted, dtype)
