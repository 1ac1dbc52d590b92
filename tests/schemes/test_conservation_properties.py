"""Conservation laws on random input: what must hold to rounding, positivity, orders at points, wrong uses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import (
    HLL,
    HLLC,
    RK4,
    SSPRK3,
    TVD,
    WENO5,
    WENO7Z,
    AbstractConservationLaw,
    AbstractRoeLaw,
    Euler,
    Godunov,
    IdealGas,
    LaxFriedrichs,
    Roe,
    ShallowWater,
    Upwind,
    Wave,
    conservation,
    convection,
    mc,
    minmod,
)  # fmt: skip

GAS = IdealGas(1.4)
FLUXES = [LaxFriedrichs(), HLL(), HLLC(), Roe()]


def random_gas(generator, shape):
    """Conserved quantities of a rough but tame state on a grid of one to three axes."""
    velocity = generator.normal(size=(len(shape), *shape)) * 0.3
    return GAS.to_conservative((generator.uniform(0.5, 2, shape), *velocity, generator.uniform(0.5, 2, shape)))


def rates(law, start, flux, reconstruction):
    """−∇·F of arrays on a periodic grid of as many axes as they have."""
    axes = {name: fd.Axis(0.0, 1.0, size, periodic=True) for name, size in zip("xyz", start[0].shape, strict=False)}
    grid = fd.Grid(**axes)
    state = [fd.Field(f"q{n}", grid) for n in range(len(start))]
    found = [fd.Field(f"r{n}", grid) for n in range(len(start))]
    for field, value in zip(state, start, strict=True):
        field[...] = np.asarray(value)
    names = ", ".join(field.name for field in state)
    rule = eval(f"lambda {names}: law_rates(({names},))", {"law_rates": lambda q: conservation(
        law, q, flux=flux, reconstruction=reconstruction)})  # fmt: skip
    if len(found) > 1:
        fd.together(*found)[...] = rule
    else:
        found[0][...] = lambda q0: rule(q0)[0]
    solution = fd.solve([*state, *found])
    return [np.asarray(solution[field.name]) for field in found]


def mirrored(arrays, axis, flipped):
    return [np.flip(a, axis) * (-1.0 if n == flipped else 1.0) for n, a in enumerate(arrays)]


@pytest.mark.parametrize(
    "flux, reconstruction",
    [*((flux, TVD(mc)) for flux in FLUXES), (HLLC(), WENO5()), (LaxFriedrichs(), WENO7Z()), (HLL(), Upwind(3))],
    ids=repr,
)
def test_gas_is_conserved_and_mirrored_to_rounding(flux, reconstruction):
    start = [np.asarray(q) for q in random_gas(np.random.default_rng(1), (24,))]
    found = rates(GAS, start, flux, reconstruction)
    for value in found:
        assert abs(value.sum()) < 1e-13 * np.abs(value).sum()
    other = rates(GAS, mirrored(start, 0, 1), flux, reconstruction)
    for value, expected in zip(mirrored(other, 0, 1), found, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-10)


def test_turning_a_plane_flow_turns_the_answer():
    start = [np.asarray(q) for q in random_gas(np.random.default_rng(2), (8, 8))]
    found = rates(GAS, start, HLLC(), TVD(minmod))
    # A quarter turn: (x, y) → (−y, x), momentum likewise.
    rho, m, n, energy = (np.rot90(q) for q in start)
    turned = rates(GAS, [rho, -n, m, energy], HLLC(), TVD(minmod))
    expected = [np.rot90(q) for q in found]
    for value, wanted in zip(turned, (expected[0], -expected[2], expected[1], expected[3]), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-10, atol=1e-10)
    for value in found:
        assert abs(value.sum()) < 1e-12 * np.abs(value).sum()


def test_three_axes_are_those_of_one_where_nothing_else_varies():
    line = [np.asarray(q) for q in random_gas(np.random.default_rng(3), (6,))]
    wide = [np.broadcast_to(q[None, :, None], (2, 6, 2)) for q in line]
    found = rates(GAS, [wide[0], 0 * wide[0], wide[1], 0 * wide[0], wide[2]], HLLC(), Upwind(1))
    expected = rates(GAS, line, HLLC(), Upwind(1))
    for value, wanted in zip((found[0], found[2], found[4]), expected, strict=True):
        np.testing.assert_allclose(value[1, :, 1], wanted, atol=1e-12)
    np.testing.assert_allclose(found[1], 0.0, atol=1e-12)


@pytest.mark.parametrize("flux", [HLL(), HLLC()], ids=repr)
def test_first_order_keeps_density_pressure_and_depth_positive(flux):
    generator = np.random.default_rng(11)
    for _ in range(4):
        velocity = generator.normal(size=32) * 5
        density, pressure = 10 ** generator.uniform(-4, 1, (2, 32))
        start = [np.asarray(q) for q in GAS.to_conservative((density, velocity, pressure))]
        fastest = (np.abs(velocity) + np.sqrt(1.4 * pressure / density)).max() * 2
        found = rates(GAS, start, flux, Upwind(1))
        after = GAS.to_primitive(tuple(q + 0.4 / 32 / fastest * r for q, r in zip(start, found, strict=True)))
        assert np.asarray(after[0]).min() > 0 and np.asarray(after[2]).min() > -1e-12 * pressure.max()
        depth = density * (generator.uniform(size=32) > 0.4)
        water = [depth, depth * velocity]
        found = rates(ShallowWater(1.0), water, flux, Upwind(1))
        fastest = 2 * (np.abs(velocity) + 2 * np.sqrt(depth)).max()
        assert (depth + 0.4 / 32 / fastest * found[0]).min() >= -1e-14


@pytest.mark.parametrize("num_axes", [1, 2])
def test_smooth_flow_has_the_order_of_the_reconstruction_at_points(num_axes):
    """−∇·F of a smooth state against the exact derivative of its flux, which is nonlinear in all of it."""
    errors = []
    for num in (24, 48):
        x = np.arange(num) / num
        phase = 2 * np.pi * (x if num_axes == 1 else np.add.outer(x, x))
        velocity = [0.5 + 0.2 * np.cos(phase)] * num_axes
        start = [
            np.asarray(q) for q in GAS.to_conservative((1 + 0.2 * np.sin(phase), *velocity, 1 + 0.1 * np.cos(phase)))
        ]
        found = rates(GAS, start, HLLC(), WENO5())
        spectral = [np.zeros_like(q) for q in start]
        for axis in range(num_axes):
            wave = 2j * np.pi * np.fft.fftfreq(num, 1 / num).reshape([-1 if a == axis else 1 for a in range(num_axes)])
            for n, flux in enumerate(GAS.flux(tuple(start), axis)):
                spectral[n] -= np.fft.ifft(wave * np.fft.fft(flux, axis=axis), axis=axis).real
        errors.append(max(np.abs(a - b).max() for a, b in zip(found, spectral, strict=True)))
    assert np.log2(errors[0] / errors[1]) > 4.8


def test_a_quantity_that_hardly_varies_does_not_cost_the_others_their_order():
    """Noise in the density is rough beside itself alone; the momentum is as smooth as without it."""
    num = 48
    x = np.arange(num) / num
    noise = 1e-10 * np.random.default_rng(3).normal(size=num)
    smooth, rough = (
        rates(GAS, GAS.to_conservative((1.0 + level, 0.5 + 0.2 * np.cos(2 * np.pi * x), 1.0 + 0 * x)), HLLC(), WENO5())
        for level in (0 * x, noise)
    )
    for a, b in zip(smooth, rough, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)


def burgers(num, time, start, flux, reconstruction, stepper, courant=0.5):
    grid = fd.Grid(
        t=fd.Time(0.0, time, num=int(time * num / courant) + 2), x=fd.Axis(0.0, 1.0, num, cells=True, periodic=True)
    )
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: conservation(lambda u: u**2 / 2, u, flux=flux, reconstruction=reconstruction))
    u[0] = start(grid.x.points)
    return grid.x.points, np.asarray(fd.solve(u, stepper=stepper)["u"])


@pytest.mark.parametrize("flux", [LaxFriedrichs(), HLL(), Roe(), Godunov((0.0,))], ids=repr)
def test_burgers_shock_and_transonic_rarefaction(flux):
    x, levels = burgers(200, 0.2, lambda x: np.where((x > 0.3) & (x < 0.7), 1.0, -1.0), flux, Upwind(1), Euler())
    exact = np.where(x < 0.5, np.clip((x - 0.3) / 0.2, -1, 1), 1.0)  # a fan about 0.3, a shock at rest at 0.7
    exact = np.where(x > 0.7, -1.0, exact)
    assert np.abs(levels[-1] - exact).mean() < 0.03
    np.testing.assert_allclose(levels.sum(axis=1), levels[0].sum(), atol=1e-11)
    variation = np.abs(np.diff(levels, axis=1, append=levels[:, :1])).sum(axis=1)
    assert (np.diff(variation) < 1e-12).all()


def test_saturations_of_buckley_and_leverett_stay_between_those_at_the_start():
    grid = fd.Grid(t=fd.Time(0.0, 0.2, num=41), x=fd.Axis(0.0, 1.0, 40, cells=True))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: conservation(lambda u: u**2 / (u**2 + (1 - u) ** 2), u, reconstruction=Upwind(1)))
    u[0] = np.where(grid.x.points < 0.5, 1.0, 0.0)  # f′ = 0 on both sides
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    levels = np.asarray(fd.solve(u, stepper=Euler())["u"])
    assert levels.min() >= -1e-6 and levels.max() <= 1 + 1e-6


def test_smooth_burgers_has_fifth_order_at_points():
    errors = []
    for num in (40, 80):
        x, levels = burgers(num, 0.1, lambda x: np.sin(2 * np.pi * x) / 2, LaxFriedrichs(), WENO5(), RK4(), courant=0.1)
        exact = np.sin(2 * np.pi * x) / 2
        for _ in range(60):  # u = u₀(x − ut) by Newton's method
            phase = 2 * np.pi * (x - 0.1 * exact)
            exact -= (exact - np.sin(phase) / 2) / (1 + 0.1 * np.pi * np.cos(phase))
        errors.append(np.abs(levels[-1] - exact * 1.0).max())
    assert np.log2(errors[0] / errors[1]) > 4.3


class Traffic(AbstractConservationLaw):
    """Lighthill–Whitham traffic as a law of one's own."""

    def names(self, num_axes):
        return ("density",)

    def flux(self, state, axis):
        return (state[0] * (1 - state[0]),)

    def speeds(self, state, axis):
        return (1 - 2 * state[0],) * 2


