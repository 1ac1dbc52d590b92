"""Transforms, against dense elimination of matrices that read their values in mirrors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.errors import DeclarationError
from fdsolve.solvers import MatrixLayout, Transform

from .systems import (
    OTHER,
    RING,
    SLOPE,
    SLOPE_HALF,
    VALUE,
    VALUE_HALF,
    check,
    dense_of,
    from_dense,
    mirrored_matrix,
    outline_of,
    random_vector,
    shifted,
    solved,
)

WALLS = [VALUE, SLOPE, VALUE_HALF, SLOPE_HALF]
LINE = {(-2,): -0.1, (-1,): 1.0, (0,): -2.3, (1,): 1.0, (2,): -0.1}
FIVE = {(-1, 0): 1.0, (1, 0): 1.0, (0, -1): 2.0, (0, 1): 2.0, (0, 0): -6.0}
NINE = FIVE | {(0, 0): -6.5, (1, 1): 0.1, (-1, 1): 0.1, (1, -1): 0.1, (-1, -1): 0.1}
WIND = NINE | {(0, 1): 2.4}  # not symmetric along the second axis
SPACE = {(1, 0, 0): 1.0, (0, 1, 0): 2.0, (0, 0, 1): 1.5}
SPACE |= {tuple(-x for x in o): w for o, w in SPACE.items()} | {(0, 0, 0): -9.0}


@pytest.mark.parametrize("high", WALLS, ids=lambda side: f"{side.kind}-{side.on_point}")
@pytest.mark.parametrize("low", WALLS, ids=lambda side: f"{side.kind}-{side.on_point}")
def test_all_walls(low, high):
    check(Transform(), mirrored_matrix((9,), ((low, high),), LINE), ((low, high),), constant=True)


PLANES = {
    "rings": ((RING, RING), (RING, RING), WIND, None, "float64"),
    "a ring": ((VALUE, SLOPE), (RING, RING), WIND, None, "float32"),
    "a ring, complex": ((RING, RING), (VALUE, SLOPE_HALF), NINE, None, "complex128"),
    "walls, complex": ((SLOPE, SLOPE), (VALUE_HALF, VALUE), NINE, None, "complex64"),
    "bands between walls": ((SLOPE, VALUE_HALF), (VALUE, SLOPE), NINE, "y", "float64"),
    "bands round a ring": ((SLOPE, SLOPE), (RING, RING), WIND, "y", "float64"),
    "bands across a ring": ((VALUE, SLOPE), (RING, RING), WIND, "x", "float64"),
}


@pytest.mark.parametrize("case", PLANES.values(), ids=PLANES)
def test_two_axes(case):
    *sides, weights, axis, dtype = case
    check(Transform(axis), mirrored_matrix((8, 7), sides, weights, dtype), tuple(sides), constant=True)


@pytest.mark.parametrize("low", WALLS, ids=lambda side: f"{side.kind}-{side.on_point}")
def test_the_fewest_points(low):
    size = 3 + (low == SLOPE) + (low == VALUE)
    check(Transform(), mirrored_matrix((size,), ((low, SLOPE_HALF),), {o: w for o, w in LINE.items() if abs(o[0]) < 2}),
          ((low, SLOPE_HALF),), constant=True)  # fmt: skip


@pytest.mark.parametrize("axis", [None, "y"])
def test_three_axes(axis):
    sides = ((SLOPE, VALUE_HALF), (VALUE, VALUE), (RING, RING))
    check(Transform(axis), mirrored_matrix((5, 6, 7), sides, SPACE), sides, constant=True)


@pytest.mark.parametrize("axis", [None, "x"])
def test_the_transpose_beside_slopes_on_points(axis):
    sides = ((SLOPE, SLOPE_HALF), (VALUE, SLOPE))
    check(Transform(axis), mirrored_matrix((6, 7), sides, NINE).transpose(), sides, constant=True)


@pytest.mark.parametrize(("axis", "turned"), [(None, False), ("x", False), ("y", True)])
def test_nothing_fixes_the_mean(axis, turned):
    sides = ((SLOPE, SLOPE), (RING, RING))
    matrix = mirrored_matrix((6, 5), sides, FIVE)
    check(Transform(axis), matrix.transpose() if turned else matrix, sides, constant=True, may_float=True)


def test_an_axis_that_is_not_read():
    sides = ((SLOPE, SLOPE), (OTHER, OTHER))
    check(Transform(), mirrored_matrix((6, 3), sides, {(0, 0): 3.0, (1, 0): 1.0, (-1, 0): 1.0}), sides, constant=True)


def test_weights_that_vary_along_one_axis():
    sizes, sides = (6, 8), ((SLOPE, VALUE), (OTHER, OTHER))
    across = shifted(6, 1, sides[0]) + shifted(6, -1, sides[0]) - 2 * shifted(6, 0, sides[0])
    rng = np.random.default_rng(0)
    down = np.diag(rng.random(8) + 4) + np.diag(rng.random(7), 1) + np.diag(rng.random(7), -1)
    grown = np.diag(rng.random(8) + 1)
    unknown = np.diag([1.0] * 5 + [0.0])
    free = np.ones(sizes, bool)
    free[-1] = False
    total = np.kron(across, grown) - np.kron(unknown, down)
    matrix = from_dense(total, {"u": sizes}, (False, False), tuple(FIVE), {"u": free}, "float64")
    check(Transform(), matrix, sides, uniform=(True, False))
    check(Transform("y"), matrix, sides)


@pytest.mark.parametrize("side", [SLOPE, SLOPE_HALF, RING], ids=["on a point", "half-way", "ring"])
@pytest.mark.parametrize("across", [VALUE, SLOPE_HALF], ids=["values", "slopes half-way"])
def test_modes_that_no_field_has_do_no_harm(across, side):
    """Between values on points a transform has modes without a sine; with equal weights their bands are singular."""
    coefficients, axes = np.ones(8), dict(x=fd.Axis(0.0, 1.0, 9), y=fd.Axis(0.0, 2.0, 8))
    if across == SLOPE_HALF:
        axes["x"] = fd.Axis(0.0, 1.0, 9, cells=True)
    if side != SLOPE:
        axes["y"] = fd.Axis(0.0, 2.0, 8, cells=True, periodic=side == RING)
    h = fd.Field("h", fd.Grid(**axes))
    h[...] = fd.residual(lambda h, k: fd.schemes.divergence(k, h) - 0.5 * (across == SLOPE_HALF) * h[...] + 1.0)
    h[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.0) if across == VALUE else fd.boundary.Neumann(0.0)
    if side != RING:
        h[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    for k in (coefficients, np.where(np.arange(8) > 4, 3.0, 1.0)):
        found, wanted = (fd.solve(h, k=fd.along(k, "y"), solver=one)["h"] for one in (None, fd.solvers.Direct()))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_stencils_that_no_mirror_fits_are_reported():
    matrix = mirrored_matrix((9,), ((VALUE, VALUE),), {(-1,): 0.3, (0,): -2.3, (1,): 1.0})
    _, report = solved(
        Transform(), matrix, random_vector(np.random.default_rng(0), matrix), ((VALUE, VALUE),), constant=True
    )
    assert not bool(report.converged) and float(report.residual) > 0.01


def test_a_mode_that_vanishes_is_reported():
    sides = ((RING, RING),)
    matrix = mirrored_matrix((8,), sides, {(-1,): 1.0, (0,): 0.0, (1,): 1.0})  # 2 cos θ
    rhs = {"u": jnp.asarray(np.cos(np.pi / 2 * np.arange(8)))}
    _, report = solved(Transform(), matrix, rhs, sides, constant=True)
    assert not bool(report.converged)


def test_several_right_hand_sides_at_once():
    sides = ((VALUE, SLOPE), (RING, RING))
    matrix = mirrored_matrix((5, 6), sides, NINE)
    rhs = {"u": jnp.stack([random_vector(np.random.default_rng(seed), matrix)["u"] for seed in range(3)])}
    x, report = jax.jit(jax.vmap(lambda b: solved(Transform(), matrix, b, sides, constant=True)))(rhs)
    exact = np.linalg.solve(dense_of(matrix), np.asarray(rhs["u"]).reshape(3, -1).T).T
    np.testing.assert_allclose(np.asarray(x["u"]).reshape(3, -1), exact, atol=1e-12)
    assert bool(report.converged.all())


def refusal(
    solver=None, sides=((VALUE, VALUE), (RING, RING)), offsets=tuple(FIVE), shape=(6, 6), fields=("u",), **told
):
    wraps = tuple(low.kind == "periodic" for low, _ in sides)
    blocks = tuple((name, name, tuple(offsets)) for name in fields)
    layout = MatrixLayout(tuple(fields), (shape,) * len(fields), wraps, blocks, "float64")
    return (solver or Transform()).refuse(outline_of(layout, sides, **(dict(constant=True) | told)))


def test_what_is_refused():
    assert refusal() is None
    assert refusal(unknown=True) == "rows read points anywhere"
    assert refusal(fields=("u", "v")) == "fields u, v are coupled; transforms serve one"
    assert refusal(holes=True) == "points are cut out"
    assert refusal(Transform("z")) == "there is no axis `z`; the axes are x, y"
    assert refusal(constant=False) == "weights vary; Transform(axis=...) names one axis along which they may"
    assert refusal(Transform("x"), constant=False) is None
    assert refusal(uniform=(False, False)) == "more than one axis has no transform (x: stretched; y: stretched)"
    assert "a side that does not mirror; y: stretched" in refusal(
        sides=((OTHER, VALUE), (RING, RING)), uniform=(True, False)
    )
    assert "y: asked for" in refusal(Transform("y"), offsets=((0, 0), (1, 0), (0, 1)))
    assert refusal(shape=(4, 6)) == "2 unknown points along x are too few for its rows, which take 3"
    assert refusal(sides=((SLOPE, SLOPE), (RING, RING)), shape=(4, 6)) == (
        "4 unknown points along x are too few for its rows, which take 5"
    )
    with pytest.raises(DeclarationError, match="is the name of an axis or None, got 'x, y'"):
        Transform("x, y")
