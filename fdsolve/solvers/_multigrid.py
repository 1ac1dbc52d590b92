"""Geometric multigrid built from a matrix in stencil form."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax

from ..errors import DeclarationError
from ._base import AbstractLinearSolver, LinearSystem, Report, SystemOutline
from ._cycles import Cycles, operator
from ._hierarchy import Hierarchy, build
from ._iteration import Progress, begin, go_on, record, to_report
from ._matrix import Vector
from ._precondition import AbstractPreconditioner
from ._smoothers import AbstractSmoother, Coloured, Jacobi, Lined, residual

CYCLES = ("V", "W", "full")


@dataclass(frozen=True)
class Multigrid(AbstractLinearSolver, AbstractPreconditioner):
    """Black-box multigrid: coarse grids of every second point, transfers weighted by the operator, Pᵀ A P below.

    The work of a solve is proportional to the number of points. Arguments: `cycle`, "V", "W" or "full" (each cycle is
    a full multigrid pass over the residual); `pre` and `post`, smoothing sweeps before and after the coarse grid;
    `smoother`, "colour" (Gauss–Seidel by colours), "jacobi", "line x" (an axis by name or position: for coefficients or
    spacings much larger along it) or "alternating" (lines along each axis in turn); `tolerance` of ‖b − A x‖/‖b‖;
    `max_cycles`. Good values: the defaults; `smoother="alternating"` for anisotropy that varies; as a preconditioner of
    `CG` for jumps of the coefficients. Sources: Dendy, J. Comput. Phys. 48 (1982) 366; Trottenberg, Oosterlee &
    Schüller, Multigrid (2001). It is no method for Helmholtz equations far above the lowest mode.

    A solve has converged at `tolerance`, or where the residual is at rounding: ‖b − A x‖ ≤ 4ε(‖A‖‖x‖ + ‖b‖).
    """

    cycle: str = "V"
    pre: int = 2
    post: int = 1
    smoother: str = "colour"
    tolerance: float = 1e-10
    max_cycles: int = 50

    def __post_init__(self) -> None:
        if self.cycle not in CYCLES:
            raise DeclarationError(f"Multigrid: cycle must be one of {', '.join(CYCLES)}, not {self.cycle!r}.")
        if self.pre < 0 or self.post < 0 or self.pre + self.post < 1:
            raise DeclarationError(
                f"Multigrid: pre={self.pre}, post={self.post}: a cycle needs at least one smoothing sweep, "
                "before or after the coarse grid; write pre=2, post=1."
            )
        if self.smoother not in ("colour", "jacobi", "alternating") and not self.smoother.startswith("line "):
            raise DeclarationError(
                f"Multigrid: smoother must be 'colour', 'jacobi', 'alternating' or 'line' and an axis, as in 'line x'; "
                f"not {self.smoother!r}."
            )
        if not self.tolerance > 0 or self.max_cycles < 1:
            raise DeclarationError(
                f"Multigrid: tolerance={self.tolerance} and max_cycles={self.max_cycles} must be positive."
            )

    def refuse(self, outline: SystemOutline) -> str | None:
        """Multigrid serves stencils on one shape."""
        layout = outline.layout
        if layout is None:
            return "equations read points anywhere (global operations), which coarse grids cannot follow"
        if len(set(layout.shapes)) > 1:
            return f"its fields have different shapes ({', '.join(map(str, layout.shapes))}), as on staggered grids"
        found = _smoother(self.smoother, outline)
        return found if isinstance(found, str) else found.refuse(layout)

    def prepare(self, system: LinearSystem) -> Hierarchy:
        """Coarse grids."""
        assert system.matrix is not None
        return build(system.matrix, self._smoother(system.outline))

    def precondition(self, system: LinearSystem, prepared: Hierarchy, right: Vector) -> Vector:
        """One cycle from zero."""
        return self._cycles(system.outline, prepared).run(right)

    def solve(self, system: LinearSystem, prepared: Hierarchy, rhs: Vector, guess: Vector) -> tuple[Vector, Report]:
        """Cycles until the residual is small, or no longer falls."""
        matrix = operator(prepared)
        cycles = self._cycles(system.outline, prepared)
        free = matrix.free
        guess = {name: jnp.where(free[name], guess[name], 0) for name in guess}
        start = begin(system, rhs, residual(matrix, rhs, guess), self.tolerance)

        def advance(state: tuple[Vector, Progress]) -> tuple[Vector, Progress]:
            x, progress = state
            x = cycles.improve(rhs, x)
            return x, record(progress, residual(matrix, rhs, x), x)

        x, progress = lax.while_loop(lambda s: go_on(s[1], self.max_cycles), advance, (guess, start))
        return x, to_report(progress)

    def explain(self, report: Report) -> str:
        """Why a solve ended, in words, from a report with values."""
        done, residual = int(report.iterations), float(report.residual)
        if bool(report.converged):
            return f"Multigrid converged in {done} cycles: relative residual {residual:.2g}."
        reached = f"Multigrid did not converge: relative residual {residual:.2g} after {done} of its cycles, wanted"
        raised = " Raise max_cycles if it still fell." if done >= self.max_cycles else " It fell no further."
        return f"{reached} {self.tolerance:.2g}.{raised}"

    def _smoother(self, outline: SystemOutline) -> AbstractSmoother:
        found = _smoother(self.smoother, outline)
        assert not isinstance(found, str)
        return found

    def _cycles(self, outline: SystemOutline, hierarchy: Hierarchy) -> Cycles:
        return Cycles(hierarchy, self._smoother(outline), self.cycle, self.pre, self.post)


def _smoother(name: str, outline: SystemOutline) -> AbstractSmoother | str:
    """The smoother of a name, or why there is none."""
    simple = {"colour": Coloured(), "jacobi": Jacobi(), "alternating": Lined(tuple(range(len(outline.axes))))}
    if name in simple:
        return simple[name]
    axis = name.removeprefix("line ").strip()
    if axis in outline.axes:
        return Lined((outline.axes.index(axis),))
    if axis.lstrip("-").isdigit() and -len(outline.axes) <= int(axis) < len(outline.axes):
        return Lined((int(axis) % len(outline.axes),))
    return f"smoother={name!r}: there is no axis {axis!r}; axes: {', '.join(outline.axes)}"
