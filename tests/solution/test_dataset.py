"""Solutions as Datasets: CF's rules, staggered grids that xgcm opens, holes, receivers, no time."""

import cf_xarray  # noqa: F401
import numpy as np
import pytest
import xarray as xr
import xgcm

import fdsolve as fd


def staggered(since=None, **axes):
    grid = fd.Grid(
        t=fd.Time(0.0, 2.0, num=3, since=since, units="h"),
        x=fd.Axis(0.0, 2.0, 8, units="m", attrs=dict(standard_name="projection_x_coordinate"), **axes),
        y=fd.Axis.from_points([0.1, 0.3, 0.7, 1.0], units="m", cells=True),
    )
    p = fd.Field("p", grid, units="Pa", attrs=dict(standard_name="air_pressure", long_name="pressure"))
    u = fd.Field("u", grid, at=dict(x="face"), units="m s-1")
    corner = fd.Field("corner", grid, at=dict(x="face", y="face"))
    p[...] = lambda x, y, t, c: c * x + y * t
    u[...] = lambda x, y: x**2 + 0 * y
    corner[...] = lambda x, y: x * y
    return fd.solve([p, u, corner], c=3.0).to_xarray()


def check_cf(data):
    """What the conventions say of everything we write (sections 2.6, 4, 4.4, 7.1)."""
    assert "CF-1.11" in data.attrs["Conventions"]
    letters: dict[str, int] = {}
    for name, one in data.coords.items():
        if name in data.dims:
            assert one.ndim == 1 and (np.diff(one.values).astype(float) > 0).all()
            assert not one.isnull().any()
            letter = one.attrs.get("axis")
            assert letter in (None, "X", "Y", "Z", "T")
            letters[letter] = letters.get(letter, 0) + 1
            assert ("positive" in one.attrs) == (letter == "Z") and (letter != "Z" or "units" in one.attrs)
            assert (letter == "T") == (one.dtype.kind == "M")  # a time is known by its date of reference
        if (bounds := one.attrs.get("bounds")) is not None:
            edges = data[bounds]
            assert edges.dims == (*one.dims, "bnds") and edges.sizes["bnds"] == 2 and not edges.attrs
            lower, upper = edges.values[..., 0], edges.values[..., 1]
            assert (lower <= one.values).all() and (one.values <= upper).all()
            np.testing.assert_array_equal(lower.reshape(-1)[1:], upper.reshape(-1)[:-1])
    for name, one in data.variables.items():
        assert one.attrs.get("units", "") is not None and str(name).isidentifier()
        assert all(value is not None for value in one.attrs.values())


@pytest.mark.parametrize("axes", [dict(cells=True), dict(), dict(periodic=True)])
def test_xgcm_opens_and_differentiates_staggered_fields(axes):
    data = staggered(**axes)
    check_cf(data)
    wrap = "periodic" if "periodic" in axes else "fill"
    names = dict(x="X", y="Y")
    for described in (data, data.assign_attrs(Conventions="CF-1.11")):  # by SGRID, then by COMODO
        grid = xgcm.Grid(described, autoparse_metadata=True, padding={"X": wrap, "Y": "fill"})
        assert grid.axes["X"].coords["center"] == "x" and "x_face" in grid.axes["X"].coords.values()
        assert set(names.values()) <= set(grid.axes)
        step = float(data.x[1] - data.x[0])
        slope = (grid.diff(data.u, "X") / step).isel(x=slice(1, -1))
        np.testing.assert_allclose(slope, np.broadcast_to(2 * slope.x.values[:, None], slope.shape))
        back = grid.diff(data.p, "X").isel(x_face=slice(1, -1))
        np.testing.assert_allclose(back, 3.0 * step)


def test_places_of_the_staggered_grid_are_named():
    data = staggered(cells=True)
    assert [data[name].attrs["location"] for name in ("p", "u", "corner")] == ["face", "edge1", "node"]
    topology = data[data.p.attrs["grid"]].attrs
    assert topology["face_dimensions"] == "x: x_face (padding: none) y: y_face (padding: none)"
    assert set(topology["node_dimensions"].split()) <= set(data.dims)
    assert data.x_face.attrs["c_grid_axis_shift"] == -0.5
    np.testing.assert_allclose(data.y_bnds, [[0.0, 0.2], [0.2, 0.5], [0.5, 0.85], [0.85, 1.15]], atol=1e-12)


def test_cf_xarray_finds_axes_bounds_and_standard_names():
    data = staggered(since="2016-06-01", cells=True)
    assert data.cf.axes["T"] == ["t"] and set(data.cf.axes["X"]) == {"x", "x_face"}
    assert data.cf.standard_names["air_pressure"] == ["p"] and data.cf.standard_names["time"] == ["t"]
    assert data.cf.bounds["x"] == ["x_bnds"]
    assert data.p.attrs["long_name"] == "pressure" and data.p.attrs["units"] == "Pa"
    np.testing.assert_array_equal(data.t, np.datetime64("2016-06-01", "ns") + np.arange(3) * np.timedelta64(1, "h"))
    assert data.t.encoding["units"] == "seconds since 2016-06-01 00:00:00"


