"""What a solver of linear systems on a grid is: static data, all arrays are handed to it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ._matrix import MatrixLayout, StencilMatrix, Vector
from ._parts import Parts

Apply = Callable[[Vector], Vector]

HISTORY = 64
"""Residual norms that a report keeps: of the first iterations, the last one in the last place."""


class Report(NamedTuple):
    """How a solve went, as arrays (cotangents of whole numbers among them have no numbers).

    `iterations`; `residual`, ‖b − A x‖/‖b‖ (for nonlinear systems ‖F‖ over ‖F‖ at the start); `converged`; `history`
    (HISTORY,), the residual after each iteration, nan where there was none; `defect`, for singular systems, the
    relative part of b that no x can give.
    """

    iterations: Any
    residual: Any
    converged: Any
    history: Any
    defect: Any = 0.0


@dataclass(frozen=True)
class Side:
    """What holds at one end of an axis: "periodic", "value" (Dirichlet), "slope" (Neumann) or "other"; `on_point`
    says that a point of the field lies on the wall."""

    kind: str
    on_point: bool


@dataclass(frozen=True)
class SystemOutline:
    """What is known of a linear system when it is planned.

    `layout` is None where a row can depend on points anywhere (global operations). `constant` says that all unknown
    points have the same rule, affine with constant weights; `varies`, along which axes the weights do, `mirrors`,
    along which they are the same both ways (empty: not told); `axes` the names of axes; `sides` by axis, (low,
    high); `holes`, whether some points are cut out; `uniform`, whether each axis is; `may_float`, whether nothing
    fixes the solution's mean; `parts`, how the unknown values are parts of complex fields, where they are; `masked`, a
    rule under a run-time predicate that sets values among the unknown ones ("" for none).
    """

    layout: MatrixLayout | None
    constant: bool
    axes: tuple[str, ...]
    sides: tuple[tuple[Side, Side], ...]
    holes: bool
    uniform: tuple[bool, ...]
    may_float: bool
    complex: bool
    varies: tuple[bool, ...] = ()
    mirrors: tuple[bool, ...] = ()
    parts: Parts | None = None
    masked: str = ""


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """A x = b on the unknown points: `apply` is A; `matrix` its entries, None where `outline.layout` is None.

    At points that are not unknown, `apply` is the identity, b is zero, and so is x.
    """

    outline: SystemOutline
    apply: Apply
    matrix: StencilMatrix | None


class AbstractLinearSolver(ABC):
    """A method for A x = b."""

    @abstractmethod
    def refuse(self, outline: SystemOutline) -> str | None:
        """Why the method does not serve such systems; None if it does."""

    def prepare(self, system: LinearSystem) -> Any:
        """Arrays made once for a matrix (factors, coarse grids), a pytree."""
        return None

    @abstractmethod
    def solve(self, system: LinearSystem, prepared: Any, rhs: Vector, guess: Vector) -> tuple[Vector, Report]:
        """x with A x = `rhs`, from a first guess."""

    def describe(self) -> str:
        """What the plan prints."""
        return repr(self)


def direct_report(system: LinearSystem, rhs: Vector, x: Vector, tolerance: float | jax.Array) -> Report:
    """The report of a method without iterations: how large the residual is."""
    residual = relative_residual(system, rhs, x)
    history = jnp.full((HISTORY,), jnp.nan, residual.dtype).at[0].set(residual)
    return Report(jnp.asarray(1), residual, residual <= tolerance, history)


def relative_residual(system: LinearSystem, rhs: Vector, x: Vector) -> jax.Array:
    """‖b − A x‖/‖b‖; ‖A x‖ where b is zero."""
    product = system.apply(x)
    top = sum(jnp.sum(jnp.abs(rhs[n] - product[n]) ** 2) for n in rhs)
    bottom = sum(jnp.sum(jnp.abs(rhs[n]) ** 2) for n in rhs)
    return jnp.sqrt(top) / jnp.sqrt(jnp.where(bottom > 0, bottom, jnp.ones_like(bottom)))
