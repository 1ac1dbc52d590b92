"""Solutions as pictures and in notebooks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from jax.core import Tracer

from ..pictures import Html, code, details, page, quiet, table
from ..planning import Plan
from ._sgrid import TOPOLOGY


def with_geometry(data: xr.Dataset, plan: Plan) -> xr.Dataset:
    """The Dataset with what pictures need to know beside it: which axis is time, and what others measure."""
    grid = plan.problem.scope.grid
    metrics = {name: metric for name in grid.space if (metric := grid.space_axis(name).metric)}
    known = {dim: metrics[name] for dim in data.dims if (name := str(dim).removesuffix("_face")) in metrics}
    measured = {dim: data[dim].assign_attrs(metric=metric) for dim, metric in known.items()}
    shown = data.drop_vars(TOPOLOGY, errors="ignore")
    return shown.assign_coords(measured).assign_attrs(time_axis=grid.time_name)


def solution_html(plan: Plan, last: Mapping[str, Any], times: np.ndarray, ended: str | None) -> str:
    """The solution as HTML: what was saved, and the least and greatest value of the last level."""
    units = {one.name: one.units or "" for one in plan.problem.fields}
    rows = [
        (
            code(name),
            quiet(units.get(name, "")),
            " × ".join(map(str, np.shape(array))),
            str(array.dtype),
            *_range(array),
        )
        for name, array in last.items()
    ]
    facts: list[tuple[object, object]] = []
    grid = plan.problem.scope.grid
    if times.size and grid.time is not None:
        unit = f" {grid.time.units}" if grid.time.units else ""
        facts.append((f"saved {grid.time_name}", f"{times.size} from {times[0]:g} to {times[-1]:g}{unit}"))
    facts += [("ended early", ended)] if ended else []
    shown = [(code(name), _value(value)) for name, value in plan.parameters.items()]
    parts = [table(rows, ("field", "units", "points", "dtype", "last: least", "greatest"))]
    parts += [table(facts)] if facts else []
    parts += [details("parameters", table(shown))] if shown else []
    return page("Solution", *parts, details("plan", Html(plan._repr_html_())))


def _range(array: Any) -> tuple[str, str]:
    if isinstance(array, Tracer):
        return "traced", "traced"
    values = np.asarray(array)
    if np.iscomplexobj(values):
        values = np.abs(values)
    finite = values[np.isfinite(values)]
    return (f"{finite.min():.4g}", f"{finite.max():.4g}") if finite.size else ("–", "–")


def _value(value: Any) -> str:
    if isinstance(value, Tracer) or np.ndim(value) > 0:
        return f"array {np.shape(value)}"
    return str(value)
