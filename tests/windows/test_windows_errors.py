"""Each misuse of windows has a message that says what was wanted, what was got and what to do."""

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.windows import kernel_map, kernel_scan

TABLE = np.arange(30.0).reshape(5, 6)


def corner(x):
    return x[0, 0]


def far(x):
    return x[2, 0]


def use(kind=fd.kmap, function=corner, array=TABLE, **options):
    return kind(**{"kernel_size": (3, 3), **options})(function)(array)


@pytest.mark.parametrize("kind", [fd.kmap, fd.kscan, fd.smap, fd.sscan])
@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (
            far,
            {"relative": True},
            r"Function `far` reads x\[2, 0\], outside .* offsets from the centre -1 … 1 on axis 0",
        ),
        (lambda x: x[0, 5], {}, r"The lambda of line \d+ reads x\[0, 5\], outside .* entries 0 … 2 on axis 1, got 5"),
        (lambda x: x[-4, 0], {}, r"reads x\[-4, 0\], outside"),
        (lambda x: x[..., 3], {}, r"reads x\[\.\.\., 3\], outside .* on axis 1"),
        (lambda x: x[-2, 0], {"relative": True}, r"reads x\[-2, 0\], outside"),
        (lambda x: x[0:2, 0].sum(), {"relative": True}, r"reads x\[0:2, 0\]: a slice has no meaning"),
        (
            lambda x: x["i+2", "n"],
            {"relative": True, "named_axis": {0: "n", 1: "i"}},
            r"x\['i\+2', 'n'\], outside .* -1 … 1 on axis 1, got 2",
        ),
        (lambda x: x["i+3", "n"], {"named_axis": {0: "n", 1: "i"}}, r"outside .* entries 0 … 2 on axis 1, got 3"),
        (lambda x: x["i-1", "n"], {"named_axis": {0: "n", 1: "i"}}, r"outside .* got -1"),
        (lambda x: x["i", "m"], {"named_axis": {0: "n", 1: "i"}}, r"no axis `m`. Named axes: n, i"),
        (lambda x: x["i", "i"], {"named_axis": {0: "n", 1: "i"}}, r"with axis `i` twice"),
        (lambda x: x["i+-1", "n"], {"named_axis": {0: "n", 1: "i"}}, r"cannot read 'i\+-1'"),
        (lambda x: x["i"], {"named_axis": {0: "n", 1: "i"}}, r"wanted 2 entries: x\[\"n\", \"i\"\]"),
        (lambda x: x["i", 0], {"named_axis": {1: "i"}}, r"entry 0 must be an integer, for example x\[0, \"i\"\]"),
        (corner, {"named_axis": {2: "i"}}, r"named_axis names axis 2 of an array with 2 axes"),
        (corner, {"named_axis": {0: "i", 1: "i"}}, r"gives two axes one name"),
        (corner, {"named_axis": {0: "i+1"}}, r"a name is an identifier"),
        (corner, {"kernel_size": (3,)}, r"kernel_size=\(3,\) has 1 entries, the array of shape \(5, 6\) has 2 axes"),
        (corner, {"kernel_size": (3, 0)}, r"kernel_size takes positive integers, or -1"),
        (corner, {"kernel_size": 1.5}, r"kernel_size takes an integer or a tuple of integers, got 1.5"),
        (corner, {"strides": 0}, r"strides takes positive integers"),
        (corner, {"strides": (1, 1, 1)}, r"strides=\(1, 1, 1\) has 3 entries"),
        (lambda x: None, {}, r"returned nothing"),
        (lambda x: (x[0, 0], 1), {}, r"returned a tuple"),
    ],
)
def test_functions_and_arguments(kind, function, options, message):
    with pytest.raises(fd.DeclarationError, match=message):
        use(kind, function, **options)


