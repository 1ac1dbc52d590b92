"""Several turns of a level after each other, before those of the next one: whether rings hold what is read by then."""

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels.native._march import layout_of
from fdsolve.kernels.native._schedule import TOGETHER, make_schedule
from fdsolve.schemes import RK4, laplacian

from .native_cases import Case, case_of
from .test_native_adjoints import axis, grid

STEPS = 9
Place = tuple[str, int, int]
"""An array, a level and a row."""


def _begin(x: Any, y: Any) -> Any:
    return jnp.sin(7 * x * y) + x


def _heat(**around: bool) -> Case:
    u = fd.Field("u", grid(STEPS, 1e-4, x=axis(23, **around), y=axis(9)))
    u[...] = lambda u, m: u["t-1"] + m[...] * laplacian(u, at="t-1")
    u[0] = _begin
    if not around:
        u[dict(x=[0, -1])] = fd.boundary.Robin(1.0, 0.2, 0.3)
    u[dict(y=[0, -1])] = fd.boundary.Neumann(0.5)
    return case_of(u, m=np.random.default_rng(0).uniform(1e-5, 2e-5, (23, 9)))


def _wave() -> Case:
    u = fd.Field("u", grid(STEPS, 1e-2, x=axis(23), y=axis(9)))
    u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian(u, at="t-1")
    u[[0, 1]] = _begin
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.1
    return case_of(u, c=0.7)


def _within_a_level() -> Case:
    """v reads neighbours of u at its own level."""
    sizes = grid(STEPS, 1e-4, x=axis(23), y=axis(9))
    u, v = fd.Field("u", sizes), fd.Field("v", sizes)
    u[...] = lambda u, v, dt: u["t-1"] + dt * (laplacian(u, at="t-1") + v["t-1"])
    v[...] = lambda u, v, dt: v["t-1"] + dt * (u["t", "x+1"] - u["t", "x-1"]) * v["t-1"]
    for one in (u, v):
        one[0] = _begin
        one[dict(x=[0, -1])] = one[dict(y=[0, -1])] = 0.1
    return case_of([u, v])


def _stages() -> Case:
    u = fd.Field("u", grid(STEPS, 1e-4, x=axis(23), y=axis(9)))
    u[...] = fd.rate(lambda u, k: k * laplacian(u))
    u[0] = _begin
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.1
    return case_of(u, k=0.3, stepper=RK4())


def _rows_alone() -> Case:
    """No level reads the rows beside."""
    u = fd.Field("u", grid(STEPS, 1e-4, x=axis(23), y=axis(9)))
    u[...] = lambda u, dt: u["t-1"] + dt * (u["t-1", "y+1"] - 2 * u["t-1"] + u["t-1", "y-1"])
    u[0] = _begin
    u[dict(y=[0, -1])] = 0.1
    return case_of(u)


CASES: dict[str, Callable[[], Case]] = {
    "heat": _heat,
    "heat around": lambda: _heat(periodic=True),
    "wave": _wave,
    "one field by the other": _within_a_level,
    "stages": _stages,
    "rows alone": _rows_alone,
}


def _missed(program: Any, schedule: Any, together: int) -> Iterator[Place]:
    """Rows that are read when they were not computed yet, or are written over already, by the definition."""
    size, held = max(one.shape[0] for one in program.arrays), dict[Place, int]()
    written = {(one.array, row) for one in program.operations for row in range(one.box.start[0], one.box.stop[0])}
    last = size + max(schedule.delays) + schedule.skew * STEPS
    for begin in range(-2 * size, last, together):
        for level in range(1, STEPS + 1):
            for turn in range(begin, begin + together):
                for delay, operation in zip(schedule.delays, program.operations, strict=True):
                    row = turn - delay - schedule.skew * (level - 1)
                    if not operation.box.start[0] <= row < operation.box.stop[0]:
                        continue
                    for read in operation.reads:
                        there, of = row + read.offset[0], level + read.level
                        if of < 1 or (read.field, there) not in written:
                            continue
                        if held.get((read.field, of, there % schedule.rings[read.field])) != there:
                            yield read.field, of, there
                    held[operation.array, level, row % schedule.rings[operation.array]] = row


@pytest.mark.parametrize("name", CASES)
def test_rings_hold_what_is_read(name: str) -> None:
    program = layout_of(CASES[name]().call).program
    schedule = make_schedule(program)
    assert schedule.together == (TOGETHER if schedule.skew == 1 else 1)
    assert not list(_missed(program, schedule, schedule.together))


def test_rows_that_read_none_beside_have_rings_of_one() -> None:
    """As a line is, which is a single row: several would be memory that nothing reads."""
    assert make_schedule(layout_of(_rows_alone().call).program).rings == {"u": 1}


def test_rings_of_one_turn_do_not_hold_what_several_read() -> None:
    """So that the test above can fail."""
    program = layout_of(_heat().call).program
    assert list(_missed(program, make_schedule(program), 4 * TOGETHER))
