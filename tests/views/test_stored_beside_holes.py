"""What is stored of views beside holes: the same as evaluated where it is read, once for both points of a face."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Neumann, Robin
from fdsolve.schemes import TVD, Euler, conservation, derivative, laplacian

SHAPE = 11, 9
BLOCKS, BAR, ENDS = (np.zeros(SHAPE, bool) for _ in range(3))
BLOCKS[2:5, 2:4] = BLOCKS[4:8, 5:7] = BLOCKS[6, 2] = True
BAR[5, 1:7] = True
ENDS[[0, 1, -1], 3:6] = True

Keep = Callable[[Any], Any]


def nested(keep: Keep, u: Any) -> Any:
    square = keep(u * u)
    return (
        derivative(keep(square * derivative(u, "x")), "x")
        + derivative(keep(derivative(square, "y")), "y")
        - 0.1 * square
    )


def wide(keep: Keep, u: Any) -> Any:
    return derivative(keep(derivative(u, "x")), "x", order=4) + derivative(keep(u * u), "y", order=4)


def diagonal(keep: Keep, u: Any) -> Any:
    return laplacian(u) + u * keep(derivative(derivative(u, "x"), "y"))


def solved(
    rule: Any, keep: Keep, hole: np.ndarray, condition: Any, kernel: str = "slices", tracer: bool = False
) -> Any:
    x = fd.Axis(0.0, 1.0, num=SHAPE[0], periodic=True)
    grid = fd.Grid(t=fd.Time(0.0, 2e-3, num=3), x=x, y=fd.Axis(0.0, 1.0, num=SHAPE[1], cells=True))
    u, c = fd.Field("u", grid), fd.Field("c", grid)
    u[...] = fd.rate(lambda u: rule(keep, u))
    u[0] = lambda x, y: 1.0 + 0.3 * x * (1.0 - x) + 0.2 * y**2
    u[dict(y=[0, -1])] = Neumann(0.1)
    u[hole] = condition
    fields = [u]
    if tracer:  # it has values in the hole of the other
        c[...] = fd.rate(lambda c, u: -c * derivative(keep(u * u), "x"))
        c[0] = 1.0
        fields.append(c)
    final = fd.solve(fields, stepper=Euler(), kernel=kernel, save=fd.final()).final
    return {one.name: np.asarray(final[one.name]) for one in fields}


@pytest.mark.parametrize(("rule", "hole"), [(nested, BLOCKS), (nested, ENDS), (wide, BAR), (diagonal, BLOCKS)])
def test_it_is_the_same_as_evaluated_where_it_is_read(rule: Any, hole: np.ndarray) -> None:
    condition = Robin(1.0, 0.3, 0.2) if rule is nested else Neumann(0.2)
    lazy = solved(rule, lambda view: view, hole, condition)["u"]
    for kernel in ("slices",) if rule is wide else ("slices", "native"):
        stored = solved(rule, fd.stored, hole, condition, kernel)["u"]
        assert np.abs(stored - lazy)[~hole].max() < 1e-13


@pytest.mark.parametrize("hole", [BLOCKS, ENDS])
def test_fields_without_the_hole_see_their_own(hole: np.ndarray) -> None:
    lazy, stored = (solved(nested, keep, hole, Neumann(0.0), "slices", True) for keep in (lambda view: view, fd.stored))
    assert all(np.abs(stored[name] - lazy[name])[~hole].max() < 1e-13 for name in ("u", "c"))
    assert np.abs(stored["c"] - lazy["c"])[hole].max() < 1e-13


def test_rules_beside_holes_read_it() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.01, num=3), x=fd.Axis(0.0, 1.0, num=11, cells=True), y=fd.Axis(0.0, 1.0, num=9))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: conservation((lambda u: u * u, lambda u: u**3), u, reconstruction=TVD()))
    u[0] = 1.0
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = u[BLOCKS] = Neumann(0.0)
    structure = fd.plan(u).structure
    assert len({structure.rules[piece.rule] for piece in structure.phases[-1].rates}) == 1
