"""Singular systems: constants that an equation does not see, what this asks of its data, and the mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..solvers import LinearSystem, Vector

Projection = tuple[Vector, Vector]
"""(u, v) stands for I − u vᵀ/(vᵀu)."""


@dataclass(frozen=True, eq=False)
class Null:
    """What is done before and after a singular matrix is solved with, for each field that `floats`.

    With A r = 0 and Aᵀ w = 0, before: b loses its part along w, which no x can give; after: x loses as much of r as
    makes Σ w x zero (w are the weights of a mean: the areas of cells, for a consistent scheme).
    """

    floats: tuple[jax.Array, ...]
    before: tuple[Projection, ...]
    after: tuple[Projection, ...]

    @property
    def transposed(self) -> "Null":
        """For the transposed matrix: the transposed projections in turn."""
        return Null(self.floats, tuple((v, u) for u, v in self.after), tuple((v, u) for u, v in self.before))

    def consistent(self, rhs: Vector) -> tuple[Vector, jax.Array]:
        """The right-hand side made consistent; how much it lost, |wᵀb| relative to ‖w‖‖b‖."""
        defect = jnp.zeros(())
        for floats, (u, v) in zip(self.floats, self.before, strict=True):
            size = jnp.sqrt(jnp.abs(_dot(v, v))) * jnp.sqrt(sum(jnp.sum(jnp.abs(b) ** 2) for b in rhs.values()))
            relative = jnp.abs(_dot(v, rhs)) / jnp.where(size > 0, size, jnp.ones_like(size))
            defect = jnp.where(floats, jnp.maximum(defect, relative.astype(defect.dtype)), defect)
            rhs = _projected(floats, u, v, rhs)
        return rhs, defect

    def with_fixed_mean(self, x: Vector) -> Vector:
        """The solution with its mean fixed."""
        for floats, (u, v) in zip(self.floats, self.after, strict=True):
            x = _projected(floats, u, v, x)
        return x


jax.tree_util.register_dataclass(Null, data_fields=["floats", "before", "after"], meta_fields=[])


def _projected(floats: jax.Array, u: Vector, v: Vector, x: Vector) -> Vector:
    share = _dot(v, x) / _dot(v, u)
    return {name: jnp.where(floats, one - share * u[name], one) for name, one in x.items()}


def find_null(solver: Any, system: LinearSystem, factors: Any, free: Mapping[str, jax.Array]) -> Null:
    """Which fields float: those whose constants the matrix does not see."""
    assert system.matrix is not None
    transposed = system.matrix.transpose()
    diagonal = system.matrix.diagonal()
    scale = jnp.max(jnp.stack([jnp.max(jnp.abs(d)) for d in diagonal.values()]))
    names = system.matrix.layout.fields

    def of(number: jax.Array) -> tuple[jax.Array, Vector, Vector]:
        """Whether the field of this number floats, its constant, and the left vector beside that."""
        assert system.matrix is not None
        ones = {name: (free[name] & (number == at)).astype(diagonal[name].dtype) for at, name in enumerate(names)}
        seen = _largest(system.matrix.apply(ones))
        tiny = 1e3 * jnp.finfo(seen.dtype).eps * jnp.maximum(scale, _largest_entry(system))
        floating = (seen <= tiny) & (_largest(ones) > 0)
        return floating, ones, _left_vector(solver, system, transposed, ones, floating, tiny)

    # One after the other in a loop: each may prepare and solve, and is compiled once for all fields.
    found = lax.map(of, jnp.arange(len(names)))
    each = [jax.tree.map(lambda one, at=at: one[at], found) for at in range(len(names))]
    floats, ones, weights = zip(*each, strict=True)
    return Null(floats, tuple(zip(weights, weights, strict=True)), tuple(zip(ones, weights, strict=True)))


def _left_vector(
    solver: Any, system: LinearSystem, transposed: Any, ones: Vector, floating: jax.Array, tiny: jax.Array
) -> Vector:
    """w with Aᵀ w = 0: 1 − z where Aᵀ z = Aᵀ 1, which has a solution; just 1 where A is symmetric."""
    image = transposed.apply(ones)

    def by_solving(_: None) -> Vector:
        turned = LinearSystem(system.outline, transposed.apply, transposed)
        zeros = {name: jnp.zeros_like(one) for name, one in ones.items()}
        factors = solver.prepare(turned)
        z, _ = solver.solve(turned, factors, image, zeros)
        w = {name: ones[name] - z[name] for name in ones}
        z, _ = solver.solve(turned, factors, transposed.apply(w), zeros)  # the tolerance once more: w is to be exact
        return {name: w[name] - z[name] for name in w}

    return lax.cond(floating & (_largest(image) > tiny), by_solving, lambda _: ones, None)


def _largest(x: Vector) -> jax.Array:
    return jnp.max(jnp.stack([jnp.max(jnp.abs(one)) for one in x.values()]))


def _largest_entry(system: LinearSystem) -> jax.Array:
    assert system.matrix is not None
    return jnp.max(jnp.stack([jnp.max(jnp.abs(v)) for v in system.matrix.values]))


def _dot(x: Vector, y: Vector) -> jax.Array:
    return sum((jnp.sum(x[name] * y[name]) for name in x), start=jnp.zeros((), next(iter(y.values())).dtype))
