"""Traces of declared problems: the golden numbers through rules of fields, in solves and in streams."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import fdsolve as fd
from fdsolve.adjoint.traces import DRTRL, CannotFollow, PPProp, SnAp

U0 = np.array([1, 2, 0, -1, 3, 0.5, -2, 1])
I16 = np.arange(16.0)


def close(found: Any, wanted: Any, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(found, wanted, rtol=rtol)


def heat(levels: int = 6) -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, levels - 1.0, num=levels), x=fd.Axis(0.0, 8.0, num=8, periodic=True)))
    u[...] = lambda u, nu: u["t-1"] + nu * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
    u[0] = U0
    return u


def learned() -> fd.Field:
    """B: a kernel in three taps, zeros beyond the ends, and a drive that comes with the data."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 5.0, num=6), x=fd.Axis(0.0, 9.0, num=10)))
    u[...] = lambda u, K, X: u["t-1"] + K[0] * u["t-1", "x-1"] + K[1] * u["t-1"] + K[2] * u["t-1", "x+1"] + X[...]
    u[dict(x=[0, -1])] = 0.0
    u[0] = np.pad(U0, 1)
    return u


def faces() -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 6.0, num=7), x=fd.Axis(0.0, 16.0, num=16, periodic=True)))
    u[...] = lambda u, k: u["t-1"] + k[...] * (u["t-1", "x+1"] - u["t-1"]) - k["x-1"] * (u["t-1"] - u["t-1", "x-1"])
    u[0] = np.cos(0.9 * I16) + 0.3 * np.sin(2.1 * I16)
    return u


KAPPA = 0.15 + 0.05 * np.sin(1.3 * I16)


def half_square(u: Any) -> Any:
    return 0.5 * jnp.sum(u**2)


def test_solves_under_grad_give_the_golden_numbers() -> None:
    def loss(adjoint: Any) -> Any:
        return lambda nu: half_square(fd.solve(heat(), nu=nu, adjoint=adjoint, save=fd.final())["u"])

    for rule, wanted in (("diagonal", -4.802379008), ("coupled", -1.45680512)):
        with pytest.warns(fd.FdsolveWarning, match=r'not exact: `nu` \(d_rtrl.*method="forward" is exact'):
            close(jax.jit(jax.grad(loss(fd.adjoint.Online("d_rtrl", rule=rule))))(0.2), wanted)


