"""Units at walls: the coefficients of each condition against one another, the field, the axis across and the time."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import saiunit as u
import xarray as xr

import fdsolve as fd
from fdsolve.boundary import PML, Dirichlet, Neumann, Outflow, Robin, Sponge
from fdsolve.planning import make_plan

from .declarations import UNITS, K, M, S, diffuse, grid, taken

W = u.watt
HEAT, CONDUCTIVITY = 5.0 * W / M**2 / K, 2.0 * W / M / K


def plan(fields, **parameters):
    """The plan, without a choice of kernels."""
    return make_plan(fields, parameters, None, None)


def rod(wall, quantities=UNITS, **options):
    """Heat with a condition on the upper wall, and a layer there if it is one."""
    T = fd.Field("T", grid(quantities, **options), units=K if quantities else "K")
    T[...] = fd.rate(diffuse)
    T[0] = taken(quantities, 2.0 * K)
    T[dict(x=0)] = Dirichlet(0.0)
    if isinstance(wall, Sponge):
        T[dict(x=-1)] = Neumann(0.0)
    T[dict(x=-1)] = wall
    return T


KAPPA = {"kappa": 0.01 * M**2 / S}
OUTSIDE = 1e3 * W / M**2
GOOD = [
    (Robin(HEAT, CONDUCTIVITY, OUTSIDE), Robin(5.0, 2.0, 1e3), {"cells": True}),
    (Robin(5.0, CONDUCTIVITY, OUTSIDE), Robin(5.0, 2.0, 1e3), {}),
    (Robin(5.0, 2.0, 1e3), Robin(5.0, 2.0, 1e3), {}),
    (Robin(5.0, CONDUCTIVITY, np.float64(1e3) * W / M**2, order=4), Robin(5.0, 2.0, 1e3, order=4), {}),
    (Neumann(3.0), Neumann(3.0), {}),
    (Outflow(speed=1.0), Outflow(speed=1.0), {}),
    (Outflow(speed=7.2 * u.kmeter / u.hour), Outflow(speed=2.0), {}),
    (Sponge(20.0 * u.cmeter, 3.0 / S, 290.0 * K), Sponge(0.2, 3.0, 290.0), {}),
    (Sponge(0.2, 180.0 / u.minute, 290.0), Sponge(0.2, 3.0, 290.0), {"cells": True}),
]


@pytest.mark.parametrize("case", range(len(GOOD)))
def test_units_that_go_together_are_taken_and_plain_numbers_stand_in_them(case):
    wall, bare, options = GOOD[case]
    made, plain = plan(rod(wall, **options), **KAPPA), plan(rod(bare, quantities=False, **options), kappa=0.01)
    (note,) = (one for one in made.notes if one.startswith("units"))
    assert re.fullmatch(r"units checked through \d rules", note)
    assert [str(rule.jaxpr) for rule in made.structure.rules] == [str(rule.jaxpr) for rule in plain.structure.rules]
    for one, other in zip(jax.tree.leaves(made.operands), jax.tree.leaves(plain.operands), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_coefficients_from_parameters_are_followed():
    wall = Robin(lambda h: h, CONDUCTIVITY, lambda h, outside: h * outside)
    assert "units checked through 5 rules" in plan(rod(wall), **KAPPA, h=HEAT, outside=290.0 * K).notes


WRONG = [
    ("the terms of `Robin(5 W/(K m^2), 2 W/K, 10 W/m^2)` on T[dict(x=-1)] have units kg/s^3 (`a`), kg m/s^3 (`b`) and "
     "kg/s^3 (`g`); beside `a` and `g`, `b` in kg m/(K s^3) would fit.",
     Robin(HEAT, 2.0 * W / K, 10.0 * W / M**2), {}),
    ("kg/s^3 (`a`) and K (`g`); beside `a`, `g` in kg/s^3 would fit.", Robin(HEAT, 1.0, 290.0 * K), {}),
    ("beside `a`, `b` in kg m^2/(K s^3) and `g` in kg m/s^3 would fit.",
     Robin(CONDUCTIVITY, HEAT, 10.0 * W / M**2), {}),
    ("`h` in W/(K m): the terms of `Robin(lambda, 2 W/(K m), lambda)` on T[dict(x=-1)] have units",
     Robin(lambda h: h, CONDUCTIVITY, lambda h: 300.0 * h), {"h": CONDUCTIVITY}),
    ("`Outflow(speed=1 m)` on T[dict(x=-1)] have units K/s (the rate of `T`) and K; in m/s it would fit",
     Outflow(speed=1.0 * M), {}),
    ("the terms of `Sponge(0.2, 3 s)` on T[dict(x=-1)] have units K/s (the rate of `T`) and K s; in 1/s it would fit",
     Sponge(0.2, 3.0 * S), {}),
    ("the terms of `Sponge(0.2, 3 Hz)` on T[dict(x=-1)] have units K and m; in K it would fit",
     Sponge(0.2, 3.0 / S, 1.0 * M), {}),
    ("`Sponge(20 s, 3 Hz)` on T[dict(x=-1)]: width= is in s; in m it would fit.", Sponge(20.0 * S, 3.0 / S), {}),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_units_that_do_not_go_together_are_refused(case):
    message, wall, parameters = WRONG[case]
    with pytest.raises(fd.PlanningError, match=re.escape(message)) as raised:
        plan(rod(wall), **KAPPA, **parameters)
    assert "quantity_" not in str(raised.value)


def sound(layer):
    """Waves by levels over km and ms, in absorbing layers."""
    axes = fd.Grid(
        t=fd.Time(0.0 * u.msecond, 20.0 * u.msecond, num=5), x=fd.Axis(0.0 * u.kmeter, 1.0 * u.kmeter, num=21)
    )
    p = fd.Field("p", axes, units=u.pascal)
    p[...] = lambda p, c, dt: 2 * p["t-1"] - p["t-2"] + (c * dt) ** 2 * fd.schemes.laplacian(p, at="t-1")
    p[0:2] = lambda x, width: 0.0 * x / width
    p[dict(x=[0, -1])] = layer
    return p


def test_speeds_of_absorbing_layers_are_converted():
    layer = PML(4, speed=2e3 * M / S, alpha=30.0 / S)
    made = plan(sound(layer), c=2e3 * M / S, width=1.0 * u.kmeter)
    found = [note for note in made.notes if note.startswith("PML")]
    strength = 4 * 2e-3 * np.log(1e6) / (2 * 0.2)
    assert len(found) == 2 and all(f"σ up to {strength:.6g}, wave speed 0.002 given" in note for note in found)
    (rule,) = (one.rule for one in made.problem.assignments["p"] if isinstance(one.rule, PML))
    np.testing.assert_allclose([rule.speed, rule.alpha], [2e-3, 0.03], rtol=1e-14)
    assert layer.speed == 2e3 * M / S


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (PML(4, speed=2.0 * M), "on p[dict(x=[0, -1])]: speed= is in m; in km/ms it would fit."),
        (PML(4, alpha=2.0 * S), "alpha= is in s; in 1/ms it would fit."),
        (PML(4, wavenumber=2.0 * M), "wavenumber= is in m; in 1/km it would fit."),
    ],
    ids=["speed", "alpha", "wavenumber"],
)
def test_absorbing_layers_in_other_units_are_refused(layer, message):
    with pytest.raises(fd.PlanningError, match=re.escape(message)):
        plan(sound(layer), c=2e3 * M / S, width=1.0 * u.kmeter)


def test_quantities_in_layers_are_checked_when_these_are_made():
    for made, message in (
        (lambda: Sponge(-1.0 * M, 1.0), "width= is a positive number, got"),
        (lambda: PML(4, speed=-1.0 * M / S), "speed= is a number of at least 0, got"),
        (lambda: PML(4, wavenumber=0.0 / M), "wavenumber= is positive"),
        (lambda: PML(4, kappa=2.0 * M), "kappa= is a number of at least 1, got"),
    ):
        with pytest.raises(fd.DeclarationError, match=message):
            made()


UNLABELLED = 4.0


def along(value, units):
    """A DataArray over time that says its units."""
    return xr.DataArray(np.full(2, value), {"t": [0.0, 1.0]}, ("t",), attrs=dict(units=units))


def labelled(wall):
    """The same rod without quantities: units are names, those of DataArrays are compared with them."""
    axes = fd.Grid(t=fd.Time(0.0, 1.0, num=2, units="s"), x=fd.Axis(0.0, 1.0, 5, units="m"))
    T = fd.Field("T", axes, units="K")
    T[...] = fd.rate(lambda T: fd.schemes.laplacian(T))
    T[0] = 1.0
    T[dict(x=0)] = Neumann(0.0)
    T[dict(x=-1)] = Neumann(0.0)
    T[dict(x=-1)] = wall
    return T


def test_labelled_coefficients_are_converted():
    pairs = (
        (Robin(along(5.0, "W/(m2 K)"), along(200.0, "W/(cm K)"), along(1.0, "kW/m2")), Robin(5.0, 2e4, 1e3)),
        (Robin(UNLABELLED, along(2.0, "W/(m K)"), along(1.0, "kW/m2")), Robin(UNLABELLED, 2.0, 1e3)),
        (Outflow(speed=along(7.2, "km/h")), Outflow(speed=2.0)),
        (Sponge(0.5, along(120.0, "1/min"), along(500.0, "mK")), Sponge(0.5, 2.0, 0.5)),
    )
    for labels, plain in pairs:
        arrays = jax.tree.leaves(plan(labelled(labels)).operands)
        held = np.array([np.ravel(one)[0] for one in arrays if np.size(one) == 2])
        wanted = [one for one in plain.coefficients if one != UNLABELLED]
        assert all(np.isclose(held, one, rtol=1e-14, atol=0).any() for one in wanted), (held, wanted)


@pytest.mark.parametrize(
    ("wall", "message"),
    [
        (Robin(along(5.0, "W/(m2 K)"), 2.0, along(1.0, "K")), 'is in "K", and its `g` beside `a` is in "W/(m2 K) K"'),
        (Robin(5.0, along(2.0, "W/(m K)"), along(1.0, "W")), 'is in "W", and its `g` beside `b` is in'),
        (Outflow(speed=along(1.0, "m")), 'is in "m", and its `speed` is in "m/s"'),
        (Sponge(0.5, along(1.0, "s")), 'is in "s", and its `strength` is in "1/s"'),
        (Sponge(0.5, 1.0, along(1.0, "m")), 'is in "m", and `T` is in "K"'),
    ],
    ids=["a-g", "b-g", "speed", "strength", "target"],
)
def test_labelled_coefficients_in_other_units_are_refused(wall, message):
    with pytest.raises(fd.DeclarationError, match=re.escape(message)):
        plan(labelled(wall))


def test_a_number_that_a_rule_writes_out_is_blamed_and_no_parameter():
    T = fd.Field(
        "T",
        fd.Grid(t=fd.Time(0 * u.second, 1 * u.second, num=3), x=fd.Axis(0 * u.meter, 1 * u.meter, 5)),
        units=u.kelvin,
    )
    T[...] = fd.rate(lambda T, kappa: kappa * fd.schemes.laplacian(T))
    T[0] = lambda x, w: 300 * jnp.exp(-((x / w) ** 2))
    T[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    with pytest.raises(
        fd.PlanningError, match=r"^`lambda` on T\[0\] gives no unit, .* give one that has as a parameter"
    ):
        fd.plan(T, kappa=0.001 * u.meter**2 / u.second, w=0.3 * u.meter)
