"""The rate of a conservation law: reconstruction to faces, a numerical flux, and its difference."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from ..errors import DeclarationError
from ..views import AbstractContext, AbstractView, AbstractWorld, Exact, Memo, Shift, move, stored
from ._convection import checked_view
from ._faces import FluxDifference
from ._laws import AbstractConservationLaw, AbstractPrimitiveLaw, State, scalar_law
from ._measured import is_curved
from ._polynomials import correction_weights
from ._reconstruction import (
    HALF,
    TVD,
    AbstractReconstruction,
    along,
    reconstruct,
    weighted,
    widest,
    window,
)
from ._riemann import AbstractRiemannFlux, LaxFriedrichs
from ._values import choose, least, most

_STEEPNESS = 20.0
"""How fast corrections fade out with the jump between the two sides of a face, as a part of that between neighbours."""

_FEW = 4
"""Equations that are sooner computed at each point that reads what they make than stored."""

_LEAST_SHARE = 0.01
"""Densities, pressures and depths below this part of the greatest about a face are reconstructed with order 1."""


@dataclass(frozen=True, eq=False)
class Faces:
    """The faces of an axis: the flux of all quantities at once, and what it needs of the points about it.

    Where the reconstruction is of an order above 2, values are interpolated to the face, and the flux there is
    corrected by central differences of the fluxes at points, so that the difference of two faces is of that order at
    points, along several axes and for nonlinear fluxes too (Jiang, Shu & Zhang, SIAM J. Sci. Comput. 35 (2013)
    A1137).
    """

    law: Any
    state: tuple[AbstractView, ...]
    axis: str
    flux: AbstractRiemannFlux
    reconstruction: AbstractReconstruction
    variables: tuple[AbstractView, ...]
    sides: dict[int, tuple[AbstractView, ...]] = field(default_factory=dict)
    points: list[AbstractView] = field(default_factory=list)
    faces: Memo = field(default_factory=Memo)

    @property
    def context(self) -> AbstractContext:
        return self.state[0].context

    @property
    def number(self) -> int:
        """The number of the axis among those of space."""
        return self.context.grid.space.index(self.axis)

    def at(self, face: Shift) -> State:
        """The flux of each quantity through a face."""
        return self.faces.take(face, lambda: self._make(face))

    def _make(self, face: Shift) -> State:
        schemes = {side: widest(self.reconstruction, self.state, self.axis, face, side) for side in (1, -1)}
        left, right = (self._side(schemes, face, side) for side in (1, -1))
        low, high = self._conserved(left), self._conserved(right)
        found = self.flux.flux(self.law, low, high, self.number)
        reaches = [0 if scheme is None or scheme.order <= 2 else scheme.reach for scheme in schemes.values()]
        uniform = self.context.grid.space_axis(self.axis).uniform and not is_curved(self.state[0], self.axis)
        if min(reaches) < 2 or not uniform:
            return found
        return self._corrected(found, low, high, left, face, min(reaches))

    def _side(self, schemes: Mapping[int, AbstractReconstruction | None], face: Shift, side: int) -> State:
        """The variables at a face seen from one side: from the other, where a wall leaves no point on it."""
        side = side if schemes[side] is not None or schemes[-side] is None else -side
        scheme = schemes[side]
        near = self.beside(face, -side * HALF)
        if scheme is None or scheme.reach == 1:
            return near
        values = tuple(view.value(face) for view in self.sides[side])
        if not isinstance(self.law, AbstractPrimitiveLaw):
            return values
        fine = self._sound(values, face, window(scheme.reach, side))
        return tuple(choose(fine, value, safe) for value, safe in zip(values, near, strict=True))

    def _sound(self, values: State, face: Shift, offsets: Sequence[Fraction]) -> Any:
        """Whether what must be positive is so, at the face and about it, and is nowhere far below its greatest value.

        At the edge of vacuum or of a dry bed a reconstruction would take out more than there is.
        """
        fine: Any = None
        points = [self.law.positive(self.beside(face, offset)) for offset in offsets]
        for value, *about in zip(self.law.positive(values), *points, strict=True):
            floor, top = reduce(least, [value, *about]), reduce(most, about)
            ample = (floor > 0) & (floor > _LEAST_SHARE * top)
            fine = ample if fine is None else fine & ample
        return fine

    def _corrected(self, flux: State, low: State, high: State, variables: State, face: Shift, reach: int) -> State:
        """The flux with its correction, which fades out at jumps: there it would only make waves.

        On smooth fields the two sides of a face differ by less than neighbours do by a factor h⁴ and more. Each
        quantity is judged by its own fluxes f ± αq, α the fastest wave: what hardly varies tells nothing of the rest.
        """
        weights, offsets = correction_weights(reach), [j - reach + HALF for j in range(2 * reach)]
        points = [self._point_flux(along(self.context, face, self.axis, offset)) for offset in offsets]
        fluxes = zip(*points, strict=True)
        values = zip(*[self._conserved(self.beside(face, offset)) for offset in offsets], strict=True)
        law, number = self.law, self.number
        ends = law.flux(low, number), law.flux(high, number)
        alpha = reduce(most, map(abs, (*law.speeds(low, number), *law.speeds(high, number))))
        fine = self._sound(variables, face, offsets) if isinstance(law, AbstractPrimitiveLaw) else None
        found = []
        for f, own, state, *sides in zip(flux, fluxes, values, *ends, low, high, strict=True):
            below, above, lower, upper = sides
            spread = _spread(own) + alpha * _spread(state) + float(jnp.finfo(f.dtype).tiny) ** 0.4
            jumps = (above - below) / spread, alpha * (upper - lower) / spread
            share = 1 / (1 + _STEEPNESS**2 * (jumps[0] ** 2 + jumps[1] ** 2))
            share = share if fine is None else choose(fine, share, 0 * share)
            found.append(f + share * _paired(weights, own))
        return tuple(found)

    def _point_flux(self, point: Shift) -> State:
        return tuple(view.value(point) for view in self.points)

    def beside(self, face: Shift, offset: Fraction) -> State:
        """What is reconstructed, at a point beside a face."""
        place = along(self.context, face, self.axis, offset)
        return tuple(view.value(place) for view in self.variables)

    def _conserved(self, variables: State) -> State:
        return self.law.to_conservative(variables) if isinstance(self.law, AbstractPrimitiveLaw) else variables


def _spread(values: Sequence[Any]) -> Any:
    """Σ |differences| of values along a line, summed from the outer pair inwards, and what is rounding alone: what is
    divided by less would have a derivative that is none."""
    steps, middle = [abs(b - a) for a, b in pairwise(values)], len(values) // 2
    found = reduce(lambda a, b: a + b, [steps[k] + steps[-1 - k] for k in range(middle - 1)], steps[middle - 1])
    size = abs(values[middle - 1]) + abs(values[middle])
    return found + float(jnp.finfo(found.dtype).eps) ** 0.5 * size


def _paired(weights: Sequence[float], values: Sequence[Any]) -> Any:
    """Σ w v with symmetric weights, summed from the outer pair inwards, so that a mirrored row has the same sum."""
    count = len(weights) // 2
    return weighted(weights[:count], [values[n] + values[-1 - n] for n in range(count)])


@dataclass(frozen=True, eq=False, repr=False)
class PointValue(AbstractView):
    """One of several values that a function makes of the state at a point: a primitive variable, a flux."""

    function: Callable[[State], State]
    state: tuple[AbstractView, ...]
    component: int
    name: str

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.state[0].context

    def value(self, shift: Shift) -> jax.Array:
        state = tuple(view.value(shift) for view in self.state)
        found = self.function(state)[self.component]
        return jnp.asarray(found, jnp.result_type(found, *state))  # of a flux that does not depend on it, too

    def parity(self, axis: str) -> int | None:
        return self.state[0].parity(axis)

    def __repr__(self) -> str:
        return f"{self.name} {self.component + 1}"


@dataclass(frozen=True, eq=False, repr=False)
class SideValue(AbstractView):
    """One variable at the faces of an axis as reconstructed from one side, 1 the lower and −1 the upper."""

    faces: Faces
    state: tuple[AbstractView, ...]
    component: int
    side: int

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.state[0].context

    def value(self, shift: Shift) -> jax.Array:
        faces, side = self.faces, self.side
        scheme = widest(faces.reconstruction, self.state, faces.axis, shift, side)
        if scheme is None:  # a wall leaves no point on this side, and the flux takes the other
            return faces.beside(shift, side * HALF)[self.component]

        def read(offset: Fraction) -> Any:
            return faces.beside(shift, offset)[self.component]

        return reconstruct(scheme, self.context, faces.axis, shift, side, read, False)

    def parity(self, axis: str) -> int | None:
        return face_parity(self.state[self.component], self.faces.axis, axis)

    def __repr__(self) -> str:
        return f"side {self.side} of {self.state[self.component]} along {self.faces.axis}"


def face_parity(view: AbstractView, along_axis: str, axis: str) -> int | None:
    """The parity on an axis of the faces between the points of a view along one."""
    own = view.parity(axis)
    return 1 - own if axis == along_axis and own is not None else own


@dataclass(frozen=True, eq=False, repr=False)
class LawFlux(AbstractView):
    """The flux of one quantity of a law through the faces of an axis."""

    faces: Faces
    state: tuple[AbstractView, ...]
    component: int

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.state[0].context

    def value(self, shift: Shift) -> jax.Array:
        return self.faces.at(shift)[self.component]

    def exact(self, world: AbstractWorld) -> Exact:
        law, number = self.faces.law, self.faces.number
        parts = [view.exact(world) for view in self.state]
        return lambda point: law.flux(tuple(part(point) for part in parts), number)[self.component]

    def parity(self, axis: str) -> int | None:
        return face_parity(self.state[self.component], self.faces.axis, axis)

    def __repr__(self) -> str:
        return f"flux of {self.state[self.component]} along {self.faces.axis}"


def conservation(law: Any, state: Any, *, flux: Any = None, reconstruction: Any = None, at: Any = None) -> Any:
    """−∇·F(q), the rate of a conservation law ∂q/∂t + ∇·F(q) = 0, by fluxes through faces.

    `u[...] = fd.rate(lambda u: fd.schemes.conservation(lambda u: u**2 / 2, u))`
    `fd.together(h, q)[...] = fd.rate(lambda h, q: fd.schemes.conservation(ShallowWater(9.81), (h, q), flux=HLL()))`

    Arguments: `law`, an `AbstractConservationLaw` such as `IdealGas(1.4)` or `ShallowWater(9.81)`, or for a single
    quantity the function f(u) of its flux, one an axis as a tuple or dict. `state`: the view of the quantity, or a
    tuple of one view a quantity in the order of the law. `flux`: `LaxFriedrichs()` (default), `HLL()`, `HLLC()`,
    `Roe()`, `Godunov(critical)`. `reconstruction`: `Upwind(1 | 3 | 5)`, `TVD(limiter)` (default, van Leer's), `WENO5()`
    and kin; of primitive variables where the law has them, with the value of the point beside the face at the edge of
    vacuum and dry beds.

    Returns: a view, or a tuple of views in the order of the state. Order at points: that of the reconstruction on
    uniform axes (1 and 2 for `Upwind(1)` and `TVD`), 2 at most along radii and colatitudes: there, and along angles,
    fluxes (physical components) cross the exact faces of cells, and laws are those of scalars. What leaves one point
    enters the next. Near walls without ghost values the reconstruction becomes narrower, and at the wall the value
    comes from within: an outflow. Good values: `HLLC()` with `TVD(mc)` or `WENO5()`, `SSPRK3`, Courant number 0.4.
    Raises: DeclarationError.
    """
    views = (state,) if not isinstance(state, tuple | list) else tuple(state)
    views = tuple(move(checked_view(view, "conservation"), at) for view in views)
    if not views:
        raise DeclarationError("conservation(law, state): the state is empty; give one view a quantity.")
    context = views[0].context
    flux = LaxFriedrichs() if flux is None else flux
    reconstruction = TVD() if reconstruction is None else reconstruction
    found = _checked_law(law, views, context)
    _check_choices(found, flux, reconstruction, context)
    _check_places(views, context)
    _note_captured(found, context, len(views))
    space = context.grid.space
    variables = views
    if isinstance(found, AbstractPrimitiveLaw):
        variables = _point_values(found.to_primitive, views, "variable")
    faces = [Faces(found, views, axis, flux, reconstruction, variables) for axis in space]
    for one in faces:
        if reconstruction.order > 2:
            law_flux = partial(found.flux, axis=one.number)
            name = f"flux along {one.axis} at points"
            one.points.extend(_point_values(law_flux, views, name))
        for side in (1, -1):
            one.sides[side] = tuple(stored(SideValue(one, views, n, side)) for n in range(len(views)))
    rates = tuple(
        -FluxDifference(view, space, tuple(stored(LawFlux(one, views, n)) for one in faces))
        for n, view in enumerate(views)
    )
    return rates if isinstance(state, tuple | list) else rates[0]


def _point_values(function: Callable[[State], State], state: tuple[AbstractView, ...], name: str) -> State:
    """What a function makes of the state at a point, as views: those of the state where it hands them on, stored ones
    where computing them again at each point that reads them takes longer than reading them."""
    closed = jax.make_jaxpr(lambda *values: function(values))(*[jnp.zeros((), float)] * len(state))
    jaxpr, found = closed.jaxpr, []
    for n, result in enumerate(jaxpr.outvars):
        if result in jaxpr.invars:
            found.append(state[jaxpr.invars.index(result)])
            continue
        view = PointValue(function, state, n, name)
        few = len(state) == 1 and len(jaxpr.eqns) <= _FEW
        found.append(view if few else stored(view))
    return tuple(found)


def _checked_law(law: Any, views: tuple[AbstractView, ...], context: AbstractContext) -> AbstractConservationLaw:
    space = context.grid.space
    found = law if isinstance(law, AbstractConservationLaw) else scalar_law(law, space)
    if found is None:
        raise DeclarationError(
            f"{context.what}: conservation: the law is fd.schemes.IdealGas(…), ShallowWater(…), one of your own, or "
            f"the flux function of a single quantity, one for each of the axes {', '.join(space)}; got "
            f"{'a dict of ' + ', '.join(map(str, law)) if isinstance(law, Mapping) else type(law).__name__}."
        )
    names = found.names(len(space))
    if len(names) != len(views):
        raise DeclarationError(
            f"{context.what}: conservation: {type(found).__name__} on {len(space)} "
            f"ax{'is' if len(space) == 1 else 'es'} conserves {len(names)} quantities ({', '.join(names)}); got "
            f"{len(views)} view{'s' * (len(views) > 1)}."
        )
    _check_turning(found, context)
    return found


def _check_turning(law: AbstractConservationLaw, context: AbstractContext) -> None:
    """Refuses vectors on curvilinear axes: the terms by which their components turn into each other are no fluxes."""
    for axis in context.grid.space:
        metric = context.grid.space_axis(axis).metric
        if metric is not None and not law.scalars:
            raise DeclarationError(
                f"{context.what}: conservation: {type(law).__name__} is not known to be of scalars alone, and axis "
                f'`{axis}` has the metric "{metric}", along which the components of vectors turn. Use straight axes; '
                f"in a law of your own whose quantities are scalars, set `scalars = True`."
            )


def _check_choices(law: Any, flux: Any, reconstruction: Any, context: AbstractContext) -> None:
    if not isinstance(flux, AbstractRiemannFlux):
        raise DeclarationError(
            f"{context.what}: conservation(…, flux={flux!r}): wanted fd.schemes.LaxFriedrichs(), HLL(), HLLC(), Roe() "
            f"or Godunov(critical)."
        )
    if not isinstance(law, flux.wants):
        raise DeclarationError(
            f"{context.what}: the flux {flux} is for an {flux.wants.__name__}, got {type(law).__name__}. "
            f"Use fd.schemes.HLL() or fd.schemes.LaxFriedrichs(), which serve every law."
        )
    if not isinstance(reconstruction, AbstractReconstruction):
        raise DeclarationError(
            f"{context.what}: conservation(…, reconstruction={reconstruction!r}): wanted fd.schemes.Upwind(1), "
            f"fd.schemes.TVD(fd.schemes.van_leer), fd.schemes.WENO5() or the like."
        )


def _check_places(views: tuple[AbstractView, ...], context: AbstractContext) -> None:
    for axis in context.grid.space:
        found = {view.parity(axis) for view in views}
        if len(found) > 1:
            raise DeclarationError(
                f"{context.what}: conservation: {', '.join(map(str, views))} live at different places of axis "
                f"`{axis}`; the quantities of a law share their points. Declare the fields without `at=`."
            )


def _note_captured(law: AbstractConservationLaw, context: AbstractContext, count: int) -> None:
    """Tells what traced values the law uses besides the state: they must be the same at every point."""
    probe = [jnp.zeros((), float)] * count
    for axis in range(len(context.grid.space)):
        closed = jax.make_jaxpr(lambda *state, axis=axis: law.flux(state, axis))(*probe)
        for value in closed.consts:
            if isinstance(value, Tracer):
                context.note_shifted_constant(value)