def test_a_method_for_each_parameter_in_a_solve() -> None:
    """A dict of methods: each parameter's gradient is that of its own method, beside the others."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 5.0, num=6), x=fd.Axis(0.0, 8.0, num=8, periodic=True)))
    u[...] = lambda u, nu, q: (1 + q) * u["t-1"] + nu * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
    u[0] = U0
    point = dict(nu=jnp.asarray(0.2), q=jnp.asarray(0.0))

    def gradient(adjoint: Any) -> Any:
        options = dict(adjoint=adjoint, save=fd.final(), kernel="slices")
        return jax.jit(jax.grad(lambda p: half_square(fd.solve(u, **options, **p)["u"])))

    with pytest.warns(fd.FdsolveWarning, match=r"not exact: `nu` \(d_rtrl(?!.*`q`)"):
        found = gradient(fd.adjoint.Online(dict(nu=DRTRL("coupled"), q="forward")))(point)
    close(found["nu"], -1.45680512)  # golden numbers A, biased; q scales every step alike, and is exact
    levels = [U0]
    for _ in range(5):
        levels.append(levels[-1] + 0.2 * (np.roll(levels[-1], 1) - 2 * levels[-1] + np.roll(levels[-1], -1)))
    close(found["q"], 5 * levels[4] @ levels[5], 1e-12)
    with pytest.raises(fd.DeclarationError, match="`mu` is no parameter"):
        gradient(fd.adjoint.Online(dict(nu="forward", q="forward", mu="forward"))).lower(point)


def test_a_field_of_coefficients_within_patterns() -> None:
    target = np.sin(0.4 * I16)

    def loss(adjoint: Any) -> Any:
        def of(k: Any) -> Any:
            return half_square(fd.solve(faces(), k=k, adjoint=adjoint, save=fd.final())["u"][-1] - target)

        return jax.jit(jax.value_and_grad(of))

    value, exact = loss(fd.adjoint.Forward())(KAPPA)
    close(value, 5.64497626236218)
    close(exact[:3], [-1.249818153638, -2.327382603629, -1.155247553606], 1e-11)
    with pytest.warns(fd.FdsolveWarning, match="not exact"):
        stream = fd.online(
            faces(),
            dict(k=KAPPA),
            loss=lambda state, last: last * half_square(state["u"] - target),
            method="snap",
            n=2,
        )
    for step in range(1, 7):
        near = stream.step(float(step == 6)).gradient["k"]
    close(np.linalg.norm(near - exact) / np.linalg.norm(exact), 0.1875884, 1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fd.FdsolveWarning)
        solved = [loss(fd.adjoint.Online("snap", n=n))(KAPPA)[1] for n in range(1, 7)]
    errors = [np.linalg.norm(one - exact) / np.linalg.norm(exact) for one in solved]
    close(errors[:5], [0.6182627, 0.1875884, 2.629776e-2, 1.830538e-3, 5.138414e-5], 2e-7)
    assert errors[5] < 1e-14
    close(solved[1], near, 1e-12)


def in_a_layer(periodic: bool) -> fd.Field:
    """Two dimensions, a coefficient read round a periodic end and mirrored at a wall, and one that comes with time."""
    axes = dict(x=fd.Axis(0.0, 1.0, num=5), y=fd.Axis(0.0, 1.0, num=6, periodic=periodic, cells=True))
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.02, num=5), **axes))
    u[...] = fd.rate(lambda u, k, q: fd.schemes.divergence(k, u) + q)
    if not periodic:
        u[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    u[dict(x=[0, -1])] = 1.0
    u[0] = lambda x, y: jnp.sin(3 * x) * jnp.cos(2 * y)
    return u


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("method", [SnAp(2), SnAp(9), DRTRL(), PPProp(0.5, 0.5)])
def test_solves_follow_the_parameters_themselves(method: Any, periodic: bool) -> None:
    """What a coefficient has beyond an end is no entry of its own: `fd.online` gives the same."""
    k, q = (1 + 0.1 * np.random.default_rng(seed).standard_normal((5, 6)) for seed in (0, 1))
    declared = dict(save=fd.final(), stepper=fd.schemes.Euler(), adjoint=fd.adjoint.Online(method))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fd.FdsolveWarning)
        found = jax.grad(lambda k: half_square(fd.solve(in_a_layer(periodic), k=k, q=q, **declared)["u"]))(k)
        stream = fd.online(
            in_a_layer(periodic),
            dict(k=k),
            loss=lambda state, last: last * half_square(state["u"]),
            method=method,
            stepper=fd.schemes.Euler(),
            parameters=dict(q=q),
        )
    for step in range(1, 5):
        wanted = stream.step(float(step == 4)).gradient["k"]
    assert np.abs(wanted).max() > 0
    close(found, wanted)


def streamed(method: Any, **options: Any) -> Any:
    drive = np.pad(np.sin(0.7 * np.arange(5)[:, None] + 0.3 * np.arange(8)), ((0, 0), (1, 1)))
    target = np.cos(0.5 * np.arange(5)[:, None] - 0.2 * np.arange(8))

    def loss(state: Any, data: Any) -> Any:
        return half_square(state["u"][1:-1] - data["target"])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fd.FdsolveWarning)
        stream = fd.online(
            learned(),
            dict(K=jnp.asarray([0.2, -0.4, 0.2])),
            loss=loss,
            method=method,
            inputs=dict(X=drive[0]),
            **options,
        )
    for step in range(5):
        found = stream.step(dict(X=drive[step], target=target[step]))
    return stream, found


GOLDEN = {
    "forward": [231.410453824489, 308.152471225056, 288.467146643608],
    "diagonal": [239.621946491318, 326.761794932776, 306.118317305169],
    "pp_prop": [142.224358557486, 200.002792575601, 184.333002751592],
}


@pytest.mark.parametrize(
    ("method", "window", "wanted"),
    [(DRTRL(), 1, "diagonal"), (PPProp(0.5, 0.5), 1, "pp_prop"), (DRTRL(), 5, "forward")],
    ids=["diagonal", "pp_prop", "a full window"],
)
def test_streams_learn_a_kernel(method: Any, window: int, wanted: str) -> None:
    stream, found = streamed(method, window=window)
    close(found.gradient["K"], GOLDEN[wanted])
    close(stream.gradient["K"], GOLDEN[wanted])
    row = stream.report[0]
    assert row.parameter == "K"
    assert not row.exact
    assert row.shape == (6 if wanted == "pp_prop" else 3, 8)
    assert f"{row.bytes} bytes" in str(stream.report)
    assert stream.level == 5


def test_memory_does_not_grow_with_the_steps() -> None:
    """Temporary memory of compiled gradients at 16 and at 1024 steps."""

    def temporary(adjoint: Any, levels: int) -> int:
        def loss(nu: Any) -> Any:
            return half_square(fd.solve(heat(levels), nu=nu, adjoint=adjoint, save=fd.final())["u"])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fd.FdsolveWarning)
            found = jax.jit(jax.grad(loss)).lower(0.2).compile().memory_analysis()
        assert found is not None
        return int(found.temp_size_in_bytes)

    for adjoint in (fd.adjoint.Forward(), fd.adjoint.Online("d_rtrl")):
        long = temporary(adjoint, 1025)
        assert temporary(adjoint, 17) == long, adjoint
    assert temporary(fd.adjoint.Full(), 1025) > 10 * long


@pytest.mark.parametrize("adjoint", [fd.adjoint.Forward(), fd.adjoint.Online("forward")])
def test_memory_does_not_grow_where_rules_read_the_time(adjoint: Any) -> None:
    def temporary(steps: int) -> int:
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1e-4 * steps, num=steps + 1), x=fd.Axis(0.0, 1.0, num=20)))
        u[...] = fd.rate(lambda u, nu: nu * fd.schemes.laplacian(u) - u[...] ** 3)
        u[0] = lambda x: jnp.sin(3 * x)
        u[dict(x=0)] = fd.boundary.Dirichlet(lambda t, b: b * jnp.sin(t))
        u[dict(x=-1)] = fd.boundary.Neumann(0.1)

        def loss(p: Any) -> Any:
            return half_square(fd.solve(u, nu=p[0], b=p[1], save=fd.final(), adjoint=adjoint)["u"])

        return jax.jit(jax.grad(loss)).lower(jnp.ones(2)).compile().memory_analysis().temp_size_in_bytes

    assert temporary(16) == temporary(1024)


def test_streams_forget_update_and_end() -> None:
    stream = fd.online(heat(4), dict(nu=0.2), loss=lambda state, data: data * half_square(state["u"]))
    assert float(stream.gradient["nu"]) == 0
    first = stream.step(1.0)
    assert float(jnp.abs(first.gradient["nu"])) > 0
    size = stream.bytes
    stream.forget()
    assert float(stream.loss) == 0
    stream.update(nu=0.1)
    second = stream.step(1.0)
    u = U0 + 0.2 * (np.roll(U0, 1) - 2 * U0 + np.roll(U0, -1))
    np.testing.assert_allclose(second.state["u"], u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1)), rtol=1e-13)
    np.testing.assert_allclose(stream.loss, second.loss)
    assert float(stream.parameters["nu"]) == 0.1
    stream.step(1.0)
    assert stream.bytes == size
    with pytest.raises(fd.RunError, match=r"time axis ends at level 3"):
        stream.step(1.0)
    with pytest.raises(fd.DeclarationError, match="`mu` is not followed; the parameters are nu"):
        stream.update(mu=1.0)
    with pytest.raises(fd.DeclarationError, match=r"data have the form .* at every step, got"):
        stream.step(np.ones(3))


def test_initial_values_are_followed() -> None:
    """A parameter of the first level alone: exact by forward, refused by traces of inputs."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 3.0, num=4), x=fd.Axis(0.0, 8.0, num=8, periodic=True)))
    u[...] = lambda u, b: 0.5 * u["t-1"] + b * u["t-1", "x+1"]
    u[0] = lambda x, a: a * jnp.sin(2 * np.pi * x / 8)

    def by_reversal(a: Any, b: Any) -> Any:
        return half_square(fd.solve(u, a=a, b=b, save=fd.every(1))["u"][1:])

    expected = jax.grad(by_reversal, argnums=(0, 1))(0.7, 0.3)
    stream = fd.online(u, dict(a=0.7, b=0.3), loss=lambda state, data: half_square(state["u"]))
    for _ in range(3):
        found = stream.step()
    close(found.gradient["a"], expected[0], 1e-12)
    close(found.gradient["b"], expected[1], 1e-12)
    both = jax.grad(lambda a, b: half_square(fd.solve(u, a=a, b=b, adjoint=fd.adjoint.Forward())["u"][1:]), (0, 1))
    close(both(0.7, 0.3), expected, 1e-12)


