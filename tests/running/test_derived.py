"""What is kept of a saved level: cuts, means, integrals, extremes, averages; with holes, staggered, and in chunks."""

import jax
import numpy as np
import pytest

import fdsolve as fd


def declare(hole=False):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=41), x=fd.Axis(0, 1, num=9), y=fd.Axis(0, 2, num=6, cells=True))
    u = fd.Field("u", grid)
    v = fd.Field("v", grid, at=dict(x="face"))
    u[...] = lambda u, k, dt: u["t-1"] * (1 - k * dt)
    v[...] = lambda v, dt: v["t-1"] + dt
    u[0] = lambda x, y: 1.0 + x - y**2
    v[0] = lambda x, y: x * y
    if hole:
        u[dict(x=slice(3, 5), y=slice(1, 3))] = fd.boundary.Neumann(0.0)
    return u, v


@pytest.fixture(scope="module")
def whole():
    solution = fd.solve(declare(), k=0.7)
    return np.asarray(solution["u"]), np.asarray(solution["v"])


GRID = declare()[0].grid
V = GRID.volumes()
X, Y = GRID.lengths("x")[:, None], GRID.lengths("y")
FACES = GRID.lengths("x", True)[:, None]

CASES = {
    "isel": (fd.every(4).isel(x=slice(None, None, 2), y=0), lambda u: u[::4, ::2, 0], lambda v: v[::4, ::2, 0]),
    "sel": (fd.every(10).sel(y=slice(0.4, 1.2)), lambda u: u[::10, :, 1:4], lambda v: v[::10, :, 1:4]),
    "mean": (fd.every(5).mean(), lambda u: (u[::5] * V).sum((1, 2)) / V.sum(), None),
    "integral": (fd.every(5).integral("x"), lambda u: (u[::5] * X).sum(1), lambda v: (v[::5] * FACES).sum(1)),
    "two": (fd.every(5).mean("y").integral("x"), lambda u: (u[::5] * V).sum((1, 2)) / 2, None),
    "max": (fd.every(5).max("y").isel(x=2), lambda u: u[::5].max(2)[:, 2], lambda v: v[::5].max(2)[:, 2]),
    "min": (fd.every(5).min(), lambda u: u[::5].min((1, 2)), lambda v: v[::5].min((1, 2))),
    "averaged": (
        fd.every(8).averaged().isel(y=1),
        lambda u: np.stack([u[0], *(u[k - 7 : k + 1].mean(0) for k in (8, 16, 24, 32, 40))])[:, :, 1],
        None,
    ),
    "last": (fd.final().mean("x"), lambda u: (u[-1:] * X).sum(1), None),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_kept_is_what_could_be_taken_afterwards(case, whole):
    save, of_u, of_v = CASES[case]
    solution = fd.solve(declare(), k=0.7, save=save)
    np.testing.assert_allclose(solution["u"], of_u(whole[0]), rtol=1e-13, atol=1e-15)
    if of_v is not None:
        np.testing.assert_allclose(solution["v"], of_v(whole[1]), rtol=1e-13, atol=1e-15)
    chunked = fd.solve(declare(), k=0.7, save=save, monitors=[fd.monitors.Nan(every=7)])
    np.testing.assert_allclose(solution["u"], chunked["u"], rtol=1e-15)
    np.testing.assert_array_equal(solution.final["u"], whole[0][-1])


def test_coordinates_and_methods_stand_with_what_is_left():
    found = fd.solve(declare(), k=0.7, save=fd.every(4).isel(y=2).mean("x").only("v")).to_xarray()
    assert found.v.dims == ("t",) and "u" not in found and found.v.attrs["cell_methods"] == "x_face: mean"
    assert float(found.y) == pytest.approx(GRID.y.points[2])
    np.testing.assert_allclose((*found.x_face_bnds.values, float(found.x_face)), (0.0, 1.0, 0.5))
    cut = fd.solve(declare(), k=0.7, save=fd.every(4).sel(x=slice(0.25, 0.75)).only("u")).to_xarray()
    np.testing.assert_allclose(cut.x, GRID.x.points[2:7])


def test_holes_are_left_out_of_means_and_are_nan_in_cuts(tmp_path):
    u = np.asarray(fd.solve(declare(True), k=0.7)["u"])
    mean = fd.solve(declare(True), k=0.7, save=fd.every(5).mean())
    np.testing.assert_allclose(mean["u"], np.nansum(u[::5] * V, (1, 2)) / V[~np.isnan(u[0])].sum(), rtol=1e-13)
    cut = fd.solve(declare(True), k=0.7, save=fd.stream(tmp_path / "cut.zarr", fd.every(5).isel(y=1)))
    np.testing.assert_array_equal(cut["u"], u[::5, :, 1])


def test_holes_whose_shape_is_a_parameter_are_left_out_of_what_is_taken():
    def run(save=None, **options):
        u, _ = declare()
        u[fd.where(lambda x, y, r: x + 0.1 * y < r)] = fd.boundary.Neumann(0.0)
        return fd.solve(u, k=0.7, r=0.3, save=save, **options)

    u = np.asarray(run(fd.every(20))["u"])
    outside = ~np.isnan(u[0])
    assert not outside[0].any() and (~outside).any(1).sum() > 1 and outside.any(0).all()
    wanted = (np.where(outside, u, 0.0) * X).sum(1) / np.where(outside, X, 0.0).sum(0)
    np.testing.assert_allclose(run(fd.every(20).mean("x"))["u"], wanted, rtol=1e-13)
    most = np.asarray(run(fd.every(20).max("y"), monitors=[fd.monitors.Nan(every=20)])["u"])
    np.testing.assert_array_equal(most, np.where(outside.any(1), np.where(outside, u, -9.0).max(2), np.nan))


def test_extremes_and_means_of_whole_numbers():
    grid = fd.Grid(x=fd.Axis(0, 1, num=3), y=fd.Axis(0, 1, num=4))
    n = fd.Field("n", grid, dtype=int)
    n[...] = np.arange(12).reshape(3, 4) - 20
    n[0, 0] = fd.boundary.Neumann(0)
    most = fd.solve(n, save=fd.final().max())["n"]
    assert int(most) == -9 and most.dtype == int and most.shape == ()
    mean = fd.solve(n, save=fd.final().mean("y"))["n"]
    np.testing.assert_allclose(mean[2], (-12 / 2 - 11 - 10 - 9 / 2) / 3)


def test_gradients_flow_through_what_is_kept():
    def last(k):
        return fd.solve(declare(), k=k, save=fd.every(20).mean("x").averaged())["u"][-1].sum()

    step = 1e-6
    expected = (last(0.7 + step) - last(0.7 - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(last)(0.7), expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fd.every(2).mean("z"), "has the axes x, y"),
        (lambda: fd.every(2).mean("x").isel(x=0), "has the axes y"),
        (lambda: fd.every(2).isel(x=9), "outside the 9 points"),
        (lambda: fd.every(2).isel(x=slice(5, 2)), "keeps no point"),
        (lambda: fd.every(2).isel(x=slice(None, None, -1)), "goes by steps of -1; take 1 or more"),
        (lambda: fd.every(2).sel(y=0.4), "0.4"),
        (lambda: fd.every(2).only("w"), "no such field"),
        (lambda: fd.every(2).mean(3), "axes by name"),
        (lambda: fd.receivers(dict(x=0.5, y=0.5)).mean(), "keeps what it is"),
        (lambda: fd.at([0.5, 0.51]).averaged(), "means over whole levels: give times of levels"),
    ],
)
def test_what_cannot_be_kept_is_refused(make, message):
    with pytest.raises(fd.DeclarationError, match=message):
        fd.solve(declare(), k=0.7, save=make())


def test_complex_numbers_have_no_largest():
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=3), x=fd.Axis(0.0, 1.0, num=8, periodic=True)), dtype=complex)
    u[...] = fd.rate(lambda u: 1j * u)
    u[0] = 1.0
    with pytest.raises(fd.DeclarationError, match=r"save=….max: `u` is complex"):
        fd.solve(u, save=fd.every(1).max("x"))
    assert fd.solve(u, save=fd.every(1).mean("x"))["u"].shape == (3,)
