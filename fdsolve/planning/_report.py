"""The plan as text: what will run, region by region, and why."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ..stencil import AFFINE, CONSTANT, ProfileRead, StateRead, Traced
from ._order import Parallel, Solve, Sweep, pieces_of
from ._pieces import Piece
from ._stability import Skipped, Stability
from ._structure import PhaseStructure, Structure

MAX_ROWS = 24
MAX_READS = 4
_KERNELS = (
    "At once: all that is read is known by then. Kernels: slices (fused shifted slices, which serve every rule), "
    "rows (the same on a sweep's rows)."
)


def show_bytes(count: int | float) -> str:
    """A number of bytes in a readable unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def show_memory(plan: Any) -> str:
    """What a plan saves and holds, in a line."""
    saved = f"Holds {show_bytes(plan.bytes_held)}"
    if plan.problem.scope.grid.time is not None:
        saves = "Saves" if plan.stream is None else "Streams"
        saved = (
            f"{saves} {len(plan.save.times)} of {plan.structure.segments[-1].stop} levels, "
            f"{show_bytes(plan.bytes_saved)}; holds {show_bytes(plan.bytes_held)} while marching"
        )
    if plan.stream is not None:
        saved = f"{saved}; to {plan.stream.path}"
    if (recording := plan.structure.recording) is not None:
        saved = f"Records {recording.num_places} receivers at {recording.num_levels} levels. {saved}"
    return saved


def describe(
    structure: Structure,
    grid: Any,
    units: dict[str, str | None],
    notes: Sequence[str],
    stability: Stability | Skipped,
    saved: str,
    boundaries: Sequence[str] = (),
    kernels: Sequence[str] = (),
    served: Mapping[Piece, str] | None = None,
) -> str:
    """A few lines a person can act on: grid, fields, regions in order of evaluation, memory, stability, notes."""
    lines = ["Plan", *("  " + line for line in repr(grid).splitlines())]
    for one in structure.arrays:
        ghosts = f", ghost layers {one.lower} below and {one.upper} above" if any((*one.lower, *one.upper)) else ""
        unit = f" [{units[one.name]}]" if units.get(one.name) else ""
        kept = f", {one.kept} older level{'s' if one.kept != 1 else ''} kept" if structure.time_axis else ""
        lines.append(f"  Field {one.name}{unit} {one.shape} {show_dtype(one.dtype)}{kept}{ghosts}")
    if structure.stepper is not None:
        lines.append(f"  Stepper {structure.stepper} (order {structure.stepper.order})")
    lines += ["  Boundaries:"] * bool(boundaries) + [f"    {line}" for line in boundaries]
    for number, phase in enumerate(structure.phases):
        where = _show_levels(structure, number)
        lines.append(f"  {where}:" if where else "  Evaluation:")
        lines += ["    " + row for row in _table(_rows(structure, grid.space, phase, served or {}))]
    lines.append(f"  {_KERNELS}")
    lines += [f"  {line}" for line in kernels]
    for stage in dict.fromkeys(s for phase in structure.phases for s in phase.stages if isinstance(s, Solve)):
        kind, size = (
            "linear" if stage.affine else "nonlinear",
            sum(prod(structure.array(n).shape) for n in stage.fields),
        )
        lines.append(f"  Equations for {', '.join(stage.fields)} ({kind}, {size} points): {stage.reasons[0]}")
        lines += [f"    {reason}" for reason in stage.reasons[1:]]
    lines.append(f"  {saved}")
    lines.append(f"  {show_stability(stability)}")
    lines += [f"  Note: {note}" for note in notes]
    return "\n".join(lines)


def show_dtype(code: str) -> str:
    """The name of a dtype from its code."""
    return {"f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128"}.get(code.lstrip("<|=>"), code)


def _show_levels(structure: Structure, phase: int) -> str:
    if structure.time_axis is None:
        return ""
    parts = []
    for segment in structure.segments:
        if segment.phases == (phase,):
            last = segment.stop - 1
            parts.append(f"{segment.start}" if last == segment.start else f"{segment.start} to {last}")
        elif len(segment.phases) > 1 and phase in segment.phases:
            parts.append(f"{segment.phases.count(phase)} of {segment.start} to {segment.stop - 1}")
    return f"Levels {', '.join(parts)}"


