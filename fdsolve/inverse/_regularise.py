"""Regularisation: what is known of the parameters beside the data, as residuals or as a scalar."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer

from .._losses import check_arrays, takes, traced_by_jax
from ..errors import DeclarationError
from ..units import (
    conversion,
    in_words,
    is_quantity,
    magnitude,
    measure_of,
    plain,
    rescaled,
    scaled,
    to_name,
    units_of,
)
from ._frame import Frame, Labels, is_positive, to_frame
from ._names import by_name, check_names, named_leaves, pick

TERM = "A function in regularise="
"""How messages begin."""


class AbstractTerm(ABC):
    """A term that is added to a loss; `term(parameters)` is its value."""

    @property
    def is_residuals(self) -> bool:
        """Whether the value is ½‖residuals‖²."""
        return True

    @property
    def lags(self) -> bool:
        """Whether the residuals hold something of the step before, so that methods for them converge linearly."""
        return False

    @abstractmethod
    def residuals(self, parameters: Any) -> Any:
        """The residuals, of a pytree of parameters."""

    def __call__(self, parameters: Any) -> jax.Array:
        """The value of the term, a scalar."""
        squares = [_square(leaf) for leaf in jax.tree.leaves(self.residuals(parameters))]
        return sum((jnp.sum(square) / 2 for square in squares), start=jnp.zeros((), squares[0].dtype))


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
        array, frame = _value(self, parameters)
        if self.prior is not None:
            array = array - self._expected(array, frame)
        lines, along = frame.lines(array.shape)
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

    def _expected(self, array: jax.Array, frame: Frame) -> jax.Array:
        """The prior of an array: in its unit, in its order, and of its shape or a number."""
        given = frame.in_place(self._in_unit(frame.labels.units if frame.labels is not None else None), array.shape)
        given = jnp.asarray(given)
        if given.ndim and given.shape != array.shape:
            raise DeclarationError(
                f"fd.tikhonov: prior= has shape {given.shape}, and the parameter {array.shape}. Give one of that "
                f"shape, or a number."
            )
        if jnp.iscomplexobj(given) and not jnp.iscomplexobj(array):
            raise DeclarationError("fd.tikhonov: prior= is complex, and the parameter is real. Give the real part.")
        return given.astype(array.dtype)

    def _in_unit(self, units: str | None) -> Any:
        """The prior in the unit of the parameter; one of a function of it, whose unit is not known, as it is."""
        prior = self.prior
        if not is_quantity(prior):
            given = units_of(prior)
            if given is None or units is None or self.of is not None:
                return prior
            return rescaled(prior, _factor(given, units))
        if units is not None and self.of is None:
            return scaled(magnitude(prior), _factor(to_name(prior.unit), units))
        if measure_of(prior.unit).is_one:
            return magnitude(prior)
        if self.of is None:
            raise DeclarationError(
                f"fd.tikhonov: prior= has a unit, {in_words(prior)}, and the parameter has none. Give both one, or "
                f"neither."
            )
        raise DeclarationError(
            f"fd.tikhonov: prior= has a unit, {in_words(prior)}, and is one of the function of=, whose unit is not "
            f"known. Give its number: of= takes numbers in the unit of the parameter."
        )


@dataclass(frozen=True, eq=False)
class TotalVariation(AbstractTerm):
    """w ∫ √(|∇f(m)|² + ε²) dV of a parameter m; made by `fd.total_variation`.

    As residuals by its quadratic majoriser, whose value and gradient are the term's and whose Gauss–Newton matrix is
    that of lagged diffusivity (Vogel and Oman, SIAM J. Sci. Comput. 17, 227, 1996): with s = √(|∇m|² + ε²) held,
    s = ½(|∇m|² + ε²)/s + ½s. A cell has as many corners as there are pairs of neighbours on different axes, each with
    slopes of its own and the volume up to the middles: so planes have their value up to the walls, and a mirror image
    that of its original.
    """

    weight: float
    parameter: str | None
    smoothing: float
    frame: Frame
    of: Callable[[Any], Any] | None

    @property
    def lags(self) -> bool:
        return True

    def __call__(self, parameters: Any) -> jax.Array:
        """The value of the term itself, of which all derivatives are right; those of residuals are the majoriser's."""
        array, frame = _value(self, parameters)
        lines, along = frame.lines(array.shape)
        square = [_square(lines.slope(array, axis)) for axis in along]
        parts = [volume * steepness for _, volume, steepness in self._corners(lines, along, square, array.real)]
        return sum(map(jnp.sum, parts), start=jnp.zeros((), array.real.dtype))

    def residuals(self, parameters: Any) -> list[jax.Array]:
        array, frame = _value(self, parameters)
        lines, along = frame.lines(array.shape)
        slopes = [lines.slope(array, axis) for axis in along]
        square = [_square(jax.lax.stop_gradient(slope)) for slope in slopes]
        flat = steep = jnp.zeros_like(array.real)  # w ∫ dV/s and w ∫ s dV of each cell
        shares = [jnp.zeros_like(one) for one in square]  # w ∫ dV/s of what has this slope
        for corner, volume, steepness in self._corners(lines, along, square, flat):
            part = volume / steepness
            flat, steep = flat + part, steep + volume * steepness
            shares = [
                share + lines.at_middles(part, *where) for share, *where in zip(shares, along, corner, strict=True)
            ]
        weighed = [slope * jnp.sqrt(share).astype(slope.dtype) for slope, share in zip(slopes, shares, strict=True)]
        return [*weighed, self.smoothing * jnp.sqrt(flat), jnp.sqrt(steep)]

    def _corners(
        self, lines: Any, along: Sequence[int], square: Sequence[jax.Array], like: jax.Array
    ) -> Iterator[tuple[tuple[int, ...], jax.Array, jax.Array]]:
        """The corners of all cells of an array, w dV of each and s there, from the squares of slopes."""
        for corner in product((0, 1), repeat=len(along)):
            volume = jnp.asarray(self.weight * lines.corner(dict(zip(along, corner, strict=True))), like.dtype)
            beside = [lines.beside(one, *where) for one, *where in zip(square, along, corner, strict=True)]
            yield corner, volume, jnp.sqrt(sum(beside, start=jnp.full_like(like, self.smoothing**2)))


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
        grid: the grid at whose points m lies, or on its faces (of cells) or midpoints (of nodes), or along its time at
            all levels or at those after the first: sizes tell which. The axes are those of m where it is a DataArray.
            Otherwise they are all of space, those of `axes=` in their order, or all of the grid, the first of these
            that has the axes of `axes=` and fits m's shape; else those that do, if sizes leave no choice; or
        spacing: distances by axis name, dict(x=0.1, y=0.1), or one number. Without both, points are one apart, and
            the integral is a sum.
        prior: what m is expected to be, of m's shape or a number; zero by default. Plain numbers are in the unit of m;
            a quantity or a DataArray with units is converted, and a DataArray with coordinates is taken where it lies.
        of: a function f applied to m first, as jnp.log, to numbers in the unit of m. The prior is one of f(m), whose
            unit is not known: units of a DataArray are not looked at then, and quantities are refused.

    Each value stands for the cell around it, and all cells fill the domain; slopes count between the first value and
    the last, curvatures where there is a value on both sides. Lengths are those of the coordinates, in the units of the
    grid; on curvilinear axes too, where a volume is dr dθ. Source: Tikhonov, Dokl. Akad. Nauk SSSR 151, 501 (1963).

    Raises: DeclarationError for axes that do not fit, and for a prior that measures something else or lies elsewhere.

    >>> float(tikhonov(2.0, "k", order=1, spacing=0.5)(dict(k=jnp.array([0.0, 1.0, 1.0]))))
    2.0
    """
    if isinstance(order, bool) or np.ndim(order) or order not in (0, 1, 2):
        raise DeclarationError(f"fd.tikhonov: order= is 0 (size), 1 (slopes) or 2 (curvatures), got {order!r}.")
    weigh = _check("fd.tikhonov", weight, parameter, of)
    frame = to_frame("fd.tikhonov", axes, grid, spacing)
    if prior is not None:
        _check_prior(prior)
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
    if not is_positive(smoothing):
        raise DeclarationError(f"fd.total_variation: smoothing= is a positive slope, got {smoothing!r}. Take 1e-3.")
    weigh = _check("fd.total_variation", weight, parameter, of)
    frame = to_frame("fd.total_variation", axes, grid, spacing)
    return TotalVariation(weigh, parameter, float(smoothing), frame, of)


def to_terms(given: Any, parameters: Any, labels: Mapping[str, Labels]) -> tuple[AbstractTerm, ...]:
    """The terms of `regularise=`: one or a list of them; functions of the parameters as well. Each is tried.

    `labels` are what each parameter says of itself.
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
            own = labels.get(one.parameter or next(iter(labels)))
            one = replace(one, frame=replace(one.frame, labels=own))
        terms.append(_tried(one if isinstance(one, AbstractTerm) else _own(one), parameters))
    return tuple(terms)


