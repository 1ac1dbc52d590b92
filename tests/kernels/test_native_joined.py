"""Narrow cells of a transpose as one loop over vectors: which cells are joined, and that derivatives stay the same."""

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from llvmlite import ir

import fdsolve as fd
from fdsolve.kernels.native import _adjoint, _derivative, _march
from fdsolve.kernels.native._cells import Cell, Term
from fdsolve.kernels.native._code import STACK, VOID, Code, text_of
from fdsolve.kernels.native._joined import NARROW, joined
from fdsolve.kernels.native._march import layout_of, pulled_of, refusal
from fdsolve.kernels.native._operands import Pull, are_ragged
from fdsolve.kernels.native._program import LANES
from fdsolve.region import Box
from fdsolve.schemes import RK4, laplacian

from .native_cases import case_of, forbid_portable


def _same(term: Term) -> Any:
    return term.operation, term.offset


def _always(term: Term) -> bool:
    return True


def _alike(cell: Cell) -> None:
    return None


def _random_cells(seed: int, layers: int = 2) -> list[Cell]:
    """Cells on some rows, of widths that join and others; a first layer of all columns, and further ones of some."""
    rng, found = np.random.default_rng(seed), []
    for layer in range(layers):
        for row in (0, 3):
            column = -4
            while column < 90:
                width = int(rng.choice([1, 1, 2, 3, 8, 15, NARROW, 50]))
                # The same term may stand in a cell twice, or be another operand's in the next one.
                picked = sorted(int(k) for k in rng.integers(0, 7, rng.integers(0, 6)))
                terms = tuple(Term(k % 5, int(rng.integers(0, 2)), (0, k % 3)) for k in picked)
                box = Box((row, column), (row + 3, column + width))
                if layer == 0 or (terms and rng.uniform() < 0.7):
                    found.append(Cell(box, terms, layer))
                column += width
    return found


def _at_columns(cells: list[Cell]) -> dict[Any, Counter[Any]]:
    """What acts at each column of the rows of each layer."""
    found: dict[Any, Counter[Any]] = {}
    for cell in cells:
        for column in range(cell.box.start[-1], cell.box.stop[-1]):
            acting = [t for t in cell.terms if not t.columns or any(a <= column < b for a, b in t.columns)]
            found.setdefault((cell.layer, cell.box.start[0], column), Counter()).update(map(_same, acting))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_same_terms_act_at_each_point(seed: int) -> None:
    cells = _random_cells(seed)
    made = joined(cells, _same, _always, _alike)
    ours, theirs = _at_columns(made), _at_columns(cells)
    assert {key: one for key, one in ours.items() if one} == {key: one for key, one in theirs.items() if one}
    first = [key for key in ours if key[0] == 0]
    assert sorted(first) == sorted(key for key in theirs if key[0] == 0), "cells that nothing is added to are all there"
    assert sum(one.box.size for one in made if not one.added) == sum(one.box.size for one in cells if not one.added)
    assert [one.layer for one in made] == sorted(one.layer for one in made), "what is added comes after"
    assert len(made) < len(cells)


def test_what_is_wide_or_cannot_vanish_stays() -> None:
    narrow = [Cell(Box((0, k), (5, k + 1)), (Term(k, 0, (0, 0)),)) for k in range(6)]
    wide = Cell(Box((0, 6), (5, 6 + NARROW)), (Term(0, 0, (0, 0)),))
    assert len(joined([*narrow, wide], _same, _always, _alike)) == 2
    assert joined([*narrow, wide], _same, lambda term: False, _alike) == [*narrow, wide]
    apart = joined(narrow, _same, lambda term: term.operation != 2, _alike)
    assert sorted(one.box.shape[-1] for one in apart) == [1, 2, 3]
    kinds = joined(narrow, _same, _always, lambda cell: cell.box.start[-1] < 2)
    assert sorted(one.box.shape[-1] for one in kinds) == [2, 4]


def _leapfrog(sizes: tuple[int, int], rule: Any, walls: Any, steps: int = 24) -> fd.Field:
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name, num in zip("xy", sizes, strict=True)}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.4 * steps, num=steps + 1), **axes))
    u[...] = rule
    u[[0, 1]] = lambda x, y: jnp.exp(-(((x - 18) / 4) ** 2) - ((y - 23) / 5) ** 2)
    for name in axes:
        u[{name: [0, -1]}] = walls
    return u


def _wave(u: Any, c: Any, dt: Any) -> Any:
    return 2 * u["t-1"] - u["t-2"] + dt**2 * c[...] * laplacian(u, order=4, at="t-1")


