"""Manufactured solutions: sources and wall values are those of the exact solution, and orders come out as promised."""

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import Antisymmetric, Dirichlet, Neumann, Outflow, Robin, Symmetric
from fdsolve.schemes import RK4, derivative, divergence, laplacian


def grid(num_x=9, num_t=21, stop=0.1, **options):
    return fd.Grid(t=fd.Time(0.0, stop, num=num_t), x=fd.Axis(0.0, 1.0, num_x, **options))


def field(g, rule, name="u", **options):
    u = fd.Field(name, g, **options)
    u[...] = rule
    u[0] = 0.0
    return u


def last(orders):
    return {name: found[-1] for name, found in orders.items()}


def test_a_nonlinear_rate_between_neumann_and_robin_walls():
    u = field(grid(), fd.rate(lambda u, c: c * laplacian(u) - u * derivative(u, "x")))
    u[dict(x=0)] = Neumann(0.0)
    u[dict(x=-1)] = Robin(1.0, lambda t: 0.5 + t, 0.0)
    found = fd.manufactured(u, lambda t, x: jnp.cos(3 * x + t) + x**3, step_power=2, c=0.1)
    assert found.sizes == (9, 17, 33)
    assert last(found.orders)["u"] == pytest.approx(2.0, abs=0.1)
    assert last(found.l1_orders)["u"] == pytest.approx(2.0, abs=0.1)
    head, *rows = str(found).splitlines()
    assert head.split() == ["u", "max", "error", "order", "L1", "error", "order"]
    assert [row.split()[0] for row in rows] == ["9", "17", "33"]


def test_rates_of_several_regions_that_add_up():
    u = field(grid(), fd.rate(lambda u: laplacian(u)))
    u[dict(x=[0, -1])] = Dirichlet(0.0)
    u[fd.where(lambda x: x > 0.6)] = fd.rate(lambda u: laplacian(u) + 2 * u)
    u[fd.where(lambda x: x > 0.2)] += fd.rate(lambda u, t: t * u**2)
    u[dict(x=[0, -1])] = Dirichlet(0.0)
    u[0] = 0.0
    found = fd.manufactured(u, lambda t, x: jnp.sin(2 * x + t), step_power=2)
    assert last(found.orders)["u"] == pytest.approx(2.0, abs=0.1)


def test_high_order_on_a_stretched_axis_with_a_coefficient():
    index = np.linspace(0.0, 1.0, 13)
    g = fd.Grid(t=fd.Time(0.0, 0.02, num=11), x=fd.Axis.from_points(index + 0.05 * np.sin(np.pi * index)))
    rule = fd.rate(lambda u: divergence(1 + fd.apply(jnp.sin, fd.coordinate(u, "x")), u))
    u = field(g, rule)
    u[dict(x=[0, -1])] = Dirichlet(0.0)
    found = fd.manufactured(u, lambda t, x: jnp.sin(3 * x) * jnp.exp(-t), step_power=2, refine=(1, 2))
    assert last(found.orders)["u"] > 1.9


def test_a_periodic_axis_shows_eighth_order():
    u = field(grid(16, 11, periodic=True), fd.rate(lambda u: -derivative(u, "x", order=8)))
    exact = lambda t, x: jnp.sin(2 * jnp.pi * x) * jnp.cos(t)  # noqa: E731
    found = fd.manufactured(u, exact, refine=(1, 2), step_power=2, stepper=RK4())
    assert last(found.orders)["u"] == pytest.approx(8.0, abs=0.2)


def test_fields_set_together_on_a_staggered_grid():
    g = grid(10, 11, cells=True)
    p, v = fd.Field("p", g), fd.Field("v", g, at=dict(x="face"))
    fd.together(p, v)[...] = fd.rate(lambda p, v, c: (-(c**2) * derivative(v, "x"), -derivative(p, "x")))
    p[0] = v[0] = 0.0
    v[dict(x=[0, -1])] = Dirichlet(0.0)
    exact = dict(p=lambda t, x: jnp.sin(2 * x - t), v=lambda t, x: jnp.cos(3 * x) * (1 + t))
    found = fd.manufactured([p, v], exact, c=1.5)
    assert last(found.orders) == pytest.approx(dict(p=2.0, v=2.0), abs=0.15)


