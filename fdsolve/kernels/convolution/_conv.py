"""The convolutions of `jax.lax`, argument for argument, served by the registry; padding that repeats or reflects."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from ...errors import DeclarationError
from .._selection import dispatch
from ._arguments import (
    check_arrays,
    check_groups,
    parse_factors,
    parse_layout,
    parse_precision,
    parse_result,
    real_dtype,
)
from ._call import ConvCall, dilate
from ._lax import multiply_complex
from ._pads import fill_padding, parse_padding

_TRANSPOSE_LAYOUTS = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[Any],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    kernel: str | Mapping[str, str] = "auto",
) -> jax.Array:
    """A convolution as `jax.lax.conv_general_dilated` has it: out[q] = Σₛ rhs[s] · lhs[q·stride + s·dilation − low].

    Arguments:
        lhs: values, (batch, feature, *axes) unless `dimension_numbers` says otherwise.
        rhs: weights, (feature of the result, feature, *axes); of the dtype of lhs, or real where lhs is complex.
        window_strides: every how many points the window is set, one number for each axis.
        padding: "SAME", "SAME_LOWER", "VALID"; or "periodic" ("wrap"), "reflect" (about the end points), "symmetric"
            (about half a step beyond), which set the window on every `stride`-th point from the first; or for each
            axis one of these, (low, high) or (low, high, mode). Negative numbers cut points off.
        lhs_dilation: every how many points of the result's grid those of lhs lie (zeros between them).
        rhs_dilation: how far apart the window's points lie.
        dimension_numbers: None, three strings such as ("NHWC", "HWIO", "NHWC"), or a `ConvDimensionNumbers`.
        feature_group_count: how many groups the features fall into, each with its own weights.
        batch_group_count: how many groups the batch falls into, each with its own weights.
        precision: as in JAX; None is the full precision of the dtype, also on machines where JAX's default is not.
        preferred_element_type: the dtype to sum in and to return, of the operands' kind and no narrower.
        kernel: "auto", or the name of a kernel of the operation "conv".

    Raises DeclarationError for arguments that do not fit together.

    >>> import jax.numpy as jnp
    >>> fine = jnp.asarray([0.0, 1.0, 2.0, 3.0, 4.0, 3.0, 2.0, 1.0])
    >>> conv(fine[None, None], jnp.asarray([[[0.25, 0.5, 0.25]]]), (2,), "periodic")[0, 0]
    Array([0.5, 2. , 3.5, 2. ], dtype=float...)
    """
    values, weights = jnp.asarray(lhs), jnp.asarray(rhs)
    check_arrays(values, weights)
    rank = values.ndim - 2
    layout = parse_layout(dimension_numbers, values.ndim)
    strides = parse_factors("window_strides", window_strides, rank)
    spread = parse_factors("lhs_dilation", lhs_dilation, rank)
    apart = parse_factors("rhs_dilation", rhs_dilation, rank)
    values, weights = jnp.transpose(values, layout.lhs), jnp.transpose(weights, layout.rhs)
    features, batches = check_groups(values.shape, weights.shape, feature_group_count, batch_group_count)
    window = [dilate(n, d) for n, d in zip(weights.shape[2:], apart, strict=True)]
    pads = parse_padding(padding, values.shape[2:], window, strides, spread)
    widest = values.dtype if jnp.iscomplexobj(values) else weights.dtype
    result = parse_result(preferred_element_type, widest)
    values, pairs = fill_padding(values, pads, spread)
    _check_room(values.shape[2:], spread, pairs)
    run = partial(
        _run_grouped,
        groups=(features, batches),
        geometry=dict(strides=strides, padding=pairs, lhs_dilation=spread, rhs_dilation=apart),
        precision=parse_precision(precision),
        kernel=kernel,
    )
    if values.dtype == weights.dtype:
        out = run(values, weights, result=result)
    else:
        out = multiply_complex(partial(run, result=real_dtype(result)), values, weights)
    return layout.arrange_out(out)


def _check_room(size: Sequence[int], dilation: Sequence[int], pairs: Sequence[tuple[int, int]]) -> None:
    for axis, (n, factor, pair) in enumerate(zip(size, dilation, pairs, strict=True)):
        if dilate(n, factor) + sum(pair) < 0:
            raise DeclarationError(
                f"padding={pair} cuts more points off axis {axis} than the {dilate(n, factor)} it has."
            )


def _run_grouped(
    values: jax.Array,
    weights: jax.Array,
    *,
    groups: tuple[int, int],
    geometry: dict[str, Any],
    precision: tuple[str, str] | None,
    kernel: str | Mapping[str, str],
    result: Any,
) -> jax.Array:
    """A convolution of (batch, feature, …) with (feature of the result, feature, …), groups made an axis."""
    features, batches = groups
    count = features * batches
    batch, feature, given = values.shape[0] // batches, weights.shape[1], weights.shape[0] // count
    size, window = values.shape[2:], weights.shape[2:]
    if batches > 1:
        values = values.reshape(batches, batch, feature, *size)
    else:
        values = jnp.swapaxes(values.reshape(batch, features, feature, *size), 0, 1)
    call = ConvCall(
        count,
        batch,
        feature,
        given,
        size,
        window,
        dtype=values.dtype.name,
        result=jnp.dtype(result).name,
        precision=precision,
        **geometry,
    )
    out = dispatch(call, values, weights.reshape(call.rhs_shape), explicit=kernel)
    return jnp.swapaxes(out, 0, 1).reshape(batch, count * given, *call.out)


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[Any],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    kernel: str | Mapping[str, str] = "auto",
) -> jax.Array:
    """`conv` of (batch, feature, *axes) without groups, as `jax.lax.conv_with_general_padding`."""
    return conv(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
        kernel=kernel,
    )


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: str | Sequence[Any],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
    *,
    kernel: str | Mapping[str, str] = "auto",
) -> jax.Array:
    """A convolution that goes from a coarse grid to one `strides` times as fine, as `jax.lax.conv_transpose`.

    "SAME" and "VALID" are the paddings of the convolution back; "periodic", "reflect" and "symmetric" those of `conv`.
    Pairs (low, high) go around lhs, dilated; with `use_consistent_padding` they too are those of the convolution back.
    With `transpose_kernel` the weights are those of that convolution, and this is its transpose. Without
    `dimension_numbers` the features come last (one to three axes), as in JAX.

    Raises DeclarationError for arguments that do not fit together.
    """
    values, weights = jnp.asarray(lhs), jnp.asarray(rhs)
    check_arrays(values, weights)
    rank = values.ndim - 2
    if dimension_numbers is None:
        if values.ndim not in _TRANSPOSE_LAYOUTS:
            raise DeclarationError(
                f"conv_transpose knows a layout for up to 3 axes, got {rank}. Give dimension_numbers=."
            )
        dimension_numbers = _TRANSPOSE_LAYOUTS[values.ndim]
    layout = parse_layout(dimension_numbers, values.ndim)
    factors = parse_factors("strides", strides, rank)
    apart = parse_factors("rhs_dilation", rhs_dilation, rank)
    window = [dilate(weights.shape[axis], d) for axis, d in zip(layout.rhs[2:], apart, strict=True)]
    if isinstance(padding, str) and padding.upper() in ("SAME", "VALID"):
        padding = [padding] * rank
        use_consistent_padding = True
    if use_consistent_padding:
        entries = [padding] * rank if isinstance(padding, str) else list(padding)
        if len(entries) != rank:
            raise DeclarationError(f"padding= takes an entry for each of {rank} axes, got {padding!r}.")
        padding = [_pad_back(*one) for one in zip(entries, window, factors, strict=True)]
    if transpose_kernel:
        weights = lax.rev(weights, layout.rhs[2:])
        weights = jnp.swapaxes(weights, layout.rhs[0], layout.rhs[1])
    return conv(
        values,
        weights,
        (1,) * rank,
        padding,
        lhs_dilation=factors,
        rhs_dilation=apart,
        dimension_numbers=dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
        kernel=kernel,
    )


def _pad_back(entry: Any, window: int, stride: int) -> Any:
    """The padding of the transpose of a convolution that pads by `entry`; the conventions of `jax.lax`."""
    if isinstance(entry, str) and entry.upper() in ("SAME", "VALID"):
        total = window + stride - 2
        if entry.upper() == "VALID":
            total, low = total + max(window - stride, 0), window - 1
        else:
            low = window - 1 if stride > window - 1 else -(-total // 2)
        return low, total - low
    if isinstance(entry, str):
        return entry
    low, high = entry
    return window - 1 - low, window - 1 - high
