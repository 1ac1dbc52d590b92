"""Values of a level that are dear to compute again, written down for gradients; and long ones within their readers."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import pytest

import fdsolve as fd
from fdsolve.kernels import get
from fdsolve.kernels.native import _dear, _derivative, _fused, _march
from fdsolve.kernels.native._dear import dear_arrays
from fdsolve.kernels.native._derivative import march
from fdsolve.kernels.native._fused import fuse_values
from fdsolve.kernels.native._march import layout_of, pulled_of, whole_layout_of
from fdsolve.kernels.native._operands import Pull
from fdsolve.kernels.native._program import make_program
from fdsolve.kernels.native._tiling import Tiling
from fdsolve.schemes import HLL, SSPRK3, TVD, WENO5, Euler, Heun, ShallowWater, conservation
from fdsolve.stencil import count_equations

from .native_cases import Case, case_of
from .test_native_adjoints import agree, gradient_of, portable_forbidden

__all__ = ["portable_forbidden"]
WHOLE, PASSES, LOW = Tiling(64, 2, 2, whole=True), Tiling(3, 2, 2), Tiling(1, 1, 1)


def _field(name: str, sizes: tuple[int, ...], around: bool, steps: int) -> fd.Field:
    axes = {name: fd.Axis(0.0, 1.0, num=num, cells=True, periodic=around)
            for name, num in zip("xyz", sizes, strict=False)}  # fmt: skip
    return fd.Field(name, fd.Grid(t=fd.Time(0.0, 0.003 * steps, num=steps + 1), **axes))


def _start(*at: Any) -> Any:
    return 1.0 + 0.2 * sum(jnp.sin(5.0 * x + k) for k, x in enumerate(at))


def burgers(*sizes: int, around: bool = True, stepper: Any = None, steps: int = 5, reconstruction: Any = None) -> Case:
    """Shocks by fluxes of order 5, which are long, or of another reconstruction."""
    u = _field("u", sizes, around, steps)
    fluxes = (lambda u: u**2 / 2,) * len(sizes)
    scheme = reconstruction or WENO5()
    u[...] = fd.rate(lambda u, k: k * conservation(fluxes, u, reconstruction=scheme))
    u[0] = {1: lambda x: _start(x), 2: lambda x, y: _start(x, y)}[len(sizes)]
    if not around:
        for axis in u.grid.space:
            u[{axis: [0, -1]}] = fd.boundary.Neumann(0.1)
    return case_of(u, stepper=stepper or Heun(), k=0.7)


def water(reconstruction: Any) -> Case:
    """Shallow water, all components of which share their fluxes."""
    fields = [_field(name, (12, 11), True, 4) for name in "hpq"]
    law = ShallowWater(g=1.0)
    fd.together(*fields)[...] = fd.rate(
        lambda h, p, q, k: tuple(k * r for r in conservation(law, (h, p, q), flux=HLL(), reconstruction=reconstruction))
    )
    for one, value in zip(fields, (1.0, 0.1, -0.2), strict=True):
        one[0] = lambda x, y, value=value: value * _start(x, y)
    return case_of(fields, stepper=Heun(), k=0.7)


CASES: dict[str, tuple[Callable[[], Case], tuple[Tiling | None, ...]]] = {
    "plane": (lambda: burgers(13, 11, reconstruction=TVD()), (None, WHOLE, PASSES)),
    "plane, two threads": (lambda: burgers(70, 9, steps=4, reconstruction=TVD()), (WHOLE, PASSES)),
    "plane between walls": (lambda: burgers(37, 12, around=False, reconstruction=TVD()), (WHOLE, PASSES, LOW)),
    "line": (lambda: burgers(40, reconstruction=TVD()), (None, LOW)),
    "line between walls": (lambda: burgers(23, around=False), (None,)),
    "three stages": (lambda: burgers(21, stepper=SSPRK3()), (None, PASSES)),
    "water": (lambda: water(TVD()), (PASSES,)),
}


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short rules count as long ones."""
    monkeypatch.setattr(_dear, "WORTH", 8)
    monkeypatch.setattr(_fused, "LEAST", 8)
    for cache in (_march._pulled_of, _march._layout_of, _march._whole_layout_of):
        cache.cache_clear()
    yield
    for cache in (_march._pulled_of, _march._layout_of, _march._whole_layout_of):
        cache.cache_clear()


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_portable_kernel(name: str, portable_forbidden: None, eager: None) -> None:
    make, tilings = CASES[name]
    case = make()
    assert any(array.split()[1:2] == ["stage"] for array in _written(case))
    wanted = gradient_of(case, lambda arrays, levels: get("march", "slices")(case.call, arrays, levels, case.start))
    for tiling in tilings:
        found = gradient_of(case, lambda arrays, levels, t=tiling: march(case.call, arrays, levels, case.start, t))
        agree(found, wanted)