def test_a_law_of_ones_own_agrees_with_its_flux_function():
    start = [np.random.default_rng(5).uniform(0, 1, 16)]
    own = rates(Traffic(), start, LaxFriedrichs(), TVD(mc))[0]
    function = rates(lambda u: u * (1 - u), start, LaxFriedrichs(), TVD(mc))[0]
    np.testing.assert_allclose(own, function, rtol=1e-12)
    assert np.isfinite(rates(Traffic(), start, HLL(), TVD(mc))[0]).all()


def plan_of(rule, count=1):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, 8, periodic=True))
    fields = [fd.Field(name, grid) for name in ("u", "v")[:count]]
    target = fields[0] if count == 1 else fd.together(*fields)
    target[...] = fd.rate(rule)
    for field in fields:
        field[0] = 1.0
    return fd.plan(fields, c=fd.along(np.ones(8), "x"))


@pytest.mark.parametrize(
    "rule, count, message",
    [
        (lambda u: conservation(GAS, (u,)), 1, r"IdealGas on 1 axis conserves 3 quantities \(density, momentum 1"),
        (lambda u: conservation("burgers", u), 1, "or the flux function of a single quantity"),
        (lambda u: conservation(lambda u: u, u, flux="HLL"), 1, r"wanted fd.schemes.LaxFriedrichs\(\)"),
        (lambda u: conservation(lambda u: u, u, flux=HLLC()), 1, "is for an AbstractContactLaw, got ScalarLaw"),
        (lambda u: conservation(lambda u: u, u, reconstruction=5), 1, r"wanted fd.schemes.Upwind\(1\)"),
        (lambda u: conservation(lambda u: u, u[...]), 1, "conservation takes a view"),
        (lambda u, v: conservation(GAS, (u, v)), 2, "got 2 views"),
    ],
)
def test_wrong_uses_say_what_to_write(rule, count, message):
    with pytest.raises(fd.DeclarationError, match=message):
        plan_of(rule, count)


