"""Tiles that come near no wall but their own: rows beside walls, which read further, are computed by those there."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import get
from fdsolve.kernels.native import _nested, _slabs
from fdsolve.kernels.native._derivative import march
from fdsolve.kernels.native._layout import Layout
from fdsolve.kernels.native._march import layout_of
from fdsolve.kernels.native._operands import Pull
from fdsolve.kernels.native._schedule import find_edges
from fdsolve.kernels.native._slabs import cut_slabs
from fdsolve.kernels.native._tiling import Tiling, fitted
from fdsolve.schemes import laplacian

from .native_cases import Case, case_of
from .test_native_adjoints import agree, axis, gradient_of, grid, normal, portable_forbidden
from .test_native_nested import by_blocks

__all__ = ["portable_forbidden"]


def far_at_walls(rows: int = 190, columns: int = 17) -> Case:
    """Beside walls, what lies far from them is read, at the level before and at its own, and what lies there too."""
    u = fd.Field("u", grid(12, 0.01, x=axis(rows), y=axis(columns)))
    u[...] = lambda u, c: u["t-1"] + 0.1 * c * (u["t-1", "x-1"] - 2 * u["t-1"] + u["t-1", "x+1"]) * u["t-1", "y-1"]
    u[dict(x=slice(1, 9))] = lambda u, a: 0.7 * u["t-1", "x+7"] + 0.2 * a * u["t-1"] ** 2
    u[dict(x=slice(-9, -1))] = lambda u, a: 0.7 * u["t-1", "x-8"] + 0.2 * a * u["t-1", "x+1"] ** 2
    u[dict(x=0)] = lambda u, a: 0.5 * a * u["t-1", "x+3"]
    u[dict(x=-1)] = 0.1
    u[dict(y=[0, -1])] = 0.2
    u[0] = lambda x, y: jnp.sin(7 * x * y) + 0.3
    return case_of(u, c=1 + 0.1 * normal(rows, columns), a=0.4)


def through_layers(rows: int = 210) -> Case:
    """Waves of order 4 between absorbing layers."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.05, num=14), x=axis(rows), y=axis(40)))
    u[...] = lambda u, dt, c: 2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian(u, order=4, at="t-1")
    for name in "xy":
        u[{name: [0, -1]}] = 0.0
    for name in "xy":
        u[{name: [0, -1]}] = fd.boundary.PML(6, speed=0.5)
    u[[0, 1]] = lambda x, y: jnp.exp(-50 * ((x - 0.5) ** 2 + (y - 0.4) ** 2))
    return case_of(u, c=0.2 + 0.02 * normal(rows, 40))


CASES: dict[str, Callable[[], Case]] = {
    "far at walls": far_at_walls,
    "layers": through_layers,
}


@pytest.mark.parametrize("name", CASES)
def test_marches_of_low_and_high_tiles(name: str) -> None:
    case = CASES[name]()
    rows = layout_of(case.call).schedule.rows
    assert rows.growth == rows.usual < 5 and bool(rows.apart) is (name == "layers")
    case.agrees([Tiling(levels, parts, 2) for levels, parts in ((1, 12), (2, 7), (4, 3), (5, 2), (12, 2))])


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_low_and_high_tiles(name: str, portable_forbidden: None) -> None:
    case = CASES[name]()
    wanted = gradient_of(case, lambda arrays, levels: get("march", "slices")(case.call, arrays, levels, case.start))
    for tiling in (Tiling(1, 9, 2), Tiling(4, 3, 2)):
        found = gradient_of(case, lambda arrays, levels, t=tiling: march(case.call, arrays, levels, case.start, t))
        agree(found, wanted)


@pytest.mark.parametrize("name", CASES)
def test_gradients_by_slabs(name: str, portable_forbidden: None, monkeypatch: pytest.MonkeyPatch) -> None:
    used, run = [], _nested.pull_slabs
    monkeypatch.setattr(_nested, "pull_slabs", lambda *given: (used.append(given[2].parts), run(*given))[1])
    for one, value in (("SMALL", 1), ("HIGH", 1), ("num_threads", lambda: 3), ("stays_in_cache", lambda call: False)):
        monkeypatch.setattr(_slabs, one, value)
    for block in (2, 4):
        agree(*by_blocks(CASES[name](), block))
    assert max(used) > 1


