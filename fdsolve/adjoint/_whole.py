"""Adjoints of whole runs: those that carry derivatives forward in time, beside the state, from its first level on."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._own_derivative import own_derivative
from .._tangents import moves, replaced
from ..errors import DeclarationError, PlanningError
from ..kernels import linear_map
from ._base import AbstractAdjoint, March, Step, plain, split


@dataclass(frozen=True, eq=False)
class Run:
    """A whole run as functions of its operands, a tree of arrays.

    `quick(operands)` gives all that the run gives, by whichever kernels serve it; `plain` the same by operations of JAX
    alone. `begin(operands)` is the carry at the first level, `step(operands, carry, number)` that at level `number`
    from the one before, up to level `last`. `score(carry, number, cotangents)` is ⟨cotangents, what the run keeps of
    this level⟩, `look(carry)` all of a level that can be kept. `records`: whether something is written down on the
    way that only the whole run knows. `once(operands)` holds once what the operands hold more than once (a coefficient
    beyond an end), `spread` puts it back; `known`: the leaves of that, None for those that are traced. The step of most
    levels is that of level `usual`. `settled(operands, carry, number)` is the carry at a level with what lies beyond
    the ends made again of what lies between them.
    """

    quick: Callable[[Any], Any]
    plain: Callable[[Any], Any]
    begin: Callable[[Any], Any]
    step: Callable[[Any, Any, Any], Any]
    score: Callable[[Any, Any, Any], Any]
    last: int
    look: Callable[[Any], Any]
    records: bool = False
    once: Callable[[Any], Any] = lambda operands: operands
    spread: Callable[[Any], Any] = lambda operands: operands
    known: tuple[Any, ...] = ()
    usual: int = 1
    settled: Callable[[Any, Any, Any], Any] = lambda operands, carry, number: carry


class AbstractWhole(AbstractAdjoint):
    """An adjoint that acts on a whole run, not on its steps between saves.

    The derivative along tangents is exact; how cotangents are pulled back is the adjoint's own.
    """

    keeps_all = True

    def march(self, step: Step, consts: Any, carry: Any, start: Any, count: int, quick: March | None = None) -> Any:
        return (quick or partial(plain, step))(consts, carry, start, count)

    def whole(self, run: Run, operands: Any) -> Any:
        """All that the run gives, with this adjoint's derivative."""
        leaves, form = jax.tree.flatten(operands)
        traced = [isinstance(leaf, Tracer) for leaf in leaves]
        with jax.ensure_compile_time_eval():
            held = [jnp.zeros(one.shape, one.dtype) if t else one for one, t in zip(leaves, traced, strict=True)]
            known = jax.tree.leaves(run.once(form.unflatten(held)))
        run = replace(run, known=tuple(None if t else one for one, t in zip(known, traced, strict=True)))
        out_form = shapes_of(run.plain, operands)[1]
        return out_form.unflatten(_whole(_Static(self, run, form, out_form), leaves))

    @abstractmethod
    def pull(self, run: Run, leaves: Sequence[Any], moving: Sequence[int], join: Any, cotangents: Any) -> list[Any]:
        """The cotangents of the leaves `moving` from those of all that the run gives.

        `join(leaves)` is the tree of operands; leaves hold nothing more than once.
        """


@dataclass(frozen=True, eq=False)
class _Static:
    adjoint: AbstractWhole
    run: Run
    form: Any
    out_form: Any

    def once(self, leaves: Sequence[Any]) -> list[Any]:
        return jax.tree.leaves(self.run.once(self.form.unflatten(leaves)))

    def join(self, leaves: Sequence[Any]) -> Any:
        """The operands whose leaves, each entry once, are these."""
        return self.run.spread(self.form.unflatten(leaves))


@own_derivative
def _whole(static: _Static, leaves: list[Any]) -> list[Any]:
    """The run on the leaves of its operands."""
    return jax.tree.leaves(static.run.quick(static.form.unflatten(leaves)))


def _push(static: _Static, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    (leaves,), (along,) = primals, tangents
    # Beside derivatives the run is level by level too: a kernel that jumps takes memory that depends on the steps.
    out = _whole(replace(static, run=replace(static.run, quick=static.run.plain)), leaves)
    moving = [k for k, tangent in enumerate(along) if moves(tangent)]
    inexact = [k for k, one in enumerate(out) if jnp.issubdtype(one.dtype, jnp.inexact)]
    _check_real(leaves, moving, static.adjoint)
    none = [np.zeros(one.shape, jax.dtypes.float0) for one in out]

    def forward(kept: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
        def run(*given: Any) -> list[Any]:
            return split(static.run.plain(static.form.unflatten(replaced(kept, moving, given))))[0]

        return jax.jvp(run, tuple(kept[k] for k in moving), tuple(directions))[1]

    def backward(kept: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        given = dict(zip(inexact, cotangents, strict=True))
        every = [given.get(k, one) for k, one in enumerate(none)]
        whole, out_tree = static.once(kept), static.out_form.unflatten(every)
        with forward_derivatives(f"{static.adjoint!r}", "adjoint=fd.adjoint.Checkpointed()"):
            found = static.adjoint.pull(static.run, whole, moving, static.join, out_tree)

        def taken(*own: Any) -> list[Any]:
            whole = static.once(replaced(kept, moving, own))
            return [whole[k] for k in moving]

        return list(jax.vjp(taken, *(kept[k] for k in moving))[1](found))

    like = [out[k] for k in inexact]
    found = iter(linear_map(forward, backward, leaves, [along[k] for k in moving], like))
    return out, [next(found) if k in inexact else none[k] for k in range(len(out))]


_whole.defjvp(_push)


@contextmanager
def forward_derivatives(what: str, instead: str) -> Iterator[None]:
    """Tells what takes forward derivatives of a rule that has none. Raises PlanningError."""
    try:
        yield
    except TypeError as error:
        if "custom_vjp" not in str(error):
            raise
        raise PlanningError(
            f"{what} takes forward derivatives of the rules, and one of them calls a function that has a derivative "
            f"in reverse alone (jax.custom_vjp). Give the function jax.custom_jvp, which serves both ways, or take "
            f"{instead}."
        ) from error


def _check_real(leaves: Sequence[Any], moving: Sequence[int], adjoint: AbstractWhole) -> None:
    if any(jnp.iscomplexobj(leaves[k]) for k in moving):
        raise DeclarationError(
            f"{adjoint!r} differentiates with respect to real parameters, and one here is complex. Pass its real and "
            f"imaginary parts as two, or take adjoint=fd.adjoint.Checkpointed()."
        )


def shapes_of(function: Callable[..., Any], *inputs: Any) -> tuple[list[Any], Any]:
    """The shapes of the leaves that a function gives, and the form of their tree."""
    forms = []

    def run(*given: Any) -> list[Any]:
        leaves, form = jax.tree.flatten(function(*given))
        forms.append(form)
        return leaves

    return jax.eval_shape(run, *inputs), forms[-1]


def bytes_of(tree: Any) -> int:
    """Of the leaves that have derivatives."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def pairing(cotangents: Any, tangents: Any) -> Any:
    """The real number Σ cotangent · tangent over the leaves of two trees; those without derivatives do not count."""
    total: Any = 0.0
    for cotangent, tangent in zip(jax.tree.leaves(cotangents), jax.tree.leaves(tangents), strict=True):
        if cotangent.dtype != jax.dtypes.float0:
            total = total + jnp.sum(cotangent * tangent).real
    return total
