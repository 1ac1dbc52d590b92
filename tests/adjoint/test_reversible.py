"""Steps taken back: the same derivatives as those of kept steps, and what cannot be taken back says so."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import derivative, laplacian

Declared = fd.Field | tuple[fd.Field, ...]


def string(wall: Any, layer: Any = None, num: int = 25, steps: int = 40) -> fd.Field:
    """A wave on a line by leapfrog, with a source between the points; without walls where there is none."""
    axis = fd.Axis(0.0, 1.0, num=num, periodic=wall is None)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.9, num=steps + 1), x=axis))
    u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + (c[...] * dt) ** 2 * laplacian(u, at="t-1")
    u[:2] = lambda x, a: a * jnp.exp(-50 * (x - 0.4) ** 2)
    u[fd.point(x=0.43)] += lambda t, s: s * 0.01 * jnp.sin(5 * t)
    if wall is not None:
        u[dict(x=[0, -1])] = wall
    if layer is not None:
        u[dict(x=-1)] = layer
    return u


def membrane() -> fd.Field:
    """The same in the plane, order 4, with two kinds of walls, a hole, and a rule that is not linear."""
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=21), x=fd.Axis(0.0, 1.0, num=14), y=fd.Axis(0.0, 1.0, num=13))
    u = fd.Field("u", grid)
    u[...] = lambda u, c, dt: (
        2 * u["t-1"] - u["t-2"] + dt**2 * (c[...] ** 2 * laplacian(u, at="t-1", order=4) - jnp.sin(u["t-1"]))
    )
    u[:2] = lambda x, y, a: a * jnp.exp(-20 * ((x - 0.3) ** 2 + (y - 0.5) ** 2))
    u[fd.point(x=0.33, y=0.71)] += lambda t, s: s * 0.1 * jnp.sin(5 * t)
    u[dict(x=[0, -1])], u[dict(y=[0, -1])] = fd.boundary.Dirichlet(lambda t: 0.3 * t), fd.boundary.Neumann(0.1)
    u[fd.where(lambda x, y: (x - 0.7) ** 2 + (y - 0.3) ** 2 < 0.01)] = fd.boundary.Neumann(0.0)
    return u


def sound() -> tuple[fd.Field, ...]:
    """Pressure and velocity on a staggered grid: v moves p, and the new p moves v."""
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=21), x=fd.Axis(0.0, 1.0, num=10, periodic=True), y=fd.Axis(0.0, 1.0, num=9))
    p = fd.Field("p", grid)
    v, w = fd.Field("v", grid, at=dict(x="face")), fd.Field("w", grid, at=dict(y="face"))
    p[...] = lambda p, v, w, c, dt: (
        p["t-1"] - dt * c[...] * (derivative(v, "x", at="t-1") + derivative(w, "y", at="t-1"))
    )
    v[...] = lambda p, v, s, dt: v["t-1"] - dt * s * derivative(p, "x")
    w[...] = lambda p, w, s, dt: w["t-1"] - dt * s * derivative(p, "y")
    p[0] = lambda x, y, a: a * jnp.exp(-20 * ((x - 0.4) ** 2 + (y - 0.5) ** 2))
    v[0] = w[0] = 0.0
    p[dict(y=[0, -1])] = fd.boundary.Dirichlet(0.0)
    return p, v, w


def pendulums() -> tuple[fd.Field, ...]:
    """The sine–Gordon equation as two rates, with a wall that moves."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=31), x=fd.Axis(0.0, 1.0, num=14))
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.rate(lambda v: v[...])
    v[...] = fd.rate(lambda u, c: c[...] ** 2 * laplacian(u) - jnp.sin(u[...]))
    u[0] = lambda x, a: a * jnp.sin(np.pi * x) ** 2
    v[0] = 0.0
    u[dict(x=0)], u[dict(x=-1)] = fd.boundary.Dirichlet(lambda t: 0.3 * t), fd.boundary.Neumann(0.1)
    v[fd.point(x=0.33)] += fd.rate(lambda t, s: s * jnp.sin(t))
    return u, v


def duct() -> tuple[fd.Field, ...]:
    """Pressure and velocity as rates on a staggered line that ends in a matched layer."""
    grid = fd.Grid(t=fd.Time(0.0, 1.2, num=41), x=fd.Axis(0.0, 1.0, num=31))
    p, v = fd.Field("p", grid), fd.Field("v", grid, at=dict(x="face"))
    p[...] = fd.rate(lambda v, c: -c[...] * derivative(v, "x"))
    v[...] = fd.rate(lambda p, s: -s * derivative(p, "x"))
    p[0], v[0] = (lambda x, a: a * jnp.exp(-60 * (x - 0.4) ** 2)), 0.0
    p[dict(x=0)] = fd.boundary.Dirichlet(0.0)
    fd.together(p, v)[dict(x=-1)] = fd.boundary.PML(4, speed=1.0)
    return p, v


