"""Receivers: interpolated records against the full history, their accuracy, gradients, and the adjoint of a source."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fdsolve as fd

NUM = 13


def problem(num_t=NUM, **fields):
    grid = fd.Grid(
        t=fd.Time(0.0, 0.1 * (num_t - 1), num=num_t, units="s"),
        x=fd.Axis(0.0, 1.0, 20, periodic=True, units="m"),
        y=fd.Axis(0.0, 2.0, 18, cells=True),
    )
    u = fd.Field("u", grid, units="K", **fields)
    u[...] = lambda u, c: 0.9 * u["t-1", "x-1"] + c
    u[0] = lambda x, y: jnp.sin(2 * jnp.pi * x) * jnp.cos(y)
    return u


FULL = np.asarray(fd.solve(problem(), c=0.01)["u"])
X, Y = np.arange(20) / 20, (np.arange(18) + 0.5) / 9


def bilinear(field, x, y):
    """The value between four points, or beside two that are next to a wall, written out."""
    i, j = int(np.floor(x * 20)), int(np.clip(np.floor(y * 9 - 0.5), 0, 16))
    a, b = x * 20 - i, y * 9 - 0.5 - j
    near, far = field[i % 20], field[(i + 1) % 20]
    return (1 - a) * ((1 - b) * near[j] + b * near[j + 1]) + a * ((1 - b) * far[j] + b * far[j + 1])


@given(
    st.lists(st.tuples(st.floats(0.0, 0.999), st.floats(0.0, 2.0)), min_size=1, max_size=3),
    st.integers(1, 15),
    st.sampled_from([None, fd.final(), fd.every(5), fd.at([0.05, 0.7])]),
)
def test_linear_records_are_those_of_the_history(places, every, beside):
    chosen = fd.receivers([fd.point(x=x, y=y) for x, y in places], every=every)
    solution = fd.solve(problem(), c=0.01, save=chosen if beside is None else [beside, chosen])
    wanted = [[bilinear(level, x, y) for x, y in places] for level in FULL[::every]]
    np.testing.assert_allclose(solution.receivers["u"], wanted, atol=1e-12)
    np.testing.assert_allclose(solution.receivers.times, 0.1 * np.arange(NUM)[::every])
    np.testing.assert_allclose(solution.final["u"], FULL[-1], rtol=1e-13)
    if beside is None:
        assert solution["u"] is solution.receivers["u"]
    else:
        np.testing.assert_allclose(solution["u"], fd.solve(problem(), c=0.01, save=beside)["u"], rtol=1e-13)


def test_places_on_points_are_exact_for_both_interpolations():
    places = [fd.point(x=0.35, y=Y[7], interpolation=kind) for kind in ("linear", "sinc")]
    found = fd.solve(problem(), c=0.01, save=fd.receivers(places))["u"]
    np.testing.assert_allclose(found, FULL[:, 7, 7][:, None].repeat(2, axis=1), atol=1e-13)


def error_of(interpolation, wavelength):
    """The largest error at 40 places, for a wave of so many points a length along each axis."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=2), x=fd.Axis(0.0, 60.0, 61), y=fd.Axis(0.0, 60.0, 60, periodic=True))
    wave = lambda x, y: jnp.sin(2 * jnp.pi * x / wavelength + 0.3) * jnp.cos(2 * jnp.pi * y / wavelength)  # noqa: E731
    u = fd.Field("u", grid)
    u[...] = wave
    places = np.random.default_rng(0).uniform(5.0, 55.0, (2, 40))
    chosen = fd.receivers(dict(x=places[0], y=places[1]), interpolation=interpolation)
    found = fd.solve(u, save=chosen)["u"][0]
    return float(np.abs(np.asarray(found) - np.asarray(wave(*places))).max())


@pytest.mark.parametrize("wavelength", [5.0, 6.0, 7.5])
def test_sinc_beats_linear_by_two_orders_on_band_limited_fields(wavelength):
    linear, sinc = error_of("linear", wavelength), error_of("sinc", wavelength)
    assert sinc < 2e-3
    assert sinc < linear / 100


def test_linear_is_of_second_order():
    """Half-way between four points the error is h²/8 (|u_xx| + |u_yy|), and nowhere more."""
    for wavelength in (20.0, 40.0):
        bound = (2 * np.pi / wavelength) ** 2 / 4
        assert 0.4 * bound < error_of("linear", wavelength) <= bound


