"""Inversions of functions whose answer is known in closed form; what is refused; what is told."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix
import pytest
import xarray as xr
from jax.core import Tracer

import fdsolve as fd
from fdsolve.inverse._unjitted import unjitted

X = np.linspace(0.0, 1.0, 12)
TRUE = dict(size=2e-7, slope=np.array([1.0, -3.0]))
START = dict(size=1e-7, slope=np.array([0.5, -1.0]))


def model(p):
    return 1e7 * p["size"] * jnp.exp(p["slope"][0] * X) + p["slope"][1] * X


DATA = model(TRUE) + 1e-3 * np.random.default_rng(0).standard_normal(X.size)


def residuals(p):
    return dict(a=model(p) - DATA)


METHODS = [None, "bfgs", "l-bfgs", optimistix.GaussNewton(rtol=1e-9, atol=1e-9)]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: str(method)[:12])
def test_each_method_finds_the_least_loss(method):
    found = fd.invert(residuals, START, method=method, bounds=dict(size=(0, None)))
    assert found.converged, found
    np.testing.assert_allclose(found.parameters["size"], 2e-7, rtol=1e-3)
    np.testing.assert_allclose(found.parameters["slope"], TRUE["slope"], rtol=5e-3)
    assert found.loss < 1e-5 and found.history.loss[0] > 1 and found.history.loss.min() == found.loss


@pytest.mark.parametrize(
    "method",
    [
        optimistix.NelderMead(1e-3, 1e-3),
        optimistix.OptaxMinimiser(optax.sgd(0.1), 1e-3, 1e-3),
        optimistix.BFGS(1e-3, 1e-3),
    ],
)
def test_the_history_begins_at_the_start(method):
    found = fd.invert(lambda p: jnp.sum((p["a"] - jnp.arange(3.0)) ** 2), dict(a=np.ones(3)), method=method)
    np.testing.assert_allclose(found.history.loss[0], 2.0)
    np.testing.assert_allclose(found.history.gradient_norm[0], 8**0.5)
    assert found.history.loss[1] < 2.0


def test_the_default_is_said_and_covariance_is_that_of_linear_regression():
    matrix = np.stack([np.ones(12), X, X**2], 1)
    values = matrix @ [1.0, 2.0, 3.0] + 0.1 * np.random.default_rng(1).standard_normal(12)
    start = xr.DataArray(np.ones(3), dict(power=[0, 1, 2]), name="c")
    found = fd.invert(lambda p: matrix @ p["c"] - values, dict(c=start))
    assert repr(found).startswith("Inversion by Levenberg–Marquardt: converged")
    best = np.linalg.solve(matrix.T @ matrix, matrix.T @ values)
    np.testing.assert_allclose(found.to_xarray().c.sel(power=[0, 1, 2]), best, rtol=1e-7)
    rest = values - matrix @ best
    expected = np.linalg.inv(matrix.T @ matrix)
    np.testing.assert_allclose(found.covariance(), expected * (rest @ rest) / 9, rtol=1e-6)
    np.testing.assert_allclose(found.covariance(noise=0.2), 0.04 * expected, rtol=1e-6)
    np.testing.assert_allclose(found.standard_deviation(1.0).c ** 2, np.diagonal(expected), rtol=1e-6)
    np.testing.assert_allclose(found.resolution(), np.eye(3), atol=1e-8)
    assert list(found.covariance().parameter.values) == ["c[0]", "c[1]", "c[2]"]
    assert found.plot().get_yscale() == "log"


def test_covariance_and_resolution_with_a_prior_through_a_transform():
    """r = log p − 1, prior ½ · 4 (p − e)²: by p, J = 1/e and L = 2."""
    found = fd.invert(
        lambda p: jnp.atleast_1d(jnp.log(p["p"])) - 1.0,
        dict(p=1.0),
        transform=dict(p=fd.inverse.Exponential()),
        regularise=fd.tikhonov(4.0, "p", order=0, prior=np.e),
    )
    data = np.exp(-2.0)
    np.testing.assert_allclose(found.parameters["p"], np.e, rtol=1e-8)
    np.testing.assert_allclose(found.covariance(noise=1.0).values, [[1 / (data + 4)]], rtol=1e-6)
    np.testing.assert_allclose(found.resolution().values, [[data / (data + 4)]], rtol=1e-6)


def test_covariance_and_resolution_through_a_transform_that_mixes_entries():
    draw = np.random.default_rng(1)
    matrix, data = draw.standard_normal((9, 4)), draw.standard_normal(9)
    rising = fd.inverse.Transform(lambda z: jnp.cumsum(jnp.exp(z)), lambda p: jnp.log(jnp.diff(p, prepend=0.0)))
    start, prior = np.array([1.0, 2.0, 3.0, 4.0]), fd.tikhonov(0.5, "c", order=0)
    data = data + matrix @ start * 10  # far enough from where the transform ends
    found = fd.invert(
        lambda p: matrix @ p["c"] - data, dict(c=start), transform=dict(c=rising), regularise=prior, tolerance=1e-12
    )
    whole = matrix.T @ matrix + 0.5 * np.eye(4)
    np.testing.assert_allclose(found.parameters["c"], np.linalg.solve(whole, matrix.T @ data), rtol=1e-6)
    np.testing.assert_allclose(found.covariance(noise=1.0), np.linalg.inv(whole), rtol=1e-8)
    np.testing.assert_allclose(found.resolution(), np.linalg.solve(whole, matrix.T @ matrix), rtol=1e-8, atol=1e-10)
    roots = np.sqrt(np.diagonal(np.linalg.inv(whole)))
    np.testing.assert_allclose(found.standard_deviation(noise=1.0).c, roots, rtol=1e-8)


@pytest.mark.parametrize(
    ("transform", "values"),
    [
        (fd.inverse.Softplus(1.0, 1e-7), [1.0 + 1e-9, 1.0 + 1e-6]),
        (fd.inverse.Softplus(1.0, 2.0, above=False), [-50.0, 0.99]),
        (fd.inverse.Logistic(-1.0, 3.0), [-0.999, 2.9]),
        (fd.inverse.Exponential(), [1e-9, 1e9]),
    ],
)
def test_transforms_there_and_back(transform, values):
    values = jnp.array(values)
    free = transform.to_free(values)
    np.testing.assert_allclose(transform.to_parameter(free), values, rtol=1e-12)
    assert np.all(np.diff(np.sort(free)) > 0) and np.isfinite(free).all()


def test_subsets_come_once_a_round_and_callbacks_stop():
    seen = []
    target = jnp.array([1.0, 2.0, 3.0])
    found = fd.invert(
        lambda p, k: (p["m"] - target[k]) ** 2,
        dict(m=1.0),
        subsets=3,
        max_iterations=600,
        callback=lambda one: seen.append(one.iteration) or one.iteration == 500,
    )
    assert abs(float(found.parameters["m"]) - 2) < 0.1 and seen[-1] == 500
    assert found.reason == "the callback said so" and not found.converged and found.method == "Adam"
    np.testing.assert_allclose(found.loss, 2 / 3, atol=0.02)  # the mean over all three


def test_each_subset_may_depend_on_other_parameters():
    found = fd.invert(
        lambda p, k: jnp.where(k == 0, p["a"], p["b"])[None] - 2.0, dict(a=1.0, b=1.0), subsets=2, seed=np.int64(3)
    )
    np.testing.assert_allclose([found.parameters["a"], found.parameters["b"]], 2.0, rtol=1e-6)
    with pytest.raises(fd.DeclarationError, match="In no subset does the loss depend on `b`"):
        fd.invert(lambda p, k: p["a"] * k.astype(float) - 1.0, dict(a=1.0, b=1.0), subsets=2)


def test_regularisation_on_a_grid_is_the_integral():
    grid = fd.Grid(x=fd.Axis(0.0, 2.0, num=81), y=fd.Axis(0.0, 1.0, num=40, cells=True))
    x, y = np.meshgrid(grid.x.points, grid.y.points, indexing="ij")
    k = dict(k=jnp.asarray(x**2 + 3 * y))
    np.testing.assert_allclose(fd.tikhonov(2.0, order=1, grid=grid, axes="x")(k), 32 / 3, rtol=1e-3)
    np.testing.assert_allclose(fd.tikhonov(2.0, order=1, grid=grid, axes="y")(k), 9 * 2 * 39 / 40, rtol=1e-3)
    np.testing.assert_allclose(fd.tikhonov(2.0, order=2, grid=grid, axes="x")(k), 4 * (2 - 1 / 40), rtol=1e-3)
    np.testing.assert_allclose(fd.tikhonov(2.0, order=0, grid=grid, prior=x**2)(k), 6.0, rtol=1e-3)
    jump = jnp.asarray(np.where(x > 1, 3.0, 1.0))
    term = fd.total_variation(0.5, grid=grid, smoothing=1e-4)
    np.testing.assert_allclose(term(jump), 1.0, rtol=1e-3)


def test_total_variation_has_the_gradient_of_its_value():
    smooth = 0.3
    m = jnp.array([0.0, 0.4, 0.1, 0.9])
    term = fd.total_variation(0.7, smoothing=smooth)

    def value(m):
        slopes = jnp.concatenate([jnp.diff(m), jnp.zeros(1)])
        return 0.7 * jnp.sum(jnp.sqrt(slopes**2 + smooth**2))

    np.testing.assert_allclose(term(m), value(m), rtol=1e-13)
    np.testing.assert_allclose(jax.grad(term)(m), jax.grad(value)(m), rtol=1e-12)


@pytest.mark.parametrize("at", range(4))
def test_a_jump_counts_the_same_wherever_it_is(at):
    grid = fd.Grid(x=fd.Axis.from_points([0.0, 0.1, 0.4, 0.5, 1.0]), y=fd.Axis(0.0, 2.0, num=3))
    jump = jnp.asarray(np.broadcast_to(np.arange(5)[:, None] > at, (5, 3)).astype(float))
    np.testing.assert_allclose(fd.total_variation(0.5, grid=grid, smoothing=1e-6)(jump), 1.0, rtol=1e-5)


def test_axes_of_a_labelled_parameter_are_its_own():
    grid = fd.Grid(x=fd.Axis.from_points([0.0, 0.1, 0.4]), y=fd.Axis(0.0, 2.0, num=3))
    draw = np.random.default_rng(3)
    data, prior = draw.standard_normal((2, 3, 3))
    term = fd.tikhonov(0.3, "k", grid=grid, axes="x", prior=xr.DataArray(prior, dims=("x", "y")))
    plain = fd.invert(lambda p: p["k"] - data, dict(k=np.zeros((3, 3))), regularise=term)
    turned = xr.DataArray(np.zeros((3, 3)), dims=("y", "x"))
    found = fd.invert(lambda p: p["k"] - data, dict(k=turned), regularise=term)
    np.testing.assert_allclose(found.to_xarray().k.transpose("x", "y"), plain.parameters["k"], rtol=1e-9)
    alone = fd.invert(lambda k: k - data, turned.rename("Q"), regularise=fd.tikhonov(0.3, axes="y"), grid=grid)
    assert list(alone.to_xarray()) == ["Q"]


def test_a_labelled_parameter_reaches_the_solve_in_the_order_of_its_grid():
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=5), y=fd.Axis(0.0, 1.0, num=5)))
    u[...] = lambda k: 2.0 * k
    true = xr.DataArray(np.arange(25.0).reshape(5, 5), dims=("y", "x"))
    data = fd.solve(u, k=true)["u"]
    residuals = lambda p: fd.solve(u, k=p["k"])["u"] - data  # noqa: E731
    start = dict(k=xr.ones_like(true))
    for options in (dict(grid=u.grid), {}):
        found = fd.invert(residuals, start, **options)
        np.testing.assert_allclose(found.to_xarray().k.transpose("y", "x"), true, atol=1e-6)
        np.testing.assert_allclose(fd.solve(u, k=found.parameters["k"])["u"], data, atol=1e-6)
    solve = jax.jit(lambda k: fd.solve(u, k=k)["u"])
    solve(jnp.ones((5, 5)))  # another one is not planned again, and not seen
    with pytest.warns(fd.FdsolveWarning, match=r"`k` has the axes y, x, some of one size.*grid=u\.grid"):
        fd.invert(lambda p: solve(p["k"]) - data, start)
    with pytest.warns(fd.FdsolveWarning, match=r"`k` has the axes y, q, and the grid x, y;.*Rename `q` if"):
        fd.invert(residuals, dict(k=start["k"].rename(x="q")))
    again = fd.invert(residuals, fd.invert(residuals, dict(k=np.ones((5, 5))), max_iterations=1).to_xarray())
    np.testing.assert_allclose(again.parameters["k"], true.values.T, atol=1e-6)


@pytest.mark.parametrize("options", ["grid=", "regularise=", "a trial"])
def test_entries_in_another_order_than_the_grid_are_refused(options):
    u = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=5, units="m")))
    u[...] = lambda k: 2.0 * k
    x = u.grid.x.points
    true = xr.DataArray(1 + x, dict(x=x), ("x",))
    known = {"grid=": dict(grid=u.grid), "regularise=": dict(regularise=fd.tikhonov(1e-9, "k", grid=u.grid))}
    residuals = lambda p: fd.solve(u, k=p["k"])["u"] - 2 * true.values  # noqa: E731
    run = lambda k: fd.invert(residuals, dict(k=k), **known.get(options, {}))  # noqa: E731
    np.testing.assert_allclose(run(xr.ones_like(true)).to_xarray().k, true, rtol=1e-6)
    np.testing.assert_allclose(run(true.assign_coords(x=("x", 100 * x, dict(units="cm")))).parameters["k"], 1 + x)
    for turned in (true[::-1], true[[3, 1, 2, 0, 4]]):
        with pytest.raises(fd.DeclarationError, match=r"`k` lies along `x` in another order.*k\.sortby\('x'\)"):
            run(turned)
    if options != "a trial":  # where nothing turns, it is not looked for the grid
        with pytest.raises(fd.DeclarationError, match=r"`k` lies at other places along `x`.*k\.drop_vars\('x'\)"):
            run(true.assign_coords(x=x + 0.5))
    coarse = xr.DataArray([1.0, 2.0], dict(x=[1.0, 0.0]), ("x",))  # nodes of the loss's own, from which it makes more
    found = fd.invert(lambda p: fd.solve(u, k=jnp.interp(x, jnp.asarray([0.0, 1.0]), p["k"][::-1]))["u"] - 2 * (1 + x),
                      dict(k=coarse), **known.get(options, {}) if options != "regularise=" else {})  # fmt: skip
    np.testing.assert_allclose(found.to_xarray().k, [2.0, 1.0], rtol=1e-6)


def test_covariance_after_subsets_is_that_of_all():
    def some(p, k):
        return 100 * (jnp.exp(-p["s"] * jnp.asarray(X)[k + 3 * jnp.arange(3, dtype=jnp.int32)]) - 0.5)

    def every(p):
        return jnp.concatenate([some(p, k) for k in range(3)])

    found = fd.invert(some, dict(s=0.5), subsets=3, regularise=fd.tikhonov(2.0, order=0), max_iterations=9)
    expected = 1 / (jnp.sum(jax.jacfwd(every)(found.parameters)["s"] ** 2) + 3 * 2.0)
    np.testing.assert_allclose(found.covariance(noise=1.0), [[expected]], rtol=1e-10)
    drawn = fd.invert(lambda p, key: p["s"] - jnp.ones(2), dict(s=0.5), subsets=jax.random.key(0), max_iterations=2)
    with pytest.raises(fd.RunError, match="draws them without end"):
        drawn.covariance()


def test_parameters_of_less_precision_are_fitted_in_theirs():
    data = np.exp(-0.7 * np.arange(4, dtype=np.float32))
    found = fd.invert(lambda p: jnp.exp(-p["k"] * jnp.arange(4, dtype=jnp.float32)) - data, dict(k=jnp.float32(0.1)))
    assert found.converged and found.parameters["k"].dtype == np.float32
    np.testing.assert_allclose(found.parameters["k"], 0.7, rtol=1e-3)


def test_a_great_loss_at_the_start_ends_no_search_too_soon():
    """An image by total variation, from fewer sums than points: steps are many, and the first ones bring the most."""
    draw, grid = np.random.default_rng(4), fd.Grid(x=fd.Axis(0.0, 1.0, num=40))
    true = np.where(abs(grid.x.points - 0.5) < 0.2, 1.0, 0.0)
    sums = draw.standard_normal((25, 40))
    term = fd.total_variation(20.0, "k", grid=grid, smoothing=0.05)

    def misfit(p):
        return (sums @ (p["k"] - true)) / 1e-3

    found = fd.invert(misfit, dict(k=np.full(40, 0.3)), regularise=term, tolerance=1e-6)
    assert found.converged and abs(found.parameters["k"] - true).max() < 0.02


def test_undetermined_parameters_have_no_covariance():
    found = fd.invert(lambda p: p["a"] + p["b"] - jnp.ones(3), dict(a=0.1, b=0.2), method="bfgs")
    with pytest.raises(fd.FdsolveError, match="undetermined"):
        found.covariance(noise=1.0)


def test_regularisation_that_would_count_nothing_or_does_not_fit_is_refused():
    residuals = lambda p: p["a"] - 1.0  # noqa: E731
    for order, shape in ((1, ()), (2, (2,))):
        with pytest.raises(fd.DeclarationError, match=rf"order={order} wants more than {order} values.*Take order=0"):
            fd.invert(residuals, dict(a=np.full(shape, 0.5)), regularise=fd.tikhonov(1.0, "a", order=order))
    with pytest.raises(fd.DeclarationError, match=r"prior= has shape \(7,\), and the parameter \(4,\)"):
        fd.invert(residuals, dict(a=np.full(4, 0.5)), regularise=fd.tikhonov(1.0, "a", order=0, prior=np.zeros(7)))


def test_whole_numbers_of_numpy_count_and_losses_of_python_numbers_are_refused():
    square = lambda p, k=0: (p["a"] - 1.0) ** 2  # noqa: E731
    assert len(fd.invert(square, dict(a=0.5), max_iterations=np.int64(2)).losses) <= 3
    assert fd.invert(square, dict(a=0.5), subsets=np.int64(3), max_iterations=4).parameters["a"] > 0.5
    with pytest.raises(fd.DeclarationError, match="NumPy arrays or numbers"):
        fd.invert(lambda p: float(square(p)), dict(a=0.5))


@pytest.mark.parametrize("method", ["l-bfgs", "bfgs", "gauss-newton", "levenberg-marquardt"])
@pytest.mark.parametrize("start", [1.5, 25.0, 40.0])
def test_what_is_told_to_have_converged_has(method, start):
    """From where the loss is 1e20 times that at the best point, noise is all that is left of it in the end."""
    x = np.linspace(0, 1, 20)
    data = np.exp(x) + 0.01 * np.random.default_rng(0).normal(size=20)

    def residuals(p):
        return (p["a"] * jnp.exp(p["b"] * x) - data) / 0.01

    def flat(p):
        """Whether the gradient is next to nothing for residuals as large as these."""
        slope = jax.grad(lambda p: jnp.sum(residuals(p) ** 2) / 2)(p)
        return all(abs(float(one)) < 1e-4 * float(jnp.sum(residuals(p) ** 2)) for one in slope.values())

    found = fd.invert(residuals, dict(a=1.5, b=start), method=method)
    assert not found.converged or flat(found.parameters)
    if method == "l-bfgs" or start == 1.5:
        assert found.converged
        np.testing.assert_allclose(found.loss, 7.14637998, rtol=1e-6)


SHORT = {
    "halved": optax.sgd(optax.exponential_decay(1e-2, 1, 0.5)),
    "tiny": optax.sgd(1e-12),
    "adam": optax.adam(optax.exponential_decay(1e-2, 1, 0.8)),
}


@pytest.mark.parametrize("method", SHORT.values(), ids=SHORT)
def test_short_steps_are_not_taken_for_the_best_point(method):
    found = fd.invert(lambda p: (p["a"] - 3) ** 2 + 1, dict(a=1.0), method=method)
    assert not found.converged and "steps are too short while the gradient is" in found.reason
    assert found.gradient_norm > 3


def test_steps_that_begin_short_go_on():
    method = optax.sgd(optax.linear_schedule(0.0, 0.1, 100))
    found = fd.invert(lambda p: (p["a"] - 3) ** 2 + 1, dict(a=1.0), method=method)
    assert found.converged
    np.testing.assert_allclose(found.parameters["a"], 3.0, rtol=1e-4)


def test_a_loss_that_only_rounding_keeps_from_zero_has_converged():
    valley = lambda p: (1 - p["x"]) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2  # noqa: E731
    found = fd.invert(valley, dict(x=-1.2, y=1.0), method="bfgs")
    assert found.converged and found.loss < 1e-25


@pytest.mark.parametrize("method", ["l-bfgs", "bfgs"])
def test_data_without_noise_are_fitted_to_rounding(method):
    """Steps grow short there and the loss goes on falling by orders, until roundings of the variables are left."""
    draw = np.random.default_rng(0)
    matrix, true = draw.normal(size=(15, 3)), np.array([0.0, *draw.normal(size=2)])
    data = matrix @ true
    found = fd.invert(lambda p: matrix @ p["x"] - data, dict(x=np.full(3, 0.3)), method=method)
    assert found.converged, found.reason
    np.testing.assert_allclose(found.parameters["x"], true, atol=1e-9)


@pytest.mark.parametrize("method", ["l-bfgs", "gauss-newton", "levenberg-marquardt"])
def test_noise_is_reached_in_single_precision(method):
    x = np.linspace(0, 1, 40, dtype=np.float32)
    data = (3 * np.exp(-2 * x) + 1e-3 * np.random.default_rng(1).normal(size=40)).astype(np.float32)

    def residuals(p):
        return 1e3 * (p["a"] * jnp.exp(-p["b"] * x) - data)

    found = fd.invert(residuals, dict(a=np.float32(300.0), b=np.float32(0.5)), method=method)
    assert found.converged and found.loss < 1.001 * fd.invert(residuals, dict(a=np.float32(3), b=np.float32(2))).loss


@pytest.mark.parametrize("around", [jax.jit, jax.vmap])
def test_inside_a_transformation_is_told(around):
    def best(data):
        return fd.invert(lambda p: p["k"] - data, dict(k=1.0)).parameters["k"]

    with pytest.raises(fd.DeclarationError, match="runs outside jit, grad and vmap"):
        around(best)(jnp.ones((2, 2)))


def test_a_dataset_gives_parameters_and_a_result_starts_another_search():
    first = fd.invert(residuals, xr.Dataset(dict(size=START["size"], slope=("part", START["slope"]))), max_iterations=1)
    again = fd.invert(residuals, first.to_xarray()[["size", "slope"]])
    assert again.converged
    wanted = fd.invert(residuals, START).parameters["slope"]
    np.testing.assert_allclose(again.parameters["slope"], wanted, rtol=1e-5)


def test_an_uncertainty_at_a_bound_is_that_without_it():
    def residuals(p):
        return jnp.stack([p["a"] - 5.0, p["b"] - 0.3])

    for bounds in ((0, 1), (None, 1), (-1, 1)):
        found = fd.invert(residuals, dict(a=0.5, b=0.5), bounds=dict(a=bounds))
        np.testing.assert_allclose(found.covariance(noise=1.0), np.eye(2), atol=1e-4)


def test_residuals_whose_gradient_is_almost_infinite_are_a_start():
    found = fd.invert(lambda p: 1e130 * (p["a"] * jnp.asarray(X) - 1e-4), dict(a=1e3))
    assert np.isfinite(found.losses).all() and found.loss < 1e-6 * found.losses[0]


def test_a_prior_is_taken_where_it_lies():
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, num=4))
    start = xr.DataArray(np.zeros(4), dict(x=grid.x.points), ("x",))

    def found(places):
        prior = xr.DataArray([1.0, 2.0, 3.0, 4.0], dict(x=places), ("x",))
        term = fd.tikhonov(1.0, "m", order=0, grid=grid, prior=prior)
        return fd.invert(lambda p: p["m"] * 1e-6, dict(m=start), regularise=term).parameters["m"]

    np.testing.assert_allclose(found(grid.x.points), [1, 2, 3, 4], rtol=1e-6)
    np.testing.assert_allclose(found(grid.x.points[::-1]), [4, 3, 2, 1], rtol=1e-6)
    with pytest.raises(fd.DeclarationError, match="other places along `x` than the parameter"):
        found(grid.x.points + 100)


@pytest.mark.parametrize("method", ["levenberg-marquardt", "gauss-newton", "bfgs", "l-bfgs"])
@pytest.mark.parametrize("least", [1e-2, 1e-6, 1e-8, 1e-10])
def test_entries_of_sizes_far_apart_do_not_pass_for_converged(method, least):
    """Permeabilities of clay, silt and sand in one array, each known to the same relative accuracy."""
    true = np.array([least, 0.5, 1.0]) * 1e-11
    residuals = lambda p: (p["k"] - 2 * true) / true  # noqa: E731
    loss = lambda p: 0.5 * jnp.sum(residuals(p) ** 2)  # noqa: E731
    found = fd.invert(loss if "bfgs" in method else residuals, dict(k=true), method=method)
    assert not found.converged or found.loss < 1e-9
    assert found.converged or method != "gauss-newton"


def test_a_flat_place_beyond_the_best_point_is_no_convergence():
    """A step too far ends where the loss is flat and a little higher; what comes back was never stationary."""
    times = np.linspace(0, 2, 15)

    def wave(p):
        return p["a"] * jnp.sin(p["b"] * times + p["c"])

    seen, start = wave(dict(a=1.5, b=3.1, c=0.3)), dict(a=0.3, b=1.77, c=0.075)
    bounds = {name: (0, None) for name in start}
    found = fd.invert(lambda p: wave(p) - seen, start, method="gauss-newton", bounds=bounds)
    slope = jax.grad(lambda p: 0.5 * jnp.sum((wave(p) - seen) ** 2))(found.parameters)
    assert not found.converged or max(abs(float(one)) for one in slope.values()) < 1e-6


def test_points_refused_along_a_line_are_no_iterations():
    """A quasi-Newton step may be thousands of times too long, and be halved more often than patience has iterations."""
    rng, num = np.random.default_rng(11), 60
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.4, num=81), x=fd.Axis(0.0, 1.0, 17)))
    u[...] = fd.rate(lambda u, D, r: D * fd.schemes.laplacian(u) + r * u[...] * (1 - u[...]))
    u[0] = lambda x, amp: amp * jnp.exp(-(((x - 0.3) / 0.1) ** 2))
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda wall: wall)
    u[dict(x=-1)] = fd.boundary.Neumann(0.0)
    places = dict(t=("p", rng.uniform(0.02, 0.4, num)), x=("p", rng.uniform(0, 1, num)))
    observed = xr.DataArray(np.zeros(num), places, ("p",), name="u")
    exact = np.asarray(fd.misfit(fd.solve(u, D=0.04, r=2.0, amp=0.7, wall=0.2), observed))
    observed = observed + exact + 0.01 * rng.standard_normal(num)
    observed[::9] = np.nan

    def loss(p):
        return 0.5 * jnp.sum(fd.misfit(fd.solve(u, **p), observed, weight=100.0) ** 2)

    start = dict(D=0.2, r=0.5, amp=0.3, wall=0.5)
    found = fd.invert(loss, start, method="bfgs", transform=dict(D=fd.inverse.Exponential()))
    assert found.converged, found.reason
    np.testing.assert_allclose(found.loss, 17.26641, rtol=1e-6)


@pytest.mark.parametrize("compiled", ["nothing", "the loss", "a part of it"])
def test_parameters_whose_steps_are_unstable_are_no_success(compiled):
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.2, num=41), x=fd.Axis(0.0, 1.0, num=17)))
    u[...] = fd.rate(lambda u, kappa: kappa * fd.schemes.laplacian(u))
    u[0] = lambda x: jnp.sin(jnp.pi * x)
    u[dict(x=[0, -1])] = 0.0
    for kappa, stable in ((0.5, True), (0.6, False)):  # the largest stable one is 0.544
        data = np.exp(-(np.pi**2) * kappa * u.grid.t.points)
        run = lambda kappa: fd.solve(u, kappa=kappa)["u"][:, 8]  # noqa: E731
        run = jax.jit(run) if compiled == "a part of it" else run
        misfit = lambda p, data=data, run=run: run(p["kappa"]) - data  # noqa: E731
        found = fd.invert(jax.jit(misfit) if compiled == "the loss" else misfit, dict(kappa=0.3))
        assert found.converged == stable, found
        assert ("unstable" in found.reason) != stable


def test_what_is_under_jit_is_found_through_names_and_closures():
    seen = []
    inner = jax.jit(lambda x, scale=1.0: seen.append(isinstance(x, Tracer)) or scale * x)
    middle = lambda p: helper(inner(p["a"])) + loop(2)  # noqa: E731
    assert unjitted(partial(jax.jit(middle)))(dict(a=2.0)) == 5.0
    assert seen == [False]
    plain = lambda p: p["a"]  # noqa: E731
    assert unjitted(plain) is plain


def loop(count):
    return 0.0 if count == 0 else loop(count - 1)


@jax.jit
def helper(x):
    assert not isinstance(x, Tracer)
    return 2.5 * x


def test_runs_that_are_unstable_where_the_iterations_are_used_up():
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.2, num=41), x=fd.Axis(0.0, 1.0, num=17)))
    u[...] = fd.rate(lambda u, kappa: kappa * fd.schemes.laplacian(u))
    u[0] = lambda x: jnp.sin(jnp.pi * x)
    u[dict(x=[0, -1])] = 0.0
    loss = jax.jit(lambda p: (fd.solve(u, kappa=p["kappa"], save=fd.final())["u"] ** 2).sum())
    found = fd.invert(loss, dict(kappa=0.7), method="adam", max_iterations=1)
    assert not found.converged and "the declared step 0.005 is unstable" in found.reason.lower()


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_searches_over_subsets_succeed_where_the_mean_of_all_falls_no_further(noise):
    draw = np.random.default_rng(0)
    matrix = jnp.asarray(draw.standard_normal((8, 6, 4)))
    data = matrix @ np.array([1.0, -2.0, 0.5, 3.0]) + noise * draw.standard_normal((8, 6))
    wanted = np.linalg.lstsq(matrix.reshape(48, 4), data.ravel(), rcond=None)[0]
    some = lambda p, k: matrix[k] @ p["x"] - data[k]  # noqa: E731
    shorter = optax.adam(optax.exponential_decay(0.05, 100, 0.7))
    found = fd.invert(some, dict(x=np.ones(4)), subsets=8, method=shorter)
    assert found.converged, found.reason
    np.testing.assert_allclose(found.parameters["x"], wanted, atol=2e-3)
    early = fd.invert(some, dict(x=np.ones(4)), subsets=8, max_iterations=50)
    assert not early.converged and "still falls down its gradient" in early.reason