def at(shape: tuple[int, ...]) -> dict[str, jax.Array]:
    """Parameters: a field of speeds, the amplitude of the initial state and that of the source."""
    return dict(c=jnp.linspace(0.6, 1.0, int(np.prod(shape))).reshape(shape), a=jnp.asarray(0.7), s=jnp.asarray(1.1))


def make_loss(declare: Callable[[], Declared], adjoint: Any, **options: Any) -> Callable[[Any], jax.Array]:
    def loss(parameters: dict[str, Any]) -> jax.Array:
        declared = declare()
        names = [one.name for one in (declared if isinstance(declared, tuple) else (declared,))]
        solution = fd.solve(declared, adjoint=adjoint, **{"save": fd.final(), **options}, **parameters)
        return sum((jnp.sum(jnp.sin(3 * solution[name])) for name in names), jnp.zeros(()))

    return loss


WALL = fd.boundary.Dirichlet(lambda t: 0.3 * t)
SAVED = fd.adjoint.Reversible(layer="saved")
STEPS = jnp.array([0.0, 2e-3, 1e-3])
CASES: dict[str, tuple[Callable[[], Declared], tuple[int, ...], Any, dict[str, Any]]] = {
    "without walls": (lambda: string(None), (25,), fd.adjoint.Reversible(), {}),
    "walls of given value, some levels": (lambda: string(WALL), (25,), fd.adjoint.Reversible(), dict(save=fd.every(9))),
    "walls of given slope, receivers": (
        lambda: string(fd.boundary.Neumann(0.1)), (25,), fd.adjoint.Reversible(),
        dict(save=fd.receivers(dict(x=np.array([0.21, 0.77])), every=2)),
    ),
    "a sponge that is kept": (lambda: string(WALL, fd.boundary.Sponge(0.2, 15.0)), (25,), SAVED, {}),
    "a matched layer that is kept": (lambda: string(fd.boundary.Dirichlet(0.0), fd.boundary.PML(5)), (25,), SAVED, {}),
    "in the plane": (membrane, (14, 13), fd.adjoint.Reversible(), {}),
    "a staggered pair": (sound, (10, 9), fd.adjoint.Reversible(), {}),
    "Størmer–Verlet": (pendulums, (14,), fd.adjoint.Reversible(), dict(stepper=fd.schemes.StormerVerlet())),
    "a matched layer under Størmer–Verlet": (duct, (31,), SAVED, dict(stepper=fd.schemes.StormerVerlet())),
    "leapfrog": (pendulums, (14,), fd.adjoint.Reversible(), dict(stepper=fd.schemes.Leapfrog())),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_kept_steps(name: str) -> None:
    declare, shape, adjoint, options = CASES[name]
    losses = [make_loss(declare, one, **options) for one in (fd.adjoint.Full(), adjoint)]
    (value, expected), (again, found) = jax.jit(lambda p: [jax.value_and_grad(one)(p) for one in losses])(at(shape))
    np.testing.assert_allclose(again, value, rtol=1e-13)
    for key in expected:
        size = float(jnp.max(jnp.abs(expected[key])))
        assert size > 1e-3
        np.testing.assert_allclose(found[key], expected[key], rtol=0, atol=1e-11 * size)


def test_a_layer_needs_no_state_for_what_does_not_enter_it() -> None:
    def declare() -> fd.Field:
        return string(WALL, fd.boundary.Sponge(0.2, 15.0))

    full, exact, frozen = (
        make_loss(declare, one) for one in (fd.adjoint.Full(), fd.adjoint.Reversible(), fd.adjoint.Reversible("frozen"))
    )
    point = at((25,))
    speed = point["c"]

    def gradients(p: dict[str, Any]) -> list[Any]:
        outer = {key: value for key, value in p.items() if key != "c"}
        return [jax.grad(full)(p), jax.grad(lambda q: exact(dict(q, c=speed)))(outer), jax.grad(frozen)(p)]

    expected, found, frozen_found = jax.jit(gradients)(point)
    for key in ("a", "s"):
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-12)
        np.testing.assert_allclose(frozen_found[key], expected[key], rtol=1e-12)
    inside = np.arange(25) > 19  # the sponge begins at x = 0.8, on point 19.2
    np.testing.assert_allclose(frozen_found["c"][~inside], expected["c"][~inside], rtol=1e-11, atol=1e-12)
    assert np.abs(expected["c"][inside]).max() > 1e-3
    assert (frozen_found["c"][inside] == 0).all()


