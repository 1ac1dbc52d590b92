"""The plan in a notebook: the printed one in small tables, what is long folded away."""

from typing import Any

from ..pictures import Html, code, details, page, quiet, table
from ._order import Solve
from ._report import evaluation_tables, show_dtype, show_memory, show_stability
from ._structure import Structure


def plan_html(plan: Any) -> str:
    """The plan as HTML."""
    structure: Structure = plan.structure
    grid = plan.problem.scope.grid
    units = {one.name: one.units for one in plan.problem.fields}
    facts: list[tuple[object, object]] = []
    if structure.stepper is not None:
        facts.append(("stepper", f"{structure.stepper} (order {structure.stepper.order})"))
    facts.append(("memory", show_memory(plan)))
    facts.append(("stability", show_stability(plan.stability).removeprefix("Stability: ")))
    facts += [("note", note) for note in plan.notes]
    fields = [
        (code(one.name), quiet(units.get(one.name) or ""), " × ".join(map(str, one.shape)), show_dtype(one.dtype))
        for one in structure.declared
    ]
    parts: list[Html] = [table(fields, ("field", "units", "points", "dtype")), table(facts)]
    if plan.boundaries:
        parts.append(details("boundaries", table((line,) for line in plan.boundaries)))
    for title, rows in evaluation_tables(structure, grid.space, plan.served):
        body = table([(row[0], code(row[1]), code(row[2]), code(row[3]), *row[4:]) for row in rows[1:]], rows[0])
        parts.append(details(f"{title} ({len(rows) - 1} regions)", body))
    if plan.kernels:
        parts.append(details("kernels", table((line,) for line in plan.kernels)))
    for stage in dict.fromkeys(s for phase in structure.phases for s in phase.stages if isinstance(s, Solve)):
        parts.append(details(f"equations for {', '.join(stage.fields)}", table((why,) for why in stage.reasons)))
    parts.append(details("grid", Html(grid._repr_html_())))
    return page("Plan", *parts)
