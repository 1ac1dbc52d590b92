"""What long rules give to what they read, written down where they act: the same gradients, where it is worth it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels.native import _derivative, _given
from fdsolve.kernels.native._adjoint import pull_program
from fdsolve.kernels.native._bundles import make_bundles
from fdsolve.kernels.native._march import axes_of, pulled_of
from fdsolve.kernels.native._operands import Pull
from fdsolve.kernels.native._program import make_program
from fdsolve.kernels.native._schedule import make_schedule
from fdsolve.kernels.native._terms import Terms
from fdsolve.schemes import HLL, Euler, ShallowWater, Upwind, conservation

from .native_cases import case_of, forbid_portable

AXES = {True: dict(periodic=True), False: dict[str, bool]()}


def _grid(around: bool, **sizes: int) -> fd.Grid:
    axes = {name: fd.Axis(0.0, 1.0, num=num, **AXES[around]) for name, num in sizes.items()}
    return fd.Grid(t=fd.Time(0.0, 0.05, num=6), **axes)


def _bend(*values: Any) -> Any:
    """Long, and not linear."""
    found = values[0]
    for other in (*values[1:], *values):
        found = jnp.sin(found + 0.3 * other) / (2.0 + found * other) + 0.2 * other
    return found


def _far(u: Any, axis: str) -> list[Any]:
    return [u["t-1", f"{axis}{k:+d}"] for k in (-2, -1, 1)] + [u["t-1"]]


def _plane(around: bool) -> Any:
    u = fd.Field("u", _grid(around, x=13, y=11))
    u[...] = lambda u, k: u["t-1"] + 0.1 * k * (_bend(*_far(u, "x")) - _bend(*_far(u, "y")))
    if not around:
        u[dict(x=[0, 1, -1])] = u[dict(y=[0, 1, -1])] = 0.2
    return u


def _pair(around: bool) -> Any:
    """v reads u at its own level, and u's next step reads v."""
    grid = _grid(around, x=23)
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = lambda u, v, k: u["t-1"] + 0.1 * k * _bend(*_far(u, "x"), v["t-1", "x-1"])
    v[...] = lambda u, v: v["t-1"] + 0.1 * _bend(u["x-1"], u["x+1"], v["t-1"], u["t-1", "x+2"])
    if not around:
        for one in (u, v):
            one[dict(x=[0, 1, -1, -2])] = 0.2
    return [u, v]


def _masked(around: bool) -> Any:
    """What is set over the rule at some points."""
    u = _plane(around)
    u[fd.where(lambda x, y: (x - 0.5) ** 2 + (y - 0.4) ** 2 < 0.03)] = lambda u: 0.9 * u["t-1"]
    return u


def _fluxes(around: bool) -> Any:
    """Long fluxes that have much in common and are stored at faces."""
    axis = fd.Axis(0.0, 1.0, num=17, cells=True, **AXES[around])
    fields = h, q = [fd.Field(name, fd.Grid(t=fd.Time(0.0, 0.03, num=5), x=axis)) for name in "hq"]
    law = ShallowWater(g=1.0)
    fd.together(h, q)[...] = fd.rate(
        lambda h, q, k: tuple(k * r for r in conservation(law, (h, q), flux=HLL(), reconstruction=Upwind(1)))
    )
    return fields


CASES = {"plane": _plane, "pair": _pair, "masked": _masked, "fluxes": _fluxes}


def _problem(name: str, around: bool) -> tuple[list[fd.Field], dict[str, Any], np.ndarray]:
    made = CASES[name](around)
    fields = made if isinstance(made, list) else [made]
    for one in fields:
        one[0] = lambda a: a[...]
    options = dict(stepper=Euler()) if name == "fluxes" else {}
    shape = tuple(fields[0].grid.space_axis(axis).points.size for axis in fields[0].grid.space)
    return fields, options, 1.0 + np.random.default_rng(3).uniform(size=shape)


@pytest.mark.parametrize("name, around", [
    ("plane", True), ("plane", False), ("pair", True), ("pair", False), ("masked", False), ("fluxes", True),
])  # fmt: skip
def test_gradients_are_those_of_the_portable_kernel(name: str, around: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fields, options, start = _problem(name, around)
    weights = np.random.default_rng(4).normal(size=start.shape)

    def loss(a: Any, k: Any, kernel: str) -> Any:
        saved = fd.solve(fields, a=a, k=k, save=fd.final(), kernel=kernel, **options).final
        return sum(jnp.sum(weights * jnp.asarray(saved[one.name]) ** 2) for one in fields)

    theirs = jax.jit(jax.grad(lambda a, k: loss(a, k, "slices"), (0, 1)))(start, 0.7)
    forbid_portable(monkeypatch, _derivative)
    ours = jax.jit(jax.grad(lambda a, k: loss(a, k, "native"), (0, 1)))(start, 0.7)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * float(np.abs(other).max()))


def _arrays(name: str, around: bool) -> set[str]:
    fields, options, start = _problem(name, around)
    case = case_of(fields, a=start, k=0.7, **options)
    return {one.name for one in pulled_of(case.call, Pull(("parameter k",))).program.arrays}


@pytest.mark.parametrize("name", CASES)
def test_what_is_long_is_written_down_where_nothing_is_set_over_it(name: str) -> None:
    gifts = [one for one in _arrays(name, name == "fluxes") if one.startswith("gift")]
    assert bool(gifts) == (name != "masked")


def test_components_of_a_flux_give_together() -> None:
    fields, options, start = _problem("fluxes", True)
    case = case_of(fields, a=start, k=0.7, **options)
    given = Terms(make_program(case.call), case.axes, Pull(())).given
    assert {len(one.operations) for one in given.by_operation.values()} == {2}


def test_short_rules_are_followed_from_where_they_are_read() -> None:
    u = fd.Field("u", _grid(True, x=13, y=11))
    u[...] = lambda u, k: u["t-1"] - k * u["t-1"] * (u["t-1", "x+1"] - u["t-1", "x-1"] + u["t-1", "y+1"])
    u[0] = 0.5
    program = pulled_of(case_of(u, k=0.1).call, Pull(("parameter k",))).program
    assert not any(one.name.startswith("gift") for one in program.arrays)


def test_what_a_rule_gives_is_computed_in_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads along rows and across them are given to on the same rows, though fewer would do for some."""
    u = _plane(True)
    u[0] = 0.5
    call = case_of(u, k=0.1).call

    def loops() -> int:
        program = pull_program(make_program(call), axes_of(call), Pull(("parameter k",))).program
        bundles = make_bundles(program, make_schedule(program))
        return sum(program.operations[numbers[0]].array.startswith("gift") for numbers in bundles)

    assert loops() == 1
    monkeypatch.setattr(_given, "LONG", 10**6)
    assert loops() > 1
