"""Wrong units in each place are refused, by a message that says where and what would fit."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
import saiunit as u
import xarray as xr

import fdsolve as fd
from fdsolve.boundary import Dirichlet, Neumann, Robin
from fdsolve.planning import make_plan

from .declarations import UNITS, K, M, S, diffuse, grid, layers


def plan(fields, **parameters):
    """The plan, without a choice of kernels."""
    return make_plan(fields, parameters, None, None)


GOOD = {"kappa": 0.01 * M**2 / S}


def rod(initial=2.0, wall=None, rule=None, source=None, units=K, axes=None):
    T = fd.Field("T", grid(UNITS, periodic=wall is None) if axes is None else axes, units=units)
    T[...] = fd.rate(diffuse if rule is None else rule)
    T[0] = initial
    if wall is not None:
        T[dict(x=0)] = Dirichlet(0.0)
        T[dict(x=-1)] = wall
    if source is not None:
        T[dict(x=5)] += fd.rate(source)
    return T


WRONG = [
    ("`kappa` in m/s: the terms of `diffuse` on T[...] have units K/s (the rate of `T`) and K/(m s); in m^2/s it would "
     "fit", rod(), {"kappa": 0.01 * M / S}),
    ("`kappa` without a unit: the terms of `diffuse`", rod(), {"kappa": 0.01}),
    ("`2 m` on T[0] gives m, and `T` is in K; in K it would fit", rod(initial=2.0 * M), GOOD),
    ("`Dirichlet(2 m)` on T[dict(x=-1)] gives m, and `T` is in K", rod(wall=Dirichlet(2.0 * M)), GOOD),
    ("the terms of `Neumann(2 K)` on T[dict(x=-1)] have units K and K m; in K/m it would fit",
     rod(wall=Neumann(2.0 * K)), GOOD),
    ("the terms of `Robin(1 1/m, 1.0, 1 K)` on T[dict(x=-1)] have units", rod(wall=Robin(1.0 / M, 1.0, 1.0 * K)), GOOD),
    ("the terms of `3 K` on T[dict(x=5)] have units K/s (the rate of `T`) and K; in K/s it would fit",
     rod(source=3.0 * K), GOOD),
    ("takes `sin` of what is in m", rod(initial=lambda x: jnp.sin(x)), GOOD),
    ("`T0` in s: `lambda` on T[0] gives s, and `T` is in K; in K it would fit",
     rod(initial=lambda x, T0: T0 + 0 * x), {**GOOD, "T0": 1.0 * S}),
    ("`c` in m/s: the terms of `lambda` on T[...] have units K/s and K m/s; in 1/s it would fit",
     rod(rule=lambda T, kappa, c: diffuse(T, kappa) - c * T[...]), {**GOOD, "c": 1.0 * M / S}),
    ("`limit` in m: the terms of `lambda` on T[...] have units K and m",
     rod(rule=lambda T, kappa, limit: jnp.where(T[...] > limit, 0.0, diffuse(T, kappa)[...])),
     {**GOOD, "limit": 1.0 * M}),
    ("numbers that a rule writes out have no unit", rod(rule=lambda T: 0.01 * fd.schemes.laplacian(T)), {}),
    ("`kappa` in m^2/s", rod(rule=lambda T, kappa: kappa**2 * fd.schemes.laplacian(T)), GOOD),
]  # fmt: skip


@pytest.mark.parametrize(("message", "field", "parameters"), WRONG, ids=range(len(WRONG)))
def test_wrong_units_are_refused(message, field, parameters):
    with pytest.raises(fd.PlanningError, match=re.escape(message)) as raised:
        plan(field, **parameters)
    assert "quantity_" not in str(raised.value)


def test_wrong_units_in_absorbing_layers_are_refused():
    w, parameters = layers(UNITS)
    with pytest.raises(fd.PlanningError, match=re.escape("`c` in m: the terms of `lambda` on w[...] have units")):
        plan(w, **{**parameters, "c": 2.0 * M})


def test_what_lacks_units_is_named():
    axes = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=5))
    with pytest.raises(fd.PlanningError) as raised:
        plan(rod(axes=axes, units=None), **GOOD)
    for text in (
        "`kappa` is a quantity",
        "Time `t` has no units=",
        "Axis `x` has no units=",
        "Field `T` has no units=",
    ):
        assert text in str(raised.value)


def test_units_that_do_not_go_together_are_refused():
    axes = fd.Grid(t=fd.Time(0.0, 1.0, num=3, units="d"), x=fd.Axis(0.0, 1.0, num=5, units="km"))
    v = fd.Field("v", axes, units="m/s")
    v[...] = fd.rate(lambda v: -v * fd.schemes.derivative(v, "x"))
    v[0] = 1.0 * M / S
    v[dict(x=[0, -1])] = Dirichlet(0.0)
    with pytest.raises(fd.PlanningError, match=r"the terms of `lambda` .* They differ in size alone"):
        plan(v)


def test_names_that_saiunit_does_not_know_are_left_alone():
    T = rod(units="degC")
    made = plan(T, **GOOD)
    assert any("'degC' of `T` are none that saiunit knows" in note for note in made.notes)
    assert not any("quantity" in note for note in made.notes)


@pytest.mark.parametrize("units", ["degC", "°C", "degree C"])
def test_values_in_kelvin_are_not_taken_for_degrees(units):
    text = f"saiunit does not know the unit '{units}' of `T`, and cannot tell what the value"
    for given in (dict(initial=300.0 * K), dict(wall=Dirichlet(300.0 * K))):
        with pytest.raises(fd.PlanningError, match=re.escape(text)):
            plan(rod(units=units, **given), **GOOD)
    slopes = rod(20.0, Neumann(2.0 * K / M), source=3.0 * K / S, units=units)
    assert any(repr(units) in note for note in plan(slopes, **GOOD).notes)


def test_operators_on_whole_lines_are_measured():
    T = fd.Field("T", grid(UNITS, periodic=True), units=K)
    T[...] = fd.rate(lambda T, kappa: kappa * fd.schemes.compact(T, "x", 2))
    T[0] = 1.0 * K
    assert "units checked through 4 rules" in plan(T, **GOOD).notes
    with pytest.raises(fd.PlanningError, match=re.escape("and K/(m s); in m^2/s it would fit")):
        plan(T, kappa=1.0 * M / S)


def test_labelled_arrays_have_their_units():
    T = rod()
    x = T.grid.x.points
    good = xr.DataArray(np.full(12, 10.0), {"x": x}, ("x",), attrs={"units": "cm2/s"})
    made = plan(T, kappa=good)
    np.testing.assert_allclose(made.operands["profiles"]["parameter kappa"], 1e-3, rtol=1e-15)
    with pytest.raises(fd.PlanningError, match=re.escape("`kappa` in m/s: the terms of `diffuse`")):
        plan(T, kappa=good.assign_attrs(units="m s-1"))
    with pytest.raises(fd.PlanningError, match=re.escape("`kappa` in m/s: the terms of `diffuse`")):
        plan(T, kappa=fd.along(u.Quantity(np.ones(12), unit=M / S), "x"))
