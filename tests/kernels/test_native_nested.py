"""Derivatives by blocks of levels in generated code: states on the way, levels again, slabs of rows, sums in lanes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import get
from fdsolve.kernels.native import _derivative, _launch, _nested, _objects, _pull, _slabs
from fdsolve.kernels.native._derivative import march, why_not
from fdsolve.kernels.native._march import pulled_of
from fdsolve.kernels.native._operands import Pull
from fdsolve.kernels.native._tiling import Tiling
from fdsolve.schemes import RK4, laplacian

from .native_cases import Case, case_of, forbid_portable
from .test_native_adjoints import agree, axis, gradient_of, grid, normal, wide


@pytest.fixture(autouse=True, scope="module")
def compiled_quickly() -> Iterator[None]:
    """Machine code as it comes: what takes long here is to make it. And slabs, though these problems stay in cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_objects, "SPEED", 0)
        patch.setattr(_slabs, "stays_in_cache", lambda call: False)
        yield


@pytest.fixture
def portable_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives by the portable kernel are an error."""

    forbid_portable(monkeypatch, _derivative, _pull, _nested)


def leapfrog(rows: int = 141) -> Case:
    """Two levels kept, a coefficient at every point and a number, walls of two kinds."""
    u = fd.Field("u", grid(12, 0.01, x=axis(rows), y=axis(23)))
    u[...] = lambda u, dt, c, a: (
        2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian(u, at="t-1") + 1e-3 * a * u["t-1"] * u["t-1", "x+1"]
    )
    u[[0, 1]] = lambda x, y: jnp.sin(7 * x * y)
    u[dict(x=[0, -1])] = 0.1
    u[dict(y=[0, -1])] = fd.boundary.Neumann(0.1)
    return case_of(u, c=1.0 + 0.1 * normal(rows, 23), a=0.4)


def two_velocities() -> Case:
    """Two fields that both read both, of which both gradients by two numbers want all levels."""
    g = grid(12, x=axis(150), y=axis(37))
    u, v = fd.Field("u", g), fd.Field("v", g)

    def carried(w: Any, u: Any, v: Any, nu: Any, b: Any) -> Any:
        along = u["t-1"] * (w["t-1"] - w["t-1", "x-1"]) + b * v["t-1"] * (w["t-1"] - w["t-1", "y-1"])
        around = w["t-1", "x-1"] + w["t-1", "x+1"] + w["t-1", "y-1"] + w["t-1", "y+1"]
        return w["t-1"] - 0.1 * along + nu * (around - 4 * w["t-1"])

    u[...] = lambda u, v, nu, b: carried(u, u, v, nu, b)
    v[...] = lambda u, v, nu, b: carried(v, u, v, nu, b)
    u[0] = lambda x, y: jnp.sin(7 * x * y + 1)
    v[0] = lambda x, y: jnp.cos(5 * x - 9 * y)
    for one in (u, v):
        one[dict(x=[0, -1])] = one[dict(y=[0, -1])] = 0.1
    return case_of((u, v), nu=0.05, b=0.7)


def in_space() -> Case:
    """Three axes, a wall whose value depends on the number too, a mask."""
    u = fd.Field("u", grid(12, x=axis(136), y=axis(5), z=axis(19)))
    u[...] = lambda u, k: u["t-1"] + 0.1 * k * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "z+1"]) * u["t-1"]
    u[fd.where(lambda x, y, z: jnp.sin(30 * x + 20 * z) > 0.3137)] = lambda u: 0.8 * u["t-1"] ** 2
    u[0] = lambda x, y, z: jnp.sin(7 * x * y + z)
    u[dict(x=[0, -1])] = 0.1
    u[dict(y=[0, -1])] = 0.2
    u[dict(z=0)] = 0.3
    u[dict(z=-1)] = lambda u, k: k * u["z-1"]
    return case_of(u, k=0.3)


def on_a_line() -> Case:
    """One axis."""
    u = fd.Field("u", grid(12, x=axis(90)))
    u[...] = lambda u, k: u["t-1"] + k * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"]) * u["t-1"]
    u[0] = lambda x: jnp.sin(7 * x)
    u[dict(x=[0, -1])] = 0.1
    return case_of(u, k=0.3)


def between_walls() -> Case:
    """Order 6 with its closures at all walls: two hundred pieces in the transpose."""
    u = fd.Field("u", grid(12, 0.01, x=axis(40), y=axis(31)))
    u[...] = lambda u, dt, c: 2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian(u, order=6, at="t-1")
    u[[0, 1]] = lambda x, y: jnp.sin(7 * x * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.1
    return case_of(u, c=0.4)


def along_time() -> Case:
    """Records at a wall, along it and time, at a point, in a coefficient read at two times; a number beside them."""
    u = fd.Field("u", grid(12, x=axis(40), y=axis(31)))
    u[...] = lambda u, k, a: (
        u["t-1"] + 0.1 * k * (1 + a * u["t-1"]) * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "y+1"])
    )
    u[0] = lambda x, y: jnp.sin(7 * x * y)
    u[dict(x=[0, -1])] = u[dict(y=-1)] = 0.1
    u[dict(x=0)] = lambda s: s
    u[dict(y=0)] = lambda w: w**2
    u[fd.point(x=0.3, y=0.4)] += lambda q, a: a * q
    k, s, q = (fd.along(0.5 + 0.1 * normal(13), "t") for _ in range(3))
    return case_of(u, a=0.3, k=k, s=s, q=q, w=fd.along(0.5 + 0.1 * normal(13, 40), "t", "x"))


def along_time_in_space() -> Case:
    """Three axes, two levels kept; a source's record and a wall's, a number and a coefficient at every point."""
    u = fd.Field("u", grid(12, 0.01, x=axis(9), y=axis(6), z=axis(18)))
    u[...] = lambda u, dt, c, a: (
        2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian(u, at="t-1") + 1e-3 * a * u["t-1"] * u["t-2", "x+1"]
    )
    u[[0, 1]] = lambda x, y, z: jnp.sin(7 * x * y + z)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = u[dict(z=-1)] = 0.1
    u[dict(z=0)] = lambda s: s
    u[fd.point(x=0.3, y=0.4, z=0.5)] += lambda q, a: a * q
    s, q = (fd.along(0.5 + 0.1 * normal(13), "t") for _ in range(2))
    return case_of(u, s=s, q=q, a=0.3, c=1.0 + 0.1 * normal(9, 6, 18))


def narrow() -> Case:
    """A wide stencil by a number in few columns: where all its reads act there are fewer of them than lanes."""
    u = fd.Field("u", grid(12, 0.01, x=axis(150), y=axis(24)))
    u[...] = lambda u: 0.9 * u["t-1"]
    u[dict(x=slice(4, -4), y=slice(4, -4))] = lambda u, k: (
        0.9 * u["t-1"] + k * sum(0.01 / o * (u["t-1", f"x{o:+d}"] - u["t-1", f"y{o:+d}"]) for o in (-4, -1, 2, 4))
    )
    u[0] = lambda x, y: jnp.sin(7 * x * y)
    return case_of(u, k=0.3)


def by_stages() -> Case:
    """A Runge–Kutta step of three stages, a coefficient at every point, walls of two kinds, a source beside it."""
    u = fd.Field("u", grid(12, 0.001, x=axis(150), y=axis(24)))
    u[...] = fd.rate(lambda u, k: 0.01 * k * laplacian(u))
    u[fd.where(lambda x, y: x + y > 1.3)] += fd.rate(lambda u, a: a * u**2)
    u[0] = lambda x, y: jnp.sin(7 * x * y)
    u[dict(x=[0, -1])] = 0.1
    u[dict(y=[0, -1])] = fd.boundary.Neumann(0.1)
    return case_of(u, stepper=fd.schemes.SSPRK3(), k=1.0 + 0.1 * normal(150, 24), a=0.3)


def round_and_tall() -> Case:
    """Rows counted round, a wide stencil whose weights share a product with a coefficient, and a term not linear."""
    g = grid(12, 0.01, x=axis(160, periodic=True), y=axis(26, periodic=True))
    u = fd.Field("u", g)
    u[...] = lambda u, dt, c, a: (
        2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian(u, order=4, at="t-1") + 1e-3 * a * u["t-1", "x-2"] * u["t-1"]
    )
    u[[0, 1]] = lambda x, y: jnp.sin(2 * np.pi * x) * jnp.cos(2 * np.pi * y)
    return case_of(u, c=1.0 + 0.1 * normal(160, 26), a=0.4)


CASES: dict[str, Callable[[], Case]] = {
    "along time": along_time,
    "along time, in space": along_time_in_space,
    "between walls": between_walls,
    "leapfrog": leapfrog,
    "two velocities": two_velocities,
    "in space": in_space,
    "on a line": on_a_line,
    "round": wide,
    "narrow": narrow,
    "by stages": by_stages,
    "round and tall": round_and_tall,
}
TALL = ("leapfrog", "two velocities", "in space", "by stages", "round and tall")


def by_blocks(case: Case, block: int, tiling: Tiling | None = None) -> Any:
    """The gradient by a march whose derivative goes back by blocks, and the steps of a whole number of them."""
    steps = case.call.steps // block * block
    call, plain = replace(case.call, steps=steps, block=block), replace(case.call, steps=steps)
    found = gradient_of(case, lambda arrays, levels: march(call, arrays, levels, case.start, tiling))
    wanted = gradient_of(case, lambda arrays, levels: get("march", "slices")(plain, arrays, levels, case.start))
    return found, wanted


@pytest.fixture
def slabs_used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many slabs each pull that goes forth and back at once is cut into."""
    used: list[int] = []
    run = _nested.pull_slabs

    def count(*given: Any) -> Any:
        used.append(given[2].parts)
        return run(*given)

    monkeypatch.setattr(_nested, "pull_slabs", count)
    return used


