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
from ._order import Solve, pieces_of
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
    rows = [
        piece
        for piece in phase.rates
        if part.has(piece.field, piece.group, structure.is_linear(piece.rule), piece.implicit)
    ]
    if not rows:
        return None
    fields = tuple(dict.fromkeys(piece.field for piece in rows))
    beside = [p for stage in phase.every_stage if not isinstance(stage, Solve) for p in pieces_of(stage)]
    constrained = [stage for stage in phase.stages if isinstance(stage, Solve)]
    assert structure.facts is not None
    over = [piece for piece in phase.rates if piece.field in fields and piece.replaces and piece not in rows]
    known = outline_system(structure.facts, rows, beside, structure.rules, scaled=True, over=over)
    outline, affine, fixed = known.solved, known.affine, known.fixed
    _check_derivable(structure, rows)
    check_precision(fields, [structure.facts.place(name).dtype for name in fields])
    if constrained:
        raise PlanningError(
            f"{structure.stepper!r} solves for {', '.join(fields)}, and at each of its stages "
            f"{', '.join(constrained[0].fields)} would have to be solved for too. Take an explicit stepper such as "
            f"fd.schemes.RK4(), or write all of them as residuals."
        )
    asked = getattr(structure.stepper, "solver", None) or structure.asked
    found = choose(outline, affine, asked, describe_system(outline, fields, affine))
    reasons = (*found.reasons, *say_parts(outline))
    return ImplicitSystem(fields, outline, affine, fixed, found.solver, found.linear, reasons)


def _check_derivable(structure: Structure, rows: Sequence[Piece]) -> None:
    """Refuses rates whose derivatives along directions, of which a solver makes its matrix, JAX does not know."""
    for piece in rows:
        if uses(structure.rules[piece.rule].jaxpr, "custom_vjp_call"):
            raise PlanningError(
                f"{piece.label}: {structure.stepper!r} solves for {piece.field}, with the derivative of the rule along "
                f"directions; a function in it has a jax.custom_vjp, which has none. Give that function a "
                f"jax.custom_jvp, from which JAX makes both, or take an explicit stepper such as fd.schemes.RK4()."
            )