def _random(seed: int) -> Case:
    """Rules of random reads: inside, beside both walls, at walls; of one field or of two that read each other."""
    rng, rows = np.random.default_rng(seed), int(np.random.default_rng(seed).integers(110, 260))
    deep = [int(one) for one in rng.integers(1, 25, 2)]
    g = grid(4, 0.01, x=axis(rows), y=axis(9))
    fields = [fd.Field(name, g) for name in "uv"[: 1 + seed % 2]]

    def rule(number: int, reach: int, same: bool) -> Callable[..., Any]:
        """Reads no further than `reach`: of levels before, and of its own from fields before it."""
        offsets = [int(one) for one in rng.integers(-reach, reach + 1, 3)]

        def reads(given: list[Any]) -> Any:
            found = sum(0.1 * one["t-1", f"x{o:+d}"] for one in given for o in offsets if o)
            if same and number:
                found = found + 0.1 * given[0][f"x{offsets[0] or 1:+d}"]
            return found + 0.3 * given[number]["t-1"]

        return (lambda u: reads([u])) if len(fields) == 1 else (lambda u, v: reads([u, v]))

    usual, wall = (int(one) for one in (rng.integers(1, 4), rng.integers(2, 9)))
    for number, one in enumerate(fields):
        one[...] = 0.1
        one[dict(x=slice(9, -9))] = rule(number, usual, True)
        one[dict(x=slice(9, 9 + deep[0]))] = rule(number, wall, bool(rng.integers(2)))
        one[dict(x=slice(-9 - deep[1], -9))] = rule(number, wall, bool(rng.integers(2)))
        one[0] = lambda x, y: jnp.sin(3 * x + y)
    return case_of(fields)


@pytest.mark.parametrize("seed", range(30))
def test_every_row_that_is_read_is_there(seed: int) -> None:
    """Of each tile, by what it computes at each level: no row is read that neither it has computed, nor, of levels
    before the pass, lies further from it than what is kept beside tiles."""
    case = _random(seed)
    cut = 0
    for layout in (layout_of(case.call), layout_of(case.call, Pull(()))):
        for levels, parts in ((1, 9), (2, 5), (3, 2), (7, 3)):
            _, tiling = fitted(layout, levels, Tiling(levels, parts, parts))
            cut += tiling.parts > 1
            _check(layout, levels, tiling.parts)
    assert cut


def _check(layout: Layout, levels: int, parts: int) -> None:
    program, rows, size = layout.program, layout.schedule.rows, layout.size(0)
    for part in range(parts):
        start = layout.low(0) if part == 0 else part * size // parts
        stop = layout.high(0) if part == parts - 1 else (part + 1) * size // parts
        halo = layout.halo(levels)

        def computed(number: int, level: int, start: int = start, stop: int = stop) -> tuple[int, int]:
            box, more = program.operations[number].box, (levels - level) * rows.growth
            low = max(start - rows.below[number] - more, box.start[0])
            return low, min(stop + rows.above[number] + more, box.stop[0])

        for edge in find_edges(program):
            for level in range(1, levels + 1):
                low, high = computed(edge.reader, level)
                box = program.operations[edge.writer].box
                first, after = max(low + edge.offset[0], box.start[0]), min(high + edge.offset[0], box.stop[0])
                if low >= high or first >= after:
                    continue
                if level - edge.lag >= 1:
                    there = computed(edge.writer, level - edge.lag)
                    assert there[0] <= first and after <= there[1], (edge, level, part)
                else:
                    assert start - halo <= first and after <= stop + halo, (edge, level, part)


def test_slabs_are_high_enough_for_what_is_computed_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slab that is not at a wall comes, with all that its march computes beside it, to no row that walls read far."""
    for one, value in (("SMALL", 1), ("HIGH", 1), ("num_threads", lambda: 16), ("stays_in_cache", lambda call: False)):
        monkeypatch.setattr(_slabs, one, value)
    for steps in (2, 4):
        call = replace(through_layers(400).call, steps=steps, block=0)
        slabs, forth = cut_slabs(call, Pull(("parameter c",))), layout_of(call)
        assert slabs is not None and slabs.parts > 1 and forth.schedule.rows.apart
        beside = slabs.wide + forth.halo(steps) + forth.schedule.rows.apart
        assert forth.size(0) // slabs.parts >= beside


def test_levels_of_small_states_are_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that threads' own caches hold; others where rings leave these anyway, if the shared cache holds them."""
    call, pull = replace(through_layers().call, steps=4, block=0), Pull(("parameter c",))
    monkeypatch.setattr(_slabs, "num_threads", lambda: 2)
    for own, shared, stays in ((2**24, 2**24, True), (2**12, 2**25, True), (2**12, 2**19, False)):
        monkeypatch.setattr(_slabs, "own_cache", lambda own=own: own)
        monkeypatch.setattr(_slabs, "shared_cache", lambda shared=shared: shared)
        assert _slabs.stays_in_cache(call) is stays
        if stays:
            assert cut_slabs(call, pull) is None and not _slabs.lies_near(call)
    monkeypatch.setattr(_slabs, "shared_cache", lambda: 2**20)
    plain = replace(far_at_walls(190, 170).call, steps=4, block=0)
    for own, stays in ((2**24, True), (2**18, False)):
        monkeypatch.setattr(_slabs, "own_cache", lambda own=own: own)
        assert _slabs.stays_in_cache(plain) is stays
