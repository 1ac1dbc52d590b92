"""What is said of arrays, DataArrays and dtypes that do not fit."""

from typing import Any

import jax
import numpy as np
import pytest
import xarray as xr

import fdsolve as fd

from .messages import Wrong, assign, declare, field, keep, nodes, ruled, undeclared, unplanned, with_line

LABEL = 'Give it that shape, or label it by axes: fd.along(array, "x").'
KIND = "a rule is a number, an array, a function, `fd.rate(...)` or a boundary condition"


def with_default(u: Any, k: Any = fd.along(np.ones(5), "t")) -> Any:  # noqa: B008
    return u["t-1"] * k[...]


SHAPES = {
    "of an initial state": undeclared(
        f"Rule `array (5,)` on u[0]: an array of shape (5,) does not broadcast to the region, which is x: 6. {LABEL}",
        ruled(keep, initial=np.zeros(5)),
    ),
    "of all levels": undeclared(
        "Rule `array (3, 6)` on u[...]: an array of shape (3, 6) does not broadcast to the region, which is t: 5, x: "
        "6. "
        f"{LABEL}",
        ruled(np.zeros((3, 6))),
    ),
    "on a boolean array": undeclared(
        "Rule `array (2,)` on u[boolean array (6,)]: an array of shape (2,) fits neither the field, (5, 6), nor its "
        "space, (6,), nor the number of points of the region. Give it one of these shapes, or label it: "
        'fd.along(array, "x").',
        with_line(np.arange(6) < 3, np.zeros(2)),
    ),
    "of a parameter": undeclared(
        "Rule `lambda` on u[...] returned an array of shape (5,); a rule gives one number, the value at its point. "
        "It gets `k`, of shape (5,), whole. Read "
        'single entries of an array, or label it by the grid\'s axes and name it: k=fd.along(array, "x").',
        ruled(lambda u, k: u["t-1"] * k, k=np.ones(5)),
    ),
    "of a labelled parameter": unplanned(
        "The parameter `k` has shape (4,) along (t), and the grid has (5,) points there. Give it that shape.",
        ruled(lambda u, k: u["t-1"] * k[...], k=fd.along(np.ones(4), "t")),
    ),
    "of a labelled parameter on faces": unplanned(
        "The parameter `k` has shape (7,) along (x), and the grid has (6,) points there. Give it that shape, or say "
        'that it lies on faces: fd.along(array, "x", at=dict(x="face")).',
        ruled(lambda u, k: u["t-1"] * k[...], k=fd.along(np.ones(7), "x"), grid=nodes(cells=True)),
    ),
    "of a labelled default": unplanned(
        "Rule `with_default` on u[...]: the default of `k` is a labelled array, and a default is taken as it is. "
        "Pass it to `solve` as a keyword: k=...",
        ruled(with_default),
    ),
    "of a labelled rule": undeclared(
        "Rule `array (4,)` on u[dict(x=0)]: fd.along has 4 entries along `t`; the axis has 5.",
        with_line(dict(x=0), fd.along(np.ones(4), "t")),
    ),
    "of a boundary value": undeclared(
        "Rule `Dirichlet(ndarray)` on u[dict(x=0)]: an array of shape (3,) does not broadcast to the region, which is "
        f"t: 5. {LABEL}",
        with_line(dict(x=0), fd.boundary.Dirichlet(np.ones(3))),
    ),
}

