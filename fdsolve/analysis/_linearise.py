"""The main rules of a declaration as weights: linear already, or linearised about a constant state."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError, PlanningError
from ..planning import Piece, Plan, main_pieces
from ..stencil import Operand, ProfileRead, StateRead, Traced, WholeRead

Read = tuple[str, int, tuple[float, ...]]
"""A field, a level (0, −1, …) and how far away it is read, in steps of the axes."""


@dataclass(frozen=True, eq=False)
class LinearRule:
    """One piece of the rule of a field: its weights by read, and for rates which part of the rates it is."""

    field: str
    is_rate: bool
    group: int
    linear: bool
    weights: Mapping[Read, complex]
    implicit: bool = False


@dataclass(frozen=True, eq=False)
class Site:
    """Where a declaration is looked at: the state it is linearised about, coordinates by axis, a time step."""

    about: Mapping[str, Any]
    at: Mapping[str, float]
    step: float | None = None


def linearise(plan: Plan, site: Site) -> list[LinearRule]:
    """The main rule of each field, and what is added to it, as weights of the values it reads."""
    grid = plan.problem.scope.grid
    if grid.time is None:
        raise PlanningError("fd.analyse looks at how a solution grows from level to level; the grid has no time axis.")
    found = []
    for group in main_pieces(plan.structure).values():
        for piece in group:
            found.append(_linearise_piece(plan, site, piece))
    return found


def _linearise_piece(plan: Plan, site: Site, piece: Piece) -> LinearRule:
    rule = plan.structure.rules[piece.rule]
    if getattr(piece, "operation", None) is not None:
        raise PlanningError(f"fd.analyse: {piece.label} acts on all points at once, and has no weights to analyse.")
    known = {name for name in site.about if np.ndim(site.about[name]) == 0}
    missing = [read.field for read in rule.reads if read.field not in known]
    if not rule.affine and missing:
        raise PlanningError(
            f"fd.analyse: {piece.label} is not affine. Say about which constant state to linearise it: "
            f"about=dict({', '.join(f'{name}=1.0' for name in dict.fromkeys(missing))})."
        )
    placed = any(isinstance(o, ProfileRead) or o == WholeRead("t") for o in rule.operands)
    points = _sample_points(plan, piece, site)[: None if placed else 1]
    weights = [_weights(plan, site, piece, rule, point) for point in points]
    scale = max(1e-300, *(float(np.abs(w).max(initial=0.0)) for w in weights))
    if any(np.abs(w - weights[0]).max(initial=0.0) > 1e-9 * scale for w in weights):
        raise PlanningError(_show_varying(plan, piece))
    reads: dict[Read, complex] = {}
    for read, weight in zip(rule.reads, weights[0], strict=True):
        key = (read.field, read.level, moved(plan, piece.field, read))
        reads[key] = reads.get(key, 0.0) + complex(weight)
    linear = bool(rule.affine)
    return LinearRule(piece.field, piece.role == "rate", piece.group, linear, reads, piece.implicit)


def moved(plan: Plan, field: str, read: StateRead) -> tuple[float, ...]:
    """How far a read is from the point of a field's rule, in steps of the axes."""
    layouts = plan.problem.scope.layouts
    own, other = layouts[field], layouts[read.field]
    return tuple(
        offset + (other.shift(axis) - own.shift(axis)) / 2 for axis, offset in zip(own.space, read.offset, strict=True)
    )


def _show_varying(plan: Plan, piece: Piece) -> str:
    grid = plan.problem.scope.grid
    stretched = [axis for axis in grid.space if not grid.space_axis(axis).uniform]
    if stretched:
        return (
            f"fd.analyse: {piece.label} has weights that vary along the stretched axis `{stretched[0]}`. Analyse it on "
            f"an evenly spaced axis."
        )
    return (
        f"fd.analyse: {piece.label} has weights that vary in space or time. Freeze them at a place: "
        f"at=dict({', '.join(f'{axis}=…' for axis in grid.names)})."
    )


