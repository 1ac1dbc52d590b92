"""How fast waves travel and grow, numerically and exactly."""

from dataclasses import dataclass

import numpy as np

from ._modified import Modified
from ._symbol import Symbol

_STRIDES = 24
_TILT = 1e-4


@dataclass(frozen=True, eq=False)
class Waves:
    """By mode and phase: growth of one step, its exact value, relative errors of phase and group velocity.

    `theta` are the phases along each axis. `modes` come first in every array; exact values and errors are nan where no
    equation is known, velocity errors where the exact mode does not travel.
    """

    theta: np.ndarray
    growth: np.ndarray
    exact: np.ndarray
    phase_error: np.ndarray
    group_error: np.ndarray
    parasites: np.ndarray


def disperse(symbol: Symbol, spacing: np.ndarray, found: Modified | None, count: int) -> Waves:
    """Follows each mode from long waves to θ = π along rays, so that roots and their phases stay those of one mode."""
    axes = len(spacing)
    line = np.linspace(np.pi / count, np.pi, count)
    theta = np.stack(np.meshgrid(*[line] * axes, indexing="ij"), axis=-1)
    if found is None:
        growth = np.sort(np.abs(symbol.roots(theta)), axis=-1)[..., ::-1]
        modes = np.moveaxis(growth, -1, 0)
        empty = np.full_like(modes, np.nan)
        return Waves(line, modes, empty, empty, empty, np.zeros(modes.shape[1:]))
    logs, parasites = _follow(symbol, spacing, found, theta)
    sides = [_follow(symbol, spacing, found, theta * (1 + tilt))[0] for tilt in (-_TILT, _TILT)]
    exact = [_exact_logs(found, theta * (1 + tilt) / spacing) * symbol.step for tilt in (-_TILT, 0.0, _TILT)]
    speed = np.abs(np.imag(exact[1])) > 1e-9 * (1e-30 + np.abs(exact[1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        phase = np.where(speed, np.imag(logs) / np.imag(exact[1]) - 1, np.nan)
        slopes = np.imag(sides[1] - sides[0]), np.imag(exact[2] - exact[0])
        group = np.where(speed & (np.abs(slopes[1]) > 1e-12), slopes[0] / slopes[1] - 1, np.nan)
    first = lambda array: np.moveaxis(array, -1, 0)  # noqa: E731
    growth = np.exp(np.real(logs)), np.exp(np.real(exact[1]))
    return Waves(line, first(growth[0]), first(growth[1]), first(phase), first(group), parasites)


def _exact_logs(found: Modified, wave: np.ndarray) -> np.ndarray:
    """The exact rates s of each mode, in one order for all wavenumbers: by frequency."""
    roots = found.exact.exact_roots(wave)
    order = np.argsort(np.round(np.imag(roots), 9) + 1e-12 * np.real(roots), axis=-1)
    return np.take_along_axis(roots, order, axis=-1)


def _follow(symbol: Symbol, spacing: np.ndarray, found: Modified, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log G of the physical modes, phases unwrapped, and the largest |G| of the others."""
    exact = _exact_logs(found, theta / _STRIDES / spacing) * symbol.step
    logs = exact
    slope = np.zeros_like(logs)
    growth, taken = np.zeros(1), np.zeros(1, int)
    for stride in range(1, _STRIDES + 1):
        growth = symbol.roots(theta * stride / _STRIDES)
        guess = logs + slope if stride > 1 else exact
        taken = _assign(growth, np.exp(guess))
        chosen = np.take_along_axis(growth, taken, axis=-1)
        with np.errstate(divide="ignore"):
            new = np.log(chosen)
        new = new + 2j * np.pi * np.round(np.imag(guess - new) / (2 * np.pi))
        slope = np.where(np.isfinite(new), new - (logs if stride > 1 else 0.0), 0.0)
        logs = np.where(np.isfinite(new), new, -745.0 + 1j * np.imag(guess))
    left = np.abs(growth).copy()
    np.put_along_axis(left, taken, 0.0, axis=-1)
    return logs, left.max(axis=-1)


def _assign(roots: np.ndarray, guesses: np.ndarray) -> np.ndarray:
    """For each guess the nearest root, none taken twice: indices, (…, guesses)."""
    distance = np.abs(guesses[..., :, None] - roots[..., None, :])
    indices = np.zeros(guesses.shape, int)
    for _ in range(guesses.shape[-1]):
        flat = distance.reshape(*distance.shape[:-2], -1).argmin(axis=-1)
        mode, root = np.divmod(flat, roots.shape[-1])
        np.put_along_axis(indices, mode[..., None], root[..., None], axis=-1)
        np.put_along_axis(distance, mode[..., None, None], np.inf, axis=-2)
        np.put_along_axis(distance, root[..., None, None], np.inf, axis=-1)
    return indices
