"""Operations by which parameters enter a step, and the table of those that are known."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ...errors import DeclarationError


@dataclass(frozen=True, eq=False)
class Site:
    """Where a parameter meets the state: y = apply(raw, others).

    `raw` is a value made of parameters alone, `others` the further operands, among them values that move; `place` is
    which operand of the equation `raw` is, `params` the equation's own; `sources` the numbers of the parameters.
    """

    name: str
    apply: Callable[[Any, tuple[Any, ...]], Any]
    raw: jax.ShapeDtypeStruct
    out: jax.ShapeDtypeStruct
    place: int
    params: Any
    sources: frozenset[int]


class AbstractOperation(ABC):
    """How a trace follows a parameter through one kind of operation: four rules."""

    @property
    def places(self) -> bool:
        """Whether values made of parameters are put beside those of the state, which keeps its own way on."""
        return False

    def scales(self, site: Site) -> bool:
        """Whether y is linear in the operands that move (what input traces need)."""
        return False

    @abstractmethod
    def adjacency(self, site: Site) -> Any:
        """(colours, *raw): for each colour the entries of the parameter that are probed together, as 0 and 1.

        No two entries of one colour may reach the same entry of y.
        """

    def jacobian(self, site: Site, raw: Any, others: tuple[Any, ...]) -> Any:
        """The instantaneous Jacobian ∂y/∂raw, (colours, *y): along each colour."""

        def along(comb: Any) -> Any:
            return jax.jvp(lambda value: site.apply(value, others), (raw,), (comb,))[1]

        return jax.vmap(along)(jnp.asarray(self.adjacency(site), site.raw.dtype))

    def propagate(self, slope: Any, trace: Any) -> Any:
        """The trace (colours, *y) one step on, where u' depends on u by the diagonal `slope` (*y)."""
        return slope * trace

    @abstractmethod
    def solve(self, site: Site, delta: Any, trace: Any) -> Any:
        """The gradient (*raw) from δ (*y) and the trace (colours, *y)."""


_OPERATIONS: dict[str, AbstractOperation] = {}


def register(primitive: Any, operation: Any) -> None:
    """Makes an `AbstractOperation` known by the name of its primitive in JAX.

    Its rules are held against the derivative of the primitive where a trace first takes them. Raises DeclarationError
    where the name is taken or none, or the operation is none.
    """
    if not isinstance(primitive, str):
        raise DeclarationError(f"register takes the name of a primitive, its `.name`, got {primitive!r}.")
    if not isinstance(operation, AbstractOperation):
        raise DeclarationError(f"register takes an operation, made of AbstractOperation, got {operation!r}.")
    if primitive in _OPERATIONS:
        raise DeclarationError(
            f"`{primitive}` is registered already, as {_OPERATIONS[primitive]!r}. Withdraw it first: "
            f"traces.withdraw({primitive!r})."
        )
    _OPERATIONS[primitive] = operation


def withdraw(primitive: str) -> None:
    """Forgets an operation."""
    _OPERATIONS.pop(primitive, None)


def find(primitive: str) -> AbstractOperation | None:
    """The operation of a primitive, None where it is not known."""
    return _OPERATIONS.get(primitive)


def names() -> tuple[str, ...]:
    """All primitives whose operations are known."""
    return tuple(sorted(_OPERATIONS))
