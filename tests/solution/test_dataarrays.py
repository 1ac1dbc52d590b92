"""DataArrays in: matched by coordinate or resampled, from files and solutions; what is said where they do not fit."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import fdsolve as fd


def solve(rule, **axes):
    """A field that is what it is assigned."""
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, 5, units="m", **axes)))
    u[...] = rule
    return np.asarray(fd.solve(u)["u"])


def line(x, values=None, **attrs):
    x = np.asarray(x)
    return xr.DataArray(3 * x + 1 if values is None else values, dims="x", coords={"x": ("x", x, attrs)})


POINTS = np.linspace(0.0, 1.0, 5)


@pytest.mark.parametrize("x", [[1.0, 0.0], [0.7, -0.5, 2.0, 0.1]])
def test_resampling_is_linear_whichever_way_coordinates_run(x):
    np.testing.assert_allclose(solve(fd.interpolate(line(x))), 3 * POINTS + 1)


def test_series_of_datetimes_and_of_numbers_at_a_boundary():
    time = fd.Time(0.0, 2.0, num=5, since="2016-06-01", units="h")
    u = fd.Field("u", fd.Grid(t=time, x=fd.Axis(0.0, 1.0, 3)))
    u[...] = 0.0
    stamps = np.datetime64("2016-06-01", "ns") + np.array([3, 0, 1]) * np.timedelta64(1, "h")
    for coordinates in (stamps, np.array([3.0, 0.0, 1.0])):
        series = xr.DataArray([40.0, 10.0, 20.0], dims="t", coords=dict(t=coordinates))
        u[dict(x=0, t=slice(1, None))] = fd.interpolate(series)
        found = fd.solve(u)["u"][1:, 0]
        np.testing.assert_allclose(found, [15.0, 20.0, 25.0, 30.0])


def test_a_periodic_axis_goes_on_with_its_first_entries():
    x = np.linspace(0.0, 1.0, 5, endpoint=False)
    shifted = line([0.1, 0.3, 0.5, 0.7, 0.9], np.array([1.0, 3.0, 5.0, 7.0, 9.0]))
    found = solve(fd.interpolate(shifted), periodic=True)
    np.testing.assert_allclose(found, np.where(x == 0, 5.0, 10 * x))


def test_only_the_region_must_be_covered():
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, 5))
    u = fd.Field("u", grid)
    u[...] = -1.0
    u[dict(x=slice(1, 3))] = fd.interpolate(line([0.2, 0.6]))
    np.testing.assert_allclose(fd.solve(u)["u"], [-1.0, 1.75, 2.5, -1.0, -1.0])


def test_missing_dimensions_are_repeated_and_files_go_in_again(tmp_path):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, 4, cells=True), y=fd.Axis(0.0, 1.0, 3))
    p, u = fd.Field("p", grid), fd.Field("u", grid, at=dict(x="face"))
    p[...] = lambda x, y, t: x + y * t
    u[...] = lambda x, t: x * t
    path = fd.to_zarr(fd.solve([p, u]), tmp_path / "run.zarr")
    with fd.open_dataset(path) as run:
        p[0] = run.p.isel(t=-1)
        p[1:] = lambda p, u, k: p["t-1"] + 0 * k[...]
        u[0] = run.u.isel(t=-1, y=0)  # the dimension is x_face; y is missing
        u[1:] = lambda u: u["t-1"]
        again = fd.solve([p, u], k=run.p.isel(t=1))
        np.testing.assert_array_equal(again["p"][2], run.p[-1])
        np.testing.assert_array_equal(again["u"][2], run.u[-1])
        p[0] = run.u.isel(t=-1)
        with pytest.raises(fd.DeclarationError, match=r"lies on faces of axis `x` .*rename\(x_face='x'\)"):
            fd.solve([p, u], k=run.p.isel(t=1))


def test_gaps_are_refused_where_they_would_spread():
    with pytest.raises(fd.DeclarationError, match=r"1 of 3 values are nan, the first at x = 0\.5\. Fill them first"):
        solve(fd.interpolate(line([0.0, 0.5, 1.0], np.array([1.0, np.nan, 2.0]))))


def heated(rate=None, wall=0.0, flux=0.0, start=0.0):
    """A field in K over seconds and metres: what is assigned to it at two levels."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=2, units="s"), x=fd.Axis(0.0, 1.0, 5, units="m")), units="K")
    u[...] = fd.rate((lambda u: fd.schemes.laplacian(u)) if rate is None else rate)
    u[0] = start
    u[dict(x=0)] = fd.boundary.Dirichlet(wall)
    u[dict(x=-1)] = fd.boundary.Neumann(flux)
    return u


def of_units(values, units, dim="x"):
    coords = {"x": POINTS} if dim == "x" else {"t": [0.0, 1.0]}
    return xr.DataArray(np.asarray(values), coords, (dim,), attrs=dict(units=units))


