"""What a march kernel is asked to do."""

from dataclasses import dataclass
from typing import ClassVar

from ..planning import PhaseStructure, Solve, Stage, Structure
from ._march_key import march_key


@dataclass(frozen=True)
class MarchCall:
    """Advance all fields by `steps` levels, all of one phase, and keep as many older levels as the structure says.

    `axes` are the space axes in array order, `platform` is "cpu" or "gpu". `block`: the march's derivative is to keep
    the state before each block of so many levels alone, and compute the others again; 0: it may keep them all. `near`:
    the levels of a block must lie in cache meanwhile; `own`: that derivative must be the kernel's own, by the state and
    by the arrays of these names (None: it may be another).
    """

    operation: ClassVar[str] = "march"
    structure: Structure
    phase: PhaseStructure
    axes: tuple[str, ...]
    steps: int
    platform: str
    block: int = 0
    near: bool = False
    own: tuple[str, ...] | None = None

    def cache_key(self) -> str | None:
        """What a measured choice is filed under."""
        return march_key(self.structure, self.phase, self.steps)


def why_in_turn(stage: Stage) -> str:
    """Why the points of a stage are not computed all at once."""
    solved = isinstance(stage, Solve)
    return "equations are solved at each level" if solved else "points of one level read each other (a sweep)"