def test_a_flux_that_varies_from_point_to_point_is_refused():
    with pytest.raises(fd.PlanningError, match="would not move with the point"):
        plan_of(lambda u, c: conservation(lambda v, k=None: v * c[...], u))


@pytest.mark.parametrize("make", [lambda: IdealGas(1.0), lambda: ShallowWater(-1.0), lambda: Godunov([0.0])])
def test_laws_and_fluxes_are_checked_when_made(make):
    with pytest.raises(fd.DeclarationError):
        make()


def test_states_of_vacuum_are_finite():
    zeros = tuple(jnp.zeros(()) for _ in range(3))
    for flux in (LaxFriedrichs(), HLL(), HLLC()):
        assert np.isfinite(flux.flux(GAS, zeros, zeros, 0)).all()


class Acoustics(AbstractRoeLaw):
    """p_t + u_x = 0, u_t + p_x = 0."""

    def names(self, num_axes):
        return ("pressure", "velocity")

    def flux(self, state, axis):
        return (state[1], state[0])

    def speeds(self, state, axis):
        return 0 * state[0] - 1, 0 * state[0] + 1

    def bounds(self, left, right, axis):
        return self.speeds(left, axis)

    def waves(self, left, right, axis):
        one, other = ((right[0] - left[0] + s * (right[1] - left[1])) / 2 for s in (-1, 1))
        return Wave(-1.0, (one, -one)), Wave(1.0, (other, other))