def test_both_modes_agree_and_the_gradient_is_a_slope() -> None:
    loss = make_loss(lambda: string(WALL, fd.boundary.Sponge(0.2, 15.0)), fd.adjoint.Reversible("saved"))
    point, direction = at((25,)), dict(c=jnp.cos(jnp.arange(25.0)), a=jnp.asarray(0.4), s=jnp.asarray(-2.0))

    def along(p: dict[str, Any]) -> jax.Array:
        return jax.jvp(loss, (p,), (direction,))[1]

    @jax.jit
    def all_of_it(p: dict[str, Any]) -> Any:
        gradient, curved = jax.jvp(jax.grad(loss), (p,), (direction,))
        moved = jax.vmap(lambda h: loss(jax.tree.map(lambda a, b: a + h * b, p, direction)))(STEPS)
        return along(p), gradient, curved, moved

    slope, gradient, curved, moved = all_of_it(point)
    inner, bend = (sum(jnp.vdot(one[key], direction[key]) for key in point) for one in (gradient, curved))
    np.testing.assert_allclose(slope, inner, rtol=1e-12)
    start, *others = np.asarray(moved)
    steps = np.asarray(STEPS[1:])
    first = others - start - steps * float(slope)
    second = first - steps**2 * float(bend) / 2
    assert np.log2(first[0] / first[1]) == pytest.approx(2, abs=0.1)
    assert np.log2(second[0] / second[1]) == pytest.approx(3, abs=0.1)


def test_vmap_over_parameters() -> None:
    loss = make_loss(lambda: string(WALL, fd.boundary.Sponge(0.2, 15.0)), fd.adjoint.Reversible("frozen"))
    point, scales = at((25,)), jnp.array([1.0, 0.9])

    def one(scale: jax.Array) -> Any:
        return jax.grad(loss)(dict(point, a=scale * point["a"]))

    together, apart = jax.jit(jax.vmap(one))(scales), jax.jit(one)
    for k, scale in enumerate(scales):
        found = apart(scale)
        for key in found:
            np.testing.assert_allclose(together[key][k], found[key], rtol=1e-12, atol=1e-13)


def test_memory_does_not_grow_with_the_steps_but_by_the_rim_of_the_layer() -> None:
    def temporary(adjoint: Any, steps: int, layer: Any = None) -> int:
        loss = make_loss(lambda: string(WALL, layer, 2000, steps), adjoint)
        found = jax.jit(jax.grad(loss)).lower(at((2000,))).compile().memory_analysis()
        assert found is not None
        return int(found.temp_size_in_bytes)

    state = 2002 * 8
    few, many = (temporary(fd.adjoint.Reversible(), steps) for steps in (100, 400))
    assert few < 45 * state
    assert many - few < 10 * state
    rim = temporary(fd.adjoint.Reversible("frozen"), 400, fd.boundary.Sponge(0.2, 15.0))
    assert rim < 45 * state
    assert temporary(fd.adjoint.Full(), 400) > 350 * state


def test_the_plan_says_what_is_kept() -> None:
    options = dict(save=fd.final(), **{key: float(np.mean(value)) for key, value in at((25,)).items()})
    shown = str(fd.plan(string(WALL), adjoint=fd.adjoint.Reversible(), **options))
    text = "Reversible(layer='exact'): undoes all 40 steps from the last state, 400 bytes; each costs one more\n"
    assert f"Adjoint: {text}" in shown
    layer = string(WALL, fd.boundary.Sponge(0.2, 15.0))
    shown = str(fd.plan(layer, adjoint=fd.adjoint.Reversible(), **options))
    assert "keeps 8 bytes at every step beside what is lost, 320 in all" in shown
    fd.plan(layer, adjoint=fd.adjoint.Reversible(memory=320), **options)
    with pytest.raises(fd.RunError, match=r"keeps 8 bytes .* at each of \d+ steps. Give at least memory=3\d\d,"):
        fd.plan(layer, adjoint=fd.adjoint.Reversible(memory=300), **options)


def test_few_steps_are_differentiated_as_they_are() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=4), x=fd.Axis(0.0, 1.0, num=9)))
    u[...] = fd.rate(lambda u, k: k * fd.schemes.laplacian(u))
    u[0] = 1.0
    u[dict(x=[0, -1])] = 0.0
    options = dict(stepper=fd.schemes.RK4(), save=fd.final(), adjoint=fd.adjoint.Reversible())
    shown = str(fd.plan(u, k=0.1, **options))
    assert "differentiates so few steps (3) as they are" in shown and "undoes" not in shown


