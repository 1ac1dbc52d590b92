"""The march on a GPU: levels advanced a few at a time, one launch of a generated kernel for each pass."""

from dataclasses import replace
from math import gcd, lcm
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..._own_derivative import instantiated, own_derivative
from ...planning import Parallel
from .._level import Arrays, Level
from .._march_call import MarchCall
from .._registry import register
from .._slices import write
from ._launch import Levels, Options, advance, compiler
from ._operations import Program, Unserved, make_program

DEFAULTS = Options()
MAX_TURN = 8
MAX_OPERATIONS_A_POINT = 64
TILES = {1: (512,), 2: (4, 128), 3: (2, 4, 64)}


def march(
    call: MarchCall, arrays: Arrays, levels: Levels, start: Any, options: Options = DEFAULTS
) -> dict[str, tuple[jax.Array, ...]]:
    """Advances a march by `call.steps` levels, the first of which has number `start`.

    `levels` are the padded arrays held, the newest first. Gradients are those of the portable march. Raises Unserved
    for what the kernel cannot express.
    """
    make_program(call)
    leaves, form = jax.tree.flatten((arrays, dict(levels), jnp.asarray(start)))
    return _march((call, options, form), leaves)


@own_derivative
def _march(static: tuple[MarchCall, Options, Any], leaves: list[Any]) -> dict[str, Any]:
    call, options, form = static
    arrays, levels, start = form.unflatten(leaves)
    program = make_program(call)
    options = fill_options(program, options)
    assert options.levels is not None
    passes, rest = divmod(call.steps, options.levels)
    state = dict(levels)
    if passes:

        def step(state: Any, number: Any) -> tuple[Any, None]:
            first = start + number * options.levels
            return advance(program, call, arrays, state, first, options.levels or 1, options), None

        numbers = jnp.arange(passes, dtype=start.dtype)
        unroll = 1 if options.interpret else min(passes, turn(program, options.levels))
        state, _ = lax.scan(step, state, numbers, unroll=unroll)
    if rest:
        state = advance(program, call, arrays, state, start + passes * options.levels, rest, options)
    return state


@_march.defjvp
def _march_jvp(static: tuple[MarchCall, Options, Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    call, _, form = static
    moved = jax.tree.map(instantiated, tangents)
    return jax.jvp(lambda leaves: march_portably(call, *form.unflatten(leaves)), primals, moved)


def turn(program: Program, levels: int) -> int:
    """Passes after which every array is back in its place, when each is written where the oldest lay."""
    turns = []
    for _, kept in program.state:
        written = min(kept, levels)
        turns.append((kept + written) // gcd(kept + written, written))
    return min(lcm(*turns), MAX_TURN)


def march_portably(call: MarchCall, arrays: Arrays, levels: Levels, start: Any) -> dict[str, tuple[jax.Array, ...]]:
    """The same march by fused slices, for derivatives."""
    times = arrays.wholes.get("times")

    def step(state: Any, number: Any) -> tuple[Any, None]:
        time = None if times is None else lax.dynamic_index_in_dim(times, number, keepdims=False)
        level = Level(call.structure, arrays, {}, state, number, 1.0, time)
        for stage in call.phase.stages:
            assert isinstance(stage, Parallel)
            name = stage.piece.field
            array = write(level, stage.piece, call.axes, level.current.get(name), call.structure.array(name))
            level = level.with_current(name, array)
        return {name: (level.current[name], *held)[: len(held)] for name, held in state.items()}, None

    return lax.scan(step, dict(levels), start + jnp.arange(call.steps, dtype=start.dtype))[0]


def fill_options(program: Program, options: Options) -> Options:
    """The options with what was left open decided."""
    rank = len(program.arrays[0].shape)
    tile = options.tile if options.tile is not None else TILES[rank]
    levels = options.levels if options.levels is not None else default_levels(program, rank)
    return replace(options, levels=levels, tile=tile)


def default_levels(program: Program, rank: int) -> int:
    """Two levels a launch where a rule reads nearest neighbours only, else one.

    Levels between are computed anew at every point that reads them: with s reads a rule, two levels cost s + 1
    evaluations for two. That pays while memory, not arithmetic, sets the pace.
    """
    main = max(program.operations, key=lambda op: op.box.size)
    cost = len(main.rule.jaxpr.eqns) * (len(main.rule.reads) + 1) // 2
    single = len(program.state) == 1 and not any(op.mask or op.predicate for op in program.operations)
    return 2 if single and rank <= 2 and cost <= MAX_OPERATIONS_A_POINT else 1


def why_not(call: MarchCall) -> str | None:
    """Why the kernel does not serve a march; None if it does."""
    try:
        make_program(call)
        compiler(DEFAULTS)
    except Unserved as reason:
        return str(reason)
    except ImportError:
        return "this version of JAX cannot compile Pallas kernels through Triton any more"
    return None


@register("march", platform="gpu", backend="pallas", priority=-10, serves=why_not)
def march_on_gpu(call: MarchCall, arrays: Arrays, levels: Levels, start: Any) -> dict[str, tuple[jax.Array, ...]]:
    """All rules, walls and ghosts of a level in one launch of a generated kernel; two levels where that pays."""
    return march(call, arrays, levels, start)
