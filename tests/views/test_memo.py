"""What a rule reads at one place more than once is evaluated there once."""

import numpy as np

import fdsolve as fd
from fdsolve.schemes import derivative


def test_beside_a_hole_a_view_is_evaluated_once_a_place() -> None:
    def count(times: int) -> int:
        calls = []
        grid = fd.Grid(t=fd.Time(0.0, 0.01, num=3), x=fd.Axis(0.0, 1.0, num=12), y=fd.Axis(0.0, 1.0, num=9))
        u = fd.Field("u", grid)

        def rates(u):
            square = fd.stored(fd.apply(lambda value: calls.append(1) or value**2, u))
            return sum(square["x+1"] - square["x-1"] for _ in range(times))

        u[...] = fd.rate(rates)
        u[0] = 1.0
        u[dict(x=[0, -1])] = u[:, 4:7, 3:6] = fd.boundary.Neumann(0.0)
        fd.plan(u)
        return len(calls)

    assert count(1) == count(5)


def test_a_coefficient_without_ghost_values_leaves_views_of_fields_that_have_them_stored() -> None:
    def count(slope: bool) -> int:
        calls = []
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.01, num=3), x=fd.Axis(0.0, 1.0, num=12, cells=True)))

        def rates(u, bed):
            square = derivative(fd.stored(fd.apply(lambda value: calls.append(1) or value**2, u)), "x")
            return square + (derivative(bed, "x") if slope else 0.0 * bed)

        u[...] = fd.rate(rates)
        u[0] = 1.0
        u[dict(x=[0, -1])] = fd.boundary.Neumann(0.3)
        fd.plan(u, bed=np.arange(12.0))
        return len(calls)

    assert count(True) == count(False)
