"""Random constant marches, and a march kernel beside the portable one on them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.kernels import Arrays, MarchCall, get

Levels = dict[str, tuple[jax.Array, ...]]
B = fd.boundary

WALLS: dict[str, Any] = {
    "dirichlet": B.Dirichlet(0.7),
    "zero": B.Antisymmetric(),
    "neumann": B.Neumann(0.3),
    "even": B.Symmetric(),
}


def make_axis(kind: str, num: int) -> fd.Axis:
    """An axis with nodes or cells between walls, or a ring."""
    return fd.Axis(0.0, 1.0, num=num, periodic=kind == "ring", cells=kind == "cells")


def symmetric_rule(seed: int, axes: tuple[str, ...], radius: int, source: bool) -> Callable[..., Any]:
    """u + r Σ w (neighbours − u) with random weights, the same to both sides; r is a parameter."""
    weights = np.random.default_rng(seed).uniform(0.02, 0.2 / (len(axes) * radius), (len(axes), radius))

    def rule(u: Any, r: Any) -> Any:
        here, total = u["t-1"], 0.1 * r if source else 0.0 * r
        for axis, row in zip(axes, weights, strict=True):
            for k, weight in enumerate(row, start=1):
                total = total + float(weight) * (u["t-1", f"{axis}-{k}"] + u["t-1", f"{axis}+{k}"] - 2 * here)
        return here + r * total

    return rule


def box(kinds: tuple[str, ...], walls: tuple[str, ...], seed: int, dtype: Any = float, radius: int = 1) -> fd.Field:
    """A field on a box, its walls in turn, marched by a random symmetric rule."""
    names = ("x", "y", "z")[: len(kinds)]
    axes = {name: make_axis(kind, 7 + 2 * i) for i, (name, kind) in enumerate(zip(names, kinds, strict=True))}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=41), **axes), dtype=dtype)
    u[...] = symmetric_rule(seed, names, radius, source=seed % 2 == 0)
    u[0] = lambda x: jnp.sin(5 * x) + x
    for name, kind in zip(names, kinds, strict=True):
        if kind != "ring":
            u[{name: 0}], u[{name: -1}] = WALLS[walls[0]], WALLS[walls[1]]
            walls = (*walls[2:], *walls[:2])
    return u


def call_of(fields: Any, steps: int, **options: Any) -> tuple[MarchCall, Arrays]:
    """The march of the main phase of a problem, and its operands."""
    plan = fd.plan(fields, save=fd.final(), kernel="slices", **options)
    structure = plan.structure
    phase = structure.phases[structure.segments[-1].phases[0]]
    return MarchCall(structure, phase, plan.problem.scope.grid.space, steps, "cpu"), Arrays(**plan.operands)


def random_levels(call: MarchCall, seed: int) -> Levels:
    """Padded arrays with random entries, ghosts included: they need not heed the walls."""
    random = np.random.default_rng(seed)

    def draw(one: Any) -> jax.Array:
        parts = random.standard_normal((2, *one.padded_shape))
        whole = parts[0] + 1j * parts[1] if np.dtype(one.dtype).kind == "c" else parts[0]
        return jnp.asarray(whole.astype(one.dtype))

    return {one.name: tuple(draw(one) for _ in range(max(one.kept, 1))) for one in call.structure.carried}


def difference(backend: str, call: MarchCall, arrays: Arrays, seed: int = 0) -> float:
    """The largest difference from the portable kernel over all padded arrays, relative to their largest entry."""
    levels = random_levels(call, seed)
    found, wanted = (
        jax.jit(lambda a, v, name=name: get("march", name)(call, a, v, 1))(arrays, levels)
        for name in (backend, "slices")
    )
    gaps = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max() / jnp.abs(b).max()), found, wanted)
    return max(jax.tree.leaves(gaps))


def dot_products(backend: str, call: MarchCall, arrays: Arrays) -> tuple[float, float]:
    """⟨w, Jv⟩ and ⟨Jᵀw, v⟩ of a march as a function of its levels."""

    def run(levels: Levels) -> Levels:
        return get("march", backend)(call, arrays, levels, 1)

    levels, tangent = random_levels(call, 1), random_levels(call, 2)
    moved = jax.jit(lambda v, t: jax.jvp(run, (v,), (t,))[1])(levels, tangent)
    cotangent = jax.tree.map(lambda a: jnp.asarray(np.random.default_rng(3).standard_normal(a.shape), a.dtype), moved)
    (back,) = jax.jit(lambda v, c: jax.vjp(run, v)[1](c))(levels, cotangent)

    def dot(a: Any, b: Any) -> float:
        return float(sum(jnp.vdot(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)))

    return dot(cotangent, moved), dot(back, tangent)