@pytest.mark.parametrize("name", CASES)
def test_blocks_of_levels_give_the_same_gradient(
    name: str, portable_forbidden: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Levels are written to memory, then cotangents pulled past them."""
    monkeypatch.setattr(_nested, "cut_slabs", lambda call, pull: None)
    case = CASES[name]()
    for block, tiling in ((3, None), (2, Tiling(1, 2, 2))):
        agree(*by_blocks(case, block, tiling))


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("along") and name != "on a line"])
def test_forth_and_back_at_once_give_the_same_gradient(
    name: str, portable_forbidden: None, slabs_used: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_slabs, "SMALL", 2**30)
    case = CASES[name]()
    for block in (2, 3, 6):
        agree(*by_blocks(case, block))
    assert slabs_used and set(slabs_used) == {1}


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("along") and name != "on a line"])
def test_states_kept_in_large_pages_from_the_start(
    name: str, portable_forbidden: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for where arrays are large: the march begins when they are there, and writes into them."""
    asked, ask = [], _launch.fresh_before

    def count(like: Any, *given: Any) -> Any:
        asked.append(len(like))
        return ask(like, *given)

    monkeypatch.setattr(_slabs, "SMALL", 2**30)
    monkeypatch.setattr(_launch, "LARGE", 1)
    monkeypatch.setattr(_launch, "fresh_before", count)
    agree(*by_blocks(CASES[name](), 3))
    assert asked and all(asked)


@pytest.mark.parametrize("high", [1, _slabs.HIGH])
@pytest.mark.parametrize("name", TALL)
def test_slabs_of_rows_give_the_same_gradient(
    name: str, high: int, portable_forbidden: None, slabs_used: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_slabs, "SMALL", 1)
    monkeypatch.setattr(_slabs, "HIGH", high)
    monkeypatch.setattr(_slabs, "num_threads", lambda: 2 if high > 1 else 3)
    agree(*by_blocks(CASES[name](), 3))
    assert slabs_used and set(slabs_used) <= {2, 3}


def test_blocks_are_short_enough_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def lengths(size: int, reach: int) -> list[int]:
        """Those of the lengths compared that are not too long."""
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=65), x=axis(size), y=axis(size)))
        u[...] = lambda u: 0.5 * u["t-1"] + 0.25 * (u["t-1", f"x-{reach}"] + u["t-1", f"x+{reach}"])
        for name in "xy":
            u[{name: slice(0, reach)}] = u[{name: slice(-reach, None)}] = 0.0
        u[0] = 1.0
        call = case_of(u).call
        return [one for one in _slabs.LENGTHS if not _slabs.is_too_long(replace(call, steps=one, block=0))]

    monkeypatch.setattr(_slabs, "own_cache", lambda: 2**30)
    monkeypatch.setattr(_slabs, "num_threads", lambda: 2)
    assert lengths(1024, 1) == list(_slabs.LENGTHS)
    few = lengths(256, 4)
    assert few and max(few) < 8
    monkeypatch.setattr(_slabs, "num_threads", lambda: 1)
    assert lengths(256, 4) == list(_slabs.LENGTHS)
    monkeypatch.setattr(_slabs, "own_cache", lambda: 2**20)
    assert lengths(256, 4) == list(_slabs.LENGTHS)[1:], "rings of the longest leave a thread's own cache"


