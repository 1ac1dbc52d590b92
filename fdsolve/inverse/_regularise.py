"""Regularisation: what is known of the parameters beside the data, as residuals or as a scalar."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ._lines import Frame, to_frame
from ._names import pick


class AbstractTerm(ABC):
    """A term that is added to a loss; `term(parameters)` is its value."""

    @property
    def is_residuals(self) -> bool:
        """Whether the value is ½‖residuals‖²."""
        return True

    @abstractmethod
    def residuals(self, parameters: Any) -> Any:
        """The residuals, of a pytree of parameters."""

    def __call__(self, parameters: Any) -> jax.Array:
        """The value of the term, a scalar."""
        leaves = jax.tree.leaves(self.residuals(parameters))
        return sum((jnp.sum(leaf**2) / 2 for leaf in leaves), start=jnp.zeros((), leaves[0].dtype))


@dataclass(frozen=True, eq=False)
class Own(AbstractTerm):
    """A function of the parameters: a scalar is a loss, anything else residuals."""

    function: Callable[[Any], Any]
    gives_residuals: bool

    @property
    def is_residuals(self) -> bool:
        return self.gives_residuals

    def residuals(self, parameters: Any) -> Any:
        return self.function(parameters)

    def __call__(self, parameters: Any) -> jax.Array:
        if not self.gives_residuals:
            return self.function(parameters)
        return AbstractTerm.__call__(self, parameters)


@dataclass(frozen=True, eq=False)
class Tikhonov(AbstractTerm):
    """½ w ∫ |∂ⁿ(f(m) − prior)|² dV of a parameter m; made by `fd.tikhonov`."""

    weight: float
    parameter: str | None
    order: int
    frame: Frame
    prior: Any
    of: Callable[[Any], Any] | None

    def residuals(self, parameters: Any) -> list[jax.Array]:
        array = _value(parameters, self.parameter, self.of)
        if self.prior is not None:
            prior = jnp.asarray(self.frame.arranged(self.prior, array.ndim), array.dtype)
            if prior.ndim and prior.shape != array.shape:
                raise DeclarationError(
                    f"fd.tikhonov: prior= has shape {prior.shape}, and the parameter {array.shape}. Give one of that "
                    f"shape, or a number."
                )
            array = array - prior
        lines, along = self.frame.lines(array.shape)
        if self.order and not any(array.shape[axis] > self.order for axis in along):
            raise DeclarationError(
                f"fd.tikhonov: order={self.order} wants more than {self.order} values along an axis, and the parameter "
                f"has shape {array.shape}. Take order=0."
            )
        found = []
        for axis in along if self.order else (None,):
            change, volumes = array, lines.volumes(axis if self.order == 1 else None)
            if axis is not None:
                change = lines.slope(array, axis)
            if self.order == 2 and axis is not None:
                change = lines.change_of_slope(change, axis)
                volumes = lines.inner(volumes, axis)
            found.append(change * jnp.asarray(np.sqrt(self.weight * volumes), array.dtype))
        return found


@dataclass(frozen=True, eq=False)
class TotalVariation(AbstractTerm):
    """w ∫ √(|∇f(m)|² + ε²) dV of a parameter m; made by `fd.total_variation`.

    As residuals by its quadratic majoriser, whose value and gradient are the term's and whose Gauss–Newton matrix is
    that of lagged diffusivity (Vogel and Oman, SIAM J. Sci. Comput. 17, 227, 1996): with s = √(|∇m|² + ε²) held,
    s = ½(|∇m|² + ε²)/s + ½s.
    """

    weight: float
    parameter: str | None
    smoothing: float
    frame: Frame
    of: Callable[[Any], Any] | None

    def residuals(self, parameters: Any) -> list[jax.Array]:
        array = _value(parameters, self.parameter, self.of)
        lines, along = self.frame.lines(array.shape)
        volumes, slopes = lines.volumes(None), []
        for axis in along:
            slope = lines.slope(array, axis)
            short = array.shape[axis] - slope.shape[axis]
            between = lines.volumes(axis) / np.take(volumes, range(slope.shape[axis]), axis)  # a jump counts in full
            slope = slope * jnp.asarray(between, array.dtype)
            slopes.append(jnp.pad(slope, [(0, short if k == axis else 0) for k in range(array.ndim)]))
        square = sum((slope**2 for slope in slopes), start=jnp.full_like(array, self.smoothing**2))
        steepness = jax.lax.stop_gradient(jnp.sqrt(square))
        share = jnp.asarray(np.sqrt(self.weight * volumes), array.dtype) / jnp.sqrt(steepness)
        return [*(slope * share for slope in slopes), self.smoothing * share, steepness * share]


def tikhonov(
    weight: Any,
    parameter: Any = None,
    *,
    order: Any = 1,
    axes: Any = None,
    grid: Any = None,
    spacing: Any = None,
    prior: Any = None,
    of: Any = None,
) -> Tikhonov:
    """½ w ∫ (m − prior)² dV for `order=0`, ½ w ∫ |∇(m − prior)|² dV for 1, ½ w ∫ Σ(∂²(m − prior))² dV for 2.

    Arguments:
        weight: w, positive.
        parameter: the name of m in the dict of parameters; not needed where there is one.
        axes: names of the axes along which slopes count; all of them by default.
        grid: the grid whose space axes are m's (those of `axes=`, in order, if m has fewer; those of m itself where it
            is a DataArray); or
        spacing: distances by axis name, dict(x=0.1, y=0.1), or one number. Without both, points are one apart, and
            the integral is a sum.
        prior: what m is expected to be, of m's shape or a number; zero by default.
        of: a function applied to m first, as jnp.log.

    Lengths are those of the coordinates. Source: Tikhonov, Dokl. Akad. Nauk SSSR 151, 501 (1963).

    >>> float(tikhonov(2.0, "k", order=1, spacing=0.5)(dict(k=jnp.array([0.0, 1.0, 1.0]))))
    2.0
    """
    if isinstance(order, bool) or order not in (0, 1, 2):
        raise DeclarationError(f"fd.tikhonov: order= is 0 (size), 1 (slopes) or 2 (curvatures), got {order!r}.")
    weigh = _check("fd.tikhonov", weight, parameter, of)
    frame = to_frame("fd.tikhonov", axes, grid, spacing)
    return Tikhonov(weigh, parameter, order, frame, prior, of)


def total_variation(
    weight: Any,
    parameter: Any = None,
    *,
    smoothing: Any = 1e-3,
    axes: Any = None,
    grid: Any = None,
    spacing: Any = None,
    of: Any = None,
) -> TotalVariation:
    """w ∫ √(|∇m|² + ε²) dV: lets m jump, where `tikhonov` smooths; `smoothing` is ε, in the units of the slope.

    Other arguments as in `tikhonov`. Good values: ε a hundredth of a typical slope. Source: Rudin, Osher and Fatemi,
    Physica D 60, 259 (1992).

    >>> round(float(total_variation(2.0, smoothing=1e-4)(jnp.array([0.0, 1.0, 1.0]))), 2)
    2.0
    """
    if isinstance(smoothing, bool) or not isinstance(smoothing, int | float) or not smoothing > 0:
        raise DeclarationError(f"fd.total_variation: smoothing= is a positive slope, got {smoothing!r}. Take 1e-3.")
    weigh = _check("fd.total_variation", weight, parameter, of)
    frame = to_frame("fd.total_variation", axes, grid, spacing)
    return TotalVariation(weigh, parameter, float(smoothing), frame, of)


def to_terms(
    given: Any, parameters: Any, dims: Mapping[str, tuple[str, ...]], coords: Mapping[str, Mapping[str, Any]]
) -> tuple[AbstractTerm, ...]:
    """The terms of `regularise=`: one or a list of them; functions of the parameters as well. Each is tried.

    `dims` are the axes of each labelled parameter, in their order, `coords` its coordinates.
    """
    listed = list(given) if isinstance(given, list | tuple) else [] if given is None else [given]
    terms = []
    for one in listed:
        if not callable(one):
            raise DeclarationError(
                f"regularise= takes fd.tikhonov(...), fd.total_variation(...), a function of the parameters, or a list "
                f"of those; got {one!r}."
            )
        if isinstance(one, Tikhonov | TotalVariation):
            own = dims.get(one.parameter or next(iter(dims)), ())
            one = replace(one, frame=replace(one.frame, dims=own))
            if isinstance(one, Tikhonov) and isinstance(one.prior, xr.DataArray):
                places = coords.get(one.parameter or next(iter(coords)), {})
                one = replace(one, prior=_in_order(one.prior, places))
        shape = jax.eval_shape(one if not isinstance(one, AbstractTerm) else one.residuals, parameters)
        scalar = isinstance(shape, jax.ShapeDtypeStruct) and shape.shape == ()
        terms.append(one if isinstance(one, AbstractTerm) else Own(one, not scalar))
    return tuple(terms)


def _in_order(prior: xr.DataArray, coords: Mapping[str, Any]) -> xr.DataArray:
    """A labelled prior in the order of the parameter's coordinates. Raises DeclarationError where they differ."""
    for name in map(str, prior.dims):
        if name not in prior.coords or name not in coords:
            continue
        wanted, given = np.asarray(coords[name].values), np.asarray(prior.coords[name].values)
        order = np.argsort(given)[np.argsort(np.argsort(wanted))] if given.shape == wanted.shape else None
        if order is None or not _same(given[order], wanted):
            raise DeclarationError(
                f"fd.tikhonov: prior= lies at other places along `{name}` than the parameter, from {given[0]} to "
                f"{given[-1]} and from {wanted[0]} to {wanted[-1]}. Bring it there: prior.interp({name}=...)."
            )
        prior = prior.isel({name: order})
    return prior


def _same(given: np.ndarray, wanted: np.ndarray) -> bool:
    if not (np.issubdtype(given.dtype, np.number) and np.issubdtype(wanted.dtype, np.number)):
        return bool(np.array_equal(given, wanted))
    return bool(np.allclose(given, wanted, rtol=1e-6, atol=1e-6 * float(np.ptp(wanted)) / max(wanted.size, 1)))


def _check(what: str, weight: Any, parameter: Any, of: Any) -> float:
    if isinstance(weight, bool | str) or np.ndim(weight) or not np.isfinite(weight) or not weight > 0:
        raise DeclarationError(f"{what}: a positive weight comes first, got {weight!r}.")
    if parameter is not None and not isinstance(parameter, str):
        raise DeclarationError(f"{what}: the second argument is the name of a parameter, got {parameter!r}.")
    if of is not None and not callable(of):
        raise DeclarationError(f"{what}: of= is a function applied to the parameter, as jnp.log; got {of!r}.")
    return float(weight)


def _value(parameters: Any, name: str | None, of: Callable[[Any], Any] | None) -> jax.Array:
    array = jnp.asarray(pick(parameters, name))
    return array if of is None else of(array)
