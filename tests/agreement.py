"""The comparison that every property makes: fdsolve against the reference."""

from typing import Any

import jax
import numpy as np
import pytest

import fdsolve as fd

from . import reference, translate
from .declarations import Declaration

SHORTEST = 1e-12


def assert_close(got: Any, wanted: np.ndarray, tolerance: float = SHORTEST) -> None:
    """Equality to a tolerance relative to the scale of what was wanted; nan where and only where it is wanted."""
    got = np.asarray(got)
    assert got.shape == wanted.shape
    cut = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(got), cut)
    known = wanted[~cut]
    assert np.max(np.abs(known), initial=0.0) < 1e3, "the drawn rules grew: they would not tell an error"
    scale = max(1.0, float(np.max(np.abs(known), initial=0.0)))
    np.testing.assert_allclose(got[~cut], known, rtol=0, atol=tolerance * scale)


def solve_jitted(declaration: Declaration) -> dict[str, jax.Array]:
    """All histories, from one compiled program of the parameters."""
    fields = [one.name for one in declaration.unknowns]
    arrays = translate.make_parameters(declaration)

    def run(values: dict[str, Any]) -> dict[str, jax.Array]:
        solution = translate.solve(declaration, values)
        return {name: solution[name] for name in fields}

    return translate.jit_over_arrays(run)(arrays)


def check(declaration: Declaration, tolerance: float = SHORTEST) -> bool:
    """Solves a declaration both ways and compares. Where points read each other in a circle, or a ghost
    that no condition gives, fdsolve must say so.

    fdsolve runs under `jax.jit`, which compiles one program and so is the fastest way to a single answer. Returns
    whether there was an answer.
    """
    try:
        wanted = reference.solve(declaration)
    except (reference.Cycle, reference.Beyond) as error:
        message = "cycle" if isinstance(error, reference.Cycle) else "outside"
        with pytest.raises(fd.PlanningError, match=message):
            translate.plan(declaration)
        return False
    got = solve_jitted(declaration)
    for name, array in wanted.items():
        assert_close(got[name], array, tolerance)
    return True
