"""The call of XLA that runs generated code. Under vmap it is one call for all shots, which threads share out."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from ._fresh import LARGE, fresh_before
from ._layout import LINE
from ._processors import num_threads

MOST_ENTRIES = 2**31 - 1
"""Of an array of one shot, since settings are 32-bit numbers."""


@dataclass(frozen=True)
class Launch:
    """A target among XLA's custom calls, which writes its first `in_place` arguments over and gives them back.

    Behind them it gives `written`, of these shapes and dtypes. Each of `threads` needs a `share` of scratch, and all of
    them `halos` together, in cache lines. What uses what is written will take so many bytes `beside` it.
    """

    target: str
    in_place: int
    written: tuple[tuple[tuple[int, ...], str], ...]
    threads: int
    share: int
    halos: int
    beside: int = 0


def launch(code: Launch, settings: Sequence[Any], arguments: Sequence[jax.Array]) -> list[jax.Array]:
    """What it gives. `settings` are whole numbers, some of which may be traced."""

    @custom_vmap
    def run(head: jax.Array, *arguments: jax.Array) -> list[jax.Array]:
        return _call(code, None, (False,) * len(arguments), head, arguments)

    @run.def_vmap
    def _(size: int, batched: Any, head: jax.Array, *arguments: jax.Array) -> tuple[list[jax.Array], list[bool]]:
        found = _call_for_all(code, size, batched, head, arguments)
        return found, [True] * len(found)

    return run(jnp.stack([jnp.asarray(one, jnp.int32) for one in settings]), *arguments)


def _call_for_all(
    code: Launch, size: int, batched: Sequence[bool], head: jax.Array, arguments: Sequence[jax.Array]
) -> list[jax.Array]:
    """The call for so many shots; one after the other where settings differ or arrays are too large."""
    alike, *own = batched[0], *batched[1:]
    large = max(one.size // (size if by else 1) for one, by in zip(arguments, own, strict=True)) > MOST_ENTRIES
    if alike or large:

        def one(head: jax.Array, *given: jax.Array) -> list[jax.Array]:
            return _call(code, None, (False,) * len(given), head, given)

        return jax.vmap(one, [0 if by else None for by in batched])(head, *arguments)
    given = [
        jnp.broadcast_to(one, (size, *one.shape)) if k < code.in_place and not own[k] else one
        for k, one in enumerate(arguments)
    ]
    return _call(code, size, [by or k < code.in_place for k, by in enumerate(own)], head, given)


def _call(
    code: Launch, size: int | None, own: Sequence[bool], head: jax.Array, arguments: Sequence[jax.Array]
) -> list[jax.Array]:
    """The call for so many shots along a first axis, which arguments have of their `own`."""
    shots, before = (1, ()) if size is None else (size, (size,))
    teams = min(num_threads(), shots)
    threads = max(1, code.threads // teams)
    entries = [prod(one.shape[1:]) if by else 0 for one, by in zip(arguments, own, strict=True)]
    entries += entries[: code.in_place]
    entries += [prod(shape) if before else 0 for shape, _ in code.written]
    rest = np.asarray([threads, shots, teams, *entries], np.int32)
    results = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in arguments[: code.in_place]]
    scratch = jax.ShapeDtypeStruct(((teams * (code.share * threads + code.halos) + 1) * LINE,), np.uint8)
    written = [jax.ShapeDtypeStruct((*before, *shape), dtype) for shape, dtype in code.written]
    aliases, fresh = {k: k for k in range(code.in_place)}, []
    if code.beside and sum(one.size * one.dtype.itemsize for one in written) >= LARGE:
        # All that is fresh lies in large pages then, what this call begins with too: small ones are dear.
        fresh, held = fresh_before(written, head, arguments[: code.in_place], code.beside * shots)
        arguments = (*held, *arguments[code.in_place :])
        aliases |= {len(arguments) + 1 + k: code.in_place + 1 + k for k in range(len(fresh))}
    run_target = jax.ffi.ffi_call(
        code.target, (*results, scratch, *written), input_output_aliases=aliases, vmap_method="sequential"
    )
    found = run_target(*arguments, jnp.concatenate([head, rest]), *fresh)
    return [*found[: code.in_place], *found[code.in_place + 1 :]]