def wave(levels: int = 4) -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=levels), x=fd.Axis(0.0, 1.0, num=8, periodic=True)))
    u[...] = lambda u, c: 2 * u["t-1"] - u["t-2"] + c * (u["t-1", "x+1"] - 2 * u["t-1"] + u["t-1", "x-1"])
    u[0] = u[1] = lambda x: jnp.sin(2 * np.pi * x)
    return u


def test_what_does_not_fit_is_refused() -> None:
    def loss(state: Any, data: Any) -> Any:
        return half_square(state["u"])

    with pytest.raises(fd.DeclarationError, match=r'"d_rtrl" is not for waves.*two levels back.*method="forward"'):
        fd.online(wave(), dict(c=0.1), loss=loss, method="d_rtrl")
    with pytest.raises(fd.DeclarationError, match=r"method= is one of \"forward\", .*got 'rtrl'"):
        fd.online(heat(), dict(nu=0.2), loss=loss, method="rtrl")
    with pytest.raises(fd.DeclarationError, match=r'the method "snap" takes n=; got rule='):
        fd.online(heat(), dict(nu=0.2), loss=loss, method="snap", rule="coupled")
    with pytest.raises(fd.DeclarationError, match=r"`nu` has dtype int"):
        fd.online(heat(), dict(nu=2), loss=loss)
    with pytest.raises(fd.RunError, match=r"1\d entries of parameters would take \d+ bytes.*Checkpointed"):
        jax.grad(lambda k: half_square(fd.solve(faces(), k=k, adjoint=fd.adjoint.Forward(memory=100))["u"]))(KAPPA)
    with pytest.raises(fd.DeclarationError, match="memory= is a number of bytes"):
        fd.adjoint.Forward(memory=0)
    with pytest.raises(fd.DeclarationError, match="SnAp: n= is a number of steps"):
        SnAp(0)
    with pytest.raises(fd.DeclarationError, match='rule= is "diagonal" or "coupled"'):
        DRTRL("full")


