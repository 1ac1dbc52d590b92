"""The snapshot of a declaration: coupled fields, parameters, what their names mean."""

import difflib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ..errors import DeclarationError, PlanningError
from ..field import AbstractBoundary, Along, Assignment, Field, Interpolate, Residual, Whole, are_keys, bare
from ..grid import in_axis_units
from ..region import Layout
from ..stencil import Labelled as LabelledSpec
from ..stencil import Scope, Static, WholeArray
from ._dataarrays import axis_coordinates, faces_named, label_dataarray
from ._store import Store, check_covers
from ._units import Units, separate
from ._value_units import in_declared_units
from ._walls import even_ends

OPTIONS = ("stepper", "solver", "save", "adjoint", "kernel", "monitors", "progress", "parameters")
"""What `solve` takes besides parameters of rules."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Fields on one grid with a copy of their assignments, the scope of names, and the arrays.

    All are magnitudes; `units` is what they are measured in, where quantities take part.
    """

    fields: tuple[Field, ...]
    assignments: dict[str, tuple[Assignment, ...]]
    scope: Scope
    store: Store
    units: Units | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields, in the order given."""
        return tuple(one.name for one in self.fields)


def take_snapshot(fields: Any, parameters: Mapping[str, Any]) -> Problem:
    """Checks that the fields make one problem and classifies the parameters."""
    together = (fields,) if isinstance(fields, Field) else tuple(fields) if isinstance(fields, Sequence) else ()
    if not together or not all(isinstance(one, Field) for one in together):
        got = ", ".join(type(one).__name__ for one in together) or (
            "none" if isinstance(fields, Sequence) and not isinstance(fields, str) else type(fields).__name__
        )
        raise DeclarationError(
            f"solve and plan take a field or a sequence of coupled fields, as in solve((u, v)); got {got}."
        )
    grid, names = together[0].grid, [one.name for one in together]
    if len(set(names)) < len(names):
        raise DeclarationError(f"Two fields have the same name among {', '.join(names)}; give each its own.")
    for one in together:
        if one.grid != grid:
            raise DeclarationError(
                f"Fields `{names[0]}` and `{one.name}` are on different grids; coupled fields share one."
            )
        if not one.assignments:
            raise PlanningError(f"Field `{one.name}` has no rule; assign one, for example {one.name}[...] = 0.0.")
    apart = separate(together, {one.name: tuple(one.assignments) for one in together}, parameters)
    assignments = apart.assignments if apart.units is not None else in_declared_units(together, apart.assignments)
    return replace(build_problem(together, assignments, apart.parameters), units=apart.units)


def build_problem(
    together: Sequence[Field], assignments: dict[str, tuple[Assignment, ...]], parameters: Mapping[str, Any]
) -> Problem:
    """The problem of fields, their assignments and parameters, all of them magnitudes."""
    grid, names = together[0].grid, [one.name for one in together]
    layouts = {one.name: one.layout for one in together}
    dtypes = {one.name: _field_dtype(one) for one in together}
    real = np.dtype(jnp.finfo(jnp.result_type(float)).dtype)
    inexact = [d for d in dtypes.values() if jnp.issubdtype(d, jnp.inexact)]
    if inexact:
        real = np.dtype(max((jnp.finfo(d).dtype for d in inexact), key=lambda d: np.dtype(d).itemsize))
    store = Store(grid, real)
    reserved = {*names, *grid.names, *(f"d{axis}" for axis in grid.names)}
    specs: dict[str, Any] = {}
    for name, value in parameters.items():
        if name in reserved:
            raise DeclarationError(f"The parameter `{name}` has the name of a field, an axis or a spacing; rename it.")
        specs[name] = _classify(name, value, grid, real, store)
    even = {name: even_ends(layouts[name], assignments[name]) for name in names}
    scope = Scope(grid, layouts, dtypes, specs, real, even=even)
    return Problem(tuple(together), assignments, scope, store)


def _field_dtype(one: Field) -> np.dtype:
    wanted = np.dtype(one.dtype) if one.dtype is not None else jnp.result_type(float)
    dtype = jax.dtypes.canonicalize_dtype(wanted)
    if dtype != wanted:
        raise DeclarationError(
            f"Field `{one.name}`: dtype {wanted} needs 64 bits; run jax.config.update('jax_enable_x64', True) first."
        )
    return np.dtype(dtype)


def to_precision(value: Any, real: np.dtype) -> jax.Array:
    """A JAX array of a value, floats and complex numbers in the problem's precision."""
    array = value if isinstance(value, jax.Array) else jnp.asarray(np.asarray(value))
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return array.astype(jnp.complex64 if real.itemsize < 8 else jnp.complex128)
    return array.astype(real) if jnp.issubdtype(array.dtype, jnp.floating) else array