def test_layers_under_steppers_are_kept_whole() -> None:
    options = dict(stepper=fd.schemes.StormerVerlet(), save=fd.final(), c=1.0, s=1.0, a=1.0)
    with pytest.raises(fd.PlanningError, match=r"absorbing layer, and the stages of StormerVerlet.*layer='saved'"):
        fd.plan(duct(), adjoint=fd.adjoint.Reversible(), **options)
    shown = str(fd.plan(duct(), adjoint=SAVED, **options))
    kept = int(shown.split("keeps ")[1].split(" bytes at every step")[0])
    assert f"{40 * kept} in all" in shown
    assert kept < (31 + 30) * 8 * 1.5


def heat() -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=14), x=fd.Axis(0.0, 1.0, num=12)))

    def heat(u: Any, dt: Any) -> Any:
        return u["t-1"] + dt * laplacian(u, at="t-1")

    u[...] = heat
    u[0] = lambda x: jnp.sin(x)
    u[dict(x=[0, -1])] = 0.0
    return u


def decay() -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=14), x=fd.Axis(0.0, 1.0, num=12)))
    u[...] = lambda u, k=0.3: u["t-1"] * (1 - k)
    u[0] = 1.0
    return u


def relaxed() -> fd.Field:
    u = heat()
    u[...] = fd.rate(lambda u: laplacian(u))
    u[0] = lambda x: jnp.sin(x)
    u[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.0)
    return u


def swept() -> fd.Field:
    u = heat()
    u[1:, 1:-1] = lambda u: 0.5 * (u["x-1"] + u["t-1", "x+1"])
    return u