def _own(function: Callable[[Any], Any]) -> Own:
    """A function of the user as a term; whether it gives residuals is not known yet."""
    if not takes(function, 1):
        raise DeclarationError(f"{TERM} takes one argument, the parameters: def term(parameters).")
    return Own(lambda given: check_arrays(jax.tree.map(plain, function(given), is_leaf=is_quantity), TERM), True)


def _tried(term: AbstractTerm, parameters: Any) -> AbstractTerm:
    """A term that gives real numbers, or residuals."""
    try:
        with traced_by_jax(TERM):
            shape = jax.eval_shape(term.residuals, parameters)
    except KeyError:
        check_names(TERM, term.residuals, parameters)
        raise
    leaves = jax.tree.leaves(shape)
    if not leaves or not all(jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves):
        got = ", ".join(str(leaf.dtype) for leaf in leaves) or "nothing"
        raise DeclarationError(f"{TERM} returns {got}; a real scalar, or arrays of residuals, is wanted.")
    if not isinstance(term, Own):
        return term
    scalar = isinstance(shape, jax.ShapeDtypeStruct) and shape.shape == ()
    if scalar and jnp.issubdtype(leaves[0].dtype, jnp.complexfloating):
        raise DeclarationError(f"{TERM} is complex; a loss is a real number: take its abs()**2.")
    return replace(term, gives_residuals=not scalar)


