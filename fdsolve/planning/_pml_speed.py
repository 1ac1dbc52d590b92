"""The speed of the fastest waves in an absorbing layer, from the rules declared there; and so how strong it is."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._largest import largest
from ..errors import PlanningError
from ..region import Box, Layout, Points
from ..stencil import Operand, ProfileRead, StateRead, Traced, WholeRead
from ._layers import Standing
from ._phases import Phase, Span
from ._pml import Stretch, add_profiles
from ._stability import weight_function

ANGLE = 0.2
"""k Δx of the waves looked at: thirty points a wavelength, where differences of order 2 are off by 0.2 percent."""
SAMPLES = 64
DOUBLINGS = 6


def prepare_stretches(book: Any, last: Phase) -> list[str]:
    """Finds how strong the layers are, stores their profiles, and tells the plan about them."""
    if not book.stretches:
        return []
    notes, operands = [], _Operands(book)
    for stretch in book.stretches:
        rule = stretch.rule
        speed, source = (1.0, "") if rule.wavenumber is not None else (rule.speed, "given")
        if speed is None:
            speed, source = find_speed(book, last, stretch, operands), "found from the rules"
        with jax.numpy_dtype_promotion("standard"):
            sigma = rule.strength(stretch.thickness, speed)
            stretch.sigma.append(jnp.asarray(sigma, book.problem.scope.real))
        add_profiles(book.problem, stretch)
        count = sum(memory.layer is stretch for memory in book.memories.by_name.values())
        tuned = (
            f"tuned to wavenumber {rule.wavenumber:g}, no memory"
            if source == ""
            else (f"wave speed {_show(speed)} {source}, {count} memory variable{'s' * (count != 1)}")
        )
        notes.append(
            f"{rule!r} at the {stretch.side.word} end of {stretch.axis} on {', '.join(stretch.fields)}: {rule.cells} "
            f"cells, {stretch.thickness:.6g} thick, σ up to {_show(sigma)}, {tuned}"
        )
    return notes


def _show(value: Any) -> str:
    return "traced" if isinstance(value, Tracer) else f"{float(value):.6g}"


def find_speed(book: Any, last: Phase, stretch: Stretch, operands: "_Operands") -> Any:
    """ω/k of the fastest of the waves that the rules carry along the axis, the largest over points of the layer.

    A matrix of a sample point's rules, at the wavenumber k, has eigenvalues iω; its spectral radius is found by
    repeated squaring, which gradients go through. NumPy's arrays where no value is traced: nothing is compiled.
    Where a field is given (in a conductor) there need be no waves, if there are some elsewhere in the layer.
    """
    speeds: list[Any] = []
    with jax.numpy_dtype_promotion("standard"):  # real weights meet complex waves
        groups = [
            (_all_weights(book, operands, spans, points, stretch), spans, points)
            for spans, points in _samples(book, last, stretch)
        ]
        groups.sort(key=lambda group: -len(group[0]))
        for weights, spans, points in groups:
            xp = jnp if any(isinstance(one, Tracer) for one in weights.values()) else np
            found = [_matrix(book, xp, weights, spans, stretch, angle * ANGLE) for angle in (1, 2)]
            if xp is np:
                if speeds and len(weights) < len(groups[0][0]) and not _turns(found[0]):
                    continue
                _check_waves(stretch, found)
            slow, fast = (_speeds(xp, one, points, operands, stretch, bool(_rated(spans))) for one in found)
            # ω of 2k was divided by k: to k → 0, differences being even in k.
            speeds.append((4 * slow - fast / 2) / 3)
    if not speeds:
        raise PlanningError(
            f"{stretch.label}: no rule takes derivatives along axis `{stretch.axis}` in the layer; there are no waves "
            f"to absorb. Drop it, or take Dirichlet(0.0)."
        )
    traced = any(isinstance(one, Tracer) for one in speeds)
    return largest(jnp.concatenate(speeds)) if traced else np.max(np.concatenate(speeds))


def _samples(book: Any, last: Phase, stretch: Stretch) -> list[tuple[dict[str, tuple[Span, ...]], np.ndarray]]:
    """Points of the layer (cells, as parts of each axis) in groups where the same rules hold."""
    layout = Layout(book.problem.scope.grid)
    box = stretch.box(layout)
    count = max(2, int(SAMPLES ** (1 / box.ndim)))
    lines = [
        np.unique(np.linspace(a, b - 1, min(count, b - a)).round().astype(int)).tolist()
        for a, b in zip(box.start, box.stop, strict=True)
    ]
    groups: dict[Any, tuple[dict[str, tuple[Span, ...]], list[Any]]] = {}
    for place in product(*lines):
        spans = {name: _spans_at(book, last, name, place) for name in book.problem.names}
        spans = {name: found for name, found in spans.items() if found}
        key = tuple((name, tuple(span.index for span in found)) for name, found in spans.items())
        groups.setdefault(key, (spans, []))[1].append(place)
    return [(spans, np.array(places)) for spans, places in groups.values() if _has_slopes(book, spans, stretch)]


def _spans_at(book: Any, last: Phase, name: str, place: tuple[int, ...]) -> tuple[Span, ...]:
    """The rule that holds at a point of a field, and what is added to it; none where a value is given."""
    layout = book.problem.scope.layouts[name]
    inner = tuple(
        min(max(i, 1 if n > 2 else 0), n - 1 - (n > 2)) for i, n in zip(place, layout.space_shape, strict=True)
    )
    here = Points.of_box(Box(inner, tuple(i + 1 for i in inner)))
    found: tuple[Span, ...] = ()
    for span in last.fields[name].spans:
        if span.predicate is None and not span.points.intersect(here).empty:
            found = (*found, span) if span.adds else (span,)
    return found


def _has_slopes(book: Any, spans: dict[str, tuple[Span, ...]], stretch: Stretch) -> bool:
    return any(
        stretch.axis in book.slopes.get(_rule(book, name, one), ()) for name, found in spans.items() for one in found
    )


def _rule(book: Any, name: str, span: Span) -> int:
    return book.rule(name, span.index, span.assignment, standing=Standing(span.side))


def _rated(spans: dict[str, tuple[Span, ...]]) -> list[str]:
    return [name for name, found in spans.items() if found[0].kind == "rate"]


class _Operands:
    """The values of what rules read besides the fields, at sample points."""

    def __init__(self, book: Any):
        grid = book.problem.scope.grid
        self.store, self.grid, self.real = book.problem.store, grid, book.problem.scope.real
        self.step = grid.time.step
        self.known: dict[int, Any] = {}

    def at(self, operand: Operand, points: np.ndarray) -> tuple[Any, int | None]:
        """The values, and along which axis they differ from point to point."""
        if isinstance(operand, WholeRead):
            if operand.name == "t":
                return jnp.asarray(self.grid.time.start, self.real), None
            return (
                jnp.asarray(self.step, self.real) if operand.name == "dt" else self.store.wholes[operand.name]
            ), None
        assert isinstance(operand, ProfileRead)
        starts, index = [], []
        for axis, offset in zip(operand.axes, operand.offset, strict=True):
            if axis == self.grid.time_name:
                starts.append((0, 1))
                index.append(np.zeros(len(points), int))
                continue
            column = points[:, self.grid.space.index(axis)] + offset
            starts.append((int(column.min()), int(column.max()) + 1))
            index.append(column - column.min())
        array = self.store.find(operand).build(tuple(a for a, _ in starts), tuple(b for _, b in starts))
        return array[tuple(index)], 0


def _weights(operands: _Operands, number: int, rule: Traced, points: np.ndarray) -> Any:
    """The weights of a rule's reads, shape (points, reads)."""
    others = [o for o in rule.operands if not isinstance(o, StateRead)]
    taken = [operands.at(o, points) for o in others]

    def at(*values: Any) -> Any:
        return jnp.stack(weight_function(rule)(list(values), rule.consts))

    axes = tuple(axis for _, axis in taken)
    if any(axis is not None for axis in axes):
        return jax.vmap(at, in_axes=axes)(*(value for value, _ in taken))
    if number not in operands.known:
        operands.known[number] = at(*(value for value, _ in taken))
    one = operands.known[number]
    return jnp.broadcast_to(one, (len(points), *one.shape))


