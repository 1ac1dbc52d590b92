"""One step as a function of vectors: what traces follow."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ...errors import DeclarationError

_UNKNOWN = (Tracer, jax.ShapeDtypeStruct)
Point = tuple[Any, Any, Any, Any]
"""Parameters, state, what has no derivative beside it, and for the step (constants, inputs)."""


@dataclass(frozen=True)
class Packing:
    """A tree of arrays as one real vector of its floating numbers, the rest aside."""

    form: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    dtype: Any

    @staticmethod
    def of(tree: Any) -> "Packing":
        """The packing of a tree of this form."""
        leaves, form = jax.tree.flatten(tree)
        dtypes = [np.dtype(jnp.result_type(leaf)) for leaf in leaves]
        real = [jnp.finfo(one).dtype for one in dtypes if jnp.issubdtype(one, jnp.inexact)]
        widest = max(real, key=lambda one: jnp.finfo(one).bits, default=np.dtype(np.float32))
        return Packing(form, tuple(tuple(jnp.shape(leaf)) for leaf in leaves), tuple(dtypes), np.dtype(widest))

    @property
    def size(self) -> int:
        """How many numbers the vector has."""
        counts = zip(self.shapes, self.dtypes, strict=True)
        return sum(prod(s) * (1 + (d.kind == "c")) for s, d in counts if jnp.issubdtype(d, jnp.inexact))

    def apart(self) -> np.ndarray:
        """A row for each leaf of floating numbers: one where its entries stand in the vector, zero elsewhere."""
        counts = [prod(s) * (1 + (d.kind == "c")) for s, d in zip(self.shapes, self.dtypes, strict=True)
                  if jnp.issubdtype(d, jnp.inexact)]  # fmt: skip
        return np.repeat(np.eye(len(counts), dtype=self.dtype), counts, axis=1)

    def pack(self, tree: Any) -> tuple[Any, list[Any]]:
        """The vector, and the leaves without derivatives."""
        parts, aside = [jnp.zeros((0,), self.dtype)], []
        for leaf, dtype in zip(jax.tree.leaves(tree), self.dtypes, strict=True):
            if not jnp.issubdtype(dtype, jnp.inexact):
                aside.append(leaf)
                continue
            array = jnp.asarray(leaf)
            for one in (array.real, array.imag) if dtype.kind == "c" else (array,):
                parts.append(one.astype(self.dtype).ravel())
        return jnp.concatenate(parts), aside

    def unpack(self, vector: Any, aside: list[Any]) -> Any:
        """The tree again."""
        rest, leaves, at = iter(aside), [], 0
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            if not jnp.issubdtype(dtype, jnp.inexact):
                leaves.append(next(rest))
                continue
            count, parts = prod(shape), []
            for _ in range(1 + (dtype.kind == "c")):
                parts.append(vector[at : at + count].reshape(shape))
                at += count
            value = parts[0] if len(parts) == 1 else jax.lax.complex(*parts)
            leaves.append(value.astype(dtype))
        return self.form.unflatten(leaves)


@dataclass(frozen=True)
class Parameter:
    """A parameter's place in the vector of all of them."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    start: int

    @property
    def size(self) -> int:
        """How many entries it has."""
        return prod(self.shape)

    @property
    def stop(self) -> int:
        """Where the next one starts."""
        return self.start + self.size


@dataclass(frozen=True, eq=False)
class Update:
    """A step u' = Φ(θ, u, x) with real vectors θ (P,) and u (N,); made by `make_update`.

    `function(parts, u, aside, (constants, inputs))` takes the parameters one by one and gives (u', aside'). `example`
    is a point of concrete arrays at which its structure is looked at; `seen` (N,) marks the numbers that losses can
    read; `first(θ, constants)`, if the first state depends on parameters, is that state; `is_deep`: the step reads
    more than the level before; `remade(parts, u, aside, (constants, inputs))`, if the state holds copies of its own
    numbers, is the state before the step of these inputs with the copies made again; `is_concrete`: the example is
    what was given, not made up; `unknown`: a tree of the form of the constants, True for those whose values are not
    known.
    """

    function: Callable[[list[Any], Any, Any, Any], tuple[Any, Any]]
    parameters: tuple[Parameter, ...]
    packing: Packing
    example: Point = field(repr=False)
    seen: np.ndarray = field(repr=False)
    first: Callable[[Any, Any], Any] | None = None
    remade: Callable[[list[Any], Any, Any, Any], Any] | None = None
    is_deep: bool = False
    is_concrete: bool = True
    unknown: Any = field(default=None, repr=False)

    @property
    def num_parameters(self) -> int:
        """P."""
        return self.parameters[-1].stop if self.parameters else 0

    @property
    def num_states(self) -> int:
        """N."""
        return self.packing.size

    def split(self, theta: Any) -> list[Any]:
        """The parameters, from their vector."""
        return [theta[p.start : p.stop].reshape(p.shape).astype(p.dtype) for p in self.parameters]

    def step(self, theta: Any, state: Any, aside: Any, inputs: Any) -> tuple[Any, Any]:
        """u', and what stands aside then."""
        return self.function(self.split(theta), state, aside, inputs)

    def settle(self, theta: Any, state: Any, aside: Any, inputs: Any) -> Any:
        """The state before a step, the same numbers, whose copies depend on what they copy, not on themselves."""
        if self.remade is None:
            return state
        made = self.remade(self.split(theta), state, aside, inputs)
        return lax.stop_gradient(state) + (made - lax.stop_gradient(made))

    def join(self, parts: Mapping[str, Any]) -> Any:
        """The vector of parameters by name."""
        return jnp.concatenate(
            [jnp.asarray(parts[p.name]).astype(self.packing.dtype).ravel() for p in self.parameters]
            or [jnp.zeros((0,), self.packing.dtype)]
        )

    def by_name(self, theta: Any) -> dict[str, Any]:
        """The parameters (or a gradient by them) by name."""
        return {p.name: one for p, one in zip(self.parameters, self.split(theta), strict=True)}


