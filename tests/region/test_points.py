"""Point sets against NumPy masks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fdsolve.region import Box, Boxes, Points, merge_boxes

SHAPE = (5, 6)
WHOLE = Box.of_shape(SHAPE)


@st.composite
def boxes(draw):
    start = [draw(st.integers(0, n - 1)) for n in SHAPE]
    stop = [draw(st.integers(a + 1, n)) for a, n in zip(start, SHAPE, strict=True)]
    return Box(tuple(start), tuple(stop))


@st.composite
def point_sets(draw):
    if draw(st.booleans()):
        return Points.of_box(draw(boxes()))
    bits = draw(st.lists(st.booleans(), min_size=30, max_size=30))
    return Points.of_mask(WHOLE, np.array(bits).reshape(SHAPE))


def mask_of(points):
    return points.to_mask(WHOLE)


@given(st.lists(boxes(), max_size=5), boxes(), st.integers(0, 1))
def test_boxes_that_meet(some, other, first):
    sides = [Box(box.start[first:], box.stop[first:]) for box in (*some, other)]
    wanted = [k for k, box in enumerate(sides[:-1]) if box.meets(sides[-1])]
    asked = Boxes(some)
    assert asked.meeting(other, first) == wanted
    assert asked.meet(other) == any(box.meets(other) for box in some)
    assert list(asked) == some


@given(point_sets(), point_sets())
def test_algebra_equals_that_of_masks(a, b):
    first, second = mask_of(a), mask_of(b)
    np.testing.assert_array_equal(mask_of(a.union(b)), first | second)
    np.testing.assert_array_equal(mask_of(a.intersect(b)), first & second)
    np.testing.assert_array_equal(mask_of(a.subtract(b)), first & ~second)
    assert a.union(b).count == (first | second).sum()
    assert a.contains(b) == bool((second <= first).all())


@given(point_sets(), point_sets(), point_sets())
def test_parts_stay_disjoint(a, b, c):
    combined = a.union(b).subtract(c)
    assert sum(part.count for part in combined.parts) == mask_of(combined).sum()


@given(st.lists(boxes(), min_size=1, max_size=4))
def test_merging_keeps_the_points(some):
    disjoint = []
    for box in some:
        pieces = [box]
        for other in disjoint:
            pieces = [part for piece in pieces for part in piece.subtract(other)]
        disjoint.extend(pieces)
    merged = merge_boxes(disjoint)
    assert len(merged) <= len(disjoint)
    assert sum(box.size for box in merged) == sum(box.size for box in disjoint)
    before, after = np.zeros(SHAPE, bool), np.zeros(SHAPE, bool)
    for box in disjoint:
        before[box.slices((0, 0))] = True
    for box in merged:
        assert not after[box.slices((0, 0))].any()
        after[box.slices((0, 0))] = True
    np.testing.assert_array_equal(before, after)


def test_a_mask_that_fills_its_box_is_a_box():
    mask = np.zeros(SHAPE, bool)
    mask[1:4, 2:5] = True
    (part,) = Points.of_mask(WHOLE, mask).parts
    assert part.mask is None
    assert part.box == Box((1, 2), (4, 5))
