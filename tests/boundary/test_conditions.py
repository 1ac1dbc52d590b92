"""Conditions in whole problems: exactness, mirrors, periodic ends, normals, layers, what the plan tells."""

import re
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import (
    AntiPeriodic,
    Antisymmetric,
    Curvature,
    Dirichlet,
    Extrapolate,
    Neumann,
    Outflow,
    Periodic,
    Robin,
    Sponge,
    Symmetric,
    normal,
)  # fmt: skip
from fdsolve.field import Use
from fdsolve.schemes import Euler, derivative, laplacian

from ..messages import Wrong, declare, undeclared, unplanned
from .lines import AXES, LineWall


def line(rule: Any, grid: fd.Grid | None = None) -> fd.Field:
    """A field on a line with one rule, zero at first."""
    return declare(rule, 0.0, grid)


def probe(axis: fd.Axis, condition: Any, values: Any, order: int = 2, **options: Any) -> np.ndarray:
    """du/dt = u_xx at all points of an axis, by one step of length one from given values."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=2), x=axis)
    u = fd.Field("u", grid, **options)
    u[...] = fd.rate(lambda u: derivative(u, "x", 2, order=order))
    u[0] = np.asarray(values)
    u[dict(x=[0, -1])] = condition
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fd.FdsolveWarning)  # a step of one is far too long, and only one
        history = np.asarray(fd.solve(u, stepper=Euler())["u"])
    return history[1] - history[0]


@pytest.mark.parametrize("place", AXES)
@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("kind", ["Dirichlet", "Neumann", "Robin"])
def test_ghosts_are_exact_for_polynomials(kind: str, order: int, place: str) -> None:
    """Of the degree that the order asks for; order 2 mirrors, which is exact for odd parts or lines."""
    axis, uses = AXES[place](12), list(Use)
    degree = {"Dirichlet": order - 1, "Neumann": order, "Robin": order}[kind] if order > 2 else 1
    random = np.random.default_rng(order)
    for upper in (False, True):
        polynomial = np.polynomial.Polynomial(random.normal(size=degree + 1))
        wall, sign = (axis.upper, 1.0) if upper else (axis.lower, -1.0)
        value, slope = polynomial(wall), sign * polynomial.deriv()(wall)
        condition, data = {
            "Dirichlet": (Dirichlet(0.0, order=order), (value,)),
            "Neumann": (Neumann(0.0, order=order), (slope,)),
            "Robin": (Robin(1.2, 0.7, 0.0, order=order), (1.2, 0.7, 1.2 * value + 0.7 * slope)),
        }[kind]
        for layer in (1, 2, 3):
            seen = LineWall(axis, upper, layer, uses[0])
            place_of_ghost = wall - sign * seen.depths(-layer, 1 - layer)[0]
            whole = condition.ghost(seen, *data)
            inhomogeneous = condition.ghost(seen, *[0.0 if i == len(data) - 1 else c for i, c in enumerate(data)])
            # Values are weights here: what the data add is the same in every entry.
            added = float(np.mean(whole - inhomogeneous))
            assert inhomogeneous @ polynomial(axis.points) + added == pytest.approx(
                polynomial(place_of_ghost), abs=1e-9
            )


def horner(polynomial: Any, x: Any) -> Any:
    """A NumPy polynomial of a traced number."""
    total = 0.0 * x
    for coefficient in polynomial.coef[::-1]:
        total = total * x + float(coefficient)
    return total


@pytest.mark.parametrize("cells", [False, True])
def test_a_solve_sees_the_ghosts_of_the_line(cells: bool) -> None:
    """The planner's walls and the ones of the spectra are the same: u_xx of a quartic, to rounding, up to the walls."""
    points = np.cumsum([0.1, 0.11, 0.13, 0.12, 0.1, 0.09, 0.1, 0.12, 0.1])
    axis = fd.Axis.from_points(points, cells=cells)
    quartic = np.polynomial.Polynomial([0.3, -1.0, 0.7, 0.5, -0.4])
    second = quartic.deriv(2)(points)
    got = probe(axis, Dirichlet(lambda x: horner(quartic, x), order=6), quartic(points), 4)
    np.testing.assert_allclose(got[1:-1], second[1:-1], atol=1e-9)
    slope = quartic.deriv()
    got = probe(axis, Neumann(lambda x, n=normal: n[0] * horner(slope, x), order=6), quartic(points), 4)
    np.testing.assert_allclose(got, second, atol=1e-9)


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize("order", [2, 4])
def test_symmetric_and_antisymmetric_are_halves_of_a_larger_problem(cells: bool, order: int) -> None:
    number = 16 if cells else 17
    half = np.random.default_rng(3).normal(size=number // 2 if cells else 9)
    small = fd.Axis(0.0, 1.0, num=half.size, cells=cells)
    large = fd.Axis(-1.0, 1.0, num=number, cells=cells)
    for condition, sign in ((Symmetric(), 1), (Antisymmetric(), -1)):
        own = half.copy()
        if sign < 0 and not cells:
            own[0] = own[-1] = 0.0
        mirrored = np.concatenate([sign * own[::-1], own if cells else own[1:]])
        small_rate, large_rate = probe(small, condition, own, order), probe(large, condition, mirrored, order)
        np.testing.assert_allclose(small_rate, large_rate[-own.size :], atol=1e-12)


def test_dirichlet_serves_wide_stencils_beside_a_node() -> None:
    values = np.random.default_rng(5).normal(size=8)
    values[[0, -1]] = 1.5, 1.5
    got = probe(fd.Axis(0.0, 7.0, num=8), Dirichlet(1.5), values, 4)
    ghost = 3.0 - values[1]
    wanted = (-ghost + 16 * values[0] - 30 * values[1] + 16 * values[2] - values[3]) / 12
    assert got[1] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_extrapolation_continues_polynomials(order: int) -> None:
    polynomial = np.polynomial.Polynomial(np.random.default_rng(order).normal(size=order))
    axis = AXES["stretched node"](9)
    seen = LineWall(axis, True, 2)
    ghost = Extrapolate(order).ghost(seen) @ polynomial(axis.points)
    assert ghost == pytest.approx(polynomial(axis.upper - seen.depths(-2, -1)[0]), abs=1e-10)


@pytest.mark.parametrize("place", AXES)
@pytest.mark.parametrize("upper", [False, True])
def test_curvature_continues_cubics(place: str, upper: bool) -> None:
    cubic = np.polynomial.Polynomial([0.3, -1.0, 4.0, 0.7])
    axis = AXES[place](9)
    wall, sign = (axis.upper, 1.0) if upper else (axis.lower, -1.0)
    bend = cubic.deriv(2)(wall)
    for layer in (1, 2, 3):
        seen = LineWall(axis, upper, layer)
        # Values are weights here: what the data add is the same in every entry.
        added = float(np.mean(Curvature(0.0).ghost(seen, bend) - Curvature(0.0).ghost(seen, 0.0)))
        ghost = Curvature(0.0).ghost(seen, 0.0) @ cubic(axis.points) + added
        assert ghost == pytest.approx(cubic(wall - sign * seen.depths(-layer, 1 - layer)[0]), abs=1e-10)


@pytest.mark.parametrize("cells", [False, True])
def test_curvature_is_found_again_on_the_wall(cells: bool) -> None:
    axis = fd.Axis(0.0, 2.0, num=6, cells=cells)
    cubic = np.polynomial.Polynomial([0.2, -1.0, 4.0, 0.7])
    got = probe(axis, Curvature(lambda x: 8.0 + 4.2 * x), cubic(axis.points))
    np.testing.assert_allclose(got, cubic.deriv(2)(axis.points), atol=1e-9)


def test_curvature_is_the_bending_moment_of_a_beam() -> None:
    """w⁗ = 0 between two hinges, bent by moments at both: a parabola."""
    w = fd.Field("w", fd.Grid(x=fd.Axis(0.0, 1.0, num=9)))
    w[...] = fd.residual(lambda w: derivative(w, "x", 4))
    w[dict(x=[0, -1])] = 0.0
    w[dict(x=[0, -1])] = Curvature(lambda moment: moment)
    x = np.linspace(0, 1, 9)
    np.testing.assert_allclose(fd.solve(w, moment=3.0)["w"], 1.5 * x * (x - 1), atol=1e-10)


def periodic_history(condition: Any, periodic: bool, waves: float) -> np.ndarray:
    """Diffusion of a wave along x between symmetric walls in y."""
    axis = fd.Axis(0.0, 1.0, num=9, cells=True, periodic=periodic)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=4), x=axis, y=fd.Axis(0.0, 1.0, num=4)))
    u[...] = lambda u, dt: u["t-1"] + 0.05 * dt * laplacian(u, order=4, at="t-1") + dt * u["t-1", "x-1", "y-1"]
    u[0] = lambda x, y: jnp.sin(waves * jnp.pi * x + 0.3) * (1 + y)
    u[dict(y=[0, -1])] = Symmetric()
    if condition is not None:
        u[dict(x=[0, -1])] = condition
    return np.asarray(fd.solve(u)["u"])


