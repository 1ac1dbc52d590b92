"""Levels computed whole, one after the other, by threads that wait for each other: the numbers that tiles give."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import get
from fdsolve.kernels.native import _march, _nested, _processors, _schedule, _tiling
from fdsolve.kernels.native._derivative import march
from fdsolve.kernels.native._march import layout_of, whole_layout_of
from fdsolve.kernels.native._operands import Pull
from fdsolve.kernels.native._program import At
from fdsolve.kernels.native._tiling import Tiling, choose_tiling, or_whole

from .native_cases import Case, case_of
from .test_native_adjoints import agree, axis, gradient_of, grid, normal, portable_forbidden, wide
from .test_native_marches import CASES as MARCHES
from .test_native_nested import CASES as NESTED
from .test_native_nested import by_blocks

__all__ = ["portable_forbidden"]
ALL, UNEVEN = Tiling(64, 2, 2, whole=True), Tiling(3, 1, 1, whole=True)
PASSES = Tiling(1, 2, 2)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Of which kind the programs are that are computed level by level."""
    found: list[Any] = []
    write = _march.WholeWriter.write

    def count(writer: Any) -> Any:
        found.append(writer.program.direction)
        return write(writer)

    monkeypatch.setattr(_march.WholeWriter, "write", count)
    _march._generate.cache_clear()
    return found


@pytest.mark.parametrize("case", MARCHES, ids=lambda case: case.__name__)
def test_marches_level_by_level(case: Callable[[], Case]) -> None:
    made = case()
    assert whole_layout_of(made.call) is not None
    made.agrees((ALL, UNEVEN))


