"""Poisson's equation to a relative residual of 1e-10: multigrid against sparse elimination and algebraic multigrid.

Set-up is part of every time; compilation is reported apart. All contestants get the same matrix in double precision.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fdsolve.solvers import CG, LinearSystem, MatrixLayout, Multigrid, Side, StencilMatrix, SystemOutline

from ._compare import Settings
from ._table import Row, show_seconds
from ._timing import interleave

TITLE = "Elliptic equations: time to a relative residual of 1e-10, float64"
TOLERANCE = 1e-10
FLAT, DEEP = (65, 129, 257, 513, 1025, 2049), (33, 65, 129)
BAR_FROM = 513
MOST_ELIMINATED = 1_100_000
"""Points from which sparse elimination is left out: its memory and time grow too fast."""


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """The group's table."""
    with jax.enable_x64(True):
        wanted = settings.choice.sizes
        flat = [n for n in (FLAT[:4] if settings.quick else FLAT) if not wanted or n in wanted]
        deep = [n for n in (DEEP[:2] if settings.quick else DEEP) if not wanted or n in wanted]
        rows = [row for n in flat for row in _rows(settings, n, 2)]
        return [(TITLE, rows + [row for n in deep for row in _rows(settings, n, 3)])]


def poisson(num: int, ndim: int) -> LinearSystem:
    """−Δu = f on a unit square or cube of `num` nodes an axis, u = 0 on the walls."""
    shape = (num,) * ndim
    free = np.zeros(shape, bool)
    free[(slice(1, -1),) * ndim] = True
    offsets = [(0,) * ndim, *(tuple(s * (a == b) for b in range(ndim)) for a in range(ndim) for s in (-1, 1))]
    values = [np.where(free, 2.0 * ndim, 0.0)]
    values += [np.where(free & np.roll(free, tuple(-x for x in o), range(ndim)), -1.0, 0.0) for o in offsets[1:]]
    layout = MatrixLayout(("u",), (shape,), (False,) * ndim, (("u", "u", tuple(offsets)),), "float64")
    scaled = jnp.asarray(np.stack(values) * (num - 1) ** 2)
    matrix = StencilMatrix(layout, (scaled,), {"u": jnp.asarray(free)})
    sides = ((Side("value", True),) * 2,) * ndim
    outline = SystemOutline(layout, True, tuple("xyz"[:ndim]), sides, False, (True,) * ndim, False, False)
    return LinearSystem(outline, matrix.apply, matrix)


def _rows(settings: Settings, num: int, ndim: int) -> list[Row]:
    """A size: each of ours against each of the others."""
    system = poisson(num, ndim)
    rng = np.random.default_rng(0)
    assert system.matrix is not None
    right = np.where(np.asarray(system.matrix.free["u"]), rng.standard_normal((num,) * ndim), 0.0)
    ours: list[tuple[str, Callable[[], Any], float]] = []
    solvers = [("multigrid", Multigrid(tolerance=TOLERANCE)), ("CG with it", CG(Multigrid(), TOLERANCE))]
    for name, solver in solvers[:1] if settings.quick else solvers:
        call, compiling = _compiled(system, solver, right)
        report = call()[1]
        assert bool(report.converged), f"{name}, {num}: {float(report.residual):.2g}"
        ours.append((f"{name} ({int(report.iterations)} iterations, compiled in {compiling:.1f} s)", call, 0.0))
    others = _others(system, right)
    if not others:
        return [Row(f"{what}, {num}^{ndim}", "–", "scipy, pyamg: not installed") for what, _, _ in ours]
    calls = [call for _, call, _ in ours] + [call for _, call in others]
    samples = interleave(calls, budget=settings.budget, least=1 if settings.quick else 3)
    rows = []
    for i, (what, _, _) in enumerate(ours):
        for j, (against, _) in enumerate(others, len(ours)):
            ratio, low, high = samples.ratio(j, i)
            shown = f"{show_seconds(samples.median(j))} ({against})"
            bar = 1.0 if ndim == 2 and num >= BAR_FROM and i == 0 else None
            title = f"{what}, {num}{'²' if ndim == 2 else '³'}"
            rows.append(Row(title, show_seconds(samples.median(i)), shown, ratio, (low, high), bar, True))
    return rows


def _compiled(system: LinearSystem, solver: Any, right: np.ndarray) -> tuple[Callable[[], Any], float]:
    """A solve, set-up included, and the seconds its compilation took."""

    def solve(matrix: StencilMatrix, right: jax.Array) -> Any:
        own = LinearSystem(system.outline, matrix.apply, matrix)
        return solver.solve(own, solver.prepare(own), {"u": right}, {"u": jnp.zeros_like(right)})

    given = (system.matrix, jnp.asarray(right))
    start = time.perf_counter()
    program = jax.jit(solve).lower(*given).compile()
    return partial(program, *given), time.perf_counter() - start


def _others(system: LinearSystem, right: np.ndarray) -> list[tuple[str, Callable[[], Any]]]:
    """The contestants that are installed, on the unknown points alone."""
    try:
        import scipy.sparse as sparse
        from scipy.sparse.linalg import spsolve
    except ImportError:
        return []
    assert system.matrix is not None
    values, rows, columns = system.matrix.entries()
    whole = sparse.csr_array((np.asarray(values), (rows, columns)))
    keep = np.flatnonzero(np.asarray(system.matrix.free["u"]))
    matrix = sparse.csr_matrix(whole[keep][:, keep])
    matrix.eliminate_zeros()
    b = right.ravel()[keep]
    columnwise = matrix.tocsc()
    found: list[tuple[str, Callable[[], Any]]] = []
    if len(b) < (MOST_ELIMINATED if right.ndim == 2 else 50_000):
        found.append(("scipy's spsolve", lambda: spsolve(columnwise, b)))
    try:
        import pyamg
    except ImportError:
        return found
    classical, smoothed = pyamg.ruge_stuben_solver, pyamg.smoothed_aggregation_solver
    found.append(("pyamg, Ruge–Stüben", lambda: classical(matrix).solve(b, tol=TOLERANCE, accel="cg")))
    found.append(("pyamg, smoothed aggregation", lambda: smoothed(matrix).solve(b, tol=TOLERANCE, accel="cg")))
    return found
