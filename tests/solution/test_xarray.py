"""DataArrays in and Datasets out: dimensions, coordinates, units, datetimes."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import fdsolve as fd


def make(**options):
    grid = fd.Grid(
        t=fd.Time(0.0, 3.0, num=4, units="s"), x=fd.Axis(0.0, 1.0, 5, units="m", **options), y=fd.Axis(0.0, 1.0, 3)
    )
    return grid, fd.Field("u", grid, units="K")


def test_dataset_has_dimensions_coordinates_units_and_parameters():
    _, u = make()
    u[...] = lambda x, y, t, c: c * x + y + t
    data = fd.solve(u, c=2.0, save=fd.every(2)).to_xarray()
    assert data.u.dims == ("t", "x", "y")
    np.testing.assert_allclose(data.t, [0.0, 2.0])
    np.testing.assert_allclose(data.u.sel(t=2.0, x=0.5, y=1.0), 2.0 * 0.5 + 1.0 + 2.0)
    assert data.u.attrs["units"] == "K"
    assert data.x.attrs["units"] == "m"
    assert data.t.attrs["units"] == "s"
    assert data.attrs["c"] == 2.0


@pytest.mark.parametrize("save", [[fd.final(), fd.receivers(dict(x=0.3))], fd.receivers(dict(x=0.3))])
def test_solutions_are_asked_for_their_fields_as_dicts_are(save):
    u, v = (fd.Field(name, fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=5))) for name in "uv")
    u[...], v[...] = 1.0, 2.0
    solution = fd.solve([u, v], save=save)
    for held in (solution, solution.final, solution.receivers):
        assert "v" in held and "w" not in held and list(held) == ["u", "v"]
        assert (dict(held)["v"] == held["v"]).all()


def test_staggered_fields_have_their_own_coordinates():
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, 4, cells=True))
    v = fd.Field("v", grid, at=dict(x="face"))
    p = fd.Field("p", grid)
    v[...] = lambda x: x
    p[...] = lambda x: x
    data = fd.solve([p, v]).to_xarray()
    np.testing.assert_allclose(data.x, [0.125, 0.375, 0.625, 0.875])
    np.testing.assert_allclose(data.x_face, [0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(data.v, data.x_face)


def test_netcdf_round_trip(tmp_path):
    _, u = make()
    u[...] = lambda x, y, t: x + y + t
    data = fd.solve(u).to_xarray()
    data.to_netcdf(tmp_path / "u.nc")
    with xr.open_dataset(tmp_path / "u.nc", decode_times=False) as back:
        np.testing.assert_array_equal(back.u, data.u)


def test_dataarrays_are_matched_by_dimension_name():
    grid, u = make()
    profile = xr.DataArray(
        np.arange(15.0).reshape(3, 5), dims=("y", "x"), coords=dict(x=grid.x.points, y=grid.y.points)
    )
    u[...] = lambda k: k[...]
    np.testing.assert_array_equal(fd.solve(u, k=profile)["u"][2], profile.values.T)
    u[0] = profile
    np.testing.assert_array_equal(fd.solve(u, k=profile)["u"][0], profile.values.T)


def test_datetimes_select_and_interpolate():
    grid = fd.Grid(t=fd.Time(0.0, 5400.0, step=1800.0, since="2016-06-01"), x=fd.Axis(0.0, 1.0, 3))
    hourly = xr.DataArray([0.0, 2.0, 4.0], dims="t", coords=dict(t=pd.date_range("2016-06-01", periods=3, freq="h")))
    u = fd.Field("u", grid)
    u[...] = 0.0
    u[dict(x=0)] = fd.boundary.Dirichlet(fd.interpolate(hourly))
    solution = fd.solve(u)
    np.testing.assert_allclose(solution["u"][:, 0], [0.0, 1.0, 2.0, 3.0])
    assert solution.to_xarray().t.values[1] == np.datetime64("2016-06-01T00:30")
    with pytest.raises(fd.DeclarationError, match=r"fd\.interpolate"):
        u[dict(x=1)] = hourly
        fd.solve(u)


def test_labelled_and_whole_arrays():
    _, u = make()
    series = jnp.array([1.0, 2.0, 3.0, 4.0])
    u[...] = lambda q, table: q[...] + table[1]
    solution = fd.solve(u, q=fd.along(series, "t"), table=jnp.array([5.0, 7.0]))
    np.testing.assert_allclose(solution["u"][:, 0, 0], series + 7.0)
    square = jnp.arange(15.0).reshape(5, 3)
    u[...] = lambda table: table.sum()
    np.testing.assert_allclose(fd.solve(u, table=fd.whole(square))["u"][0], square.sum())
