"""Arguments of the functions on domains: what is refused, and how their results are put together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve import kernels

U, M = jnp.arange(12.0).reshape(3, 4), np.zeros((3, 4), int)
LINE = jnp.arange(5.0)

REFUSED = [
    (lambda: kernels.recurrence(1.0, jnp.arange(3)), "`b` holds floating or complex numbers; got int"),
    (lambda: kernels.recurrence(jnp.ones(3), jnp.ones(3), axis=1), "`axis` is one of the 1 axes"),
    (lambda: kernels.recurrence(jnp.ones((2, 3)), jnp.ones(3)), "or square matrices for vectors"),
    (lambda: kernels.recurrence(jnp.ones(4), jnp.ones(3)), r"`a` broadcasts to the shape \(3,\)"),
    (lambda: kernels.recurrence(1.0, jnp.ones(3), jnp.ones(2)), r"`initial` broadcasts to the shape \(\)"),
    (lambda: kernels.pool(U, (2, 2, 2)), "`window` is a positive whole number, or 2 of them"),
    (lambda: kernels.pool(U, 4), r"window of \(4, 4\) points does not fit into \(3, 4\)"),
    (lambda: kernels.pool(U, 2, padding=-1), "`padding` is a number of points"),
    (lambda: kernels.pool(U, 2, reduce="median"), "`reduce` is one of mean, sum, max, min"),
    (lambda: kernels.pool(U, 2, active=jnp.ones(3)), r"has the values' shape \(3, 4\)"),
    (lambda: kernels.pool(U, 2, active=-U), "not negative; got -11"),
    (lambda: kernels.pool(U.astype(complex), 2, reduce="max"), "complex numbers have no order"),
    (lambda: kernels.ragged(lambda u: u, LINE, (5,)), "a stencil is a mapping of offsets to weights"),
    (lambda: kernels.ragged({0.5: 1.0}, LINE, (5,)), "an offset is a whole number"),
    (lambda: kernels.ragged({0: 1.0, (0, 1): 1.0}, LINE, (5,)), "offsets are distinct"),
    (lambda: kernels.ragged({1: 1.0}, LINE, (2, 2)), "4 points in all, and `values` has 5"),
    (lambda: kernels.ragged({1: 1.0}, LINE, (5, 0)), "a length of at least 1"),
    (lambda: kernels.ragged({1: 1.0}, LINE, jnp.asarray([4, 3])), "not those of domains within 5 points"),
    (lambda: kernels.ragged({(0, 1): 1.0}, LINE, jnp.asarray([5])), "are lines, and the stencil has 2 axes"),
    (lambda: kernels.ragged({1: 1.0}, LINE, (2, 3), boundary=["zero"]), "one name, or 2 of them; got 1"),
    (lambda: kernels.ragged({1: 1.0}, LINE, (5,), boundary="mirror"), "unknown boundary 'mirror'. Known: zero"),
    (lambda: kernels.ragged({1: jnp.ones(3)}, LINE, (5,)), r"an array of shape \(5,\); got \(3,\)"),
    (lambda: kernels.grouped({(0, 0): 1.0}, U, M), r"all of shape \(labels,\)"),
    (lambda: kernels.grouped({0: jnp.ones(2)}, U, M), "`values` has the 1 axes of the offsets"),
    (lambda: kernels.grouped({(0, 0): jnp.ones(2)}, U, M[0]), r"has the grid's shape \(3, 4\)"),
    (lambda: kernels.grouped({(0, 0): jnp.ones(2)}, U, M + 2), "labels 0 to 1 .* got labels from 2 to 2"),
    (lambda: kernels.block_sparse({(0, 0): 1.0}, U, M), "a mask of booleans .* Write `active != 0`"),
    (lambda: kernels.block_sparse({(0, 0): 1.0}, U, np.ones((7, 7), bool)), r"or that of its tiles, \(1, 1\)"),
    (lambda: kernels.block_sparse(jnp.sin, U, M > 0), "wants `reach`"),
    (lambda: kernels.block_sparse(jnp.sin, U, M > 0, tile=2, reach=1), r"gives the interior, \(2, 2\) points"),
    (lambda: kernels.block_sparse({(0, 0): 1.0}, U, M > 0, elsewhere=LINE), "an array of the result's shape"),
    (lambda: jax.jit(lambda m: kernels.block_sparse({(0, 0): 1.0}, U, m, capacity=0))(M > 0), "at least 1; got 0"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=lambda item: item if isinstance(item, str) else "")
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(fd.DeclarationError, match=message):
        call()


def test_an_unknown_kernel_lists_the_known_ones():
    with pytest.raises(fd.FdsolveError, match="`scan`"):
        kernels.recurrence(0.5, LINE, kernel="fastest")


def test_a_traced_label_that_is_none_gives_nan():
    found = jax.jit(lambda m: kernels.grouped({0: jnp.asarray([2.0, 3.0])}, LINE, m))(jnp.asarray([0, 1, 2, -1, -2]))
    np.testing.assert_array_equal(found, [0.0, 3.0, np.nan, 0.0, np.nan])


def test_points_outside_of_the_mask_are_not_read_by_an_average():
    values = jnp.asarray([1.0, jnp.nan, jnp.nan, jnp.inf])
    active = np.asarray([True, False, False, False])
    slope = jax.grad(lambda u: kernels.pool(u, 2, active=active, empty=0.0).sum())(values)
    np.testing.assert_array_equal(slope, [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(kernels.pool(values, 2, active=active), [1.0, np.nan])


def test_an_average_with_parts_of_cells_is_weighted():
    found = kernels.pool(jnp.asarray([1.0, 4.0]), 2, active=jnp.asarray([1.0, 0.5]))
    np.testing.assert_allclose(found, [2.0], rtol=1e-15)


def test_ties_share_the_derivative_whatever_the_kernel():
    slopes = [
        jax.grad(lambda u, name=name: kernels.pool(u, 3, reduce="max", kernel=name).sum())(jnp.asarray([2.0, 1.0, 2.0]))
        for name in ("slices", "reshape", "axes", "reduce_window", "reference")
    ]
    np.testing.assert_array_equal(slopes, [[0.5, 0.0, 0.5]] * 5)


def test_a_recurrence_of_no_steps_and_one_with_steep_slopes():
    assert kernels.recurrence(0.5, jnp.zeros((0, 3))).shape == (0, 3)
    curved = jax.grad(lambda a: jax.grad(lambda a: kernels.recurrence(a, jnp.ones(4))[-1])(a))(2.0)
    np.testing.assert_allclose(curved, 2 + 6 * 2.0, rtol=1e-14)  # of 1 + a + a² + a³


def test_a_system_of_components_on_active_tiles():
    def swap(block):
        return block[..., ::-1] * 2

    u = jnp.arange(12.0).reshape(6, 2)
    mask = np.asarray([False, True, False, False, False, True])
    found = kernels.block_sparse(swap, u, mask, tile=4, reach=0)
    np.testing.assert_array_equal(found, np.where(mask[:, None], 2 * np.asarray(u)[:, ::-1], 0))


def test_only_the_active_part_is_computed():
    u, mask = jnp.ones((64, 64)), np.zeros((64, 64), bool)
    mask[5, 5] = True
    text = jax.jit(lambda u: kernels.block_sparse(lambda b: jnp.sin(b), u, mask, tile=8, reach=0)).lower(u).as_text()
    sizes = [line for line in text.splitlines() if "stablehlo.sine" in line]
    assert any("1x8x8x" in line for line in sizes)