def test_a_budget_that_is_too_small_names_the_least_that_works() -> None:
    def loss(memory: int) -> Any:
        adjoint = fd.adjoint.Forward(memory=memory)
        return lambda k: half_square(fd.solve(faces(), k=k, adjoint=adjoint, save=fd.final())["u"])

    with pytest.raises(fd.RunError, match=r"100 are allowed. Give memory=\d+") as raised:
        jax.jit(jax.grad(loss(100))).lower(KAPPA)
    least = int(str(raised.value).split("memory=")[1].split(",")[0])
    assert jax.jit(jax.grad(loss(least))).lower(KAPPA).as_text()
    with pytest.raises(fd.RunError, match="are allowed"):
        jax.jit(jax.grad(loss(least - 1))).lower(KAPPA)


def test_a_loss_without_the_fields_and_data_with_gaps() -> None:
    """A loss on which nothing depends, and nan in the data that the loss does not leave out."""
    nothing = fd.online(heat(4), dict(nu=0.2), loss=lambda state, data: data * 2.0)
    with pytest.raises(fd.DeclarationError, match="the loss does not depend on the fields"):
        nothing.step(1.0)
    with pytest.raises(fd.FdsolveError, match="`mu`"):
        fd.online(heat(4), dict(nu=0.2, mu=0.3), loss=lambda state, data: half_square(state["u"] - data["u"]))
    gap = np.where(np.arange(8) == 3, np.nan, 1.0)
    careless = fd.online(heat(4), dict(nu=0.2), loss=lambda state, data: half_square(state["u"] - data["u"]))
    careless.step(dict(u=np.ones(8)))
    before = careless.loss
    with pytest.raises(fd.RunError, match=r"data\['u'\] hold nan.* at level 2; the step is not taken"):
        careless.step(dict(u=gap))
    assert careless.level == 1
    assert float(careless.loss) == float(before)

    def masked(state: Any, data: Any) -> Any:
        known = jnp.isnan(data["u"])
        return half_square(jnp.where(known, 0.0, state["u"] - jnp.where(known, 0.0, data["u"])))

    careful = fd.online(heat(4), dict(nu=0.2), loss=masked)
    found = careful.step(dict(u=gap))
    assert np.isfinite(float(found.gradient["nu"]))
    assert float(found.gradient["nu"]) != 0


