"""Binomial checkpointing: the least work there is, and the same derivatives as without it."""

import re
from contextlib import nullcontext
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.adjoint import _reversal
from fdsolve.adjoint._revolve import least_forward, make_schedule
from fdsolve.adjoint._storage import Device
from fdsolve.adjoint._twolevel import LEAST, cut_blocks, near_lengths, show_blocks, two_level_room
from fdsolve.schemes import laplacian


@cache
def least(steps: int, states: int) -> int:
    """The least steps forward, by trying all places for the next state."""
    if steps <= 1:
        return 0
    if states == 1:
        return steps * (steps - 1) // 2
    return min(cut + least(steps - cut, states - 1) + least(cut, states) for cut in range(1, steps))


@pytest.mark.parametrize("states", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("steps", [1, 2, 3, 8, 21, 40])
def test_a_schedule_reverses_every_step_with_the_least_work(steps: int, states: int) -> None:
    made, slots, done = make_schedule(steps, states), {0: 0}, []
    for i in range(steps):
        for j in range(made.first[i], made.first[i + 1]):
            assert slots[int(made.source[j])] == made.at[j]
            assert made.target[j] < states
            slots[int(made.target[j])] = int(made.at[j] + made.length[j])
        assert slots[int(made.source_last[i])] == made.at_last[i]
        done.append(int(made.at_last[i] + made.length_last[i]))
    assert done == list(range(steps - 1, -1, -1))
    assert made.forward == least(steps, states) == least_forward(steps, states)


def burgers(levels: int = 14) -> fd.Field:
    """A nonlinear march with a coefficient that varies and a wall that moves."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=levels), x=fd.Axis(0.0, 1.0, num=12)))
    u[...] = fd.rate(lambda u, nu: nu[...] * laplacian(u) - u[...] * 6.0 * (u["x+1"] - u["x-1"]))
    u[0] = lambda x, a: a * jnp.sin(np.pi * x)
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda t: 3.0 * t)
    u[dict(x=-1)] = fd.boundary.Neumann(0.1)
    return u


def loss(adjoint: Any, save: Any = None, stepper: Any = None) -> Any:
    """A scalar of amplitude and viscosity."""
    u = burgers()

    def of(parameters: dict[str, Any]) -> Any:
        solution = fd.solve(u, adjoint=adjoint, save=save or fd.final(), stepper=stepper, **parameters)
        return jnp.sum(jnp.sin(3 * solution["u"]))

    return of


POINT = dict(a=jnp.asarray(0.7), nu=jnp.linspace(0.1, 0.2, 12))


@pytest.mark.parametrize("save", [None, fd.every(4)], ids=["the last level", "some levels"])
@pytest.mark.parametrize("snapshots", [1, 3])
def test_gradients_are_those_without_it(snapshots: int, save: Any) -> None:
    expected = jax.jit(jax.grad(loss(None, save)))(POINT)
    found = jax.jit(jax.grad(loss(fd.adjoint.Checkpointed(snapshots=snapshots), save)))(POINT)
    for name in POINT:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-13)


def test_multistep_memory_passes_through() -> None:
    stepper = fd.schemes.AdamsBashforth(2)
    expected = jax.jit(jax.grad(loss(fd.adjoint.Full(), None, stepper)))(POINT)
    found = jax.jit(jax.grad(loss(fd.adjoint.Checkpointed(), None, stepper)))(POINT)
    for name in POINT:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-13)


def test_forward_mode_and_second_derivatives() -> None:
    direction = dict(a=jnp.asarray(0.3), nu=jnp.ones(12))
    checkpointed = loss(fd.adjoint.Checkpointed(snapshots=3))

    @jax.jit
    def every(point: Any) -> Any:
        along = jax.jvp(checkpointed, (point,), (direction,))[1]
        gradient, curved = jax.jvp(jax.grad(checkpointed), (point,), (direction,))
        return along, gradient, curved, jax.jvp(jax.grad(loss(None)), (point,), (direction,))[1]

    along, gradient, curved, expected = every(POINT)
    inner = sum(jnp.sum(gradient[name] * direction[name]) for name in POINT)
    np.testing.assert_allclose(along, inner, rtol=1e-12)
    for name in POINT:
        np.testing.assert_allclose(curved[name], expected[name], rtol=1e-10, atol=1e-11)


def test_memory_is_that_of_the_states_kept() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=401), x=fd.Axis(0.0, 1.0, num=2000)))
    u[...] = lambda u, k: u["t-1"] + k * jnp.sin(u["t-1", "x+1"] - u["t-1", "x-1"])
    u[0] = lambda x: jnp.sin(x)
    u[dict(x=[0, -1])] = 0.0

    def temporary(adjoint: Any) -> int:
        of = jax.grad(lambda k: jnp.sum(fd.solve(u, k=k, adjoint=adjoint, save=fd.final(), kernel="slices")["u"] ** 2))
        found = jax.jit(of).lower(0.1).compile().memory_analysis()
        assert found is not None
        return int(found.temp_size_in_bytes)

    state = 2000 * 8
    few, more = (temporary(fd.adjoint.Checkpointed(snapshots=n)) for n in (10, 30))
    assert few < 50 * state
    assert more - few < 21 * state
    assert temporary(fd.adjoint.Full()) > 400 * state


def test_the_plan_says_what_is_kept_and_computed_again() -> None:
    shown = str(fd.plan(burgers(), a=0.7, nu=0.1, save=fd.final(), adjoint=fd.adjoint.Checkpointed(snapshots=4)))
    assert "Adjoint: Checkpointed(snapshots=4): keeps 4 states of 13, 416 bytes" in shown


def test_the_plan_says_how_many_bytes_and_where() -> None:
    def shown(adjoint: Any) -> str:
        return str(fd.plan(burgers(), a=0.7, nu=0.1, save=fd.final(), adjoint=adjoint))

    assert "Full(): keeps what all 13 steps need, 1352 bytes at a state for each" in shown(fd.adjoint.Full())
    assert "keeps 4 states of 13, 416 bytes, and what 3 steps need, 312 bytes" in shown(
        fd.adjoint.Checkpointed(levels=2)
    )
    few = fd.adjoint.Checkpointed(snapshots=4, storage="int8")
    assert "416 bytes; a step" in shown(few) and "the 416 bytes between blocks are less, rounded to int8" in shown(few)
    online = shown(fd.adjoint.Online("forward"))
    assert "104 bytes for each entry of a parameter, as many bytes after 13 steps as after one" in online
    held = fd.adjoint.Checkpointed(snapshots=4, storage=fd.adjoint.Host())
    assert "the 416 bytes between blocks are in the host's memory" in shown(held)


def medium(steps: int, linear: bool) -> fd.Field:
    """A rule with a coefficient in a box with two kinds of walls."""
    time = fd.Time(0.0, 1e-2, num=steps + 1)
    u = fd.Field("u", fd.Grid(t=time, x=fd.Axis(0.0, 1.0, num=24), y=fd.Axis(0.0, 1.0, num=20)))
    u[...] = lambda u, k, dt: u["t-1"] + dt * (k * laplacian(u, at="t-1") - (u["t-1"] if linear else u["t-1"] ** 3))
    u[0] = lambda start: start[...]
    u[dict(x=[0, -1])] = 0.1
    u[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    return u


START = dict(k=jnp.asarray(0.1), start=jnp.asarray(np.random.default_rng(0).random((24, 20))))


def in_medium(steps: int, adjoint: Any, kernel: str, linear: bool = False) -> Any:
    """A sum over the last level, of the coefficient and the start."""
    u = medium(steps, linear)
    return lambda p: jnp.sum(jnp.sin(fd.solve(u, adjoint=adjoint, kernel=kernel, save=fd.final(), **p)["u"]))


def programs(lowered: Any) -> set[str]:
    """The machine code that a program calls."""
    return set(re.findall(r"custom_call @(fdsolve_\w+)", lowered.as_text()))


@pytest.mark.parametrize("linear", [True, False], ids=["affine", "nonlinear"])
def test_blocks_are_pulled_back_by_the_kernel_of_the_march(linear: bool) -> None:
    made = jax.jit(jax.grad(in_medium(47, fd.adjoint.Checkpointed(snapshots=9), "native", linear))).lower(START)
    expected = jax.jit(jax.grad(in_medium(47, fd.adjoint.Full(), "slices", linear)))(START)
    found = made.compile()(START)
    for name in START:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-14)
    assert len(programs(made)) <= 3, programs(made)  # levels, with states before blocks, beside their transpose


@pytest.mark.parametrize("near", [True, False], ids=["blocks in cache", "single steps"])
@pytest.mark.parametrize("steps", [41, 43])
def test_few_states_are_pulled_back_by_the_kernel_too(steps: int, near: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    jax.clear_caches()
    if not near:
        monkeypatch.setattr(_reversal, "with_blocks", lambda task, *others: task)
    monkeypatch.setattr(Device, "open", counting(opened := [], Device.open))
    few = in_medium(steps, fd.adjoint.Checkpointed(snapshots=3), "native")
    expected = jax.jit(jax.grad(in_medium(steps, fd.adjoint.Full(), "slices")))(START)
    made = jax.jit(jax.grad(few)).lower(START)
    assert opened == [3], "no state beside those between blocks"
    assert len(programs(made)) <= 3  # levels, several and single ones; and their transpose, beside those of a block
    found = made.compile()(START)
    for name in START:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-14)


def test_where_the_kernel_has_no_transpose_few_states_are_few() -> None:
    """A rule on a part of a periodic axis: blocks that the portable kernel takes are not those that lie in cache."""
    u = fd.Field(
        "u",
        fd.Grid(t=fd.Time(0.0, 0.5, num=97), x=fd.Axis(0.0, 1.0, num=60, periodic=True), y=fd.Axis(0.0, 1.0, num=50)),
    )
    u[...] = lambda u, k: u["t-1"] + 0.1 * k * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"]) * u["t-1"]
    u[dict(t=slice(1, None), x=slice(10, 20))] = lambda u: 0.9 * u["t-1"] ** 2
    u[0] = lambda x, y: jnp.sin(7 * x * y)

    def loss(k: Any) -> Any:
        few = fd.adjoint.Checkpointed(snapshots=6)
        return jnp.sum(jnp.sin(fd.solve(u, k=k, save=fd.final(), kernel="native", adjoint=few)["u"]))

    made = jax.jit(jax.grad(loss)).lower(0.3).compile()
    assert made.memory_analysis().temp_size_in_bytes < 30 * 60 * 50 * 8


@pytest.mark.parametrize("snapshots", [2, 5])
@pytest.mark.parametrize("periodic", [True, False], ids=["round", "between walls"])
def test_few_states_of_two_levels_with_a_record(periodic: bool, snapshots: int) -> None:
    """A wave with a source's record and a coefficient at every point; blocks of levels, and single ones at the end."""
    steps, axes = 43, {name: fd.Axis(0.0, 1.0, num=num, periodic=periodic) for name, num in (("x", 22), ("y", 17))}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.4, num=steps + 1), **axes))
    u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian(u, order=4, at="t-1")
    if not periodic:
        u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    u[[0, 1]] = lambda x, y: jnp.sin(2 * np.pi * x) * jnp.sin(2 * np.pi * y)
    u[fd.point(x=0.3, y=0.4)] += lambda s: s

    def loss(p: Any, **options: Any) -> Any:
        return jnp.sum(jnp.sin(fd.solve(u, c=p["c"], s=fd.along(p["s"], "t"), save=fd.final(), **options)["u"]))

    random = np.random.default_rng(3)
    at = dict(c=jnp.asarray(1 + 0.1 * random.normal(size=(22, 17))), s=jnp.asarray(random.normal(size=steps + 1)))
    few = dict(kernel="native", adjoint=fd.adjoint.Checkpointed(snapshots=snapshots))
    full = dict(kernel="slices", adjoint=fd.adjoint.Full())
    found, expected = (jax.jit(jax.grad(lambda p, o=o: loss(p, **o)))(at) for o in (few, full))
    for name in at:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-11, atol=1e-12)