ALONG = {
    "unknown axis": unplanned(
        "The parameter `k` is labelled by axis `z`; the axes are t, x. Name one of these.",
        ruled(lambda u, k: u["t-1"] * k[...], k=fd.along(np.ones(4), "z")),
    ),
    "unknown axis of a rule": undeclared(
        "Rule `array (5,)` on u[dict(x=0)]: fd.along names the axis `z`; the axes are t, x.",
        with_line(dict(x=0), fd.along(np.ones(5), "z")),
    ),
    "no axes": undeclared(
        '`fd.along` takes an array and the names of its axes, as in fd.along(series, "t"); got no names.',
        lambda: fd.along(np.ones(4)),
    ),
    "positions": undeclared(
        '`fd.along` takes an array and the names of its axes, as in fd.along(series, "t"); got 0.',
        lambda: fd.along(np.ones(4), 0),
    ),
    "dimensions": undeclared(
        "`fd.along` takes one axis for each dimension: the array has 2, and the axes named are t.",
        lambda: fd.along(np.ones((4, 4)), "t"),
    ),
    "an axis twice": undeclared(
        "`fd.along` takes one axis for each dimension: the array has 2, and the axes named are t, t.",
        lambda: fd.along(np.ones((4, 4)), "t", "t"),
    ),
    "misspelt place": undeclared(
        "`fd.along`: at= takes a dict of \"face\" or \"point\" by axis, for the axes x; got {'x': 'fase'}.",
        lambda: fd.along(np.ones(6), "x", at=dict(x="fase")),
    ),
    "a string": undeclared(
        "`fd.along` takes an array and the names of its axes; got 'abc', which is no array of numbers.",
        lambda: fd.along("abc", "t"),
    ),
    "faces of a field on points": undeclared(
        "Rule `array (5,)` on u[0]: fd.along puts the array on faces of axis `x`, where the field has points. "
        "Give its values there.",
        ruled(keep, initial=fd.along(np.ones(5), "x", at=dict(x="face"))),
    ),
    "beyond the levels": unplanned(
        "`lambda` on u[...] reads `k` +1 levels away, outside the axis `t`.",
        ruled(lambda u, k: u["t-1"] * k["t+1"], k=fd.along(np.ones(5), "t")),
    ),
    "beyond the wall": unplanned(
        'Rule `lambda` on u[...] reads the parameter `k` at "x-1", one point outside the lower end of axis `x`. '
        "Start the "
        "region at 1, or assign `u` a boundary condition there, which mirrors the parameter.",
        ruled(lambda u, k: u["t-1"] * k["x-1"], k=np.ones(6)),
    ),
    "whole, a string": undeclared(
        "`fd.whole` takes an array; got 'abc', which is no array of numbers.", lambda: fd.whole("abc")
    ),
}

FLOAT = "which would cut it off; declare the field with dtype=float, or round in the rule."
DTYPES = {
    "complex into real": undeclared(
        "Rule `1j` on u[0] returned a complex value for a real field; declare the field with dtype=complex.",
        ruled(keep, initial=1j),
    ),
    "a complex array into real": undeclared(
        "Rule `array (6,)` on u[0] returned a complex value for a real field; declare the field with dtype=complex.",
        ruled(keep, initial=1j * np.ones(6)),
    ),
    "float into int": undeclared(
        f"Rule `0.5` on u[0] returned float64 for a field of dtype int64, {FLOAT}", ruled(keep, initial=0.5, dtype=int)
    ),
    "a float array into int": undeclared(
        f"Rule `array (6,)` on u[0] returned float64 for a field of dtype int64, {FLOAT}",
        ruled(keep, initial=np.full(6, 0.5), dtype=int),
    ),
    "too large for int8": undeclared(
        "Rule `array (6,)` on u[0]: 300 lies outside what dtype int8 holds, -128 to 127. Declare the field with a "
        "larger "
        "dtype.",
        ruled(keep, initial=np.full(6, 300), dtype="int8"),
    ),
    "negative in uint8": undeclared(
        "Rule `-1` on u[0]: -1 lies outside what dtype uint8 holds, 0 to 255. Declare the field with a larger dtype.",
        ruled(keep, initial=-1, dtype="uint8"),
    ),
    "a dtype of few digits": undeclared(
        "Field `u`: 'bfloat16' is no dtype that fields have; give jnp.float32 or the like.",
        lambda: field(dtype="bfloat16"),
    ),
    "no dtype": undeclared(
        "Field `u`: 'flaot' is no dtype that fields have; give jnp.float32 or the like.", lambda: field(dtype="flaot")
    ),
    "strings": undeclared(
        "Field `u`: <class 'str'> is no dtype that fields have; give jnp.float32 or the like.", lambda: field(dtype=str)
    ),
    "an array of objects": undeclared(
        f"u[...]: {KIND}; got an array of dtype object, which is no array of numbers.",
        assign(..., np.array([object()] * 6)),
    ),
    "a ragged list": undeclared(
        f"u[...]: {KIND}; got [[1.0], [1.0, 2]], which is no array of numbers.", assign(..., [[1.0], [1.0, 2]])
    ),
}


