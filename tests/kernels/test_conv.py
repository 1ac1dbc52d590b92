"""`fd.kernels.conv` and its kin: the arguments of `jax.lax`, one by one, and padding besides."""

from functools import partial
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax import lax

import fdsolve as fd
from fdsolve.kernels import conv, conv_transpose, conv_with_general_padding
from fdsolve.kernels.convolution import ConvCall

from .conv_cases import assert_close, calls, draw_array

RANDOM = np.random.default_rng(0)


def draw(*shape: int, dtype: str = "float32") -> jax.Array:
    return draw_array(RANDOM, shape, dtype)


@settings(max_examples=6)
@given(call=calls("float32"), batches=st.booleans())
def test_same_as_lax(call: ConvCall, batches: bool) -> None:
    groups = call.groups
    batch, features = (call.batch * groups, call.features_in) if batches else (call.batch, call.features_in * groups)
    lhs, rhs = draw(batch, features, *call.size), draw(groups * call.features_out, call.features_in, *call.window)
    options = dict(
        window_strides=call.strides,
        padding=call.padding,
        lhs_dilation=call.lhs_dilation,
        rhs_dilation=call.rhs_dilation,
        **{"batch_group_count" if batches else "feature_group_count": groups},
    )
    wanted = lax.conv_general_dilated(lhs, rhs, **options)
    for kernel in ("auto", "taps"):
        assert_close(conv(lhs, rhs, kernel=kernel, **options), wanted, "float32")


@pytest.mark.parametrize("padding", ["SAME", "SAME_LOWER", "VALID", "same", [(0, 3), (-1, 2)]])
@pytest.mark.parametrize("strides", [(1, 2), (3, 2)])
def test_padding_as_in_lax(padding: Any, strides: tuple[int, int]) -> None:
    lhs, rhs = draw(2, 2, 9, 8), draw(3, 2, 3, 4)
    asked = padding.upper() if isinstance(padding, str) else padding
    wanted = lax.conv_general_dilated(lhs, rhs, strides, asked, rhs_dilation=(2, 1))
    assert_close(conv(lhs, rhs, strides, padding, rhs_dilation=(2, 1)), wanted, "float32")
    assert_close(conv_with_general_padding(lhs, rhs, strides, padding, None, (2, 1)), wanted, "float32")


@pytest.mark.parametrize(
    "numbers",
    [
        None,
        ("NHWC", "HWIO", "NHWC"),
        ("CWNH", "OWHI", "WNCH"),
        lax.ConvDimensionNumbers((3, 0, 2, 1), (0, 1, 3, 2), (1, 2, 0, 3)),
    ],
)
def test_dimension_numbers(numbers: Any) -> None:
    shapes = {"NHWC": (2, 7, 6, 3), "CWNH": (3, 6, 2, 7), "HWIO": (2, 3, 3, 4), "OWHI": (4, 3, 2, 3)}
    if isinstance(numbers, lax.ConvDimensionNumbers):
        lhs, rhs = draw(3, 6, 7, 2), draw(4, 3, 3, 2)
    else:
        lhs, rhs = (draw(2, 3, 7, 6), draw(4, 3, 2, 3)) if numbers is None else (draw(*shapes[n]) for n in numbers[:2])
    wanted = lax.conv_general_dilated(lhs, rhs, (2, 1), [(1, 0), (2, 1)], dimension_numbers=numbers)
    assert_close(conv(lhs, rhs, (2, 1), [(1, 0), (2, 1)], dimension_numbers=numbers), wanted, "float32")


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 2), (0, 3)]])
@pytest.mark.parametrize(
    "options", [{}, {"transpose_kernel": True}, {"rhs_dilation": (2, 1)}, {"use_consistent_padding": True}]
)
def test_conv_transpose_as_in_lax(padding: Any, options: dict[str, Any]) -> None:
    lhs, rhs = draw(2, 5, 4, 3), draw(3, 2, 3, 3)
    for strides in ((2, 3), (4, 1)):
        wanted = lax.conv_transpose(lhs, rhs, strides, padding, **options)
        assert_close(conv_transpose(lhs, rhs, strides, padding, **options), wanted, "float32")
    named = dict(dimension_numbers=("NCHW", "OIHW", "NCHW"))
    lhs, rhs = jnp.moveaxis(lhs, 3, 1), jnp.moveaxis(rhs, (2, 3), (1, 0))
    assert_close(
        conv_transpose(lhs, rhs, (2, 2), padding, **options, **named),
        lax.conv_transpose(lhs, rhs, (2, 2), padding, **options, **named),
        "float32",
    )


