"""Bounds that hold at the best point: the same as scipy's bounded least squares."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import lsq_linear, nnls

import fdsolve as fd

BOUNDS = {"both": (0.0, 1.0), "lower": (0.0, None), "upper": (None, 0.5)}


def problem(seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    size = int(draw.integers(2, 12))
    return draw.normal(size=(size + 3, size)), 2 * draw.normal(size=size + 3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_linear_least_squares_between_bounds(bounds: Any, seed: int) -> None:
    matrix, data = problem(seed)
    ends = tuple(free if end is None else end for end, free in zip(bounds, (-np.inf, np.inf), strict=True))
    wanted = lsq_linear(matrix, data, ends, tol=1e-14)
    active = np.minimum(np.abs(wanted.x - ends[0]), np.abs(wanted.x - ends[1])) < 1e-6
    start = dict(x=np.full(matrix.shape[1], 0.3))
    found = fd.invert(lambda p: matrix @ p["x"] - data, start, bounds=dict(x=bounds))
    assert active.any() and found.converged
    np.testing.assert_allclose(found.loss, wanted.cost, rtol=1e-8)
    np.testing.assert_allclose(found.parameters["x"], wanted.x, atol=1e-5)


@pytest.mark.parametrize("seed", [1, 4, 8])
def test_a_best_value_just_beside_a_bound(seed: int) -> None:
    """Some best values are 0.003 to 0.01 from a bound, nearer than where they could be taken for one that holds."""
    draw = np.random.default_rng(seed)
    matrix, truth = draw.normal(size=(20, 6)), draw.normal(size=6)
    data, ends = matrix @ truth + 0.1 * draw.normal(size=20), (0.0, 1.0) if seed % 2 else (0.0, np.inf)
    wanted = lsq_linear(matrix, data, ends, tol=1e-14)
    gaps = np.minimum(np.abs(wanted.x - ends[0]), np.abs(wanted.x - ends[1]))
    assert ((gaps > 1e-3) & (gaps < 0.02)).any()
    bounds = (0.0, 1.0) if seed % 2 else (0.0, None)
    found = fd.invert(lambda p: matrix @ p["x"] - data, dict(x=np.full(6, 0.5)), bounds=dict(x=bounds))
    assert found.converged
    np.testing.assert_allclose(found.parameters["x"], wanted.x, atol=1e-6)


@pytest.mark.parametrize("method", ["levenberg-marquardt", "gauss-newton", "l-bfgs", "bfgs"])
def test_a_bound_that_holds_and_a_parameter_beside_it(method: str) -> None:
    residuals = lambda p: jnp.array([p["a"] - 3, p["b"] - 1, p["a"] * p["b"] - 2])  # noqa: E731
    found = fd.invert(residuals, dict(a=0.5, b=0.5), bounds=dict(a=(0, 1)), method=method)
    assert found.converged
    np.testing.assert_allclose([found.parameters["a"], found.parameters["b"]], [1.0, 1.5], atol=1e-6)
    np.testing.assert_allclose(found.loss, 2.25, rtol=1e-8)


def test_a_parameter_that_was_put_at_its_bound_leaves_it_again() -> None:
    """A narrow valley along the bound first, and away from it in the end."""

    def residuals(p: Any) -> Any:
        return jnp.array([1e-2 * (p["a"] - 0.6), 10 * (p["a"] - 1 + 0.4 * jnp.tanh(p["b"])), p["b"] - 8.0])

    found = fd.invert(residuals, dict(a=0.9, b=0.0), bounds=dict(a=(0, 1)))
    assert found.converged and 0.599 < found.parameters["a"] < 0.601
    assert found.loss < 1e-6


def test_a_diffusivity_that_wants_to_be_smaller_than_its_bound() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=21), x=fd.Axis(0.0, 1.0, num=12))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u, k, s: k * fd.schemes.laplacian(u) + s)
    u[0] = lambda x: jnp.sin(jnp.pi * x)
    u[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.0)
    seen = fd.solve(u, k=0.02, s=0.1)["u"][1:]
    residuals = lambda p: fd.solve(u, k=p["k"], s=p["s"])["u"][1:] - seen  # noqa: E731
    found = fd.invert(residuals, dict(k=0.06, s=0.0), bounds=dict(k=(0.05, 0.08)))
    assert found.converged
    np.testing.assert_allclose(found.parameters["k"], 0.05, rtol=1e-9)
    alone = fd.invert(lambda p: residuals({**p, "k": 0.05}), dict(s=0.0))
    np.testing.assert_allclose([found.parameters["s"], found.loss], [alone.parameters["s"], alone.loss], rtol=1e-7)


@pytest.mark.parametrize("method", ["levenberg-marquardt", "l-bfgs"])
@pytest.mark.parametrize("bounds", [(1.0, 4.0), (0.0, None)])
def test_a_result_at_a_bound_starts_another_search(bounds: Any, method: str) -> None:
    residuals = lambda p: p["a"] - jnp.array([-1.0, 2.0])  # noqa: E731
    found = fd.invert(residuals, dict(a=np.full(2, 1.5)), bounds=bounds, method=method)
    again = fd.invert(residuals, found.parameters, bounds=bounds, method=method)
    assert found.converged and again.converged
    np.testing.assert_allclose(again.parameters["a"], [bounds[0], 2.0], atol=1e-6)
    back = fd.invert(lambda p: p["a"] - 1.5, dict(a=np.full(2, bounds[0])), bounds=bounds, method=method)
    assert back.converged
    np.testing.assert_allclose(back.parameters["a"], 1.5, rtol=1e-6)


@pytest.mark.parametrize("bounds", [(-0.3, 0.4), (-7.5, 0.2), (-1.0, 5.3), (-0.9, 7.6), (-1e-3, 7e-4), (-1.0, None)])
def test_zero_is_a_start_within_bounds(bounds: Any) -> None:
    """Back and forth through the transform it is a rounding error of the bounds' own size."""
    found = fd.invert(lambda p: p["m"] - np.array([1e-4, 2e-4]), dict(m=np.zeros(2)), bounds=dict(m=bounds))
    np.testing.assert_allclose(found.parameters["m"], [1e-4, 2e-4], rtol=1e-5)