def counting(opened: list[int], function: Any) -> Any:
    """`Device.open` that notes for how many states there is to be room."""

    def opening(self: Device, state: Any, places: int, *beside: Any) -> Any:
        opened.append(places)
        return function(self, state, places, *beside)

    return opening


def test_few_states_are_differentiated_twice() -> None:
    few = in_medium(40, fd.adjoint.Checkpointed(snapshots=3), "native")
    full = in_medium(40, fd.adjoint.Full(), "slices")
    direction = dict(k=jnp.asarray(1.0), start=jnp.asarray(np.random.default_rng(1).normal(size=(24, 20))))

    def curved(loss: Any) -> Any:
        return jax.jit(jax.grad(lambda p: sum(jnp.vdot(g, direction[n]) for n, g in jax.grad(loss)(p).items())))(START)

    found, expected = curved(few), curved(full)
    for name in START:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-11, atol=1e-13)


def test_messages() -> None:
    with pytest.raises(fd.DeclarationError, match=r"adjoint= takes an adjoint such as .* got the class Full"):
        fd.solve(burgers(), a=0.7, nu=0.1, adjoint=fd.adjoint.Full)
    with pytest.raises(fd.DeclarationError, match=r"snapshots= or memory=, not both"):
        fd.adjoint.Checkpointed(snapshots=2, memory=100)
    with pytest.raises(fd.DeclarationError, match=r"snapshots= is a whole number of at least 1, got 0"):
        fd.adjoint.Checkpointed(snapshots=0)
    with pytest.raises(fd.RunError, match=r"holds no state of \d+ bytes. Give at least memory=\d+") as raised:
        fd.plan(burgers(), a=0.7, nu=0.1, save=fd.final(), adjoint=fd.adjoint.Checkpointed(memory=10))
    least = int(str(raised.value).split("memory=")[2].split(",")[0])
    for memory in (least - 1, least):  # the least that works
        made = loss(fd.adjoint.Checkpointed(memory=memory))
        with pytest.raises(fd.RunError) if memory < least else nullcontext():
            jax.eval_shape(jax.grad(made), POINT)


