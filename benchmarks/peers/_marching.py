"""What contestants that march in place have in common: two levels of each field, which change places each step."""

from abc import ABC, abstractmethod

import numpy as np

from ._cases import Case


class Marching(ABC):
    """The arrays of a case. `advance` takes an even number of steps, after which `now` holds the newest level."""

    label: str

    def __init__(self, case: Case) -> None:
        self.case = case
        self.coefficients = case.coefficients()
        self.now = case.initial()
        self.other = case.initial()

    @abstractmethod
    def advance(self, steps: int) -> None:
        """Marches on from the arrays as they are."""

    def answer(self) -> list[np.ndarray]:
        """The fields after the steps of the case, from its initial state."""
        for arrays in (self.now, self.other):
            for array, start in zip(arrays, self.case.initial(), strict=True):
                array[...] = start
        self.advance(self.case.steps)
        return self.now

    def run(self) -> None:
        """What is timed: the steps of the case, from wherever the last run ended."""
        self.advance(self.case.steps)
