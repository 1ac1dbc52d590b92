"""What an inversion returns."""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import xarray as xr

from ..errors import RunError
from ._objective import Objective
from ._uncertainty import Quadratic, to_quadratic


@dataclass(frozen=True, eq=False)
class Inversion:
    """The parameters found, and how.

    `parameters` is a pytree like the initial one; `loss` that of `parameters`, with regularisation; `gradient_norm`
    that of the loss by the free variables; `converged` and `reason` say how the search ended; `losses` and
    `gradient_norms` are those of all iterations, as `history` has them with names.
    """

    objective: Objective = field(repr=False)
    vector: jax.Array = field(repr=False)
    loss: float
    gradient_norm: float
    converged: bool
    reason: str
    method: str
    losses: np.ndarray = field(repr=False)
    gradient_norms: np.ndarray = field(repr=False)

    @property
    def parameters(self) -> Any:
        """The parameters found, a pytree like the initial one."""
        return self.objective.space.parameters(self.vector)

    @property
    def history(self) -> xr.Dataset:
        """Loss and gradient norm by iteration; 0 is the start."""
        data = dict(
            loss=("iteration", self.losses, {"long_name": "loss"}),
            gradient_norm=("iteration", self.gradient_norms, {"long_name": "norm of the gradient"}),
        )
        return xr.Dataset(data, dict(iteration=np.arange(len(self.losses))))

    def to_xarray(self) -> xr.Dataset:
        """The parameters by name, with the coordinates of those that were given as DataArrays; a start for another
        search, quantities among them (until they are written to a file, where a unit is a name)."""
        space = self.objective.space
        parts = zip(space.leaves, space.split(self.vector), strict=True)
        return self._dataset([leaf.to_parameter(part) for leaf, part in parts])

    def covariance(self, noise: Any = None) -> xr.DataArray:
        """C = σ² (JᵀJ + LᵀL)⁻¹ of the parameters, by the Jacobians J of the data residuals and L of regularisation.

        Dimensions `parameter` and `other`, with coordinates `name` and `index`, and `units` where parameters have
        them: an entry is in the product of those of its row and its column. `noise` is σ, the standard deviation of
        the residuals: 1 where they are weighted by 1/σ; by default σ² = ‖r‖²/(n − tr R), estimated from them.

        Raises: RunError for a scalar loss, and where the data leave a combination of parameters undetermined.
        """
        quadratic = self._quadratic("covariance")
        return self._matrix(quadratic.inverse() * quadratic.variance(noise), "covariance")

    def resolution(self) -> xr.DataArray:
        """R = (JᵀJ + LᵀL)⁻¹ JᵀJ: how the estimate sees the truth; the identity where the data alone decide."""
        return self._matrix(self._quadratic("resolution").resolution(), "resolution")

    def standard_deviation(self, noise: Any = None) -> xr.Dataset:
        """The roots of the covariance's diagonal, in the shape of the parameters, as `to_xarray` has them."""
        quadratic = self._quadratic("standard_deviation")
        roots = np.sqrt(np.diagonal(quadratic.inverse()) * quadratic.variance(noise))
        parts = self.objective.space.split(roots)
        shapes = [leaf.value.shape for leaf in self.objective.space.leaves]
        return self._dataset([part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)])

    def plot(self, *, axes: Any = None) -> Any:
        """Loss and gradient norm by iteration; returns the matplotlib axes."""
        import matplotlib.pyplot as plt
        from matplotlib.ticker import MaxNLocator

        if axes is None:
            axes = plt.subplots(layout="constrained")[1]
        signed = bool(np.any(self.losses <= 0))
        axes.plot(self.losses, "o-", ms=3, color="#21918c", label="loss")
        if not signed:
            axes.plot(self.gradient_norms, "s-", ms=3, color="#b5367a", alpha=0.7, label="norm of the gradient")
        axes.set(xlabel="iteration", yscale="linear" if signed else "log", title=f"{self.method}: {self.reason}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(frameon=False)
        return axes

    def _quadratic(self, what: str) -> Quadratic:
        if not self.objective.is_least_squares:
            raise RunError(
                f"{what} is that of residuals, and the loss or a term of regularisation is a scalar. Return the "
                f"residuals themselves, as fd.misfit does."
            )
        if self.objective.subsets == 0:
            raise RunError(
                f"{what} is that of all residuals, and subsets= draws them without end. Call fd.invert once more from "
                f"the parameters found, with a function that returns all residuals."
            )
        return to_quadratic(self.objective, self.vector)

    def _dataset(self, arrays: list[Any]) -> xr.Dataset:
        found = {}
        for leaf, array in zip(self.objective.space.leaves, arrays, strict=True):
            attrs = {} if leaf.units is None else {"units": leaf.units}
            found[leaf.name] = xr.DataArray(np.asarray(array), leaf.coords, leaf.dims, attrs=attrs)
        return xr.Dataset(found)

    def _matrix(self, values: np.ndarray, name: str) -> xr.DataArray:
        leaves = self.objective.space.leaves
        names = np.concatenate([np.full(leaf.value.size, leaf.name) for leaf in leaves])
        index = np.concatenate([np.arange(leaf.value.size) for leaf in leaves])
        labels = [
            f"{leaf.name}[{k}]" if leaf.value.size > 1 else leaf.name for leaf in leaves for k in range(leaf.value.size)
        ]
        coords = {}
        for dim, suffix in (("parameter", ""), ("other", "_other")):
            coords[dim], coords[f"name{suffix}"], coords[f"index{suffix}"] = (dim, labels), (dim, names), (dim, index)
            if any(leaf.units is not None for leaf in leaves):
                units = np.concatenate([np.full(leaf.value.size, leaf.units or "1") for leaf in leaves])
                coords[f"units{suffix}"] = (dim, units)
        return xr.DataArray(values, coords, ("parameter", "other"), name)

    def __repr__(self) -> str:
        count = len(self.losses) - 1
        lines = [f"Inversion by {self.method}: {'converged' if self.converged else 'not converged'}, {self.reason}"]
        lines += [
            f"├── loss {self.losses[0]:.6g} → {self.loss:.6g}, gradient {self.gradient_norm:.2g}, {count} iterations"
        ]
        named = self.to_xarray().data_vars.items()
        for number, (name, array) in enumerate(named):
            branch = "└──" if number == len(named) - 1 else "├──"
            value = array.values
            shown = f"{value:.6g}" if value.ndim == 0 else f"{value.shape}, {value.min():.4g} … {value.max():.4g}"
            lines.append(f"{branch} {name}: {shown} {array.attrs.get('units', '')}".rstrip())
        return "\n".join(lines)
