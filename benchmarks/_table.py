"""Rows of the table of results, and the facts about the machine above it."""

import os
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import jax


@dataclass(frozen=True)
class Row:
    """One comparison: what fdsolve took, what the other took, and the bar on their ratio.

    `ratio` is other / ours where `wants_more`, else ours / other; `spread` its quartiles. Values and ratio are None
    where they could not be measured; `note` then says why.
    """

    what: str
    ours: str
    other: str
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    bar: float | None = None
    wants_more: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None where there is none, or nothing to compare."""
        if self.bar is None or self.ratio is None:
            return None
        return self.ratio >= self.bar if self.wants_more else self.ratio <= self.bar


def show_seconds(seconds: float) -> str:
    """A time in a readable unit, three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def heading(command: str, date: str) -> list[str]:
    """Versions, device and command."""
    device = jax.devices()[0]
    packages = ", ".join(f"{name} {_version(name)}" for name in ("fdsolve", "jax", "jaxlib", "numpy", "kernex"))
    return [
        "# Benchmarks",
        "",
        f"- Command: `{command}`",
        f"- Date: {date}",
        f"- Versions: Python {platform.python_version()}, {packages}",
        f"- Device: {device.platform} ({device.device_kind}); {_processor()}, {_num_cores()} cores{_load()}",
        "- float32. Times are medians of interleaved runs, ratios medians of the ratios of each round, with their"
        " quartiles in brackets: fdsolve's time over the other's, or, in rows that say “times faster”, the other's over"
        " fdsolve's.",
        "",
    ]


def _version(name: str) -> str:
    module = sys.modules.get(name)
    try:
        return version(name)
    except PackageNotFoundError:
        return getattr(module, "__version__", "not installed")


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _load() -> str:
    """How busy the machine was with other work."""
    return f"; load average {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def section(title: str, rows: list[Row]) -> list[str]:
    """A group of rows as a Markdown table."""
    lines = [f"## {title}", "", "| what | fdsolve | other | ratio | bar | met |", "|---|---|---|---|---|---|"]
    notes: list[str] = []
    for row in rows:
        if row.note and row.note not in notes:
            notes.append(row.note)
        mark = f" ({notes.index(row.note) + 1})" if row.note else ""
        lines.append(f"| {row.what}{mark} | {row.ours} | {row.other} | {_ratio(row)} | {_bar(row)} | {_met(row)} |")
    return [*lines, "", *(f"{i}. {note}" for i, note in enumerate(notes, 1)), *([""] if notes else [])]


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return "–"
    spread = "" if row.spread is None else f" [{row.spread[0]:.3g}, {row.spread[1]:.3g}]"
    return f"{row.ratio:.3g}{' times faster' if row.wants_more else ''}{spread}"


def _bar(row: Row) -> str:
    return "–" if row.bar is None else f"{'≥' if row.wants_more else '≤'} {row.bar:g}"


def _met(row: Row) -> str:
    return {None: "–", True: "yes", False: "**no**"}[row.met]
