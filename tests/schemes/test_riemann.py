"""Systems against exact Riemann solutions: Sod, Lax and a dam break, for each numerical flux."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import (
    HLL,
    HLLC,
    TVD,
    WENO5,
    Heun,
    IdealGas,
    LaxFriedrichs,
    Roe,
    ShallowWater,
    Upwind,
    conservation,
    mc,
)
from tests.schemes.exact_riemann import DamBreak, GasRiemann

SOD = ((1.0, 0.0, 1.0), (0.125, 0.0, 0.1)), 0.2
LAX = ((0.445, 0.698, 3.528), (0.5, 0.0, 0.571)), 0.06
FLUXES = [LaxFriedrichs(), HLL(), HLLC(), Roe()]


def solve_gas(case, num, flux, reconstruction, courant=0.4):
    """Density, velocity and pressure at the end of a shock tube: half of one with its mirror image, periodic."""
    (left, right), time = case
    exact, gas = GasRiemann(left, right), IdealGas(1.4)
    fastest = max(abs(s[1]) + np.sqrt(1.4 * s[2] / s[0]) for s in (left, right)) + abs(exact.velocity)
    steps = int(np.ceil(time * fastest * num / courant))
    axis = fd.Axis(-1.0, 1.0, 2 * num, cells=True, periodic=True)
    grid = fd.Grid(t=fd.Time(0.0, time, num=steps + 1), x=axis)
    fields = [fd.Field(name, grid) for name in ("rho", "m", "E")]
    fd.together(*fields)[...] = fd.rate(
        lambda rho, m, E: conservation(gas, (rho, m, E), flux=flux, reconstruction=reconstruction)
    )
    x = grid.x.points
    ends = [[float(q) for q in gas.to_conservative(side)] for side in (left, right)]
    for field, low, high in zip(fields, *ends, strict=True):
        turned = np.sign(x) if field.name == "m" else 1.0
        field[0] = np.where(abs(x) < 0.5, low, high) * turned
    final = fd.solve(fields, stepper=Heun(), save=fd.final()).final
    found = gas.to_primitive(tuple(np.asarray(final[name])[num:] for name in ("rho", "m", "E")))
    return x[num:], [np.asarray(value) for value in found], exact.sample((x[num:] - 0.5) / time)


@pytest.mark.parametrize(
    "case, star",
    [(SOD, (0.3031302, 0.9274526, 0.4263194, 0.2655737)), (LAX, (2.466098, 1.528723, 0.3445685, 1.304085))],
)
def test_exact_solver_has_the_published_star_states(case, star):
    exact = GasRiemann(*case[0])
    np.testing.assert_allclose((exact.pressure, exact.velocity, *exact.densities), star, rtol=1e-6)


def test_exact_dam_break_has_the_known_state():
    exact = DamBreak(2.0, 1.0)
    np.testing.assert_allclose((exact.depth, exact.velocity), (1.4538409, 0.4169206), rtol=1e-6)


@pytest.mark.parametrize("flux", FLUXES, ids=repr)
def test_sod_converges_in_l1_with_waves_where_they_belong(flux):
    errors = []
    for num in (100, 200, 400):
        x, found, exact = solve_gas(SOD, num, flux, TVD(mc))
        errors.append(np.abs(found[0] - exact[0]).mean())
    assert errors[-1] < 0.003
    assert np.log2(errors[0] / errors[2]) / 2 > 0.8
    density, cell = found[0], 1 / 400
    shock = x[np.argmin(np.abs(density - 0.5 * (0.2655737 + 0.125)))]
    assert abs(shock - 0.85043) <= 1.5 * cell
    contact = x[np.argmin(np.abs(np.where(abs(x - 0.69) < 0.05, density, 9.0) - 0.5 * (0.4263194 + 0.2655737)))]
    assert abs(contact - 0.68549) <= 1.5 * cell


def test_lax_with_weno():
    errors = []
    for num in (100, 200):
        x, found, exact = solve_gas(LAX, num, HLLC(), WENO5())
        tube = x > 0.32  # the mirror image parts at the origin
        errors.append(np.abs(found[0] - exact[0])[tube].mean())
        assert found[0][tube].min() > 0.33 and found[0][tube].max() < 1.32
    assert errors[-1] < 0.013
    assert np.log2(errors[0] / errors[1]) > 0.75


def solve_water(num, flux, reconstruction, depths=(2.0, 1.0), time=0.25):
    """Depth and momentum of half of a dam break with its mirror image, periodic."""
    axis = fd.Axis(-1.0, 1.0, 2 * num, cells=True, periodic=True)
    grid = fd.Grid(t=fd.Time(0.0, time, num=int(time * 3.0 * num / 0.4) + 2), x=axis)
    h, q = fd.Field("h", grid), fd.Field("q", grid)
    law = ShallowWater(1.0)
    fd.together(h, q)[...] = fd.rate(lambda h, q: conservation(law, (h, q), flux=flux, reconstruction=reconstruction))
    h[0], q[0] = np.where(abs(grid.x.points) < 0.5, *depths), 0.0
    final = fd.solve([h, q], stepper=Heun(), save=fd.final()).final
    return grid.x.points[num:], np.asarray(final["h"])[num:], np.asarray(final["q"])[num:]


@pytest.mark.parametrize("flux", FLUXES, ids=repr)
def test_dam_break(flux):
    exact, errors = DamBreak(2.0, 1.0), []
    for num in (100, 200, 400):
        x, depth, _ = solve_water(num, flux, TVD(mc))
        errors.append(np.abs(depth - exact.sample((x - 0.5) / 0.25)[0]).mean())
    assert np.log2(errors[0] / errors[2]) / 2 > 0.9
    front = x[np.argmin(np.abs(depth - 0.5 * (exact.depth + 1.0)))]
    assert abs(front - 0.5 - 0.25 * exact.shock) <= 1.5 / 400


@pytest.mark.parametrize("flux, reconstruction", [(HLL(), Upwind(1)), (HLLC(), TVD(mc)), (HLLC(), WENO5())], ids=repr)
def test_a_dam_breaks_over_a_dry_bed(flux, reconstruction):
    x, depth, flow = solve_water(100, flux, reconstruction, (1.0, 0.0), 0.15)
    speed = (x - 0.5) / 0.15
    exact = np.where(speed < -1, 1.0, np.where(speed < 2, (2 - speed) ** 2 / 9, 0.0))  # Ritter 1892
    assert depth.min() >= -1e-12 and np.isfinite(flow).all()
    assert np.abs(depth - exact).mean() < 0.02
    assert depth.sum() / 100 == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("flux", [LaxFriedrichs(), HLL(), HLLC()], ids=repr)
def test_gradients_of_whole_solves_are_finite_on_dry_beds_and_constant_fields(flux):
    grid = fd.Grid(t=fd.Time(0.0, 0.05, num=6), x=fd.Axis(0.0, 1.0, 12, periodic=True))
    h, q = fd.Field("h", grid), fd.Field("q", grid)

    def total(depth, flow):
        h.assignments.clear()
        q.assignments.clear()
        fd.together(h, q)[...] = fd.rate(
            lambda h, q: conservation(ShallowWater(1.0), (h, q), flux=flux, reconstruction=WENO5())
        )
        h[0], q[0] = depth, flow
        final = fd.solve([h, q], stepper=Heun(), save=fd.final()).final
        return (final["h"] ** 2).sum() + (final["q"] ** 2).sum()

    gradient = jax.jit(jax.grad(total, argnums=(0, 1)))
    for start in (np.zeros(12), np.ones(12), np.where(np.arange(12) < 6, 1.0, 0.0)):
        for value in gradient(jnp.asarray(start), jnp.zeros(12)):
            assert np.isfinite(value).all()


@pytest.mark.parametrize("law", [IdealGas(1.4), ShallowWater(9.81)], ids=lambda law: type(law).__name__)
def test_roe_waves_split_the_jump_and_the_flux(law):
    generator = np.random.default_rng(5)
    for _ in range(20):
        gas = len(law.names(1)) == 3
        sides = [
            law.to_conservative(tuple(map(jnp.asarray, (d, u, v, p) if gas else (d, u, v))))
            for d, u, v, p in zip(*generator.uniform(0.2, 2, (4, 2)), strict=True)
        ]
        for axis in (0, 1):
            waves = law.waves(*sides, axis)
            for n in range(len(sides[0])):
                assert sum(w.jump[n] for w in waves) == pytest.approx(float(sides[1][n] - sides[0][n]), abs=1e-12)
                rise = law.flux(sides[1], axis)[n] - law.flux(sides[0], axis)[n]
                assert sum(w.speed * w.jump[n] for w in waves) == pytest.approx(float(rise), abs=1e-11)


@pytest.mark.parametrize("flux", FLUXES, ids=repr)
def test_numerical_fluxes_are_consistent(flux):
    state = IdealGas(1.4).to_conservative(tuple(map(jnp.asarray, (0.7, 0.3, -0.4, 1.1))))
    for axis in (0, 1):
        expected = IdealGas(1.4).flux(state, axis)
        np.testing.assert_allclose(flux.flux(IdealGas(1.4), state, state, axis), expected, rtol=1e-13)


@pytest.mark.parametrize("flux", [HLLC(), Roe()], ids=repr)
def test_a_contact_at_rest_stays(flux):
    left, right = (IdealGas(1.4).to_conservative(tuple(map(jnp.asarray, (d, 0.0, 1.0)))) for d in (1.0, 0.1))
    np.testing.assert_allclose(flux.flux(IdealGas(1.4), left, right, 0), (0.0, 1.0, 0.0), atol=1e-14)