def test_a_block_is_no_shorter_than_the_levels_that_are_kept() -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=13), x=axis(40), y=axis(23)))
    u[...] = lambda u: 0.9 * u["t-1"]
    u[dict(x=slice(1, -1), y=slice(1, -1))] = lambda u, a: (
        0.5 * u["t-1"] + 0.1 * a * u["t-1"] * sum(u[f"t-{back}", "x+1"] for back in range(1, 5))
    )
    u[list(range(4))] = lambda x, y: jnp.sin(7 * x * y)
    call = case_of(u, a=0.3).call
    assert "a block of 3 levels is shorter than the 4 that are kept" in str(why_not(replace(call, steps=8, block=3)))
    assert why_not(replace(call, steps=8, block=4)) is None

    def loss(a: Any, kernel: str) -> Any:
        made = fd.solve(u, a=a, save=fd.final(), kernel=kernel, adjoint=fd.adjoint.Checkpointed(levels=2))
        return jnp.sum(jnp.sin(made.final["u"]))

    found, wanted = (jax.grad(loss)(0.3, kernel) for kernel in ("native", "slices"))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("block", [4, 5, 9])
def test_what_is_left_of_a_march_by_blocks(block: int, portable_forbidden: None) -> None:
    """Of 11 levels, of which two are kept: three, a single one, which is a level more than a block, and two."""
    case = leapfrog(40)
    assert case.call.steps % block
    call = replace(case.call, block=block)
    assert why_not(call) is None
    found = gradient_of(case, lambda arrays, levels: march(call, arrays, levels, case.start))
    wanted = gradient_of(case, lambda arrays, levels: get("march", "slices")(case.call, arrays, levels, case.start))
    agree(found, wanted)