@pytest.mark.parametrize("interpolation", ["linear", "sinc"])
def test_records_are_differentiable_in_positions_and_parameters(interpolation):
    def misfit(x, y, c):
        chosen = fd.receivers(dict(x=x, y=y), every=4, interpolation=interpolation)
        return (fd.solve(problem(), c=c, save=chosen)["u"] ** 2).sum()

    at = (jnp.asarray([0.313, 0.97]), jnp.asarray(0.83), jnp.asarray(0.02))
    slopes = jax.grad(misfit, argnums=(0, 1, 2))(*at)
    for k, slope in enumerate(slopes):
        for index in np.ndindex(np.shape(slope)):
            step = np.zeros(np.shape(slope))
            step[index] = 1e-6
            ends = [misfit(*(a + sign * step if k == n else a for n, a in enumerate(at))) for sign in (1, -1)]
            assert float(np.asarray(slope)[index]) == pytest.approx(float(ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("interpolation", ["linear", "sinc"])
@pytest.mark.parametrize("place", [dict(x=0.313, y=0.97), dict(x=0.99, y=1.2)])
def test_a_receiver_is_the_adjoint_of_a_source(interpolation, place):
    """⟨R u, d⟩ = ⟨u, Rᵀ d⟩: the weights that record are those that a source acts with."""
    grid = problem().grid
    rng = np.random.default_rng(1)
    values, datum = rng.normal(size=(20, 18)), 1.7
    u = fd.Field("u", grid)
    u[...] = values
    recorded = fd.solve(u, save=fd.receivers([fd.point(**place, interpolation=interpolation)]))["u"][0, 0]
    v = fd.Field("v", grid)
    v[...] = 0.0
    v[fd.point(**place, interpolation=interpolation)] += datum
    spread = np.asarray(fd.solve(v, save=fd.final())["v"][0])
    assert float(recorded) * datum == pytest.approx(float((values * spread).sum()), rel=1e-13)


@pytest.mark.parametrize("interpolation", ["linear", "sinc"])
def test_a_source_at_a_traced_place_is_that_at_a_known_one(interpolation):
    def spread(x):
        v = fd.Field("v", problem().grid)
        v[...] = 0.0
        v[fd.point(x=x, y=0.77, interpolation=interpolation)] += 2.0
        return fd.solve(v, save=fd.final())["v"][0]

    for x in (0.017, 0.5, 0.98):
        np.testing.assert_allclose(jax.jit(spread)(x), spread(x), atol=1e-14)
    slope = jax.jacfwd(spread)(0.43)
    np.testing.assert_allclose(slope, (spread(0.43 + 1e-6) - spread(0.43 - 1e-6)) / 2e-6, atol=1e-6)


def test_weights_of_known_places_are_no_part_of_a_program():
    def run(strength):
        u = problem(num_t=3)
        for k, place in enumerate((0.2, 0.43, 0.77)):
            u[fd.point(x=place, y=0.9, interpolation="sinc")] += strength[k]
        return fd.solve(u, c=0.0, save=fd.final(), kernel="slices").final["u"]

    strength = jnp.asarray([1.0, -2.0, 0.5])
    np.testing.assert_allclose(jax.jit(run)(strength), run(strength), rtol=1e-12, atol=1e-14)
    text = jax.jit(run).lower(strength).as_text()
    assert "scatter" not in text and text.count("stablehlo.divide") == 0


def test_rates_segments_and_irregular_saves():
    """Every path of the march records: unrolled arrays, a change of rules on the way, flagged saves."""
    grid = fd.Grid(t=fd.Time(0.0, 0.6, num=61), x=fd.Axis(0.0, 1.0, 2**14, periodic=True))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: -u)
    u[0] = lambda x: 1.0 + x * (1 - x)
    u[20:25] = lambda u: 0.5 * u["t-1"]
    places, start = dict(x=np.array([0.25, 0.75])), 1.1875
    times = np.cumsum(0.01 + 0.003 * np.arange(12))
    solution = fd.solve(u, save=[fd.at(times), fd.receivers(places, every=3)])
    steps = np.arange(61)
    level = np.exp(-0.01 * (steps - np.clip(steps - 19, 0, 5))) * 0.5 ** np.clip(steps - 19, 0, 5)
    np.testing.assert_allclose(solution.receivers["u"], start * level[::3, None].repeat(2, axis=1), rtol=1e-9)


def test_fields_of_other_places_and_types():
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, 10, cells=True))
    p, v = fd.Field("p", grid, dtype=complex), fd.Field("v", grid, at=dict(x="face"))
    p[...], v[...] = (lambda x, t: x + 1j * t), (lambda x: 2 * x)
    found = fd.solve((p, v), save=fd.receivers([fd.point(x=0.31), fd.point(x=0.93)]))
    np.testing.assert_allclose(found["p"], np.array([0.31, 0.93]) + 1j * np.array([0.0, 0.5, 1.0])[:, None], atol=1e-14)
    np.testing.assert_allclose(found["v"], np.full((3, 2), [0.62, 1.86]), atol=1e-14)


