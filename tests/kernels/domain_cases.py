"""Operations on partial, ragged and grouped domains: random input, and the answers by loops over points in NumPy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fdsolve as fd


@dataclass(frozen=True)
class Case:
    """A call of an operation, `run(kernel, *operands)`, and what it gives; `traced` go along as operands of jit."""

    operation: str
    run: Callable[..., Any]
    operands: tuple[np.ndarray, ...]
    answer: np.ndarray
    traced: tuple[np.ndarray, ...] = ()


def far_value(values, place, ends):
    """A value beyond the ends of a domain, by walking back into it."""
    place, sign = list(place), 1.0
    for axis, (n, end) in enumerate(zip(values.shape, ends, strict=False)):
        i = place[axis]
        while not 0 <= i < n:
            if end == "zero":
                return 0.0 * values[(0,) * len(place)]
            if end == "periodic":
                i += n if i < 0 else -n
            elif end == "reflect":
                i = 0 if n == 1 else -i if i < 0 else 2 * (n - 1) - i
            else:
                i = -1 - i if i < 0 else 2 * n - 1 - i
                sign = -sign if end == "antisymmetric" else sign
        place[axis] = i
    return sign * values[tuple(place)]


def apply_stencil(stencil, values, ends):
    """A constant stencil on all of a domain."""
    rank = len(next(iter(stencil)))
    points = np.ndindex(*values.shape[:rank])
    found = [sum(w * far_value(values, np.add(p, o), ends) for o, w in stencil.items()) for p in points]
    return np.asarray(found).reshape(values.shape)


def recurrences(rng):
    a, b, first = rng.normal(size=(7, 3)), rng.normal(size=(7, 3)), rng.normal(size=3)
    answer, u = np.zeros((7, 3)), first
    for n in range(7):
        answer[n] = u = a[n] * u + b[n]

    def numbers(kernel, a, b, first):
        return fd.kernels.recurrence(a, b, first, kernel=kernel)

    yield Case("recurrence", numbers, (a, b, first), answer)
    a, b = rng.normal(size=(2, 7, 3, 3)), rng.normal(size=(2, 7, 3))
    answer, u = np.zeros((2, 7, 3)), np.zeros((2, 3))
    for n in reversed(range(7)):
        answer[:, n] = u = np.einsum("bij,bj->bi", a[:, n], u) + b[:, n]

    def vectors(kernel, a, b):
        return fd.kernels.recurrence(a, b, axis=1, reverse=True, kernel=kernel)

    yield Case("recurrence", vectors, (a, b), answer)


POOLS = (
    ((2, 3), None, 0, "mean"),
    ((2, 3), None, 0, "max"),
    ((3, 2), (1, 2), ((1, 0), (0, 2)), "min"),
    ((2, 2), (3, 3), 0, "sum"),
)


def pools(rng):
    for window, strides, padding, reduce in POOLS:
        values, active = rng.normal(size=(7, 8)), rng.random((7, 8)) > 0.4
        active[:3, :4] = False
        values[4, 4], active[4, 4:6] = values[4, 5], True  # a tie
        u, held = np.pad(values, padding), np.pad(active, padding)
        steps = strides or window
        answer = np.full([(n - w) // s + 1 for n, w, s in zip(u.shape, window, steps, strict=True)], 7.0)
        for place in np.ndindex(*answer.shape):
            spans = tuple(slice(i * s, i * s + w) for i, s, w in zip(place, steps, window, strict=True))
            inside = u[spans][held[spans]]
            if reduce == "sum" or inside.size:
                answer[place] = getattr(np, reduce)(inside)
        options = {"window": window, "strides": strides, "padding": padding, "reduce": reduce, "empty": 7.0}

        def run(kernel, values, active, options=options):
            return fd.kernels.pool(values, active=active, kernel=kernel, **options)

        yield Case("pool", run, (values,), answer, (active,))


def raggeds(rng):
    names = ("zero", "periodic", "reflect", "symmetric", "antisymmetric")
    lines, boxes = [(5,), (1,), (9,), (2,), (5,)], [(3, 4), (2, 2), (3, 4), (1, 5)]
    for shapes, offsets in ((lines, [(-3,), (0,), (1,), (4,)]), (boxes, [(0, 0), (-2, 1), (3, -1)])):
        weights, ends = rng.normal(size=len(offsets)), names[1 : len(shapes) + 1] if len(shapes) < 5 else names
        packed = rng.normal(size=(sum(map(np.prod, shapes)), 2))
        stencil, answer, start = dict(zip(offsets, weights, strict=True)), [], 0
        for shape, end in zip(shapes, ends, strict=True):
            size = int(np.prod(shape))
            block = packed[start : start + size].reshape(*shape, 2)
            answer.append(apply_stencil(stencil, block, (end,) * len(shape)).reshape(size, 2))
            start += size
        answer = np.concatenate(answer)

        def known(kernel, packed, weights, args=(shapes, offsets, ends)):
            shapes, offsets, ends = args
            stencil = dict(zip(offsets, weights, strict=True))
            return fd.kernels.ragged(stencil, packed, shapes, boundary=ends, kernel=kernel)

        yield Case("ragged", known, (packed, weights), answer)
        if shapes is lines:

            def traced(kernel, packed, weights, lengths, args=(offsets, ends)):
                stencil = dict(zip(args[0], weights, strict=True))
                return fd.kernels.ragged(stencil, packed, lengths, boundary=args[1], kernel=kernel)

            more = np.concatenate([packed, np.ones((3, 2))]), weights
            longer = np.concatenate([answer, np.zeros((3, 2))])
            yield Case("ragged", traced, more, longer, (np.asarray([n for (n,) in shapes]),))


def groupeds(rng):
    offsets, groups, shape = ((0, 0), (1, -1), (-2, 0)), 3, (12, 13)
    for matrix in ((), (2, 3), (9, 8)):
        labels = rng.integers(-1, groups, size=shape)
        weights = rng.normal(size=(3, groups, *matrix))
        values = rng.normal(size=shape + matrix[1:])
        answer = np.zeros(shape + matrix[:1])
        for p in np.argwhere(labels >= 0):
            for offset, table in zip(offsets, weights, strict=True):
                value, weight = far_value(values, p + offset, ("symmetric", "periodic")), table[labels[tuple(p)]]
                answer[tuple(p)] += weight @ value if matrix else weight * value

        def run(kernel, values, weights, labels):
            stencil = dict(zip(offsets, weights, strict=True))
            return fd.kernels.grouped(stencil, values, labels, boundary=("symmetric", "periodic"), kernel=kernel)

        yield Case("grouped", run, (values, weights), answer, (labels,))


def block_sparses(rng):
    offsets, ends, shape = ((0, 0), (1, -1), (-2, 0)), ("antisymmetric", "periodic"), (21, 18)
    values, weights, other = rng.normal(size=shape), rng.normal(size=3), rng.normal(size=shape)
    few = np.zeros(shape, bool)
    few[3:9, 4] = few[20, 17] = True
    tiles = rng.random((6, 4)) > 0.5
    full = apply_stencil(dict(zip(offsets, weights, strict=True)), values, ends)
    for active, capacity in ((few, None), (few, 1), (tiles, 24)):
        held = active if active.shape == shape else active.repeat(4, 0).repeat(5, 1)[:21, :18]

        def run(kernel, values, weights, other, active, capacity=capacity):
            stencil = dict(zip(offsets, weights, strict=True))
            options = {"tile": (4, 5), "boundary": ends, "elsewhere": other, "capacity": capacity, "kernel": kernel}
            return fd.kernels.block_sparse(stencil, values, active, **options)

        yield Case("block_sparse", run, (values, weights, other), np.where(held, full, other), (active,))


def all_cases(seed):
    """The cases of every operation."""
    rng = np.random.default_rng(seed)
    return [case for make in (recurrences, pools, raggeds, groupeds, block_sparses) for case in make(rng)]