def recurrence(rule: Callable[..., Any], dtype: Any = float) -> fd.Field:
    """Two older levels, on a ring."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.2, num=13), x=fd.Axis(0.0, 12.0, num=12, periodic=True)), dtype=dtype)
    u[...] = rule
    u[:2] = np.random.default_rng(0).normal(size=(2, 12)).astype(dtype)
    return u


def around(u: Any) -> Any:
    return 0.3 * u["t-1"] + 0.1 * u["t-1", "x-1"]


LOST: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "sign of the change": (lambda u: around(u) - u["t-2"] - 0.05 * jnp.sign(u["t-1"] - u["t-2"]), float),
    "floor": (lambda u: around(u) + u["t-2"] + jnp.floor(u["t-2"]), float),
    "no derivative by a part": (lambda u: around(u) + u["t-2"] + 0.2 * jax.lax.stop_gradient(u["t-2"]), float),
    "a choice by its value": (lambda u: around(u) - u["t-2"] + jnp.where(u["t-2"] > 0.1, 1.0, 0.0), float),
    "conjugate": (lambda u: around(u) + jnp.conj(u["t-2"]), complex),
    "real part": (lambda u: around(u) + jnp.real(u["t-2"]).astype(complex), complex),
    "twice the real part less all": (lambda u: around(u) + 2 * jnp.real(u["t-2"]).astype(complex) - u["t-2"], complex),
}
FOUND: dict[str, tuple[Callable[..., Any], Any]] = {
    "a choice by place": (lambda u, x: jnp.where(x > 5.0, around(u), jnp.sin(u["t-1"])) - u["t-2"], float),
    "a choice by what is newer": (lambda u: jnp.where(u["t-1"] > 0.1, 0.0, jnp.abs(u["t-1"])) + u["t-2"], float),
    "a derivative of its own in what is newer": (lambda u: jax.nn.relu(around(u)) - u["t-2"], float),
    "conjugate of what is newer": (lambda u: 0.2j * jnp.conj(around(u)) + u["t-2"], complex),
    "a weight on the circle": (lambda u: 0.2j * around(u) + (0.6 + 0.8j) * u["t-2"], complex),
}


@pytest.mark.parametrize("name", LOST)
def test_what_is_not_affine_in_the_oldest_value_is_refused(name: str) -> None:
    rule, dtype = LOST[name]
    reason = r"`lambda` on u.* cannot be undone: it is not affine in its own old value, t-2.*fd\.adjoint\.Checkpointed"
    with pytest.raises(fd.PlanningError, match=reason):
        fd.plan(recurrence(rule, dtype), save=fd.final(), adjoint=fd.adjoint.Reversible())


@pytest.mark.parametrize("name", FOUND)
def test_what_is_affine_in_the_oldest_value_alone_is_undone(name: str) -> None:
    rule, dtype = FOUND[name]

    def slope(adjoint: Any) -> jax.Array:
        def loss(c: Any) -> Any:
            u = recurrence(rule, dtype)
            u[fd.point(x=5.3)] += lambda t, c: c * jnp.sin(5 * t)
            return jnp.sum(jnp.abs(fd.solve(u, c=c, save=fd.final(), adjoint=adjoint)["u"]) ** 2)

        return jax.grad(loss)(0.7)

    expected = slope(fd.adjoint.Full())
    assert abs(expected) > 1e-3
    np.testing.assert_allclose(slope(fd.adjoint.Reversible()), expected, rtol=1e-11)


def counted() -> tuple[fd.Field, fd.Field]:
    """A wave whose speed is told by a counter of steps."""
    u = recurrence(lambda u, n: 2 * u["t-1"] - u["t-2"] + 0.01 * n["t-1"].astype(float) * around(u))
    n = fd.Field("n", u.grid, dtype=int)
    n[...] = lambda n: n["t-1"] + 1
    n[0] = 0
    return u, n


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (heat, r"`heat` on u.* cannot be undone: it reads the oldest level kept, t-1, beside its own point"),
        (decay, r"it takes its own old value, t-1, times 0\.7: only ±1 loses nothing\. Take fd\.adjoint\.Checkpointed"),
        (relaxed, r"under RK4\(\) cannot be undone: only symmetric steppers"),
        (swept, r"cannot be undone: its points are computed one after the other"),
        (counted, r"on u.* cannot be undone: it reads `n`, which loses: `n` holds int64, and a step is undone in real"),
    ],
)
def test_what_loses_is_refused(declare: Callable[[], Declared], reason: str) -> None:
    with pytest.raises(fd.PlanningError, match=reason):
        fd.plan(declare(), save=fd.final(), adjoint=fd.adjoint.Reversible())


def test_other_messages() -> None:
    with pytest.raises(fd.DeclarationError, match=r"layer= is one of 'exact', 'frozen', 'saved', got 'thaw'"):
        fd.adjoint.Reversible(layer="thaw")
    with pytest.raises(fd.DeclarationError, match=r"memory= is a whole number of bytes, got -1"):
        fd.adjoint.Reversible(memory=-1)
    loss = make_loss(lambda: string(WALL, fd.boundary.Sponge(0.2, 15.0)), fd.adjoint.Reversible())
    with pytest.raises(fd.PlanningError, match=r"lies in an absorbing layer.* derivative by parameter c needs it"):
        jax.grad(loss)(at((25,)))
    with pytest.raises(fd.PlanningError, match=r"must be told how a step is undone"):
        fd.adjoint.Reversible().march(lambda consts, carry, number: carry, (), (), 0, 3)


@pytest.mark.parametrize("layer", ["exact", "frozen", "saved"])
def test_layers_that_leave_no_points_are_refused(layer: Any) -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.2, num=21), x=fd.Axis(0.0, 1.0, num=21)))
    u[...] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * fd.schemes.laplacian(u, at="t-1")
    u[:2] = lambda x: jnp.exp(-100 * (x - 0.5) ** 2)
    u[dict(x=[0, -1])] = fd.boundary.PML(9)
    wanted = (
        r"on u\[...\] cannot be undone: absorbing layers, which lose, cover all its points.* or the layers fewer cells"
    )
    with pytest.raises(fd.PlanningError, match=wanted):
        fd.plan(u, save=fd.final(), adjoint=fd.adjoint.Reversible(layer=layer))


@pytest.mark.parametrize("layer", ["exact", "frozen"])
def test_places_of_receivers_are_refused_where_a_layer_is_not_known(layer: str) -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.9, num=41), x=fd.Axis(0.0, 1.0, num=21)))
    u[...] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * fd.schemes.laplacian(u, at="t-1")
    u[fd.point(x=0.3)] += lambda t, dt: 40 * dt**2 * jnp.sin(9 * t)
    u[:2] = 0.0
    u[dict(x=[0, -1])] = 0.0
    u[dict(x=-1)] = fd.boundary.Sponge(0.4, 5.0)

    def loss(place: Any, adjoint: Any) -> Any:
        save = fd.receivers([fd.point(x=place), fd.point(x=0.41)])
        return jnp.sum(fd.solve(u, save=save, adjoint=adjoint)["u"] ** 2)

    for place in (0.433, 0.86):
        with pytest.raises(fd.PlanningError, match="by places of receivers needs the state there"):
            jax.grad(loss)(place, fd.adjoint.Reversible(layer=layer))
    found, wanted = (jax.grad(loss)(0.86, one) for one in (fd.adjoint.Reversible(layer="saved"), fd.adjoint.Full()))
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
