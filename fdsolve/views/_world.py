"""The exact counterparts of views: functions of the coordinates."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

Exact = Callable[[tuple[Any, ...]], Any]
"""A quantity as a function of the coordinates, one scalar an axis in grid order, time included."""


class AbstractWorld(ABC):
    """What the exact counterparts of views are made of, where a declaration is looked at as differential equations."""

    @abstractmethod
    def field(self, name: str) -> Exact:
        """The exact solution for a field."""

    @abstractmethod
    def parameter(self, name: str) -> Exact:
        """A parameter labelled by axes."""

    @abstractmethod
    def coordinate(self, axis: str) -> Exact:
        """The coordinate of an axis."""

    @abstractmethod
    def measure(self, axis: str, name: str) -> Exact:
        """A geometric quantity of a curvilinear axis: see `Axis.measure`."""

    @abstractmethod
    def derivative(self, function: Exact, axis: str, n: int = 1) -> Exact:
        """∂ⁿ/∂axisⁿ of a function of the coordinates."""
