"""Largest stable steps and amplification factors against textbook values."""

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import ARK3, RK4, SBDF3, Euler, Heun, derivative, laplacian


def grid(num_axes=1, step=1e-4, periodic=True):
    axes = {name: fd.Axis(0.0, 1.0, 20, periodic=periodic) for name in "xyz"[:num_axes]}
    return fd.Grid(t=fd.Time(0.0, 10 * step, num=11), **axes)


def field(rule, g, initial=0.0, start=1):
    u = fd.Field("u", g)
    u[:start] = initial
    u[start:] = rule
    return u


H = 1 / 20
CASES = {
    "upwind": (lambda u, c, dt, dx: u["t-1"] - c * dt / dx * (u["t-1"] - u["t-1", "x-1"]), 1, dict(c=2.0), H / 2.0),
    "explicit diffusion": (lambda u, c, dt: u["t-1"] + c * dt * laplacian(u, at="t-1"), 2, dict(c=0.5), H**2 / 4 / 0.5),
    "central and forward": (lambda u, c, dt: u["t-1"] - c * dt * derivative(u, "x", at="t-1"), 1, dict(c=1.0), 0.0),
    "lax-friedrichs": (
        lambda u, c, dt, dx: 0.5 * (u["t-1", "x+1"] + u["t-1", "x-1"])
        - c * dt / (2 * dx) * (u["t-1", "x+1"] - u["t-1", "x-1"]),
        1, dict(c=3.0), H / 3.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_update_rules(name):
    rule, num_axes, parameters, largest = CASES[name]
    found = fd.plan(field(rule, grid(num_axes)), **parameters).stability
    assert found.largest == pytest.approx(largest, rel=1e-4)


def test_leapfrog_wave_in_two_axes():
    rule = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + (c * dt) ** 2 * laplacian(u, at="t-1")  # noqa: E731
    found = fd.plan(field(rule, grid(2), start=2), c=1.5).stability
    assert found.stable
    assert found.largest == pytest.approx(H / np.sqrt(2) / 1.5, rel=1e-4)


@pytest.mark.parametrize(("stepper", "limit"), [(Euler(), 2.0), (Heun(), 2.0), (RK4(), 2.785293563)])
def test_rates_of_diffusion(stepper, limit):
    u = field(fd.rate(lambda u, c: c * laplacian(u)), grid())
    found = fd.plan(u, stepper=stepper, c=0.1).stability
    assert found.largest == pytest.approx(limit * H**2 / 4 / 0.1, rel=1e-4)


def test_rates_of_advection_with_rk4_reach_the_imaginary_axis():
    u = field(fd.rate(lambda u, c: -c * derivative(u, "x")), grid())
    assert fd.plan(u, c=1.0).stability.largest == pytest.approx(np.sqrt(8) * H, rel=1e-3)


def test_a_coupled_staggered_pair():
    g = fd.Grid(t=fd.Time(0.0, 0.1, num=11), x=fd.Axis(0.0, 1.0, 20, cells=True, periodic=True))
    p, v = fd.Field("p", g), fd.Field("v", g, at=dict(x="face"))
    p[0] = v[0] = 0.0
    v[1:] = lambda v, p, dt: v["t-1"] - dt * derivative(p, "x", at="t-1")
    p[1:] = lambda v, p, dt, c: p["t-1"] - dt * c**2 * derivative(v, "x")
    assert fd.plan([p, v], c=2.0).stability.largest == pytest.approx(H / 2.0, rel=1e-4)


def test_growth_that_the_equation_has_is_not_instability():
    u = field(fd.rate(lambda u: 0.5 * u[...]), grid())
    found = fd.plan(u).stability
    assert found.stable
    assert found.factor > 1


def test_an_unstable_step_warns_and_names_both_steps():
    u = field(CASES["upwind"][0], grid(step=0.1), initial=lambda x: jnp.sin(x))
    with pytest.warns(
        fd.FdsolveWarning,
        match=r"step 0\.1 is unstable: .* by 7 a step; the largest stable step is 0\.025",
    ):
        fd.solve(u, c=2.0)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [(lambda u: u["t-1"] ** 2, "is not affine"), (lambda u, x: x * u["t-1"], "vary in space or time")],
)
def test_what_is_not_analysed_says_why(rule, reason):
    assert reason in fd.plan(field(rule, grid())).stability.reason
    assert "not analysed" in str(fd.plan(field(rule, grid())))


def test_implicit_rates_that_their_method_amplifies_are_told_beside_a_nonlinear_rate():
    """Backward differences of order 3 amplify |λΔt| < 1.94 on the imaginary axis, by up to 1.0456."""
    g = fd.Grid(t=fd.Time(0.0, 0.4, num=11), x=fd.Axis(-10.0, 10.0, num=64, periodic=True))
    u = fd.Field("u", g)
    u[...] = fd.rate(lambda u: -derivative(u, "x", 3, order=4), implicit=True)
    u[...] += fd.rate(lambda u: -3 * derivative(u * u, "x", order=4))
    u[0] = lambda x: 0.5 / jnp.cosh(0.5 * x) ** 2
    plan = fd.plan(u, stepper=SBDF3())
    assert "1.04538 of the rates marked implicit by themselves, no step is stable" in str(plan)
    with pytest.warns(fd.FdsolveWarning, match="unstable, by the rates marked implicit alone: a mode grows by 1.045"):
        fd.solve(u, stepper=SBDF3(), save=fd.final())
    assert "on u[...] is not affine" in fd.plan(u, stepper=ARK3()).stability.reason


def test_a_source_that_varies_does_not_hinder_the_analysis():
    found = fd.plan(field(lambda u, x, t: 0.5 * u["t-1"] + jnp.sin(x + t), grid())).stability
    assert found.factor == pytest.approx(0.5)


@pytest.mark.parametrize("rate", [False, True], ids=["level", "rate"])
def test_factors_that_are_not_finite_are_told(rate):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis(0, 1, num=6, periodic=True))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u, k: fd.schemes.laplacian(u) / k) if rate else lambda u, k: u["t-1"] / k
    u[0] = lambda x: 1.0 + x
    assert "on u[...] has a factor that is not finite" in str(fd.plan(u, k=0.0))
    with pytest.warns(fd.FdsolveWarning, match="not finite at 6 of 6 points"):
        fd.solve(u, k=0.0)


