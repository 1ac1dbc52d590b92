"""The arguments of `jax.lax`'s convolutions, read: layouts, groups, types."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...errors import DeclarationError

_HALVES = (("lhs", "N", "C"), ("rhs", "O", "I"), ("out", "N", "C"))


@dataclass(frozen=True)
class Layout:
    """Where each array has its batch (rhs: feature of the result), its feature, and its spatial axes, in that order."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]

    def arrange_out(self, array: jax.Array) -> jax.Array:
        """A result (batch, feature, *axes) in its own order."""
        return jnp.transpose(array, sorted(range(array.ndim), key=lambda place: self.out[place]))


def parse_layout(numbers: Any, ndim: int) -> Layout:
    """The layout that `dimension_numbers` gives, None, three strings, or a ConvDimensionNumbers, for `ndim` axes."""
    if numbers is None:
        plain = tuple(range(ndim))
        return Layout(plain, plain, plain)
    if isinstance(numbers, lax.ConvDimensionNumbers):
        specs = [tuple(int(i) for i in spec) for spec in numbers]
        for (name, *_), spec in zip(_HALVES, specs, strict=True):
            if sorted(spec) != list(range(ndim)):
                raise DeclarationError(
                    f"dimension_numbers.{name}_spec takes each of 0 to {ndim - 1} once (lhs and rhs have {ndim} axes), "
                    f"got {spec}."
                )
        return Layout(*specs)
    if not isinstance(numbers, tuple | list) or len(numbers) != 3 or not all(isinstance(n, str) for n in numbers):
        raise DeclarationError(
            "dimension_numbers= takes None, three strings such as ('NHWC', 'HWIO', 'NHWC'), or a "
            f"jax.lax.ConvDimensionNumbers; got {numbers!r}."
        )
    for (name, first, second), spec in zip(_HALVES, numbers, strict=True):
        if len(spec) != ndim or len(set(spec)) != ndim or not {first, second} <= set(spec):
            raise DeclarationError(
                f"The {name} part of dimension_numbers names each of {ndim} axes by a letter of its own, {first!r} and "
                f"{second!r} among them; got {spec!r}."
            )
    axes = [[c for c in spec if c not in (a, b)] for (_, a, b), spec in zip(_HALVES, numbers, strict=True)]
    if not set(axes[0]) == set(axes[1]) == set(axes[2]):
        raise DeclarationError(f"The parts of dimension_numbers name the same spatial axes; got {tuple(numbers)!r}.")
    return Layout(
        *(
            (spec.index(first), spec.index(second), *(spec.index(c) for c in axes[1]))
            for (_, first, second), spec in zip(_HALVES, numbers, strict=True)
        )
    )


def parse_factors(name: str, given: Any, rank: int) -> tuple[int, ...]:
    """Strides or dilations, one for each spatial axis; None for ones."""
    if given is None:
        return (1,) * rank
    try:
        found = tuple(index(factor) for factor in given)
    except TypeError as error:
        raise DeclarationError(f"{name}= takes {rank} integers, one for each spatial axis; got {given!r}.") from error
    if len(found) != rank or any(factor < 1 for factor in found):
        raise DeclarationError(f"{name}= takes {rank} integers of at least 1, one a spatial axis; got {given!r}.")
    return found


def check_groups(lhs: Sequence[int], rhs: Sequence[int], feature_groups: Any, batch_groups: Any) -> tuple[int, int]:
    """The group counts; `lhs` and `rhs` are the shapes (batch, feature, …) and (feature of the result, feature, …)."""
    try:
        features, batches = index(feature_groups), index(batch_groups)
    except TypeError as error:
        raise DeclarationError(
            f"feature_group_count= and batch_group_count= take integers, got {feature_groups!r} and {batch_groups!r}."
        ) from error
    if min(features, batches) < 1 or max(features, batches) > 1 < min(features, batches):
        raise DeclarationError(
            "feature_group_count= and batch_group_count= are at least 1, and at most one of them is more; got "
            f"{features} and {batches}."
        )
    if lhs[1] % features or lhs[1] // features != rhs[1]:
        raise DeclarationError(
            f"With feature_group_count={features} the {lhs[1]} features of lhs divide into groups of as many as rhs "
            f"reads, {rhs[1]}. Give rhs {lhs[1] // features if lhs[1] % features == 0 else '…'} input features, or "
            "change feature_group_count."
        )
    if lhs[0] % batches:
        raise DeclarationError(f"batch_group_count={batches} divides the batch of lhs, which is {lhs[0]}.")
    if rhs[0] % (features * batches):
        name, count = ("feature", features) if features > 1 else ("batch", batches)
        raise DeclarationError(
            f"{name}_group_count={count} divides the features that rhs gives, as each group gives as many; these are "
            f"{rhs[0]}."
        )
    return features, batches


def check_arrays(lhs: jax.Array, rhs: jax.Array) -> None:
    """lhs and rhs have as many axes, at least two, and one dtype; or one is complex and the other its real part's."""
    if lhs.ndim != rhs.ndim or lhs.ndim < 2:
        raise DeclarationError(
            "lhs and rhs have as many axes, a batch and a feature axis and the spatial ones; got shapes "
            f"{lhs.shape} and {rhs.shape}. Add axes of one point: lhs[None, None], rhs[None, None]."
        )
    if real_dtype(lhs.dtype) != real_dtype(rhs.dtype) or lhs.dtype == bool:
        raise DeclarationError(
            "lhs and rhs have one numeric dtype (or one of them is complex, the other real, of one precision); got "
            f"{lhs.dtype} and {rhs.dtype}. Convert one: rhs.astype(lhs.dtype)."
        )


def real_dtype(dtype: Any) -> Any:
    """The dtype of the real part."""
    return jnp.finfo(dtype).dtype if jnp.issubdtype(dtype, jnp.complexfloating) else jnp.dtype(dtype)


def parse_result(preferred: Any, dtype: Any) -> Any:
    """The dtype of the result: `preferred_element_type` where given, of the same kind as `dtype` and no narrower."""
    if preferred is None:
        return jnp.dtype(dtype)
    found = jax.dtypes.canonicalize_dtype(preferred)
    kinds = (jnp.signedinteger, jnp.unsignedinteger, jnp.floating, jnp.complexfloating)
    same = any(jnp.issubdtype(dtype, kind) and jnp.issubdtype(found, kind) for kind in kinds)
    if not same or found.itemsize < jnp.dtype(dtype).itemsize:
        raise DeclarationError(
            f"preferred_element_type= takes a dtype of the kind of the operands' and no narrower; got {found} for "
            f"{jnp.dtype(dtype)}. Convert the result instead: conv(…).astype(…)."
        )
    return found


def parse_precision(precision: Any) -> tuple[str, str] | None:
    """Two names of `lax.Precision`; None, without one, is the highest, unless JAX's own default has been set."""
    if precision is None:
        default = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
        return ("HIGHEST", "HIGHEST") if default is None else None
    pair = precision if isinstance(precision, tuple | list) else (precision, precision)
    try:
        first, second = (lax.Precision(one) for one in pair)
    except (ValueError, TypeError) as error:
        raise DeclarationError(
            'precision= takes None, a jax.lax.Precision, a string such as "highest", or two of these; got '
            f"{precision!r}."
        ) from error
    return first.name, second.name