def test_sums_of_numbers_take_no_more_columns_than_add_to_them() -> None:
    """Order 6 with closures at all walls: lanes for rows, columns beside two walls."""
    case = between_walls()
    found = [one.array.padded_shape for one in pulled_of(case.call, Pull(("parameter c",))).sums]
    assert len(found) > 1 and all(shape[0] == 40 and shape[1] <= 16 for shape in found)


def test_where_levels_do_not_fit_in_the_cache_they_are_written_to_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    call, pull = two_velocities().call, Pull(("parameter nu",))
    block = replace(call, steps=4)
    assert _slabs.cut_slabs(block, pull) is not None and _slabs.lies_near(block)
    monkeypatch.setattr(_slabs, "shared_cache", lambda: 2**16)
    assert _slabs.cut_slabs(block, pull) is None and not _slabs.lies_near(block)


def test_where_half_of_the_threads_would_have_no_slab_levels_are_written_to_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=65), x=axis(40), y=axis(15), z=axis(40)))
    u[...] = fd.rate(lambda u, k: k * laplacian(u))
    u[0] = 1.0
    for name in "xyz":
        u[{name: [0, -1]}] = 0.0
    block = replace(case_of(u, k=0.1, stepper=RK4()).call, steps=4, block=0)
    monkeypatch.setattr(_slabs, "shared_cache", lambda: 2**25)
    for threads, cut in ((1, True), (2, False)):
        monkeypatch.setattr(_slabs, "num_threads", lambda threads=threads: threads)
        assert (_slabs.cut_slabs(block, Pull(("parameter k",))) is not None) is cut
        assert _slabs.lies_near(block) is cut


