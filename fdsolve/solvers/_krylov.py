"""Krylov methods: conjugate gradients, GMRES, BiCGStab.

The loops are written here: lineax reports neither a history of residuals nor, without ending the program, a direction
of negative curvature, and takes no preconditioner that changes from step to step.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..errors import DeclarationError
from ._base import AbstractLinearSolver, LinearSystem, Report, SystemOutline
from ._iteration import Progress, advance, at_floor, begin, go_on, inner_product, length, to_report
from ._matrix import Vector, axpy
from ._precondition import AbstractPreconditioner

Map = Callable[[Vector], Vector]
_ROUNDS = 3
"""Times a method begins anew from the true residual when the one it carries along has drifted from it."""


class AbstractKrylov(AbstractLinearSolver):
    """What the methods share: a preconditioner, checked options, and a report of the true residual."""

    preconditioner: AbstractPreconditioner | None
    tolerance: float
    max_iterations: int

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.preconditioner is not None and not isinstance(self.preconditioner, AbstractPreconditioner):
            raise DeclarationError(
                f"{name}: preconditioner must be Multigrid(...), Diagonal(), Lines(axis) or None, "
                f"not {self.preconditioner!r}."
            )
        if not self.tolerance > 0 or self.max_iterations < 1:
            raise DeclarationError(
                f"{name}: tolerance={self.tolerance} and max_iterations={self.max_iterations} must be positive."
            )

    def refuse(self, outline: SystemOutline) -> str | None:
        """What the preconditioner refuses."""
        return self.preconditioner.refuse(outline) if self.preconditioner else None

    def prepare(self, system: LinearSystem) -> Any:
        """What the preconditioner needs."""
        return self.preconditioner.prepare(system) if self.preconditioner else None

    def solve(self, system: LinearSystem, prepared: Any, rhs: Vector, guess: Vector) -> tuple[Vector, Report]:
        """Iterations until the residual is small; begun anew where rounding has parted it from the true one."""

        def precondition(right: Vector) -> Vector:
            return self.preconditioner.precondition(system, prepared, right) if self.preconditioner else right

        def apply(x: Vector) -> Vector:
            return system.apply(x)

        def again(state: tuple[Vector, Progress, jax.Array]) -> tuple[Vector, Progress, jax.Array]:
            x, progress, rounds = state
            x, progress = self._iterate(apply, precondition, rhs, x, progress)
            now = length(_left(apply, rhs, x))
            progress = progress._replace(residual=now, floor=at_floor(progress, now, x))
            return x, progress, rounds + 1

        if system.matrix is not None:
            guess = {name: jnp.where(system.matrix.free[name], guess[name], 0) for name in guess}
        start = begin(system, rhs, _left(apply, rhs, guess), self.tolerance)
        state = (guess, start, jnp.zeros((), jnp.int32))
        wanted = lambda s: go_on(s[1], self.max_iterations, self.max_iterations) & (s[2] < _ROUNDS)  # noqa: E731
        x, progress, _ = lax.while_loop(wanted, again, state)
        return x, to_report(progress)

    @abstractmethod
    def _iterate(
        self, apply: Map, precondition: Map, rhs: Vector, x: Vector, progress: Progress
    ) -> tuple[Vector, Progress]:
        """Iterations from x until the residual carried along is small, or the method breaks down."""

    def explain(self, report: Report) -> str:
        """Why a solve ended, in words, from a report with values."""
        done, residual = int(report.iterations), float(report.residual)
        if bool(report.converged):
            return f"{type(self).__name__} converged in {done} iterations: relative residual {residual:.2g}."
        reached = f"relative residual {residual:.2g} after {done} iterations, wanted {self.tolerance:.2g}"
        if done < self.max_iterations:
            return f"{type(self).__name__} broke down: {reached}. {self._breakdown}"
        return (
            f"{type(self).__name__} did not converge: {reached}. Raise max_iterations, or give a better preconditioner."
        )

    @property
    @abstractmethod
    def _breakdown(self) -> str:
        """What it means that the method ended early."""


class _Conjugate(NamedTuple):
    """x, the residual, the one before, the direction, r·z, the sign of the first p·Ap."""

    x: Vector
    r: Vector
    before: Vector
    p: Vector
    rz: jax.Array
    sign: jax.Array
    progress: Progress


@dataclass(frozen=True)
class CG(AbstractKrylov):
    """Conjugate gradients, for symmetric (or Hermitian) matrices that are positive, or negative, definite.

    The flexible form, β = zₙ₊₁·(rₙ₊₁ − rₙ)/zₙ·rₙ, which lets the preconditioner be unsymmetric, as multigrid with more
    sweeps before than after is (Notay, SIAM J. Sci. Comput. 22 (2000) 1444). A direction p with p·Ap of the other sign
    than the first one's ends it, not converged: the matrix is indefinite. Good values: `preconditioner=Multigrid()`.
    """

    preconditioner: AbstractPreconditioner | None = None
    tolerance: float = 1e-10
    max_iterations: int = 1000

    def _iterate(
        self, apply: Map, precondition: Map, rhs: Vector, x: Vector, progress: Progress
    ) -> tuple[Vector, Progress]:
        def step(state: _Conjugate) -> _Conjugate:
            x, r, before, p, rz, sign, progress = state
            fresh = precondition(r)
            change = {name: r[name] - before[name] for name in r}
            p = axpy(inner_product(change, fresh).conj() / _nonzero(rz), p, fresh)
            rz = inner_product(r, fresh)
            ap = apply(p)
            curvature = jnp.real(inner_product(p, ap))
            sign = jnp.where(sign == 0, jnp.sign(curvature), sign)
            bad = ~(curvature * sign > 0) | (rz == 0)
            alpha = jnp.where(bad, 0, rz / jnp.where(bad, 1, curvature).astype(rz.dtype))
            new = lax.optimization_barrier(axpy(-alpha, ap, r))
            progress = advance(progress, length(new))._replace(broken=bad)
            return _Conjugate(axpy(alpha, p, x), new, r, p, rz, sign, progress)

        r = _left(apply, rhs, x)
        zero = {name: jnp.zeros_like(array) for name, array in r.items()}
        state = _Conjugate(x, r, zero, zero, inner_product(zero, r), jnp.zeros_like(progress.residual), progress)
        state = lax.while_loop(lambda s: go_on(s.progress, self.max_iterations, self.max_iterations), step, state)
        return state.x, state.progress

    @property
    def _breakdown(self) -> str:
        return (
            "The matrix, or its preconditioner, is not symmetric and definite: use GMRES or BiCGStab, "
            "or a direct method for Helmholtz equations."
        )


@dataclass(frozen=True)
class BiCGStab(AbstractKrylov):
    """Stabilised biconjugate gradients, for any matrix, with short recurrences (van der Vorst 1992).

    Each iteration applies the matrix and the preconditioner twice.
    """

    preconditioner: AbstractPreconditioner | None = None
    tolerance: float = 1e-10
    max_iterations: int = 1000

    def _iterate(
        self, apply: Map, precondition: Map, rhs: Vector, x: Vector, progress: Progress
    ) -> tuple[Vector, Progress]:
        r = _left(apply, rhs, x)
        shadow = r

        def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
            x, r, p, rho, progress = state
            fore = precondition(p)
            v = apply(fore)
            bottom = inner_product(shadow, v)
            alpha = rho / _nonzero(bottom)
            s = lax.optimization_barrier(axpy(-alpha, v, r))
            aft = precondition(s)
            t = apply(aft)
            tt = inner_product(t, t)
            omega = inner_product(t, s) / _nonzero(tt)
            x = axpy(omega, aft, axpy(alpha, fore, x))
            r = lax.optimization_barrier(axpy(-omega, t, s))
            after = inner_product(shadow, r)
            beta = (after / _nonzero(rho)) * (alpha / _nonzero(omega))
            p = axpy(beta, axpy(-omega, v, p), r)
            now = length(r)
            lost = ((bottom == 0) | (omega == 0) | (after == 0)) & (now > progress.target)
            return x, r, p, after, advance(progress, now)._replace(broken=lost)

        state = (x, r, r, inner_product(shadow, r), progress)
        state = lax.while_loop(lambda s: go_on(s[-1], self.max_iterations, self.max_iterations), step, state)
        return state[0], state[-1]

    @property
    def _breakdown(self) -> str:
        return "A recurrence divided by zero: use GMRES, or another preconditioner."


@dataclass(frozen=True)
class GMRES(AbstractKrylov):
    """Generalised minimal residuals, begun anew every `restart` iterations, for any matrix (Saad & Schultz 1986).

    Preconditioned on the right, flexibly: the residual it minimises is the true one, and `2·restart` vectors are kept.
    """

    restart: int = 30
    preconditioner: AbstractPreconditioner | None = None
    tolerance: float = 1e-10
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        AbstractKrylov.__post_init__(self)
        if self.restart < 1:
            raise DeclarationError(f"GMRES: restart={self.restart} must be positive; 30 is usual.")

    def _iterate(
        self, apply: Map, precondition: Map, rhs: Vector, x: Vector, progress: Progress
    ) -> tuple[Vector, Progress]:
        def sweep(state: tuple[Vector, Progress]) -> tuple[Vector, Progress]:
            x, progress = state
            before = progress.best
            x, progress = self._arnoldi(apply, precondition, rhs, x, progress)
            now = length(_left(apply, rhs, x))
            progress = progress._replace(residual=now, best=jnp.minimum(now, before))
            # A whole round that brings nothing will be repeated for ever.
            return x, progress._replace(broken=(now > 0.999 * before) & (now > progress.target))

        return lax.while_loop(lambda s: go_on(s[1], self.max_iterations, self.max_iterations), sweep, (x, progress))

    def _arnoldi(
        self, apply: Map, precondition: Map, rhs: Vector, x: Vector, progress: Progress
    ) -> tuple[Vector, Progress]:
        """One round: a basis of at most `restart` vectors, and the combination with the least residual."""
        m = self.restart
        r = _left(apply, rhs, x)
        top = length(r)
        basis = {n: jnp.zeros((m + 1, *a.shape), a.dtype).at[0].set(a / _nonzero(top)) for n, a in r.items()}
        images = {n: jnp.zeros((m, *a.shape), a.dtype) for n, a in r.items()}
        dtype = next(iter(r.values())).dtype
        # Rows of columns not reached are those of the identity, so that the least squares stay regular.
        table = jnp.eye(m + 1, m, dtype=dtype)
        right = jnp.zeros(m + 1, dtype).at[0].set(top.astype(dtype))

        def wanted(state: tuple[Any, ...]) -> jax.Array:
            return (state[0] < m) & go_on(state[-1], self.max_iterations, self.max_iterations)

        def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
            k, basis, images, table, progress = state
            z = precondition({n: v[k] for n, v in basis.items()})
            w = apply(z)
            column = jnp.zeros(m + 1, dtype)
            for _ in range(2):  # twice is enough
                parts = sum(_contract(basis[n].conj(), w[n]) for n in w)
                w = {n: w[n] - jnp.tensordot(parts, basis[n], 1) for n in w}
                column = column + parts
            height = length(w)
            column = jnp.where(jnp.arange(m + 1, dtype=jnp.int32) == k + 1, height.astype(dtype), column)
            basis = {n: v.at[k + 1].set(w[n] / _nonzero(height)) for n, v in basis.items()}
            images = {n: v.at[k].set(z[n]) for n, v in images.items()}
            table = table.at[:, k].set(column)
            y = _least_squares(table, right, k)
            now = jnp.linalg.norm(right - jnp.where(jnp.arange(m, dtype=jnp.int32) <= k, table, 0) @ y)
            return k + 1, basis, images, table, advance(progress, now)

        state = (jnp.zeros((), jnp.int32), basis, images, table, progress)
        k, _, images, table, progress = lax.while_loop(wanted, step, state)
        y = _least_squares(table, right, k - 1)
        return {n: x[n] + jnp.tensordot(y, images[n], 1) for n in x}, progress

    @property
    def _breakdown(self) -> str:
        return "A whole round brought nothing: raise restart, or give a better preconditioner."


def _least_squares(table: jax.Array, right: jax.Array, last: jax.Array) -> jax.Array:
    """y with |table y − right| least, of columns 0 … `last`; 0 in the others."""
    m = table.shape[1]
    used = jnp.arange(m, dtype=jnp.int32) <= last
    q, r = jnp.linalg.qr(jnp.where(used, table, 0))
    diagonal = jnp.abs(jnp.diagonal(r))
    keep = used & (diagonal > 100 * jnp.finfo(diagonal.dtype).eps * jnp.max(diagonal))
    r = jnp.where(keep[:, None] & keep, r, jnp.eye(m, dtype=r.dtype))
    projected = jnp.where(keep, q.conj().T @ right, 0)
    return jnp.where(keep, jax.scipy.linalg.solve_triangular(r, projected), 0)


def _contract(many: jax.Array, one: jax.Array) -> jax.Array:
    return jnp.tensordot(many, one, one.ndim)


def _left(apply: Map, rhs: Vector, x: Vector) -> Vector:
    product = apply(x)
    return lax.optimization_barrier({name: rhs[name] - product[name] for name in rhs})


def _nonzero(value: jax.Array) -> jax.Array:
    return jnp.where(value == 0, jnp.ones_like(value), value)
