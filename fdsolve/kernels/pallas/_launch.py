"""One launch: all arrays advanced by a few levels, tile by tile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...region import Box
from ...stencil import ProfileRead, WholeRead
from .._level import Arrays
from .._march_call import MarchCall
from ._evaluate import Evaluator, Key, Stored
from ._operations import Program, stored_box
from ._tiles import Tiling, make_tiling

Levels = Mapping[str, tuple[jax.Array, ...]]


@dataclass(frozen=True)
class Options:
    """How the kernel is launched: levels a launch, points of a tile on each axis, warps a tile, the compiler.

    None: by `fill_options`. `interpret` runs it in JAX operations, on any device. `road` is "triton" or "mosaic".
    `scattered` hides from the compiler that tiles start at multiples of 16 bytes. It would load the middle of a stencil
    by four entries a thread and its shifted parts one by one, and bring both into one order through shared memory.
    """

    levels: int | None = None
    tile: tuple[int, ...] | None = None
    num_warps: int = 4
    interpret: bool = False
    road: str = "triton"
    scattered: bool = True


def advance(
    program: Program, call: MarchCall, arrays: Arrays, levels: Levels, start: Any, count: int, options: Options
) -> dict[str, tuple[jax.Array, ...]]:
    """The levels held after `count` more, the first of which has number `start`, in one launch."""
    from jax.experimental import pallas as pl

    assert options.tile is not None
    tiling = make_tiling(program, options.tile, count)
    operands = _operands(program, call, arrays, levels, start, count)
    if options.scattered:
        operands["zero", "", 0] = _scalar(jnp.zeros((), jnp.int32))
    outputs = [(one, age) for one, kept in program.state for age in range(min(kept, count))]
    launch = pl.pallas_call(
        _kernel(program, call.axes, operands, outputs, tiling, count),
        out_shape=[jax.ShapeDtypeStruct(one.padded_shape, one.dtype) for one, _ in outputs],
        grid=(tiling.num_tiles,),
        in_specs=[pl.no_block_spec] * len(operands),
        out_specs=[pl.no_block_spec] * len(outputs),
        interpret=options.interpret,
        compiler_params=None if options.interpret else compiler(options),
        name="fdsolve_march",
    )
    made = launch(*(stored.ref for stored in operands.values()))
    found: dict[str, tuple[jax.Array, ...]] = {}
    for (one, _), array in zip(outputs, made, strict=True):
        found[one.name] = (*found.get(one.name, ()), array)
    return {one.name: (*found[one.name], *levels[one.name])[:kept] for one, kept in program.state}


def compiler(options: Options) -> Any:
    """What names the compiler to Pallas."""
    return _ROADS[options.road](options)


def _triton(options: Options) -> Any:
    from jax.experimental.pallas import triton

    return triton.CompilerParams(num_warps=options.num_warps, num_stages=1)


def _mosaic(options: Options) -> Any:
    from jax.experimental.pallas import mosaic_gpu

    return mosaic_gpu.CompilerParams()


_ROADS = {"triton": _triton, "mosaic": _mosaic}
ROADS = tuple(_ROADS)
"""Compilers that Pallas can hand the kernel to; only "triton" takes it today (docs/catalogue/pallas.md)."""


def _kernel(
    program: Program,
    axes: tuple[str, ...],
    operands: Mapping[Key, Stored],
    outputs: Sequence[tuple[Any, int]],
    tiling: Tiling,
    count: int,
) -> Any:
    from jax.experimental import pallas as pl

    def fill(bounds: Box, start: tuple[Any, ...], refs: dict[Key, Stored], targets: Sequence[Any]) -> None:
        evaluator = Evaluator(program, axes, refs, start, tiling.tile, bounds)
        for (one, age), target in zip(outputs, targets, strict=True):
            need = bounds.intersect(stored_box(one))
            evaluator.store(target, one.name, evaluator.value(one.name, count - age, (0,) * len(axes), need))

    def kernel(*all_refs: Any) -> None:
        targets = all_refs[len(operands) :]
        refs = {key: replace(stored, ref=ref) for (key, stored), ref in zip(operands.items(), all_refs, strict=False)}
        numbers = _split(pl.program_id(0), tiling.counts)
        places = zip(tiling.box.start, numbers, tiling.tile, strict=True)
        start = tuple(np.int32(first) + number * np.int32(tile) for first, number, tile in places)
        if ("zero", "", 0) in refs:
            start = (*start[:-1], start[-1] + refs["zero", "", 0].ref[0])
        for runs, bounds in tiling.leaves():
            chosen = _all(numbers, tiling.main if runs is None else runs, tiling.counts)
            if chosen is None:
                fill(bounds, start, refs, targets)
                continue
            chosen = ~chosen if runs is None else chosen
            pl.when(chosen)(lambda bounds=bounds: fill(bounds, start, refs, targets))

    return kernel


def _split(number: Any, counts: Sequence[int]) -> list[Any]:
    """Which tile on each axis the tile of this number is."""
    found = []
    for a in range(len(counts)):
        later = prod(counts[a + 1 :])
        place = number if later == 1 else lax.div(number, np.int32(later))
        found.append(place if a == 0 else lax.rem(place, np.int32(counts[a])))
    return found


def _all(numbers: Sequence[Any], runs: Any, counts: Sequence[int]) -> Any:
    """Whether a tile is of one run on every axis; None where all tiles are."""
    held = []
    for number, (first, stop), count in zip(numbers, runs, counts, strict=True):
        if first > 0:
            held.append(number >= np.int32(first))
        if stop < count:
            held.append(number < np.int32(stop))
    return reduce(lambda a, b: a & b, held) if held else None


def _operands(
    program: Program, call: MarchCall, arrays: Arrays, levels: Levels, start: Any, count: int
) -> dict[Key, Stored]:
    """Everything the kernel reads, by key; scalars as arrays of one entry."""
    everywhere = (True,) * len(call.axes)
    found: dict[Key, Stored] = {}
    for one, kept in program.state:
        for age in range(kept):
            found["state", one.name, age] = Stored(levels[one.name][age], stored_box(one), everywhere)
    for op in program.operations:
        if op.mask is not None:
            found["profile", op.mask, 0] = _profile(call, arrays, op.mask, call.axes, arrays.profiles[op.mask])
        for rule, number in ((op.rule, op.number), (op.predicate, op.held)):
            if rule is None or number is None:
                continue
            for i, const in enumerate(arrays.consts[number]):
                found["const", number, i] = _scalar(const)
            for operand in rule.operands:
                if isinstance(operand, ProfileRead):
                    found.update(_profiles(call, arrays, operand, start, count))
                elif isinstance(operand, WholeRead):
                    found.update(_wholes(arrays, operand, start, count))
    return found


def _profiles(call: MarchCall, arrays: Arrays, read: ProfileRead, start: Any, count: int) -> dict[Key, Stored]:
    array = arrays.profiles[read.name]
    if not read.axes or read.axes[0] in call.axes:
        return {("profile", read.name, 0): _profile(call, arrays, read.name, read.axes, array)}
    offset = read.offset[0] - call.structure.extent(read.name).origin[0]
    return {
        ("profile", read.name, (level, read.offset[0])): _profile(
            call,
            arrays,
            read.name,
            read.axes[1:],
            lax.dynamic_index_in_dim(array, start + (level - 1 + offset), keepdims=False),
            skip=1,
        )
        for level in range(1, count + 1)
    }


def _profile(
    call: MarchCall, arrays: Arrays, name: str, names: tuple[str, ...], array: jax.Array, skip: int = 0
) -> Stored:
    origin = call.structure.extent(name).origin[skip:]
    if not names:
        return _scalar(array)
    box = Box(tuple(origin), tuple(o + n for o, n in zip(origin, array.shape, strict=True)))
    return Stored(array, box, tuple(axis in names for axis in call.axes))


def _wholes(arrays: Arrays, read: WholeRead, start: Any, count: int) -> dict[Key, Stored]:
    if read.name == "t":
        times = arrays.wholes["times"]
        indices = {level: start + (level - 1) for level in range(1, count + 1)}
        return {
            ("scalar", "t", level): _scalar(lax.dynamic_index_in_dim(times, number, keepdims=False))
            for level, number in indices.items()
        }
    name = "dt" if read.name == "passed" else read.name
    return {("scalar", name, 0): _scalar(arrays.wholes[name])}


def _scalar(value: Any) -> Stored:
    return Stored(jnp.reshape(value, (1,)), Box((0,), (1,)), ())