def test_values_in_other_units_are_converted():
    whole = of_units([1, 2, 3, 4, 5], "mK")  # whole numbers: a thousandth of them is none
    for start in (whole, fd.interpolate(whole)):
        found = fd.solve(heated(start=start, rate=of_units(np.full(5, 3.6), "K/h")))["u"]
        np.testing.assert_allclose(found[0, 1:], [2e-3, 3e-3, 4e-3, 5e-3], rtol=1e-14)
        np.testing.assert_allclose(found[1, 1:], found[0, 1:] + 1e-3, rtol=1e-12)
    walls = dict(wall=of_units([0.0, 20.0], "mK", "t"), flux=of_units([4.0, 4.0], "K/km", "t"))
    plain = dict(wall=of_units([0.0, 0.02], "kelvin", "t"), flux=of_units([4e-3, 4e-3], "K m-1", "t"))
    steps = [fd.solve(heated(**given), stepper=fd.schemes.BackwardEuler())["u"] for given in (walls, plain)]
    np.testing.assert_allclose(steps[0], steps[1], rtol=1e-13)
    assert steps[0][1, -1] > steps[0][1, -2] > 1e-3


def test_observations_in_other_units_are_converted_with_their_sigma():
    solution = fd.solve(heated(start=1.0, rate=0.0))
    seen = of_units(np.full(5, 1500), "mK").expand_dims(t=[1.0]).isel(x=slice(1, None)).assign_attrs(sigma=250.0)
    np.testing.assert_allclose(fd.misfit(solution, seen), -0.5)
    np.testing.assert_allclose(fd.misfit(solution, seen, "1/sigma"), -2.0)


def test_values_whose_units_do_not_fit_are_refused(monkeypatch):
    for given, why in (("degC", 'saiunit does not know "degC"'), ("m", "they measure different things")):
        with pytest.raises(fd.DeclarationError, match=rf'u\[0\] is in "{given}", and `u` is in "K": {why}'):
            fd.plan(heated(start=of_units(POINTS, given)))
    with pytest.raises(fd.DeclarationError, match=r'in "K", and the rate of `u` is in "K/s": they measure different'):
        fd.plan(heated(rate=of_units(POINTS, "K")))
    with pytest.raises(fd.DeclarationError, match=r'in "K/s", and ∂u/∂n is in "K/m"'):
        fd.plan(heated(flux=of_units([0.0, 0.0], "K/s", "t")))
    monkeypatch.setitem(sys.modules, "saiunit", None)
    with pytest.raises(fd.DeclarationError, match=r"is not installed \(pip install 'fdsolve\[units\]'\)"):
        fd.plan(heated(start=of_units(POINTS, "mK")))


def test_coordinates_in_other_units_are_converted_or_refused():
    pytest.importorskip("saiunit")
    for x, units in ((POINTS / 1000, "km"), (POINTS * 100, "cm")):
        np.testing.assert_allclose(solve(line(x, 3 * POINTS + 1, units=units)), 3 * POINTS + 1)
        ends = line(x[[0, -1]], np.array([1.0, 4.0]), units=units)
        np.testing.assert_allclose(solve(fd.interpolate(ends)), 3 * POINTS + 1)
    np.testing.assert_allclose(solve(fd.interpolate(line([0.0, 1.0], units="metres"))), 3 * POINTS + 1)
    for rule in (line(POINTS, units="cm"), fd.interpolate(line(POINTS, units="cm"))):
        with pytest.raises(fd.DeclarationError, match=r'in "m" as converted from "cm"'):
            solve(rule)
    with pytest.raises(fd.DeclarationError, match='coordinate `x` is in "K", and axis `x` is in "m": they measure'):
        solve(line(POINTS, units="K"))


def test_values_may_be_traced():
    """As initial state, at a wall and as a parameter, matched or resampled: as fd.along has them."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, 5)))
    weights = jnp.arange(15.0).reshape(3, 5)

    def gradient(label):
        def loss(v):
            u[...], u[0] = (lambda u, k: 0.5 * u["t-1"] + k[...] ** 2), label(2 * v)
            return jnp.sum(weights * fd.solve(u, k=label(v))["u"])

        return jax.jit(jax.grad(loss))(jnp.asarray(POINTS))

    wanted = gradient(lambda v: fd.along(v, "x"))
    up = line(POINTS)
    for label in (
        lambda v: up.copy(data=v),
        lambda v: up[::-1].copy(data=v[::-1]),
        lambda v: fd.interpolate(up.copy(data=v)),
    ):
        np.testing.assert_allclose(gradient(label), wanted, rtol=1e-12)
    halves = gradient(lambda v: fd.interpolate(up[::2].copy(data=v[::2])))
    np.testing.assert_allclose(halves[1::2], 0.0)
    assert (np.asarray(halves[::2]) > 0).all()


def test_a_single_entry_is_that_everywhere_it_may_be():
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, 3), y=fd.Axis(0.0, 1.0, 1, cells=True))
    u = fd.Field("u", grid)
    both = xr.DataArray([[1.0], [3.0]], dims=("x", "y"), coords=dict(x=[0.0, 1.0], y=[0.5]))
    u[...] = fd.interpolate(both)
    np.testing.assert_allclose(fd.solve(u)["u"], [[1.0], [2.0], [3.0]])
