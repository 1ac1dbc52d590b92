"""How far a run is, for people."""

import sys
import time
from abc import ABC, abstractmethod
from typing import Any


class AbstractProgress(ABC):
    """Is told how far a run is."""

    @abstractmethod
    def show(self, level: int, simulated: float) -> None:
        """Level `level` was computed, at the time `simulated`."""

    @abstractmethod
    def close(self) -> None:
        """The run has ended."""


class Silent(AbstractProgress):
    """Shows nothing."""

    def show(self, level: int, simulated: float) -> None:
        pass

    def close(self) -> None:
        pass


class Bar(AbstractProgress):
    """A bar of tqdm's, in a terminal or a notebook."""

    def __init__(self, make: Any, first: int, last: int, units: str):
        self._bar, self._units = (
            make(total=last, initial=first, unit=" steps", dynamic_ncols=True, desc="fdsolve"),
            units,
        )

    def show(self, level: int, simulated: float) -> None:
        self._bar.set_postfix_str(f"t = {simulated:.5g}{self._units}", refresh=False)
        self._bar.update(level - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class Line(AbstractProgress):
    """One line that is written again and again, without another library."""

    def __init__(self, first: int, last: int, units: str):
        self._first, self._last, self._units, self._begun, self._written = first, last, units, time.monotonic(), 0.0

    def show(self, level: int, simulated: float) -> None:
        now = time.monotonic()
        if now - self._written < 0.1 and level < self._last:
            return
        self._written = now
        rate = (level - self._first) / max(now - self._begun, 1e-9)
        left = (self._last - level) / max(rate, 1e-9)
        sys.stderr.write(
            f"\rfdsolve: {level}/{self._last} steps, t = {simulated:.5g}{self._units}, {rate:.3g} steps/s, "
            f"{left:.0f} s left "
        )
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")


def make_progress(wanted: bool, first: int, last: int, units: str | None) -> AbstractProgress:
    """A bar if one is wanted: tqdm's where it is installed."""
    shown = f" {units}" if units else ""
    if not wanted:
        return Silent()
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return Line(first, last, shown)
    return Bar(tqdm, first, last, shown)