def _check(what: str, weight: Any, parameter: Any, of: Any) -> float:
    if not is_positive(weight):
        raise DeclarationError(f"{what}: a positive weight comes first, got {weight!r}.")
    if parameter is not None and not isinstance(parameter, str):
        raise DeclarationError(f"{what}: the second argument is the name of a parameter, got {parameter!r}.")
    if of is not None and not callable(of):
        raise DeclarationError(f"{what}: of= is a function applied to the parameter, as jnp.log; got {of!r}.")
    return float(weight)


def _check_prior(prior: Any) -> None:
    try:
        dtype = prior.dtype if isinstance(prior, jax.Array | xr.DataArray) else np.asarray(plain(prior)).dtype
    except (TypeError, ValueError):
        dtype = np.dtype(object)
    if not (jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, jnp.bool_)):
        raise DeclarationError(
            f"fd.tikhonov: prior= is a number or an array of them, of the shape of the parameter, got {prior!r}."
        )
    data = prior.data if isinstance(prior, xr.DataArray) else plain(prior)
    wrong: Any = () if isinstance(data, Tracer) else np.argwhere(~np.isfinite(np.asarray(data)))
    if len(wrong):
        where = f", the first at index {tuple(map(int, wrong[0]))}" if np.ndim(data) else ""
        raise DeclarationError(
            f"fd.tikhonov: prior= has {len(wrong)} of {np.size(data)} entries that are not finite{where}. Give what "
            f"the parameter is expected to be at every point."
        )


def _value(term: Tikhonov | TotalVariation, parameters: Any) -> tuple[jax.Array, Frame]:
    """The function of the parameter, and what is known of its axes."""
    tree = by_name(parameters)
    value, leaves = pick(tree, term.parameter), named_leaves(tree)
    frame = term.frame.beside(leaves[term.parameter] if term.parameter else next(iter(leaves.values())))
    array = jnp.asarray(value.data if isinstance(value, xr.DataArray) else value)
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        array = array.astype(jnp.result_type(float))
    return (array if term.of is None else jnp.asarray(term.of(array))), frame


def _factor(given: str, units: str) -> float:
    return conversion(given, {units: 1}, "fd.tikhonov: prior=", "the parameter")


def _square(array: jax.Array) -> jax.Array:
    """|·|², without the kink that |·| has at 0."""
    return array.real**2 + array.imag**2 if jnp.iscomplexobj(array) else array**2