def evaluation_tables(
    structure: Structure, axes: tuple[str, ...], served: Mapping[Piece, str]
) -> list[tuple[str, list[tuple[str, ...]]]]:
    """For each phase the levels it holds for, and a table of what is evaluated in order; its first row is the head."""
    return [
        (_show_levels(structure, number) or "Evaluation", _rows(structure, axes, phase, served))
        for number, phase in enumerate(structure.phases)
    ]


def _rows(
    structure: Structure, axes: tuple[str, ...], phase: PhaseStructure, served: Mapping[Piece, str]
) -> list[tuple[str, ...]]:
    rows = [("order", "points", "rule", "reads", "kind", "schedule", "kernel")]
    at_rates = [*phase.rates, *(piece for stage in phase.views for piece in pieces_of(stage))]
    entries: list[tuple[Piece, str]] = [(piece, "each stage") for piece in at_rates]
    for stage in phase.stages:
        if isinstance(stage, Parallel):
            entries.append((stage.piece, "at once"))
        else:
            entries.extend((piece, _show_sweep(stage)) for piece in stage.pieces)
    for order, (piece, schedule) in enumerate(entries[:MAX_ROWS], start=1):
        rule = structure.rules[piece.rule]
        where = f"{piece.field}{piece.box}" + ("*" if piece.mask is not None else "")
        where += " where" if piece.predicate is not None else ""
        kind = _kind(rule) + (", added" if piece.adds else "")
        plain = "slices" if "scan" not in schedule and "wavefront" not in schedule else "rows"
        kernel = served.get(piece, plain)
        label = piece.label if piece.role != "ghost" else f"ghost of {piece.label}"
        rows.append((str(order), where, label, _show_reads(structure, axes, rule), kind, schedule, kernel))
    if len(entries) > MAX_ROWS:
        rows.append(("…", f"{len(entries) - MAX_ROWS} more", "", "", "", "", ""))
    return rows


def _show_sweep(stage: Sweep | Solve) -> str:
    if isinstance(stage, Solve):
        return "solved together"
    names = {
        "scan": "scan",
        "associative": "associative scan",
        "wavefront": f"wavefront {stage.direction}",
        "points": "point by point",
    }
    return f"{names[stage.method]} ({stage.reason})"


def _kind(rule: Traced) -> str:
    if rule.degree == CONSTANT:
        return "constant" if not any(isinstance(o, ProfileRead) for o in rule.operands) else "given"
    return "affine" if rule.degree == AFFINE else "nonlinear"


def _show_reads(structure: Structure, axes: tuple[str, ...], rule: Traced) -> str:
    if not rule.reads:
        return "–"
    if len(rule.reads) > MAX_READS:
        fields = sorted({r.field for r in rule.reads})
        reach = max(abs(o) for r in rule.reads for o in r.offset)
        oldest = -min(r.level for r in rule.reads)
        back = f", to {structure.time_axis}-{oldest}" if oldest else ""
        return f"{len(rule.reads)} of {', '.join(fields)}, reach {reach}{back}"
    return " ".join(_show_read(structure, axes, r) for r in rule.reads)


def _show_read(structure: Structure, axes: tuple[str, ...], read: StateRead) -> str:
    """A read as it could be written in a rule; offsets are in points of the field read."""
    moved = [f'"{structure.time_axis}{read.level}"'] if read.level else []
    moved += [f'"{axis}{offset:+d}"' for axis, offset in zip(axes, read.offset, strict=True) if offset]
    return f"{read.field}[{', '.join(moved) or '...'}]"


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def show_stability(stability: Stability | Skipped) -> str:
    """What is known of the declared step, in a line."""
    if isinstance(stability, Skipped):
        return f"Stability: not analysed ({stability.reason})"
    factor = f"largest amplification factor {stability.factor:.6g}"
    factor += " of the rates marked implicit by themselves" * stability.alone
    if stability.largest is None:
        return f"Stability: {factor}; the rules do not read the time step"
    if stability.largest == float("inf"):
        return f"Stability: {factor}, every step is stable"
    if stability.largest == 0.0:
        return f"Stability: {factor}, no step is stable"
    return f"Stability: {factor} at step {stability.step:.6g}; largest stable step {stability.largest:.6g}"