def pulse(num):
    axis = fd.Axis(0.0, 1.0, num, cells=True, periodic=True)
    return axis, np.exp(-200 * (axis.points - 0.5) ** 2)


def test_acoustics_with_weno_is_no_worse_than_clawpack():
    axis, start = pulse(100)
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=201), x=axis)
    p, u = fd.Field("p", grid), fd.Field("u", grid)
    fd.together(p, u)[...] = fd.rate(lambda p, u: conservation(Acoustics(), (p, u), flux=Roe(), reconstruction=WENO5()))
    p[0], u[0] = start, 0.0
    final = fd.solve([p, u], stepper=SSPRK3(), save=fd.final()).final["p"]
    assert np.abs(np.asarray(final) - start).mean() <= 0.001540


def test_acoustics_with_limited_invariants_is_no_worse_than_clawpack():
    """p ± u are carried with speeds ±1 by the one-step flux, at a Courant number of 0.9."""
    axis, start = pulse(100)
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=112), x=axis)
    right, left = fd.Field("right", grid), fd.Field("left", grid)
    scheme = TVD(mc)
    right[...] = lambda right, dt: right["t-1"] - dt * convection(1.0, right, scheme=scheme, at="t-1")[...]
    left[...] = lambda left, dt: left["t-1"] - dt * convection(-1.0, left, scheme=scheme, at="t-1")[...]
    right[0] = left[0] = start
    final = fd.solve([right, left], save=fd.final()).final
    assert np.abs(np.asarray(final["right"] + final["left"]) / 2 - start).mean() <= 0.001981


@pytest.mark.parametrize("value", [-0.8, 0.0, 0.6])
def test_the_derivative_of_godunovs_flux_between_equal_states_is_upwind(value):
    """It is f of the state that waves come from, on either side: no kink, of which the mean would be taken."""
    axis = fd.Axis(0.0, 1.0, num=6, cells=True, periodic=True)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.02, num=2), x=axis))
    u[...] = fd.rate(lambda u: conservation(lambda v: v**2 / 2, u, flux=Godunov((0.0,)), reconstruction=Upwind(1)))
    u[0] = lambda start: start[...]
    found = jax.jacrev(lambda a: fd.solve(u, start=a, stepper=Euler(), save=fd.final())["u"][0])(np.full(6, value))
    upwind = np.eye(6) - np.roll(np.eye(6), -1 if value > 0 else 1, axis=1)
    np.testing.assert_allclose(found, np.eye(6) - 0.02 * 6 * abs(value) * upwind, rtol=0, atol=1e-14)
