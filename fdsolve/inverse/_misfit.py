"""`fd.misfit`: a solution at the places and times of observations, minus what was observed."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import DeclarationError, RunError
from ..region import Box
from ..solution import TOPOLOGY, Records, Solution
from ..units import conversion, rescaled, units_of
from ._places import Along, Places, check_receivers, find_places, kept_points, lines_of
from ._weights import weights_of


def misfit(solution: Any, observations: Any, weight: Any = None) -> jax.Array:
    """Residuals w (u − d) of a solution u at the places and times of observations d, (num,).

    Sampled linearly between points and between saved times, from the middles of cells on to the wall too, and
    differentiable in the solution. Missing values (nan) are left out. Works under jit: coordinates are static, values
    may be traced.

    Arguments:
        solution: what `fd.solve` returned, or its `.receivers`. Where receivers alone were saved, these are meant:
            observations then have the time and the dimension `receiver`, counted from 0.
        observations: a DataArray, named like its field (or of any name where there is one field), or a Dataset of
            them. Each axis of the grid is a coordinate: of a dimension of its own (values on a grid) or several along
            one dimension (points), or a single number. Times are numbers, or datetimes where the time axis has
            `since=`. An axis of which the solution has one point, as the time after save=fd.final(), may be left out.
            Values in other `units` than the field's, and coordinates in others than their axis', are converted by
            saiunit, or refused.
        weight: w: a number, an array or DataArray that fits the observations, a dict or Dataset of those by field, or
            "1/sigma": one over the standard deviation in the coordinate or attribute `sigma` of each DataArray, in
            `units` of its own or else those of the values.

    Raises: DeclarationError for unknown fields, coordinates outside, infinite values; RunError for a solution that is
        not finite where it was observed (a traced one is nan there).
    """
    arrays, lines, plan, columns = _source(solution)
    parts, where = [], []
    for name, observed in _named(observations, list(arrays)):
        array, what = arrays[name], f"fd.misfit, `{name}`"
        units = next(one.units for one in plan.problem.fields if one.name == name)
        _check_decoded(observed, what)
        values, kept = _values(_in_units(observed, units, name, what), what)
        grid = plan.problem.scope.grid
        places = find_places(observed, lines(name), kept, grid, what)
        check_receivers(observed, places, kept, columns, grid, what)
        _check_holes(plan, name, places, what)
        dtype = jnp.result_type(array.dtype, jnp.float32 if not jnp.issubdtype(array.dtype, jnp.inexact) else array)
        missing = jnp.isnan(values) if isinstance(values, jax.Array) else None
        if missing is not None:  # nor is anything beside it looked at: derivatives would be 0 · nan
            values = jnp.where(missing, jnp.zeros_like(values), values)
        residual = places.sample(array.reshape(places.shape).astype(dtype)) - _cast(values, dtype, what)
        factor = weights_of(weight, name, observed, units, kept, what)
        if factor is not None:
            factor = jnp.asarray(factor).astype(residual.real.dtype)
            residual = residual * (factor if missing is None else jnp.where(missing, 0, factor))
        if missing is not None:
            residual = jnp.where(missing, jnp.zeros_like(residual), residual)
        parts.append(residual)
        where.append((what, places))
    _check_finite(parts, where)
    common = jnp.result_type(*parts)
    return jnp.concatenate([part.astype(common) for part in parts])


def _source(solution: Any) -> tuple[Mapping[str, jax.Array], Any, Any, dict[str, list[Any]]]:
    """Arrays by field, the axes of a field's array, the plan, and where receivers are, by axis."""
    if isinstance(solution, Solution) and solution.records and not solution.history:
        solution = solution.receivers
    if isinstance(solution, Records):
        records = solution
        count = len(records.places.places)
        time = records.plan.problem.scope.grid.time_name
        lines = [Along(str(time), records.times, None), Along("receiver", np.arange(count, dtype=float), None, True)]
        space = records.plan.problem.scope.grid.space
        columns = {axis: [place.coordinates[axis] for place in records.places.places] for axis in space}
        return records.arrays, lambda name: lines, records.plan, columns
    if not isinstance(solution, Solution):
        raise DeclarationError(
            f"fd.misfit takes a solution and observations, got {type(solution).__name__} first. Write "
            f"fd.misfit(fd.solve(u, ...), observations)."
        )
    return solution.history, lambda name: lines_of(solution, name), solution.plan, {}


