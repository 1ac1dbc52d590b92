"""Derived views: values computed at every point before the rule that reads them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._losses import takes
from ..errors import DeclarationError, PlanningError
from ..grid import Grid
from ..region import Layout
from ._offsets import Shift
from ._view import AbstractView, AbstractWorld, Exact


class AbstractOperation(ABC):
    """A function of all values of a view at once: along lines, or over the whole grid. Static and hashable.

    `signs` are those with which values repeat across the ends of each periodic axis: 1, −1 beside anti-periodic
    conditions, 0 for neither.
    """

    @property
    def crosses(self) -> tuple[int, ...]:
        """The axes, by position, across whose ends it takes values as they repeat."""
        return ()

    @abstractmethod
    def operands(self, grid: Grid, layout: Layout, signs: tuple[int, ...]) -> dict[str, Any]:
        """The arrays that `apply` needs, by name, for values on the points of a layout that repeat with `signs`."""

    @abstractmethod
    def apply(self, values: jax.Array, operands: Mapping[str, jax.Array]) -> jax.Array:
        """The result at every point, from the values at every point; both have the layout's space shape."""

    def signs(self, given: tuple[int, ...]) -> tuple[int, ...]:
        """The signs with which the result repeats, of values that repeat with those given."""
        return given

    def exact(self, function: Exact, world: AbstractWorld) -> Exact:
        """What the operation tends to as the grid is refined, of a function of the coordinates."""
        raise PlanningError(f"{self!r} has no exact counterpart, so that the differential equation is not known.")


@dataclass(frozen=True, eq=False, repr=False)
class Derived(AbstractView):
    """A view computed at every point of its own place first; with an operation, its result on those values."""

    view: AbstractView
    number: int
    operation: AbstractOperation | None

    @property
    def context(self) -> Any:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        return self.context.read_derived(self, shift)

    def exact(self, world: AbstractWorld) -> Exact:
        inner = self.view.exact(world)
        return inner if self.operation is None else self.operation.exact(inner, world)

    def parity(self, axis: str) -> int | None:
        return self.view.parity(axis)

    def sources(self) -> frozenset[str]:
        if self.operation is None:
            return self.view.sources()
        return frozenset({self.context.name_derived(self, 0)})

    def __repr__(self) -> str:
        return f"stored({self.view})" if self.operation is None else f"{self.operation}({self.view})"


def stored(view: Any) -> AbstractView:
    """The same view, its values computed once at every point of its own place before the rule that reads it.

    Worth it for what is dear and read more than once: a numerical flux, which both neighbours of a face read. The
    result is the same but for rounding. `flux = fd.stored(flux); derivative(flux, "x")`.
    """
    return operate(view, None)


def operate(view: Any, operation: AbstractOperation | None) -> AbstractView:
    """The result of an operation on all values of a view, as a view."""
    if not isinstance(view, AbstractView):
        raise DeclarationError(
            f"`fd.stored` and operations on whole fields take a view (a field's name among the rule's arguments, or "
            f"arithmetic on such), got {type(view).__name__}."
        )
    if isinstance(view, Derived) and operation is None:
        return view
    number = view.context.register(view, operation)
    return Derived(view, number, operation)


@dataclass(frozen=True)
class Reduction(AbstractOperation):
    """One number from all values along some space axes (by position), found at every point along them."""

    function: Any
    axes: tuple[int, ...]

    def operands(self, grid: Grid, layout: Layout, signs: tuple[int, ...]) -> dict[str, Any]:
        return {}

    def signs(self, given: tuple[int, ...]) -> tuple[int, ...]:
        """Along the axes that it keeps: of an odd or even function, told by some values."""
        if all(sign == 1 for sign in given):
            return given
        values = np.random.default_rng(0).uniform(-1.5, 1.5, (3,) * len(given))
        with jax.ensure_compile_time_eval():  # rules are being traced
            plain, turned = (
                np.asarray(self.function(jnp.asarray(sign * values), axis=self.axes, keepdims=True)) for sign in (1, -1)
            )
        parity = next((sign for sign in (1, -1) if np.allclose(turned, sign * plain)), 0)
        known = {1: 1, -1: parity, 0: 0}
        return tuple(1 if axis in self.axes else known[sign] for axis, sign in enumerate(given))

    def apply(self, values: jax.Array, operands: Mapping[str, jax.Array]) -> jax.Array:
        result = self.function(values, axis=self.axes, keepdims=True)
        return jnp.broadcast_to(result, values.shape)

    def __repr__(self) -> str:
        return f"reduce {getattr(self.function, '__name__', 'function')}"


def reduce(function: Any, view: Any, axis: Any = None) -> AbstractView:
    """A number from all values of a view, such as the largest speed: `fd.reduce(jnp.max, fd.apply(jnp.abs, u))[...]`.

    `function` is one of jnp.max, min, sum, mean, prod, any, all, or another that takes `axis=` and `keepdims=`;
    `axis` is the name of a space axis, or several, default all. It sees the points of the level (in a rate: the stage)
    that the view reads. A field with a hole is refused: it has no values there.
    """
    if not isinstance(view, AbstractView):
        raise DeclarationError(f"`fd.reduce` takes a function and a view, got {type(view).__name__}; write `u`.")
    if not callable(function):
        raise DeclarationError(f"`fd.reduce` takes a function such as jnp.max first, got {function!r}.")
    if not takes(function, 1, "axis", "keepdims"):
        raise DeclarationError(
            f"`fd.reduce` calls its function with axis= and keepdims=, as jnp.max takes them, and "
            f"`{getattr(function, '__name__', function)}` does not. Write one that does: "
            f"def norm(values, axis, keepdims): ..."
        )
    space = view.context.grid.space
    names = space if axis is None else (axis,) if isinstance(axis, str) else axis
    if not isinstance(names, Sequence) or not names or any(name not in space for name in names):
        raise DeclarationError(f"`fd.reduce`: axis= takes names of space axes ({', '.join(space)}), got {axis!r}.")
    return operate(view, Reduction(function, tuple(space.index(name) for name in names)))
