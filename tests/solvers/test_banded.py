"""Systems along one axis, against dense elimination."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fdsolve.errors import DeclarationError
from fdsolve.solvers import Banded, MatrixLayout, StencilMatrix, tridiagonal

from .systems import (
    RING,
    SLOPE,
    SLOPE_HALF,
    check,
    dense_of,
    mirrored_matrix,
    outline_of,
    random_matrix,
    random_values,
    random_vector,
    solved,
)

THREE = ((-1,), (0,), (1,))
FIVE = ((-2,), (-1,), (0,), (1,), (2,))
SECOND = {(-1,): 1.0, (0,): -2.0, (1,): 1.0}
FOURTH = {(-2,): -1 / 12, (-1,): 4 / 3, (0,): -5 / 2, (1,): 4 / 3, (2,): -1 / 12}

CASES = {
    "three": ({"u": (11,)}, (False,), THREE),
    "three, ring": ({"u": (11,)}, (True,), THREE),
    "five, ring": ({"u": (15,)}, (True,), FIVE),
    "five, short ring": ({"u": (5,)}, (True,), FIVE),
    "one-sided": ({"u": (9,)}, (False,), ((-3,), (0,), (1,))),
    "lines": ({"u": (11, 3)}, (False, False), ((-2, 0), (0, 0), (1, 0), (3, 0))),
    "lines, ring": ({"u": (2, 9)}, (False, True), ((0, -2), (0, 0), (0, 1))),
    "staggered": ({"u": (9, 2), "v": (8, 2)}, (False, False), ((-1, 0), (0, 0), (1, 0))),
    "two, ring": ({"u": (9,), "v": (9,)}, (True,), THREE),
    "points": ({"u": (4, 3), "v": (4, 3)}, (False, False), ((0, 0),)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_lines_are_solved(case):
    fields, wraps, offsets = case
    matrix = random_matrix(np.random.default_rng(0), fields, wraps, offsets, held=0.1, strength=0.3)
    check(Banded(), matrix)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_all_numbers(dtype):
    matrix = random_matrix(np.random.default_rng(1), {"u": (12,)}, (False,), FIVE, dtype, held=0.1)
    check(Banded("x"), matrix)


@pytest.mark.parametrize("weights", [SECOND, FOURTH], ids=["second", "fourth"])
@pytest.mark.parametrize("sides", [(RING, RING), (SLOPE, SLOPE_HALF)], ids=["ring", "slopes"])
def test_nothing_fixes_the_mean(weights, sides):
    check(Banded(), mirrored_matrix((12,), (sides,), weights), may_float=True)


def test_nothing_fixes_the_mean_of_the_transpose():
    check(Banded(), mirrored_matrix((12,), ((SLOPE, SLOPE_HALF),), SECOND).transpose(), may_float=True)


def test_only_some_of_the_lines_and_fields_float():
    shape = (9, 2)
    one = mirrored_matrix((9,), ((SLOPE, SLOPE),), SECOND)
    offsets = tuple((o, 0) for (o,) in one.layout.blocks[0][2])
    blocks = tuple((name, name, offsets) for name in ("u", "v"))
    layout = MatrixLayout(("u", "v"), (shape, shape), (False, False), blocks, "float64")
    values = np.stack([np.asarray(one.values[0])] * 2, axis=-1)
    fixed = values.copy()
    fixed[offsets.index((0, 0)), :, 1] -= 0.5  # the second line of u has a mean of its own; v floats on both
    free = {name: jnp.ones(shape, bool) for name in ("u", "v")}
    check(Banded(), StencilMatrix(layout, (jnp.asarray(fixed), jnp.asarray(values)), free), may_float=True)


def test_a_pivot_may_be_zero():
    matrix = random_matrix(np.random.default_rng(4), {"u": (12,)}, (False,), ((-2,), (-1,), (1,), (2,)))
    check(Banded(), matrix)


@pytest.mark.parametrize("offsets", [THREE, FIVE], ids=["three", "five"])
def test_a_singular_matrix_is_reported(offsets):
    matrix = random_matrix(np.random.default_rng(5), {"u": (8,)}, (False,), offsets)
    matrix = StencilMatrix(matrix.layout, tuple(value.at[:, 4].set(0) for value in matrix.values), matrix.free)
    _, report = solved(Banded(), matrix, random_vector(np.random.default_rng(6), matrix))
    assert not bool(report.converged)


def test_several_right_hand_sides_at_once():
    matrix = random_matrix(np.random.default_rng(7), {"u": (9,)}, (True,), FIVE)
    rhs = [random_vector(np.random.default_rng(seed), matrix) for seed in range(3)]
    stacked = {"u": jnp.stack([one["u"] for one in rhs])}
    x, report = jax.jit(jax.vmap(lambda b: solved(Banded(), matrix, b)))(stacked)
    exact = np.linalg.solve(dense_of(matrix), np.asarray(stacked["u"]).T).T
    np.testing.assert_allclose(x["u"], exact, atol=1e-12)
    assert report.converged.shape == (3,) and bool(report.converged.all())


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("size", [1, 2, 8])
def test_tridiagonal_lines(size, dtype):
    rng = np.random.default_rng(size)
    lower, diag, upper, rhs = (random_values(rng, (3, 2, size), dtype) for _ in range(4))
    diag = diag + np.asarray(6, dtype)
    arrays = tuple(map(jnp.asarray, (lower, diag, upper, rhs)))
    limit = 1e-5 if np.finfo(dtype).eps > 1e-10 else 1e-13
    for cyclic, x in zip((False, True), both_ways(*arrays), strict=True):
        x = np.asarray(x)
        before, after = np.roll(x, 1, axis=-1), np.roll(x, -1, axis=-1)
        if not cyclic:
            before[..., 0], after[..., -1] = 0, 0
        np.testing.assert_allclose(lower * before + diag * x + upper * after, rhs, atol=limit)


@jax.jit
def both_ways(*arrays):
    return tridiagonal(*arrays), tridiagonal(*arrays, cyclic=True)


@pytest.mark.parametrize("size", [1, 3])
def test_bands_wider_than_the_matrix(size):
    matrix = random_matrix(np.random.default_rng(size), {"u": (size, 2)}, (False, False), ((-3, 0), (0, 0), (1, 0)))
    check(Banded(), matrix)


def test_what_is_refused():
    rng = np.random.default_rng(8)
    plane = random_matrix(rng, {"u": (3, 3)}, (False, False), ((0, 0), (0, 1), (1, 0))).layout
    line = random_matrix(rng, {"u": (3, 3)}, (False, False), ((0, 0), (0, 1))).layout
    uneven = random_matrix(rng, {"u": (3, 3), "v": (4, 3)}, (False, False), ((0, 0), (0, 1))).layout
    assert Banded().refuse(outline_of(plane)) == "points are coupled along x and y, not along one axis only"
    assert Banded("x").refuse(outline_of(line)) == "points are coupled along y, not along x only"
    assert Banded("z").refuse(outline_of(line)) == "there is no axis `z`; the axes are x, y"
    assert Banded().refuse(outline_of(uneven)) == "fields have different places along other axes than y"
    assert Banded().refuse(outline_of(line, unknown=True)) == "rows read points anywhere, not along one axis"
    with pytest.raises(DeclarationError, match="is the name of an axis or None, got 'x, y'"):
        Banded("x, y")
