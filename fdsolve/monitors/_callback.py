"""Any function, between two chunks."""

from dataclasses import dataclass
from typing import Any

from ..errors import DeclarationError
from ._base import EVERY, AbstractMonitor, Look, Measured, Watched, to_every


@dataclass(frozen=True)
class Callback(AbstractMonitor):
    """Calls `function(look)` on the host at every `every`-th level: `look.fields["u"]`, `look.time`, `look.level`.

    A dict of numbers that it returns is kept in the records, with nan at the looks that leave one out; a text or True
    stops the run, the text as the reason; None and False go on, and others are refused. What it raises ends the run.
    """

    function: Any
    every: Any = EVERY

    def __post_init__(self) -> None:
        to_every(self.every, "Callback")
        if not callable(self.function):
            raise DeclarationError(f"Callback takes a function of a look, got {self.function!r}.")

    def measure(self, watched: Watched, look: Look) -> Measured:
        return {}

    def listen(self, look: Look) -> Any:
        return self.function(look)
