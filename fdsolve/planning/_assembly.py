"""What makes the matrix of a plan: given to it, as planning computes no arrays."""

from abc import ABC, abstractmethod
from typing import Any


class AbstractAssembly(ABC):
    """Makes the matrix of a plan's residuals or rates."""

    @abstractmethod
    def matrix(self, plan: Any, form: str, at: Any) -> Any:
        """The derivative of all residuals (or rates) by the unknown values, in a sparse format."""

    @abstractmethod
    def unknowns(self, plan: Any) -> Any:
        """The names of its rows."""
