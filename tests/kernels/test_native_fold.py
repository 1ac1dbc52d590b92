"""One long axis marched as rows of points, against the portable kernel on the axis as it is."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import get
from fdsolve.kernels.native import _derivative, _fold, _nested, _objects, _pull, _slabs
from fdsolve.kernels.native._derivative import march, why_not
from fdsolve.kernels.native._fold import folding_of
from fdsolve.kernels.native._tiling import Tiling
from fdsolve.schemes import RK4, SSPRK3, Heun, derivative, divergence, laplacian

from .native_cases import Case, case_of, forbid_portable
from .test_native_adjoints import agree, axis, gradient_of, grid, normal

SIZES = (48, 61, 64, 65, 79)
"""Points in rows of 16: whole rows, a last row of one point, of all but a few, of all but one."""
ROUND = (48, 64, 154)
"""Points of rings, in rows of one length: 16, or 22 for the last."""


@pytest.fixture(autouse=True, scope="module")
def compiled_quickly() -> Iterator[None]:
    """Machine code as it comes: what takes long here is to make it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_objects, "SPEED", 0)
        yield


@pytest.fixture(autouse=True)
def short_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every axis is folded, into rows of 16 numbers."""
    for name, value in (("LONG", 1), ("STEPS", 1), ("WIDTH", 128), ("HIGH", 1)):
        monkeypatch.setattr(_fold, name, value)
    _fold._folding_of.cache_clear()
    yield
    _fold._folding_of.cache_clear()


def between_walls(num: int) -> Case:
    """Two levels kept, order 6 with its closures at both walls, a coefficient at every point, a number."""
    u = fd.Field("u", grid(12, 0.01, x=axis(num)))
    u[...] = lambda u, dt, c, a: (
        2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian(u, order=6, at="t-1") + 1e-3 * a * u["t-1"] ** 2
    )
    u[[0, 1]] = lambda x: jnp.sin(7 * x)
    u[dict(x=[0, -1])] = 0.1
    return case_of(u, c=1.0 + 0.1 * normal(num), a=0.4)


def ghosts(num: int) -> Case:
    """Cells between a value that changes in time and a flux."""
    u = fd.Field("u", grid(12, x=axis(num, cells=True)))
    k = 0.05 / num**2
    u[...] = lambda u, k, x: u["t-1"] + k * laplacian(u, order=4, at="t-1") * (1 + u["t-1"] * x)
    u[0] = lambda x: jnp.sin(7 * x) + x
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda t: 1.0 + t)
    u[dict(x=-1)] = fd.boundary.Robin(1.0, 0.2, 0.3)
    return case_of(u, k=k)


def ring(num: int) -> Case:
    """A periodic axis, two fields of two levels that read each other."""
    g = grid(12, x=axis(num, periodic=True))
    u, v = fd.Field("u", g), fd.Field("v", g)
    u[...] = lambda u, v, m: 0.8 * u["t-1"] + m[...] * (v["t-1", "x+2"] - u["t-1", "x-1"]) + 0.1 * u["t-2"]
    v[...] = lambda u, v, a: 0.9 * v["t-1"] - 0.1 * a * u["t-1", "x-2"] * v["t-1"]
    u[[0, 1]] = lambda x: jnp.sin(2 * jnp.pi * x)
    v[0] = lambda x: jnp.cos(2 * jnp.pi * x)
    return case_of((u, v), m=0.1 + 0.02 * normal(num), a=0.3)


def stored_on_a_ring(num: int) -> Case:
    """Stored fluxes that are held a little beside a periodic axis, three stages."""
    u = fd.Field("u", grid(6, 2.0 / num**2, x=axis(num, periodic=True)))
    u[...] = fd.rate(lambda u, a: a * derivative(fd.stored(u * derivative(u, "x")), "x") - derivative(u, "x"))
    u[0] = lambda x: jnp.sin(2 * jnp.pi * x)
    return case_of(u, stepper=SSPRK3(), a=0.1)


def staggered(num: int) -> Case:
    """Two fields a half step apart, one of which has a point more; the second reads the level just reached."""
    g = grid(8, x=axis(num, cells=True))
    v, p = fd.Field("v", g, at=dict(x="face")), fd.Field("p", g)
    v[...] = lambda v, p, c: v["t-1"] - c * (p["t-1", "x+1/2"] - p["t-1", "x-1/2"])
    p[...] = lambda v, p, c: p["t-1"] - c * (v["x+1/2"] - v["x-1/2"])
    v[0], p[0] = 0.0, lambda x: jnp.cos(9 * x)
    v[dict(x=[0, -1])] = 0.0
    p[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    return case_of((v, p), c=0.4)


def places(num: int) -> Case:
    """Masks, predicates, sums on parts, a source's record, arrays along time and the axis."""
    u = fd.Field("u", grid(9, 9.0, x=axis(num)))
    u[...] = lambda u, t, x, s, w: 0.9 * u["t-1"] + 0.05 * s[...] * jnp.tanh(t * u["t-1", "x+1"] - w[...] * x)
    u[dict(x=-1)] = lambda t: jnp.sin(t)
    u[dict(x=0)] = fd.boundary.Neumann(0.1)
    u[fd.where(lambda x: jnp.sin(30 * x) > 0.3137)] = lambda u: 0.8 * u["t-1", "x-2"]
    u[3:, 11:-9] += lambda u: 0.1 * u["t-1", "x-2"] ** 3
    u[fd.where(lambda x, t, q: (x > 0.513) & (t > q))] = lambda u: jnp.where(u["t-1"] > 0.1, u["t-1"], 0.3)
    u[fd.point(x=0.3137)] += lambda q, r: 0.1 * q * r
    u[0] = lambda x: jnp.cos(4 * x)
    s, r = fd.along(0.5 + 0.1 * normal(10), "t"), fd.along(normal(10), "t")
    return case_of(u, s=s, r=r, w=fd.along(normal(10, num), "t", "x"), q=3.0)


