"""Absorbing layers: stability, corners, gradients, what the plan tells, and what is refused."""

import doctest

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import PML, Dirichlet
from fdsolve.errors import DeclarationError, PlanningError
from fdsolve.schemes import ADI, RK4, CrankNicolson, Leapfrog, compact, curl, derivative, divergence, laplacian, weights
from fdsolve.schemes import _root as root_module
from fdsolve.schemes._root import root_weights

EIGHT, TEN = PML(8), PML(10)


def bump(x, y):
    return jnp.exp(-((x - 12) ** 2 + (y - 10) ** 2) / 6)


def square(levels, step, num=26):
    sides = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    return fd.Grid(t=fd.Time(0.0, (levels - 1) * step, num=levels), **sides)


def drum(levels, order, step=0.45, wall=EIGHT, num=26):
    """u_tt = ∇²u in a square with layers on all sides."""
    u = fd.Field("u", square(levels, step, num))
    u[...] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * laplacian(u, at="t-1", order=order)
    u[:2] = bump
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = wall
    return (u,)


def string(levels, order):
    """u_tt = u_xx between two layers."""
    grid = fd.Grid(t=fd.Time(0.0, (levels - 1) * 0.45, num=levels), x=fd.Axis(0.0, 31.0, num=32))
    u = fd.Field("u", grid)
    u[...] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * laplacian(u, at="t-1", order=order)
    u[:2] = lambda x: bump(x, 10)
    u[dict(x=[0, -1])] = EIGHT
    return (u,)


def staggered(levels, order):
    """p_t = −v_x, v_t = −p_x as rates on a staggered grid between two layers."""
    grid = fd.Grid(t=fd.Time(0.0, (levels - 1) * 0.45, num=levels), x=fd.Axis(0.0, 31.0, num=32))
    p, v = fd.Field("p", grid), fd.Field("v", grid, at=dict(x="face"))
    p[...] = fd.rate(lambda v: -derivative(v, "x", order=order))
    v[...] = fd.rate(lambda p: -derivative(p, "x", order=order))
    p[0], v[0] = (lambda x: bump(x, 10)), 0.0
    fd.together(p, v)[dict(x=[0, -1])] = EIGHT
    return p, v


@pytest.mark.parametrize(
    "make, order", [(drum, 2), (string, 8), (staggered, 4)], ids=["drum 2", "string 8", "staggered 4"]
)
def test_nothing_grows_in_twenty_thousand_steps(make, order):
    fields = make(20_001, order)
    history = np.array(fd.solve(fields, save=fd.every(200))[fields[0].name])
    energy = (history**2).reshape(len(history), -1).sum(axis=1)
    gone, half, last = energy[1], energy[50], energy[-1]
    print(f"{make.__name__}, order {order}: Σu² {energy[0]:.1e}, {gone:.1e} after 200, {last:.1e} after 20 000 steps")
    assert gone < 1e-5 * energy[0]
    # What does not change in time may be left of a pulse, and stays: s is infinite at ω = 0.
    assert last <= gone * (1 + 1e-6)
    assert last < 1.2 * half


def test_waves_leave_through_sides_and_corners():
    here = np.array(fd.solve(drum(61, 4))["u"])
    u = fd.Field("u", square(61, 0.45, 26 + 60))
    u[...] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * laplacian(u, at="t-1", order=4)
    u[:2] = lambda x, y: bump(x - 30, y - 30)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = Dirichlet(0.0)
    free = np.array(fd.solve(u)["u"])[:, 30:-30, 30:-30]
    inside = (slice(None), slice(9, -9), slice(9, -9))
    error = 20 * np.log10(np.abs(here[inside] - free[inside]).max())
    print(f"eight cells, from all directions: {error:.1f} dB of the pulse")
    assert error < -45


@pytest.mark.parametrize("degrees, bound", [(30, -60), (60, -40)])
def test_oblique_waves(degrees, bound):
    """A plane wave of twelve points a wavelength, oblique to a layer, periodic along it."""
    along = 2 * np.pi / 12 * np.sin(np.radians(degrees))
    stop = float(round(110 / np.cos(np.radians(degrees))))

    def trace(num, wall):
        y = fd.Axis(0.0, 2 * np.pi / along, num=8, periodic=True)
        grid = fd.Grid(t=fd.Time(0.0, stop, step=0.5), x=fd.Axis(0.0, num - 1.0, num=num), y=y)
        u, middle = fd.Field("u", grid), num // 2
        u[...] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * laplacian(u, at="t-1", order=2)
        u[:2] = 0.0
        u[2:, middle] += lambda t, y, dt: (
            dt**2 * jnp.exp(-(((t - 30) / 10) ** 2)) * jnp.cos(along * y - 2 * jnp.pi / 12 * (t - 30))
        )
        u[dict(x=[0, -1])] = wall
        return np.array(fd.solve(u)["u"])[:, middle - 12, 0]

    here, free = trace(81, PML(20)), trace(81 + 160, Dirichlet(0.0))
    found = 20 * np.log10(np.abs(here - free).max() / np.abs(free).max())
    print(f"{degrees} degrees: {found:.1f} dB")
    assert found < bound