def _damped(u: Any, c: Any, dt: Any) -> Any:
    """Divided by what changes from point to point: no sum of products."""
    force = dt**2 * laplacian(u, order=4, at="t-1")
    return (2 * u["t-1"] - (1 - dt * c[...]) * u["t-2"] + force) / (1 + dt * c[...])


def _sines(u: Any, c: Any, dt: Any) -> Any:
    """Terms that do more than add and multiply."""
    pull = jnp.sin(u["t-1", "y+1"]) + jnp.sin(u["t-1", "x-1"])
    return _wave(u, c, dt) - 0.01 * pull


def _weighed(u: Any, c: Any, dt: Any) -> Any:
    """Its derivative is a product with the state."""
    return 2 * u["t-1"] - u["t-2"] + dt**2 * c[...] * u["t-1"] * laplacian(u, order=4, at="t-1")


SIZES = 41, 46
PROBLEMS: dict[str, tuple[Any, Any]] = {
    "layers of ten": (_wave, fd.boundary.PML(10, speed=0.8)),  # more columns than a vector has lanes
    "layers of three": (_wave, fd.boundary.PML(3, speed=0.8)),
    "walls": (_wave, 0.0),
    "divided": (_damped, 0.0),
    "sines": (_sines, 0.0),
    "a product with the state": (_weighed, 0.0),
}


def _medium() -> Any:
    return jnp.asarray(np.random.default_rng(0).uniform(0.3, 0.6, SIZES))


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradients_are_those_of_the_portable_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    u = _leapfrog(SIZES, *PROBLEMS[name])

    def loss(c: Any, kernel: str) -> Any:
        saved = fd.solve(u, c=c, save=fd.final(), kernel=kernel).final["u"]
        return jnp.vdot(jnp.asarray(np.random.default_rng(1).normal(size=saved.shape)), saved)

    theirs = jax.jit(jax.grad(lambda c: loss(c, "slices")))(_medium())
    forbid_portable(monkeypatch, _derivative)
    ours = jax.jit(jax.grad(lambda c: loss(c, "native")))(_medium())
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-13 * float(np.abs(theirs).max()))


@pytest.mark.parametrize("beside", [False, True])
def test_what_adds_and_multiplies_is_joined(beside: bool) -> None:
    for name in ("layers of three", "walls", "divided"):  # a quotient is in a product, which is computed before
        case = case_of(_leapfrog(SIZES, *PROBLEMS[name]), c=_medium())
        operations = pulled_of(case.call, Pull(("parameter c",), beside)).program.operations
        assert any(are_ragged(one.operands) for one in operations), name


def test_joined_cells_are_fewer_and_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(_leapfrog(SIZES, *PROBLEMS["layers of ten"]), c=_medium())
    pull = Pull(("parameter c",))
    few = len(pulled_of(case.call, pull).program.operations)
    monkeypatch.setattr(_adjoint, "joined", lambda cells, *_: cells)
    many = len(_march.pull_program(_march.make_program(case.call), case.call.axes, pull).program.operations)
    assert 3 * few < 2 * many


def test_cells_that_read_each_other_at_a_level_are_not_joined() -> None:
    """Mirrored columns beside a wall read those within, stage by stage: one loop for both would wait for itself."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=9), x=fd.Axis(0.0, 31.0, num=32), y=fd.Axis(0.0, 31.0, num=32))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u, kappa: kappa * laplacian(u))
    u[0] = lambda x, y: jnp.sin(0.1 * x) * jnp.cos(0.2 * y)
    u[dict(x=[0, -1])] = 0.0
    u[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    case = case_of(u, stepper=RK4(), kappa=0.4)
    assert refusal(case.call, Pull(())) is None and refusal(case.call, Pull(("parameter kappa",))) is None


def test_rings_are_as_wide_as_their_arrays_and_blocks_as_long_as_most_points_allow() -> None:
    layout = layout_of(case_of(_leapfrog((64, 640), *PROBLEMS["layers of ten"]), c=jnp.ones((64, 640))).call)
    narrow = [one for one in layout.program.arrays if one.padded_shape[-1] < 2 * LANES]
    assert narrow and all(8 * layout.ring_pitch(one.name) < layout.ring_pitch("u") for one in narrow)
    assert layout.widest == "u"
    low = [one.name for one in layout.program.arrays if layout.is_beside_wall(one.name)]
    assert not low, "seventeen of 64 rows are no few"
    rows = layout.schedule.rows
    assert rows.usual == rows.growth == 2, (
        "two derivatives follow each other in layers alone, which come to no tile but"
    )
    assert rows.apart, "those at their walls"


def test_tables_leave_the_stack_aligned() -> None:
    module = ir.Module("test")
    code = Code(module, "test", VOID, [])
    code.table(code.value(5))
    code.builder.ret_void()
    assert f"align {STACK}" in text_of(module)
