"""Misfits at the observations' own coordinates, against xarray's interpolation; what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import fdsolve as fd

GRID = fd.Grid(
    t=fd.Time(0.0, 4.0, num=5, since="2016-06-01", units="h"),
    x=fd.Axis(0.0, 1.0, num=6),
    y=fd.Axis(0.0, 1.0, num=8, periodic=True),
)


@pytest.fixture(scope="module")
def solution():
    u = fd.Field("u", GRID)
    u[...] = lambda u: 0.9 * u["t-1"]
    u[0] = lambda x, y: x**2 + jnp.sin(2 * jnp.pi * y)
    return fd.solve(u)


@pytest.fixture(scope="module")
def points(solution):
    """Thirty observations, exact by xarray; one is missing."""
    draw = np.random.default_rng(0)
    whole = solution.to_xarray().u.assign_coords(t=solution.times)
    x, y, t = draw.uniform(0, 1, 30), draw.uniform(0, 0.87, 30), draw.uniform(0, 4, 30)
    found = whole.interp(x=("p", x), y=("p", y), t=("p", t))
    found[3] = np.nan
    return found


def test_points_grids_dates_and_missing_values(solution, points):
    assert fd.misfit(solution, points).shape == (29,)
    np.testing.assert_allclose(fd.misfit(solution, points), 0, atol=1e-14)
    np.testing.assert_allclose(fd.misfit(solution, points + 0.5, weight=4.0), -2.0, rtol=1e-12)
    after = points.assign_coords(t=("p", (points.t.values * 3600e9).astype("timedelta64[ns]")))
    np.testing.assert_allclose(fd.misfit(solution, after), 0, atol=1e-9)
    np.testing.assert_allclose(fd.misfit(solution, solution.to_xarray()), 0, atol=1e-14)  # all of it, by dates
    beyond = points.assign_coords(y=points.y + 3.0)  # round the periodic axis
    np.testing.assert_allclose(fd.misfit(solution, beyond), 0, atol=1e-13)


@pytest.mark.parametrize("uniform", [True, False])
def test_between_a_wall_and_the_middle_of_a_cell_values_go_on_as_they_do_beside_it(uniform):
    nodes = np.linspace(0, 2, 9) if uniform else 2 * np.linspace(0, 1, 9) ** 1.3
    x = fd.Axis(0.0, 2.0, num=8, cells=True) if uniform else fd.Axis.from_points(nodes, cells=True)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=2), x=x, y=fd.Axis(0.0, 1.0, num=5, cells=True)))
    u[...] = lambda u: u["t-1"]
    u[0] = lambda x, y: 3 * x - 2 * y + 1
    solution = fd.solve(u, save=fd.final())
    places = dict(x=("p", [0.0, 0.01, 2.0, 1.99, 0.7, 1e-9]), y=("p", [0.0, 1.0, 0.02, 0.97, 0.5, 0.1]))
    observed = xr.DataArray(np.zeros(6), places, ("p",))
    expected = [3 * a - 2 * b + 1 for a, b in zip(places["x"][1], places["y"][1], strict=True)]
    np.testing.assert_allclose(fd.misfit(solution, observed), expected, atol=1e-8)
    with pytest.raises(fd.DeclarationError, match=f"outside axis `x`, where .* to {x.upper:g}; the first at 2.5"):
        fd.misfit(solution, observed.assign_coords(x=("p", [0.0, 0.01, 2.5, 1.99, 0.7, 1e-9])))


def test_labelled_weights_go_by_their_labels() -> None:
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=6), y=fd.Axis(0.0, 1.0, num=6)))
    u[...] = lambda x, y: x + y
    solution = fd.solve(u)
    observed = xr.DataArray(np.zeros((2, 3)), dict(x=[0.2, 0.4], y=[0.2, 0.4, 0.6]), ("x", "y"), name="u")
    weight = xr.DataArray([1.0, 4.0, 9.0], dict(y=[0.2, 0.4, 0.6]), ("y",))
    expected = fd.misfit(solution, observed, weight=weight)
    np.testing.assert_allclose(expected, [0.4, 2.4, 7.2, 0.6, 3.2, 9.0], rtol=1e-6)
    np.testing.assert_array_equal(fd.misfit(solution, observed, weight=weight[[2, 0, 1]]), expected)
    with pytest.raises(fd.DeclarationError, match=r"along `y` \(3\), and the observations along `x` \(2\), `y`"):
        fd.misfit(solution, observed, weight=weight.assign_coords(y=[0.2, 0.4, 0.8]))
    with pytest.raises(fd.DeclarationError, match=r"not negative, got -1.0\."):
        fd.misfit(solution, observed, weight=-1.0)
    with pytest.raises(fd.DeclarationError, match=r"of `x`: observations.assign_coords\(x=\('z', places\)\)"):
        fd.misfit(solution, observed.rename(x="z"))


def test_weights_by_sigma_and_traced_values(solution, points):
    sigma = points.assign_coords(sigma=("p", np.linspace(1, 2, 30))) + 1.0
    kept = np.delete(np.linspace(1, 2, 30), 3)
    np.testing.assert_allclose(fd.misfit(solution, sigma, weight="1/sigma"), -1 / kept, rtol=1e-12)
    values = jnp.asarray(points.values)
    slope = jax.grad(lambda v: jnp.sum(fd.misfit(solution, points.copy(data=v + 1.0)) ** 2))(values)
    np.testing.assert_allclose(np.delete(slope, 3), 2.0, rtol=1e-12)
    assert slope[3] == 0


WRONG = [
    (lambda o: o.assign_coords(x=o.x + 2), {}, "lie outside axis `x`"),
    (
        lambda o: o.assign_coords(t=("p", np.datetime64("2016-07-01", "ns") + np.arange(30))),
        {},
        "axis `t`, where the solution has 2016-06-01 to 2016-06-01T04:00; the first at 2016-07-01. Leave",
    ),
    (lambda o: o.drop_vars("x"), {}, "no coordinate `x`"),
    (
        lambda o: o.assign_coords(x=("p", np.arange(30).astype("timedelta64[s]"))),
        {},
        r"`x` is numbers, got dtype timedelta64\[s\]. Divide it by the unit of the axis",
    ),
    (lambda o: o * np.nan, {}, "no observations"),
    (lambda o: o + np.inf, {}, "29 observations are infinite"),
    (
        lambda o: o.fillna(-999.0).assign_attrs(_FillValue=-999.0),
        {},
        "1 observations are -999.0, which their attribute `_FillValue` says is missing. Mark them as nan",
    ),
    (lambda o: o.fillna(-9.0).assign_attrs(missing_value=[-9.0, -99.0]), {}, "attribute `missing_value`"),
    (lambda o: xr.Dataset(dict(v=o)), {}, "hold `v`, and the fields are `u`"),
    (lambda o: o.expand_dims("q"), {}, "along their dimension `q`"),
    (lambda o: o.values, {}, "xarray.DataArray or Dataset"),
    (lambda o: o, dict(weight="1/sigma"), "attribute `sigma`"),
    (lambda o: o, dict(weight=-1.0), "not negative"),
    (lambda o: o, dict(weight=np.ones(3)), "the shape \\(3,\\)"),
]


@pytest.mark.parametrize(("change", "options", "message"), WRONG, ids=[case[2][:14] for case in WRONG])
def test_wrong_observations_are_told(solution, points, change, options, message):
    with pytest.raises(fd.DeclarationError, match=message):
        fd.misfit(solution, change(points), **options)


def test_observations_of_receivers_say_where_they_lie():
    v = fd.Field("v", fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis(0.0, 1.0, num=11)))
    v[...] = fd.rate(lambda v: -v[...])
    v[0] = lambda x: x
    solution = fd.solve(v, save=fd.receivers(dict(x=np.array([0.2, 0.5, 0.8])), every=5))
    turned = solution.to_xarray().v.isel(receiver=[2, 1, 0])
    np.testing.assert_allclose(fd.misfit(solution, turned), 0.0, atol=1e-12)
    with pytest.raises(fd.DeclarationError, match=r"receiver 0 lie at x=0.8, and that receiver at x=0.2. Number them"):
        fd.misfit(solution, turned.drop_vars("receiver"))
    some = turned.drop_vars(["receiver", "x"]).isel(receiver=[0, 1])
    with pytest.raises(fd.DeclarationError, match=r"of 2 receivers, and nothing says which of the 3 these are"):
        fd.misfit(solution, some)
    assert not np.any(fd.misfit(solution, some.assign_coords(receiver=[2, 1])))


def ramp(periodic=False):
    """10 x at all times, or |x − ½| round a ring."""
    axis = fd.Axis(0.0, 1.0, num=10 if periodic else 11, periodic=periodic)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=axis))
    u[...], u[0] = (lambda u: u["t-1"]), lambda x: jnp.abs(x - 0.5) if periodic else 10 * x
    return u


def at_points(x, values=0.0):
    times = np.linspace(0.1, 0.9, len(x))
    return xr.DataArray(np.full(len(x), values), dict(t=("p", times), x=("p", x)), ("p",), name="u")


@pytest.mark.parametrize(
    "save",
    [
        fd.every(2).sel(x=slice(0.2, 0.9)),
        fd.every(2).isel(x=slice(None, None, 2)),
        fd.every(2).isel(x=slice(1, None)).isel(x=slice(1, -1, 2)),
    ],
)
def test_observations_are_placed_among_the_points_that_were_saved(save):
    np.testing.assert_allclose(fd.misfit(fd.solve(ramp(), save=save), at_points([0.25, 0.55, 0.75])), [2.5, 5.5, 7.5])


def test_one_point_and_a_mean_along_an_axis():
    seen, times = at_points([0.5, 0.5, 0.5]), fd.every(2)
    for save in (times.sel(x=0.5), times.mean("x")):
        for one in (seen, seen.drop_vars("x")):
            np.testing.assert_allclose(fd.misfit(fd.solve(ramp(), save=save), one), [5, 5, 5], rtol=1e-12)
    with pytest.raises(fd.errors.DeclarationError, match="outside axis `x`"):
        fd.misfit(fd.solve(ramp(), save=times.sel(x=0.5)), at_points([0.4, 0.5]))
    with pytest.raises(fd.errors.DeclarationError, match="one value for all"):
        fd.misfit(fd.solve(ramp(), save=times.mean("x")), at_points([0.4, 0.5]))


def test_places_that_were_cut_away_are_outside():
    found = fd.solve(ramp(), save=fd.every(2).sel(x=slice(0.2, 0.9)))
    with pytest.raises(fd.errors.DeclarationError, match=r"outside axis `x`.*0.2 to 0.9"):
        fd.misfit(found, at_points([0.1, 0.5]))
    round_a_ring = fd.solve(ramp(True), save=fd.every(2).isel(x=slice(None, None, 2)))
    np.testing.assert_allclose(fd.misfit(round_a_ring, at_points([0.9, 1.1])), [0.4, 0.4], atol=1e-12)
    part = fd.solve(ramp(True), save=fd.every(2).isel(x=slice(2, 7)))
    one = fd.solve(ramp(True), save=fd.every(2).sel(x=0.5))
    for found in (part, one):
        with pytest.raises(fd.errors.DeclarationError, match="outside axis `x`"):
            fd.misfit(found, at_points([0.9, 0.5]))


def test_holes_among_the_points_that_were_saved():
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis(0.0, 1.0, num=21)))
    u[...] = lambda u: u["t-1"]
    u[0] = lambda x: 10 * x
    u[fd.where(lambda x: (x > 0.52) & (x < 0.78))] = fd.boundary.Neumann(0.0)
    found = fd.solve(u, save=fd.every(2).isel(x=slice(4, None)))
    np.testing.assert_allclose(fd.misfit(found, at_points([0.25, 0.45, 0.9])), [2.5, 4.5, 9.0])
    with pytest.raises(fd.errors.DeclarationError, match="lie in a hole"):
        fd.misfit(found, at_points([0.25, 0.6]))


@pytest.fixture(scope="module")
def staggered():
    """10 cells of a bar, and what crosses its faces; what is solved and its Dataset."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=11, units="s"), x=fd.Axis(0.0, 10.0, num=11, cells=True, units="m"))
    T, q = fd.Field("T", grid, units="K"), fd.Field("q", grid, at=dict(x="face"))
    T[...], T[0] = (lambda T: 0.9 * T["t-1"]), lambda x: x
    q[...], q[0] = (lambda q: q["t-1"]), lambda x: x
    solution = fd.solve([T, q])
    return solution, solution.to_xarray()