def test_a_stretched_axis_and_mixed_interpolations():
    points = np.array([0.0, 0.1, 0.3, 0.7, 1.0])
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=2), z=fd.Axis.from_points(points), x=fd.Axis(0.0, 1.0, 21))
    u = fd.Field("u", grid)
    u[...] = lambda x, z: 3 * z + x
    found = fd.solve(u, save=fd.receivers([fd.point(z=0.4, x=0.55), fd.point(z=0.98, x=0.5)]))["u"]
    np.testing.assert_allclose(found, [[1.75, 3.44]] * 2, atol=1e-14)
    with pytest.raises(fd.DeclarationError, match="wants an even spacing, and axis `z` is stretched"):
        fd.solve(u, save=fd.receivers([fd.point(z=0.4, x=0.5, interpolation="sinc")]))


def test_to_xarray_and_prints():
    solution = fd.solve(problem(), c=0.01, save=fd.receivers(dict(x=[0.1, 0.2, 0.3], y=0.5), every=6))
    data = solution.to_xarray()
    assert data.u.dims == ("t", "receiver")
    assert data.u.attrs == {"units": "K", "long_name": "u"}
    np.testing.assert_allclose(data.x, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(data.y, 0.5)
    assert data.x.attrs["units"] == "m"
    assert data.t.attrs["units"] == "s"
    assert data.attrs["c"] == 0.01
    assert repr(solution) == "Solution(u (3, 3), t = 0 … 1.2)"
    assert repr(solution.receivers) == "Records(u at 3 receivers, t = 0 … 1.2)"
    assert "Records 3 receivers at 3 levels. Saves 0 of 13 levels, 0 B" in str(solution.plan)


def test_records_do_not_grow_with_the_grid():
    plan = fd.plan(problem(), c=0.01, save=fd.receivers([fd.point(x=0.5, y=0.5)]))
    assert plan.bytes_saved == 0
    assert plan.structure.saved_levels == ()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_traced_places_outside_give_nan(dtype):
    """A known place outside is refused; a traced one must not be a silent zero, with no gradient to come back by."""

    def wave():
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=11), x=fd.Axis(0.0, 1.0, num=17)), dtype=dtype)
        u[...] = lambda u: 0.5 * u["t-1"] + 0.2 * (u["t-1", "x-1"] + u["t-1", "x+1"])
        u[0] = lambda x: jnp.sin(3 * x)
        u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
        return u

    def record(x, how):
        place = fd.receivers(dict(x=jnp.stack([x])), interpolation=how)
        return fd.solve(wave(), save=place)["u"][-1, 0]

    def loss(x, how):
        u = wave()
        u[fd.point(x=x, interpolation=how)] += lambda t: 1.0 + t
        return jnp.sum(fd.solve(u, save=fd.final())["u"])

    cases = {
        "linear": ((0.0, 0.31, 0.98, 1.0), (-0.01, 1.02, 3.0)),
        "sinc": ((0.0, 0.5, 0.5 + 1 / 48, 1.0), (-0.01, 0.02, 0.99, 1.02)),
    }
    for how, (within, outside) in cases.items():
        for function in (record, loss):
            run = jax.jit(lambda x, function=function, how=how: function(x, how))
            assert all(jnp.isfinite(run(jnp.asarray(x, dtype))) for x in within)
            assert all(jnp.isnan(run(jnp.asarray(x, dtype))) for x in outside)
