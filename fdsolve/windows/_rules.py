"""A function of a window, traced: as scalar arithmetic on the entries it reads, or as it stands on the whole window."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeVar

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError
from ..stencil import Operand, Traced, jaxpr_key, trace_window
from ._arguments import Geometry
from ._window import Names, as_window, describe

MAX_READS = 256
"""A function that reads more entries than this gets its window whole."""
MAX_ENTRIES = 2048
"""Windows of more entries are not taken apart at all."""
_PICKS = frozenset({"slice", "dynamic_slice", "gather"})


@dataclass(frozen=True, eq=False)
class WholeWindow:
    """A function on its window as one array. Equal and hashed by structure; `consts` are arrays."""

    jaxpr: Any
    consts: tuple[Any, ...]
    dtype: Any
    key: Hashable = field(repr=False)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WholeWindow) and (self.key, self.dtype) == (other.key, other.dtype)

    def function(self, consts: Sequence[Any]) -> Callable[[jax.Array], jax.Array]:
        """The rule as a function of the window."""
        run = jex.jaxpr_as_fun(jex.ClosedJaxpr(self.jaxpr, list(consts)))
        return lambda window: jax.lax.convert_element_type(run(window)[0], self.dtype)


Rule = Traced | WholeWindow


def trace_function(
    function: Callable[..., Any],
    geometry: Geometry,
    relative: bool,
    named_axis: Mapping[int, Any] | None,
    dtype: Any,
    arguments: tuple[tuple[Any, ...], dict[str, Any]],
) -> jex.ClosedJaxpr:
    """The jaxpr of a function of its window; extra arguments arrive whole, arrays among them as constants of it."""
    what = describe(function)
    names = None if named_axis is None else Names(named_axis, geometry.ndim)
    positional, keywords = arguments

    def call(array: jax.Array) -> Any:
        result = function(as_window(array, geometry, relative, names, what), *positional, **keywords)
        if result is None or isinstance(result, tuple | list | dict):
            got = "nothing" if result is None else f"a {type(result).__name__}"
            raise DeclarationError(f"{what} returned {got}; a function of a window returns one number or array.")
        return result

    return jax.make_jaxpr(call)(jax.ShapeDtypeStruct(geometry.size, dtype))


def common_dtype(closed: Sequence[jex.ClosedJaxpr]) -> Any:
    """The dtype that holds the results of all functions; Python numbers among them adapt to the others."""
    found = []
    for one in closed:
        aval = one.out_avals[0]
        kinds = ((jnp.bool_, bool), (jnp.integer, int), (jnp.floating, float), (jnp.complexfloating, complex))
        weak = next((number for kind, number in kinds if jnp.issubdtype(aval.dtype, kind)), None)
        found.append(weak if aval.weak_type and weak is not None else aval.dtype)
    return np.dtype(jnp.result_type(*found))


def check_scalar(what: str, closed: jex.ClosedJaxpr, dtype: Any) -> None:
    """Refuses results that do not fit into one entry of the array."""
    (aval,) = closed.out_avals
    if aval.shape != ():
        raise DeclarationError(f"{what} returned an array of shape {aval.shape}; the output must be scalar here.")
    if jnp.issubdtype(aval.dtype, jnp.complexfloating) and not jnp.issubdtype(dtype, jnp.complexfloating):
        raise DeclarationError(f"{what} returned a complex value for an array of dtype {dtype}; pass a complex array.")


def offsets(geometry: Geometry, relative: bool) -> list[tuple[int, ...]]:
    """Offsets from the centre of a window's entries, in the order in which functions see them."""
    sizes, middles = geometry.size, geometry.centre
    if relative:
        return [
            tuple(j if j < k - m else j - k for j, k, m in zip(place, sizes, middles, strict=True))
            for place in np.ndindex(*sizes)
        ]
    return [tuple(j - m for j, m in zip(place, middles, strict=True)) for place in np.ndindex(*sizes)]


def scalar_rule(closed: jex.ClosedJaxpr, operands: Callable[[], Sequence[Operand]], dtype: Any) -> Traced | None:
    """The function as scalar arithmetic on the entries it reads; None where it reads too many."""
    entries = prod(closed.in_avals[0].shape)
    if entries > MAX_ENTRIES or (entries > MAX_READS and not _picks_entries(closed.jaxpr)):
        return None
    rule = trace_window(closed, operands(), dtype)
    return rule if len(rule.operands) <= MAX_READS else None


def whole_rule(closed: jex.ClosedJaxpr, dtype: Any) -> WholeWindow:
    """The function as it stands."""
    return WholeWindow(closed.jaxpr, tuple(closed.consts), np.dtype(dtype), jaxpr_key(closed.jaxpr))


R = TypeVar("R", bound=Traced | WholeWindow)


def without_consts(rule: R) -> R:
    """The static part of a rule: a compiled program must not keep the arrays of the call that made it."""
    return replace(rule, consts=())


def _picks_entries(jaxpr: jex.Jaxpr) -> bool:
    """Whether the window is used by picking entries alone."""
    (window,) = jaxpr.invars
    users = [eqn.primitive.name for eqn in jaxpr.eqns if any(v is window for v in eqn.invars)]
    return all(name in _PICKS for name in users) and not any(v is window for v in jaxpr.outvars)