def line(coordinates: Any, dim: str = "x") -> xr.DataArray:
    """Ones along a dimension with coordinates."""
    return xr.DataArray(np.ones(len(coordinates)), dims=dim, coords={dim: coordinates})


def dates(count: int) -> np.ndarray:
    return np.datetime64("2016-01-01", "ns") + np.arange(count) * np.timedelta64(1, "D")


def dated() -> fd.Grid:
    """Five days."""
    time = fd.Time(0.0, 4.0, num=5, since="2016-01-01", units="days")
    return fd.Grid(t=time, x=fd.Axis(0.0, 1.0, num=6))


ON = "Rule `DataArray(x)` on u[0]"
RESAMPLE = "To resample it linearly write fd.interpolate(dataarray)."
DATAARRAYS = {
    "unknown dimension": undeclared(
        "Rule `DataArray(z)` on u[0]: the DataArray has a dimension `z`; the axes are t, x. Take one of it, "
        "dataarray.isel(z=0), or rename it: dataarray.rename(z=...).",
        ruled(keep, initial=line([0, 1], "z")),
    ),
    "other coordinates": undeclared(
        f"{ON}: the DataArray has no entry at x = 0.2 (its `x` runs from 0 to 2 with 6 entries, the axis from 0 to 1 "
        f"with 6); 3 of the region's 6 "
        f"coordinates differ. {RESAMPLE}",
        ruled(keep, initial=line(np.linspace(0, 2, 6))),
    ),
    "missing levels": undeclared(
        "Rule `DataArray(t)` on u[dict(x=0)]: the DataArray has no entry at t = 0.75 (its `t` runs from 0 to 0.5 "
        "with 3 entries, the axis from 0 to 1 with 5); 2 of the region's 5 coordinates differ. It does not reach them: "
        "give it these coordinates as well, or assign to a region that it covers.",
        with_line(dict(x=0), line([0.0, 0.25, 0.5], "t")),
    ),
    "finer coordinates": undeclared(
        f"{ON}: the DataArray's coordinate x = 0.1 is no point of the axis; select the grid's coordinates first, or "
        "write fd.interpolate(dataarray).",
        ruled(keep, initial=line(np.linspace(0, 1, 11))),
    ),
    "a coordinate twice": undeclared(
        f"{ON}: the DataArray has 0.2 twice among its coordinates along `x`; give each coordinate once.",
        ruled(keep, initial=line([0, 0.2, 0.2, 0.4, 0.6, 0.8, 1.0])),
    ),
    "no coordinates, other length": undeclared(
        f"{ON}: the DataArray has 4 entries along `x`; the region has 6.",
        ruled(keep, initial=xr.DataArray(np.ones(4), dims="x")),
    ),
    "coordinates that are words": undeclared(
        f"{ON}: the DataArray's coordinates along `x` are of dtype <U1; numbers or datetimes are wanted.",
        ruled(keep, initial=line(list("abcdef"))),
    ),
    "datetimes without since": undeclared(
        "Rule `DataArray(t)` on u[dict(x=0)]: the DataArray has datetimes along `t`. Datetimes want a Time that says "
        "when "
        'its time 0 is, got Time(0.0, 1.0, num=5). Give it `since=`, as in `since="2016-06-01"`.',
        with_line(dict(x=0), line(dates(5), "t")),
    ),
    "a record of dates that ends too soon": undeclared(
        "Rule `DataArray(t)` on u[dict(x=0)]: fd.interpolate does not extrapolate: axis `t` runs from 2016-01-01 to "
        "2016-01-05, the DataArray from 2016-01-01 to 2016-01-03. Extend the DataArray, or give values to the "
        "part of the grid that it covers.",
        with_line(dict(x=0), fd.interpolate(line(dates(3), "t")), grid=dated()),
    ),
    "a record of other dates": undeclared(
        "Rule `DataArray(t)` on u[dict(x=0)]: the DataArray has no entry at t = 2016-01-04 (its `t` runs from "
        "2016-01-01 to 2016-01-03 with 3 entries, the axis from 2016-01-01 to 2016-01-05 with 5); 2 of the region's 5 "
        "coordinates differ. It does not reach them: give it these coordinates as well, or assign to a region that "
        "it covers.",
        with_line(dict(x=0), line(dates(3), "t"), grid=dated()),
    ),
    "a date twice": undeclared(
        "Rule `DataArray(t)` on u[dict(x=0)]: the DataArray has 2016-01-03 twice among its coordinates along `t`; give "
        "each coordinate once.",
        with_line(dict(x=0), line(dates(5)[[0, 1, 2, 2, 4]], "t"), grid=dated()),
    ),
    "save at a date outside": undeclared(
        "save=fd.at(...): the time 2016-02-01 lies outside the time axis, 2016-01-01 to 2016-01-05.",
        ruled(keep, grid=dated(), save=fd.at(["2016-02-01"])),
    ),
    "datetimes in space": undeclared(
        f"{ON}: axis `x` is no time axis, but the DataArray has datetimes on it.",
        ruled(keep, initial=line(dates(6))),
    ),
    "interpolate outside": undeclared(
        f"{ON}: fd.interpolate does not extrapolate: axis `x` runs from 0 to 1, the DataArray from 0.2 to 0.8. "
        "Extend the DataArray, or give values to the part of the grid that it covers.",
        ruled(keep, initial=fd.interpolate(line([0.2, 0.8]))),
    ),
    "interpolate without coordinates": undeclared(
        f"{ON}: fd.interpolate needs coordinates along `x`; the DataArray has none.",
        ruled(keep, initial=fd.interpolate(xr.DataArray(np.ones(4), dims="x"))),
    ),
    "interpolate an array": undeclared(
        "`fd.interpolate` takes an xarray.DataArray, got ndarray.", lambda: fd.interpolate(np.ones(3))
    ),
    "words": undeclared(
        "u[0]: the DataArray got an array of dtype <U1, which is no array of numbers.",
        assign(0, xr.DataArray(np.array(list("abcdef")), dims="x")),
    ),
    "a parameter with other coordinates": undeclared(
        "The parameter `k`: the DataArray has no entry at x = 0.2 (its `x` runs from 0 to 2 with 6 entries, the axis "
        "from 0 to 1 with 6); 3 of the "
        f"region's 6 coordinates differ. {RESAMPLE}",
        ruled(lambda u, k: u["t-1"] * k[...], k=line(np.linspace(0, 2, 6))),
    ),
    "a Dataset for a parameter": undeclared(
        "The parameter `k` is a Dataset; pass its arrays and numbers one by one.",
        ruled(lambda u, k: u["t-1"], k=xr.Dataset(dict(a=line([0, 1])))),
    ),
}