def test_the_way_back_from_a_bound_is_found_without_residuals() -> None:
    """BFGS came to two bounds where the transform is flat, and away from which the loss falls."""
    draw = np.random.default_rng([13, 5])
    draw.integers(3), draw.integers(3)
    a, b = draw.standard_normal((20, 9)), draw.standard_normal((20, 2))
    draw.integers(5)
    bend = lambda z: z + 0.3 * jnp.tanh(z)  # noqa: E731
    shift = 1.5 * int(draw.integers(2))
    x, y = draw.standard_normal(9) + shift, draw.random(2) * 2 + 0.3
    data = np.asarray(bend(a @ x) + b @ y) + 0.05 * draw.standard_normal(20)
    losses = []
    for method in ("bfgs", "l-bfgs", "levenberg-marquardt"):
        start = dict(x=np.full(9, 0.3), y=np.array([1.0, 0.7]))
        bounds = dict(x=(-0.4, 1.1), y=(0, None))
        found = fd.invert(lambda p: bend(a @ p["x"]) + b @ p["y"] - data, start, method=method, bounds=bounds)
        assert found.converged
        losses.append(found.loss)
    np.testing.assert_allclose(losses, min(losses), rtol=1e-7)


@pytest.mark.parametrize("method", ["levenberg-marquardt", "gauss-newton"])
@pytest.mark.parametrize("start", [0.5, 0.0], ids=["inside", "at the bound"])
def test_many_parameters_at_the_bound(start: float, method: str) -> None:
    """A regularised source that is nowhere negative, and nothing in two thirds of the places, blurred."""
    draw, axis = np.random.default_rng(0), fd.Axis(0.0, 1.0, num=40)
    blur = np.exp(-(((np.linspace(0, 1, 50)[:, None] - axis.points) / 0.08) ** 2) / 2) / 3.2
    data = blur @ (np.maximum(np.sin(9 * axis.points), 0) * (1 + axis.points)) + 0.02 * draw.normal(size=50)
    smooth = np.sqrt(1e-3 * 39) * np.diff(np.eye(40), axis=0)
    wanted, rest = nnls(np.concatenate([blur, smooth]), np.concatenate([data, np.zeros(39)]))
    found = fd.invert(
        lambda p: blur @ p["s"] - data,
        dict(s=np.full(40, start)),
        bounds=dict(s=(0, None)),
        regularise=fd.tikhonov(1e-3, "s", grid=fd.Grid(x=axis)),
        method=method,
    )
    assert (wanted == 0).sum() > 8 and found.converged and len(found.losses) < 20
    np.testing.assert_allclose(found.loss, rest**2 / 2, rtol=1e-10)
    np.testing.assert_allclose(found.parameters["s"], wanted, atol=1e-6)


def test_iterations_used_up_on_the_way_to_bounds_say_so() -> None:
    data = np.array([-1.0, 2.0, -2.0])
    start = dict(x=np.full(3, 0.5))
    found = fd.invert(lambda p: p["x"] - data, start, bounds=(0, None), method="l-bfgs", max_iterations=5)
    assert not found.converged and "2 parameters creep up to their bounds" in found.reason
    assert 'method="levenberg-marquardt"' in found.reason
