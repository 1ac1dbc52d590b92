"""A linear function whose transpose is given, for kernels that JAX cannot look into."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.interpreters import ad, batching, mlir

Lists = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]

_map_p = jex.Primitive("fdsolve_linear_map")
_map_p.multiple_results = True


def linear_map(
    forward: Lists, backward: Lists, kept: Sequence[Any], moving: Sequence[Any], like: Sequence[Any] | None = None
) -> list[Any]:
    """forward(kept, moving), a list of arrays linear in `moving`; its transpose is backward(kept, cotangents).

    Works under jit, vmap and both modes of differentiation; with respect to `kept`, where `forward` is of JAX
    operations. `like` has the shapes and dtypes of the result, where they are known: finding them is a tracing.
    """
    found = jax.eval_shape(lambda *inputs: list(forward(*inputs)), list(kept), list(moving)) if like is None else like
    out = tuple((jnp.shape(one), jnp.result_type(one)) for one in found)
    return _map_p.bind(*kept, *moving, forward=forward, backward=backward, num_kept=len(kept), out=out)


def _run(*inputs: Any, forward: Lists, backward: Lists, num_kept: int, out: Any) -> list[Any]:
    return list(forward(inputs[:num_kept], inputs[num_kept:]))


def _shapes(*avals: Any, out: Any, **params: Any) -> list[Any]:
    return [ShapedArray(shape, dtype) for shape, dtype in out]


def _push(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    count = params["num_kept"]
    out = _map_p.bind(*primals, **params)
    if all(type(t) is ad.Zero for t in tangents[:count]):
        moved = [ad.instantiate_zeros(t) for t in tangents[count:]]
        return out, _map_p.bind(*primals[:count], *moved, **params)
    moved = tuple(ad.instantiate_zeros(t) for t in tangents)
    return out, jax.jvp(lambda *inputs: _run(*inputs, **params), tuple(primals), moved)[1]


def _transpose(
    cotangents: Sequence[Any], *inputs: Any, forward: Lists, backward: Lists, num_kept: int, out: Any
) -> list[Any]:
    given = [ad.instantiate_zeros(c) for c in cotangents]
    back = linear_map(backward, forward, inputs[:num_kept], given, [one.aval for one in inputs[num_kept:]])
    return [None] * num_kept + list(back)


def _batch(inputs: Sequence[Any], places: Sequence[Any], **params: Any) -> tuple[list[Any], list[int]]:
    (size,) = {x.shape[d] for x, d in zip(inputs, places, strict=True) if d is not None}
    count = params["num_kept"]
    moving = [
        jnp.broadcast_to(x, (size, *jnp.shape(x))) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(inputs[count:], places[count:], strict=True)
    ]
    axes = list(places[:count])  # what all have in common stays one, and what is kept stays as it lies

    def batched(function: Lists) -> Lists:
        one = jax.vmap(lambda kept, moving: list(function(kept, moving)), in_axes=(axes, 0))
        return lambda kept, moving: one(list(kept), list(moving))

    like = [jax.ShapeDtypeStruct((size, *shape), dtype) for shape, dtype in params["out"]]
    out = linear_map(batched(params["forward"]), batched(params["backward"]), inputs[:count], moving, like)
    return out, [0] * len(out)


_map_p.def_impl(lambda *inputs, **params: _run(*inputs, **params))
_map_p.def_abstract_eval(_shapes)
ad.primitive_jvps[_map_p] = _push
ad.primitive_transposes[_map_p] = _transpose
batching.primitive_batchers[_map_p] = _batch
mlir.register_lowering(_map_p, mlir.lower_fun(_run, multiple_results=True))
