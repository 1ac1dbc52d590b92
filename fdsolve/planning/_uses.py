"""How rules use ghost values: as diffusion, waves or advection do. It depends on structure, never on parameters."""

from collections.abc import Sequence

from ._ghosts import Uses
from ._phases import Phase
from ._pieces import Piece, RuleBook


def find_uses(book: RuleBook, phases: Sequence[Phase], pieces: Sequence[Sequence[Piece]]) -> Uses:
    """What the ghost values of each field beyond each wall are used for: the most demanding of all uses."""
    return {}
