"""`fd.modes` and `fd.stability`: eigenvalues and modes of a declaration."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax
from jax.core import Tracer

from ..errors import DeclarationError, RunError
from ..planning import Plan, make_plan
from ..solution import Solution
from ..solvers import StencilMatrix, Vector
from ..stepping import (
    ASSEMBLY,
    Operator,
    as_vectors,
    check_dense,
    find_change,
    find_images,
    find_matrix,
    prepare_operator,
    read_state,
)
from ._eigen import eigenpairs
from ._holes import mark_holes
from ._underived import Underived, derived_once
from ._weights import read_weight

WANTED = ("smallest", "largest", "growing")
NONE = (
    "fd.modes: modes have no derivatives, only their eigenvalues have. Take what is differentiated from found.values, "
    "or hold the modes: call fd.modes with jax.lax.stop_gradient of the parameters."
)
TWICE = (
    "fd.modes: eigenvalues have first derivatives alone, since the modes have none. Take differences of jax.grad for "
    "second ones."
)


@dataclass(frozen=True, eq=False)
class Modes:
    """Eigenvalues λ and modes v with A v = λ w v.

    `values` (k,); `modes["u"]` the modes of a field, (k, *space), with the points that are not unknown as they follow
    (nan in holes), scaled so that the largest entry of all fields is 1; `residuals` (k,), ‖A v − λ w v‖/‖v‖.
    """

    values: jax.Array
    fields: Underived = field(repr=False)
    residuals: jax.Array = field(repr=False)
    plan: Plan = field(repr=False)

    def __getitem__(self, name: str) -> jax.Array:
        if name not in self.fields:
            raise DeclarationError(f"There is no field `{name}` among the modes of {', '.join(self.fields)}.")
        return self.fields[name]

    @property
    def growth(self) -> jax.Array:
        """The largest real part of the eigenvalues found: how fast the fastest of them grows."""
        return jnp.max(jnp.real(self.values))

    @property
    def stable(self) -> bool:
        """Whether no mode found grows, as far as the residuals let it be told."""
        return bool(self.growth <= jnp.max(self.residuals))

    def to_xarray(self) -> xr.Dataset:
        """A Dataset with the dimension `mode`: the modes by field, `eigenvalue` and `residual`."""
        if any(isinstance(one, Tracer) for one in (self.values, *self.fields.values())):
            raise RunError("to_xarray needs concrete values: call it outside jit and grad, on what they return.")
        grid, data = self.plan.problem.scope.grid, {}
        coords: dict[str, Any] = {"mode": np.arange(len(self.values))}
        for one in self.plan.problem.fields:
            dims = ["mode"]
            for axis in grid.space:
                owner, face = grid.space_axis(axis), axis in one.layout.faces
                dims.append(f"{axis}_face" if face else axis)
                attributes = {"units": owner.units} if owner.units else {}
                coords[dims[-1]] = (dims[-1], owner.positions(face, 0, owner.size(face)), attributes)
            data[one.name] = (dims, np.asarray(self.fields[one.name]))
        data["eigenvalue"], data["residual"] = ("mode", np.asarray(self.values)), ("mode", np.asarray(self.residuals))
        return xr.Dataset(data, coords)

    def __repr__(self) -> str:
        if isinstance(self.values, Tracer):
            return f"Modes({len(self.values)} of {', '.join(self.fields)}, traced)"
        shown = ", ".join(f"{value:.6g}" for value in np.asarray(self.values)[:6])
        more = ", …" if len(self.values) > 6 else ""
        return f"Modes({shown}{more}; residuals up to {float(jnp.max(self.residuals)):.1g})"


def modes(
    fields: Any,
    k: Any = 6,
    /,
    *,
    sigma: Any = None,
    weight: Any = None,
    at: Any = None,
    symmetric: Any = None,
    parameters: Any = None,
    **keywords: Any,
) -> Modes:
    """k eigenvalues and modes of a linear declaration: A v = λ w v.

    A is what the residuals do to the unknown values, with the boundary conditions and all rules beside them, without
    their constant parts: of `fd.residual(lambda u: laplacian(u))` the eigenvalues are those of the Laplacian, negative.
    Of a declaration with rates, A is what the rates do: du/dt = A u grows as e^{λt}. Several coupled fields together.

    Arguments: `fields`, and parameters by keyword (or in `parameters=`), as for `solve`; `sigma`, which eigenvalues:
    "smallest" in magnitude (default of residuals), "largest", "growing" (largest real part, default of rates), or those
    nearest to a number; `weight`, w > 0: a number or an array of the field's shape, by field in a dict (a mass, a
    density; default 1); `at`, the state about which rules that are not affine are linearised: a solution, or a dict of
    arrays by field; `symmetric`, whether A is symmetric once the unknown values are scaled (default: looked up; under
    `jit`, where that is not possible, False and eigenvalues are complex).

    Small systems are solved densely; larger ones by Lanczos (symmetric) or Arnoldi, with shift and inversion (Saad,
    Numerical Methods for Large Eigenvalue Problems, 2011). "growing" is sure for symmetric ones; otherwise eigenvalues
    with large imaginary parts are looked for without inversion, and are found where that converges.

    Eigenvalues that are simple have derivatives, ∂λ = wᵀ∂A v / wᵀv with the left vector w, through parameters and the
    state; the modes have none.

    Raises PlanningError where there are no residuals and no rates, DeclarationError for wrong arguments, RunError where
    eigenvalues do not converge.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        raise DeclarationError(f"parameters= takes a dict of parameters by name, got {parameters!r}.")
    plan = replace(make_plan(fields, {**(parameters or {}), **keywords}, None, None), assembly=ASSEMBLY)
    operator, arrays = prepare_operator(plan)
    sigma = _check_wanted(sigma, "smallest" if operator.stage is not None else "growing")
    base = read_state(operator, at.last if isinstance(at, Solution) else at, "fd.modes")
    check_dense(operator)
    stopped = lax.stop_gradient((arrays, base))
    matrix, free = find_matrix(operator, *stopped)
    weights = read_weight(operator, weight, plan.problem.scope.grid)
    traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((arrays, base, weights)))
    host = Host(operator, int(_check_count(k)), sigma, symmetric, traced)
    values, right, left = host.run(matrix, free, lax.stop_gradient(weights))
    values, v = jnp.asarray(values), as_vectors(operator, right)
    change, found = _stacked(operator, find_images, stopped, v)
    residuals = _gaps(change, v, lax.stop_gradient(weights), values)
    given, form = jax.tree.flatten((arrays, base, weights))
    if left is not None:
        kept = (v, as_vectors(operator, left), values)
        values = derived_once((TWICE, partial(_eigenvalues, operator, form)), given, kept)
    found = {name: mark_holes(plan, name, array) for name, array in found.items()}
    return Modes(values, Underived(NONE, found, given), residuals, plan)