def rates_in_places(num: int) -> Case:
    """Two stages, a flux form with a coefficient read beside points, rates in places and rates added."""
    u = fd.Field("u", grid(5, 0.001, x=axis(num)))
    u[...] = fd.rate(lambda u, kappa: divergence(kappa, u))
    u[fd.where(lambda x: jnp.sin(19 * x) > 0.2137)] = fd.rate(lambda u, x, t: laplacian(u) * 0.01 - t * x * u)
    u[:, 12:40] += fd.rate(lambda u: u**2 + 1.0)
    u[0] = lambda x: jnp.exp(-9 * (x - 0.5) ** 2)
    u[dict(x=0)] = fd.boundary.Dirichlet(0.0)
    u[dict(x=-1)] = fd.boundary.Neumann(0.0)
    return case_of(u, stepper=Heun(), kappa=0.05 + 0.005 * normal(num))


def burgers(num: int) -> Case:
    """Four stages between walls."""
    u = fd.Field("u", grid(6, 5e-3, x=axis(num)))
    u[...] = fd.rate(lambda u, nu: nu * laplacian(u, order=4) - u * derivative(u, "x"))
    u[0] = lambda x: jnp.sin(3 * x)
    u[dict(x=[0, -1])] = 0.0
    return case_of(u, stepper=RK4(), nu=200 / num**2)


def open_ends(num: int) -> Case:
    """Ghosts with a memory of their own, three older levels."""
    u = fd.Field("u", grid(9, x=axis(num)))
    u[...] = lambda u, c: u["t-1"] - c * (u["t-1", "x+1"] - u["t-1", "x-1"]) + 0.05 * (u["t-3"] - u["t-2"])
    u[[0, 1, 2]] = lambda x: jnp.exp(-90 * (x - 0.5) ** 2)
    u[dict(x=0)] = fd.boundary.Extrapolate(2)
    u[dict(x=-1)] = fd.boundary.Outflow(speed=0.5)
    return case_of(u, c=0.3)


def around_a_hole(num: int) -> Case:
    """Points beside a hole read what its insulated walls give."""
    u = fd.Field("u", grid(6, x=axis(num)))
    u[...] = lambda u, k: u["t-1"] + k * laplacian(u, at="t-1")
    u[0] = lambda x: jnp.sin(9 * x)
    u[dict(x=[0, -1])] = 0.0
    u[fd.where(lambda x: jnp.abs(x - 0.4137) < 0.08)] = fd.boundary.Neumann(0.0)
    return case_of(u, k=1e-5)


CASES: dict[str, Callable[[int], Case]] = {
    "between walls": between_walls,
    "ghosts": ghosts,
    "ring": ring,
    "stored on a ring": stored_on_a_ring,
    "staggered": staggered,
    "places": places,
    "rates in places": rates_in_places,
    "burgers": burgers,
    "open ends": open_ends,
    "around a hole": around_a_hole,
}
WHOLE = [(name, num) for name in CASES for num in (ROUND if "ring" in name else SIZES)]