def test_blocks_are_as_long_as_their_levels_lie_near() -> None:
    assert list(near_lengths(64)) == [16, 8, 7, 6, 4, 3]
    assert list(near_lengths(100)) == [10, 9, 8, 5, 4, 3]
    assert list(near_lengths(9)) == [4, 3]
    assert list(near_lengths(61)) == [16, 14, 9, 8, 7, 6, 5, 4, 3]  # first by which there are fewest blocks
    for most, length in ((32, 10), (8, 8), (7, 5), (4, 4), (3, 3)):
        cut = cut_blocks(200, 2**14, lambda size, most=most: size <= most, 2**30)
        assert (cut.single, cut.inner, cut.kept) == (True, length, 200 // length)
    assert cut_blocks(10**4, 2**14, lambda size: size <= 12, 2**40).kept == 100, "more than a few MiB between blocks"
    assert cut_blocks(200, 2**24, lambda size: False, 2**40).inner == LEAST


def test_the_plan_says_how_many_states_a_kernel_keeps_that_goes_back_by_blocks() -> None:
    assert "keeps 20 to 66 and computes steps again once" in show_blocks(200, 2**10, 2**30)
    assert "keeps 100 and computes steps again once or twice" in show_blocks(10**4, 2**20, 2**22)
    assert "keeps 40 to 62 and" in show_blocks(1000, 2**20, two_level_room(1000, 2**20))
    assert show_blocks(2 * LEAST - 1, 2**10, 2**30) == ""


CARRYING = {
    "receivers": dict(save=fd.receivers(dict(x=[0.31, 0.77]))),
    "an implicit step": dict(save=fd.final(), stepper=fd.schemes.CrankNicolson()),
    "two older levels": dict(save=fd.final(), stepper=fd.schemes.BDF2()),
    "three slopes": dict(save=fd.final(), stepper=fd.schemes.AdamsBashforth(3)),
    "nothing else": dict(save=fd.final()),
}


@pytest.mark.parametrize("name", CARRYING)
def test_the_least_memory_that_is_named_is_enough_and_is_planned_with(name):
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.02, num=9), x=fd.Axis(0.0, 1.0, num=13)))
    u[...] = fd.rate(lambda u, k: k * fd.schemes.laplacian(u))
    u[0], u[dict(x=[0, -1])] = lambda x: jnp.sin(3 * x), fd.boundary.Dirichlet(0.1)

    def slope(adjoint):
        return jax.grad(lambda k: jnp.sum(fd.solve(u, k=k, adjoint=adjoint, **CARRYING[name])["u"]))(0.3)

    with pytest.raises(fd.RunError, match="Give at least memory=") as caught:
        slope(fd.adjoint.Checkpointed(memory=1))
    least = int(re.search(r"memory=(\d+)", str(caught.value).split("at least")[1])[1])
    np.testing.assert_allclose(slope(fd.adjoint.Checkpointed(memory=np.int64(least))), slope(fd.adjoint.Full()))
    with pytest.raises(fd.RunError, match=f"no state of {least} bytes"):
        slope(fd.adjoint.Checkpointed(memory=least - 1))
    plan = str(fd.plan(u, k=0.3, adjoint=fd.adjoint.Checkpointed(memory=2 * least), **CARRYING[name]))
    assert f"keeps 2 states of 8, {2 * least} bytes" in plan