def stability(
    fields: Any, at: Any, /, k: Any = 6, *, sigma: Any = "growing", parameters: Any = None, **keywords: Any
) -> Modes:
    """Growth rates of small disturbances of a steady state: the eigenvalues of the rates linearised about it.

    Arguments: `fields`, the declaration of du/dt = f(u) by rates (or of f by residuals, on a grid without time); `at`,
    the steady state, a solution (its last level) or a dict of arrays by field; `k`, how many; parameters by keyword.
    The result is that of `fd.modes`, the fastest growing first: `found.growth`, `found.stable`.

    Raises as `fd.modes` does.
    """
    return modes(fields, k, sigma=sigma, at=at, parameters=parameters, **keywords)


@dataclass(frozen=True, eq=False)
class Host:
    """Eigenpairs found on the host, from arrays that may be traced."""

    operator: Operator
    count: int
    sigma: Any
    symmetric: bool | None
    left: bool

    def run(self, matrix: Any, free: Any, weights: Vector) -> tuple[Any, Any, Any]:
        """Values, right and left vectors at all points."""
        given = (matrix.values if isinstance(matrix, StencilMatrix) else matrix, free, weights)
        if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(given)):
            return self.call(*jax.tree.map(np.asarray, given))
        size = sum(int(np.prod(one.shape)) for one in free.values())
        dtype = np.dtype(self.operator.structure.array(self.operator.fields[0]).dtype)
        wide = np.result_type(dtype, np.complex64)
        kind = (jnp.finfo(dtype).dtype, dtype) if self.symmetric else (wide, wide)
        shapes = tuple(
            jax.ShapeDtypeStruct(shape, one)
            for shape, one in zip([(self.count,), *[(self.count, size)] * 2], (kind[0], kind[1], kind[1]), strict=True)
        )

        def call(*given: Any) -> Any:
            found = Host(self.operator, self.count, self.sigma, bool(self.symmetric), True).call(
                *jax.tree.map(np.asarray, given)
            )
            return tuple(np.asarray(one).astype(shape.dtype) for one, shape in zip(found, shapes, strict=True))

        return jax.pure_callback(call, shapes, *given, vmap_method="sequential")

    def call(self, entries: Any, free: Any, weights: Any) -> tuple[Any, Any, Any]:
        """On numpy arrays."""
        from scipy.sparse import csr_array, diags_array

        fields = self.operator.fields
        held = np.flatnonzero(np.concatenate([free[name].ravel() for name in fields]))
        total = sum(free[name].size for name in fields)
        if isinstance(entries, tuple):
            layout = self.operator.outline.layout
            assert layout is not None
            masks = {name: jnp.asarray(free[name]) for name in fields}
            values, rows, columns = StencilMatrix(layout, tuple(map(jnp.asarray, entries)), masks).entries()
            keep = np.asarray(values) != 0
            places = (rows[keep], columns[keep])
            matrix = csr_array((np.asarray(values)[keep], places), shape=(total, total))[held][:, held]
        else:
            matrix = csr_array(entries[held][:, held])
        mass = np.concatenate([weights[name].ravel() for name in fields])[held]
        if not np.all(mass > 0):
            raise RunError("weight= is above zero at all unknown points; it is not everywhere.")
        if not 1 <= self.count <= len(held):
            raise DeclarationError(
                f"fd.modes: there are {len(held)} unknown values, and {self.count} modes are asked for."
            )
        if not np.all(np.isfinite(matrix.data)):
            raise RunError("The matrix is not finite: look at divisions and roots in the rules, and at the state.")
        root = np.sqrt(mass)
        scaled = diags_array(1 / root) @ matrix @ diags_array(1 / root)
        found = eigenpairs(scaled.tocsr(), self.count, self.sigma, self.left, self.symmetric)
        right = _placed(found.right / root, held, total)
        left = None if found.left is None else _placed(found.left / root, held, total)
        return found.values, right, left


