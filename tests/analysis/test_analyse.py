"""Modified equations, amplification and dispersion against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import RK4, Euler, derivative, laplacian

H, NUM = 0.05, 20


def grid(step, axes="x", **options):
    names = {name: fd.Axis(0.0, 1.0, NUM, periodic=True, **options) for name in axes}
    return fd.Grid(t=fd.Time(0.0, 10 * step, num=11), **names)


def field(rule, g, start=1):
    u = fd.Field("u", g)
    u[:start] = 0.0
    u[start:] = rule
    return u


def errors_of(found, row=0):
    """The leading error terms by name."""
    table = zip(found.term.values, found["error"].values[row], strict=True)
    return {str(term): float(value) for term, value in table if value}


def terms_of(found, row=0):
    table = zip(found.term.values, found["coefficient"].values[row], strict=True)
    return {str(term): float(value) for term, value in table if value}


def upwind(u, c, dt, dx):
    return u["t-1"] - c * dt / dx * (u["t-1"] - u["t-1", "x-1"])


def lax_wendroff(u, c, dt, dx):
    nu = c * dt / dx
    left, here, right = u["t-1", "x-1"], u["t-1"], u["t-1", "x+1"]
    return here - nu / 2 * (right - left) + nu**2 / 2 * (right - 2 * here + left)


def heat(u, c, dt):
    return u["t-1"] + c * dt * laplacian(u, at="t-1")


def wave(u, c, dt):
    return 2 * u["t-1"] - u["t-2"] + (c * dt) ** 2 * laplacian(u, at="t-1")


def test_upwind():
    c, step = 2.0, 0.01
    nu = c * step / H
    found = fd.analyse(field(upwind, grid(step)), c=c)
    assert terms_of(found) == pytest.approx({"u_x": -c})
    assert errors_of(found) == pytest.approx({"u_xx": c * H / 2 * (1 - nu)})
    assert found.attrs["order"] == pytest.approx([1.0])
    assert found.attrs["largest_step"] == pytest.approx(H / c, rel=1e-4)
    theta = found.theta_x.values
    growth = 1 - nu + nu * np.exp(-1j * theta)
    np.testing.assert_allclose(found.amplification[0], abs(growth), atol=1e-12)
    speed = -np.unwrap(np.angle(growth)) / (nu * theta)
    np.testing.assert_allclose(found.phase_error[0], speed - 1, atol=1e-9)
    assert found.summary().startswith("u_t = −2 u_x + [0.03 u_xx + …]\n  order 1 as Δx → 0")
    assert repr(found).startswith(found.summary())


def test_lax_wendroff():
    c, step = 2.0, 0.01
    nu = c * step / H
    found = fd.analyse(field(lax_wendroff, grid(step)), c=c)
    assert errors_of(found) == pytest.approx({"u_xxx": -c * H**2 / 6 * (1 - nu**2)})
    assert found.attrs["order"] == pytest.approx([2.0])
    theta = found.theta_x.values
    growth = 1 - 1j * nu * np.sin(theta) - 2 * nu**2 * np.sin(theta / 2) ** 2
    np.testing.assert_allclose(found.amplification[0], abs(growth), atol=1e-12)


def test_explicit_heat_balances_errors_in_space_and_time():
    c, step = 0.5, 1e-3
    found = fd.analyse(field(heat, grid(step)), c=c)
    assert terms_of(found) == pytest.approx({"u_xx": c})
    assert errors_of(found) == pytest.approx({"u_xxxx": c * H**2 / 12 - c**2 * step / 2})
    assert found.attrs["order"] == pytest.approx([2.0])
    assert "Δt ∝ Δx²" in found.summary()


def test_advection_and_diffusion_by_forward_differences():
    c, step = 0.05, 1e-3
    rule = lambda u, dt: u["t-1"] + dt * (c * laplacian(u, at="t-1") - derivative(u, "x", at="t-1"))[...]  # noqa: E731
    found = fd.analyse(field(rule, grid(step)))
    assert terms_of(found) == pytest.approx({"u_x": -1.0, "u_xx": c})
    assert errors_of(found)["u_xx"] == pytest.approx(-step / 2)


def test_leapfrog_wave_in_two_axes():
    c, step = 1.5, 0.02
    found = fd.analyse(field(wave, grid(step, "xy"), 2), c=c)
    along = c**2 * (H**2 - (c * step) ** 2) / 12
    assert terms_of(found) == pytest.approx({"u_xx": c**2, "u_yy": c**2})
    assert errors_of(found) == pytest.approx({"u_xxxx": along, "u_yyyy": along, "u_xxyy": -(c**4) * step**2 / 6})
    assert found.summary().startswith("u_tt = 2.25 u_xx + 2.25 u_yy + [")
    assert found.attrs["largest_step"] == pytest.approx(H / np.sqrt(2) / c, rel=1e-4)
    np.testing.assert_allclose(found.amplification, 1.0, atol=1e-7)
    k_x, k_y = np.meshgrid(found.theta_x, found.theta_y, indexing="ij")
    swing = (c * step / H) ** 2 * (np.sin(k_x / 2) ** 2 + np.sin(k_y / 2) ** 2)
    exact = c * step / H * np.hypot(k_x, k_y)
    np.testing.assert_allclose(found.phase_error[1], 2 * np.arcsin(np.sqrt(swing)) / exact - 1, atol=1e-7)


def test_leapfrog_advection_has_a_parasite():
    rule = lambda u, c, dt, dx: u["t-2"] - c * dt / dx * (u["t-1", "x+1"] - u["t-1", "x-1"])  # noqa: E731
    found = fd.analyse(field(rule, grid(0.01), 2), c=2.0)
    assert errors_of(found) == pytest.approx({"u_xxx": -2.0 * H**2 / 6 * (1 - 0.16)})
    np.testing.assert_allclose(found.amplification, 1.0, atol=1e-9)
    np.testing.assert_allclose(found.parasites, 1.0, atol=1e-9)
    # sin ωΔt = ν sin θ: the group stands at θ = π/2 and runs backwards at π.
    theta = found.theta_x.values
    expected = np.cos(theta) / np.sqrt(1 - 0.16 * np.sin(theta) ** 2) - 1
    np.testing.assert_allclose(found.group_error[0], expected, atol=1e-6)


CONSTANTS = {
    1: {2: (H**2 / 6, 3), 4: (-(H**4) / 30, 5), 6: (H**6 / 140, 7)},
    2: {2: (H**2 / 12, 4), 4: (-(H**4) / 90, 6), 6: (H**6 / 560, 8), 8: (-(H**8) / 3150, 10)},
}


@pytest.mark.parametrize(("n", "order"), [(n, order) for n, table in CONSTANTS.items() for order in table])
def test_central_differences_of_rates(n, order):
    """Leading errors h²/6, h⁴/30, h⁶/140 of first and h²/12, h⁴/90, h⁶/560, h⁸/3150 of second derivatives."""
    found = fd.analyse(field(fd.rate(lambda u: derivative(u, "x", n, order=order)), grid(1e-4)), stepper=RK4())
    constant, degree = CONSTANTS[n][order]
    (name, value), *rest = errors_of(found).items()
    assert not rest
    assert name == ("u_" + "x" * degree if degree < 5 else f"u_{degree}x")
    assert value == pytest.approx(constant, rel=1e-6)
    assert found.attrs["order"] == pytest.approx([order], abs=0.01)
    assert f"order {order} in space, 4 in time (RK4())" in found.summary()


def test_the_stepper_decides_growth():
    rate = fd.rate(lambda u, c: -c * derivative(u, "x"))
    found = fd.analyse(field(rate, grid(0.01)), stepper=Euler(), c=1.0)
    theta = found.theta_x.values
    np.testing.assert_allclose(found.amplification[0], abs(1 - 1j * 0.2 * np.sin(theta)), atol=1e-12)
    assert "no step is stable" in found.summary()


def test_a_nonlinear_rule_is_linearised_about_a_state():
    u = field(fd.rate(lambda u: -u * derivative(u, "x")), grid(1e-3))
    found = fd.analyse(u, about=dict(u=1.5))
    assert terms_of(found) == pytest.approx({"u_x": -1.5})
    assert found.attrs["largest_step"] == pytest.approx(np.sqrt(8) * H / 1.5, rel=1e-3)
    with pytest.raises(fd.PlanningError, match=r"not affine.* about=dict\(u=1.0\)"):
        fd.analyse(u)


def test_varying_weights_are_frozen_at_a_place():
    u = field(fd.rate(lambda u, x, t: -jnp.sin(x + t) * derivative(u, "x")[...]), grid(1e-3))
    found = fd.analyse(u, at=dict(x=0.5, t=0.005))
    assert terms_of(found) == pytest.approx({"u_x": -np.sin(0.505)}, rel=1e-9)
    assert errors_of(found) == pytest.approx({"u_xxx": -np.sin(0.505) * H**2 / 6}, rel=1e-6)
    with pytest.raises(fd.PlanningError, match=r"vary in space or time. Freeze them at a place: at=dict\(t=…, x=…\)"):
        fd.analyse(u)


def test_a_staggered_pair_and_its_speeds():
    g = grid(0.01, cells=True)
    p, v = fd.Field("p", g), fd.Field("v", g, at=dict(x="face"))
    p[0] = v[0] = 0.0
    v[1:] = lambda v, p, dt: v["t-1"] - dt * derivative(p, "x", at="t-1")
    p[1:] = lambda v, p, dt, c: p["t-1"] - dt * c**2 * derivative(v, "x")
    found = fd.analyse([p, v], c=2.0)
    assert terms_of(found, 0) == pytest.approx({"v_x": -4.0})
    assert terms_of(found, 1) == pytest.approx({"p_x": -1.0})
    exact = 2.0 * 0.01 / H * found.theta_x.values
    numerical = 2 * np.arcsin(2.0 * 0.01 / H * np.sin(found.theta_x.values / 2))
    np.testing.assert_allclose(found.phase_error, np.stack([numerical / exact - 1] * 2), atol=1e-8)


def test_a_complex_field():
    g = grid(1e-4)
    psi = fd.Field("psi", g, dtype=complex)
    psi[0] = 0.0
    psi[1:] = fd.rate(lambda psi: 0.5j * laplacian(psi))
    found = fd.analyse(psi)
    (value,) = found["coefficient"].values[0][found["coefficient"].values[0] != 0]
    assert value == pytest.approx(0.5j)
    np.testing.assert_allclose(found.amplification, 1.0, atol=1e-6)


def test_it_plots_itself():
    found = fd.analyse(field(wave, grid(0.02, "xy"), 2), c=1.5)
    figure = found.plot()
    assert [axis.get_xlabel() for axis in figure.axes] == ["θ = k Δx", "θ = k Δx"]
    assert len(figure.axes[0].lines) == 2 * 2 * 3 + 1
    assert found.theta_x.attrs["units"] == "rad"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(about=dict(w=1.0)), "about= names `w`; known are u"),
        (dict(about=1.0), "about= takes a dict by name"),
        (dict(at=dict(u=1.0)), "at= names `u`; known are t, x"),
        (dict(at=dict(x=np.ones(2))), "at= takes one number a name"),
        (dict(wavenumbers=2), "wavenumbers= takes a whole number of at least 4, got 2"),
    ],
)
def test_wrong_use_is_told(options, message):
    with pytest.raises(fd.DeclarationError, match=message):
        fd.analyse(field(heat, grid(1e-3)), c=0.5, **options)


def test_what_has_no_analysis_is_told():
    stretched = fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis.from_points([0.0, 0.1, 0.3, 0.6, 1.0]))
    u = fd.Field("u", stretched)
    u[...] = fd.rate(lambda u: laplacian(u))
    u[0] = 0.0
    u[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.0)
    with pytest.raises(fd.PlanningError, match="vary along the stretched axis `x`"):
        fd.analyse(u)
    still = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, 5)))
    still[...] = 1.0
    with pytest.raises(fd.PlanningError, match="the grid has no time axis"):
        fd.analyse(still)