def _all_weights(
    book: Any, operands: _Operands, spans: dict[str, tuple[Span, ...]], points: np.ndarray, stretch: Stretch
) -> dict[tuple[str, int], Any]:
    """The weights of all rules that hold at sample points, by field and rule."""
    found = {}
    for name, own in spans.items():
        for number in (_rule(book, name, span) for span in own):
            rule = book.rules[number]
            if any(read.field in book.hidden for read in rule.reads):
                raise PlanningError(
                    f"{stretch.label}: the wave speed cannot be found where rules read stored values. Give it: "
                    f"PML({stretch.rule.cells}, speed=...)."
                )
            if rule.reads:
                weights = _weights(operands, number, rule, points)
                found[name, number] = weights if isinstance(weights, Tracer) else np.asarray(weights)
    return found


def _matrix(
    book: Any, xp: Any, weights: dict[tuple[str, int], Any], spans: dict[str, Any], stretch: Stretch, angle: float
) -> Any:
    """A matrix at each point whose eigenvalues are iω (of rates), or i sin(ωΔt)/cos²(ωΔt) (of plain rules)."""
    layouts, names, rates = book.problem.scope.layouts, list(spans), set(_rated(spans))
    one = np.eye(len(names))
    count = len(next(iter(weights.values())))
    zero = np.zeros((count, len(names), len(names)), complex)
    entries: dict[int, Any] = {}
    for (name, number), values in weights.items():
        for k, read in enumerate(book.rules[number].reads):
            if read.field not in names:
                continue
            halves = layouts[read.field].shift(stretch.axis) - layouts[name].shift(stretch.axis)
            turned = np.exp(1j * angle * (read.offset[stretch.side.axis] + halves / 2))
            place = np.outer(one[names.index(name)], one[names.index(read.field)])
            level = 1 if name in rates and read.level == 0 else read.level
            entries[level] = entries.get(level, zero) + (values[:, k] * turned)[:, None, None] * place
    present = one - entries.get(0, zero)
    if rates:
        # Plain rules beside rates are solved for: u = P u + R u, du/dt = M u.
        return entries.get(1, zero) @ xp.linalg.inv(present)
    return _of_steps(xp, present, [entries.get(-k, zero) for k in range(1, 1 - min(entries, default=-1))])