@pytest.mark.parametrize("kind", [fd.kmap, fd.kscan])
@pytest.mark.parametrize(
    ("padding", "message"),
    [
        ("wide", 'padding takes "same" or "valid" as words'),
        ((1, "wide"), 'padding takes "same" or "valid" as words'),
        ((1, 1, 1), "padding=.* has 3 entries for a window of 2 axes"),
        (((1, 2, 3), 1), r"padding takes an integer, a pair .* got \(1, 2, 3\)"),
        (1.5, "padding takes an integer"),
        (-2, r"No window of kernel_size=\(3, 3\) fits into an array of shape \(5, 6\) with padding=-2"),
    ],
)
def test_padding(kind, padding, message):
    with pytest.raises(fd.DeclarationError, match=message):
        use(kind, padding=padding)


@pytest.mark.parametrize("kind", [fd.smap, fd.sscan])
@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (-1, "offset takes integers that are not negative"),
        (((0, -1), 0), "offset takes integers that are not negative"),
        ("same", r"offset takes an integer or a pair \(before, after\)"),
        (3, "No window of .* offset=3"),
    ],
)
def test_offset(kind, offset, message):
    with pytest.raises(fd.DeclarationError, match=message):
        use(kind, offset=offset)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (5, r"F\[5\]: index 5 lies outside an axis of 5 points"),
        ((0, -7), r"F\[0, -7\]: index -7 lies outside an axis of 6 points"),
        ((slice(1, None, 2), 0, 0), r"F\[1::2, 0, 0\] has 3 entries, the array of shape \(5, 6\) 2 axes"),
        ((Ellipsis, Ellipsis), r"an index has one `...` at most"),
        ("i", r"an index is an integer, a slice, a list of integers or `...`"),
        (1.5, r"holds 1.5; an index is an integer"),
    ],
)
def test_regions(index, message):
    windows = fd.kmap(kernel_size=1)
    windows[index] = corner
    with pytest.raises(fd.DeclarationError, match=message):
        windows(TABLE)


def test_results():
    windows = fd.kmap(kernel_size=(3, 3))
    windows[:] = corner
    windows[2] = lambda x: x[0]
    with pytest.raises(fd.DeclarationError, match=r"different shapes: Function `corner` \(\), The lambda .* \(3,\)"):
        windows(TABLE)
    for kind in (fd.kscan, fd.smap, fd.sscan):
        with pytest.raises(fd.DeclarationError, match=r"shape \(3,\); the output must be scalar here"):
            use(kind, lambda x: x[0])
        with pytest.raises(fd.DeclarationError, match="complex value for an array of dtype float64; pass a complex"):
            use(kind, lambda x: x[0, 0].astype(complex))


def test_objects():
    with pytest.raises(fd.DeclarationError, match=r"map_kind takes 'vmap', 'lmap', 'pmap', got 'map'"):
        fd.kmap(map_kind="map")
    with pytest.raises(fd.DeclarationError, match=r"scan_kind takes 'scan', got 'map'"):
        fd.sscan(scan_kind="map")
    windows = fd.kmap(kernel_size=1)
    with pytest.raises(fd.DeclarationError, match="No function is assigned"):
        windows(TABLE)
    with pytest.raises(fd.DeclarationError, match="a region takes a function of a window"):
        windows[0] = 3.0
    with pytest.raises(fd.DeclarationError, match="called with an array, or with a function"):
        windows()
    windows[...] = corner
    with pytest.raises(fd.DeclarationError, match="takes an array or a function, got str"):
        windows("table")


def test_function_tables():
    with pytest.raises(fd.DeclarationError, match="table of functions is empty"):
        kernel_map({}, (5,), (3,), (1,), 0)
    with pytest.raises(fd.DeclarationError, match="holds 3, which is no function"):
        kernel_scan({3: ()}, (5,), (3,), (1,), 0)
    with pytest.raises(fd.DeclarationError, match="key of a function table holds an index"):
        kernel_map({corner: [("a",)]}, (5,), (3,), (1,), 0)
    with pytest.raises(fd.DeclarationError, match="has a positive step"):
        kernel_map({corner: [((0, 4, -1),)]}, (5,), (3,), (1,), 0)
    with pytest.raises(fd.DeclarationError, match=r"Made for arrays of shape \(5,\), got one of shape \(6,\)"):
        kernel_map({lambda x: x[0]: ()}, (5,), (3,), (1,), 0)(jnp.ones(6))