def _sample_points(plan: Plan, piece: Piece, site: Site) -> list[tuple[int, ...]]:
    """Indices (level first) at which weights are taken: the place asked for, or three to compare."""
    grid, layout = plan.problem.scope.grid, plan.problem.scope.layouts[piece.field]
    assert grid.time is not None and grid.time_name is not None
    spans = [(grid.time_name, 1, grid.time.num), *zip(layout.space, piece.box.start, piece.box.stop, strict=True)]
    columns = []
    for axis, start, stop in spans:
        if axis in site.at:
            own = (
                grid.time.points
                if axis == grid.time_name
                else grid.space_axis(axis).positions(
                    axis in layout.faces, 0, grid.space_axis(axis).size(axis in layout.faces)
                )
            )
            nearest = int(np.argmin(np.abs(own - site.at[axis])))
            columns.append([int(np.clip(nearest, start, stop - 1))] * 3)
        else:
            columns.append([start + (stop - start) // 2, start + (stop - start) // 3, stop - 1])
    return list(dict.fromkeys(zip(*columns, strict=True)))


def _weights(plan: Plan, site: Site, piece: Piece, rule: Traced, point: tuple[int, ...]) -> np.ndarray:
    """∂rule/∂read for each read, at one point and the state linearised about."""
    if not rule.reads:
        return np.zeros(0)
    dtypes = dict(zip(rule.operands, (v.aval.dtype for v in rule.jaxpr.invars), strict=True))
    others = {
        operand: jnp.asarray(_known(plan, site, operand, point), dtypes[operand])
        for operand in rule.operands
        if not isinstance(operand, StateRead)
    }
    evaluate = rule.function(plan.operands["consts"][piece.rule])

    def of_reads(*values: Any) -> Any:
        known = {**others, **dict(zip(rule.reads, values, strict=True))}
        return evaluate(*(known[operand] for operand in rule.operands))

    base = tuple(jnp.asarray(site.about.get(read.field, 0.0), dtypes[read]) for read in rule.reads)
    _, push = jax.linearize(of_reads, *base)

    def slope(index: int, unit: complex) -> complex:
        given = [jnp.asarray(unit if k == index else 0, b.dtype) for k, b in enumerate(base)]
        return complex(push(*given))

    columns = np.eye(len(base))
    found = np.asarray(jax.vmap(push)(*(jnp.asarray(columns[:, k], b.dtype) for k, b in enumerate(base))))
    for index, (read, one) in enumerate(zip(rule.reads, found, strict=True)):
        is_complex = jnp.issubdtype(dtypes[read], jnp.complexfloating)
        if is_complex and not rule.affine and abs(slope(index, 1j) - 1j * one) > 1e-9 * max(abs(one), 1e-30):
            raise PlanningError(
                f"fd.analyse: {piece.label} is not differentiable as a function of the complex field `{read.field}`; "
                f"write its real and imaginary parts as two fields."
            )
    return found


def _known(plan: Plan, site: Site, operand: Operand, point: tuple[int, ...]) -> Any:
    """The value of an operand that is no field, at one point."""
    grid = plan.problem.scope.grid
    assert grid.time is not None
    if isinstance(operand, ProfileRead):
        extent = plan.structure.extent(operand.name)
        by_axis = dict(zip(grid.names, point, strict=True))
        moved_to = zip(operand.axes, operand.offset, extent.origin, strict=True)
        index = tuple(by_axis[axis] + offset - origin for axis, offset, origin in moved_to)
        return plan.operands["profiles"][operand.name][index]
    assert isinstance(operand, WholeRead)
    if operand.name == "t":
        return site.at.get(str(grid.time_name), grid.time.points[point[0]])
    if operand.name == "dt" and site.step is not None:
        return site.step
    return plan.operands["wholes"][operand.name]


def check_site(plan: Plan, about: Any, at: Any) -> Site:
    """The state and the place to analyse at, checked."""
    grid, names = plan.problem.scope.grid, plan.problem.names
    for what, given, known in (("about", about, names), ("at", at, grid.names)):
        if given is not None and not isinstance(given, Mapping):
            raise DeclarationError(f"fd.analyse: {what}= takes a dict by name, as in {what}=dict({known[-1]}=0.5).")
        wrong = [name for name in given or {} if name not in known]
        if wrong:
            raise DeclarationError(f"fd.analyse: {what}= names `{wrong[0]}`; known are {', '.join(known)}.")
        bad = [name for name, value in (given or {}).items() if np.ndim(value) or not np.isfinite(value)]
        if bad:
            raise DeclarationError(
                f"fd.analyse: {what}= takes one number a name, got {bad[0]}={(given or {})[bad[0]]!r}."
            )
    return Site(dict(about or {}), dict(at or {}))
