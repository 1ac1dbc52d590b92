"""Many small systems at once: as LAPACK solves them, without it."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import laplacian
from fdsolve.solvers import Multigrid
from fdsolve.solvers._small import inverses, solve_small

RNG = np.random.default_rng(7)


def matrices(size: int, dtype: Any, many: int = 30) -> Any:
    found = RNG.standard_normal((many, size, size))
    return found + 1j * RNG.standard_normal(found.shape) if np.dtype(dtype).kind == "c" else found


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_solutions_and_their_derivatives(size: int, dtype: Any) -> None:
    given = matrices(size, dtype)
    given[0] = np.eye(size)[::-1]  # nothing but zeros on the diagonal, where there are several rows
    right = RNG.standard_normal((size, 2)).astype(dtype)  # the same for all
    errors = np.abs(solve_small(jnp.asarray(given), jnp.asarray(right)) - np.linalg.solve(given, right))
    condition = np.linalg.cond(given)[:, None, None]
    assert np.all(errors < 1e-14 * condition * np.abs(np.linalg.solve(given, right)).max())
    whole = np.asarray(inverses(jnp.asarray(given)))
    np.testing.assert_allclose(whole @ given, np.broadcast_to(np.eye(size), whole.shape), atol=1e-13 * condition.max())
    changed = matrices(size, dtype)
    tangent = jax.jvp(inverses, (jnp.asarray(given),), (jnp.asarray(changed),))[1]
    wanted = -whole @ changed @ whole
    np.testing.assert_allclose(tangent, wanted, atol=1e-12 * np.abs(wanted).max() * condition.max())


def test_singular_ones_are_not_finite() -> None:
    given = jnp.asarray([[[1.0, 2.0], [2.0, 4.0]], [[2.0, 0.0], [0.0, 4.0]]])
    found = np.asarray(inverses(given))
    assert not np.all(np.isfinite(found[0]))
    np.testing.assert_array_equal(found[1], [[0.5, 0.0], [0.0, 0.25]])


def test_coupled_fields_by_multigrid_batch_no_lapack() -> None:
    """Two of its batches in one program can wait for each other without end."""
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, 17), y=fd.Axis(0.0, 1.0, 17))
    u, v = fd.Field("u", grid), fd.Field("v", grid)
    u[...] = fd.residual(lambda u, v, k: laplacian(u) - k * v[...] + 1.0)
    v[...] = fd.residual(lambda u, v: laplacian(v) + u[...])
    for one in (u, v):
        one[dict(x=[0, -1])] = one[dict(y=[0, -1])] = 0.0
    program = jax.jit(lambda k: fd.solve((u, v), k=k, solver=Multigrid())["u"]).lower(0.3).as_text()
    calls = [line for line in program.splitlines() if "@lapack_" in line]
    assert calls  # the coarsest grid's
    assert not [line for line in calls if re.search(r"tensor<(\d+x){3,}", line)]