def layered(periodic: bool = False, order: int = 4, size: tuple[int, int] = (70, 40)) -> Case:
    """Waves in a medium between absorbing layers, rows enough for two threads: within a level two steps of a wide
    stencil follow each other."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.2, num=14), x=axis(size[0], periodic=periodic), y=axis(size[1])))
    u[...] = lambda u, dt, c: 2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian_of(u, order)
    for name in "y" if periodic else "xy":
        u[{name: [0, -1]}] = 0.0
    for name in "y" if periodic else "xy":
        u[{name: [0, -1]}] = fd.boundary.PML(6, speed=0.5)
    u[[0, 1]] = lambda x, y: jnp.exp(-50 * ((x - 0.5) ** 2 + (y - 0.4) ** 2))
    return case_of(u, c=0.2 + 0.02 * normal(*size))


def laplacian_of(u: Any, order: int) -> Any:
    return fd.schemes.laplacian(u, order=order, at="t-1")


GRADIENTS: dict[str, Callable[[], Case]] = {
    **NESTED,
    "layers": layered,
    "layers, round": lambda: layered(periodic=True),
    "layers of order 2": lambda: layered(order=2),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_level_by_level(name: str, portable_forbidden: None) -> None:
    case = GRADIENTS[name]()
    wanted = gradient_of(case, lambda arrays, levels: get("march", "slices")(case.call, arrays, levels, case.start))
    for tiling in (UNEVEN, PASSES) if "layers" in name else (UNEVEN,):
        found = gradient_of(case, lambda arrays, levels, t=tiling: march(case.call, arrays, levels, case.start, t))
        agree(found, wanted)


@pytest.mark.parametrize("name", [name for name in GRADIENTS if not name.startswith("along")])
def test_gradients_by_blocks_of_levels_written_down(
    name: str, portable_forbidden: None, used: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """States before blocks are written where they stay, and read from there; so are all levels of a block."""
    monkeypatch.setattr(_nested, "cut_slabs", lambda call, pull: None)
    agree(*by_blocks(GRADIENTS[name](), 5, UNEVEN))
    assert -1 in used and 1 in used


def test_passes_begin_and_end_only_once() -> None:
    """What is done at the first or last level of a pass alone is done once for all levels that are computed whole."""
    case = layered(size=(160, 160))
    names = {name for name, one in case.arrays.profiles.items() if jnp.issubdtype(one.dtype, jnp.inexact)}
    layout = whole_layout_of(case.call, Pull(tuple(sorted(names))))
    assert layout is not None
    assert {one.at for one in layout.program.operations} == set(At)
    assert layout.schedule.deepest == 2, "between them a cotangent is read two levels back"
    assert not set(layout.schedule.rings) & {one.name for one, _ in layout.program.state}


def test_shots_level_by_level() -> None:
    case = wide()
    levels = jax.jit(case.begin)(case.arrays)
    shots = jax.tree.map(lambda one: jnp.stack([one, 0.5 * one, -one]), levels)

    def run(held: Any, tiling: Tiling) -> Any:
        return march(case.call, case.arrays, held, case.start, tiling)

    found = jax.jit(jax.vmap(lambda held: run(held, ALL)))(shots)
    for k in range(3):
        alone = run(jax.tree.map(lambda one, k=k: one[k], shots), PASSES)
        for one in case.structure.carried:
            inside = tuple(slice(a, a + n) for a, n in zip(one.lower, one.shape, strict=True))
            for many, single in zip(found[one.name], alone[one.name], strict=True):
                np.testing.assert_allclose(many[k][inside], single[inside], rtol=0, atol=1e-14)


@pytest.mark.parametrize("steps", [1, 3, 4, 7])
def test_few_levels(steps: int) -> None:
    """Fewer than are read: through tiles, as before."""
    u = fd.Field("u", grid(12, x=axis(30), y=axis(20)))
    u[...] = lambda u: 0.5 * u["t-1"] + 0.3 * u["t-2"] + 0.1 * u["t-3", "x+1"]
    u[[0, 1, 2]] = lambda t, x, y: jnp.sin(7 * x * y + t)
    u[dict(x=[0, -1])] = 0.3
    case_of(u, steps).agrees((Tiling(64, 2, 2, whole=True), None))


def test_threads_never_write_different_numbers_at_once() -> None:
    """A masked rule writes what another did before: rows beside a tile cannot be computed by two threads at once."""
    u = fd.Field("u", grid(5, x=axis(64), y=axis(64)))
    v = fd.Field("v", u.grid)
    u[...] = lambda u: 0.5 * u["t-1"]
    u[fd.where(lambda x, y: (x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.1)] = lambda u: 0.25 * u["t-1", "y+1"]
    v[...] = lambda u, v: 0.1 * v["t-1"] + u["x+1"] - u["x-1"]
    for name in "xy":
        u[{name: [0, -1]}] = v[{name: [0, -1]}] = 0.5
    u[0] = v[0] = lambda x, y: jnp.sin(7 * x * y)
    case = case_of([u, v])
    assert whole_layout_of(case.call) is None
    case.agrees((ALL, None))


def smooth(size: int) -> Case:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=9), x=axis(size), y=axis(size)), dtype=jnp.float32)
    u[...] = lambda u: u["t-1"] + 0.1 * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"])
    u[0] = u[dict(x=[0, -1])] = 0.5
    return case_of(u)


def test_where_levels_are_computed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one goes through tiles at a time; of a few, where they stay in the cache that threads share."""
    monkeypatch.setattr(_tiling, "num_threads", lambda: 2)

    def chosen(case: Case, cache: int) -> Tiling:
        monkeypatch.setattr(_tiling, "shared_cache", lambda: cache)
        tiling = choose_tiling(layout_of(case.call), 32)
        return or_whole(tiling, 32, whole_layout_of(case.call))

    few = smooth(256)
    assert chosen(few, 2**25) == Tiling(32, 2, 2, whole=True)
    large = chosen(smooth(1600), 2**23)
    assert large.levels > 1 and not large.whole
    assert chosen(layered(), 2**23).whole
    assert chosen(layered(), 2**10).whole, "one level at a time"
    assert not or_whole(Tiling(1, 2, 2), 1, whole_layout_of(few.call)).whole, "a single level"
    assert not or_whole(Tiling(8, 2, 2, 32), 32, whole_layout_of(few.call)).whole, "blocks of planes"


def test_a_far_cache_counts_as_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rules go through tiles sooner than a state through a cache that serves a whole server."""
    few = smooth(512)
    found = {}
    for size in (2**25, 2**29):
        monkeypatch.setattr(_processors, "_caches", lambda size=size: {2: 2**19, 3: size})
        for module in (_processors, _tiling):
            monkeypatch.setattr(module, "num_threads", lambda: 2)
        tiling = or_whole(choose_tiling(layout_of(few.call), 32), 32, whole_layout_of(few.call))
        found[size] = _processors.shared_cache(), tiling.whole
    assert found == {2**25: (2**25, True), 2**29: (2**22, False)}


def test_rows_of_the_state_are_computed_once() -> None:
    layout = whole_layout_of(layered().call, Pull(()))
    assert layout is not None

    def most(schedule: _schedule.Schedule) -> int:
        """Rows beside a tile on which the cotangent of the field is computed."""
        each = zip(layout.program.operations, schedule.rows.below, schedule.rows.above, strict=True)
        return schedule.rows.growth + max(low + high for op, low, high in each if op.array == "u adjoint 0")

    assert most(layout.schedule) == 0 < most(_schedule.make_schedule(layout.program))
