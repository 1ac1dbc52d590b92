"""Where checkpoints are kept, what rounding them costs, and the default that fits itself to the memory there is."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.adjoint._fit import cut_steps
from fdsolve.adjoint._outside import rooms_open
from fdsolve.adjoint._storage import Rounded

from .test_checkpointed import POINT, burgers, loss


@pytest.mark.parametrize(("dtype", "relative", "absolute"), [
    ("float16", 2.0**-11, 2.0**-25), ("bfloat16", 2.0**-8, 0.0), ("int8", 0.0, 1 / 254),
])  # fmt: skip
def test_rounded_states_are_as_near_as_is_said(dtype: str, relative: float, absolute: float) -> None:
    random, place = np.random.default_rng(3), Rounded(dtype)
    values = random.standard_normal(500) * 10.0 ** random.uniform(-9, 5, 500)
    state = dict(u=jnp.asarray(values), c=jnp.asarray(values[:9] + 1j), zero=jnp.zeros(3), level=jnp.asarray(7))
    room = place.put(place.put(place.open(state, 2), 1, state), 0, jax.tree.map(jnp.zeros_like, state))
    found = place.get(room, 1, state)[1]
    largest = np.abs(values).max()
    assert np.all(np.abs(found["u"] - values) <= relative * np.abs(values) * (1 + 1e-12) + absolute * largest)
    assert np.any(found["u"] != values)
    assert found["c"].dtype == complex
    assert int(found["level"]) == 7
    assert not found["zero"].any()


def both(adjoint: Any) -> Any:
    """The gradient for two shots at once, compiled."""
    one = jax.vmap(jax.grad(loss(adjoint)), in_axes=(dict(a=0, nu=None),))
    return jax.jit(one)(dict(a=jnp.asarray([0.7, -0.4]), nu=POINT["nu"]))


def test_states_outside_of_the_program(tmp_path: Path) -> None:
    expected = both(fd.adjoint.Checkpointed(snapshots=4))
    for storage in (fd.adjoint.Host(), fd.adjoint.Disk(tmp_path / "states")):
        found = both(fd.adjoint.Checkpointed(snapshots=4, storage=storage))
        for name in POINT:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-13)
        assert rooms_open() == 0
    assert list((tmp_path / "states").iterdir()) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_rounded_states_outside_of_the_program(dtype: str, tmp_path: Path) -> None:
    expected = both(fd.adjoint.Checkpointed(snapshots=4, storage=dtype))
    exact = both(fd.adjoint.Checkpointed(snapshots=4))
    assert any(np.any(expected[name] != exact[name]) for name in POINT)
    for storage in (fd.adjoint.Host(dtype), fd.adjoint.Disk(tmp_path / "states", dtype)):
        found = both(fd.adjoint.Checkpointed(snapshots=4, storage=storage))
        for name in POINT:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-13)
        assert rooms_open() == 0
    with pytest.raises(fd.DeclarationError, match=r"Host: dtype= takes .*int8.*, or None .*'float8'"):
        fd.adjoint.Host("float8")


@pytest.mark.parametrize("names", [("nu",), ("a",), ("a", "nu")], ids=str)
@pytest.mark.parametrize("place", ["host", "disk"])
def test_elements_of_a_batch_have_rooms_of_their_own(names: tuple[str, ...], place: str, tmp_path: Any) -> None:
    storage = fd.adjoint.Host() if place == "host" else fd.adjoint.Disk(tmp_path)
    factors = jnp.array([0.5, 1.0, 1.5])

    def each(adjoint: Any) -> Any:
        def of(factor: Any) -> Any:
            return jax.grad(loss(adjoint))({**POINT, **{name: factor * POINT[name] for name in names}})

        return jax.jit(jax.vmap(of))(factors)

    found, expected = each(fd.adjoint.Checkpointed(snapshots=4, storage=storage)), each(fd.adjoint.Full())
    for name in POINT:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-11, atol=1e-12)
    assert rooms_open() == 0


def test_few_states_of_a_batch_are_marched_from_again() -> None:
    """Steps are computed again in loops whose lengths are the same for all elements, also where blocks are unrolled."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.05, num=9), x=fd.Axis(0.0, 1.0, num=6)))
    u[...] = lambda u, k: u["t-1"] + k * (u["t-1", "x+1"] - 2 * u["t-1"] + u["t-1", "x-1"])
    u[0] = lambda x: jnp.sin(3 * x)
    u[dict(x=[0, -1])] = 0.0

    def slopes(adjoint: Any) -> Any:
        of = lambda k: jnp.sum(fd.solve(u, k=k, save=fd.final(), adjoint=adjoint, kernel="slices")["u"] ** 2)  # noqa: E731
        return jax.jit(jax.vmap(jax.grad(of)))(jnp.array([0.1, 0.2]))

    few = fd.adjoint.Checkpointed(snapshots=2, storage=fd.adjoint.Host())
    np.testing.assert_allclose(slopes(few), slopes(fd.adjoint.Full()), rtol=1e-11)
    assert rooms_open() == 0