def test_a_level_that_reads_itself_is_analysed_where_that_fades():
    rng = np.random.default_rng(3)
    both = set()
    for a, b in rng.uniform(-1.6, 1.6, (20, 2)):
        g = fd.Grid(t=fd.Time(0.0, 3.0, num=4), x=fd.Axis(0.0, 1.0, 9))
        u = fd.Field("u", g)
        u[...] = lambda u, a=a, b=b: 0.3 * u["t-1"] + a * u["x-1"] + b * u["x-2"]
        u[0] = 1.0
        u[:, :2] = 1.0
        fades = bool((np.abs(np.roots([1, -a, -b])) < 1).all())
        found = fd.plan(u).stability
        assert hasattr(found, "largest") == fades
        if fades:
            phase = np.exp(-1j * np.linspace(-np.pi, np.pi, 129))
            assert found.factor == pytest.approx(np.abs(0.3 / (1 - a * phase - b * phase**2)).max(), rel=1e-6)
        both.add(fades)
    assert both == {True, False}


@pytest.mark.parametrize("weight", [1.0, -1.0, 2.0])
def test_running_sums_within_a_level_are_computed(weight):
    g = fd.Grid(t=fd.Time(0.0, 3.0, num=4), x=fd.Axis(0.0, 5.0, 6))
    u = fd.Field("u", g, dtype=float)
    u[...] = lambda u, w: u["t-1"] + w * u["x-1"]
    u[0] = 1.0
    u[:, 0] = 1.0
    wanted = np.ones((4, 6))
    for n in range(1, 4):
        for i in range(1, 6):
            wanted[n, i] = wanted[n - 1, i] + weight * wanted[n, i - 1]
    np.testing.assert_allclose(fd.solve(u, w=weight)["u"], wanted, rtol=1e-13)
    assert "sums up what it reads of its own level" in fd.plan(u, w=weight).stability.reason
    with pytest.raises(fd.PlanningError, match="does not fade"):
        fd.analyse(u, w=weight)


def test_running_sums_in_two_axes_and_beside_rates():
    g = fd.Grid(t=fd.Time(0.0, 0.3, num=4), x=fd.Axis(0.0, 1.0, 6), z=fd.Axis(0.0, 1.0, 5))
    u = fd.Field("u", g, dtype=float)
    u[...] = lambda u: u["x-1"] + u["z-1"] - u["x-1", "z-1"] + u["t-1"]
    u[0] = lambda x, z: x + z
    u[:, 0] = u[:, :, 0] = 0.0
    wanted = np.add.outer(np.linspace(0, 1, 6), np.linspace(0, 1, 5))
    for _ in range(3):
        below = np.zeros_like(wanted)
        below[1:, 1:] = np.cumsum(np.cumsum(wanted[1:, 1:], 0), 1)
        wanted = below
    np.testing.assert_allclose(fd.solve(u)["u"][-1], wanted, rtol=1e-13)

    density, pressure = fd.Field("density", g, dtype=float), fd.Field("pressure", g, dtype=float)
    density[...] = fd.rate(lambda density: -density)
    density[0] = 1.0
    pressure[...] = lambda pressure, density, dz: pressure["z-1"] + dz * density
    pressure[:, :, 0] = 0.0
    made = fd.plan([density, pressure])
    assert "sums up" in made.stability.reason
    found = fd.solve([density, pressure])
    columns = np.cumsum(np.asarray(found["density"])[:, :, 1:], axis=-1) * 0.25
    np.testing.assert_allclose(np.asarray(found["pressure"])[:, :, 1:], columns, rtol=1e-12)