def test_parameters_beside_the_field_are_no_silent_zero() -> None:
    """A slope at the wall enters by ghosts only; the diagonal trace refuses it, and otherwise= follows it exactly."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.03, num=4), x=fd.Axis(0.0, 1.0, num=6)))
    u[...] = fd.rate(lambda u, nu: nu * fd.schemes.laplacian(u))
    u[0] = lambda x: jnp.cos(x)
    u[dict(x=0)], u[dict(x=-1)] = fd.boundary.Neumann(lambda g: g), fd.boundary.Dirichlet(0.0)
    params = dict(nu=0.1, g=0.4)

    def loss(state: Any, data: Any) -> Any:
        return half_square(state["u"])

    expected = jax.grad(lambda p: half_square(fd.solve(u, stepper=fd.schemes.Euler(), **p)["u"][1:]))(
        {k: jnp.asarray(v) for k, v in params.items()}
    )
    stream = fd.online(u, params, loss=loss, stepper=fd.schemes.Euler())
    for _ in range(3):
        found = stream.step()
    for name in params:
        close(found.gradient[name], expected[name], 1e-11)
        assert abs(float(expected[name])) > 0
    with pytest.raises(CannotFollow, match=r"cannot follow the parameter `g`.*beside the field"):
        fd.online(u, params, loss=loss, stepper=fd.schemes.Euler(), method="d_rtrl", rule="coupled")


@pytest.mark.parametrize(("stepper", "what"), [(fd.schemes.BackwardEuler(), "the solve of an implicit step"),
                                               (fd.schemes.BDF2(), "a choice between branches")], ids=repr)  # fmt: skip
def test_steps_that_solve_are_refused_in_words_for_what_they_do(stepper: Any, what: str) -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.4, num=5), x=fd.Axis(0.0, 1.0, num=7)))
    u[...] = fd.rate(lambda u, k: k * fd.schemes.laplacian(u))
    u[0] = lambda x: jnp.sin(3 * x)
    u[dict(x=[0, -1])] = 0.0
    with pytest.raises(CannotFollow, match=rf"`k`: it enters the step through {what} \(`\w+`\), which has no rules"):
        fd.online(u, dict(k=0.1), loss=lambda state, data: half_square(state["u"]), method="d_rtrl", stepper=stepper)


def test_names_and_losses_that_nothing_comes_of_are_refused() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.5, num=6), x=fd.Axis(0.0, 1.0, num=6)))
    u[...] = lambda u, k, X: k * u["t-1"] + X[...]
    u[0] = 1.0
    example, loss = np.zeros(6), lambda state, data: jnp.sum(state["u"])
    for given, wanted in (
        (dict(inputs=dict(X=example, k=0.1)), r"`k` is given twice, in params= and in inputs="),
        (
            dict(inputs=dict(X=example), parameters=dict(X=example)),
            r"`X` is given twice, in inputs= and in parameters=",
        ),
    ):
        with pytest.raises(fd.DeclarationError, match=wanted):
            fd.online(u, dict(k=0.1), loss=loss, **given)
    with pytest.raises(fd.PlanningError, match=r"asks for `X`.*Give it in params="):
        fd.online(u, dict(k=0.1), loss=loss)
    with pytest.raises(fd.DeclarationError, match="the loss gives None"):
        fd.online(u, dict(k=0.1), loss=lambda state, data: None, inputs=dict(X=example)).step(dict(X=example))
    stream = fd.online(u, dict(k=0.1), loss=loss, inputs=dict(X=example))
    with pytest.raises(fd.DeclarationError, match=r"data\['X'\] is no number or array, got 'a'"):
        stream.step(dict(X="a"))
    stream.step(dict(X=example))
    with pytest.raises(fd.DeclarationError, match=r"have the form \{'X': \*\} of"):
        stream.step(dict(X=example, more=1.0))


def test_fields_of_coefficients_on_many_points_can_be_followed() -> None:
    """What the first state depends on is asked once for all entries, not one by one."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=150), y=fd.Axis(0.0, 1.0, num=150)))
    u[...] = lambda u, k: 0.9 * u["t-1"] + k[...]
    u[0] = 1.0
    for rule in ("diagonal", "coupled"):
        options: Any = dict(loss=lambda state, data: state["u"].sum(), method="d_rtrl", rule=rule)
        stream = fd.online(u, dict(k=np.ones((150, 150))), **options)
        stream.step()
        np.testing.assert_allclose(stream.step().gradient["k"], 2.9, rtol=1e-12)


