"""What a kept stream says of its grid and its rules, so that files of others are told."""

import re
from hashlib import sha256

import numpy as np

from ..grid import Grid
from ..planning import Structure


def describe_grid(grid: Grid) -> str:
    """A grid in words, but for how long it lasts: a file may be gone on with on a longer one."""
    axes = ((name, grid.space_axis(name)) for name in grid.space)
    shown = [f"{name}={one!r}" if one.uniform else f"{name}={one!r} {_digest(one.points)}" for name, one in axes]
    time = grid.time
    assert time is not None
    return ", ".join([*shown, f"{grid.time_name} from {time.start:.9g} by {time.step:.9g}"])


def describe_rules(structure: Structure) -> str:
    """The rules of steps and their stepper: what they are called, and in eight letters what they compute, whatever
    their numbers."""
    segments = [one for one in structure.segments if one.stop > 1]
    used = {n for one in segments for k, n in enumerate(one.phases) if one.start + k > 0 or len(one.phases) == 1}
    phases = [structure.phases[number] for number in sorted(used)]
    pieces = [piece for one in phases for piece in (*one.values, *one.rates)]
    rules = [structure.rules[piece.rule] for piece in pieces]
    written = [f"{p.field} {p.box} {rule.operands} {rule.jaxpr}" for p, rule in zip(pieces, rules, strict=True)]
    meant = re.sub(r"0x[0-9a-f]+", "", "; ".join(written))  # places in memory
    labels = dict.fromkeys(piece.label for piece in pieces)
    stepper = "" if structure.stepper is None else f" by {structure.stepper!r}"
    return f"{', '.join(labels)}{stepper} ({sha256(meant.encode()).hexdigest()[:8]})"


def _digest(points: np.ndarray) -> str:
    """Points that need not stand in words, in eight letters."""
    return sha256(np.asarray(points, np.float64).tobytes()).hexdigest()[:8]