def test_slopes_on_walls_of_constant_angle_are_slopes_by_length():
    sector = dict(
        r=fd.Axis(0.4, 1.0, 6, cells=True, metric="radius"), q=fd.Axis(0.3, 1.2, 6, cells=True, metric="angle")
    )
    u = field(fd.Grid(t=fd.Time(0.0, 0.02, num=21), **sector), fd.rate(lambda u: laplacian(u)))
    u[dict(r=[0, -1])] = Neumann(0.0)
    u[dict(q=0)], u[dict(q=-1)] = Neumann(0.0), Robin(1.0, 0.4, 0.0)
    found = fd.manufactured(u, lambda t, r, q: jnp.sin(2 * r) * jnp.cos(3 * q) * jnp.exp(-t), step_power=2)
    assert last(found.orders)["u"] == pytest.approx(2.0, abs=0.1)


def test_mirrors_want_a_solution_that_has_the_symmetry():
    u = field(grid(9, 41), fd.rate(lambda u: laplacian(u)))
    u[dict(x=0)] = Symmetric()
    u[dict(x=-1)] = Antisymmetric()
    fits = lambda t, x: jnp.cos(jnp.pi * x / 2) * jnp.exp(-t)  # noqa: E731
    assert last(fd.manufactured(u, fits, step_power=2).orders)["u"] == pytest.approx(2.0, abs=0.1)
    with pytest.raises(fd.PlanningError, match=r"Symmetric.* has ∂u/∂n = .* wants 0. Choose one that is even"):
        fd.manufactured(u, lambda t, x: jnp.sin(x))


def test_upwind_by_hand():
    u = field(grid(20, 6, periodic=True), lambda u, c, dt, dx: u["t-1"] - c * dt / dx * (u["t-1"] - u["t-1", "x-1"]))
    found = fd.manufactured(u, lambda t, x: jnp.sin(2 * jnp.pi * x) * jnp.exp(t), c=1.0)
    assert last(found.orders)["u"] == pytest.approx(1.0, abs=0.1)


def test_lax_wendroff_needs_no_source_for_a_solution_of_its_own_equation():
    def rule(u, c, dt, dx):
        nu, left, here, right = c * dt / dx, u["t-1", "x-1"], u["t-1"], u["t-1", "x+1"]
        return here - nu / 2 * (right - left) + nu**2 / 2 * (right - 2 * here + left)

    found = fd.manufactured(field(grid(20, 6, periodic=True), rule), lambda t, x: jnp.sin(2 * jnp.pi * (x - t)), c=1.0)
    assert last(found.orders)["u"] == pytest.approx(2.0, abs=0.1)


def test_leapfrog_waves_between_plain_wall_values():
    g = fd.Grid(t=fd.Time(0.0, 0.2, num=11), x=fd.Axis(0.0, 1.0, 11), y=fd.Axis(0.0, 1.0, 11))
    u = fd.Field("u", g)
    u[:2] = 0.0
    u[2:, 1:-1, 1:-1] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + (c * dt) ** 2 * laplacian(u, at="t-1")
    u[2:, 0] = u[2:, -1] = u[2:, :, 0] = u[2:, :, -1] = 0.0
    found = fd.manufactured(u, lambda t, x, y: jnp.sin(2 * x + y) * jnp.cos(3 * t), c=1.0, refine=(1, 2, 3))
    assert last(found.orders)["u"] == pytest.approx(2.0, abs=0.15)


def test_rates_by_hand_have_their_equation_from_their_weights():
    u = field(grid(20, 6, periodic=True), fd.rate(lambda u, c, dx: -c * (u["x+1"] - u["x-1"]) / (2 * dx)))
    found = fd.manufactured(u, lambda t, x: jnp.sin(2 * jnp.pi * x) * jnp.exp(t), c=1.0, refine=(1, 2))
    assert last(found.orders)["u"] == pytest.approx(2.0, abs=0.1)


def test_a_complex_field():
    psi = field(grid(16, 41, periodic=True), fd.rate(lambda psi: 0.5j * laplacian(psi)), "psi", dtype=complex)
    exact = lambda t, x: jnp.exp(1j * (2 * jnp.pi * x - 3.0 * t)) + 0.3  # noqa: E731
    found = fd.manufactured(psi, exact, refine=(1, 2), step_power=2)
    assert last(found.orders)["psi"] == pytest.approx(2.0, abs=0.1)