def test_a_loss_that_is_no_number_is_refused() -> None:
    stream = fd.online(heat(), dict(nu=0.2), loss=lambda state, data: state["u"] ** 2)
    with pytest.raises(fd.DeclarationError, match=r"gives one real number, and this gives float64 of shape \(8,\)"):
        stream.step()
    stream = fd.online(heat(), dict(nu=0.2), loss=lambda state, data: jnp.sum(state["v"] ** 2))
    with pytest.raises(fd.DeclarationError, match=r"the loss reads 'v'; the state has u, the data q\."):
        stream.step(dict(q=1.0))
    with pytest.raises(fd.DeclarationError, match="takes two arguments, the fields after a step and its data"):
        fd.online(heat(), dict(nu=0.2), loss=lambda state: jnp.sum(state["u"] ** 2))


def test_parameters_that_are_no_numbers_or_in_the_wrong_place_are_told() -> None:
    with pytest.raises(fd.DeclarationError, match="the parameter `nu` is not finite"):
        fd.online(heat(), dict(nu=np.nan), loss=lambda state, data: jnp.sum(state["u"] ** 2))
    with pytest.raises(fd.DeclarationError, match=r"got X=\. Parameters of rules that stay go into parameters=dict"):
        fd.online(learned(), dict(K=np.ones(3)), X=np.zeros(10), loss=lambda state, data: jnp.sum(state["u"] ** 2))


@pytest.mark.parametrize("adjoint", [fd.adjoint.Forward(), fd.adjoint.Online("snap", n=2)], ids=str)
@pytest.mark.parametrize("num", [32, 64])
def test_memory_is_that_of_one_step_whatever_kernel_the_run_alone_takes(num: int, adjoint: Any) -> None:
    def temporary(steps: int) -> int:
        axis = fd.Axis(0.0, 1.0, num=num, periodic=True)
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.0005 * steps, num=steps + 1), x=axis))
        u[...] = fd.rate(lambda u, nu: nu * fd.schemes.laplacian(u))
        u[0] = lambda x: jnp.sin(2 * jnp.pi * x)

        def loss(nu: Any) -> Any:
            return half_square(fd.solve(u, nu=nu, save=fd.final(), adjoint=adjoint)["u"])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return jax.jit(jax.grad(loss)).lower(0.01).compile().memory_analysis().temp_size_in_bytes

    assert temporary(16) == temporary(1024)


def test_streams_take_labelled_data_and_refuse_what_is_no_number() -> None:
    stream = fd.online(heat(), dict(nu=0.2), loss=lambda state, data: jnp.sum((state["u"] - data["y"]) ** 2))
    labelled = stream.step(dict(y=xr.DataArray(U0, dims="x")))
    plain = fd.online(heat(), dict(nu=0.2), loss=lambda state, data: jnp.sum((state["u"] - data["y"]) ** 2))
    close(labelled.loss, plain.step(dict(y=U0)).loss)
    for value, message in ((np.nan, "`nu` is not finite"), ("a", "`nu` is no number or array")):
        with pytest.raises(fd.DeclarationError, match=message):
            stream.update(nu=value)


def square(rule: Any) -> fd.Field:
    axes = {name: fd.Axis(0.0, 1.0, num=5) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 4.0, num=5), **axes))
    u[...], u[0] = rule, lambda x, y: x
    return u