def test_periodic_walls_are_a_periodic_axis() -> None:
    np.testing.assert_allclose(
        periodic_history(Periodic(), False, 2.0), periodic_history(None, True, 2.0), rtol=0, atol=1e-14
    )


def test_antiperiodic_fields_repeat_with_the_opposite_sign() -> None:
    walled = periodic_history(AntiPeriodic(), False, 1.0)
    np.testing.assert_allclose(walled, periodic_history(Periodic(sign=-1), True, 1.0), rtol=0, atol=1e-14)
    assert np.abs(walled - periodic_history(Periodic(), False, 1.0)).max() > 1e-3


def test_the_normal_points_outwards_on_walls_and_holes() -> None:
    """A linear function stays as it is when its flux through every wall and hole is the normal part of its gradient."""
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=4), x=fd.Axis(0.0, 1.0, num=9), y=fd.Axis(0.0, 1.0, num=8, cells=True))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: 0.1 * laplacian(u))
    u[0] = lambda x, y: 2.0 * x - 3.0 * y
    flux = Neumann(lambda n=normal: 2.0 * n[0] - 3.0 * n[1])
    u[dict(x=[0, -1])] = flux
    u[dict(y=[0, -1])] = flux
    u[:, 3:5, 3:6] = flux
    history = np.asarray(fd.solve(u)["u"])
    assert np.isnan(history).sum() > 0
    keep = ~np.isnan(history[-1])
    np.testing.assert_allclose(history[-1][keep], history[0][keep], atol=1e-12)