def test_what_was_solved_is_told():
    data = staggered(cells=True)
    assert data.attrs["c"] == 3.0 and data.attrs["rules_p"] == "`lambda` on p[...]"
    assert data.attrs["plan"].startswith("Plan") and "Levels 0 to 2" in data.attrs["plan"]
    assert data.attrs["source"].startswith(f"fdsolve {fd.__version__} (JAX ")


def test_parameters_never_hide_what_is_always_told(tmp_path):
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, 3)))
    u[...] = lambda x, source, flag, pair, table: source * x * pair[0]
    pair, table = np.array([2.0, 3.0]), np.ones((3, 3))
    data = fd.solve(u, source=2.0, flag=True, pair=pair, table=table).to_xarray()
    assert data.attrs["parameter_source"] == 2.0 and data.attrs["source"].startswith("fdsolve")
    assert data.attrs["flag"] == 1 and "table" not in data.attrs
    np.testing.assert_array_equal(data.attrs["pair"], pair)
    with fd.open_dataset(fd.to_netcdf(data, tmp_path / "u.nc")) as back:
        xr.testing.assert_identical(back, data)


def test_every_parameter_is_kept_whatever_it_is_called():
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, 3)))
    u[...] = lambda x, title, parameter_title, grows_along, rules_u: x
    names = ("parameter_title", "title", "grows_along", "rules_u")
    attributes = fd.solve(u, parameters={name: float(k) for k, name in enumerate(names)}).to_xarray().attrs
    assert [value for value in attributes.values() if isinstance(value, float)] == [0.0, 1.0, 2.0, 3.0]


def test_a_grid_without_time_with_a_hole_and_vertical_axis(tmp_path):
    grid = fd.Grid(z=fd.Axis(0.0, 3.0, 4, units="m"), r=fd.Axis(0.0, 1.0, 3, cells=True))
    w = fd.Field("w", grid, dtype=complex)
    w[...] = lambda z, r: z + 1j * r
    w[fd.where(lambda z, r: (abs(z - 1) < 0.5) & (abs(r - 0.5) < 0.1))] = fd.boundary.Neumann(0.0)
    data = fd.solve(w).to_xarray()
    check_cf(data)
    assert data.w.dims == ("z", "r") and data.z.attrs["positive"] == "up" and data.r.attrs["axis"] == "X"
    assert np.isnan(data.w[1, 1]) and np.isfinite(data.w).sum() == 11
    for path in (fd.to_netcdf(data, tmp_path / "w.nc"), fd.to_zarr(data, tmp_path / "w.zarr")):
        with fd.open_dataset(path) as back:
            xr.testing.assert_identical(back, data)
            assert back.w.dtype == complex


def test_what_a_save_took_has_cells_methods_and_units():
    disc = dict(
        r=fd.Axis(0.0, 1.0, 2, cells=True, metric="radius"), q=fd.Axis(0.0, 2 * np.pi, 4, periodic=True, metric="angle")
    )
    grid = fd.Grid(z=fd.Axis(0.0, 2.0, 3, units="m"), **disc)
    u = fd.Field("u", grid, units="K", attrs=dict(standard_name="air_temperature"))
    u[...] = lambda z: z
    found = fd.solve(u, save=fd.final().isel(q=1).integral("z").mean("r")).to_xarray()
    check_cf(found)
    assert found.u.attrs == {"units": "K m", "long_name": "u", "cell_methods": "z: sum r: mean"} and float(found.u) == 2
    assert found.q.attrs["units"] == "rad" and "bounds" not in found.q.attrs and "q_bnds" not in found
    np.testing.assert_array_equal(found.z_bnds, [0.0, 2.0])


def test_receivers_are_time_series(tmp_path):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3, since="2016-06-01"), x=fd.Axis(0.0, 1.0, 5, units="m"))
    u = fd.Field("u", grid, units="K")
    u[...] = lambda x, t: x + t
    data = fd.solve(u, save=fd.receivers(dict(x=np.array([0.3, 0.7])))).to_xarray()
    check_cf(data)
    assert data.attrs["featureType"] == "timeSeries" and data.receiver.attrs["cf_role"] == "timeseries_id"
    np.testing.assert_allclose(data.u.sel(t="2016-06-01T00:00:01"), [[1.3, 1.7]])
    with fd.open_dataset(fd.to_netcdf(data, tmp_path / "u.nc")) as back:
        xr.testing.assert_identical(back, data)
        assert back.x.dims == ("receiver",) and back.x.attrs["units"] == "m"


def test_times_between_levels_as_datetimes():
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=4, since="2016-06-01"), x=fd.Axis(0.0, 1.0, 3))
    u = fd.Field("u", grid)
    u[...] = lambda x, t: x + t
    times = fd.solve(u, save=fd.at([0.0, 0.5, 1.0])).to_xarray().t.values
    np.testing.assert_array_equal(times - times[0], np.array([0, 5 * 10**8, 10**9], "timedelta64[ns]"))


@pytest.mark.parametrize("attrs", [["a"], {"a": None}, {1: "a"}])
def test_attributes_are_texts_and_numbers(attrs):
    with pytest.raises(fd.DeclarationError, match="a dict of texts and numbers by name"):
        fd.Axis(0.0, 1.0, 3, attrs=attrs)
    with pytest.raises(fd.DeclarationError, match="Field `u`: `attrs=` must be a dict"):
        fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, 3)), attrs=attrs)