def _written(case: Case) -> set[str]:
    pull = _derivative._pull_by(case.call, ["parameter k"])
    return set(pulled_of(case.call, pull).levels.names)


def test_values_of_stages_are_written_down_with_levels() -> None:
    case = burgers(13, 11, stepper=SSPRK3())
    assert _written(case) == {"u", "u stage 1", "u stage 2"}
    assert set(pulled_of(case.call, Pull(("parameter k",))).levels.names) == {"u"}
    assert whole_layout_of(case.call) is not None and layout_of(case.call).program.wraps, "the cases above ran so"


@pytest.mark.parametrize("name", ["one stage", "short", "blocks", "one step"])
def test_nothing_more_is_written_down_where_it_is_soon_computed_again(name: str) -> None:
    if name == "short":
        u = _field("u", (13, 11), True, 4)
        u[...] = fd.rate(lambda u, k: k * fd.schemes.laplacian(u**3))
        u[0] = lambda x, y: _start(x, y)
        case = case_of(u, stepper=Heun(), k=0.7)
    else:
        case = burgers(13, 11, stepper=Euler() if name == "one stage" else Heun())
    if name == "blocks":
        case.call = replace(case.call, block=3)
    if name == "one step":
        case.call = replace(case.call, steps=1)
    assert _written(case) == {"u"}


def test_what_is_written_down_saves_more_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    program = fuse_values(make_program(water(TVD()).call))
    assert dear_arrays(program) == {"h stage 1", "p stage 1", "q stage 1"}, "each by itself would save nothing"
    monkeypatch.setattr(_dear, "WORTH", 10**4)
    assert dear_arrays(program) == frozenset()


def test_sides_of_faces_are_computed_within_long_fluxes() -> None:
    call = burgers(13, 11).call
    program = make_program(call)
    fused = fuse_values(program)
    longest = [max(count_equations(o.rule.jaxpr) for o in one.operations) for one in (program, fused)]
    assert len(fused.arrays) == len(program.arrays) - 8, "two sides, two axes, two stages"
    assert longest[1] > longest[0] + 150
    assert {one.array for one in fused.operations} == {one.name for one in fused.arrays}


def test_short_values_and_what_is_read_beside_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    program = make_program(burgers(13, 11, reconstruction=TVD()).call)
    assert fuse_values(program).arrays == program.arrays, "sides and fluxes are short"
    monkeypatch.setattr(_fused, "LEAST", 1)
    fused = fuse_values(program)
    assert len(fused.arrays) == len(program.arrays) - 8
    assert any(o.array.startswith("derived") for o in fused.operations), "fluxes are read at faces beside a point"
    monkeypatch.setattr(_fused, "MOST", 20)
    assert fuse_values(program).arrays == program.arrays


def test_nothing_is_set_that_none_reads() -> None:
    """Lines folded into rows have ghosts of all arrays; those of the sides of faces are read by none."""
    line = burgers(100_000, reconstruction=TVD(), steps=64)
    folded = _derivative._folding(line.call)
    assert folded is not None
    program = make_program(folded.of(line.call))
    read = {read.field for one in program.operations for read in one.reads}
    written = {one.array for one in program.operations} - {one.name for one, _ in program.state}
    assert written and written <= read
    assert [one.array for one in program.operations].count("derived 1") == 1


def test_components_give_together_though_each_reads_more() -> None:
    """Of fluxes of order 5 each reads those of its own quantity at points too."""
    case = water(WENO5())
    names = [one.name for one in pulled_of(case.call, Pull(("parameter k",))).program.arrays]
    gifts = {name.split()[1] for name in names if name.startswith("gift")}
    assert len(gifts) == 4, "of two axes and two stages"
