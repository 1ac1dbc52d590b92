"""Gradients by generated code: nonlinear rules, parameters of all kinds, walls, regions, tiles, gradients of them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import Arrays, get
from fdsolve.kernels.native import _derivative, _objects, _pull
from fdsolve.kernels.native._adjoint import Sum
from fdsolve.kernels.native._derivative import march
from fdsolve.kernels.native._march import pulled_of
from fdsolve.kernels.native._operands import Pull
from fdsolve.kernels.native._sums import gather_sums
from fdsolve.kernels.native._tiling import Tiling
from fdsolve.planning import Array
from fdsolve.region import Box
from fdsolve.schemes import Heun, divergence, laplacian
from fdsolve.stencil import WholeRead

from .native_cases import Case, case_of, forbid_portable

RANDOM = np.random.default_rng(5)
Final = Callable[..., Any]


def grid(steps: int, stop: float = 0.02, **axes: fd.Axis) -> fd.Grid:
    """A grid of `steps` levels after the first."""
    return fd.Grid(t=fd.Time(0.0, stop, num=steps + 1), **axes)


def axis(num: int, **options: bool) -> fd.Axis:
    """An axis from 0 to 1."""
    return fd.Axis(0.0, 1.0, num=num, **options)


def normal(*shape: int) -> jax.Array:
    """Random numbers."""
    return jnp.asarray(RANDOM.normal(size=shape))


def final(*fields: fd.Field, **options: Any) -> Any:
    """The last level of the fields."""
    solution = fd.solve(fields if len(fields) > 1 else fields[0], save=fd.final(), **options)
    return [solution.final[one.name] for one in fields]


def burgers(start: Any, other: Any, nu: Any, **options: Any) -> Any:
    """Two velocities carried by themselves round a ring, between a wall that holds them and one of a given slope."""
    g = grid(6, x=axis(8, periodic=True), y=axis(5))
    u, v = fd.Field("u", g), fd.Field("v", g)

    def carried(w: Any, u: Any, v: Any, nu: Any) -> Any:
        along = u["t-1"] * (w["t-1"] - w["t-1", "x-1"]) + v["t-1"] * (w["t-1"] - w["t-1", "y-1"])
        around = w["t-1", "x-1"] + w["t-1", "x+1"] + w["t-1", "y-1"] + w["t-1", "y+1"]
        return w["t-1"] - 0.1 * along + nu * (around - 4 * w["t-1"])

    u[...] = lambda u, v, nu: carried(u, u, v, nu)
    v[...] = lambda u, v, nu: carried(v, u, v, nu)
    u[0], v[0] = start, other
    u[dict(y=0)] = v[dict(y=[0, -1])] = 0.1
    u[dict(y=-1)] = fd.boundary.Neumann(0.1)
    return final(u, v, nu=nu, **options)


def gray_scott(start: Any, other: Any, feed: Any, kill: Any, **options: Any) -> Any:
    """Two species on a ring, in two stages, fed more and more."""
    g = grid(5, 1.0, x=axis(9, periodic=True))
    u, v = fd.Field("u", g), fd.Field("v", g)
    u[...] = fd.rate(lambda u, v, feed, t: 1e-3 * laplacian(u) - u[...] * v[...] ** 2 + feed * t * (1 - u[...]))
    v[...] = fd.rate(lambda u, v, kill: u[...] * v["x+1"] ** 2 - kill * v[...])
    u[0], v[0] = start, other
    return final(u, v, stepper=Heun(), feed=feed, kill=kill, **options)


def heat_in_a_medium(start: Any, kappa: Any, flux: Any, held: Any, **options: Any) -> Any:
    """A coefficient at every point, also read beside it; a wall of given flux, one that is held along an array."""
    u = fd.Field("u", grid(5, x=axis(8, periodic=True), y=axis(5)))
    u[...] = lambda u, kappa, dt: u["t-1"] + dt * divergence(kappa, u, at="t-1")
    u[0] = start
    u[dict(y=0)] = fd.boundary.Neumann(lambda flux: flux)
    u[dict(y=-1)] = lambda held: held[...]
    return final(u, kappa=kappa, flux=flux, held=fd.along(held, "x"), **options)


def regions(start: Any, a: Any, q: Any, **options: Any) -> Any:
    """A mask, a predicate of a parameter, a rule of branches, something added in a box."""
    u = fd.Field("u", grid(6, 6.0, x=axis(6), y=axis(7, periodic=True)))
    u[...] = lambda u, a, t: 0.9 * u["t-1"] + 0.05 * a * jnp.tanh(t * u["t-1", "x+1"])
    u[dict(x=-1)] = lambda a, y: a * y
    u[fd.where(lambda x, y: jnp.sin(30 * x + 20 * y) > 0.3137)] = lambda u: 0.8 * u["t-1"] ** 2
    u[1:, 2:4, 2:5] += lambda u, a: a * u["t-1"] ** 3
    u[fd.where(lambda x, t, q: (x > 0.513) & (t > q))] = lambda u: jnp.where(
        u["t-1"] > 0.1, u["t-1"] * u["t-1"], jnp.abs(u["t-1", "y-1"])
    )
    u[0] = start
    return final(u, a=a, q=q, **options)


CASES: dict[str, tuple[Final, list[Any]]] = {
    "burgers": (burgers, [normal(8, 5), normal(8, 5), 0.05]),
    "gray_scott": (gray_scott, [0.6 + 0.1 * normal(9), 0.2 + 0.1 * normal(9), 0.04, 0.06]),
    "heat": (heat_in_a_medium, [normal(8, 5), 1.0 + 0.1 * normal(8, 5), 0.3, normal(8)]),
    "regions": (regions, [normal(6, 7), 0.7, 2.5]),
}


@pytest.fixture(autouse=True, scope="module")
def compiled_quickly() -> Iterator[None]:
    """Machine code as it comes: what takes long here is to make it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_objects, "SPEED", 0)
        yield


