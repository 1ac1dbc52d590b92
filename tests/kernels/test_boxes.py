"""Cutting boxes out of an array and joining them: values, gradients of any order and batches against plain slices."""

from importlib.metadata import version
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from fdsolve.kernels import _box_sums, cut_boxes, join_boxes, put_boxes
from fdsolve.region import Box

OVERLAPPING = (Box((0, 1), (3, 3)), Box((2, 0), (5, 2)))
APART = (Box((0, 1), (3, 3)), Box((4, 2), (7, 4)))
MEETING = (Box((0, 1), (3, 3)), Box((2, 2), (5, 4)))


def by_boxes(array, places):
    first, second = cut_boxes(array, OVERLAPPING)
    return (join_boxes([first**2, first * second], places, (8, 5)) ** 2).sum()


def by_slices(array, places):
    first, second = array[0:3, 1:3], array[2:5, 0:2]
    total = jnp.zeros((8, 5))
    for value, box in zip((first**2, first * second), places, strict=True):
        total = total.at[box.slices((0, 0))].add(value)
    return (total**2).sum()


def by_put(array, places):
    first, second = array[0:3, 1:3], array[2:5, 0:2]
    return (put_boxes(jnp.pad(array, [(0, 3), (0, 1)]), [first**2, first * second], places) ** 2).sum()


def by_updates(array, places):
    first, second = array[0:3, 1:3], array[2:5, 0:2]
    total = jnp.pad(array, [(0, 3), (0, 1)])
    for value, box in zip((first**2, first * second), places, strict=True):
        total = total.at[box.slices((0, 0))].set(value)
    return (total**2).sum()


VALUES = jnp.cos(jnp.arange(20.0).reshape(5, 4)) + 1.7
TRANSFORMS = {
    "value": lambda f: f(VALUES),
    "jit": lambda f: jax.jit(f)(VALUES),
    "gradient": lambda f: jax.grad(f)(VALUES),
    "tangent": lambda f: jax.jvp(f, (VALUES,), (0.3 * VALUES,))[1],
    "hessian": lambda f: jax.hessian(f)(VALUES),
    "reverse twice": lambda f: jax.jacrev(jax.grad(f))(VALUES),
    "batch": lambda f: jax.vmap(f, in_axes=2)(jnp.stack([VALUES, 2 * VALUES], 2)),
    "gradients of a batch": lambda f: jax.vmap(jax.grad(f))(jnp.stack([VALUES, 2 * VALUES])),
    "rematerialised": lambda f: jax.grad(jax.checkpoint(f))(VALUES),
}


