"""The judge of small cases: the equation as slices of NumPy arrays in double precision, level by level."""

from collections.abc import Callable

import numpy as np

from ._cases import Case


def judge(case: Case) -> list[np.ndarray]:
    """The fields after the steps of a case."""
    equation, reach = case.equation, case.equation.reach

    def reader(array: np.ndarray) -> Callable[..., np.ndarray]:
        return lambda *by: array[tuple(slice(reach + k, n - reach + k) for k, n in zip(by, case.shape, strict=True))]

    now = [array.astype(np.float64) for array in case.initial()]
    older = [array.copy() for array in now]
    coefficients = [array.astype(np.float64) for array in case.coefficients()]
    inner = (slice(reach, -reach),) * equation.rank
    for _ in range(case.steps):
        read = [*now, *(older if equation.two_levels else ()), *coefficients]
        new = [array.copy() for array in now]
        for array, value in zip(new, equation.step(*(reader(array) for array in read)), strict=True):
            array[inner] = value
        now, older = new, now
    return now
