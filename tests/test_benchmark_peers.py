"""What the benchmarks compare is one problem: every contestant gives the numbers of the NumPy judge."""

import shutil
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks.peers._cases import PROBLEMS, Case
from benchmarks.peers._equations import AbstractEquation
from benchmarks.peers._judge import judge
from benchmarks.peers._openmp import COMPILER, OpenMP
from benchmarks.peers._ours import solve

COMPILED = [name for name, (equation, _) in PROBLEMS.items() if equation.rank > 1 and shutil.which(COMPILER)]
BY_NUMBA = ["gray_scott", "acoustic3d_4"] if find_spec("numba") else []


def small(problem: str, dtype: str = "float64") -> Case:
    """A case of a few points inside the frame and four steps."""
    equation: AbstractEquation = PROBLEMS[problem][0]
    num = 2 * equation.reach + 9
    return Case(problem, num, dtype, 4 * num**equation.rank)


def check(case: Case, found: list[Any]) -> None:
    """Against the judge, and that the fields moved."""
    expected = judge(case)
    assert case.steps == 4 and len(found) == len(expected)
    for array, right, start in zip(found, expected, case.initial(), strict=True):
        assert np.asarray(array).dtype == case.dtype
        np.testing.assert_allclose(array, right, rtol=0, atol=case.tolerance * np.abs(right).max())
        assert np.abs(right - start).max() > 1e-2


@pytest.mark.parametrize("problem", PROBLEMS)
def test_declared_fields_are_the_equation(problem: str) -> None:
    case = small(problem)
    call, arrays = solve(case, "slices")
    check(case, jax.jit(call)(*arrays))


@pytest.mark.parametrize("problem", COMPILED)
def test_c_is_the_equation(problem: str) -> None:
    for dtype in ("float32", "float64"):
        case = small(problem, dtype)
        check(case, OpenMP(case).answer())


@pytest.mark.parametrize("problem", BY_NUMBA)
def test_numba_is_the_equation(problem: str) -> None:
    from benchmarks.peers._numba import Numba

    case = small(problem)
    check(case, Numba(case).answer())


def test_bytes_that_must_move() -> None:
    assert Case("heat2d", 64, "float32").bytes_a_point == 8
    assert Case("heat2d_variable", 64, "float64").bytes_a_point == 24
    assert Case("acoustic3d_8", 64, "float32").bytes_a_point == 16
    assert Case("gray_scott", 64, "float64").bytes_a_point == 32


@pytest.mark.parametrize(
    "wrong", [("heat4d", 64, "float32"), ("heat2d", 64, "float16"), ("acoustic2d_8", 8, "float32")]
)
def test_refuses_cases_that_are_none(wrong: tuple[str, int, str]) -> None:
    with pytest.raises(ValueError, match=r"problems: heat2d|dtype is one of|leave no room"):
        Case(*wrong)