def _of_steps(xp: Any, present: Any, older: Sequence[Any]) -> Any:
    """2G(G² − 1)(G² + 1)⁻² of the matrix G of one step, whose eigenvalues are e^{iωΔt}.

    Modes that G loses at once (0) or turns over every step (−1) drop out, and those left have imaginary eigenvalues.
    """
    size, depth = present.shape[-1], max(len(older), 1)
    inverse = xp.linalg.inv(present)
    first = xp.concatenate([inverse @ block for block in older] or [0 * present], axis=-1)
    shifted = np.broadcast_to(np.eye(size * (depth - 1), size * depth), (len(first), size * (depth - 1), size * depth))
    step = xp.concatenate([first, shifted], axis=-2)
    one, square = np.eye(size * depth), step @ step
    inverse = xp.linalg.inv(square + one)
    return 2 * step @ (square - one) @ inverse @ inverse


def _radius(xp: Any, matrix: Any) -> Any:
    """The spectral radius ρ of each matrix A, whose eigenvalues of that size are imaginary: ln ρ from ‖A²ᴺ‖/‖Aᴺ‖."""
    power, logs = matrix @ matrix, []
    first = _norm(xp, power)
    for _ in range(DOUBLINGS + 1):
        size = xp.where(first > 0, _norm(xp, power), 1.0)
        logs.append(xp.log(size) + (2 * logs[-1] if logs else 0.0))
        power = power / size[:, None, None]
        power = power @ power
    return xp.where(first > 0, xp.exp((logs[-1] - logs[-2]) / 2**DOUBLINGS), 0.0)


def _norm(xp: Any, matrix: Any) -> Any:
    squares = xp.sum(xp.abs(matrix) ** 2, axis=(-2, -1))
    return xp.where(squares > 0, xp.sqrt(xp.where(squares > 0, squares, 1.0)), 0.0)


def _speeds(xp: Any, matrix: Any, points: np.ndarray, operands: _Operands, stretch: Stretch, rated: bool) -> Any:
    """ω/k at each point, k that of ANGLE."""
    radius, size = _radius(xp, matrix), stretch.owner.size(False)
    if not rated:  # s = x/(1 − x²) with x = sin ωΔt
        safe = xp.where(radius > 0, radius, 1.0)
        sine = (xp.sqrt(1 + 4 * safe**2) - 1) / (2 * safe)
        radius = xp.where(radius > 0, xp.arcsin(sine), 0.0) / operands.step
    spacing = stretch.owner.spacings(False, 0, size)
    return radius * spacing[np.clip(points[:, stretch.side.axis], 0, size - 1)] / ANGLE


def _turns(matrix: np.ndarray) -> bool:
    """Whether there are waves: eigenvalues that are not nearly real."""
    values = np.linalg.eigvals(matrix)
    turning = float(np.abs(values.imag).max())
    return turning >= 0.05 * float(np.abs(values).max()) and turning != 0


def _check_waves(stretch: Stretch, matrices: list[np.ndarray]) -> None:
    """Refuses rules that carry no waves, or waves whose speed grows with the wavenumber."""
    turning = [float(np.abs(np.linalg.eigvals(one).imag).max()) for one in matrices]
    if not _turns(matrices[0]):
        raise PlanningError(
            f"{stretch.label}: the rules in the layer carry no waves along axis `{stretch.axis}`, which an absorbing "
            f"layer is for. Diffusion needs none: take Dirichlet or Neumann further out."
        )
    if turning[1] > 3 * turning[0]:
        raise PlanningError(
            f"{stretch.label}: short waves are faster than long ones, as for i ∂u/∂t = ∂²u. Name the wavenumber that "
            f"the layer is tuned to: PML({stretch.rule.cells}, wavenumber=...)."
        )