def test_labels_say_which_axes_parameters_and_inputs_have() -> None:
    places = np.linspace(0, 1, 5)
    k = xr.DataArray(np.arange(25.0).reshape(5, 5), dict(y=places, x=places), ("y", "x"))
    followed, given = (
        square(lambda u, k: 0.9 * u["t-1"] + k[...]),
        square(lambda u, k, c: 0.9 * u["t-1"] + c * k[...]),
    )
    loss = lambda state, data: jnp.sum(state["u"] ** 2)  # noqa: E731
    wanted = np.asarray(fd.solve(followed, k=k)["u"][1])
    stream = fd.online(followed, dict(k=k), loss=loss)
    step = stream.step()
    close(step.state["u"], wanted)
    close(step.gradient["k"], 2 * wanted.T)
    stream.update(k=2 * k.T)
    close(stream.parameters["k"], 2 * k)
    for late in (k, k.T):
        stream = fd.online(given, dict(c=1.0), loss=loss, inputs=dict(k=k))
        close(stream.step(dict(k=late)).state["u"], wanted)
    seen = fd.online(given, dict(c=1.0), loss=lambda s, d: jnp.sum((s["u"] - d["d"]) ** 2), parameters=dict(k=k))
    observed = xr.DataArray(wanted.T, dict(y=places, x=places), ("y", "x"))
    assert float(seen.step(dict(d=observed)).loss) < 1e-20
    with pytest.raises(fd.errors.DeclarationError, match="at the start"):
        stream.step(dict(k=k.rename(x="z")))


def test_series_in_time_are_followed_as_such() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 4.0, num=5), x=fd.Axis(0.0, 1.0, num=5)))
    u[...], u[0] = (lambda u, q: 0.9 * u["t-1"] + q), lambda x: x
    series = np.arange(5.0) ** 2
    labelled = xr.DataArray(series, dict(t=np.linspace(0, 4, 5)), ("t",))
    loss = lambda state, data: jnp.sum(state["u"])  # noqa: E731
    for q in (labelled, fd.along(series, "t")):
        stream = fd.online(u, dict(q=q), loss=loss)
        stream.step()
        close(stream.state["u"], fd.solve(u, q=labelled)["u"][1])
        close(stream.step().gradient["q"], [0, 5 * 1.9, 5, 0, 0])
    for wrong, message in (
        (labelled.assign_coords(t=np.linspace(4, 0, 5)), "in another order than the grid"),
        (labelled.assign_coords(t=np.linspace(1, 5, 5)), "other places along `t`"),
        (fd.interpolate(labelled), "to be resampled"),
    ):
        with pytest.raises(fd.errors.DeclarationError, match=message):
            fd.online(u, dict(q=wrong), loss=loss)


@pytest.mark.parametrize("method", ["uoro", "forward_gradient"])
def test_draws_may_be_counted_by_numpy(method: str) -> None:
    ours = fd.adjoint.Online(method, seed=np.int64(3), samples=np.int32(2))
    assert ours == fd.adjoint.Online(method, seed=3, samples=2)
    for wrong in (dict(seed=True), dict(samples=np.int64(0)), dict(samples=True)):
        with pytest.raises(fd.DeclarationError, match=r"whole number|number of draws"):
            fd.adjoint.Online(method, **wrong)


def test_data_may_be_traced() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis(0.0, 1.0, num=7)))
    u[...] = fd.rate(lambda u, k: 0.1 * k * fd.schemes.laplacian(u))
    u[0] = lambda x: jnp.sin(3 * x)
    u[dict(x=[0, -1])] = 0.0

    def gradient(data: Any) -> Any:
        stream = fd.online(u, dict(k=0.5), loss=lambda state, data: (state["u"] * data).sum())
        return stream.step(data).gradient["k"]

    data = jnp.asarray(np.random.default_rng(0).normal(size=(2, 7)))
    wanted = [gradient(one) for one in data]
    np.testing.assert_allclose(jax.vmap(gradient)(data), wanted, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(gradient)(data[0]), wanted[0], rtol=1e-12)


@jax.custom_jvp
def _ramp(c: Any, x: Any) -> Any:
    """A ramp whose slope on the flat side is given as a tenth."""
    return jnp.where(x > 0, c * x, 0.0)


