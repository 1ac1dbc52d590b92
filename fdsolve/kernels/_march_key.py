"""What a measured march is filed under: its structure and the class of its size, nothing that changes between runs."""

import hashlib
from dataclasses import replace
from typing import Any

from ..planning import Parallel, PhaseStructure, Piece, Structure
from ..stencil import Operand, StateRead

LARGEST_REACH = 8


def march_key(structure: Structure, phase: PhaseStructure, steps: int) -> str | None:
    """Arrays (extents rounded up to powers of two), steps likewise, stepper and rules; None where a rule has no text.

    Numbers in the rules are left out: they do not decide which kernel is fastest.
    """
    arrays = [(one.name, _sizes(one.shape), one.lower, one.upper, one.dtype, one.kept) for one in structure.arrays]
    stages, views = (
        [(one.piece,) if isinstance(one, Parallel) else (one.method, *one.pieces) for one in group]
        for group in (phase.stages, phase.views)
    )
    pieces = [[_show(structure, part) for part in one] for one in (*stages, ("rates", *phase.rates), *views)]
    text = repr((arrays, pieces, repr(structure.stepper)))
    if " at 0x" in text:
        return None
    sizes = ", ".join(f"{name} {size} {dtype}" for name, size, _, _, dtype, _ in arrays)
    return f"{sizes}; steps {_round(steps)}; structure {hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _show(structure: Structure, part: Piece | str) -> Any:
    if isinstance(part, str):
        return part
    acts = part.field, part.role, part.adds, part.mask is not None, part.operation is not None
    thickness = tuple(map(_round, part.box.shape))
    rules = [structure.rules[n] for n in (part.rule, part.predicate) if n is not None]
    return (
        acts,
        thickness,
        [
            ([_show_operand(one) for one in rule.operands], str(rule.dtype), _without_numbers(rule.key))
            for rule in rules
        ],
    )


def _show_operand(operand: Operand) -> str:
    """An operand with offsets by size class where they are large: those of periodic ghosts are as large as the axis."""
    if not isinstance(operand, StateRead):
        return repr(operand)
    offset = tuple(o if abs(o) <= LARGEST_REACH else (1 if o > 0 else -1) * _round(abs(o)) for o in operand.offset)
    return repr(replace(operand, offset=offset))


def _without_numbers(key: Any) -> Any:
    if not isinstance(key, tuple):
        return key
    if key and key[0] == "literal":
        return "literal", *key[2:]
    return tuple(_without_numbers(part) for part in key)


def _sizes(shape: tuple[int, ...]) -> str:
    return "×".join(str(_round(n)) for n in shape)


def _round(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