@pytest.fixture
def portable_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives by the portable kernel are an error."""

    forbid_portable(monkeypatch, _derivative, _pull)


def pulled(function: Final, given: list[Any], **options: Any) -> Any:
    """The cotangents of all that is given, of random cotangents of the result."""

    def total(*values: Any) -> Any:
        weights = np.random.default_rng(3)
        found = function(*values, **options)
        return sum(jnp.sum(one * jnp.asarray(weights.normal(size=one.shape))) for one in found)

    return jax.jit(jax.grad(total, argnums=tuple(range(len(given)))))(*given)


def agree(found: Any, wanted: Any, tolerance: float = 1e-13) -> None:
    """Every array to a part of its largest value."""
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        scale = max(1.0, float(jnp.max(jnp.abs(other))))
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("name", CASES)
def test_cotangents_of_everything(name: str, portable_forbidden: None) -> None:
    function, given = CASES[name]
    wanted = pulled(function, given, kernel="slices")
    agree(pulled(function, given, kernel="native"), wanted)
    assert all(np.any(np.asarray(one)) for one in wanted[: 2 if name == "regions" else None])


def test_only_where_something_was_added_up_is_read() -> None:
    """Rows are carried whole through rings that nobody fills between two boxes."""
    boxes = Box((1, 0), (2, 3)), Box((2, 0), (3, 3)), Box((4, 1), (5, 2))
    sums = [Sum(WholeRead("a"), Array("cotangent", (6, 4), (0, 0), (0, 0), "float64", 1, True), boxes, False)]
    found = np.full((6, 4), np.nan)
    for box in boxes:
        found[box.slices((0, 0))] = 1.0
    assert gather_sums(sums, [jnp.asarray(found)], {"a": jnp.zeros(())}, {}, ("x", "y"))[0] == 7.0


def wide() -> Case:
    """Rows for two tiles; something of two levels, not linear, with a coefficient that is read beside the point."""
    u = fd.Field("u", grid(7, x=axis(130, periodic=True), y=axis(4, periodic=True)))

    def rule(u: Any, k: Any, a: Any) -> Any:
        products = a * k["x+1"] * u["t-1", "x-1"] * u["t-1", "x+1"] - 0.1 * u["t-1", "y+1"] ** 2
        return 0.6 * u["t-1"] + 0.2 * u["t-2"] + products

    u[...] = rule
    u[[0, 1]] = lambda x, y: jnp.sin(7 * x * y)
    return case_of(u, k=normal(130, 4), a=0.2)


def gradient_of(case: Case, advance: Callable[..., Any]) -> Any:
    """Of a sum over all levels kept after the march, by the state before it and by all real profiles and numbers."""
    profiles = {name: one for name, one in case.arrays.profiles.items() if jnp.issubdtype(one.dtype, jnp.inexact)}
    wholes = {name: one for name, one in case.arrays.wholes.items() if name not in ("times", "dt")}

    def total(levels: Any, moved: Any) -> Any:
        arrays = Arrays({**case.arrays.profiles, **moved[0]}, {**case.arrays.wholes, **moved[1]}, case.arrays.consts)
        random, found, parts = np.random.default_rng(3), advance(arrays, levels), []
        for one in case.structure.carried:
            inside = tuple(slice(max(a, 0), a + n) for a, n in zip(one.lower, one.shape, strict=True))
            for held in (each[inside] for each in found[one.name]):
                parts.append(jnp.sum(held * random.normal(size=held.shape)))
        return sum(parts)

    levels = jax.jit(case.begin)(case.arrays)
    by_levels, moved = jax.jit(jax.grad(total, argnums=(0, 1)))(levels, (profiles, wholes))
    # Rows counted round leave nothing on ghosts, of which the portable kernel leaves some: both mean the same.
    before = jax.vjp(
        lambda given: case.begin(replace(case.arrays, profiles={**case.arrays.profiles, **given})), profiles
    )
    return before[1](by_levels), moved


def test_tiles_and_several_levels_a_pass(portable_forbidden: None) -> None:
    case = wide()
    wanted = gradient_of(case, lambda arrays, levels: get("march", "slices")(case.call, arrays, levels, case.start))
    for tiling in (Tiling(1, 1, 1), Tiling(3, 2, 2)):
        found = gradient_of(case, lambda arrays, levels, t=tiling: march(case.call, arrays, levels, case.start, t))
        agree(found, wanted)


def test_a_level_is_kept_for_each_step_and_nothing_else() -> None:
    case = wide()

    def held(steps: int) -> int:
        call = replace(case.call, steps=steps)
        pull = jax.eval_shape(lambda held: jax.vjp(partial(march, call, case.arrays, start=1), held)[1], levels)
        return sum(one.size * one.dtype.itemsize for one in jax.tree.leaves(pull))

    levels = jax.eval_shape(case.begin, case.arrays)
    newest = sum(held[0].size * held[0].dtype.itemsize for held in levels.values())
    assert held(30) - held(10) == 20 * newest


def test_derivatives_of_gradients() -> None:
    function, given = CASES["gray_scott"]

    def along(kernel: str) -> Any:
        def gradient(*values: Any) -> Any:
            return pulled(function, list(values), kernel=kernel)

        moved = [jnp.cos(3.0 * jnp.asarray(one)) for one in given]
        return jax.jvp(gradient, tuple(map(jnp.asarray, given)), tuple(moved))[1]

    agree(along("native"), along("slices"), 1e-12)


def test_through_checkpoints() -> None:
    function, given = CASES["gray_scott"]
    found = pulled(function, given, kernel="native", adjoint=fd.adjoint.Checkpointed())
    agree(found, pulled(function, given, kernel="native"))


def test_what_changes_along_time_is_pulled_level_by_level(monkeypatch: pytest.MonkeyPatch) -> None:
    def forced(start: Any, force: Any, a: Any, **options: Any) -> Any:
        u = fd.Field("u", grid(5, x=axis(6, periodic=True)))
        u[...] = lambda u, force, a: u["t-1"] * (1 - a * u["t-1", "x-1"]) + force[...]
        u[0] = start
        return final(u, force=fd.along(force, "t"), a=a, **options)

    given = [normal(6), normal(6), 0.1]
    wanted = pulled(forced, given, kernel="slices")
    forbid_portable(monkeypatch, _derivative, _pull)
    agree(pulled(forced, given, kernel="native"), wanted)


@pytest.mark.parametrize("ring", ["", "x", "y"])
def test_coefficients_read_at_many_places_are_added_up_where_they_stand(
    ring: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sum for what all points give to an entry, whatever regions and masks there are; rows round a ring apart."""
    along = slice(None) if ring == "x" else slice(2, 5)
    kept = fd.where(lambda x, y: jnp.sin(20 * y if ring == "x" else 30 * x + 20 * y) > 0.5)

    def mixed(start: Any, a: Any, b: Any, c: Any, **options: Any) -> Any:
        u = fd.Field("u", grid(5, x=axis(8, periodic=ring == "x"), y=axis(9, periodic=ring == "y")))
        u[...] = lambda u, a: u["t-1"] + 0.1 * (a["x+1", "y-1"] * u["t-1", "x+1"] - a["x-1"] * a["y+1"] * u["t-1"] ** 2)
        u[2:, along, 3:6] += lambda u, a, b: 0.2 * jnp.sin(a["y-1"] * u["t-1", "y+1"]) * b["y+1"] * b["y-1"]
        u[kept] = lambda u, b, c: u["t-1"] * b[...] + c["t-1"] * c[...]
        for name in {"x", "y"} - {ring}:
            u[{name: [0, -1]}] = lambda a: a[...]
        u[0] = start
        return final(u, a=a, b=fd.along(b, "y"), c=fd.along(c, "t"), **options)

    given = [normal(8, 9), normal(8, 9), normal(9), normal(6)]
    wanted = pulled(mixed, given, kernel="slices")
    forbid_portable(monkeypatch, _derivative, _pull)
    agree(pulled(mixed, given, kernel="native"), wanted)