def test_values_on_nodes_know_their_wall() -> None:
    u = line(lambda u: u["t-1"])
    u[dict(x=[0, -1])] = Dirichlet(lambda t, n=normal: n[0] * t)
    assert np.asarray(fd.solve(u)["u"])[-1, [0, -1]].tolist() == [-1.0, 1.0]


def test_fields_together_take_one_condition() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=5))
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    fd.together(u, v)[...] = fd.rate(lambda u, v: (-0.1 * u, 0.01 * laplacian(u) - 0.1 * v))
    fd.together(u, v)[0] = 0.0, 1.0
    fd.together(u, v)[dict(x=[0, -1])] = Dirichlet(2.0)
    solution = fd.solve((u, v), stepper=Euler())
    assert np.asarray(solution["u"])[1:, [0, -1]].tolist() == np.asarray(solution["v"])[1:, [0, -1]].tolist()
    assert np.asarray(solution["v"])[1:, 0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("rate", [False, True])
def test_a_sponge_decays_towards_its_target(rate: bool) -> None:
    """Exponentially, at the sum of the strengths in a corner, and not outside the layers."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=41), x=fd.Axis(0.0, 1.0, num=11), y=fd.Axis(0.0, 1.0, num=8, cells=True))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: 0.0 * u) if rate else (lambda u: u["t-1"])
    u[0] = 1.0
    u[dict(x=[0, -1])] = Sponge(0.35, 3.0, 0.25, power=3)
    u[dict(y=0)] = Sponge(0.5, lambda x, s: s + x, 0.25)
    got = np.asarray(fd.solve(u, s=2.0)["u"][-1])
    x, y = grid.x.points[:, None], grid.y.points[None]
    sigma = 3.0 * np.maximum(1 - np.minimum(x, 1 - x) / 0.35, 0) ** 3 + (2.0 + x) * np.maximum(1 - y / 0.5, 0) ** 2
    np.testing.assert_allclose(got, 0.25 + 0.75 * np.exp(-sigma), atol=1e-7 if rate else 1e-12)


def test_the_plan_shows_the_conditions() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=5), y=fd.Axis(0.0, 1.0, num=4, periodic=True))
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.rate(lambda u: derivative(u, "x", 2, order=4))
    v[...] = fd.rate(lambda u: -u)
    fd.together(u, v)[0] = 0.0, 0.0
    u[dict(x=0)] = Dirichlet(0.0)
    u[dict(x=-1)] = Symmetric()
    u[dict(x=-1)] = Sponge(0.3, 1.0)
    v[:, -1] = 2.0
    text = str(fd.plan((u, v)))
    assert (
        "Boundaries:\n    u: x lower Dirichlet(0.0), x upper Symmetric(), y periodic, Sponge(0.3, 1.0) along x upper\n"
        in text
    )
    assert "    v: x lower none, x upper value 2.0, y periodic\n" in text


@pytest.mark.parametrize("speed, noted", [(1.0, True), (-1.0, False)])
def test_the_plan_notes_an_inflow_without_a_value(speed: float, noted: bool) -> None:
    u = line(fd.rate(lambda u, c: -c * derivative(u, "x", order=2)))
    notes = " ".join(fd.plan(u, c=speed).notes)
    assert ("inflow without a value at the lower end of x" in notes) == noted
    assert ("inflow without a value at the upper end of x" in notes) != noted
    u[dict(x=[0, -1])] = Dirichlet(0.0)
    assert "inflow" not in " ".join(fd.plan(u, c=speed).notes)


def test_the_plan_names_an_order_that_is_lost() -> None:
    def notes(rule: Any, order: int) -> str:
        u = line(rule, fd.Grid(t=fd.Time(0.0, 1.0, num=5), x=fd.Axis(0.0, 1.0, num=12)))
        u[dict(x=[0, -1])] = Dirichlet(0.0, order=order)
        return " ".join(fd.plan(u, c=1.0).notes)

    def heat(u, c):
        return c * derivative(u, "x", 2, order=8)

    def transport(u, c):
        return -c * derivative(u, "x", order=6)

    def wave(u, dt, c):
        return 2 * u["t-1"] + (c * dt) ** 2 * derivative(u, "x", 2, order=8, at="t-1") - u["t-2"]

    assert "unstable" not in notes(fd.rate(heat), 8)
    assert "is of order 4 at the lower wall of x: rules read it as advection, and ghost values of order 6" in notes(
        fd.rate(transport), 6
    )

    u = line(wave, fd.Grid(t=fd.Time(0.0, 1.0, num=5), x=fd.Axis(0.0, 1.0, num=12)))
    u[:2] = 0.0
    u[dict(x=[0, -1])] = Dirichlet(0.0, order=8)
    assert "is of order 6 at the upper wall of x: rules read it as waves" in " ".join(fd.plan(u, c=1.0).notes)


def test_gradients_pass_through_ghosts_of_high_order() -> None:
    def final(a: Any) -> Any:
        u = line(
            fd.rate(lambda u: 0.1 * derivative(u, "x", 2, order=4)),
            fd.Grid(t=fd.Time(0.0, 0.05, num=3), x=fd.Axis(0.0, 1.0, num=9)),
        )
        u[dict(x=0)] = Robin(lambda a: a, 1.0, 0.4, order=4)
        u[dict(x=-1)] = Dirichlet(lambda a: a * a, order=4)
        return fd.solve(u, a=a, save=fd.final())["u"][-1].sum()

    got = float(jax.grad(final)(0.7))
    assert got == pytest.approx(float(final(0.7 + 1e-5) - final(0.7 - 1e-5)) / 2e-5, rel=1e-6)


def with_condition(key: Any, condition: Any, rule: Any = None, grid: fd.Grid | None = None) -> Any:
    """A plan with one condition, to be made."""

    def make() -> None:
        u = line(rule or fd.rate(lambda u: laplacian(u)), grid)
        u[key] = condition
        fd.plan(u)

    return make


CELLS = fd.Grid(t=fd.Time(0.0, 1.0, num=5), x=fd.Axis(0.0, 1.0, num=6, cells=True))
WRONG: dict[str, Wrong] = {
    "odd order": undeclared(
        "Dirichlet(0.0, order=3): order= is an even number of at least 2, got 3.", lambda: Dirichlet(0.0, order=3)
    ),
    "infinite": undeclared(
        "Robin(inf, 1.0, 0.0): a coefficient is a finite number, got inf. For a given value on the wall write "
        "Dirichlet(g), for a given slope Neumann(g).",
        lambda: Robin(np.inf, 1.0, 0.0),
    ),
    "order of extrapolation": undeclared(
        "Extrapolate takes an order, a whole number of at least 1; got 0. It is the number of points the polynomial "
        "goes through.",
        lambda: Extrapolate(0),
    ),
    "sign": undeclared("Periodic: sign= is 1 or -1, got 2.", lambda: Periodic(sign=2)),
    "width": undeclared("Sponge: width= is a positive number, got 0.", lambda: Sponge(0, 1.0)),
    "power": undeclared("Sponge: power= is a number of at least 0, got -1.", lambda: Sponge(1.0, 1.0, power=-1)),
    "a string of a speed": undeclared("Outflow(speed=str): …", lambda: Outflow(speed="1")),
    "one wall periodic": unplanned(
        "`Periodic()` on u[dict(x=0)]: a periodic condition joins the two walls of axis `x`, and holds on the whole of "
        "both. Assign it to both, u[dict(x=[0, -1])] = Periodic().",
        with_condition(dict(x=0), Periodic(), lambda u: u["t-1", "x-1"], CELLS),
    ),
    "periodic nodes": undeclared(
        "`Periodic()` on u[dict(x=[0, -1])]: axis `x` has a node on each wall, and a periodic condition would make "
        "them the same place twice. Declare it with cells=True, or with periodic=True.",
        with_condition(dict(x=[0, -1]), Periodic()),
    ),
    "periodic inside": undeclared(
        "`Periodic()` on u[:, 2]: a periodic condition joins two walls; assign it to both, as in u[dict(x=[0, -1])] = "
        "Periodic().",
        with_condition(np.s_[:, 2], Periodic()),
    ),
    "a sponge inside": undeclared(
        "`Sponge(1, 1.0)` on u[:, 2]: a layer lies along walls, as in u[dict(x=[0, -1])] = Sponge(1, 1.0); take such a "
        "region.",
        with_condition(np.s_[:, 2], Sponge(1.0, 1.0)),
    ),
    "too few points": unplanned(
        "`Dirichlet(0.0, order=8)` on u[dict(x=[0, -1])] at the lower wall of `x` goes through 8 points behind the "
        "wall of axis `x`, which has 6. Give the axis more points, or the condition a lower order.",
        with_condition(dict(x=[0, -1]), Dirichlet(0.0, order=8), fd.rate(lambda u: derivative(u, "x", 2, order=4))),
    ),
    "a hole of high order": unplanned(
        "Rule `rate lambda` on u[...] reads across the wall of the hole of `u`: a polynomial through interior points "
        "is not known there. A hole takes conditions of second order: Neumann, Robin, Symmetric, Outflow().",
        with_condition(np.s_[:, 2:4], Neumann(0.0, order=4)),
    ),
    "a normal without a wall": unplanned(
        "Rule `rate lambda` on u[...]: the argument `n` is the normal of a wall, which boundary conditions on walls "
        "and holes know. Give such a condition this rule.",
        lambda: fd.plan(line(fd.rate(lambda u, n=normal: n[0] * u[...]))),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_explained(name: str) -> None:
    WRONG[name].check()


def test_an_outflow_needs_its_speed_by_name() -> None:
    with pytest.raises(TypeError, match=re.escape("positional")):
        Outflow(1.0)  # type: ignore[misc]


def box(walls, rule=None):
    """3-D heat: periodic along x, `walls` at the ends of y, Neumann's condition at those of z."""
    space = dict(x=fd.Axis(0, 1, 6, periodic=True), y=fd.Axis(0, 1, 5), z=fd.Axis(0, 1, 7, cells=True))
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.01, num=6), **space))
    u[...] = rule or fd.rate(lambda u: fd.schemes.laplacian(u))
    u[0] = lambda x, y, z: jnp.sin(2 * jnp.pi * x) * jnp.sin(jnp.pi * y) * (1 + z**2)
    u[dict(y=[0, -1])] = walls
    u[dict(z=[0, -1])] = fd.boundary.Neumann(0.5)
    return u