def _named(observations: Any, fields: list[str]) -> Iterator[tuple[str, xr.DataArray]]:
    """The observations by field."""
    known = ", ".join(f"`{name}`" for name in fields)
    if isinstance(observations, xr.DataArray):
        name = observations.name
        if name not in fields and len(fields) == 1:
            name = fields[0]
        elif name not in fields:
            raise DeclarationError(
                f"fd.misfit: the observations are named {name!r}, and the fields are {known}. Name them after a field: "
                f"observations.rename({fields[0]!r})."
            )
        yield str(name), observations
    elif isinstance(observations, xr.Dataset):
        names = [name for name, one in observations.items() if one.attrs.get("cf_role") != TOPOLOGY]
        unknown = [name for name in names if name not in fields]
        if unknown or not names:
            got = f"`{unknown[0]}`" if unknown else "nothing"
            raise DeclarationError(
                f"fd.misfit: the observations hold {got}, and the fields are {known}. Leave out what is no field: "
                f"observations[[{fields[0]!r}]]."
            )
        for name in names:
            yield str(name), observations[name]
    else:
        raise DeclarationError(
            f"fd.misfit takes observations as an xarray.DataArray or Dataset with coordinates, got "
            f"{type(observations).__name__}. Write xarray.DataArray(values, dict(t=times, x=places), ('t', 'x'))."
        )


def _in_units(observed: xr.DataArray, units: str | None, name: str, what: str) -> xr.DataArray:
    """Observations in the units of the field, where those of both are known."""
    given = units_of(observed)
    if units is None or given is None:
        return observed
    return rescaled(observed, conversion(given, {str(units): 1}, f"{what}: the array of observations", f"`{name}`"))


def _check_decoded(observed: xr.DataArray, what: str) -> None:
    """Refuses numbers that stand for missing values, as they come from files whose values were not decoded."""
    if isinstance(observed.variable.data, Tracer):
        return
    for key in ("_FillValue", "missing_value"):
        marks = observed.attrs.get(key)
        count = 0 if marks is None else int(np.isin(np.asarray(observed.variable.data), np.asarray(marks)).sum())
        if count:
            raise DeclarationError(
                f"{what}: {count} observations are {marks}, which their attribute `{key}` says is missing. Mark them "
                f"as nan: xarray.decode_cf(dataset), or observations.where(observations != {marks})."
            )


def _values(observed: xr.DataArray, what: str) -> tuple[Any, np.ndarray]:
    """The values that count, (num,), and which of all they are; traced values all count."""
    data = observed.variable.data
    if isinstance(data, Tracer):
        return jnp.ravel(data), np.ones(observed.size, bool)
    values = np.ravel(np.asarray(data))
    if values.dtype.kind not in "fciu":
        raise DeclarationError(f"{what}: observations are numbers, got dtype {values.dtype}.")
    if np.isinf(values).any():
        raise DeclarationError(
            f"{what}: {int(np.isinf(values).sum())} observations are infinite. Mark what is missing as nan."
        )
    kept = ~np.isnan(values)
    if not kept.any():
        raise DeclarationError(f"{what}: there are no observations, all {values.size} values are nan.")
    return values[kept], kept


def _cast(values: Any, dtype: Any, what: str) -> jax.Array:
    if jnp.iscomplexobj(values) and not jnp.issubdtype(dtype, jnp.complexfloating):
        raise DeclarationError(f"{what}: the observations are complex, and the field is real. Take their .real.")
    return jnp.asarray(values).astype(dtype)


def _check_holes(plan: Any, name: str, places: Places, what: str) -> None:
    """Refuses observations inside holes."""
    points = plan.holes.get(name)
    kept, shape = kept_points(plan, name), plan.problem.scope.layouts[name].space_shape
    if points is None or points.empty or places.has_receivers or len(kept) < len(shape):  # means leave holes out
        return
    mask = points.to_mask(Box.of_shape(shape))[np.ix_(*kept.values())]
    hit = places.touches(mask)
    if hit.any():
        raise DeclarationError(
            f"{what}: {int(hit.sum())} observations lie in a hole, or between it and the points beside it, the first "
            f"at {places.show(int(np.argmax(hit)))}. Leave them out: mark them as nan."
        )


def _check_finite(parts: list[jax.Array], where: list[tuple[str, Places]]) -> None:
    for residual, (what, places) in zip(parts, where, strict=True):
        if isinstance(residual, Tracer):
            continue
        bad = ~np.isfinite(np.asarray(residual))
        if bad.any():
            raise RunError(
                f"{what}: the solution is not finite at {int(bad.sum())} of {bad.size} observations, the first at "
                f"{places.show(int(np.argmax(bad)))}. Look whether the run is unstable: print the plan."
            )
