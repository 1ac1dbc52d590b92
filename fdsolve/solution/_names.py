"""Names and times of what a solve returns."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ..errors import DeclarationError
from ..planning import Plan


def find(arrays: Mapping[str, jax.Array], name: Any) -> jax.Array:
    """The array of a field."""
    if not isinstance(name, str) or name not in arrays:
        raise DeclarationError(
            f"The solution has no field {name!r}; it has {', '.join(map(repr, arrays))}. Call it by name."
        )
    return arrays[name]


def time_coordinate(plan: Plan, times: np.ndarray) -> Any:
    """The coordinate of the time axis for a Dataset, as datetimes where the axis has `since=`."""
    time, name = plan.problem.scope.grid.time, plan.problem.scope.grid.time_name
    assert time is not None
    attributes = {"units": time.units} if time.units and time.since is None else {}
    if time.since is None:
        return (name, times, attributes)
    origin = time.datetimes()[0]
    per_level = (time.datetimes()[1] - origin) / np.timedelta64(1, "ns")
    nanoseconds = np.round((times - time.start) / time.step * per_level).astype("int64")
    return (name, origin + nanoseconds.astype("timedelta64[ns]"), attributes)