def test_a_polar_axis():
    r = fd.Axis(0.0, 1.0, 10, cells=True, metric="radius")
    u = field(fd.Grid(t=fd.Time(0.0, 0.02, num=21), r=r), fd.rate(lambda u: laplacian(u)))
    u[dict(r=-1)] = Dirichlet(0.0)
    found = fd.manufactured(u, lambda t, r: jnp.cos(2 * r**2) * jnp.exp(-t), refine=(1, 2), step_power=2)
    assert last(found.orders)["u"] == pytest.approx(2.0, abs=0.15)


def test_steady_equations_have_a_source_of_their_own():
    """Two that are coupled and not linear, of order 4 up to walls."""
    g = fd.Grid(x=fd.Axis(0.0, 1.0, 9), y=fd.Axis(0.0, 1.0, 9))
    u, v = fd.Field("u", g), fd.Field("v", g)
    u[...] = fd.residual(lambda u, v, k: laplacian(u, order=4) - k * v[...])
    v[...] = fd.residual(lambda u, v: laplacian(v, order=4) + u[...] * v[...])
    for one in (u, v):
        one[dict(x=[0, -1])] = 0.0
        one[dict(y=[0, -1])] = Robin(1.0, 0.3, 0.0, order=4)
    exact = dict(u=lambda x, y: jnp.sin(5 * x + 3 * y), v=lambda x, y: jnp.cos(4 * x - 3 * y))
    found = fd.manufactured((u, v), exact, k=0.3)
    assert min(found.max_errors["u"][-1], found.max_errors["v"][-1]) > 1e-9
    assert min(last(found.orders).values()) > 3.85  # 4 on finer grids


def test_an_equation_between_levels_is_told():
    u = field(grid(), fd.residual(lambda u, dt: (u[...] - u["t-1"]) / dt - laplacian(u)))
    u[dict(x=[0, -1])] = 0.0
    with pytest.raises(fd.PlanningError, match="reads neighbours or older levels by hand"):
        fd.manufactured(u, lambda t, x: jnp.sin(2 * x + t))


def walled(condition):
    u = field(grid(), fd.rate(lambda u: laplacian(u)))
    u[dict(x=0)] = condition
    u[dict(x=-1)] = Dirichlet(0.0)
    return u


EXACT = lambda t, x: jnp.sin(x + t)  # noqa: E731


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fd.manufactured(walled(Dirichlet(0.0)), dict(v=EXACT)), "wanted for u, got v"),
        (lambda: fd.manufactured(walled(Dirichlet(0.0)), 1.0), "is a function of the axes, as in lambda t, x"),
        (lambda: fd.manufactured(walled(Dirichlet(0.0)), lambda z: z), "asks for `z`; the axes are t, x"),
        (lambda: fd.manufactured(walled(Dirichlet(0.0)), EXACT, refine=(2, 1)), "two or more growing factors"),
        (lambda: fd.manufactured(walled(Dirichlet(0.0)), EXACT, refine=(1, 1.1)), "no whole number"),
        (lambda: fd.manufactured(walled(Dirichlet(0.0)), EXACT, step_power=-1), "takes a number m"),
        (lambda: fd.manufactured(walled(Outflow()), EXACT), "no exact data are known for Outflow"),
    ],
)
def test_wrong_use_is_told(call, message):
    with pytest.raises((fd.DeclarationError, fd.PlanningError), match=message):
        call()


def test_what_has_no_exact_counterpart_is_told():
    u = walled(Dirichlet(0.0))
    u[fd.point(x=0.3)] += fd.rate(1.0)
    with pytest.raises(fd.PlanningError, match="acts at a point, which no smooth solution has"):
        fd.manufactured(u, EXACT)
    u = field(grid(9, periodic=True), fd.rate(lambda u: u[...] * (u["x+1"] - u["x-1"])))
    with pytest.raises(fd.PlanningError, match="not affine"):
        fd.manufactured(u, EXACT)
    u = field(grid(9, periodic=True), fd.rate(lambda u, k: derivative(k * derivative(u, "x"), "x")))
    with pytest.raises(fd.PlanningError, match="reads the parameter `k`, an array on the grid"):
        fd.manufactured(u, EXACT, k=np.ones(9))