def test_numbers_at_a_wall_stand_beside_periodic_ends_and_ghosts():
    """Where a number stands no ghost is supplied; the copies beyond a periodic end want none either."""
    expected = fd.solve(box(fd.boundary.Dirichlet(0.0)))["u"]
    np.testing.assert_allclose(fd.solve(box(0.0))["u"], expected, atol=1e-14)  # sin π is not quite 0


def test_reads_beyond_a_corner_that_nothing_supplies_are_refused_still():
    def skew(u, dt):
        return u["t-1"] + dt * (u["t-1", "x-1", "z-1"] - u["t-1"])

    u = box(0.0, skew)
    u[1:, :, 0] = skew  # takes the first wall's number away, and its ghosts were never there
    with pytest.raises(fd.PlanningError, match="one point outside the lower end of axis `z`"):
        fd.plan(u)


@pytest.mark.parametrize("walls_first", [True, False])
@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize(
    "condition", [fd.boundary.Neumann(0.3), fd.boundary.Robin(1.0, 2.0, 0.1), fd.boundary.Dirichlet(0.2)]
)
def test_first_levels_one_by_one_are_those_given_together(condition, cells, walls_first):
    def found(together):
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=7), x=fd.Axis(0.0, 1.0, num=8, cells=cells)))
        u[...] = lambda u: 2 * u["t-1"] - u["t-2"] + 0.1 * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
        if walls_first:
            u[dict(x=[0, -1])] = condition
        if together:
            u[:2] = lambda x, t: jnp.sin(x) * (1 + t)
        else:
            u[0] = lambda x, t: jnp.sin(x) * (1 + t)
            u[1] = lambda x, t: jnp.sin(x) * (1 + t)
        if not walls_first:
            u[dict(x=[0, -1])] = condition
        return np.asarray(fd.solve(u)["u"])

    together, apart = found(True), found(False)
    assert np.isfinite(apart).all()
    np.testing.assert_allclose(apart, together, rtol=1e-13)


@pytest.mark.parametrize("cells", [True, False])
def test_a_value_on_a_wall_point_leaves_a_condition_that_is_assigned_after_it(cells):
    """At the first level too, where the initial state stands before conditions."""

    def found(state_last):
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=4), x=fd.Axis(0.0, 1.0, num=6, cells=cells)))
        u[...] = lambda u: 0.5 * u["t-1"] + 0.3 * u["t-1", "x-1"] + 0.1 * u["t-1", "x+2"]
        if not state_last:
            u[0] = lambda x: jnp.cos(x)
        u[dict(x=-1)] = 3.0
        u[dict(x=[0, -1])] = fd.boundary.Neumann(0.2)
        if state_last:
            u[0] = lambda x: jnp.where(x > 0.9, 3.0, jnp.cos(x))
        return np.asarray(fd.solve(u)["u"])

    history = found(False)
    assert (history[:, -1] == 3.0).all()  # a condition on the slope leaves the value below in force
    np.testing.assert_allclose(history, found(True), rtol=1e-14)
