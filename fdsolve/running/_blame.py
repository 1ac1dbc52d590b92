"""Where values that are not finite came from."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..boundary import Robin
from ..kernels import Arrays
from ..planning import Piece, Plan
from ..stepping import interiors
from ._drive import Broken


def explain_not_finite(plan: Plan, arrays: Arrays, broken: Broken) -> str:
    """The step, the field, the region and rule, the values around, and what to try."""
    structure, grid = plan.structure, plan.problem.scope.grid
    assert grid.time is not None
    before = {name: np.asarray(x) for name, x in interiors(structure, broken.before[0]).items()}
    after = {name: np.asarray(x) for name, x in interiors(structure, broken.after[0]).items()}
    bad = {name: np.argwhere(~np.isfinite(x)) for name, x in after.items() if jnp.issubdtype(x.dtype, jnp.inexact)}
    found = _first(plan, arrays, broken.level, {name: places for name, places in bad.items() if len(places)})
    name, place, piece = found
    value = after[name][tuple(place)]
    where = ", ".join(f"{axis}={int(i)} ({_coordinate(plan, name, axis, i):.6g})" for axis, i in _named(plan, place))
    rule = f" by {piece.label}" if piece is not None else ""
    largest = {name: _size(x) for name, x in before.items() if x.size}
    advice = _advice(plan, max(largest.values(), default=0.0))
    if structure.stepper is not None and broken.failed is not None and int(broken.failed) >= 0:
        advice = structure.stepper.explain(broken.level, float(grid.time.points[broken.level]))
    sizes = ", ".join(f"max |{n}| = {size:.4g}" for n, size in largest.items())
    return (
        f"`{name}` became {value} at level {broken.level}, t = {grid.time.points[broken.level]:.6g}, first at "
        f"{where}{rule}. At the level before {sizes}, and around that point {name} = {_around(before[name], place)}. "
        f"{advice} What was saved before stays: in the error's `solution`, and in files."
    )


def explain_last_level(
    plan: Plan, arrays: Arrays, last: Mapping[str, jax.Array], history: Mapping[str, jax.Array]
) -> str:
    """What a run that nobody watched can tell at its end: where, by which rule, between which saved times.

    Arguments: `last` are the fields at the last level, `history` what was kept of the saved levels.
    """
    grid, ends = plan.problem.scope.grid, {name: np.asarray(one) for name, one in last.items()}
    inexact = {name: one for name, one in ends.items() if jnp.issubdtype(one.dtype, jnp.inexact)}
    bad = {name: places for name, one in inexact.items() if len(places := np.argwhere(~np.isfinite(one)))}
    time = grid.time
    name, place, piece = _first(plan, arrays, plan.structure.segments[-1].stop - 1, bad)
    where = ", ".join(f"{axis}={i} ({_coordinate(plan, name, axis, i):.6g})" for axis, i in _named(plan, place))
    rule = f" by {piece.label}" if piece is not None else ""
    others = "".join(f", {len(places)} of `{other}`" for other, places in bad.items() if other != name)
    count = f"{len(bad[name])} of {ends[name].size} points{others}"
    text = f"The last level of `{name}` is not finite at {count}, first at {where}{rule}. "
    if time is None:
        return text + _advice(plan, 0.0)
    between, size = _between(plan, name, history.get(name))
    return (
        f"{text}{between}Give monitors=[fd.monitors.Nan()] to stop at the step where it begins and learn it. "
        f"{_advice(plan, size)}"
    )


def _between(plan: Plan, name: str, saved: jax.Array | None) -> tuple[str, float]:
    """The saved times between which a field stopped being finite, found by halving, and its size at the first of them;
    empty where too few are kept."""
    levels, time = plan.structure.saved_levels, plan.problem.scope.grid.time
    assert time is not None
    if saved is None or len(levels) != len(saved) or len(levels) < 2 or np.all(np.isfinite(np.asarray(saved[-1]))):
        return "", 0.0
    good, wrong = -1, len(levels) - 1
    while wrong - good > 1:
        middle = (good + wrong) // 2
        if np.all(np.isfinite(np.asarray(saved[middle]))):
            good = middle
        else:
            wrong = middle
    first = f"at t = {time.points[levels[wrong]]:.6g} (level {levels[wrong]})"
    if good < 0:
        return f"It was so {first}, the first that was saved. ", 0.0
    size = _size(np.asarray(saved[good]))
    before = f"up to t = {time.points[levels[good]]:.6g} (max |{name}| = {size:.4g})"
    return f"Of the levels saved it was finite {before}, no longer {first}. ", size


def _size(values: np.ndarray) -> float:
    """The largest size, in a precision in which that of complex numbers does not overflow; 0 of nothing."""
    return float(np.max(np.abs(values.astype(np.result_type(values, float))), initial=0.0))


def _named(plan: Plan, place: Any) -> list[tuple[str, int]]:
    return [(axis, int(i)) for axis, i in zip(plan.problem.scope.grid.space, place, strict=True)]


def _coordinate(plan: Plan, name: str, axis: str, index: int) -> float:
    owner, faces = plan.problem.scope.grid.space_axis(axis), plan.problem.scope.layouts[name].faces
    return float(owner.positions(axis in faces, index, index + 1)[0])


def _pieces(plan: Plan, level: int) -> list[Piece]:
    """What sets the values of a level, in the order of evaluation; rates before what is only made of their fields."""
    structure = plan.structure
    segment = next(one for one in structure.segments if one.start <= level < one.stop)
    number = segment.phases[0] if len(segment.phases) == 1 else segment.phases[level - segment.start]
    phase = structure.phases[number]
    feeding = {piece.field for piece in phase.rates}
    queue = [*phase.rates, *(piece for piece in phase.values if piece.field in feeding)]
    while queue:
        read = {one.field for one in structure.rules[queue.pop().rule].reads} - feeding
        feeding |= read
        queue.extend(piece for piece in phase.values if piece.field in read)
    before, after = ([piece for piece in phase.values if (piece.field in feeding) is first] for first in (True, False))
    return [*before, *phase.rates, *after]


def _first(plan: Plan, arrays: Arrays, level: int, bad: dict[str, np.ndarray]) -> tuple[str, Any, Piece | None]:
    """The field, point and piece that come first in the order of evaluation among those that are not finite."""
    pieces = [piece for piece in _pieces(plan, level) if piece.role in ("value", "rate", "residual")]
    for piece in pieces:
        # The last piece on a point is the one that stands; of those that add, the rule below is named.
        for place in bad.get(piece.field, ()):
            if _owner(plan, arrays, pieces, piece.field, place) is piece:
                return piece.field, place, piece
    name = next(iter(bad))
    return name, bad[name][0], None


def _owner(plan: Plan, arrays: Arrays, pieces: list[Piece], name: str, place: Any) -> Piece | None:
    found = None
    for piece in pieces:
        inside = all(a <= i < b for a, i, b in zip(piece.box.start, place, piece.box.stop, strict=True))
        if piece.field == name and inside and _held(plan, arrays, piece, place) and not (piece.adds and found):
            found = piece
    return found


def _held(plan: Plan, arrays: Arrays, piece: Piece, place: Any) -> bool:
    if piece.mask is None:
        return True
    extent = plan.structure.extent(piece.mask)
    by_axis = dict(zip(plan.problem.scope.grid.space, place, strict=True))
    index = tuple(int(by_axis[axis]) - origin for axis, origin in zip(extent.axes, extent.origin, strict=True))
    return bool(np.asarray(arrays.profiles[piece.mask])[index])


def _around(values: np.ndarray, place: Any) -> str:
    window = tuple(slice(max(int(i) - 1, 0), int(i) + 2) for i in place)
    return np.array2string(values[window], precision=4, separator=", ").replace("\n", "")


def _advice(plan: Plan, largest: float) -> str:
    stability = plan.stability
    if getattr(stability, "largest", None) and not getattr(stability, "stable", True):
        return f"The step is unstable: take one below {stability.largest:.6g}."  # type: ignore[union-attr]
    if largest > 1e6:
        return "The values grew on the way: try a smaller time step (fd.analyse tells the largest for linear rules)."
    rules = (given.rule for all_of_field in plan.problem.assignments.values() for given in all_of_field)
    robin = next((rule for rule in rules if isinstance(rule, Robin) and callable(rule.b)), None)
    walls = "" if robin is None else f", at {robin!r}, which divides by b (where that is 0, write Dirichlet(g / a))"
    return f"Look at divisions, roots, powers and logarithms in the rule{walls}, and at the step."