CASES = {
    f"{group}: {name}": case
    for group, cases in dict(shape=SHAPES, along=ALONG, dtype=DTYPES, dataarray=DATAARRAYS).items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_message(case: Wrong) -> None:
    case.check()


def test_gaps_in_a_record_are_told() -> None:
    record = line(np.linspace(0, 1, 5), "t")
    record[2] = np.nan
    u = declare(keep)
    u[dict(x=0)] = record
    with pytest.warns(fd.FdsolveWarning) as caught:
        fd.plan(u)
    assert str(caught[0].message) == (
        "Rule `DataArray(t)` on u[dict(x=0)]: 1 of 5 values are nan, the first at t = 0.5; they would spread. Fill "
        "such "
        "gaps first, for example by dataarray.interpolate_na(...)."
    )


def test_a_condition_on_the_field_mirrors_a_parameter() -> None:
    u = declare(fd.rate(lambda u, k: fd.schemes.divergence(k, u)), grid=nodes())
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    assert fd.solve(u, k=np.full(6, 1e-3))["u"].shape == (5, 6)


def test_labelled_arrays_may_come_in_any_order_of_axes() -> None:
    table = np.arange(30.0).reshape(6, 5)
    u = field()
    u[...] = fd.along(table, "x", "t")
    np.testing.assert_array_equal(fd.solve(u)["u"], table.T)
    u[1:, 0] = fd.along(-np.arange(1.0, 5.0), "t")
    assert fd.solve(u)["u"][:, 0].tolist() == [0.0, -1.0, -2.0, -3.0, -4.0]


def test_traced_arrays_are_checked_by_shape_alone() -> None:
    @jax.jit
    def last(initial: jax.Array) -> jax.Array:
        return fd.solve(declare(keep, initial))["u"][-1]

    assert last(np.full(6, np.nan)).shape == (6,)
    with pytest.raises(fd.DeclarationError, match=r"an array of shape \(5,\) does not broadcast"):
        last(np.zeros(5))
