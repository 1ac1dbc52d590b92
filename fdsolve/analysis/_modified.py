"""The modified equation: which differential equation a scheme solves, and its leading error."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ._series import Powers, choose_radius, coefficients, matrix_log
from ._symbol import Symbol

SCALES = (1.0, 1 / 64, 1 / 128, 1 / 256)
_NEGLIGIBLE = 1e-3
_DEGREES = {1: 12, 2: 10, 3: 6}
Key = tuple[int, Powers]
"""A derivative: how often by time, how often by each axis."""


@dataclass(frozen=True, eq=False)
class Equation:
    """∂u/∂t = Σ aᵅ ∂ᵅ(fields), or ∂²u/∂t² with time derivatives on the right: one row a field.

    `terms` hold, by (time derivatives, powers of ∂), matrices over the fields; `time_order` is 1 or 2.
    """

    names: tuple[str, ...]
    time_order: int
    terms: dict[Key, np.ndarray]
    rounding: dict[Key, float] = field(default_factory=dict)

    def exact_roots(self, wave: np.ndarray) -> np.ndarray:
        """The rates s of exp(s t + i k·x), for wavenumbers (…, axes): (…, roots)."""
        sums = {0: np.zeros((*wave.shape[:-1], len(self.names), len(self.names)), complex)}
        sums[1] = np.zeros_like(sums[0])
        for (time, powers), matrix in self.terms.items():
            factor = np.prod((1j * wave) ** np.asarray(powers), axis=-1)
            sums[time] += factor[..., None, None] * matrix
        if self.time_order == 1:
            return np.linalg.eigvals(sums[0])
        a, b = sums[1][..., 0, 0], sums[0][..., 0, 0]
        half = np.sqrt((a / 2) ** 2 + b)
        return np.stack([a / 2 + half, a / 2 - half], axis=-1)


@dataclass(frozen=True, eq=False)
class Modified:
    """What a scheme solves: the equation it is consistent with, the leading terms of its error, and their order.

    Error terms are those of each field with the lowest power of the refinement, Δt ∝ Δxᵐ with m = `ratio`.
    """

    exact: Equation
    errors: dict[Key, np.ndarray] = field(default_factory=dict)
    orders: tuple[float, ...] = ()
    ratio: int = 1


def modified_terms(symbol: Symbol, spacing: np.ndarray) -> Equation | str:
    """The equation with all its terms (to a degree) on one grid; or why there is none."""
    axes = len(spacing)
    degree = _DEGREES.get(axes, 4)

    def equation(order: int, *parts: dict[Powers, tuple[np.ndarray, float]]) -> Equation:
        terms, rounding = {}, {}
        for time, part in enumerate(parts):
            for powers, (value, noise) in part.items():
                scale = float(np.prod(spacing ** np.asarray(powers)))
                terms[time, powers], rounding[time, powers] = value * scale, noise * scale
        return Equation(symbol.names, order, terms, rounding)

    if symbol.has_rates:
        # Entire functions: a wide circle keeps the rounding of high derivatives small.
        return equation(1, coefficients(symbol.rates, axes, degree, 2.0 if axes == 1 else 1.0))
    origin = np.zeros(axes, complex)
    factors = np.linalg.eigvals(symbol.step_matrix(origin))
    if symbol.depth == 1:
        if np.any(np.abs(factors) < 1e-12):
            return "a field forgets the level before"
        radius = choose_radius(symbol.step_matrix, axes)
        log = partial(_log_rates, symbol)
        return equation(1, coefficients(log, axes, degree, radius, 1 / symbol.step))
    near = int(np.sum(np.abs(factors - 1) < 1e-4))
    if len(symbol.names) > 1 or near not in (1, 2):
        return "coupled rules over several levels have no single equation"
    radius = choose_radius(symbol.step_matrix, axes)
    parts = _physical(symbol, near)
    floors = [symbol.step ** -(near - time) for time in range(near)]
    return equation(near, *(coefficients(p, axes, degree, radius, f) for p, f in zip(parts, floors, strict=True)))


def _log_rates(symbol: Symbol, xi: np.ndarray) -> np.ndarray:
    return matrix_log(symbol.step_matrix(xi)) / symbol.step


def _physical(symbol: Symbol, count: int) -> list[Callable[[np.ndarray], np.ndarray]]:
    """The symmetric functions of the roots near 1, which are power series: s, or −s₁s₂ and s₁ + s₂."""

    def roots(xi: np.ndarray) -> np.ndarray:
        factors = np.linalg.eigvals(symbol.step_matrix(xi))
        order = np.argsort(np.abs(factors - 1), axis=-1)[..., :count]
        return np.log(np.take_along_axis(factors, order, axis=-1)) / symbol.step

    if count == 1:
        return [lambda xi: roots(xi)[..., None]]
    return [
        lambda xi: -roots(xi).prod(axis=-1)[..., None, None],
        lambda xi: roots(xi).sum(axis=-1)[..., None, None],
    ]


def split_terms(found: list[Equation], ratio: int) -> Modified:
    """What remains as the grid is refined, and the leading errors, from the terms on grids refined by `SCALES`."""
    exact, errors, powers_of = {}, {}, {}
    first = found[0]
    shape = np.shape(next(iter(first.terms.values())))
    for key in first.terms:
        values = np.stack([one.terms[key] for one in found])
        limit, power = _limit(values, np.asarray([one.rounding[key] for one in found]))
        exact[key], errors[key], powers_of[key] = limit, values[0] - limit, power
    orders = []
    for row in range(shape[0]):
        orders.append(min((float(power[row].min()) for power in powers_of.values()), default=np.inf))
    lowest = np.asarray(orders)[:, None]
    leading = {}
    for key, error in errors.items():
        kept = np.where(powers_of[key] < lowest + 0.3, error, 0.0)
        if np.any(kept):
            leading[key] = kept
    kept_exact = {key: value for key, value in exact.items() if np.any(value)}
    return Modified(Equation(first.names, first.time_order, kept_exact), leading, tuple(orders), ratio)


def _limit(values: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The limit of values on refined grids, and the power of the refinement with which they approach it (inf: at once).

    From the last three, by Aitken's extrapolation: exact for a limit plus one power.
    """
    _, a, b, c = values
    first, second = a - b, b - c
    still = (np.abs(first) <= noise[1] + noise[2]) | (np.abs(second) <= noise[2] + noise[3])
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.log2(np.abs(first) / np.abs(second))
        limit = c - second / (2.0**power - 1)
        decay = np.log2(np.abs(b) / np.abs(c))
    limit = np.where(still, c, limit)
    power = np.where(still, np.inf, power)
    # A mixture of powers leaves a remainder in the extrapolation, which is no limit.
    remainder = np.maximum(0.1 * np.abs(c), _NEGLIGIBLE * np.abs(values).max(axis=0))
    gone = np.abs(limit) <= np.where(still, 0.0, remainder) + noise[3]
    return np.where(gone, 0.0, limit), np.where(gone & ~still, decay, power)


def parabolic_degree(equation: Equation) -> int:
    """The power of Δx to which the time step of an explicit scheme is bound: 1, or the degree of its dissipation."""
    if equation.time_order != 1:
        return 1
    degrees = [1]
    for (_, powers), matrix in equation.terms.items():
        degree = sum(powers)
        if degree >= 2 and degree % 2 == 0 and np.any(np.real(np.diag(matrix)) * (-1) ** (degree // 2) < 0):
            degrees.append(degree)
    return max(degrees)


def name_of(field_name: str, axes: tuple[str, ...], time: int, powers: Powers) -> str:
    """A derivative as text: u_xxy, u_tx, u_8x."""
    letters = "t" * time
    for axis, power in zip(axes, powers, strict=True):
        letters += axis * power if power < 5 and len(axis) == 1 else f"{power}{axis}" if power else ""
    return f"{field_name}_{letters}" if letters else field_name