def test_derivatives_by_coefficients_are_left_by_the_march() -> None:
    """What an affine rule's derivative by κ reads, of a stage or five entries of the state, is at hand where the rule
    is computed; no stage is computed again."""
    case = by_stages()
    alone, beside = (pulled_of(case.call, Pull(("parameter k",), beside)) for beside in (False, True))
    assert any(" stage " in one.name for one in alone.program.arrays)
    assert not any(" stage " in one.name for one in beside.program.arrays if "adjoint" not in one.name)
    left = [one.name for one in beside.forth.arrays if " derivative " in one.name]
    assert left == [f"u slope {stage} derivative 0" for stage in range(3)]
    assert set(left) < set(beside.levels.names) and beside.levels.last


def test_what_is_kept_is_a_state_for_each_block() -> None:
    case = two_velocities()

    def held(block: int) -> int:
        call = replace(case.call, block=block)

        def run(levels: Any) -> Any:
            return march(call, case.arrays, levels, case.start)

        pull = jax.eval_shape(lambda levels: jax.vjp(run, levels)[1], levels)
        return sum(one.size * one.dtype.itemsize for one in jax.tree.leaves(pull))

    levels = jax.eval_shape(case.begin, case.arrays)
    state = sum(one.size * one.dtype.itemsize for one in jax.tree.leaves(levels))
    assert held(2) - held(6) == 4 * state  # 6 blocks against 2


def test_derivatives_of_gradients_through_blocks() -> None:
    case = on_a_line()
    levels = jax.jit(case.begin)(case.arrays)
    call = replace(case.call, block=4)

    def gradient(kernel: Callable[..., Any], levels: Any) -> Any:
        def total(levels: Any, k: Any) -> Any:
            arrays = replace(case.arrays, wholes={**case.arrays.wholes, "parameter k": k})
            return jnp.sum(jnp.sin(kernel(call, arrays, levels, case.start)["u"][0]))

        return jax.grad(total, argnums=(0, 1))(levels, case.arrays.wholes["parameter k"])

    along = jax.tree.map(jnp.cos, levels)
    found, wanted = (
        jax.jvp(lambda given, kernel=kernel: gradient(kernel, given), (levels,), (along,))
        for kernel in (march, get("march", "slices"))
    )
    agree(found, wanted, 1e-12)


def test_the_cotangent_of_a_number_takes_a_few_lanes_a_row() -> None:
    case = two_velocities()
    sums = pulled_of(case.call, Pull(("parameter nu",))).sums
    assert [one.array.padded_shape for one in sums] == [(150, 16), (150, 1), (150, 1)]  # the last beside walls
    assert [sum(box.size for box in one.boxes) for one in sums] == [148 * 16, 146, 146]


@pytest.mark.parametrize("adjoint", [None, fd.adjoint.Checkpointed(levels=2)])
def test_solves_go_back_by_blocks(adjoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested checkpoints ask the kernel for blocks of its own, with steps left over."""
    asked, run = [], _nested.pull_blocks
    monkeypatch.setattr(
        _derivative, "pull_blocks", lambda static, *given: asked.append(static[0].block) or run(static, *given)
    )
    u = fd.Field("u", grid(230, x=axis(90), y=axis(230)))
    u[...] = lambda u, k: u["t-1"] + k * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"]) * u["t-1"]
    u[0] = lambda x, y: jnp.sin(7 * x * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.1

    def loss(k: Any, **options: Any) -> Any:
        return jnp.sum(jnp.sin(fd.solve(u, k=k, save=fd.final(), **options).final["u"]))

    given = {} if adjoint is None else {"adjoint": adjoint}
    found = jax.value_and_grad(lambda k: loss(k, kernel="native", **given))(0.2)
    agree(found, jax.value_and_grad(lambda k: loss(k, kernel="slices", adjoint=fd.adjoint.Full()))(0.2), 1e-12)
    assert asked and all(block >= 2 for block in asked)