@pytest.mark.parametrize(("name", "num"), WHOLE)
def test_rows_give_the_same_levels(name: str, num: int) -> None:
    case = CASES[name](num)
    assert folding_of(case.call) is not None
    case.agrees([None, Tiling(2, 1, 1)])


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_rows_give_the_same_gradient(name: str, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_portable(monkeypatch, _derivative, _pull, _nested)
    case = CASES[name]((240 if few else 352) if "ring" in name else (48 if few else 65))
    found = gradient_of(case, lambda arrays, levels: march(case.call, arrays, levels, case.start))
    wanted = gradient_of(case, lambda arrays, levels: get("march", "slices")(case.call, arrays, levels, case.start))
    agree(found, wanted, 1e-12)


@pytest.mark.parametrize("num", [640, 721])
@pytest.mark.parametrize("name", ["between walls", "ghosts", "burgers"])
def test_slabs_of_rows_give_the_same_gradient(name: str, num: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_portable(monkeypatch, _derivative, _pull, _nested)
    monkeypatch.setattr(_slabs, "SMALL", 1)
    monkeypatch.setattr(_slabs, "HIGH", 1)
    monkeypatch.setattr(_slabs, "stays_in_cache", lambda call: False)
    monkeypatch.setattr(_slabs, "num_threads", lambda: 2)
    used, run = [], _nested.pull_slabs
    monkeypatch.setattr(_nested, "pull_slabs", lambda *given: (used.append(given[2].parts), run(*given))[1])
    case = CASES[name](num)
    steps = case.call.steps // 3 * 3
    plain = replace(case.call, steps=steps)
    call = replace(plain, block=3)
    found = gradient_of(case, lambda arrays, levels: march(call, arrays, levels, case.start))
    wanted = gradient_of(case, lambda arrays, levels: get("march", "slices")(plain, arrays, levels, case.start))
    agree(found, wanted, 1e-11)
    assert used == [2]


def _solved(num: int, kernel: str, **options: Any) -> Callable[[Any], Any]:
    u = fd.Field("u", grid(12, 0.01, x=axis(num)))
    u[...] = lambda u, dt, c: 2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian(u, at="t-1") * (1 + 0.1 * u["t-1"])
    u[[0, 1]] = lambda x: jnp.sin(7 * x)
    u[dict(x=[0, -1])] = 0.1
    return lambda c: fd.solve(u, c=c, kernel=kernel, **options)["u"]


def test_solves_of_many_members_and_second_derivatives() -> None:
    c = 1.0 + 0.1 * normal(3, 61)
    run, plain = (_solved(61, kernel, save=fd.every(4)) for kernel in ("native", "slices"))

    def loss(run: Any) -> Any:
        return lambda c: jnp.sum(jnp.sin(3 * run(c)))

    np.testing.assert_allclose(jax.vmap(run)(c), jax.vmap(plain)(c), rtol=0, atol=1e-13)
    found, wanted = (jax.vmap(jax.grad(loss(one)))(c) for one in (run, plain))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    found, wanted = (jax.jvp(jax.grad(loss(one)), (c[0],), (c[1],))[1] for one in (run, plain))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


def test_the_dot_product_test_holds_through_rows() -> None:
    run, c, v = _solved(79, "native", save=fd.final()), 1.0 + 0.1 * normal(79), normal(79)
    out, along = jax.jvp(run, (c,), (v,))
    w = normal(*out.shape)
    (back,) = jax.vjp(run, c)[1](w)
    left, right = float(jnp.vdot(along, w)), float(jnp.vdot(v, back))
    assert abs(left - right) <= 1e-13 * float(jnp.linalg.norm(along) * jnp.linalg.norm(w))


def test_what_is_not_folded() -> None:
    """Rings without rows of one length, or where rules change; reads across many points; few levels; two axes."""
    assert folding_of(ring(61).call) is None
    u = fd.Field("u", grid(12, x=axis(64, periodic=True)))
    u[...] = lambda u: 0.5 * (u["t-1", "x+1"] + u["t-1", "x-1"])
    u[:, 10:20] += 0.1
    u[0] = lambda x: jnp.sin(2 * jnp.pi * x)
    assert folding_of(case_of(u).call) is None
    u = fd.Field("u", grid(12, x=axis(200)))
    u[...] = lambda u: 0.5 * u["t-1"]
    u[:, 100:] = lambda u: 0.5 * u["t-1", "x-100"]
    u[0] = lambda x: x
    assert folding_of(case_of(u).call) is None
    u = fd.Field("u", grid(12, x=axis(48), y=axis(5)))
    u[...] = lambda u: 0.5 * u["t-1"]
    u[0] = lambda x: x
    assert folding_of(case_of(u).call) is None


def test_few_levels_are_marched_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """But a block of a longer march is asked for as that march is carried out."""
    monkeypatch.setattr(_fold, "STEPS", 8)
    monkeypatch.setattr(_slabs, "stays_in_cache", lambda call: False)
    call = replace(between_walls(64).call, steps=4)
    assert folding_of(call) is None
    near = replace(call, block=4, near=True)
    assert folding_of(near) is not None
    assert why_not(near) is None


def test_stages_count_as_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fold, "LONG", 100)
    assert folding_of(between_walls(64).call) is None
    assert folding_of(burgers(64).call) is not None


def test_rows_are_shorter_where_there_would_be_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fold, "WIDTH", 512)
    monkeypatch.setattr(_fold, "HIGH", 4)
    found = {num: folding_of(between_walls(num).call) for num in (400, 200)}
    assert {num: one and one.points for num, one in found.items()} == {400: 64, 200: 32}