def make_update(
    step: Callable[[dict[str, Any], Any, Any, Any], Any],
    parameters: Mapping[str, Any],
    state: Any,
    inputs: Any = None,
    *,
    constants: Any = None,
    first: Callable[[dict[str, Any], Any], Any] | None = None,
    look: Callable[[Any], Any] | None = None,
    is_deep: bool = False,
    settled: Callable[[dict[str, Any], Any, Any, Any], Any] | None = None,
) -> Update:
    """The update of a step of trees of arrays: `step(parameters, state, inputs, constants)` is the next state.

    `parameters` are real arrays by name, `state` a tree, `inputs` an example of what differs from step to step,
    `constants` what does not; `first` gives the first state from parameters and constants; `look(state)` what
    losses can read of a state (default: all); `settled`, of the arguments of `step`, the state before the step with
    what it holds of copies of its own numbers (ghosts) made again. An array may be given by its shape. Raises
    DeclarationError for parameters that are no real floating numbers.
    """
    packing, places, start = Packing.of(state), [], 0
    for name, value in parameters.items():
        dtype = np.dtype(jnp.result_type(value))
        if not jnp.issubdtype(dtype, jnp.floating):
            raise DeclarationError(
                f"The parameter `{name}` has dtype {dtype}; derivatives are taken with respect to real floating "
                f"numbers. Give it as a float, or leave it out of the parameters that are followed."
            )
        places.append(Parameter(name, tuple(jnp.shape(value)), dtype, start))
        start = places[-1].stop

    def function(parts: list[Any], vector: Any, aside: Any, given: Any) -> tuple[Any, Any]:
        named = {p.name: one for p, one in zip(places, parts, strict=True)}
        constant, inputs = given
        return packing.pack(step(named, packing.unpack(vector, aside), inputs, constant))

    def remade(parts: list[Any], vector: Any, aside: Any, given: Any) -> Any:
        assert settled is not None
        named = {p.name: one for p, one in zip(places, parts, strict=True)}
        constant, inputs = given
        return packing.pack(settled(named, packing.unpack(vector, aside), inputs, constant))[0]

    found = (dict(parameters), state, (constants, inputs))
    concrete = not any(isinstance(leaf, _UNKNOWN) for leaf in jax.tree.leaves(found))
    with jax.ensure_compile_time_eval():
        fixed = jax.tree.map(stand_in, found)
        vector, aside = packing.pack(fixed[1])
        theta = jnp.concatenate([jnp.zeros((0,), packing.dtype)] + [_flat(v, packing) for v in fixed[0].values()])
        seen = _find_seen(packing, vector, aside, look)

    def begin(theta: Any, constants: Any) -> Any:
        assert first is not None
        parts = [theta[p.start : p.stop].reshape(p.shape).astype(p.dtype) for p in places]
        return packing.pack(first({p.name: one for p, one in zip(places, parts, strict=True)}, constants))[0]

    example = (theta, vector, aside, fixed[2])
    started = None if first is None else begin
    unknown = jax.tree.map(lambda leaf: isinstance(leaf, _UNKNOWN), constants)
    again = None if settled is None else remade
    return Update(function, tuple(places), packing, example, seen, started, again, is_deep, concrete, unknown)


def _flat(value: Any, packing: Packing) -> Any:
    return jnp.asarray(value).astype(packing.dtype).ravel()


def stand_in(leaf: Any) -> Any:
    """A concrete array of the form of one that is not known."""
    if not isinstance(leaf, _UNKNOWN):
        return leaf
    if not jnp.issubdtype(leaf.dtype, jnp.inexact):
        return jnp.ones(leaf.shape, leaf.dtype)
    drawn = np.random.default_rng(int(np.prod(leaf.shape))).uniform(0.5, 1.5, leaf.shape)
    return jnp.asarray(drawn, leaf.dtype)


def _find_seen(packing: Packing, vector: Any, aside: Any, look: Callable[[Any], Any] | None) -> np.ndarray:
    """The numbers of the state on which what is looked at depends."""
    if look is None:
        return np.ones(packing.size, bool)

    def weighed(v: Any) -> Any:
        leaves = [x for x in jax.tree.leaves(look(packing.unpack(v, aside))) if jnp.issubdtype(x.dtype, jnp.inexact)]
        return sum((jnp.sum(x.real + 2 * x.imag) if jnp.iscomplexobj(x) else jnp.sum(x)) for x in leaves)

    return np.asarray(jax.jit(jax.grad(weighed))(vector)) != 0