@pytest.mark.parametrize(("ring", "sums"), [(False, 1), (True, 3)])
def test_sums_of_a_coefficient_between_points(ring: bool, sums: int) -> None:
    u = fd.Field("u", grid(4, x=axis(12, periodic=ring), y=axis(9)))
    u[...] = lambda u, kappa, dt: u["t-1"] + dt * divergence(kappa, u, at="t-1")
    for name in ("y",) if ring else ("x", "y"):
        u[{name: [0, -1]}] = 0.0
    u[0] = 1.0
    case = case_of(u, kappa=normal(12, 9))
    assert len(pulled_of(case.call, Pull(("parameter kappa",))).sums) == sums


@pytest.mark.parametrize("back", [1, 2, 3])
@pytest.mark.parametrize("steps", [5, 9, 20])
def test_walls_beside_a_rule_of_older_levels_alone(back: int, steps: int, portable_forbidden: None) -> None:
    """Only the walls of the last level count: cotangents of levels that no rule reads are zero there at all others."""
    u = fd.Field("u", grid(steps + 1, x=axis(12), y=axis(9)))
    u[...] = lambda u: 0.9 * u[f"t-{back}"]
    for level in range(back):
        u[level] = 1.0
    u[dict(x=[0, -1])] = lambda w: w
    for adjoint in (None, fd.adjoint.Full(), fd.adjoint.Checkpointed()):
        by_wall = jax.grad(lambda w, a=adjoint: jnp.sum(final(u, w=w, kernel="native", adjoint=a)[0]))(0.3)
        assert by_wall == pytest.approx(18.0, rel=1e-14)


def test_a_field_of_older_levels_that_another_reads_at_its_own_level() -> None:
    def pair(first: Any, second: Any, a: Any, **options: Any) -> Any:
        g = grid(9, x=axis(14), y=axis(11))
        u, v = fd.Field("u", g), fd.Field("v", g)
        u[...] = lambda u, a: -a * u["t-2", "x+1"] ** 2 + 0.1
        v[...] = lambda u, v: 0.5 * v["t-1"] - 0.2 * v["t-2"] + u[...] * v["t-1", "y+1"]
        u[dict(x=-1)] = 0.3
        v[dict(y=-1)] = lambda a: a
        u[[0, 1]], v[[0, 1]] = first, second
        return final(u, v, a=a, **options)

    given = [0.3 * normal(2, 14, 11), 0.3 * normal(2, 14, 11), 0.7]
    wanted = pulled(pair, given, kernel="slices")
    agree(pulled(pair, given, kernel="native"), wanted)
