"""The result of an analysis: a Dataset that prints and plots itself."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..pictures import dispersion
from ..planning import Plan
from ._dispersion import Waves
from ._modified import Key, Modified, name_of
from ._symbol import Symbol

_SHOWN = 1e-9


class Analysis(xr.Dataset):
    """What a scheme does to waves: `print` tells the modified equation and the largest stable step, `plot` draws it.

    Variables over (mode, theta_x, …), θ = kΔx the phase of a wave from point to point: `amplification` and
    `exact_amplification` (|G| of one time step), `phase_error` and `group_error` (relative errors of the velocities),
    `parasites` (|G| of roots that belong to no mode of the equation). Over (`equation`, `term`): `coefficient` of the
    equation itself and `error` of its leading error. Attributes hold the summary, orders, and steps.
    """

    __slots__ = ()

    def summary(self) -> str:
        """The modified equations, leading errors in brackets, with orders and steps, in a few lines."""
        return str(self.attrs["summary"])

    def __repr__(self) -> str:
        return f"{self.summary()}\n{super().__repr__()}"

    def plot(self, *, ax: Any = None) -> Any:  # type: ignore[override]
        """Amplification and velocity errors over the phase θ = kΔx; returns the Figure. `ax`: two Axes to draw on."""
        return dispersion(self, ax=ax)


def to_dataset(plan: Plan, symbol: Symbol, found: Modified | str, waves: Waves, largest: float) -> Analysis:
    """All results as a Dataset."""
    grid = plan.problem.scope.grid
    dims = tuple(f"theta_{axis}" for axis in grid.space)
    coords: dict[str, Any] = {"mode": np.arange(len(waves.growth))}
    for axis, dim in zip(grid.space, dims, strict=True):
        owner = grid.space_axis(axis)
        unit = f"rad/{owner.units}" if owner.units else "rad per unit length"
        coords[dim] = (dim, waves.theta, {"units": "rad", "long_name": f"phase from point to point along {axis}"})
        coords[f"k_{axis}"] = (dim, waves.theta / owner.step, {"units": unit, "long_name": "wavenumber"})
    over = ("mode", *dims)
    data: dict[str, Any] = {
        "amplification": (over, waves.growth, {"units": "1", "long_name": "|G| of one time step"}),
        "exact_amplification": (over, waves.exact, {"units": "1", "long_name": "exact growth in one time step"}),
        "phase_error": (over, waves.phase_error, {"units": "1", "long_name": "relative error of phase velocity"}),
        "group_error": (over, waves.group_error, {"units": "1", "long_name": "relative error of group velocity"}),
        "parasites": (dims, waves.parasites, {"units": "1", "long_name": "largest |G| of other roots"}),
    }
    attributes: dict[str, Any] = {"axes": " ".join(grid.space), "step": symbol.step, "largest_step": largest}
    if symbol.stepper is not None:
        attributes["stepper"] = repr(symbol.stepper)
    if isinstance(found, Modified):
        data |= _term_table(found, grid.space)
        coords["equation"] = list(found.exact.names)
        attributes["order"] = list(found.orders)
    attributes["summary"] = _summary(symbol, found, grid.space, largest)
    return Analysis(data, coords, attrs=attributes)


def _term_table(found: Modified, space: tuple[str, ...]) -> dict[str, Any]:
    """Coefficients by equation and term."""
    keys = list(dict.fromkeys([*found.exact.terms, *found.errors]))
    names = [name_of(name, space, time, powers) for time, powers in keys for name in found.exact.names]
    columns = {"coefficient": found.exact.terms, "error": found.errors}
    table: dict[str, Any] = {"term": (("term",), names)}
    for title, terms in columns.items():
        zero = np.zeros((len(found.exact.names),) * 2, complex)
        values = np.concatenate([terms.get(key, zero) for key in keys], axis=1) if keys else zero[:, :0]
        table[title] = (("equation", "term"), _real_where(values))
    return table


def _real_where(values: np.ndarray) -> np.ndarray:
    """Real numbers where the imaginary parts are rounding."""
    size = np.abs(values).max(initial=0.0)
    return np.real(values) if np.all(np.abs(np.imag(values)) <= _SHOWN * size) else values


def _summary(symbol: Symbol, found: Modified | str, space: tuple[str, ...], largest: float) -> str:
    lines = []
    if isinstance(found, Modified):
        for row, name in enumerate(found.exact.names):
            lines.append(f"{name}_{'t' * found.exact.time_order} = {_right_side(found, row, space)}")
            lines.append(f"  {_show_order(symbol, found, row)}")
    else:
        lines.append(f"{', '.join(symbol.names)}: no modified equation ({found})")
    bound = {np.inf: "every step is stable", 0.0: "no step is stable"}.get(largest, "")
    bound = "the rules do not read the step" if np.isnan(largest) else bound
    lines.append(f"step {symbol.step:.6g}; {bound or f'largest stable step {largest:.6g}'}")
    return "\n".join(lines)


def _right_side(found: Modified, row: int, space: tuple[str, ...]) -> str:
    exact = _show_terms(found.exact.terms, row, found, space)
    errors = _show_terms(found.errors, row, found, space)
    return f"{exact or '0'}" + (f" + [{errors} + …]" if errors else "")


def _show_terms(terms: Mapping[Key, np.ndarray], row: int, found: Modified, space: tuple[str, ...]) -> str:
    text = ""
    for (time, powers), matrix in sorted(terms.items(), key=lambda item: _place(item[0])):
        for name, value in zip(found.exact.names, matrix[row], strict=True):
            if not value:
                continue
            is_real = abs(value.imag) <= _SHOWN * abs(value)
            size = f"{abs(value.real):.6g}" if is_real else f"({value:.6g})"
            sign = "−" if is_real and value.real < 0 else "+"
            text += f" {sign} " if text else ("−" if sign == "−" else "")
            text += f"{size} {name_of(name, space, time, powers)}"
    return text


def _place(key: Key) -> Any:
    """Where a term stands in a sum: low derivatives first, then by axis."""
    time, powers = key
    return (sum(powers), time, tuple(-power for power in powers))


def _show_order(symbol: Symbol, found: Modified, row: int) -> str:
    order = found.orders[row]
    if order == np.inf:
        text = "exact, to the degree looked at"
    elif order <= 0.05:
        text = "not consistent: errors do not vanish as the grid is refined"
    else:
        nearest = round(order)
        text = f"order {nearest if abs(order - nearest) < 0.15 else round(order, 1):g}"
        if symbol.has_rates:
            text += " in space"
        else:
            text += " as Δx → 0 with Δt ∝ Δx" + ("" if found.ratio == 1 else "²³⁴"[found.ratio - 2])
    if symbol.has_rates and symbol.stepper is not None:
        text += f", {getattr(symbol.stepper, 'order', '?')} in time ({symbol.stepper!r})"
    return text
