"""Preconditioners of Krylov methods: the diagonal, lines."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from ..errors import DeclarationError
from ._base import LinearSystem, SystemOutline
from ._matrix import Vector
from ._smoothers import Lined, inverse_diagonal, line_diagonals, solve_lines, solve_points


class AbstractPreconditioner(ABC):
    """A quick approximation of A⁻¹."""

    @abstractmethod
    def refuse(self, outline: SystemOutline) -> str | None:
        """Why it does not serve such systems; None if it does."""

    @abstractmethod
    def prepare(self, system: LinearSystem) -> Any:
        """Arrays made once for a matrix, a pytree."""

    @abstractmethod
    def precondition(self, system: LinearSystem, prepared: Any, right: Vector) -> Vector:
        """An approximation of A⁻¹ `right`, linear in it; zero at points that are not unknown."""


@dataclass(frozen=True)
class Diagonal(AbstractPreconditioner):
    """1 over the diagonal; of several fields on one shape, the inverse of the block at each point."""

    def refuse(self, outline: SystemOutline) -> str | None:
        """It needs entries."""
        return None if outline.layout is not None else _NO_ENTRIES

    def prepare(self, system: LinearSystem) -> Any:
        """The inverse."""
        matrix = system.matrix
        assert matrix is not None
        if len(set(matrix.layout.shapes)) == 1:
            return inverse_diagonal(matrix)
        whole = matrix.diagonal()
        inverse = {name: jnp.where(d == 0, 0, 1 / jnp.where(d == 0, 1, d)) for name, d in whole.items()}
        return {(name, name): jnp.where(matrix.free[name], inverse[name], 0) for name in inverse}

    def precondition(self, system: LinearSystem, prepared: Any, right: Vector) -> Vector:
        """D⁻¹ r."""
        return solve_points(prepared, right)


@dataclass(frozen=True)
class Lines(AbstractPreconditioner):
    """Tridiagonal solves of all lines along an axis, by name or position: for coefficients much larger along it."""

    axis: str | int

    def __post_init__(self) -> None:
        if not isinstance(self.axis, str | int) or isinstance(self.axis, bool):
            raise DeclarationError(f"Lines: the axis is a name or a position, not {self.axis!r}; write Lines('x').")

    def refuse(self, outline: SystemOutline) -> str | None:
        """It serves one field whose rows reach one point along the axis."""
        if outline.layout is None:
            return _NO_ENTRIES
        place = self._place(outline)
        if place is None:
            return f"Lines({self.axis!r}): there is no such axis; axes: {', '.join(outline.axes)}"
        return Lined((place,)).refuse(outline.layout)

    def prepare(self, system: LinearSystem) -> Any:
        """The lines' diagonals."""
        place = self._place(system.outline)
        assert system.matrix is not None and place is not None
        return line_diagonals(system.matrix, place)

    def precondition(self, system: LinearSystem, prepared: Any, right: Vector) -> Vector:
        """T⁻¹ r, T being A without what couples lines."""
        place = self._place(system.outline)
        assert place is not None
        return {name: solve_lines(prepared, array, place) for name, array in right.items()}

    def _place(self, outline: SystemOutline) -> int | None:
        count = len(outline.axes)
        if isinstance(self.axis, str):
            return outline.axes.index(self.axis) if self.axis in outline.axes else None
        return self.axis % count if -count <= self.axis < count else None


_NO_ENTRIES = "equations read points anywhere (global operations), so there are no entries to precondition with"
