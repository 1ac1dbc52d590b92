"""The way a march is gone back through: its memory is that of the budget, and the plan says what is computed again."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.adjoint import _fitted, _reversal
from fdsolve.adjoint._checkpointed import plain_march, reversed_march
from fdsolve.adjoint._fit import cut_steps
from fdsolve.adjoint._peak import peak_bytes
from fdsolve.adjoint._storage import to_storage
from fdsolve.adjoint._ways import with_blocks

BESIDE = 13
"""States' worth of memory beside those that are held: what computing a step and reversing it take."""
START = (
    lambda x: jnp.sin(7 * x),
    lambda x, y: jnp.sin(7 * (x + y)),
    lambda x, y, z: jnp.sin(7 * (x + y + z)),
)


def spreading(sizes: tuple[int, ...], steps: int, wave: bool = False, dtype: str = "float64") -> fd.Field:
    """A rule with a coefficient at every point of a periodic box; `wave`: one that keeps two levels."""
    axes = {name: fd.Axis(0.0, 1.0, num=num, periodic=True) for name, num in zip("xyz", sizes, strict=False)}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=steps + 1), **axes), dtype=dtype)

    def rule(u: Any, k: Any) -> Any:
        around = sum(u["t-1", f"{name}-1"] - 2 * u["t-1"] + u["t-1", f"{name}+1"] for name in axes)
        return (2 * u["t-1"] - u["t-2"] if wave else u["t-1"]) + k[...] * around

    u[...] = rule
    u[[0, 1] if wave else 0] = START[len(sizes) - 1]
    return u


def loss(u: fd.Field, **options: Any) -> Any:
    """A sum over the last level, of the coefficient."""
    return lambda k: jnp.sum(jnp.sin(fd.solve(u, k=k, save=fd.final(), **options)["u"]))


def gradient(u: fd.Field, k: Any, **options: Any) -> tuple[Any, int]:
    """The gradient by the coefficient, compiled, and its temporary bytes."""
    made = jax.jit(jax.grad(loss(u, **options))).lower(k).compile()
    return made, int(made.memory_analysis().temp_size_in_bytes)


def bytes_of_state(u: fd.Field, k: Any) -> int:
    """What the plan says that a state takes."""
    shown = str(fd.plan(u, k=k, save=fd.final(), adjoint=fd.adjoint.Checkpointed(snapshots=1)))
    return int(re.findall(r"keeps 1 states of \d+, (\d+) bytes", shown)[0])


@pytest.mark.parametrize(
    ("sizes", "wave", "dtype"),
    [
        ((2000,), False, "float64"),
        ((2000,), True, "float32"),
        ((32, 32), False, "float32"),
        ((32, 24), True, "float64"),
        ((14, 12, 12), False, "float64"),
    ],
)
def test_memory_is_that_of_the_budget_by_a_kernel_that_goes_back_by_blocks(
    sizes: tuple[int, ...], wave: bool, dtype: str
) -> None:
    u = spreading(sizes, 120, wave, dtype)
    k = jnp.asarray(np.random.default_rng(5).uniform(0.05, 0.15, sizes), dtype)
    state = bytes_of_state(u, k)
    expected = gradient(u, k, adjoint=fd.adjoint.Full(), kernel="slices")[0](k)
    close = (1e-11 if dtype == "float64" else 1e-3) * float(jnp.max(jnp.abs(expected)))
    for states in (1, 3, 10, 30):
        few = fd.adjoint.Checkpointed(memory=states * state)
        made, temporary = gradient(u, k, adjoint=few, kernel="native")
        assert temporary <= (states + BESIDE) * state, (states, temporary / state)
        np.testing.assert_allclose(made(k), expected, rtol=0, atol=close)


@pytest.mark.parametrize("kernel", ["slices", "native"])
def test_what_lies_beside_does_not_grow_with_steps(kernel: str) -> None:
    found = []
    for steps in (100, 800):
        u, k = spreading((2000,), steps), jnp.full(2000, 0.1)
        few = fd.adjoint.Checkpointed(memory=2 * bytes_of_state(u, k))
        found.append(gradient(u, k, adjoint=few, kernel=kernel)[1])
    assert found[1] - found[0] < 2**14, "the tables of the schedule at most"