@pytest.mark.parametrize("places", [APART, MEETING], ids=["apart", "meeting"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_boxes_are_slices(name, places):
    found, expected = (TRANSFORMS[name](lambda a, f=f: f(a, places)) for f in (by_boxes, by_slices))
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_boxes_put_at_once_are_updates_one_by_one(name):
    found, expected = (TRANSFORMS[name](lambda a, f=f: f(a, APART)) for f in (by_put, by_updates))
    assert_allclose(found, expected, rtol=1e-12)


def test_large_boxes_and_small_ones_join():
    boxes = (Box((0, 0), (7, 8)), Box((1, 0), (8, 8)), Box((0, 3), (2, 4)), Box((1, 2), (3, 4)))
    values = [jnp.cos(jnp.arange(1.0 + box.size)[1:]).reshape(box.shape) for box in boxes]
    expected = np.zeros((8, 8))
    for value, box in zip(values, boxes, strict=True):
        expected[box.slices((0, 0))] += value
    assert_allclose(join_boxes(values, boxes, (8, 8)), expected, rtol=1e-14)


def random_boxes(shape, rng):
    """Most of the array, moved a little; columns at its ends, rows, corners, single points; anything."""
    reach = [int(rng.integers(1, 4)) for _ in shape]
    inner = Box(tuple(reach), tuple(n - r for n, r in zip(shape, reach, strict=True)))
    boxes = [inner.shift(tuple(int(rng.integers(-r, r + 1)) for r in reach)) for _ in range(int(rng.integers(0, 6)))]
    for _ in range(int(rng.integers(1, 24))):
        starts = [int(rng.integers(n)) for n in shape]
        stops = [min(n, a + int(rng.choice([1, 2, n]))) for n, a in zip(shape, starts, strict=True)]
        boxes.append(Box(tuple(starts), tuple(stops)))
    return [boxes[k] for k in rng.permutation(len(boxes))]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("lead", [0, 1])
@pytest.mark.parametrize("shape", [(40,), (6, 5), (24, 150), (150, 9), (7, 8, 40)], ids=str)
def test_boxes_of_all_kinds_are_added_up_on_every_platform(shape, lead, nested, split, monkeypatch):
    if split:
        monkeypatch.setattr(_box_sums, "SPLIT", 1)
    for seed in range(4):
        monkeypatch.setattr(_box_sums, "NEAR", (256, 8)[seed % 2])
        rng = np.random.default_rng(seed)
        boxes, front = random_boxes(shape, rng), (3,) * lead
        boxes += [Box((0,) * len(shape), shape)] * split
        values = [rng.standard_normal((*front, *box.shape)) for box in boxes]
        expected = np.zeros((*front, *shape))
        for value, box in zip(values, boxes, strict=True):
            expected[(slice(None),) * lead + tuple(map(slice, box.start, box.stop))] += value
        given = dict(boxes=tuple(boxes), shape=(*front, *shape), lead=lead, nested=nested, weighed=seed > 1)
        for run in (_box_sums.join_in_one_loop, _box_sums.join_on_cpu):
            found = run(*map(jnp.asarray, values), **given)
            assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def beside_a_corner(size):
    """A large box, and points beside a corner along each axis, as reads of wide stencils between walls are."""
    boxes = [Box((3,) * 3, (size - 3,) * 3)]
    for axis in range(3):
        for move in range(6):
            start = tuple(1 + move * (k == axis) for k in range(3))
            boxes.append(Box(start, tuple(a + 1 for a in start)))
    return boxes


def compiled_join(boxes, shape):
    def run(total, other, kept):  # what a march adds, level by level, to what further ones gave
        def level(total, kept):
            values = [other[box.slices((0,) * len(shape))] * one for box, one in zip(boxes, kept, strict=True)]
            return total + join_boxes(values, boxes, shape), None

        return jax.lax.scan(level, total, kept)[0]

    kept = [jax.ShapeDtypeStruct((5, *box.shape), jnp.float32) for box in boxes]
    whole = jax.ShapeDtypeStruct(shape, jnp.float32)
    return jax.jit(run).lower(whole, whole, kept).compile().as_text()


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="how XLA compiles loops on a CPU")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_boxes_one_row_apart_are_added_up_where_loops_are_vectorised(column, dtype):
    """As XLA compiles by default, which tests otherwise do not."""
    shape, inner, cell, at = (46, 24), (40, 8), (6, 6), (3, 12)
    boxes = tuple(Box((row, column), (row + 6, column + 6)) for row in (3, 4))

    def run(rest, layer, weights, values):  # what comes back to a layer of a layer
        back = weights * values
        moved = [back * jnp.asarray(factor, dtype) for factor in (1.5, 2.5)]
        wholes = [Box((0, 0), one.shape) for one in (rest, layer)]
        given = dict(lead=0, nested=True, weighed=False)
        layer = _box_sums.join_on_cpu(layer, *moved, boxes=(wholes[1], *boxes), shape=inner, **given)
        around = Box(at, tuple(map(sum, zip(at, inner, strict=True))))
        return _box_sums.join_on_cpu(rest, layer, boxes=(wholes[0], around), shape=shape, **given)

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(size).astype(dtype) for size in (shape, inner, cell, cell)]
    options = {"xla_backend_optimization_level": 3}
    if version("jaxlib").startswith("0.10."):  # newer ones stop at the flag
        options["xla_cpu_use_fusion_emitters"] = True
    found = jax.jit(run).lower(*arrays).compile(compiler_options=options)(*arrays)
    expected, layer = arrays[0].copy(), arrays[1].copy()
    for factor, box in zip((1.5, 2.5), boxes, strict=True):
        layer[box.slices((0, 0))] += factor * arrays[2] * arrays[3]
    expected[3:43, 12:20] += layer
    assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weighed", [False, True])
def test_what_lies_along_the_walls_is_put_with_what_large_boxes_give_there(weighed):
    """No loop over all entries adds values to a few columns."""
    inner = Box((2, 2), (62, 62))
    moved = [inner.shift(by) for by in ((0, -1), (0, 1), (-1, 0), (1, 0))]
    walls = [Box((2, k), (62, k + 1)) for k in (1, 2, 61, 62)] + [Box((k, 2), (k + 1, 62)) for k in (1, 2, 61, 62)]
    boxes = [inner, *moved, *walls]
    given = dict(boxes=tuple(boxes), shape=(64, 64), lead=0, nested=False, weighed=weighed)
    values = [jax.ShapeDtypeStruct(box.shape, jnp.float32) for box in boxes]
    program = jax.make_jaxpr(lambda *some: _box_sums.join_on_cpu(*some, **given))(*values)
    read = {one for made in program.eqns if made.primitive.name == "slice" for one in made.invars}
    put = [made for made in program.eqns if made.primitive.name == "dynamic_update_slice"]
    whole = [made for made in put if made.outvars[0].aval.shape == (64, 64) and made.invars[1].aval.size > 1]
    assert whole
    assert not [made for made in whole if made.invars[0] in read]


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="how XLA fuses loops on a CPU")
def test_values_beside_a_corner_take_one_loop():
    found = compiled_join(beside_a_corner(32), (32,) * 3)
    assert found.count(" dynamic-update-slice(") == 1


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="how XLA fuses loops on a CPU")
def test_no_loop_over_all_entries_asks_for_every_box():
    ends = ((0, 1), (1, 39), (39, 40))
    boxes = [Box(*zip(*sides, strict=True)) for sides in product(ends, repeat=3)]
    found = compiled_join(boxes, (40,) * 3)
    fused = [one for one in found.split("\n\n") if one.strip().startswith("%fused_computation")]
    assert max(one.count(" dynamic-update-slice(") for one in fused) <= 2


