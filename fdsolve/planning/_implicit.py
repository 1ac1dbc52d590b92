"""Implicit stages: what is known of the systems v = b + cΔt f(v) that steppers solve."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import PlanningError
from ..schemes import Part
from ..solvers import SystemOutline, choose
from ..stencil import uses
from ._holomorphy import check_precision, say_parts
from ._order import Solve, Stage, pieces_of
from ._pieces import Piece
from ._structure import PhaseStructure, Structure
from ._systems import describe_system, outline_system


@dataclass(frozen=True)
class ImplicitSystem:
    """A system of an implicit stage: the fields it determines, what is known of it, and its solver."""

    fields: tuple[str, ...]
    outline: SystemOutline
    affine: bool
    fixed: bool
    solver: Any
    linear: Any
    reasons: tuple[str, ...]


@lru_cache(maxsize=64)
def implicit_system(structure: Structure, phase: PhaseStructure, part: Part) -> ImplicitSystem | None:
    """The system of the rates of a part; None where no rate belongs to it."""
    rows = rates_of(structure, phase, part)
    if not rows:
        return None
    fields, stages = tuple(dict.fromkeys(piece.field for piece in rows)), stages_for(structure, phase, part)
    beside = [p for stage in stages if not isinstance(stage, Solve) for p in pieces_of(stage)]
    constrained = [stage for stage in stages if isinstance(stage, Solve)]
    assert structure.facts is not None
    over = [piece for piece in phase.rates if piece.field in fields and piece.replaces and piece not in rows]
    known = outline_system(structure.facts, rows, beside, structure.rules, scaled=True, over=over)
    outline, affine, fixed = known.solved, known.affine, known.fixed
    _check_derivable(structure, rows)
    check_precision(fields, [structure.facts.place(name).dtype for name in fields])
    if constrained:
        raise PlanningError(
            f"{structure.stepper!r} solves for {', '.join(fields)}, and at each of its stages "
            f"{', '.join(constrained[0].fields)} would have to be solved for too. Mark the rates that do not depend on "
            f"it, fd.rate(f, implicit=True), and add the others with += under fd.schemes.ARK3(); or take an explicit "
            f"stepper such as fd.schemes.RK4(), or write all of them as residuals."
        )
    asked = getattr(structure.stepper, "solver", None) or structure.asked
    found = choose(outline, affine, asked, describe_system(outline, fields, affine))
    reasons = (*found.reasons, *say_parts(outline))
    return ImplicitSystem(fields, outline, affine, fixed, found.solver, found.linear, reasons)


def rates_of(structure: Structure, phase: PhaseStructure, part: Part) -> list[Piece]:
    """The rates of a part."""
    linear = structure.is_linear
    return [piece for piece in phase.rates if part.has(piece.field, piece.group, linear(piece.rule), piece.implicit)]


@lru_cache(maxsize=64)
def stages_for(structure: Structure, phase: PhaseStructure, part: Part) -> tuple[Stage, ...]:
    """The stages on which the rates of a part may depend: without equations, and what reads them, where none does."""
    solved = {p.field for stage in phase.every_stage if isinstance(stage, Solve) for p in pieces_of(stage)}
    if not solved:
        return phase.every_stage

    def depends(piece: Piece) -> bool:
        numbers = (piece.rule,) if piece.predicate is None else (piece.rule, piece.predicate)
        reads = {read.field for number in numbers for read in structure.rules[number].reads if read.level == 0}
        return piece.field in solved or not reads.isdisjoint(solved)

    while more := {piece.field for piece in phase.values if depends(piece)} - solved:
        solved |= more
    if any(depends(piece) for piece in rates_of(structure, phase, part)):
        return phase.every_stage
    return tuple(stage for stage in phase.every_stage if solved.isdisjoint(p.field for p in pieces_of(stage)))


def _check_derivable(structure: Structure, rows: Sequence[Piece]) -> None:
    """Refuses rates whose derivatives along directions, of which a solver makes its matrix, JAX does not know."""
    for piece in rows:
        if uses(structure.rules[piece.rule].jaxpr, "custom_vjp_call"):
            raise PlanningError(
                f"{piece.label}: {structure.stepper!r} solves for {piece.field}, with the derivative of the rule along "
                f"directions; a function in it has a jax.custom_vjp, which has none. Give that function a "
                f"jax.custom_jvp, from which JAX makes both, or take an explicit stepper such as fd.schemes.RK4()."
            )
