"""Generated machine code as one call of XLA: what program it is, its arrays, and how it is cut into tiles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from llvmlite import ir

from ...planning import Extent
from ...stencil import ProfileRead, WholeRead
from .._level import Arrays
from .._march_call import MarchCall
from ._adjoint import Pulled, adjoint_program, pull_program
from ._blocks import make_blocks
from ._bundles import make_bundles
from ._code import text_of
from ._fused import fuse_values
from ._handler import write_handler
from ._launch import Launch, launch
from ._layout import LINE, Layout, Slots
from ._linear import tangent_program
from ._objects import register_target
from ._operands import LEVELS, TIME_BEFORE, Alone, Levels, Pull, Spread, stack_name
from ._program import Operation, Program, Unserved, make_program
from ._rows import write_rows
from ._schedule import make_schedule, make_whole
from ._single import single_program
from ._tile import TileWriter
from ._tiling import FEW, Tiling, choose_tiling, fitted, or_whole
from ._whole import WholeWriter, complete_together, spare_bytes

Kind = str | Levels | Spread | Pull
"""Which program of a march: "march" itself, a "single" level of it, its "tangent" or "adjoint", one that writes levels
down, a pull."""

Manner = Literal["passes", "blocks", "whole"]
"""How levels are scheduled: in passes through tiles, in blocks of the second axis too, or whole."""

IN_PLACE_OF = {TIME_BEFORE.name: ("times",), "t": ("times", "dt"), "passed": ("dt",)}
"""The arrays from which numbers of a level are taken."""


def layout_of(call: MarchCall, kind: Kind = "march") -> Layout:
    """The program of a march, or the one of another kind that belongs to it, scheduled; raises Unserved."""
    return _layout_of(one_level(call), _plain(kind))


def _plain(kind: Kind) -> Kind:
    """The kind of the program itself, whatever it writes down."""
    if isinstance(kind, Alone) and kind.by is not None:
        return Alone((), True, kind.by)
    return "march" if isinstance(kind, Levels | Spread) else kind


def one_level(call: MarchCall) -> MarchCall:
    """The call that all marches of the same levels share."""
    return replace(call, steps=1, block=0, near=False, own=None)


@lru_cache(maxsize=256)
def _layout_of(call: MarchCall, kind: Kind) -> Layout:
    if isinstance(kind, Pull):
        program = pulled_of(call, kind).program
    elif isinstance(kind, Alone) and kind.by is not None:
        program = pulled_of(call, kind.by).forth
    else:
        program = make_program(call)
        if kind == "single":
            program = single_program(program, axes_of(call))
        elif kind != "march":
            program = tangent_program(program)
        if kind == "adjoint":
            program = adjoint_program(program, axes_of(call))
    return Layout(program, make_schedule(program))


@lru_cache(maxsize=256)
def _blocked_layout_of(call: MarchCall, kind: Kind) -> Layout | None:
    """The same with blocks of the second axis; None where there are none."""
    if isinstance(kind, Levels | Spread | Pull) or kind == "single":
        return None
    layout = layout_of(call, kind)
    schedule = make_blocks(layout.program, layout.schedule)
    return None if schedule is None else Layout(layout.program, schedule)


def blocked_layout_of(call: MarchCall, kind: Kind = "march") -> Layout | None:
    """The program of a march as `layout_of` gives it, scheduled in blocks of the second axis; None if it has none."""
    return _blocked_layout_of(one_level(call), kind)


@lru_cache(maxsize=256)
def _whole_layout_of(call: MarchCall, kind: Kind) -> Layout | None:
    program = layout_of(call, kind).program
    schedule = make_whole(program)
    return None if schedule is None else Layout(program, schedule)


def whole_layout_of(call: MarchCall, kind: Kind = "march") -> Layout | None:
    """The program of a march scheduled level by level; None if that cannot be."""
    return _whole_layout_of(one_level(call), _plain(kind))


def pulled_of(call: MarchCall, pull: Pull) -> Pulled:
    """The transpose of a level by operands too; raises Unserved."""
    found = _pulled_of(one_level(call), pull)
    if isinstance(found, str):
        raise Unserved(found)
    return found


@lru_cache(maxsize=256)
def _pulled_of(call: MarchCall, pull: Pull) -> Pulled | str:
    """The transpose, or why there is none: finding out may take long, and is asked for more than once."""
    try:
        program = make_program(call)
        return pull_program(program if pull.beside else fuse_values(program), axes_of(call), pull)
    except Unserved as reason:
        return str(reason)


def axes_of(call: MarchCall) -> tuple[str, ...]:
    """The axes of a program's arrays, at least two."""
    return call.axes if len(call.axes) > 1 else ("", *call.axes)


