"""Transposes of wide stencils between walls: near edges and corners, terms are added up direction by direction."""

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels.native import _cells
from fdsolve.kernels.native._bundles import make_bundles
from fdsolve.kernels.native._march import layout_of, pulled_of
from fdsolve.kernels.native._operands import Pull
from fdsolve.kernels.native._program import At, Program
from fdsolve.kernels.native._schedule import make_schedule
from fdsolve.kernels.native._terms import Terms
from fdsolve.region import Box
from fdsolve.schemes import laplacian

from .native_cases import case_of
from .test_native_adjoints import axis, grid


def _wave(sizes: tuple[int, ...], walls: Any, periodic: bool = False, order: int = 4, steps: int = 16) -> fd.Field:
    axes = {name: axis(num, periodic=periodic and name == "x") for name, num in zip("xyz", sizes, strict=False)}
    u = fd.Field("u", grid(steps, 0.01, **axes))
    u[...] = lambda u, c, a, dt: (
        2 * u["t-1"] - u["t-2"] + dt**2 * c[...] * laplacian(u, order=order, at="t-1") + dt**2 * a * u["t-1"] ** 2
    )
    u[[0, 1]] = {
        2: lambda x, y: jnp.sin(3 * x) * jnp.cos(2 * y),
        3: lambda x, y, z: jnp.sin(3 * x) * jnp.cos(2 * y) * jnp.exp(-z),
    }[len(sizes)]
    for name in list(axes)[1 if periodic else 0 :]:
        u[{name: [0, -1]}] = walls
    return u


def _moved_values(sizes: tuple[int, ...]) -> dict[str, Any]:
    medium = np.random.default_rng(0).uniform(0.5, 1.5, sizes)
    return dict(c=jnp.asarray(medium), a=jnp.float64(0.7))


SHAPES: dict[str, tuple[tuple[int, ...], Any, bool]] = {
    "a plane": ((17, 16), 0.1, False),
    "space": ((13, 12, 14), 0.0, False),
    "space around": ((12, 13, 12), fd.boundary.Robin(1.0, 0.4, 0.1), True),
}


@pytest.mark.parametrize("name", SHAPES)
def test_gradients_agree_with_the_portable_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, walls, periodic = SHAPES[name]
    u, layered = _wave(sizes, walls, periodic), []
    layers = _cells.Cutter.layers

    def noted(*given: Any) -> Any:
        layered.append(found := layers(*given))
        return found

    monkeypatch.setattr(_cells.Cutter, "layers", noted)
    monkeypatch.setattr(_cells, "MANY", 30)

    def loss(parameters: Any, kernel: str) -> Any:
        saved = fd.solve(u, save=fd.every(7), kernel=kernel, **parameters)["u"]
        return jnp.vdot(jnp.asarray(np.random.default_rng(1).normal(size=saved.shape)), saved)

    at = _moved_values(sizes)
    ours, theirs = (jax.jit(jax.grad(lambda p, kernel=kernel: loss(p, kernel)))(at) for kernel in ("native", "slices"))
    assert any(cell.added for found in layered for cell in found)
    for one in at:
        size = np.abs(theirs[one]).max()
        np.testing.assert_allclose(ours[one], theirs[one], rtol=0, atol=1e-13 * size)


