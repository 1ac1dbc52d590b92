"""numba: a parallel loop over rows, a sweep a step, fast mathematics."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from ._cases import Case
from ._marching import Marching
from ._text import Text

SOURCE = """
@numba.njit(parallel=True, fastmath=True)
def march(steps, {arrays}):
    for s in range(steps // 2):
{there}
{back}
"""


class Numba(Marching):
    """The compiled march of a case."""

    label = "numba"

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        known: dict[str, Any] = {"numba": numba, "real": np.dtype(case.dtype).type, "place": np.uint64}
        known |= {f"by{k}": np.uint64(k) for k in range(1, case.equation.reach + 1)}
        exec(compile(make_source(case), "<numba march>", "exec"), known)
        self._march = known["march"]

    def advance(self, steps: int) -> None:
        """Steps in place."""
        self._march(steps, *self.now, *self.other, *self.coefficients)


def make_source(case: Case) -> str:
    """The Python source of a case: `march(steps, fields, their other level, coefficients)`.

    One inner loop for each field, since two stores in one loop lose SIMD; and unsigned indices, since signed ones may
    count from the end.
    """
    equation = case.equation
    fields, others = list(equation.fields), [f"{f}_other" for f in equation.fields]
    coefficients = [f"c{k}" for k in range(equation.num_coefficients)]

    def sweep(now: list[str], new: list[str]) -> str:
        read = [_reader(name) for name in (*now, *(new if equation.two_levels else ()), *coefficients)]
        lines, rank, reach = [], equation.rank, equation.reach
        for axis in range(rank - 1):
            loop = "numba.prange" if axis == 0 else "range"
            indent = "    " * (axis + 2)
            lines.append(f"{indent}for k{axis} in {loop}({reach}, {now[0]}.shape[{axis}] - {reach}):")
            lines.append(f"{indent}    i{axis} = place(k{axis})")
        indent, index = "    " * (rank + 1), ", ".join(f"i{k}" for k in range(rank))
        for target, rule in zip(new, equation.step(*read), strict=True):
            lines.append(f"{indent}for k{rank - 1} in range({reach}, {now[0]}.shape[{rank - 1}] - {reach}):")
            lines.append(f"{indent}    i{rank - 1} = place(k{rank - 1})")
            lines.append(f"{indent}    {target}[{index}] = {rule.source}")
        return "\n".join(lines)

    arrays = ", ".join([*fields, *others, *coefficients])
    return SOURCE.format(arrays=arrays, there=sweep(fields, others), back=sweep(others, fields))


def _reader(name: str) -> Callable[..., Text]:
    return lambda *by: Text(f"{name}[{', '.join(_index(axis, step) for axis, step in enumerate(by))}]")


def _index(axis: int, step: int) -> str:
    return f"i{axis}" if step == 0 else f"i{axis} {'-' if step < 0 else '+'} by{abs(step)}"
