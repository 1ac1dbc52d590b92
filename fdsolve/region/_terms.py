"""What a region key means on one field: disjoint terms, each some levels × some points."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._box import Box
from ._layout import Layout
from ._points import Points


@dataclass(frozen=True, eq=False)
class Predicate:
    """A run-time condition: a function of coordinates, time and parameters, or a combination of such conditions."""

    function: Callable[..., Any] | None = None
    operator: str = "leaf"
    parts: tuple["Predicate", ...] = ()

    def __invert__(self) -> "Predicate":
        return self.parts[0] if self.operator == "not" else Predicate(operator="not", parts=(self,))

    def __and__(self, other: "Predicate | None") -> "Predicate":
        return self if other is None else Predicate(operator="and", parts=(self, other))

    @property
    def leaves(self) -> tuple["Predicate", ...]:
        """The functions this condition is made of."""
        return (self,) if self.operator == "leaf" else tuple(leaf for part in self.parts for leaf in part.leaves)


@dataclass(frozen=True, eq=False)
class Term:
    """Points × levels: `levels` is a boolean array over the time levels; `predicate` restricts at run time."""

    levels: np.ndarray
    points: Points
    predicate: Predicate | None = None


@dataclass(frozen=True, eq=False)
class Terms:
    """A region resolved on a layout: disjoint terms."""

    layout: Layout
    terms: tuple[Term, ...]

    @classmethod
    def everything(cls, layout: Layout) -> "Terms":
        levels = np.ones(layout.num_levels, bool)
        return cls(layout, (Term(levels, Points.of_box(Box.of_shape(layout.space_shape))),))

    def intersect(self, other: "Terms") -> "Terms":
        found = []
        for a in self.terms:
            for b in other.terms:
                levels, points = a.levels & b.levels, a.points.intersect(b.points)
                if levels.any() and not points.empty:
                    predicate = b.predicate if a.predicate is None else a.predicate & b.predicate
                    found.append(Term(levels, points, predicate))
        return Terms(self.layout, tuple(found))

    def complement(self) -> "Terms":
        result = Terms.everything(self.layout)
        whole = Points.of_box(Box.of_shape(self.layout.space_shape))
        for term in self.terms:
            outside = [Term(~term.levels, whole), Term(term.levels, whole.subtract(term.points))]
            if term.predicate is not None:
                outside.append(Term(term.levels, term.points, ~term.predicate))
            kept = tuple(item for item in outside if item.levels.any() and not item.points.empty)
            result = result.intersect(Terms(self.layout, kept))
        return result

    def union(self, other: "Terms") -> "Terms":
        return Terms(self.layout, (*self.terms, *other.intersect(self.complement()).terms))

    @property
    def empty(self) -> bool:
        return not self.terms