@pytest.mark.parametrize("name", SHAPES)
def test_layers_hold_at_each_point_what_cells_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each point is in one first layer or in a cell without layers, and all its terms are found once."""
    monkeypatch.setattr(_cells, "MAX_CELLS", 10**4)
    sizes, walls, periodic = SHAPES[name]
    case = case_of(_wave(sizes, walls, periodic), **_moved_values(sizes))
    program, axes = layout_of(case.call).program, case.call.axes
    terms = Terms(program, axes, Pull(("parameter c",), beside=True))
    cutter, (one, _) = _cells.Cutter(program), program.state[0]
    readers = terms.readers(one, 1)

    def at_points(cells: Any) -> tuple[dict[Any, Counter[Any]], Counter[Any]]:
        found: dict[Any, Counter[Any]] = {}
        first: Counter[Any] = Counter()
        for cell in cells:
            for point in np.ndindex(*cell.box.shape):
                place = tuple(a + b for a, b in zip(cell.box.start, point, strict=True))
                found.setdefault(place, Counter()).update(map(terms.same, cell.terms))
                first[place] += not cell.added
        return found, first

    layers = cutter.layers(one, readers, {}, terms.same)
    (ours, firsts), (theirs, _) = at_points(layers), at_points(cutter.cells(one, readers, {}))
    assert ours == theirs and set(firsts.values()) == {1}


def _plain_wave(sizes: tuple[int, int, int], steps: int) -> fd.Field:
    """Linear, between walls that are set, after two levels of any values."""
    u = fd.Field("u", grid(steps, 0.01, **{name: axis(num) for name, num in zip("xyz", sizes, strict=True)}))
    u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * c[...] * laplacian(u, order=4, at="t-1")
    for name in "xyz":
        u[{name: [0, -1]}] = 0.0
    u[0], u[1] = (lambda a: a[...]), (lambda b: b[...])
    return u


def _transpose_in_space() -> Program:
    values = jnp.ones((32, 32, 32))
    case = case_of(_plain_wave((32, 32, 32), 8), a=values, b=values, c=values)
    return pulled_of(case.call, Pull(("parameter c",), beside=True)).program


def test_wide_stencils_in_space_are_not_cut_into_all_products() -> None:
    operations = _transpose_in_space().operations
    assert sum(one.array == "u adjoint 0" for one in operations) < 400
    assert any(one.adds for one in operations)
    products = [one for one in operations if one.array.startswith("product")]
    assert [one.box for one in products] == [Box((1, 1, 1), (31, 31, 31))], "one for walls and all else"


@pytest.mark.parametrize("when", [At.FIRST, At.LATER])
def test_rows_inside_are_two_calls(when: At) -> None:
    """The product and the sum by the medium; then all terms, those near the ends of rows in loops after the others."""
    program = _transpose_in_space()
    bundles = make_bundles(program, make_schedule(program, abreast=True))
    middle = [
        numbers
        for numbers in bundles
        if program.operations[numbers[0]].at in (At.EVERY, when)
        and all(a <= 16 < b for a, b in zip(*_rows_of(program, numbers[0]), strict=True))
    ]
    assert len(middle) == 2
    added = [program.operations[k].adds for k in middle[-1]]
    assert any(added) and added == sorted(added)


def _rows_of(program: Program, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    box = program.operations[number].box
    return box.start[:-1], box.stop[:-1]


def test_cotangents_at_walls_that_are_set_are_left_to_the_last_level() -> None:
    program = _transpose_in_space()
    at_walls = [one for one in program.operations if one.array == "u adjoint 0" and 0 in one.box.start]
    assert at_walls and all(one.at is At.LAST for one in at_walls)


@pytest.mark.parametrize("steps", [4, 5, 8, 17])
def test_gradients_by_what_walls_begin_with(steps: int) -> None:
    """Cotangents at walls are left to the last level of a pass; what stood there at the beginning is read by the first
    steps, and has one."""
    u = _plain_wave((13, 12, 14), steps)
    random = np.random.default_rng(4)
    weight, first, second, c = (jnp.asarray(random.uniform(0.5, 1.5, (13, 12, 14))) for _ in range(4))

    def loss(kernel: str) -> Any:
        return lambda p: jnp.vdot(weight, fd.solve(u, save=fd.final(), kernel=kernel, **p).final["u"])

    at = dict(a=first, b=second, c=c)
    ours, theirs = (jax.jit(jax.grad(loss(kernel)))(at) for kernel in ("native", "slices"))
    assert np.abs(theirs["b"][0]).max() > 0, "walls are read"
    for one in at:
        np.testing.assert_allclose(ours[one], theirs[one], rtol=0, atol=1e-13 * np.abs(theirs[one]).max())


def test_what_stands_under_layers_is_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older level is read beside the point too, along one axis, in many regions of the same weights: what is added
    to its cotangent there is not left out."""
    monkeypatch.setattr(_cells, "MANY", 30)
    num = 80
    u = fd.Field("u", grid(13, x=axis(num), y=axis(30)))

    def rule(source: float) -> Any:
        return lambda u, c: (
            1.2 * u["t-1"]
            - 0.5 * u["t-2"]
            + 0.05 * c[...] * u["t-1", "y-1"]
            + 0.05 * (u["t-2", "x-1"] + u["t-2", "x+1"] - u["t-2", "x-2"])
            + source
        )

    u[...] = rule(0.0)
    for k, low in enumerate(range(10, num - 2, 5)):
        u[dict(x=slice(low, min(low + 5, num - 2)))] = rule(0.1 * k + 0.1)
    u[dict(x=[0, 1, -2, -1])] = u[dict(y=[0, -1])] = 0.1
    u[0], u[1] = (lambda a: a[...]), (lambda b: b[...])
    random = np.random.default_rng(0)
    weight, *values = (jnp.asarray(random.uniform(0.5, 1.5, (num, 30))) for _ in range(4))
    at = dict(zip("abc", values, strict=True))

    def loss(kernel: str) -> Any:
        return lambda p: jnp.vdot(weight, fd.solve(u, save=fd.final(), kernel=kernel, **p).final["u"])

    ours, theirs = (jax.jit(jax.grad(loss(kernel)))(at) for kernel in ("native", "slices"))
    for one in at:
        np.testing.assert_allclose(ours[one], theirs[one], rtol=0, atol=1e-13 * np.abs(theirs[one]).max())


def test_products_of_operations_that_read_each_other_stay_apart() -> None:
    """Points that are set from others of their own level, by the same medium: one product would need itself."""
    g = grid(8, x=axis(40), y=axis(16, periodic=True))
    u, v = fd.Field("u", g), fd.Field("v", g)
    u[...] = lambda u, c: 0.05 * c[...] * (u["t-1"] + sum(u["t-1", f"x{s}{k}"] for k in range(1, 5) for s in "+-"))
    u[dict(x=slice(0, 8))] = lambda u, c: 0.05 * c[...] * sum(u["t", f"x+{k}"] for k in range(8, 17))
    u[dict(x=slice(-4, None))] = 0.1
    v[...] = lambda u: 0.5 * u["t"]
    u[0] = v[0] = lambda x, y: jnp.sin(3 * x) + jnp.cos(6 * y)
    case = case_of((u, v), c=jnp.ones((40, 16)))
    assert pulled_of(case.call, Pull(("parameter c",))).program.operations