@pytest.mark.parametrize(("sizes", "kernel"), [((2000,), "slices"), ((2000,), "native"), ((32, 32), "native")])
def test_the_plan_says_what_its_kernel_computes_again(
    sizes: tuple[int, ...], kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts: list[Any] = []
    way_back = _reversal._way_back

    def noting(task: Any, *others: Any) -> Any:
        cuts.append(task.cut)
        return way_back(task, *others)

    monkeypatch.setattr(_reversal, "_way_back", noting)
    u, k = spreading(sizes, 150), jnp.full(sizes, 0.1)
    for states in (1, 3, 10):
        cuts.clear()
        few = fd.adjoint.Checkpointed(snapshots=states)
        jax.jit(jax.grad(loss(u, adjoint=few, kernel=kernel))).lower(k)
        shown = str(fd.plan(u, k=k, save=fd.final(), adjoint=few, kernel=kernel))
        usual, own = re.findall(r"([\d.]+) on average", shown)[0], re.findall(r"again ([\d. to]+) times", shown)[0]
        said = [float(one) for one in (own.split(" to ") if kernel == "native" else [usual])]
        assert cuts
        for cut in cuts:
            assert min(said) - 0.006 <= cut.recomputed / cut.count <= max(said) + 0.006, shown


@pytest.mark.parametrize("storage", [None, "float16"])
@pytest.mark.parametrize("states", [1, 2, 3, 10, 30])
def test_steps_are_computed_again_as_often_as_is_said(states: int, storage: str | None) -> None:
    """Every call of the step is counted; one of each step's is that of its derivative."""
    calls: list[None] = []

    def step(consts: Any, carry: Any, number: Any) -> Any:
        jax.debug.callback(lambda: calls.append(None))
        return carry + consts * jnp.sin(carry)

    cut = cut_steps(97, states)

    def last(a: Any) -> Any:
        begin, place = jnp.linspace(0.1, 1.0, 5), to_storage(storage)
        return jnp.sum(reversed_march(step, plain_march(step), a, begin, 0, cut, (0, 0), True, place))

    jax.jit(jax.grad(last))(0.1).block_until_ready()
    jax.effects_barrier()
    assert len(calls) == 97 + cut.recomputed + 97


def test_the_default_keeps_what_steps_need_where_states_would_be_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Absorbing layers have memory of their own in each state, of which a gradient by the speed needs nothing."""
    axes = {name: fd.Axis(0.0, 1.0, num=32) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=65), **axes))
    u[...] = lambda u, k, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * k[...] * fd.schemes.laplacian(u, at="t-1")
    u[[0, 1]] = START[1]
    for name in axes:
        u[{name: [0, -1]}] = fd.boundary.PML(10, speed=0.4)
    k = jnp.full((32, 32), 0.4)
    expected = gradient(u, k, kernel="slices", adjoint=fd.adjoint.Full())[0](k)
    monkeypatch.setattr(_fitted, "EASY", 2**10)
    cuts: list[Any] = []
    monkeypatch.setattr(
        _reversal, "with_blocks", lambda task, *others: cuts.append(task.cut) or with_blocks(task, *others)
    )
    _, temporary = gradient(u, k, kernel="slices", adjoint=fd.adjoint.Checkpointed(snapshots=16))
    made, found = gradient(u, k, kernel="slices")
    assert not cuts and found <= temporary * 1.05
    np.testing.assert_allclose(made(k), expected, rtol=1e-12, atol=1e-13 * float(jnp.max(jnp.abs(expected))))
    gradient(u, k, kernel="slices", adjoint=fd.adjoint.Checkpointed(snapshots=3))
    assert cuts, "what all steps need is more than three states"


def test_steps_of_long_rules_are_not_computed_again_by_a_kernel_with_a_derivative(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bending(times: int) -> fd.Field:
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=65), x=fd.Axis(0.0, 1.0, num=512, periodic=True)))

        def rule(u: Any, k: Any) -> Any:
            found = u["t-1"]
            for _ in range(times):
                found = 0.9 * found + k * (u["t-1", "x+1"] - found) * u["t-1", "x-1"] / (2.0 + found**2)
            return found

        u[...], u[0] = rule, START[0]
        return u

    monkeypatch.setattr(_fitted, "EASY", 2**18)
    calls = []
    for times in (1, 40):
        u = bending(times)
        k = jnp.asarray(0.3)
        (line,) = (one for one in str(fd.plan(u, k=k, save=fd.final())).splitlines() if "Adjoint" in one)
        assert ("by a kernel with a derivative of its own" in line) == (times > 1)
        made, temporary = gradient(u, k, kernel="native")
        calls.append(made.as_text().count('custom_call_target="fdsolve_'))
        expected = gradient(u, k, kernel="slices", adjoint=fd.adjoint.Full())[0](k)
        np.testing.assert_allclose(made(k), expected, rtol=1e-11)
        assert (temporary > 64 * 512 * 8) == (times > 1)
    assert calls[1] == 2, "forth, writing levels down, and back"


def test_bytes_needed_at_once() -> None:
    """Each array counts from where it is made to where it is last read; what nothing depends on is left out."""

    def chain(x: Any) -> Any:
        jnp.outer(x, x)
        one = jnp.sin(x)
        two = jnp.cos(one)
        return jnp.tan(two) + one

    def loop(x: Any) -> Any:
        return jax.lax.scan(lambda held, _: (jnp.sin(jnp.concatenate([held, held]))[:10], held), x, length=7)

    x = jnp.zeros(10)
    assert peak_bytes(jax.make_jaxpr(chain)(x).jaxpr) == 3 * 10 * 8
    assert peak_bytes(jax.make_jaxpr(loop)(x).jaxpr) == (10 + 7 * 10) * 8, "the last state and all of them"
