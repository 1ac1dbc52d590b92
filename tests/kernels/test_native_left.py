"""Derivatives by coefficients that a march of generated code leaves for its transpose, beside it or before it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import pytest

import fdsolve as fd
from fdsolve.kernels.native import _derivative, _nested, _objects, _pull, _slabs, _terms
from fdsolve.kernels.native._march import pulled_of
from fdsolve.kernels.native._operands import Alone, Pull
from fdsolve.schemes import laplacian

from .native_cases import Case, case_of, forbid_portable
from .test_native_adjoints import agree, axis, grid, normal
from .test_native_nested import by_blocks


def moved(periodic: bool = False) -> Case:
    """A coefficient at other points than the one that is computed, times a sum of nine; another rule on some points."""
    u = fd.Field("u", grid(11, 0.01, x=axis(90, periodic=periodic), y=axis(26)))

    def spread(u: Any) -> Any:
        near = sum(u["t-1", f"{axis}{o:+d}"] for axis in "xy" for o in (-2, -1, 1, 2))
        return 0.1 * near - 0.8 * u["t-1"]

    inner = dict(y=slice(2, -2)) if periodic else dict(x=slice(2, -2), y=slice(2, -2))
    u[...] = 0.9
    u[{"t": slice(1, None), **inner}] = lambda u, m: u["t-1"] + (m["x+1"] + m["y-2"]) * spread(u)
    u[{"t": slice(1, None), **inner, "y": slice(8, 11)}] = lambda u, m: 0.9 * u["t-1"] + m["x+1"] * spread(u)
    u[0] = lambda x, y: jnp.sin(7 * x * y)
    return case_of(u, m=1.0 + 0.1 * normal(90, 26))


def driven() -> Case:
    """A record along time beside a coefficient, whose cotangents are each level's own."""
    u = fd.Field("u", grid(11, 0.01, x=axis(40), y=axis(26)))
    u[...] = 0.9
    u[1:, 2:-2, 2:-2] = lambda u, m, q: u["t-1"] + q * m[...] * laplacian(u, order=4, at="t-1")
    u[0] = lambda x, y: jnp.sin(7 * x * y)
    return case_of(u, m=1e-6 * (1.0 + 0.1 * normal(40, 26)), q=fd.along(1.0 + 0.1 * normal(12), "t"))


def absorbed() -> Case:
    """A wave by c² at every point that leaves through an absorbing layer, which has arrays of its own."""
    u = fd.Field("u", grid(12, 0.01, x=axis(40), y=axis(30, periodic=True)))
    u[...] = lambda u, dt, c: 2 * u["t-1"] - u["t-2"] + dt**2 * c * laplacian(u, at="t-1")
    u[[0, 1]] = lambda x, y: jnp.sin(7 * x * y)
    u[dict(x=0)] = 0.0
    u[dict(x=-1)] = fd.boundary.PML(6, speed=0.4)
    return case_of(u, c=0.1 + 0.01 * normal(40, 30))


CASES: dict[str, Callable[[], Case]] = {
    "moved": moved,
    "moved, round": partial(moved, periodic=True),
    "absorbed": absorbed,
    "driven": driven,
}
MOVED = [name for name in CASES if name.startswith("moved")]


@pytest.mark.parametrize(("name", "beside"), [*((name, True) for name in MOVED), *((name, False) for name in CASES)])
def test_gradients_by_what_the_march_leaves(name: str, beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coefficient read at other points had cotangents of other points, where the march left derivatives by it."""
    forbid_portable(monkeypatch, _derivative, _pull, _nested)
    monkeypatch.setattr(_objects, "SPEED", 0)
    monkeypatch.setattr(_slabs, "stays_in_cache", lambda call: False)
    monkeypatch.setattr(_slabs, "SMALL", 1)
    monkeypatch.setattr(_slabs, "HIGH", 1)
    monkeypatch.setattr(_terms, "MOST_READ_AGAIN", 4)
    kinds, cut, run = set[Any](), _nested.cut_slabs, _nested.run

    def watched(call: Any, kind: Any, *given: Any, **named: Any) -> Any:
        kinds.add(kind.by if isinstance(kind, Alone) else None)
        return run(call, kind, *given, **named)

    monkeypatch.setattr(_nested, "cut_slabs", cut if beside else lambda call, pull: None)
    monkeypatch.setattr(_nested, "run", watched)
    case = CASES[name]()
    agree(*by_blocks(case, 5))
    assert any(one is not None and one.again for one in kinds) is not beside


@pytest.mark.parametrize("name", MOVED)
def test_what_is_left_stands_where_it_is_computed_and_is_read_where_it_is_wanted(name: str) -> None:
    """The sums are the same ones, of the same points, whoever computes what is added to them."""
    case = CASES[name]()
    plain = Pull(("parameter m",))
    sums = [[(one.operand, one.array.shape, one.timed) for one in pulled_of(case.call, pull).sums]
            for pull in (plain, Pull(plain.moving, beside=True), Pull(plain.moving, again=True))]  # fmt: skip
    assert sums[0] == sums[1] == sums[2]
    forth = pulled_of(case.call, Pull(plain.moving, again=True)).forth
    assert any("derivative" in one.name for one in forth.arrays)


def test_little_is_read_again_sooner_than_written_down() -> None:
    """Five entries, which a march beside leaves the sum of, but one before does not."""
    u = fd.Field("u", grid(12, 0.01, x=axis(70), y=axis(40)))
    u[...] = lambda u, c: u["t-1"] + 1e-5 * c * laplacian(u, at="t-1")
    u[0] = lambda x, y: jnp.sin(7 * x * y)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    case = case_of(u, c=1.0 + 0.1 * normal(70, 40))
    assert _terms.MOST_READ < 5 <= _terms.MOST_READ_AGAIN
    left = {
        how: [one for one in pulled_of(case.call, Pull(("parameter c",), **{how: True})).forth.arrays if one.hidden]
        for how in ("beside", "again")
    }
    assert left["beside"] and not left["again"]
