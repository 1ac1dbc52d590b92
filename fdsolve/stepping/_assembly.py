"""The matrix of a plan, for scipy and for JAX, and the names of its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError, RunError
from ..kernels import Arrays
from ..planning import AbstractAssembly, Plan
from ..solvers import StencilMatrix, Vector
from ._operator import Operator, find_free, find_matrix, find_operator

MAX_DENSE = 8192
"""Points up to which a matrix without a pattern is made, column by column."""


@dataclass(frozen=True, eq=False)
class Unknowns:
    """The unknown values of a system in the order of the rows of its matrix.

    `fields` holds the name of the field of each row, `indices` (rows, axes) its place, `coordinates` by axis where
    that is.
    """

    fields: np.ndarray
    indices: np.ndarray
    coordinates: dict[str, np.ndarray]
    shapes: dict[str, tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.fields)

    def take(self, values: Mapping[str, Any]) -> np.ndarray:
        """The unknown values of arrays by field, as one vector."""
        parts = [np.asarray(values[name])[tuple(self.indices[self.fields == name].T)] for name in self.shapes]
        return np.concatenate(parts)

    def put(self, vector: Any) -> dict[str, np.ndarray]:
        """A vector as arrays by field; nan at points that are not unknown."""
        flat, found = np.asarray(vector), {}
        if flat.shape != (len(self),):
            raise DeclarationError(f"put takes a vector of {len(self)} unknown values, got the shape {flat.shape}.")
        for name, shape in self.shapes.items():
            mine = self.fields == name
            found[name] = np.full(shape, np.nan, np.result_type(flat.dtype, np.float32))
            found[name][tuple(self.indices[mine].T)] = flat[mine]
        return found

    def label(self, row: int) -> str:
        """A row by name, as in u[x=3, y=4]."""
        places = zip(self.coordinates, self.indices[row], strict=True)
        return f"{self.fields[row]}[{', '.join(f'{axis}={int(i)}' for axis, i in places)}]"


class Assembly(AbstractAssembly):
    """Makes matrices of plans."""

    def matrix(self, plan: Plan, form: str, at: Any) -> Any:
        if form not in ("csr", "bcoo"):
            raise DeclarationError(f'plan.matrix: format= is "csr" (scipy) or "bcoo" (JAX), got {form!r}.')
        operator, arrays = prepare_operator(plan)
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays)):
            raise RunError("plan.matrix needs concrete parameters: call it outside jit, grad and vmap.")
        base = read_state(operator, at, "plan.matrix")
        check_dense(operator)
        values, rows, columns, size = known_entries(operator, arrays, base)
        if form == "bcoo":
            from jax.experimental.sparse import BCOO

            return BCOO((values, jnp.asarray(np.stack([rows, columns], 1))), shape=(size, size)).sum_duplicates()
        from scipy.sparse import coo_array

        return coo_array((np.asarray(values), (rows, columns)), shape=(size, size)).tocsr()

    def unknowns(self, plan: Plan) -> Unknowns:
        operator, arrays = prepare_operator(plan)
        return list_unknowns(plan, operator, {n: np.asarray(one) for n, one in find_free(operator, arrays).items()})


def prepare_operator(plan: Plan) -> tuple[Operator, Arrays]:
    """The operator of a plan, and its arrays."""
    return find_operator(plan.structure, plan.problem.scope.grid.space), Arrays(**plan.operands)


def list_unknowns(plan: Plan, operator: Operator, free: Mapping[str, np.ndarray]) -> Unknowns:
    """The rows by name."""
    grid, layouts = plan.problem.scope.grid, plan.problem.scope.layouts
    fields, indices, coordinates = [], [], {axis: [] for axis in grid.space}
    for name in operator.fields:
        places, storage = np.argwhere(free[name]), operator.structure.array(name)
        if operator.shape(name) != storage.shape:  # ghosts are among the unknown values
            places = places + np.asarray(storage.origin)
        fields += [name] * len(places)
        indices.append(places)
        for position, axis in enumerate(grid.space):
            owner, face = grid.space_axis(axis), axis in layouts[name].faces
            low = int(places[:, position].min(initial=0))
            along = owner.positions(face, low, int(places[:, position].max(initial=0)) + 1)
            coordinates[axis].append(np.asarray(along)[places[:, position] - low])
    shapes = {name: operator.structure.array(name).shape for name in operator.fields}
    joined = {axis: np.concatenate(parts) for axis, parts in coordinates.items()}
    return Unknowns(np.array(fields), np.concatenate(indices), joined, shapes)


def read_state(operator: Operator, at: Any, what: str) -> Vector:
    """A state given by field as arrays; nothing where none is given (for rates: zero).

    Raises DeclarationError where the operator is not linear and no state is given, or the state does not fit.
    """
    if at is None:
        if not operator.affine:
            names = ", ".join(operator.fields)
            raise DeclarationError(
                f"{what}: the rules of {names} are not affine, so that what they do depends on the state. Say about "
                f'which, at=dict({operator.fields[0]}=solution.final["{operator.fields[0]}"]).'
            )
        return {}
    return _checked_state(operator, at, what, "at=")


def read_start(operator: Operator, start: Any) -> Vector:
    """The state that sweeps start from, by field; nothing where none is given."""
    return {} if start is None else _checked_state(operator, start, "fd.relax", "start=")


def _checked_state(operator: Operator, at: Any, what: str, option: str) -> Vector:
    structure = operator.structure
    if not isinstance(at, Mapping):
        raise DeclarationError(
            f"{what}: {option} takes arrays by field, as in {option}dict({operator.fields[0]}=...), got {at!r}."
        )
    names = [one.name for one in structure.declared]
    wrong, absent = [n for n in at if n not in names], [n for n in operator.fields if n not in at]
    if wrong or absent:
        bad = f"names `{wrong[0]}`" if wrong else f"lacks `{absent[0]}`"
        raise DeclarationError(f"{what}: {option} {bad}; the fields are {', '.join(names)}.")
    found = {}
    for name, value in at.items():
        storage, array = structure.array(name), jnp.asarray(value)
        if array.shape != storage.shape:
            raise DeclarationError(
                f"{what}: {option} has shape {array.shape} for `{name}`, which has {storage.shape} points. Take the "
                f'last level, solution.final["{name}"].'
            )
        array = array.astype(storage.dtype)
        found[name] = jnp.where(jnp.isnan(array), jnp.zeros((), array.dtype), array)  # holes
    return found


def check_dense(operator: Operator) -> None:
    """Refuses matrices without a pattern that would be too large."""
    size = sum(prod(operator.shape(name)) for name in operator.fields)
    if operator.outline.layout is None and size > MAX_DENSE:
        raise RunError(
            f"Rows of this system can depend on points anywhere, and its matrix would have {size}² entries; up to "
            f"{MAX_DENSE}² are made. Take fewer points."
        )


def known_entries(operator: Operator, arrays: Arrays, base: Vector) -> tuple[jax.Array, np.ndarray, np.ndarray, int]:
    """Values, rows and columns among the unknown values, and how many these are."""
    found, free = find_matrix(operator, arrays, base)
    held = np.concatenate([np.asarray(free[name]).ravel() for name in operator.fields])
    number, size = np.cumsum(held) - 1, int(held.sum())
    if not isinstance(found, StencilMatrix):
        rows, columns = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
        return found[held][:, held].ravel(), rows.ravel(), columns.ravel(), size
    values, rows, columns = found.entries()
    end = len(rows) - held.size  # without those of known points
    keep = np.flatnonzero(held[rows[:end]] & held[columns[:end]] & (np.asarray(values[:end]) != 0))
    return values[keep], number[rows[keep]], number[columns[keep]], size


ASSEMBLY = Assembly()
