"""What is said of functions of arrays that a rule applies to the one number it reads; and which are served."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

from .messages import Wrong, declare, keep, nodes, rated, ruled, undeclared

RULE, RATE = "Rule `lambda` on u[...]", "Rule `rate lambda` on u[...]"
AT_A_POINT = (
    'Fields are numbers at one point there, of shape (): read neighbours, u["x-1"] + u["x+1"]; of all values fd.reduce '
    "makes a number."
)
OF_THE_GRID = "Coordinates are numbers at one point there, of shape (): take what all have in common from `grid`."


def one_number(operation: str, rule: Any, **options: Any) -> Wrong:
    """A rule that takes what it reads at its point for an array."""
    return undeclared(f"{RULE} takes {operation} of one number. {AT_A_POINT}", ruled(rule, **options))


WHOLE_ARRAYS = {
    "sum": one_number("a sum, mean or norm", lambda u: u["t-1"].sum()),
    "mean": one_number("a sum, mean or norm", lambda u: u["t-1"] - jnp.mean(u["t-1"])),
    "std": one_number("a sum, mean or norm", lambda u: jnp.std(u["t-1"])),
    "norm": one_number("a sum, mean or norm", lambda u: u["t-1"] / jnp.linalg.norm(u["t-1"])),
    "np.mean": one_number("a sum, mean or norm", lambda u: np.mean(u["t-1"])),
    "max": one_number("a maximum", lambda u: jnp.max(jnp.abs(u["t-1"]))),
    "nanmin": one_number("a minimum", lambda u: jnp.nanmin(u["t-1"])),
    "prod": one_number("a product", lambda u: jnp.prod(u["t-1"])),
    "all": one_number("`all`", lambda u: jnp.where(jnp.all(u["t-1"] > 0), 1.0, 0.0)),
    "median": one_number("`any` or a median", lambda u: jnp.median(u["t-1"])),
    "argmax": one_number("`argmax`", lambda u: jnp.argmax(u["t-1"]).astype(float)),
    "cumsum": one_number("a running sum", lambda u: jnp.cumsum(u["t-1"])[0]),
    "flip": one_number("a flip", lambda u: jnp.flip(u["t-1"])),
    "roll": one_number("a roll or part", lambda u: (jnp.roll(u["t-1"], -1) - jnp.roll(u["t-1"], 1)) / 2),
    "take": one_number("an entry", lambda u: jnp.take(u["t-1"], 0)),
    "dot": one_number("a dot product", lambda u: jnp.dot(u["t-1"], u["t-1", "x-0"])),
    "vdot": one_number("a dot product", lambda u: jnp.vdot(u["t-1"], u["t-1"])),
    "pad": one_number("a border", lambda u: jnp.pad(u["t-1"], 1, mode="edge")),
    "in a loop": one_number("a maximum", lambda u: jax.lax.fori_loop(0, 3, lambda i, s: s + jnp.max(u["t-1"]), 0.0)),
    "of what a loop carries": one_number(
        "a sum, mean or norm", lambda u: jax.lax.scan(lambda s, k: (jnp.mean(s) + k, None), u["t-1"], np.ones(3))[0]
    ),
    "in a branch": one_number("a minimum", lambda u: jax.lax.cond(u["t-1"] > 0, jnp.min, jnp.sin, u["t-1"])),
    "of a labelled parameter": one_number("a maximum", lambda u, k: u["t-1"] / jnp.max(k[...]), k=np.ones(6)),
    "lifted": undeclared(
        f"{RATE} takes a sum, mean or norm of one number. {AT_A_POINT}", rated(lambda u: fd.apply(jnp.mean, u) - u)
    ),
    "of a coordinate": undeclared(
        f"Rule `lambda` on u[0] takes a sum, mean or norm of one number. {OF_THE_GRID}",
        ruled(keep, initial=lambda x: jnp.exp(-((x - jnp.mean(x)) ** 2))),
    ),
}


@pytest.mark.parametrize("case", WHOLE_ARRAYS.values(), ids=WHOLE_ARRAYS.keys())
def test_the_message(case: Wrong) -> None:
    case.check()


@jax.jit
def spread(low: Any, high: Any) -> Any:
    return jnp.max(jnp.array([high - low]))


def test_functions_of_arrays_are_served_where_there_are_arrays() -> None:
    def rule(u: Any, k: Any, dt: Any, dx: Any) -> Any:
        reads = jnp.stack([u["t-1", "x-1"], u["t-1"], u["t-1", "x+1"]])
        smooth = jnp.sum(jnp.roll(k, 1) * reads) + jnp.median(reads) + jnp.flip(reads)[0] + reads @ reads
        return smooth + jnp.max(reads) + spread(reads[0], reads[2]) + jnp.mean(dt / dx) + jnp.sum(k[0]) * u["t-1"]

    k, x = np.array([0.2, 0.3, 0.5]), nodes(periodic=True).x.points
    u = declare(rule, lambda x: jnp.sin(x), grid=nodes(periodic=True))
    reads = np.sin([np.roll(x, 1), x, np.roll(x, -1)])
    expected = np.roll(k, 1) @ reads + np.median(reads, 0) + reads[2] + (reads**2).sum(0) + reads.max(0)
    expected += reads[2] - reads[0] + u.grid.t.step / u.grid.x.step + k[0] * reads[1]
    np.testing.assert_allclose(fd.solve(u, k=k)["u"][1], expected, rtol=1e-12)


def test_solvers_of_other_libraries_are_served_at_a_point() -> None:
    """They take norms of the one number that they solve for; here an implicit Euler step of u' = −u³."""
    optimistix = pytest.importorskip("optimistix")

    def step(u: Any, dt: Any) -> Any:
        old, solver = u["t-1"], optimistix.Newton(rtol=1e-10, atol=1e-10)
        return optimistix.root_find(lambda y, _: y - old + dt * y**3, solver, old).value

    u = declare(step, 1.0)
    found = np.asarray(fd.solve(u)["u"])
    np.testing.assert_allclose(found[1:] + u.grid.t.step * found[1:] ** 3, found[:-1], rtol=1e-9)
