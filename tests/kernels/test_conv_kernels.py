"""Every kernel of the operation "conv": the sum of the definition, its derivatives, its batches."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import fdsolve as fd
from fdsolve.kernels import get
from fdsolve.kernels.convolution import ConvCall
from fdsolve.kernels.convolution._reference import convolve_plainly

from .conv_cases import assert_close, calls, draw_array

KERNELS = [kernel.backend for kernel in fd.kernels.available("conv")]
FLOATS = ("float32", "float64", "complex64", "complex128", "bfloat16", "float16", "int32")


def operands(call: ConvCall, seed: int = 0) -> tuple[jax.Array, jax.Array]:
    random = np.random.default_rng(seed)
    return draw_array(random, call.lhs_shape, call.dtype), draw_array(random, call.rhs_shape, call.dtype)


@pytest.mark.parametrize("name", ["taps", "lax"])
@settings(max_examples=5)
@given(call=calls("float32"))
def test_kernels_give_the_sum_of_the_definition(name: str, call: ConvCall) -> None:
    lhs, rhs = operands(call)
    if get("conv", name).refusal(call) is None:
        assert_close(
            get("conv", name)(call, lhs, rhs), convolve_plainly(call, np.asarray(lhs), np.asarray(rhs)), "float32"
        )


@settings(max_examples=6)
@given(call=calls(line=True))
def test_gemm_along_any_axis(call: ConvCall) -> None:
    lhs, rhs = operands(call)
    assert get("conv", "gemm").refusal(call) is None
    assert_close(
        get("conv", "gemm")(call, lhs, rhs), convolve_plainly(call, np.asarray(lhs), np.asarray(rhs)), "float64"
    )


CASE = dict(
    groups=2,
    batch=2,
    features_in=3,
    features_out=2,
    size=(7, 4),
    window=(3, 1),
    strides=(2, 1),
    padding=((2, 1), (0, 0)),
    lhs_dilation=(3, 1),
    rhs_dilation=(2, 1),
    precision=("HIGHEST", "HIGHEST"),
)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_dtype(name: str, dtype: str) -> None:
    call = ConvCall(dtype=dtype, result=dtype, **CASE)
    kernel, (lhs, rhs) = get("conv", name), operands(call)
    if (why := kernel.refusal(call)) is not None:
        assert dtype in why
        return
    assert_close(kernel(call, lhs, rhs), convolve_plainly(call, np.asarray(lhs), np.asarray(rhs)), dtype)


@pytest.mark.parametrize("name", KERNELS)
def test_dot_products_and_tangents(name: str) -> None:
    dtype = "float32" if name == "lax" else "float64"
    call = ConvCall(dtype=dtype, result=dtype, **CASE)
    lhs, rhs = operands(call)
    moved = operands(call, 1)
    run = partial(get("conv", name), call)
    out, back = jax.vjp(run, lhs, rhs)
    weight = draw_array(np.random.default_rng(2), call.out_shape, dtype)
    to_lhs, to_rhs = back(weight)
    product = float(jnp.vdot(weight, out))
    assert abs(product) > 1.0
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    assert abs(float(jnp.vdot(to_lhs, lhs)) - product) < tolerance * float(jnp.linalg.norm(weight.ravel())) * 20
    assert abs(float(jnp.vdot(to_rhs, rhs)) - product) < tolerance * float(jnp.linalg.norm(weight.ravel())) * 20
    _, tangent = jax.jvp(run, (lhs, rhs), moved)
    assert_close(tangent, run(moved[0], rhs) + run(lhs, moved[1]), dtype)


@pytest.mark.parametrize("axes", [(0, None), (None, 1), (1, 2)])
@pytest.mark.parametrize("name", ["taps", "lax", "gemm"])
def test_batches(name: str, axes: tuple[int | None, int | None]) -> None:
    call = ConvCall(dtype="float32", result="float32", **CASE)
    pairs = [operands(call, seed) for seed in range(3)]
    lhs, rhs = ([pair[place] for pair in pairs] for place in (0, 1))
    run = partial(get("conv", name), call)
    given = [x[0] if axis is None else jnp.stack(x, axis) for x, axis in zip((lhs, rhs), axes, strict=True)]
    wanted = [
        run(lhs[0] if axes[0] is None else a, rhs[0] if axes[1] is None else b) for a, b in zip(lhs, rhs, strict=True)
    ]
    assert_close(jax.vmap(run, axes)(*given), jnp.stack(wanted), "float32")


@pytest.mark.parametrize("batch", [0, 2])
def test_gradient_of_a_batch(batch: int) -> None:
    call = ConvCall(dtype="float64", result="float64", **CASE)
    lhs, rhs = operands(call)
    many = jnp.stack([lhs * (k + 1) for k in range(batch)]) if batch else jnp.zeros((0, *lhs.shape))

    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        return (get("conv", "taps")(call, x, w) ** 2).sum()

    got = jax.vmap(jax.grad(loss), (0, None))(many, rhs)
    wanted = jnp.stack([jax.grad(loss)(x, rhs) for x in many]) if batch else many
    assert_close(got, wanted, "float64")


def test_many_taps_and_many_outputs_run_as_loops() -> None:
    base = {**CASE, "groups": 1, "features_in": 1, "batch": 1, "features_out": 1}
    window = {**base, "size": (7, 20), "window": (4, 9), "padding": ((0, 0), (1, 1)), "strides": (1, 1)}
    call = ConvCall(dtype="float64", result="float64", **window)
    lhs, rhs = operands(call)
    out, back = jax.vjp(partial(get("conv", "taps"), call), lhs, rhs)
    assert_close(out, convolve_plainly(call, np.asarray(lhs), np.asarray(rhs)), "float64")
    weight = draw_array(np.random.default_rng(3), call.out_shape, "float64")
    for cotangent, operand in zip(back(weight), (lhs, rhs), strict=True):
        assert abs(float(jnp.vdot(cotangent, operand) - jnp.vdot(weight, out))) < 1e-11


def test_float64_never_reaches_the_convolution_of_xla() -> None:
    """Nor do complex numbers, there and back, batched too: XLA:CPU crashes on some of them."""
    for dtype in ("float64", "complex128", "complex64"):
        call = ConvCall(dtype=dtype, result=dtype, **{**CASE, "groups": 1, "features_in": 1, "features_out": 1})
        lhs, rhs = operands(call)

        def loss(x: jax.Array, w: jax.Array, call: ConvCall = call) -> jax.Array:
            return jnp.abs(fd.kernels.dispatch(call, x, w)).sum()

        program = jax.jit(jax.vmap(jax.grad(loss, (0, 1)), (0, None))).lower(lhs[None], rhs).as_text()
        assert "stablehlo.convolution" not in program
    call = ConvCall(dtype="float32", result="float32", **CASE)
    program = jax.jit(partial(get("conv", "lax"), call)).lower(*operands(call)).as_text()
    assert "stablehlo.convolution" in program