def test_what_reads_along_an_axis_take_from_a_layer_is_added_up_in_one_loop():
    """Of order 4 in three axes: a loop for each axis rather than for each read, and none along two axes at once."""
    cell = Box((2,) * 3, (14,) * 3)
    moves = [
        tuple(move * (k == axis) for k in range(3)) for axis in range(3) for move in range(-2, 3) if move or not axis
    ]
    placed = [(jnp.ones(cell.shape), cell.shift(by)) for by in moves]
    groups = _box_sums._near(placed)
    assert [len(group) for group in groups] == [5, 4, 4]
    hulls = [_box_sums._hull([box for _, box in group]) for group in groups]
    assert [hull.shape for hull in hulls] == [(16, 12, 12), (12, 16, 12), (12, 12, 16)]


def test_no_part_of_a_large_array_reaches_over_the_edge_of_the_points_own_box(monkeypatch):
    monkeypatch.setattr(_box_sums, "SPLIT", 1)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        shape = tuple(int(rng.integers(9, 30)) for _ in range(int(rng.integers(1, 4))))
        reach = [int(rng.integers(1, 3)) for _ in shape]
        own = Box(tuple(reach), tuple(n - r for n, r in zip(shape, reach, strict=True)))
        moved = [own.shift(tuple(-r if a == k else 0 for a in range(own.ndim))) for k, r in enumerate(reach)]
        whole, core = Box((0,) * own.ndim, shape), own
        for box in moved:
            core = core.intersect(box)
        parts = _box_sums._parts_around(core, [*moved, own, whole], whole)
        assert sum(part.size for part in parts) == whole.size
        assert all(part.intersect(own) == part or part.intersect(own).empty for part in parts)


def test_values_put_on_what_does_not_move_and_the_other_way_round():
    array, values = jnp.ones((8, 5)), [jnp.full(box.shape, 2.0) for box in APART]
    weights = jnp.cos(jnp.arange(40.0)).reshape(8, 5)
    of_values = jax.grad(lambda v: (put_boxes(array, v, APART) * weights).sum())(values)
    for found, box in zip(of_values, APART, strict=True):
        assert_allclose(found, weights[box.slices((0, 0))])
    of_array = jax.grad(lambda a: (put_boxes(a, values, APART) * weights).sum())(array)
    assert_allclose(of_array, put_boxes(weights, [jnp.zeros(box.shape) for box in APART], APART))
    moved = jax.vmap(lambda a: put_boxes(a, values, APART))(jnp.stack([array, 3 * array]))
    assert_allclose(moved.sum((1, 2)), [28 + 2 * 12, 3 * 28 + 2 * 12])


def test_one_of_two_boxes_used_and_one_batched():
    gradient = jax.grad(lambda a: cut_boxes(a, OVERLAPPING)[1].sum())(VALUES)
    expected = np.zeros((5, 4))
    expected[2:5, 0:2] = 1
    assert_allclose(gradient, expected)
    fixed, moved = jnp.ones((3, 2)), np.stack([np.full((3, 2), 2.0), np.full((3, 2), 3.0)])
    joined = jax.vmap(lambda value: join_boxes([fixed, value], APART, (8, 5)))(moved)
    assert_allclose(joined.sum((1, 2)), [18, 24])


def test_values_outside_of_a_program_are_compiled_once(monkeypatch):
    made = []
    jit = jax.jit
    monkeypatch.setattr(jax, "jit", lambda *given, **options: made.append(given) or jit(*given, **options))
    boxes = Box((0, 1), (3, 3)), Box((1, 1), (4, 3))
    first, again = (cut_boxes(jnp.arange(20.0).reshape(4, 5) + k, boxes) for k in (0, 1))
    assert len(made) <= 1 and all((b == a + 1).all() for a, b in zip(first, again, strict=True))
