"""Complex unknowns as two real ones: systems that are linear over the real numbers only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import lax
from jax.tree_util import Partial

from ._matrix import MatrixLayout, Vector


@dataclass(frozen=True)
class Parts:
    """The real and imaginary parts of complex fields as fields of their own, beside the real fields.

    A map such as x ↦ a x + b x̄ has no complex matrix; of the parts it has a real one. `fields` with their `dtypes`, all
    of one precision.
    """

    fields: tuple[str, ...]
    dtypes: tuple[str, ...]

    def names(self, field: str) -> tuple[str, ...]:
        """What the parts of a field are called: the field itself where it is real."""
        dtype = np.dtype(self.dtypes[self.fields.index(field)])
        return (f"{field}.real", f"{field}.imag") if np.issubdtype(dtype, np.complexfloating) else (field,)

    def split(self, x: Vector) -> Vector:
        """The parts of a vector."""
        found = {}
        for name, one in x.items():
            parts = self.names(name)
            found.update(zip(parts, (one.real, one.imag) if len(parts) == 2 else (one,), strict=True))
        return found

    def join(self, parts: Vector) -> Vector:
        """The vector with these parts."""
        found = {}
        for name in self.fields:
            first, *rest = (parts[part] for part in self.names(name))
            found[name] = lax.complex(first, *rest) if rest else first
        return found

    def of_both(self, by_field: Mapping[str, Any]) -> dict[str, Any]:
        """What holds for fields, for their parts."""
        return {part: one for name, one in by_field.items() for part in self.names(name)}

    def through(self, function: Callable[[Vector], Vector]) -> Callable[[Vector], Vector]:
        """A function of vectors as one of their parts; what JAX's derivatives hold stays within its reach."""
        if isinstance(function, Partial):
            return Partial(self._of_parts, function)
        return lambda parts: self._of_parts(function, parts)

    def _of_parts(self, function: Callable[[Vector], Vector], parts: Vector) -> Vector:
        return self.split(function(self.join(parts)))

    def layout(self, layout: MatrixLayout) -> MatrixLayout:
        """The layout of the matrix of the parts: every part of a row may read every part of a column."""
        fields = tuple(part for name in layout.fields for part in self.names(name))
        shapes = tuple(
            shape for name, shape in zip(layout.fields, layout.shapes, strict=True) for _ in self.names(name)
        )
        blocks = tuple(
            (row, column, offsets)
            for above, beside, offsets in layout.blocks
            for row in self.names(above)
            for column in self.names(beside)
        )
        real = np.dtype(np.finfo(layout.dtype).dtype).str
        return MatrixLayout(fields, shapes, layout.wraps, blocks, real)
