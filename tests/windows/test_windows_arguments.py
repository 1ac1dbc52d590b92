"""kernel_size, strides, padding, offset, regions and names in every form, against values worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fdsolve as fd
from fdsolve.windows import roll_view
from tests.windows.point_loop import Case

ROW = np.array([3.0, 5.0, 9.0, 17.0, 33.0])


def total(x):
    return jnp.sum(x)


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        ("valid", [17, 31, 59]),
        ("VALID", [17, 31, 59]),
        ("same", [8, 17, 31, 59, 50]),
        ("SAME", [8, 17, 31, 59, 50]),
        (1, [8, 17, 31, 59, 50]),
        ((1,), [8, 17, 31, 59, 50]),
        (("same",), [8, 17, 31, 59, 50]),
        (((0, 1),), [17, 31, 59, 50]),
        ([[1, 0]], [8, 17, 31, 59]),
        (((-1, 0),), [31, 59]),
        (-1, [31]),
        (((2, 0),), [3, 8, 17, 31, 59]),
        (((0, 3),), [17, 31, 59, 50, 33, 0]),
    ],
)
def test_padding_forms(padding, expected):
    assert_array_equal(fd.kmap(kernel_size=(3,), padding=padding)(total)(ROW), expected)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, [8, 17, 31, 59, 50]),
        (1, [3, 17, 31, 59, 33]),
        ((1,), [3, 17, 31, 59, 33]),
        (((2, 1),), [3, 5, 31, 59, 33]),
        ([(0, 2)], [8, 17, 31, 17, 33]),
    ],
)
def test_offset_forms(offset, expected):
    assert_array_equal(fd.smap(kernel_size=3, offset=offset)(total)(ROW), expected)


def test_kernel_size_and_strides_forms():
    table = np.arange(12.0).reshape(3, 4) + 2
    assert_array_equal(fd.kmap(kernel_size=(-1, 1))(total)(table), table.sum(0, keepdims=True))
    assert_array_equal(fd.kmap(kernel_size=-1)(total)(table), [[table.sum()]])
    assert_array_equal(fd.kmap(kernel_size=(1, -1), padding="same")(lambda x: x[0, 0])(table).shape, (3, 4))
    assert_array_equal(fd.kmap(kernel_size=2, strides=2)(total)(table), [[18, 26]])
    assert_array_equal(fd.kmap(kernel_size=(2, 2), strides=(1, 2))(total)(table), [[18, 26], [34, 42]])
    assert_array_equal(fd.kmap()(lambda x: x[0, 0] * 2)(table), table * 2)


def test_windows_longer_than_can_be_taken_apart():
    line = np.cos(np.arange(900.0)) + 2
    expected = np.array([line[i : i + 601].max() + line[i : i + 601].sum() for i in range(300)])
    assert_allclose(fd.kmap(kernel_size=601)(lambda x: jnp.max(x) + jnp.sum(x))(line), expected, rtol=1e-12)
    picked = fd.kmap(kernel_size=601, relative=True)(lambda x: x[300] - x[-300])(line)
    assert_allclose(picked, line[600:] - line[:300], rtol=1e-12)
    plane = np.cos(np.arange(400.0).reshape(20, 20)) + 2
    windows = fd.kmap(kernel_size=(17, 17))
    windows[...] = total
    windows[9] = lambda x: 2 * jnp.sum(x)
    expected = np.array([[plane[i : i + 17, j : j + 17].sum() for j in range(4)] for i in range(4)])
    expected[1] *= 2
    assert_allclose(windows(plane), expected, rtol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_over_windows_longer_than_can_be_taken_apart(reverse):
    values = np.cos(np.arange(20.0).reshape(4, 5)) + 2
    rules = [lambda x, xp: xp.sum(x) / 400, lambda x, xp: xp.max(x) * 0.3 + x[2, 3]]
    case = Case(values, (21, 19), (1, 2), ((10, 10), (9, 9)), False, rules, [slice(None), slice(1, None, 2)])
    found = case.windows(fd.kscan, case.border, scan_kwargs={"reverse": reverse})(values)
    assert_allclose(found, case.run(in_order=True, reverse=reverse), rtol=1e-12)


def test_vector_results_stand_on_further_axes():
    table = jnp.arange(1, 26).reshape(5, 5)
    patches = fd.kmap(kernel_size=(3, 3), padding="same")(lambda x: x)(table)
    assert patches.shape == (5, 5, 3, 3)
    assert_array_equal(patches[0, 0], [[0, 0, 0], [0, 1, 2], [0, 6, 7]])
    assert_array_equal(patches[3, 4], [[14, 15, 0], [19, 20, 0], [24, 25, 0]])
    windows = fd.kmap(kernel_size=(3,), relative=True)
    windows[...] = lambda x: jnp.stack([x[-1], x[1]])
    windows[2::2] = lambda x: jnp.stack([x[0], -x[0]])
    assert_array_equal(windows(jnp.arange(7)), [[0, 2], [2, -2], [2, 4], [4, -4], [4, 6]])


def test_relative_windows_hold_the_centre_first():
    assert_array_equal(fd.kmap(kernel_size=4, relative=True)(lambda x: x)(jnp.arange(5)), [[1, 2, 3, 0], [2, 3, 4, 1]])
    assert_array_equal(roll_view(jnp.arange(6).reshape(2, 3)), [[1, 2, 0], [4, 5, 3]])


def test_named_windows():
    table = jnp.arange(20.0).reshape(4, 5) ** 2
    named = fd.kmap(kernel_size=(3, 3), relative=True, named_axis={0: "n", 1: "i"})
    for read in (lambda u: u["n-1", "i+1"], lambda u: u["i+1", "n-1"], lambda u: u[" i + 1", "n -1 "]):
        assert_array_equal(named(read)(table), table[:-2, 2:])
    partly = fd.kmap(kernel_size=(3, 3), relative=True, named_axis={1: "i"})
    assert_array_equal(partly(lambda u: u[-1, "i"])(table), table[:-2, 1:-1])
    corner = fd.kmap(kernel_size=(3,), named_axis={0: "i"})
    assert_array_equal(corner(lambda u: u["i"] + u["i+2"])(table[1]), table[1, :-2] + table[1, 2:])
    assert_array_equal(corner(lambda u: sum(u.values()) / len(u))(table[1]), fd.kmap(3)(jnp.mean)(table[1]))


def test_regions():
    windows = fd.kmap(kernel_size=1)
    windows[...] = lambda x: x[0]
    windows[1::2] = lambda x: -x[0]
    windows[[0, -1]] = lambda x: 100 * x[0]
    windows[-2] = lambda x: 7.0
    assert_array_equal(windows(ROW), [300, -5, 9, 7, 3300])
    # The same object on other sizes, and on the first again.
    assert_array_equal(windows(np.arange(8.0)), [0, -1, 2, -3, 4, -5, 7, 700])
    assert_array_equal(windows(ROW), [300, -5, 9, 7, 3300])


def test_the_last_assignment_wins_though_the_function_is_an_old_one():
    first, second = (lambda x: x[0] + 1), (lambda x: x[0] + 2)
    windows = fd.kmap(kernel_size=1)
    windows[:] = first
    windows[1:3] = second
    windows[2] = first
    assert_array_equal(windows(ROW), [4, 7, 10, 18, 34])


def test_what_no_region_covers_takes_the_first_function():
    windows = fd.kmap(kernel_size=3, padding=2)
    windows[0] = lambda x: jnp.sum(x)
    windows[1:3] = lambda x: -jnp.sum(x)
    assert_array_equal(windows(ROW), [3, 8, -17, -31, 59, 50, 33])


@pytest.mark.parametrize("kind", ["vmap", "lmap", "pmap"])
def test_all_kinds_of_map_agree(kind):
    for windows in (fd.kmap, fd.smap):
        plain = windows(kernel_size=3)(total)(ROW)
        assert_array_equal(windows(kernel_size=3, map_kind=kind, map_kwargs={})(total)(ROW), plain)


def test_reverse_scan():
    running = fd.kscan(3, padding="same", relative=True, scan_kwargs={"reverse": True})(lambda x: x[0] + x[1])
    assert_array_equal(running(ROW), np.cumsum(ROW[::-1])[::-1])


def test_dtypes():
    whole = jnp.array([1, 2, 4, 8])
    assert fd.kmap(2)(jnp.mean)(whole).dtype == jnp.result_type(float)
    scanned = fd.kscan(2, relative=True)(lambda x: x[0].astype(float) * 0.75 + x[1].astype(float))(whole)
    assert scanned.dtype == whole.dtype
    assert_array_equal(scanned, [2, 5, 11])
    assert_array_equal(fd.sscan(1)(lambda x: x[0] / 2)(whole), [0, 1, 2, 4])
    assert_array_equal(fd.smap(1)(lambda x: x[0] / 2)(whole), [0, 1, 2, 4])
    mixed = fd.kmap(1)
    mixed[:] = lambda x: x[0]
    mixed[1] = lambda x: 90
    single = mixed(jnp.ones(3, jnp.float32))
    assert single.dtype == jnp.float32
    assert_array_equal(single, [1, 90, 1])


def test_complex_arrays():
    values = ROW * (0.3 + 0.2j)
    rules = [lambda x, xp: 0.5 * x[-1] + 1j * x[1], lambda x, xp: xp.conj(x[0])]
    case = Case(values, (3,), (1,), ((1, 1),), True, rules, [slice(None), 3])
    assert_allclose(case.windows(fd.kscan, "same")(values), case.run(in_order=True), rtol=1e-12)


def test_extra_arguments_arrive_whole_and_carry_gradients():
    def weigh(x, w, scale=1.0, *, shift):
        return jnp.sum(x * w["w"]) * scale + shift

    weights = {"w": jnp.array([0.3, -0.2, 0.7])}
    for kind in (fd.kmap, fd.kscan):
        windows = kind(kernel_size=3, padding="same")(weigh)
        rule = lambda x, xp: xp.sum(x * np.array([0.3, -0.2, 0.7])) * 0.4 + 0.9  # noqa: E731
        case = Case(ROW, (3,), (1,), ((1, 1),), False, [rule], [Ellipsis])
        expected = case.run(in_order=kind is fd.kscan)
        assert_allclose(windows(ROW, weights, 0.4, shift=0.9), expected, rtol=1e-12)
        assert_allclose(jax.jit(windows)(ROW, weights, 0.4, shift=0.9), expected, rtol=1e-12)
        batch = jax.vmap(lambda s, run=windows: run(ROW, weights, s, shift=0.9))(jnp.array([0.4, 0.5]))
        assert_allclose(batch[0], expected, rtol=1e-12)

        def loss(s, run=windows):
            return run(ROW, weights, s, shift=0.9).sum()

        slope = (loss(0.4 + 1e-6) - loss(0.4 - 1e-6)) / 2e-6
        assert_allclose(jax.grad(loss)(0.4), slope, rtol=1e-7)


def test_printed_form():
    windows = fd.sscan(kernel_size=(3,), offset=1, named_axis={0: "i"})
    assert repr(windows) == "sscan(kernel_size=(3,), strides=1, offset=1, relative=False, named_axis={0: 'i'})"
    windows[0] = total
    assert repr(windows).endswith(" with 1 assigned regions")