def test_second_derivatives_with_states_outside() -> None:
    direction = dict(a=jnp.asarray(0.3), nu=jnp.ones(12))

    def curved(adjoint: Any) -> Any:
        return jax.jit(lambda p: jax.jvp(jax.grad(loss(adjoint)), (p,), (direction,))[1])(POINT)

    expected = curved(fd.adjoint.Checkpointed(levels=2))
    found = curved(fd.adjoint.Checkpointed(snapshots=4, storage=fd.adjoint.Host()))
    for name in POINT:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("free", [1000, 6000])
@pytest.mark.parametrize("save", [None, fd.every(4)], ids=["the last level", "some levels"])
def test_the_default_fits_itself_to_the_memory(free: int, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = jax.jit(jax.grad(loss(fd.adjoint.Full(), save)))(POINT)
    assert "keeps what all 13 steps need, which fits" in str(fd.plan(burgers(), a=0.7, nu=0.1, save=fd.final()))
    monkeypatch.setattr("fdsolve._solve.available_bytes", lambda: free)
    shown = str(fd.plan(burgers(), a=0.7, nu=0.1, save=fd.final()))
    assert "else it keeps" in shown
    found = jax.jit(jax.grad(loss(None, save)))(POINT)
    for name in POINT:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-13)


def test_the_default_keeps_less_where_a_kernel_goes_back_by_blocks_itself() -> None:
    """Levels that stay in cache are sooner computed again than kept in fresh memory; JAX's own residuals are not."""
    steps, num = 400, 2048
    u = fd.Field(
        "u", fd.Grid(t=fd.Time(0.0, 100.0, num=steps + 1), x=fd.Axis(0.0, num - 1.0, num=num)), dtype=jnp.float32
    )
    u[...] = lambda u, k, dt: u["t-1"] + dt * k * fd.schemes.laplacian(u, at="t-1")
    u[0] = lambda x: jnp.sin(0.1 * x)
    u[dict(x=[0, -1])] = 0.0
    levels = 4 * steps * num

    def held(kernel: str, adjoint: Any = None) -> tuple[Any, int]:
        """The gradient by k, and the bytes that it takes."""

        def loss(k: Any) -> Any:
            made = fd.solve(u, k=k, save=fd.final(), kernel=kernel, adjoint=adjoint)
            return jnp.mean(made.final["u"] ** 2)

        compiled = jax.jit(jax.grad(loss)).lower(jnp.float32(0.3)).compile()
        return compiled(jnp.float32(0.3)), compiled.memory_analysis().temp_size_in_bytes

    (found, few), (wanted, many) = held("native"), held("slices")
    assert few < levels / 4 < levels <= many
    assert held("native", fd.adjoint.Full())[1] >= levels
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    shown = str(fd.plan(u, k=0.3, save=fd.final(), kernel="native"))
    assert "keeps what all 400 steps need, which fits" in shown
    assert "a kernel that goes back by blocks itself keeps 20 to 133 and computes steps again once" in shown


@pytest.mark.parametrize("count", [2, 50, 1000])
def test_cuts_keep_to_their_budget(count: int) -> None:
    for states in (1, 2, 3, 8, 20, 65, count):
        cut = cut_steps(count, states)
        assert cut.states <= states
        assert (cut.blocks - 1) * cut.block + cut.last == count
        assert 0 < cut.last <= cut.block
        reversed_alone = cut_steps(count, states).schedule.forward * cut.block + count - cut.blocks
        assert cut.recomputed <= reversed_alone
    assert cut_steps(1000, 65).recomputed <= 1.05 * 1000


def test_messages() -> None:
    for wrong, text in (
        (dict(storage="float8"), r"storage= takes \"bfloat16\", \"float16\", \"int8\", .*got 'float8'"),
        (dict(levels=3), r"levels=2 nests checkpoints.*Got 3"),
        (dict(levels=2, snapshots=9), r"takes no snapshots="),
        (dict(memory=0), r"memory= is a whole number of at least 1, got 0"),
    ):
        with pytest.raises(fd.DeclarationError, match=text):
            fd.adjoint.Checkpointed(**wrong)
    with pytest.raises(fd.DeclarationError, match="Disk takes the path of a folder, got "):
        fd.adjoint.Disk("")
    with pytest.raises(fd.DeclarationError, match="is a file"):
        fd.adjoint.Disk(__file__)
    with pytest.raises(fd.DeclarationError, match=r"Not a directory.*Give a folder that can be made and written to"):
        fd.adjoint.Disk(f"{__file__}/states")
    with pytest.raises(TypeError, match="int"):
        jax.grad(loss(fd.adjoint.Checkpointed()))(dict(a=1, nu=POINT["nu"]))