def _classify(name: str, value: Any, grid: Any, real: np.dtype, store: Store) -> Any:
    if (
        value is None
        or isinstance(value, bool | np.bool_ | int | str | bytes)
        or (callable(value) and not hasattr(value, "dtype"))
    ):
        return Static(value)
    if isinstance(value, Whole):
        return _whole(name, value.array, real, store)
    if isinstance(value, Along):
        return _labelled(name, value.axes, value.faces, value.array, grid, real, store)
    if isinstance(value, xr.DataArray | Interpolate):
        source = value.array if isinstance(value, Interpolate) else value
        layout = _dataarray_layout(source, grid, f"The parameter `{name}`")
        everywhere = {axis: np.arange(size) for axis, size in zip(layout.names, layout.shape, strict=True)}
        found = label_dataarray(value, layout, f"The parameter `{name}`", everywhere)
        return _labelled(name, found.axes, layout.faces, found.array, grid, real, store)
    if isinstance(value, Mapping):
        raise DeclarationError(
            f"The parameter `{name}` is a {type(value).__name__}; pass its arrays and numbers one by one."
        )
    try:
        shape = tuple(getattr(value, "shape", None) or np.shape(value))  # type: ignore[arg-type]
    except (ValueError, TypeError):
        raise DeclarationError(
            f"The parameter `{name}` is no number and no array, got {type(value).__name__}.{_option_meant(name)}"
        ) from None
    space_shape = Layout(grid).space_shape
    if shape and shape == space_shape and not are_keys(value):
        return _labelled(name, grid.space, frozenset(), value, grid, real, store)
    return _whole(name, value, real, store)


def _option_meant(name: str) -> str:
    """Which option of `solve` a parameter's name may have been meant for, as a sentence; "" where it is like none."""
    near = difflib.get_close_matches(name, OPTIONS, 1)
    return f" There is an option `{near[0]}=`, if that was meant." if near else ""


def _dataarray_layout(source: xr.DataArray, grid: Any, what: str) -> Layout:
    """Points, or faces on the axes where the DataArray's coordinates are those of the faces."""
    faces = set(faces_named(source, Layout(grid)))
    for name in grid.space:
        if name in source.dims and name in source.coords:
            numbers = in_axis_units(source.coords[name], grid.axes[name], name, what)
            on_faces = axis_coordinates(Layout(grid, frozenset({name})), name)
            same = numbers.shape == on_faces.shape and np.issubdtype(numbers.dtype, np.number)
            if same and np.allclose(numbers, on_faces, rtol=0, atol=1e-9 * max(1.0, float(np.ptp(on_faces)))):
                faces.add(name)
    return Layout(grid, frozenset(faces))


def _whole(name: str, value: Any, real: np.dtype, store: Store) -> WholeArray:
    keys = jax.random.key_impl(value) if are_keys(value) else None
    try:
        array = to_precision(value if keys is None else jax.random.key_data(value), real)
    except (TypeError, ValueError):
        raise DeclarationError(
            f"The parameter `{name}` is no number and no array, got {type(value).__name__}.{_option_meant(name)}"
        ) from None
    store.wholes[f"parameter {name}"] = array
    return WholeArray(array.shape, array.dtype, keys)


def _labelled(
    name: str,
    axes: tuple[str, ...],
    faces: frozenset[str],
    value: Any,
    grid: Any,
    real: np.dtype,
    store: Store,
) -> LabelledSpec:
    if are_keys(value):
        raise DeclarationError(
            f"The parameter `{name}` holds random keys, which rules get whole: give them without labels. A point makes "
            f"a key of its own by jax.random.fold_in."
        )
    array = to_precision(value, real)
    check_covers(f"parameter `{name}`", axes, array.shape, grid, faces)
    order = tuple(axis for axis in grid.names if axis in axes)
    array = jnp.transpose(array, [axes.index(axis) for axis in order])
    store.add_array(f"parameter {name}", order, faces, array)
    return LabelledSpec(order, faces, array.dtype)


def check_all_used(problem: Problem) -> None:
    """Refuses parameters that no rule asked for; rules that others overwrote were not traced, but ask as well."""
    unused = [name for name in problem.scope.parameters if name not in problem.scope.used]
    if unused:
        overwritten = {name for rules in problem.assignments.values() for one in rules for name in _asks(one)}
        unused = [name for name in unused if name not in overwritten]
    if unused:
        asked = sorted(problem.scope.used)
        raise PlanningError(
            f"No rule asks for the parameter `{unused[0]}`. "
            + (f"Rules ask for {', '.join(asked)}." if asked else "No rule takes a parameter.")
            + " Leave it out, or name it among the arguments of a rule."
            + _option_meant(unused[0])
        )


def _asks(assignment: Assignment) -> list[str]:
    """The names that the functions of an assignment ask for."""
    rule = bare(assignment.rule)
    found = list(rule.coefficients) if isinstance(rule, AbstractBoundary) else [rule]
    if isinstance(assignment.rule, Residual):
        found.append(assignment.rule.guess)
    for term in assignment.terms.terms:
        found.extend(leaf.function for leaf in (term.predicate.leaves if term.predicate is not None else ()))
    functions = [one for one in found if callable(one) and not hasattr(one, "dtype")]
    return [name for function in functions for name in inspect.signature(function).parameters]