def test_sigma_is_in_units_of_its_own_or_in_those_of_the_values(staggered):
    saiunit = pytest.importorskip("saiunit")
    solution, dataset = staggered
    kelvin = dataset["T"].isel(t=[5], x=[2]) + 1
    kelvin, milli = kelvin.assign_attrs(units="K"), (kelvin * 1000).assign_attrs(units="mK")
    for observed in (
        milli.assign_coords(sigma=("x", [0.1], dict(units="K"))),
        milli.assign_coords(sigma=("x", [100.0])),
        milli.assign_attrs(sigma=100),
        milli.assign_attrs(sigma=0.1 * saiunit.kelvin),
        kelvin.assign_coords(sigma=("x", [100.0], dict(units="mK"))),
        kelvin.drop_attrs(deep=False).assign_coords(sigma=("x", [100.0], dict(units="mK"))),
    ):
        np.testing.assert_allclose(fd.misfit(solution, observed, weight="1/sigma"), -10.0, rtol=1e-12)
    with pytest.raises(fd.DeclarationError, match='`sigma` of the observations is in "m", and `T` is in "K"'):
        fd.misfit(solution, kelvin.assign_coords(sigma=("x", [0.1], dict(units="m"))), weight="1/sigma")
    for attach in (lambda v: kelvin.assign_attrs(sigma=v), lambda v: kelvin.assign_coords(sigma=("x", v[None]))):
        slope = jax.grad(lambda v, attach=attach: fd.misfit(solution, attach(v), weight="1/sigma")[0])(0.1)
        np.testing.assert_allclose(slope, 100.0, rtol=1e-12)
    for sigma, got in (("0.1", "got '0.1'"), (1j, "got 1j"), (-0.1, "is positive, got -0.1")):
        with pytest.raises(fd.DeclarationError, match=got):
            fd.misfit(solution, kelvin.assign_attrs(sigma=sigma), weight="1/sigma")
    for weight, got in ((object(), "got <object"), (1j, "got 1j"), (3 * saiunit.kelvin, "a quantity, 3 K")):
        with pytest.raises(fd.DeclarationError, match=got):
            fd.misfit(solution, kelvin, weight=weight)