@_ramp.defjvp
def _slope(values: Any, tangents: Any) -> Any:
    (c, x), (dc, dx) = values, tangents
    return _ramp(c, x), jnp.where(x > 0, 1.0, 0.1) * (dc * x + c * dx)


@pytest.mark.parametrize("rule", ["diagonal", "coupled"])
def test_a_derivative_that_a_function_gives_itself_is_taken_or_the_function_refused(rule: str) -> None:
    """Of the equations within it the slope on the flat side would be zero."""
    grid = fd.Grid(t=fd.Time(0.0, 4.0, num=5), x=fd.Axis(0.0, 4.0, num=5))

    def gradient(of: Any, adjoint: Any) -> Any:
        u = fd.Field("u", grid)
        u[...], u[0] = of, 1.0
        along = jnp.array([-1.0, 0.5, -2.0, 2.0, 3.0])
        return jax.grad(lambda c: jnp.sum(fd.solve(u, c=c, X=along, adjoint=adjoint)["u"] ** 2))(jnp.full(5, 0.5))

    def beside(u: Any, c: Any, X: Any) -> Any:
        return 0.6 * u["t-1"] + _ramp(c[...], X[...])

    wanted = gradient(beside, fd.adjoint.Full())
    assert abs(wanted[0]) > 0.1
    close(gradient(beside, fd.adjoint.Online(DRTRL(rule=rule))), wanted)

    def of_both(u: Any, c: Any, X: Any) -> Any:
        return 0.6 * u["t-1"] + 0.1 * _ramp(c[...], u["t-1"]) + X[...]

    if rule == "coupled":
        close(gradient(of_both, fd.adjoint.Online(DRTRL(rule=rule))), gradient(of_both, fd.adjoint.Full()))
        return
    with pytest.raises(CannotFollow, match="custom_jvp_call"):
        gradient(of_both, fd.adjoint.Online(DRTRL(rule=rule)))


@jax.custom_vjp
def _back_alone(a: Any) -> Any:
    return jnp.sin(a)


_back_alone.defvjp(lambda a: (jnp.sin(a), a), lambda a, g: (g * jnp.cos(a),))


@pytest.mark.parametrize("method", ["forward", "snap", "d_rtrl", "uoro", "forward_gradient"])
@pytest.mark.filterwarnings("ignore::fdsolve.FdsolveWarning")
def test_functions_with_a_derivative_in_reverse_alone_are_told(method: str) -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=5), x=fd.Axis(0.0, 1.0, num=4)))
    u[...] = lambda u, k, dt: u["t-1"] + dt * k * _back_alone(u["t-1"])
    u[0] = 1.0
    final = lambda k, **options: jnp.sum(fd.solve(u, k=k, save=fd.final(), **options)["u"])  # noqa: E731
    message = "forward derivatives of the rules, and one of them .*reverse alone.*Give the function jax.custom_jvp"
    with pytest.raises(fd.PlanningError, match=message):
        jax.grad(lambda k: final(k, adjoint=fd.adjoint.Online(method)))(0.3)
    with pytest.raises(fd.PlanningError, match=message):
        fd.online(u, dict(k=0.3), loss=lambda state, data: jnp.sum(state["u"] ** 2), method=method).step()
    slope = (final(0.3 + 1e-6) - final(0.3 - 1e-6)) / 2e-6
    assert abs(jax.grad(final)(0.3) - slope) <= 1e-8


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.filterwarnings("ignore::fdsolve.FdsolveWarning")
def test_the_estimate_of_uoro_has_a_derivative(samples: int) -> None:
    """With the same draws; norms of what is nothing at the start have one too."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=6), x=fd.Axis(0.0, 1.0, num=7)))
    u[...] = fd.rate(lambda u, k: k * fd.schemes.laplacian(u))
    u[0] = lambda x: jnp.cos(7 * x)
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    method = fd.adjoint.Online("uoro", samples=samples)
    gradient = jax.jit(jax.grad(lambda k: jnp.sum(fd.solve(u, k=k, save=fd.final(), adjoint=method)["u"] ** 2)))
    slope = jax.jvp(gradient, (0.1,), (1.0,))[1]
    np.testing.assert_allclose(slope, (gradient(0.1 + 1e-5) - gradient(0.1 - 1e-5)) / 2e-5, rtol=1e-6)