def refusal(call: MarchCall, kind: Kind = "march") -> str | None:
    """Why there is no code for a march; None if there is."""
    if call.structure.recording is not None and call.steps > 1:
        return "receivers listen at every level"
    try:
        if kind == "march" and is_single(call):
            kind = "single"
        layout = layout_of(call, kind)
        if isinstance(kind, Pull) and is_single(call) and pulled_of(call, kind).levels.last:
            return "its transpose reads the level itself, and older ones are kept"
    except Unserved as reason:
        return str(reason)
    least = layout.schedule.least
    if call.steps < least:
        return f"it takes at least {least} levels at a time, and this is {call.steps}"
    if layout.program.wraps and layout.halo(-(-call.steps // (call.steps // least))) > layout.size(0):
        return "the first axis is too short for what is read beyond its ends"
    return None


def is_single(call: MarchCall) -> bool:
    """Whether a march is one level, and too short to be written where older ones stand that are still kept."""
    return call.steps == 1 < layout_of(call).schedule.least


def stacked(levels: Sequence[jax.Array]) -> jax.Array:
    """Levels one behind the other, those of each shot together (by `jnp.stack`, vmap puts shots between levels)."""
    return jnp.concatenate([one[None] for one in levels])


def run_level(
    call: MarchCall, arrays: Arrays, state: Sequence[jax.Array], start: Any, tiling: Tiling | None
) -> list[jax.Array]:
    """The state after a single level: the new one stands where the oldest did, and the others are read beside it."""
    held, given, stacks = [], iter(state), {}
    for one, kept in layout_of(call).program.state:
        held.append([next(given) for _ in range(kept)])
        if kept > 1:
            stacks[stack_name(one.name)] = stacked(held[-1][-2::-1])
    new = run(call, "single", arrays, [levels[-1] for levels in held], start, tiling, stacks)
    return [level for one, levels in zip(new, held, strict=True) for level in (one, *levels[:-1])]


def generate(call: MarchCall, kind: Kind, slots: Slots, manner: Manner = "passes") -> str:
    """Generates, compiles and registers the code of a march; the name of its target among XLA's custom calls."""
    return _generate(one_level(call), kind, slots, manner)


@lru_cache(maxsize=256)
def _generate(call: MarchCall, kind: Kind, slots: Slots, manner: Manner) -> str:
    layout = {"passes": layout_of, "blocks": blocked_layout_of, "whole": whole_layout_of}[manner](call, kind)
    assert layout is not None
    module = ir.Module("fdsolve")
    dtypes = {name: dtype for name, _, dtype in slots.shared}
    bundles = make_bundles(layout.program, layout.schedule)
    made = write_rows(module, layout.program, layout.schedule, bundles, axes_of(call), dtypes)
    rows = dict(zip(bundles, made, strict=True))
    extents = {one.name: one for one in call.structure.extents} | stack_extents(call, kind)
    whole = layout.schedule.depths is not None
    writer = WholeWriter if whole else TileWriter
    tile = writer(module, layout, slots, rows, extents, axes_of(call), call.structure.time_axis).write()
    name = write_handler(module, tile, layout, slots, complete_together(module, tile, slots) if whole else None)
    return register_target(text_of(module), name)


def stack_extents(call: MarchCall, kind: Kind) -> dict[str, Extent]:
    """Where the levels of arrays start, as profiles; those too that the march leaves for a pull."""
    space = tuple(axis for axis in axes_of(call) if axis)
    program = pulled_of(call, kind).forth if isinstance(kind, Pull) else layout_of(call).program
    found = {}
    for one in program.arrays:
        name, origin = stack_name(one.name), one.origin[-len(space) :]
        found[name] = Extent(name, (LEVELS, *space), (0, *origin))
    return found


def shared_arrays(call: MarchCall, kind: Kind, arrays: Arrays) -> dict[str, Any]:
    """What a program reads beside its state, by name: arrays, or what stands in their places."""
    return shared_by(layout_of(call, kind).program, arrays)


def shared_by(program: Program, arrays: Arrays) -> dict[str, Any]:
    """The same of a program itself."""
    found: dict[str, Any] = {}
    for operation in program.operations:
        found.update((name, _array(group, name, arrays)) for group, name in _beside(operation))
        for number in _rules_of(operation):
            found.update((f"rule {number} {k}", const) for k, const in enumerate(arrays.consts[number]))
    return found


def is_shared(program: Program, name: str) -> bool:
    """Whether a program reads an array of this name beside its state."""
    rule = int(name.split()[1]) if name.startswith("rule ") else None
    return any(
        rule in [*_rules_of(operation)] or name in [read for _, read in _beside(operation)]
        for operation in program.operations
    )


def _beside(operation: Operation) -> Iterator[tuple[str, str]]:
    """What an operation reads beside the state and its rule's constants: the group of arrays, and the name."""
    if operation.mask is not None:
        yield "profiles", operation.mask
    for operand in operation.operands:
        if isinstance(operand, ProfileRead) and LEVELS not in operand.axes:
            yield "profiles", operand.name
        elif isinstance(operand, WholeRead):
            group = "consts" if operand.name.startswith("rule ") else "wholes"
            yield from ((group, name) for name in IN_PLACE_OF.get(operand.name, (operand.name,)))


def _rules_of(operation: Operation) -> Iterator[int]:
    """The numbers of the rules whose constants an operation reads."""
    for rule, number in ((operation.rule, operation.number), (operation.predicate, operation.held)):
        if rule is not None and number is not None:
            yield number


def _array(group: str, name: str, arrays: Arrays) -> Any:
    if group != "consts":
        return getattr(arrays, group)[name]
    _, number, k = name.split()
    return arrays.consts[int(number)][int(k)]


def run(
    call: MarchCall,
    kind: Kind,
    arrays: Arrays,
    state: Sequence[jax.Array],
    start: Any,
    tiling: Tiling | None = None,
    stacks: Mapping[str, Any] | None = None,
    base: Any = None,
    place: Any = 0,
    beside: int = 0,
) -> list[jax.Array]:
    """The state of a program after `call.steps` levels, the first of which has number `start`.

    Behind it stand the levels written down, of a kind that does so; if `Alone` they are all there is, and `state` are
    those that `Spread` wrote down, among which it starts at a `place`. `stacks` are levels, by name, of a march whose
    first level has number `base`. What uses the levels written down takes so many bytes `beside` them.
    """
    layout, blocked = layout_of(call, kind), blocked_layout_of(call, kind)
    tiling = tiling or _chosen(call, kind)
    if tiling.width and blocked is not None:
        levels = _levels_before_blocks(layout, blocked, call.steps, tiling)
        if 0 < levels < call.steps:
            rest = replace(call, steps=call.steps - levels)
            base = start if base is None else base
            state = run(replace(call, steps=levels), kind, arrays, state, start, replace(tiling, width=0), stacks, base)
            return run(rest, kind, arrays, state, start + levels * layout.program.direction, tiling, stacks, base)
        layout = layout if levels else blocked
    elif tiling.whole:
        layout = _whole_or(layout, call, kind)
    program = layout.program
    shared = {name: jnp.asarray(array) for name, array in shared_arrays(call, kind, arrays).items()}
    shapes = {name: array.shape for name, array in shared.items()}
    shared |= stacks or {}
    shapes |= {name: (1, *array.shape[1:]) for name, array in (stacks or {}).items()}  # the same code for any number
    names = tuple((one.name, behind) for one, kept in program.state for behind in range(kept))
    spread, alone = isinstance(kind, Spread), isinstance(kind, Alone)
    stored, number = _stored(call, kind)
    given = tuple((name, shapes[name], np.dtype(array.dtype).str) for name, array in shared.items())
    slots = Slots(names, given, stored, spread, alone)
    whole = layout.schedule.depths is not None
    target = generate(call, kind, slots, "whole" if whole else "blocks" if layout is blocked else "passes")
    passes, tiling = fitted(layout, call.steps, tiling)
    if whole:
        bytes_needed, halos = layout.ring_bytes(1), spare_bytes(layout, slots)
    else:
        bytes_needed = layout.ring_bytes(tiling.levels) + layout.beside_bytes(tiling.levels, tiling.parts)
        halos = 2 * tiling.parts * layout.halo(tiling.levels) * layout.halo_rows()
    share, halos = -(-bytes_needed // LINE) + 2, -(-halos // LINE)
    base = start if base is None else base
    settings = (start, call.steps, passes, tiling.parts, share, halos, base, number, max(1, call.block), place)
    kept = dict(zip((one.name for one in program.arrays), program.kept, strict=True))
    rank, written = state[0].ndim - alone, []
    for name in stored:
        shape = program.array(name).padded_shape[-rank:]
        levels = kept[name] * number if spread else kept[name] + number
        written.append(((levels, *shape), program.dtype.str))
    code = Launch(target, 0 if alone else len(state), tuple(written), tiling.threads, share, halos, beside)
    return launch(code, (*settings, tiling.width), [*state, *shared.values()])


def _chosen(call: MarchCall, kind: Kind) -> Tiling:
    """The tiling of a march."""
    tiling = choose_tiling(layout_of(call, kind), call.steps, blocked_layout_of(call, kind))
    return or_whole(tiling, call.steps, whole_layout_of(call, kind)) if tiling.levels <= FEW else tiling


def _whole_or(layout: Layout, call: MarchCall, kind: Kind) -> Layout:
    """The layout of levels computed whole; that of passes where there is none, or too few of them."""
    whole = whole_layout_of(call, kind)
    return layout if whole is None or call.steps <= whole.schedule.deepest else whole


def _stored(call: MarchCall, kind: Kind) -> tuple[tuple[str, ...], int]:
    """The arrays of which a march writes levels down; how many, or before how many blocks."""
    if isinstance(kind, Spread):
        return kind.names, -(-call.steps // call.block)
    return (kind.names, kind.stored(call.steps)) if isinstance(kind, Levels) else ((), 0)


def _levels_before_blocks(layout: Layout, blocked: Layout, steps: int, tiling: Tiling) -> int:
    """How many levels come first with planes as a whole, so that blocks have a multiple of those they need: 0 if they
    have that, all where there are too few or the first axis is too short."""
    unit = blocked.schedule.least
    whole = steps % unit
    if whole:
        whole += -(-max(0, layout.schedule.least - whole) // unit) * unit
    short = blocked.program.wraps and blocked.halo(unit) > blocked.size(0)
    return steps if short or steps - whole < max(unit, layout.schedule.least) else whole