def test_no_axes_and_no_points() -> None:
    lhs, rhs = draw(4, 3, dtype="float64"), draw(2, 3, dtype="float64")
    assert_close(conv(lhs, rhs, (), ()), lhs @ rhs.T, "float64")
    assert_close(jax.grad(lambda w: conv(lhs, w, (), "VALID").sum())(rhs), jnp.tile(lhs.sum(0), (2, 1)), "float64")
    assert conv(lhs[:0], rhs, (), ()).shape == (0, 2)
    window = draw(2, 3, 4)
    for empty in (draw(0, 3, 8), draw(1, 3, 2), draw(1, 3, 0)):
        wanted = lax.conv_general_dilated(empty, window, (2,), [(0, 0)])
        got, back = jax.vjp(lambda x, w: conv(x, w, (2,), "VALID"), empty, window)
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        for cotangent, operand in zip(back(got), (empty, window), strict=True):
            assert_close(cotangent, jnp.zeros_like(operand), "float32")


@pytest.mark.parametrize(
    "dtype, preferred",
    [("bfloat16", "float32"), ("float32", "float64"), ("int8", "int32"), ("complex64", "complex128")],
)
def test_preferred_element_type(dtype: str, preferred: str) -> None:
    lhs, rhs = draw_array(RANDOM, (1, 40, 6), dtype), draw_array(RANDOM, (2, 40, 3), dtype)
    wide = conv(lhs.astype(preferred), rhs.astype(preferred), (1,), "SAME")
    got = conv(lhs, rhs, (1,), "SAME", preferred_element_type=preferred)
    assert got.dtype == jnp.dtype(preferred)
    np.testing.assert_allclose(np.asarray(got), np.asarray(wide), rtol=1e-5, atol=1e-4)
    if jnp.issubdtype(jnp.dtype(dtype), jnp.inexact):
        run = partial(conv, window_strides=(1,), padding="SAME", preferred_element_type=preferred)
        _, back = jax.vjp(run, lhs, rhs)
        assert [cotangent.dtype for cotangent in back(got)] == [lhs.dtype, rhs.dtype]


@pytest.mark.parametrize("precision", ["highest", lax.Precision.DEFAULT, ("high", lax.Precision.HIGHEST)])
def test_precision_reaches_the_product(precision: Any) -> None:
    lhs, rhs = draw(1, 9, 6), draw(2, 9, 3)
    program = jax.jit(lambda x, w: conv(x, w, (1,), "SAME", precision=precision)).lower(lhs, rhs).as_text()
    names = precision if isinstance(precision, tuple) else (precision, precision)
    wanted = ", ".join(f"#stablehlo<precision {lax.Precision(name).name}>" for name in names)
    assert wanted in program or f"precision_config = [{wanted}]" in program
    full = jax.jit(lambda x, w: conv(x, w, (1,), "SAME")).lower(lhs, rhs).as_text()
    assert "HIGHEST" in full


@pytest.mark.parametrize(
    "mode, pad", [("periodic", "wrap"), ("wrap", "wrap"), ("reflect", "reflect"), ("symmetric", "symmetric")]
)
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_padding_that_repeats_or_reflects(mode: str, pad: str, stride: int) -> None:
    values, weights = draw(2, 1, 7, dtype="float64"), draw(1, 1, 4, dtype="float64")
    wide = np.pad(np.asarray(values[:, 0]), ((0, 0), (12, 12)), mode=pad)  # type: ignore[call-overload]
    starts = range(0, 7, stride)  # window of 4 points 2 apart: 3 before the point, 3 after
    wanted = [sum(weights[0, 0, s] * wide[:, 12 + q + 2 * s - 3] for s in range(4)) for q in starts]
    got = conv(values, weights, (stride,), mode, rhs_dilation=(2,))
    assert_close(got[:, 0], np.stack(wanted, 1), "float64")
    explicit = conv(values, weights, (stride,), [(3, (len(starts) - 1) * stride + 7 - 3 - 7, mode)], rhs_dilation=(2,))
    assert_close(explicit, got, "float64")