def test_coordinates_in_other_units_are_converted_or_refused(staggered):
    pytest.importorskip("saiunit")
    solution, dataset = staggered
    seen = dataset["T"].interp(t=("p", [0.5, 0.25]), x=("p", [5.0, 2.0]))
    given = dict(x=("p", [500.0, 200.0], dict(units="cm")), t=("p", np.array([0.5, 0.25]) / 60, dict(units="minutes")))
    np.testing.assert_allclose(fd.misfit(solution, seen.assign_coords(given)), 0.0, atol=1e-12)
    for units, reason in (("K", "they measure different things"), ("perch", 'saiunit does not know "perch"')):
        with pytest.raises(
            fd.DeclarationError, match=f'`x` is in "{units}", and axis `x` is in "m": {reason}.*x.attrs'
        ):
            fd.misfit(solution, seen.assign_coords(x=("p", [5.0, 2.0], dict(units=units))))


def test_the_coordinate_of_a_dimension_goes_before_a_scalar_of_another_place(staggered):
    solution, dataset = staggered
    for cut in (dict(x=2), dict(x_face=4), dict(x=2, x_face=4), dict(x=3, t=[1, 2])):
        np.testing.assert_allclose(fd.misfit(solution, dataset[["T", "q"]].isel(cut)), 0.0, atol=1e-12)