def _placed(rows: np.ndarray, held: np.ndarray, total: int) -> np.ndarray:
    """Vectors of unknown values, scaled to a largest entry of 1, among all points."""
    top = np.take_along_axis(rows, np.argmax(np.abs(np.round(rows, 12)), axis=1)[:, None], axis=1)
    found = np.zeros((len(rows), total), rows.dtype)
    found[:, held] = rows / top
    return found


def _check_wanted(sigma: Any, default: str) -> Any:
    if sigma is None:
        return default
    number = isinstance(sigma, int | float | complex | np.number) and not isinstance(sigma, bool)
    if not (sigma in WANTED if isinstance(sigma, str) else number):
        raise DeclarationError(
            f'fd.modes: sigma= is "smallest", "largest", "growing" or a number that eigenvalues are near to, got '
            f"{sigma!r}."
        )
    return sigma


def _check_count(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise DeclarationError(f"fd.modes takes the number of modes, a whole number from 1, got {k!r}.")
    return int(k)


def _stacked(operator: Operator, call: Any, given: Any, v: Vector) -> Any:
    """A linear map of the vectors stacked in v, complex ones with real maps too."""
    real = not any(operator.structure.array(name).dtype[1] == "c" for name in v)
    if not real or not any(jnp.issubdtype(one.dtype, jnp.complexfloating) for one in v.values()):
        return call(operator, *given, v)
    count = next(iter(v.values())).shape[0]
    parts = call(operator, *given, {n: jnp.concatenate([jnp.real(one), jnp.imag(one)]) for n, one in v.items()})
    return jax.tree.map(lambda one: lax.complex(one[:count], one[count:]), parts)


def _eigenvalues(operator: Operator, form: Any, given: list[Any], kept: Any) -> jax.Array:
    """The eigenvalues again, of vectors that stay."""
    (*of_matrix, weights), (v, w, values) = form.unflatten(given), kept
    return _quotients(_stacked(operator, find_change, of_matrix, v), v, w, weights, values)


def _sums(one: Vector) -> jax.Array:
    parts = [jnp.sum(value.reshape(value.shape[0], -1), axis=1) for value in one.values()]
    return sum(parts[1:], start=parts[0])


def _weighted(weights: Vector, v: Vector) -> Vector:
    return {name: weights[name].astype(one.dtype) * one for name, one in v.items()}


@jax.jit
def _quotients(change: Vector, v: Vector, w: Vector, weights: Vector, values: jax.Array) -> jax.Array:
    """wᵀA v / wᵀM v: the eigenvalues again, with their derivatives."""
    mass = _weighted(weights, v)
    top = _sums({name: w[name] * change[name] for name in v})
    found = top / _sums({name: w[name] * mass[name] for name in v})
    return found.astype(values.dtype) if jnp.iscomplexobj(values) else jnp.real(found)


@jax.jit
def _gaps(change: Vector, v: Vector, weights: Vector, values: jax.Array) -> jax.Array:
    """‖A v − λ M v‖/‖v‖."""
    mass = _weighted(weights, v)

    def gap(name: str) -> jax.Array:
        scaled = values.reshape(-1, *(1,) * (v[name].ndim - 1)).astype(mass[name].dtype) * mass[name]
        return jnp.abs(change[name] - scaled) ** 2

    return jnp.sqrt(_sums({name: gap(name) for name in v}) / _sums({n: jnp.abs(one) ** 2 for n, one in v.items()}))
