"""Relaxation: residuals turned into updates of their own points, ordered as sweeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import PlanningError
from ..region import Part
from ..stencil import Operand, ProfileRead, StateRead, Traced, WholeRead, operand_specs, rewritten
from ._order import Parallel, Solve, Stage, make_schedule, pieces_of
from ._pieces import Piece
from ._store import Extent
from ._structure import PhaseStructure, Structure

OMEGA = "relaxation factor"
METHODS = ("jacobi", "gauss-seidel", "red-black", "sor")


@dataclass(frozen=True)
class Relaxation:
    """Sweeps u ← u − ω r/(∂r/∂u) over the points of residuals r.

    `method`: "jacobi" (all from the sweep before), "gauss-seidel" and "sor" (row by row, with the newest values),
    "red-black" (the points of even index sum, then the others). What a point's equation reads besides unknown values
    (walls, ghosts, other fields) is that of the sweep before.
    """

    method: str
    order: str = ""

    def __repr__(self) -> str:
        return f'relax(method="{self.method}")'


def colour_mask(name: str, colour: int) -> str:
    """The name of the profile of a field's points of one colour."""
    return f"relax {name} {('red', 'black')[colour]}"


def free_mask(name: str) -> str:
    """The name of the profile of a field's unknown points."""
    return f"relax {name} free"


def plan_relaxation(
    structure: Structure, stage: Solve, axes: tuple[str, ...], method: str, masks: Mapping[str, Part]
) -> Structure:
    """The structure of one sweep: updates in place of residuals, then all that holds beside them.

    Raises PlanningError for residuals that do not read their own point, or that are sums of several rules.
    """
    _check(stage, structure.rules)
    rules = list(structure.rules)
    if method == "red-black":
        stages, pieces = _two_colours(stage, rules, axes)
    else:
        order = stage.fields if method in ("gauss-seidel", "sor") else None
        pieces = [_updated(piece, rules, axes, _behind(order, piece.field)) for piece in stage.residuals]
        stages = make_schedule(pieces, rules, axes, masks)
    ndim = len(axes)
    names = [free_mask(name) for name in stage.fields] + [colour_mask(n, c) for n in stage.fields for c in (0, 1)]
    return replace(
        structure,
        arrays=tuple(replace(one, kept=max(one.kept, 1)) for one in structure.arrays),
        rules=tuple(rules),
        phases=(PhaseStructure((*stages, *stage.inner), (), ()),),
        extents=(*structure.extents, *(Extent(name, axes, (0,) * ndim) for name in names)),
        stepper=None,
        kernels=(),
    )


def describe_sweep(structure: Structure, count: int) -> str:
    """How the first stages of a sweep are ordered."""
    words = []
    for stage in structure.phases[0].stages[:count]:
        words.append("all points at once" if isinstance(stage, Parallel) else f"{stage.method}, {stage.reason}")  # type: ignore[union-attr]
    return "; ".join(dict.fromkeys(words))


def _check(stage: Solve, rules: Sequence[Traced]) -> None:
    for piece in stage.residuals:
        if piece.adds:
            raise PlanningError(
                f"{piece.label}: relaxation takes the equation of a point from one rule, and this one adds to another. "
                f"Write them as one residual."
            )
        centre = StateRead(piece.field, 0, (0,) * piece.box.ndim)
        if piece.operation is not None or centre not in rules[piece.rule].reads:
            raise PlanningError(
                f"{piece.label} does not read `{piece.field}` at its own point: its diagonal is zero, and relaxation "
                f"divides by it. Solve the equations with fd.solve, or write them so that each determines its point."
            )


class _Newest:
    """Which reads of unknown values are of the sweep that is being done."""

    def __init__(self, order: tuple[str, ...], field: str, colour: int | None) -> None:
        self.order, self.field, self.colour = order, field, colour

    def __call__(self, read: StateRead) -> bool:
        if read.field not in self.order:
            return False
        before = self.order.index(read.field) < self.order.index(self.field)
        if self.colour is None:  # row by row
            zero = (0,) * len(read.offset)
            return read.offset < zero or (read.offset == zero and before)
        other = (self.colour + sum(read.offset)) % 2
        return other < self.colour or (other == self.colour and before)


def _behind(order: tuple[str, ...] | None, field: str) -> _Newest:
    return _Newest(order or (), field, None)


def _two_colours(stage: Solve, rules: list[Traced], axes: tuple[str, ...]) -> tuple[tuple[Stage, ...], list[Piece]]:
    """Points of one colour, then those of the other, field after field."""
    stages: list[Stage] = []
    for colour in (0, 1):
        for name in stage.fields:
            for piece in (piece for piece in stage.residuals if piece.field == name):
                made = _updated(piece, rules, axes, _Newest(stage.fields, name, colour), colour)
                stages.append(Parallel(made))
    return tuple(stages), [piece for one in stages for piece in pieces_of(one)]


def _updated(
    piece: Piece, rules: list[Traced], axes: tuple[str, ...], newest: _Newest, colour: int | None = None
) -> Piece:
    """The piece that updates its points; its rule is added to the list."""
    rules.append(_update(rules[piece.rule], piece, axes, newest, colour))
    return replace(piece, rule=len(rules) - 1, role="value")


def _update(rule: Traced, piece: Piece, axes: tuple[str, ...], newest: _Newest, colour: int | None) -> Traced:
    """u − ω r/(∂r/∂u); where the point does not belong to the colour, u as it stands."""
    ndim = len(axes)
    centre = StateRead(piece.field, -1, (0,) * ndim)
    wanted: dict[Operand, Any] = {}
    for operand, spec in zip(rule.operands, operand_specs(rule), strict=True):
        if not isinstance(operand, StateRead):
            wanted[operand] = spec
            continue
        wanted[StateRead(operand.field, -1, operand.offset)] = spec
        if newest(operand):
            wanted[operand] = spec
            wanted[ProfileRead(free_mask(operand.field), axes, operand.offset)] = jax.ShapeDtypeStruct((), bool)
    wanted[WholeRead(OMEGA)] = jax.ShapeDtypeStruct((), jnp.zeros((), rule.dtype).real.dtype)
    if colour is not None:
        wanted[ProfileRead(colour_mask(piece.field, colour), axes, (0,) * ndim)] = jax.ShapeDtypeStruct((), bool)
        wanted[replace(centre, level=-1 if colour == 0 else 0)] = wanted[centre]

    def update(known: Mapping[Operand, Any], residual: Any) -> Any:
        def read(operand: Operand) -> Any:
            if not isinstance(operand, StateRead):
                return known[operand]
            old = known[StateRead(operand.field, -1, operand.offset)]
            if not newest(operand):
                return old
            return jnp.where(known[ProfileRead(free_mask(operand.field), axes, operand.offset)], known[operand], old)

        def of_centre(value: Any) -> Any:
            here = StateRead(piece.field, 0, (0,) * ndim)
            return residual(*(value if operand == here else read(operand) for operand in rule.operands))

        here = known[centre]
        value, slope = jax.jvp(of_centre, (here,), (jnp.ones_like(here),))
        return here - known[WholeRead(OMEGA)].astype(here.dtype) * value / slope

    def coloured(known: Mapping[Operand, Any], residual: Any) -> Any:
        mine = known[ProfileRead(colour_mask(piece.field, colour or 0), axes, (0,) * ndim)]
        return jnp.where(mine, update(known, residual), known[replace(centre, level=-1 if colour == 0 else 0)])

    return rewritten(rule, wanted, update if colour is None else coloured)
