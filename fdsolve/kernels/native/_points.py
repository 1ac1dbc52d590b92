"""Functions of scalars at all points of a box, computed in one loop, whatever number of results they have.

XLA on a CPU computes each result in a loop of its own, with all that leads to it, and takes the values that are read
at an offset out of their arrays before.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import batching, mlir
from llvmlite import binding, ir

from .._level import vectorise_function
from .._window import Window
from ._code import POINTER, VOID, Code, Number, text_of
from ._handler import Buffers, data_of, write_entry
from ._layout import LINE
from ._objects import register_target
from ._processors import num_threads
from ._scalar import I64, Scalars, load_entry, stored_type, unsupported

BLOCK, SEGMENT = 16, 2**12
"""Points that a loop computes at a time, the last ones again where they do not fill a block; and those of a longer row
that a thread takes at a time."""
MUCH, PARTS = 2**18, 4
"""Operations at all points that are worth a further thread; parts of the points for each, one taken after the other."""
MOST = 2**31
"""Entries of an array, since settings are 32-bit numbers."""
_FIXED = ("share", "halos", "last", "segments")

_points = jex.Primitive("fdsolve_points")
_points.multiple_results = True


def serves(closed: jex.ClosedJaxpr, arrays: Sequence[Any], shape: tuple[int, ...]) -> bool:
    """Whether there is code for a scalar jaxpr on a box, of what lies in these arrays."""
    largest = max(prod(shape), *(jnp.size(one) for one in arrays))
    return bool(shape) and prod(shape) > 0 and largest < MOST and _has_code(closed)


@lru_cache(maxsize=1024)
def _has_code(closed: jex.ClosedJaxpr) -> bool:
    return not closed.consts and unsupported(closed.jaxpr) is None


def evaluate_points(
    closed: jex.ClosedJaxpr, arrays: Sequence[jax.Array], windows: tuple[Window, ...], shape: tuple[int, ...]
) -> list[jax.Array]:
    """The results at all points of a box, of values that lie so in arrays. Has no derivative."""
    return _points.bind(*arrays, closed=closed, windows=windows, shape=shape)


def _plainly(*arrays: Any, closed: jex.ClosedJaxpr, windows: Any, shape: tuple[int, ...]) -> list[Any]:
    values = [one.of(arrays, shape) for one in windows]
    return vectorise_function(jex.jaxpr_as_fun(closed), values, [one.flags for one in windows], shape)


def _shapes(*avals: Any, closed: jex.ClosedJaxpr, windows: Any, shape: tuple[int, ...]) -> list[Any]:
    return [ShapedArray(shape, one.dtype) for one in closed.out_avals]


def _batch(
    arrays: Sequence[Any], axes: Sequence[Any], *, closed: jex.ClosedJaxpr, windows: Any, shape: tuple[int, ...]
) -> tuple[list[Any], list[int]]:
    size = next(x.shape[d] for x, d in zip(arrays, axes, strict=True) if d is not None)
    own = [d is not None for d in axes]
    first = [jnp.moveaxis(x, d, 0) if here else x for x, d, here in zip(arrays, axes, own, strict=True)]
    moved = (Window(w.place, (own[w.place], *w.flags), (*(0,) * own[w.place], *w.start)) for w in windows)
    out = evaluate_points(closed, first, tuple(moved), (size, *shape))
    return out, [0] * len(out)


def _on_cpu(*arrays: Any, closed: jex.ClosedJaxpr, windows: Any, shape: tuple[int, ...]) -> list[Any]:
    work, parts = prod(shape) * len(closed.jaxpr.eqns), -(-shape[-1] // SEGMENT)
    threads = max(1, min(num_threads(), work // MUCH))
    settings = [0, 0, shape[-1], parts, *shape[:-1]]
    for one in windows:
        settings += _offsets(one, arrays[one.place].shape)
    settings += [1, threads if threads == 1 else PARTS * threads, threads]
    results = [jax.ShapeDtypeStruct((LINE,), np.uint8)]
    results += [jax.ShapeDtypeStruct(shape, one.dtype) for one in closed.out_avals]
    about = tuple((one.place, one.flags[-1]) for one in windows)
    target = _target(closed, about, len(arrays), len(shape))
    return list(jax.ffi.ffi_call(target, results)(*arrays, np.asarray(settings, np.int32)))[1:]


def _offsets(window: Window, shape: tuple[int, ...]) -> Iterator[int]:
    """Entries of an array from its first to the window's, and from one to the next along all axes of the box but the
    last."""
    strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
    yield sum(a * b for a, b in zip(window.start, strides, strict=True))
    found = iter(strides)
    every = [next(found) if here else 0 for here in window.flags]
    yield from every[:-1]


@lru_cache(maxsize=1024)
def _target(closed: jex.ClosedJaxpr, about: tuple[tuple[int, bool], ...], count: int, rank: int) -> str:
    """The call that computes a scalar jaxpr on boxes of a rank; of each value it is known among `count` arrays which it
    lies in, and whether it changes along the last axis."""
    module = ir.Module("points")
    module.triple = binding.get_default_triple()
    loop = _write_loop(module, closed, [along for _, along in about])
    dims = tuple(f"dim {k}" for k in range(rank - 1))
    moves = tuple(tuple(f"value {k} {d}" for d in range(rank)) for k in range(len(about)))
    names = (*_FIXED, *dims, *(name for one in moves for name in one))
    code = Code(module, "part", VOID, [I64] * 3)
    frame, number, _ = code.arguments
    buffers = Buffers(code, frame, names, count, 0)
    read = buffers.values
    rows: Number = 1
    for name in dims:
        rows = code.mul(rows, read[name])
    items, parts = code.mul(rows, read["segments"]), read["shots"]
    first = code.div(code.mul(number, items), parts)
    stop = code.div(code.mul(code.add(number, 1), items), parts)
    starts = [data_of(code, buffers.arguments, place) for place, _ in about]
    results = [data_of(code, buffers.results, 1 + k) for k in range(len(closed.out_avals))]
    with code.loop(first, stop) as item:
        row, left = code.div(item, read["segments"]), code.mul(code.rest(item, read["segments"]), SEGMENT)
        indices: list[Number] = []
        rest: Number = row
        for name in reversed(dims):
            indices.insert(0, code.rest(rest, read[name]))
            rest = code.div(rest, read[name])
        pointers = []
        for address, dtype in zip(results, (one.dtype for one in closed.out_avals), strict=True):
            at = code.add(code.mul(row, read["last"]), left)
            pointers.append(code.pointer(code.add(address, code.mul(at, np.dtype(dtype).itemsize))))
        for address, name, (_, along), aval in zip(starts, moves, about, closed.in_avals, strict=True):
            at = code.add(read[name[0]], left if along else 0)
            for index, stride in zip(indices, name[1:], strict=True):
                at = code.add(at, code.mul(index, read[stride]))
            pointers.append(code.pointer(code.add(address, code.mul(at, np.dtype(aval.dtype).itemsize))))
        code.builder.call(loop, [*pointers, code.least(code.sub(read["last"], left), SEGMENT)])
    code.builder.ret_void()
    name = write_entry(module, code.function, names, count, 0, "fdsolve_points")
    return register_target(text_of(module), name)


def _write_loop(module: ir.Module, closed: jex.ClosedJaxpr, along: Sequence[bool]) -> ir.Function:
    """loop(results …, values …, count): the results at so many points beside each other."""
    outs, ins = ([one.dtype for one in avals] for avals in (closed.out_avals, closed.in_avals))
    code = Code(module, "loop", VOID, [POINTER] * (len(outs) + len(ins)) + [I64])
    *pointers, count = code.arguments
    targets, sources = pointers[: len(outs)], pointers[len(outs) :]
    for one in targets:
        one.add_attribute("noalias")
    code.function.attributes.add("noinline")
    numbers = [
        None if moves else load_entry(code.builder, pointer, dtype)
        for pointer, dtype, moves in zip(sources, ins, along, strict=True)
    ]

    def compute(j: Any) -> None:
        values = [
            load_entry(code.builder, pointer, dtype, j) if number is None else number
            for pointer, dtype, number in zip(sources, ins, numbers, strict=True)
        ]
        found = Scalars(module, code.builder).run(closed.jaxpr, [], values)
        for pointer, value, dtype in zip(targets, found, outs, strict=True):
            code.builder.store(value, code.builder.gep(pointer, [j], source_etype=stored_type(dtype)))

    def compute_block(first: Number) -> None:
        with code.loop(0, BLOCK, vectorised=True) as j:
            compute(code.add(first, j))

    blocks = code.div(count, BLOCK)
    with code.loop(0, blocks) as k:
        compute_block(code.mul(k, BLOCK))
    with code.when(code.below(0, blocks)), code.when(code.below(code.mul(blocks, BLOCK), count)):
        compute_block(code.sub(count, BLOCK))
    with code.when(code.equal(blocks, 0)), code.loop(0, count) as j:
        compute(j)
    code.builder.ret_void()
    return code.function


_points.def_impl(_plainly)
_points.def_abstract_eval(_shapes)
batching.primitive_batchers[_points] = _batch
mlir.register_lowering(_points, mlir.lower_fun(_plainly, multiple_results=True))
mlir.register_lowering(_points, mlir.lower_fun(_on_cpu, multiple_results=True), platform="cpu")