def layered(num=61, levels=121):
    """u_tt = ∂(k ∂u) with a coefficient that varies, in the layers too."""
    grid = fd.Grid(t=fd.Time(0.0, 0.4 * (levels - 1), num=levels), x=fd.Axis(0.0, num - 1.0, num=num))
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.rate(lambda v: v)
    v[...] = fd.rate(lambda u, k: divergence(k, u, order=4))
    u[0] = lambda x, x0=30.0: jnp.exp(-(((x - x0) / 3) ** 2))
    v[0] = 0.0
    fd.together(u, v)[dict(x=[0, -1])] = PML(12)
    return u, v


def test_coefficients_that_vary():
    def medium(x):
        return 1 + 0.3 * np.sin(x / 9)

    u, v = layered()
    k = medium(np.arange(61.0) - 30)
    here = fd.solve((u, v), k=k)["u"]
    assert f"wave speed {np.sqrt(np.max(np.r_[k[:12], k[-12:]])):.3f}"[:15] in str(fd.plan((u, v), k=k))
    num = 61 + 80
    grid = fd.Grid(t=fd.Time(0.0, 48.0, num=121), x=fd.Axis(-40.0, 100.0, num=num))
    a, b = fd.Field("a", grid), fd.Field("b", grid)
    a[...] = fd.rate(lambda b: b)
    b[...] = fd.rate(lambda a, k: divergence(k, a, order=4))
    a[0], b[0] = (lambda x: jnp.exp(-(((x - 30) / 3) ** 2))), 0.0
    fd.together(a, b)[dict(x=[0, -1])] = Dirichlet(0.0)
    # Beyond the layer the medium goes on as it is mirrored there: only what the layer itself reflects differs.
    free = fd.solve((a, b), k=medium(np.arange(-40.0, 101.0) - 30))["a"]
    scatter = np.abs(np.array(here)[:, 13:-13] - np.array(free)[:, 53:-53]).max()
    assert scatter < 2e-2


def test_gradients_through_a_layer():
    def end(start, k):
        grid = fd.Grid(t=fd.Time(0.0, 20.0, step=0.4), x=fd.Axis(0.0, 40.0, num=41))
        u = fd.Field("u", grid)
        u[...] = lambda u, k, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * divergence(k, u, at="t-1")
        u[:2] = start
        u[dict(x=[0, -1])] = PML(12)
        return fd.solve(u, k=k, save=fd.final())["u"][-1]

    rng = np.random.default_rng(3)
    start, k = jnp.asarray(rng.normal(size=41)), jnp.asarray(1 + 0.2 * rng.random(41))
    direction, weight = (jnp.asarray(rng.normal(size=41)) for _ in range(2))
    pushed = jax.jit(lambda s, d: jax.jvp(lambda one: end(one, k), (s,), (d,))[1])(start, direction)
    pulled, slope = jax.jit(lambda s, c, w: jax.vjp(end, s, c)[1](w))(start, k, weight)
    assert abs(pushed @ weight - pulled @ direction) <= 1e-13 * float(jnp.linalg.norm(pushed) * jnp.linalg.norm(weight))

    moved, turn = jax.jit(end), 0.05 * direction
    errors = [abs((moved(start, k + h * turn) - moved(start, k)) @ weight - h * (slope @ turn)) for h in (1e-2, 5e-3)]
    print(f"Taylor: {errors[0]:.2e}, {errors[1]:.2e}")
    assert np.log2(errors[0] / errors[1]) > 1.9


def test_the_found_speed_carries_the_gradient():
    def sigma(c):
        grid = fd.Grid(t=fd.Time(0.0, 1.0, step=0.1), x=fd.Axis(0.0, 60.0, num=61))
        u = fd.Field("u", grid)
        u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + (c * dt) ** 2 * laplacian(u, at="t-1")
        u[:2] = 0.0
        u[dict(x=[0, -1])] = PML(10)
        return fd.plan(u, c=c).operands["profiles"]["pml x lower b"].sum()

    c, h = 1.3, 1e-5
    slope = jax.grad(sigma)(c)
    assert np.isclose(slope, (sigma(c + h) - sigma(c - h)) / (2 * h), rtol=1e-6)
    assert np.isclose(jax.jit(sigma)(c), sigma(c), rtol=1e-12)