def test_one_padding_for_each_axis() -> None:
    values, weights = draw(1, 1, 5, 6, dtype="float64"), draw(1, 1, 3, 3, dtype="float64")
    wide = jnp.pad(values, [(0, 0), (0, 0), (1, 1), (0, 0)], mode="wrap")
    wide = jnp.pad(wide, [(0, 0)] * 3 + [(2, 0)])
    assert_close(conv(values, weights, (1, 1), ["periodic", (2, 0)]), conv(wide, weights, (1, 1), "VALID"), "float64")


@pytest.mark.parametrize("real", ["lhs", "rhs", "neither"])
def test_complex_numbers_keep_their_small_components(real: str) -> None:
    """1e4 + 1e-3i: three products instead of four lose the small component to the rounding of the large one."""
    field = lax.complex(1e4 + 1e3 * draw(1, 2, 64), 1e-3 + 1e-4 * draw(1, 2, 64))
    window = draw(3, 2, 5)
    lhs = field.real if real == "lhs" else field
    rhs = window if real == "rhs" else lax.complex(window, 1e-7 * draw(3, 2, 5))
    wide = [x.astype("complex128" if jnp.iscomplexobj(x) else "float64") for x in (lhs, rhs)]
    exact = conv(*wide, (1,), "VALID")
    for kernel in ("auto", "taps", "lax"):
        got = conv(lhs, rhs, (1,), "VALID", kernel=kernel)
        assert got.dtype == jnp.complex64
        scale = float(jnp.abs(exact.imag).max())
        assert np.abs(np.asarray(got.imag) - np.asarray(exact.imag)).max() < 1e-5 * scale
        assert np.abs(np.asarray(got.real) - np.asarray(exact.real)).max() < 1e-5 * float(jnp.abs(exact.real).max())


def test_gradients_of_mixed_operands() -> None:
    lhs, rhs = draw(1, 2, 9, dtype="complex128"), draw(3, 2, 3, dtype="float64")
    run = partial(conv, window_strides=(2,), padding="periodic")
    out, back = jax.vjp(run, lhs, rhs)
    weight = draw_array(RANDOM, out.shape, "complex128")
    to_lhs, to_rhs = back(weight)
    assert to_rhs.dtype == jnp.float64
    moved = draw(1, 2, 9, dtype="complex128"), draw(3, 2, 3, dtype="float64")
    _, tangent = jax.jvp(run, (lhs, rhs), moved)
    there = jnp.sum(weight * tangent).real
    assert abs(float(there - jnp.sum(to_lhs * moved[0]).real - jnp.sum(to_rhs * moved[1]))) < 1e-12


def test_under_jit_with_the_kernel_named_or_overlaid() -> None:
    lhs, rhs = draw(1, 1, 12, dtype="float64"), draw(1, 1, 5, dtype="float64")
    plain = conv(lhs, rhs, (1,), "SAME")

    def loss(x: jax.Array, kernel: str) -> jax.Array:
        return (conv(x, rhs, (1,), "SAME", kernel=kernel) ** 2).sum()

    gradients = [jax.jit(jax.grad(partial(loss, kernel=name)))(lhs) for name in ("taps", "gemm", "reference")]
    with fd.kernels.use({"conv": "gemm"}):
        assert_close(conv(lhs, rhs, (1,), "SAME"), plain, "float64")
        gradients.append(jax.grad(partial(loss, kernel="auto"))(lhs))
    for gradient in gradients[1:]:
        assert_close(gradient, gradients[0], "float64")
