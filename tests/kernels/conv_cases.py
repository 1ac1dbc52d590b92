"""Random convolutions for the tests of kernels: the work, and operands of any dtype."""

from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np

from fdsolve.kernels.convolution import ConvCall

TOLERANCE = {
    "bfloat16": 2e-2,
    "float16": 2e-3,
    "float32": 2e-5,
    "float64": 1e-13,
    "complex64": 2e-5,
    "complex128": 1e-13,
    "int32": 0.0,
}


@st.composite
def calls(draw: Any, dtype: str = "float64", rank: int | None = None, line: bool = False) -> ConvCall:
    """Any convolution of up to three axes; with `line`, one that leaves all axes but one alone."""
    rank = draw(st.integers(1 if line else 0, 3)) if rank is None else rank
    axis = draw(st.integers(0, rank - 1)) if line else None

    def each(strategy: Any, idle: Any) -> tuple[Any, ...]:
        return tuple(draw(strategy) if axis in (None, a) else idle for a in range(rank))

    few = st.integers(1, 3)
    size = tuple(draw(st.integers(2, 60 if axis == a else 6)) for a in range(rank))
    return ConvCall(
        groups=draw(few),
        batch=draw(few),
        features_in=draw(few),
        features_out=draw(few),
        size=size,
        window=each(st.integers(1, 20 if line else 3), 1),
        strides=each(few, 1),
        padding=each(st.tuples(st.integers(-1, 4), st.integers(-1, 4)), (0, 0)),
        lhs_dilation=each(few, 1),
        rhs_dilation=each(few, 1),
        dtype=dtype,
        result=dtype,
        precision=("HIGHEST", "HIGHEST"),
    )


def draw_array(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> jax.Array:
    """Random numbers of any dtype."""
    kind = jnp.dtype(dtype)
    if jnp.issubdtype(kind, jnp.integer):
        return jnp.asarray(random.integers(-9, 9, shape).astype(kind))
    array = random.standard_normal(shape)
    if jnp.issubdtype(kind, jnp.complexfloating):
        array = array + 1j * random.standard_normal(shape)
    return jnp.asarray(array.astype(kind))


def assert_close(got: Any, wanted: Any, dtype: str) -> None:
    """Equal to rounding, measured by the largest entry."""
    kind = np.complex128 if jnp.issubdtype(jnp.dtype(dtype), jnp.complexfloating) else np.float64
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, (got.shape, wanted.shape, got.dtype, wanted.dtype)
    scale = 1.0 + np.abs(wanted.astype(kind)).max(initial=0.0)
    assert np.abs(got.astype(kind) - wanted.astype(kind)).max(initial=0.0) <= TOLERANCE[dtype] * scale