def test_the_plan_tells_of_the_layer():
    shown = str(fd.plan(drum(21, 2)))
    assert "PML(8) at the lower end of x on u: 8 cells, 8 thick, σ up to 3.45" in shown
    assert "wave speed 1 found from the rules, 2 memory variables" in shown
    assert "Stability: largest amplification factor 1 at" in shown
    (u,) = drum(21, 2, wall=PML(8, speed=2.0))
    assert "wave speed 2 given" in str(fd.plan(u))


def test_implicit_steppers_solve_for_what_layers_remember():
    ends = []
    for levels, stepper in ((12, CrankNicolson()), (23, CrankNicolson()), (89, RK4())):
        grid = fd.Grid(t=fd.Time(0.0, 4.0, num=levels), x=fd.Axis(0.0, 13.0, num=14))
        p, v = fd.Field("p", grid), fd.Field("v", grid, at=dict(x="face"))
        p[...] = fd.rate(lambda v: -derivative(v, "x"))
        v[...] = fd.rate(lambda p: -derivative(p, "x"))
        p[0], v[0] = (lambda x: jnp.exp(-((x - 5) ** 2) / 4)), 0.0
        fd.together(p, v)[dict(x=[0, -1])] = PML(4)
        found = fd.solve((p, v), stepper=stepper, save=fd.final()).final
        ends.append(np.concatenate([found["p"], found["v"]]))
    errors = [np.abs(end - ends[2]).max() for end in ends[:2]]
    print(f"errors: {errors[0]:.2e}, {errors[1]:.2e}")
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.2


def test_alternating_directions_refuse_layers():
    with pytest.raises(PlanningError, match=r"absorbing layers \(PML\) remember .* Take fd.schemes.CrankNicolson\(\)"):
        fd.solve(staggered(4, 2), stepper=ADI())


def test_outside_the_layer_nothing_changes():
    plans = [fd.plan(drum(21, 4, wall=wall, num=40)).structure for wall in (EIGHT, Dirichlet(0.0))]
    largest = [
        max((s.piece for s in one.phases[-1].stages if s.piece.field == "u"), key=lambda p: p.box.size) for one in plans
    ]
    assert largest[0].box.shape == (18, 18)
    assert plans[0].rules[largest[0].rule] == plans[1].rules[largest[1].rule]


def pieces_of(fields):
    """The pieces of a level, by field."""
    found = {}
    structure = fd.plan(fields).structure
    for stage in structure.phases[-1].stages:
        found.setdefault(stage.piece.field, []).append((stage.piece, structure.rules[stage.piece.rule]))
    return found


@pytest.mark.parametrize("order", [2, 4])
def test_layers_make_few_pieces(order):
    found = pieces_of(drum(5, order))
    inside = [rule for piece, rule in found.pop("u") if piece.box.size > 1 and rule.reads and len(rule.reads) > 1]
    assert len(inside) == 9  # the middle, four sides and four corners
    assert [len(pieces) for pieces in found.values()] == [1] * 8  # two memory variables on each side
    of_u = [{read for read in rule.reads if read.field == "u"} for rule in inside]
    assert all(reads == of_u[0] for reads in of_u)  # what a layer adds is read from its memory


def test_a_stretch_of_the_coordinate_alone_reads_the_slope():
    wall = PML(8, kappa=2.0)
    found = pieces_of(drum(5, 4, wall=wall))
    reads = {len([read for read in rule.reads if read.field == "u"]) for _, rule in found["u"] if len(rule.reads) > 1}
    assert len(reads) == 3  # the middle, sides, corners: a slope more for each axis that is stretched
    here = np.array(fd.solve(drum(61, 4, wall=wall))["u"])
    assert 0 < abs(here[-1]).max() < 1e-2 * abs(here[0]).max()


@pytest.mark.parametrize("order", [2, 4, 6, 8, 10, 12])
def test_the_root_lies_below_the_second_derivative(order):
    reach = order // 2
    second = tuple(float(w) for w in weights(2, tuple(float(k) for k in range(-reach, reach + 1))))
    offsets, root = root_weights(second)
    angles = np.linspace(0, np.pi, 1001)
    p = -sum(w * np.cos(k * angles) for k, w in enumerate(second, -reach))
    q = sum(w * np.sin(o * angles) for o, w in zip(offsets, root, strict=True)) ** 2
    assert (q <= p + 1e-12).all()
    assert np.allclose(p[:100], q[:100], rtol=1e-4)
    assert np.isclose(np.dot(offsets, root), 1.0)


def test_root_doctest():
    assert doctest.testmod(root_module).failed == 0


def wave(u, dt):
    return 2 * u["t-1"] - u["t-2"] + dt**2 * laplacian(u, at="t-1")