def test_numbers_that_count_from_another_date_are_to_be_decoded(solution, points):
    counted = points.assign_coords(t=("p", points.t.values, dict(units="hours since 2016-06-01")))
    with pytest.raises(fd.DeclarationError, match="decode_cf"):
        fd.misfit(solution, counted)


def test_what_stands_beside_missing_values_is_not_looked_at_under_jit():
    """Gradients by the solution and by the values, of which one is missing and its standard deviation with it."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=5), x=fd.Axis(0.0, 1.0, num=9)))
    u[...] = fd.rate(lambda u, k: k * fd.schemes.laplacian(u))
    u[0] = lambda x: jnp.sin(3 * x)
    u[dict(x=[0, -1])] = 0.0

    def loss(k, data, sigma):
        where = dict(t=("p", [0.02, 0.05, 0.1]), x=("p", [0.3, 0.5, 0.7]), sigma=("p", sigma))
        observed = xr.DataArray(data, where, ("p",), name="u")
        return (fd.misfit(fd.solve(u, k=k), observed, weight="1/sigma") ** 2).sum()

    data, sigma = np.array([0.1, np.nan, 0.3]), np.array([0.1, np.nan, 0.1])
    value, slope = jax.value_and_grad(loss)(0.2, data, sigma)
    traced, slopes = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(0.2, data, sigma)
    np.testing.assert_allclose([traced, slopes[0]], [value, slope], rtol=1e-12)
    by_data = np.asarray(slopes[1])
    assert np.isfinite(by_data).all() and by_data[1] == 0 and by_data[[0, 2]].all()


def test_staggered_solutions_are_observations_of_themselves() -> None:
    """As xarray they hold a variable that describes the grid, which is no field."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis(0.0, 2.0, num=9), y=fd.Axis(0.0, 1.0, num=5))
    v = fd.Field("v", grid, at=dict(x="face"))
    v[...] = fd.rate(lambda v: 5.0 + 0 * v[...])
    v[0] = lambda x, y: 2 * x - 3 * y
    solution = fd.solve(v, stepper=fd.schemes.Euler())
    seen = solution.to_xarray()
    assert "grid_topology" in seen
    assert float(jnp.max(jnp.abs(fd.misfit(solution, seen)))) < 1e-12
    with pytest.raises(fd.DeclarationError, match=r"hold `w`, .* what is no field: observations\[\['v'\]\]"):
        fd.misfit(solution, seen.assign(w=seen.v))
