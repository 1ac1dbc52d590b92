"""What the names in a rule mean: fields, axes, spacings, the time, parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..grid import Grid
from ..region import Layout
from ..views import AbstractView


@dataclass(frozen=True)
class Labelled:
    """A parameter read like a field: an array over some of the grid's axes."""

    axes: tuple[str, ...]
    faces: frozenset[str]
    dtype: Any


@dataclass(frozen=True)
class WholeArray:
    """A parameter that arrives whole: a scalar, or an array that no axis labels.

    Random keys, of the kind `keys`, are carried as the numbers that they consist of.
    """

    shape: tuple[int, ...]
    dtype: Any
    keys: Any = None


@dataclass(frozen=True, eq=False)
class Static:
    """A parameter that is no array (an integer, a flag, a function): rules see it itself."""

    value: Any


@dataclass(frozen=True, eq=False)
class Scope:
    """The names a rule can ask for. `real` is the dtype of coordinates; `used` collects parameters asked for.

    `even` lists, by field, the ends of curvilinear axes (axis and whether it is the upper one) all along which the
    field continues as its even mirror image.
    """

    grid: Grid
    layouts: dict[str, Layout]
    dtypes: dict[str, Any]
    parameters: dict[str, Labelled | WholeArray | Static]
    real: np.dtype
    used: set[str] = field(default_factory=set)
    even: Mapping[str, frozenset[tuple[str, bool]]] = field(default_factory=dict)

    def is_even(self, view: AbstractView | None, axis: str, upper: bool) -> bool:
        """Whether all fields that a view is made of are even mirror images beyond an end of an axis."""
        if view is None or not any(self.even.values()):
            return False
        fields = view.sources() & self.layouts.keys()
        return bool(fields) and all((axis, upper) in self.even.get(name, frozenset()) for name in fields)

    def describe_known(self) -> str:
        """The known names, for messages."""
        groups = [
            ("fields", list(self.layouts)),
            ("axes", list(self.grid.names)),
            ("spacings", [f"d{name}" for name in self.grid.names]),
            ("parameters", list(self.parameters)),
        ]
        return "; ".join(f"{title}: {', '.join(names)}" for title, names in groups if names)