def declared(rule=wave, wall=TEN, where=None, num=61, dtype=None, **axis):
    grid = fd.Grid(t=fd.Time(0.0, 10.0, step=0.5), x=fd.Axis(0.0, num - 1.0, num=num, **axis))
    u = fd.Field("u", grid, dtype=dtype)
    u[...] = rule
    u[:2] = 0.0
    u[dict(x=[0, -1]) if where is None else where] = wall
    return u


def test_a_conductor_may_go_on_through_a_layer():
    """Where fields are given there are no waves, and the speed is that of those beside."""
    grid = square(3, 0.4, num=22)
    hz = fd.Field("hz", grid, at=dict(x="face", y="face"))
    ex, ey = (fd.Field(f"e{axis}", grid, at={axis: "face"}) for axis in "xy")
    hz[...] = lambda hz, ex, ey, dt: hz["t-1"] - dt * curl((ex, ey), at="t-1")
    ex[...] = lambda ex, hz, dt: ex["t-1"] + dt * curl(hz)[0]
    ey[...] = lambda ey, hz, dt: ey["t-1"] + dt * curl(hz)[1]
    ex[dict(y=[0, -1])] = ex[dict(y=slice(0, 9))] = ey[dict(y=slice(0, 9))] = 0.0
    fd.together(ex, ey, hz)[dict(x=[0, -1])] = EIGHT
    hz[0], ex[0], ey[0] = bump, 0.0, 0.0
    assert str(fd.plan((hz, ex, ey))).count("wave speed 1 found from the rules") == 2


WRONG = {
    "offsets by hand": (
        lambda: declared(
            lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * (u["t-1", "x+1"] - 2 * u["t-1"] + u["t-1", "x-1"])
        ),
        "at an offset written by hand",
    ),
    "a flux by hand": (
        lambda: declared(lambda u, dt: u["t-1"] + dt * derivative(u, "x", at="t-1")["x+1/2"]),
        "at an offset written by hand",
    ),
    "nonlinear": (lambda: declared(lambda u, dt: u["t-1"] + dt * laplacian(u**2, at="t-1")), "is not affine"),
    "diffusion": (lambda: declared(fd.rate(lambda u: laplacian(u))), "carry no waves along axis `x`"),
    "Schrödinger": (lambda: declared(fd.rate(lambda u: 1j * laplacian(u)), dtype=complex), r"PML\(10, wavenumber="),
    "too thick": (lambda: declared(num=15), "20 cells thick, and axis `x` has 14"),
    "fourth derivative": (
        lambda: declared(lambda u: derivative(u, "x", 4, at="t-1")),
        "first and second order in space",
    ),
    "whole lines": (lambda: declared(fd.rate(lambda u: compact(u, "x")), PML(10, speed=1.0)), "acts on whole lines"),
    "curvilinear": (lambda: declared(metric="radius", where=dict(x=-1)), "axis `x` is curvilinear"),
    "no derivative": (lambda: declared(lambda u: u["t-1"]), "no rule takes derivatives along axis `x`"),
    "a part of a wall": (lambda: partly(), "on a part of this one"),
    "a hole": (lambda: holed(), "reads into a hole in the absorbing layer"),
}


def partly():
    (u,) = drum(21, 2)
    u[2:, 0, 3:9] = 1.0
    return u


def holed():
    (u,) = drum(21, 2)
    u[dict(x=slice(4, 6), y=slice(10, 14))] = fd.boundary.Neumann(0.0)
    return u


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused(name):
    make, message = WRONG[name]
    with pytest.raises(PlanningError, match=message):
        fd.plan(make())


def test_leapfrog_is_refused():
    u, v = layered()
    with pytest.raises(PlanningError, match="Leapfrog amplifies whatever decays"):
        fd.plan((u, v), k=np.ones(61), stepper=Leapfrog())


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: PML(0), "whole number of cells"),
        (lambda: PML(20, reflection=2.0), "between 0 and 1"),
        (lambda: PML(20, kappa=0.5), "at least 1"),
        (lambda: PML(20, speed=-1.0), "speed= is a number"),
        (lambda: PML(20, wavenumber=1.0, speed=2.0), "leave speed, kappa and alpha out"),
        (lambda: fd.plan(declared(periodic=True)), "it has no wall"),
        (lambda: fd.plan(declared(where=dict(x=slice(20, 30)))), "lies along walls"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(DeclarationError, match=message):
        make()


def test_two_layers_on_one_wall_are_refused():
    u, v = layered()
    v[dict(x=0)] = PML(7)
    with pytest.raises(DeclarationError, match="has another absorbing layer"):
        fd.plan((u, v), k=np.ones(61), stepper=RK4())


def test_a_later_condition_takes_the_layer_away():
    u = declared()
    u[dict(x=0)] = Dirichlet(0.0)
    notes = " ".join(fd.plan(u).notes)
    assert "upper end of x" in notes and "at the lower end of x on u" not in notes
