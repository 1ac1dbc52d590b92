"""Convection of a quantity by a velocity: ∇·(c u) through fluxes at faces, and c·∇u by upwind differences."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError
from ..views import AbstractContext, AbstractView, AbstractWorld, Exact, Shift, exact_part, move
from ._faces import FluxDifference, at_place, face_velocity, known_sign, pick_upwind
from ._measured import is_curved, scaled
from ._onestep import LaxWendroff, OneStepFlux
from ._reconstruction import TVD, AbstractReconstruction, Upwind, along, reconstruct, times, weighted, widest


@dataclass(frozen=True, eq=False, repr=False)
class ConvectiveFlux(AbstractView):
    """The flux c u through the faces of an axis, u (or c u, where c lives at the points of u) taken from upwind."""

    velocity: Any
    view: AbstractView
    axis: str
    scheme: AbstractReconstruction

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        velocity = face_velocity(self.velocity, self.view, self.axis, shift)
        lower, upper = self._sides(shift, known_sign(velocity))
        carried = pick_upwind(velocity, lower, upper)
        return carried if self._at_points() else times(velocity, carried)

    def _sides(self, face: Shift, sign: int | None) -> tuple[Any, Any]:
        """The values seen from both sides; one for both where the sign is known or a wall leaves but one."""
        views = [part for part in (self.view, self.velocity) if isinstance(part, AbstractView)]
        found: dict[int, Any] = {}
        for side in (1, -1) if sign is None else (sign,):
            scheme = widest(self.scheme, views, self.axis, face, side)
            if scheme is not None:
                found[side] = reconstruct(
                    scheme,
                    self.context,
                    self.axis,
                    face,
                    side,
                    lambda offset: self._read(face, offset),
                    not is_curved(self.view, self.axis),
                )
        if not found:  # the read beyond the wall says what is missing
            found[1] = self._read(face, Fraction(1, 2) if sign == -1 else Fraction(-1, 2))
        one = next(iter(found.values()))
        return found.get(1, one), found.get(-1, one)

    def _read(self, face: Shift, offset: Fraction) -> Any:
        place = along(self.context, face, self.axis, offset)
        value = self.view.value(place)
        return times(at_place(self.velocity, place), value) if self._at_points() else value

    def _at_points(self) -> bool:
        """Whether c u is taken at points: where c lives there along this axis, and no pole may turn its sign."""
        if not isinstance(self.velocity, AbstractView) or is_curved(self.view, self.axis):
            return False
        own = self.velocity.parity(self.axis)
        return own is None or own == self.view.parity(self.axis)

    def exact(self, world: AbstractWorld) -> Exact:
        velocity, inner = exact_part(self.velocity, world), self.view.exact(world)
        return lambda point: times(velocity(point), inner(point))

    def parity(self, axis: str) -> int | None:
        own = self.view.parity(axis)
        return 1 - own if axis == self.axis and own is not None else own

    def __repr__(self) -> str:
        return f"flux of {self.view} along {self.axis} by {self.scheme}"


@dataclass(frozen=True, eq=False, repr=False)
class UpwindDerivative(AbstractView):
    """c ∂u/∂axis by differences biased against the velocity at the point."""

    velocity: Any
    view: AbstractView
    axis: str
    scheme: Upwind

    @property
    def context(self) -> AbstractContext:  # type: ignore[override]
        return self.view.context

    def value(self, shift: Shift) -> jax.Array:
        velocity = face_velocity(self.velocity, self.view, self.axis, shift)
        sign = known_sign(velocity)
        found = {side: self._slope(shift, side) for side in ((1, -1) if sign is None else (sign,))}
        found = {side: slope for side, slope in found.items() if slope is not None}
        if not found:
            found[1] = self._difference(Upwind(1), shift, sign or 1)
        one = next(iter(found.values()))
        return times(velocity, pick_upwind(velocity, found.get(1, one), found.get(-1, one)))

    def _slope(self, shift: Shift, side: int) -> Any:
        """∂u/∂axis from one side, narrower near walls without ghost values; None where they leave no point."""
        # The points of a difference about a point are those of a face half a step downwind of it, and one more upwind.
        face = along(self.context, shift, self.axis, Fraction(-side, 2))
        first = widest(self.scheme, [self.view], self.axis, face, side)
        second = widest(self.scheme, [self.view], self.axis, along(self.context, face, self.axis, Fraction(side)), side)
        if first is None or second is None:
            return None
        narrow = min(first, second, key=lambda one: one.order)
        assert isinstance(narrow, Upwind)
        return self._difference(narrow, shift, side)

    def _difference(self, scheme: Upwind, shift: Shift, side: int) -> Any:
        offsets = tuple(range(-scheme.reach, scheme.order - scheme.reach + 1))  # for a positive velocity
        ascending = tuple(sorted(float(side * o) for o in offsets))
        weights = [
            self.context.read_weight(self.axis, 1, ascending, ascending.index(float(side * o)), shift) for o in offsets
        ]
        values = [self.view.value(along(self.context, shift, self.axis, Fraction(side * o))) for o in offsets]
        return weighted(weights, values)

    def exact(self, world: AbstractWorld) -> Exact:
        velocity, slope = exact_part(self.velocity, world), world.derivative(self.view.exact(world), self.axis)
        return lambda point: times(velocity(point), slope(point))

    def parity(self, axis: str) -> int | None:
        return self.view.parity(axis)

    def __repr__(self) -> str:
        return f"upwind({self.velocity}, {self.view}, {self.axis})"


def convection(velocity: Any, view: Any, *, scheme: Any = None, at: Any = None) -> AbstractView:
    """∇·(c u) in conservative form: Σ (F[+1/2] − F[−1/2])/Δx with fluxes F through faces, positive outwards.

    `u[...] = fd.rate(lambda u, c: -fd.schemes.convection(c, u, scheme=fd.schemes.WENO5()))`

    Arguments: `velocity` c, a number or view on a grid of one space axis, else one a space axis as a tuple in grid
    order or a dict by axis (an axis left out: none); where it is a number or lives at the points of u the order at
    points is that of the scheme; where it lives on faces, u is taken at faces, uniform u stays uniform in a flow free
    of divergence, and the order is 2. `scheme`: `Upwind(1 | 3 | 5)`, `TVD(limiter)` (default, van Leer's), `WENO5()`
    and kin, for rates; `LaxWendroff()` and `TVD(limiter)` for plain rules, with `at="t-1"`. `at` reads an older
    level or another place. On curvilinear axes c are physical components, fluxes cross the exact faces of cells, and
    along radii and colatitudes the order is 2; schemes of the whole time step are for straight axes.

    Near walls that supply no ghost values the scheme becomes narrower (the plan notes it); at the wall itself the
    value comes from within, as is right for an outflow. Units: those of c u over length. Raises: DeclarationError.
    """
    view = checked_view(view, "convection")
    scheme = TVD() if scheme is None else scheme
    velocities = {
        axis: move(c, at) if isinstance(c, AbstractView) else c
        for axis, c in _by_axis(velocity, view, "convection").items()
    }
    view = move(view, at)
    one_step = _one_step(scheme, view.context, velocities)
    if one_step is not None:
        _check_straight(velocities, view, scheme)
        fluxes = [OneStepFlux(velocities, view, axis, one_step.limiter) for axis in velocities]
    elif isinstance(scheme, AbstractReconstruction):
        fluxes = [ConvectiveFlux(c, view, axis, scheme) for axis, c in velocities.items()]
    else:
        raise DeclarationError(
            f"{view.context.what}: convection(…, scheme={scheme!r}): wanted a scheme such as fd.schemes.Upwind(3), "
            f"fd.schemes.TVD(fd.schemes.van_leer), fd.schemes.WENO5() or fd.schemes.LaxWendroff()."
        )
    return FluxDifference(view, tuple(velocities), tuple(fluxes))


def _one_step(scheme: Any, context: AbstractContext, velocities: Mapping[str, Any]) -> LaxWendroff | None:
    """What a scheme is when it takes the whole time step itself; None where its fluxes are those of an instant."""
    stage = context.stage
    if isinstance(scheme, LaxWendroff) and stage:
        raise DeclarationError(
            f"{context.what}: LaxWendroff() takes the whole time step, so it belongs in a plain rule: "
            f'lambda u, c, dt: u["t-1"] - dt * convection(c, u, scheme=LaxWendroff(), at="t-1")[...]. In a rate use '
            f"TVD(limiter), Upwind(3) or WENO5()."
        )
    if isinstance(scheme, LaxWendroff):
        return scheme
    if not isinstance(scheme, TVD) or stage or context.grid.time is None:
        return None
    if len(velocities) > 1:
        raise DeclarationError(
            f"{context.what}: TVD in a plain rule is the one-step flux of a velocity along one axis, got "
            f"{', '.join(velocities)}. Write a rate, `fd.rate(lambda u: -convection(…))`, or one rule an axis in turn."
        )
    return LaxWendroff(scheme.limiter)


def _check_straight(axes: Iterable[str], view: AbstractView, scheme: Any) -> None:
    for axis in axes:
        metric = view.context.grid.space_axis(axis).metric
        if metric is not None:
            raise DeclarationError(
                f"{view.context.what}: convection(…, scheme={scheme!r}) in a plain rule takes steps along straight "
                f'axes, and axis `{axis}` has the metric "{metric}". Write a rate, `fd.rate(lambda u: '
                f"-convection(…))`, with TVD(limiter), Upwind(3) or WENO5()."
            )


def upwind(velocity: Any, view: Any, *, order: Any = 1, at: Any = None) -> AbstractView:
    """c·∇u by one-sided differences of order 1, 3 or 5, biased against the sign of c at the point.

    `u[...] = fd.rate(lambda u, c: -fd.schemes.upwind(c, u, order=3))`

    Arguments: `velocity` as in `convection`, taken at the point (averaged there from faces). On curvilinear axes
    Σ cᵢ/hᵢ ∂u/∂qᵢ. Not conservative; uniform u stays uniform. Leading errors for order 1, 3, 5: |c|h u″/2,
    |c|h³u⁗/12, |c|h⁵∂⁶u/60 (damping). Good values: 1 with `Euler`, 3 or 5 with `SSPRK3` or `RK4`. Near walls without
    ghost values the order drops.
    Source: Leonard, Comput. Methods Appl. Mech. Eng. 19 (1979) 59.
    """
    view = checked_view(view, "upwind")
    scheme = Upwind(order)
    velocities = _by_axis(velocity, view, "upwind")
    view = move(view, at)
    terms = [
        scaled(
            UpwindDerivative(move(c, at) if isinstance(c, AbstractView) else c, view, axis, scheme),
            axis,
            "inverse scale",
        )
        for axis, c in velocities.items()
    ]
    return sum(terms[1:], terms[0])


def _by_axis(velocity: Any, view: AbstractView, operator: str) -> dict[str, Any]:
    """One velocity a space axis, by name."""
    space, what = view.context.grid.space, view.context.what
    if isinstance(velocity, Mapping):
        unknown = [str(name) for name in velocity if name not in space]
        if unknown or not velocity:
            raise DeclarationError(
                f"{what}: {operator}: the velocity is given for {', '.join(unknown) or 'no axis'}; the space axes are "
                f"{', '.join(space)}."
            )
        found = {axis: velocity[axis] for axis in space if axis in velocity}
    else:
        parts = list(velocity) if isinstance(velocity, Sequence) and not isinstance(velocity, str) else [velocity]
        if len(parts) != len(space):
            raise DeclarationError(
                f"{what}: {operator}: the velocity has {len(parts)} component{'s' * (len(parts) > 1)} for the space "
                f"axes {', '.join(space)}; give one an axis, as a tuple or as dict({space[0]}=…)."
            )
        found = dict(zip(space, parts, strict=True))
    for axis, part in found.items():
        if isinstance(part, AbstractView):
            continue
        number = isinstance(part, int | float | jax.Array | np.generic | np.ndarray)
        if not number or jnp.ndim(part) or isinstance(part, bool):
            raise DeclarationError(
                f"{what}: {operator}: the velocity along `{axis}` is a number or a view of a field or labelled "
                f"parameter, got {type(part).__name__}{f' of shape {jnp.shape(part)}' if number else ''}."
            )
        if not isinstance(part, jax.Array):
            found[axis] = float(part)
    return found


def checked_view(view: Any, operator: str) -> AbstractView:
    """A view, or an error that says how to pass one."""
    if not isinstance(view, AbstractView):
        got = "a value, as `u[...]` is" if isinstance(view, jax.Array | int | float) else type(view).__name__
        raise DeclarationError(
            f"{operator} takes a view (a field's name among the rule's arguments, or arithmetic on such), got {got}. "
            f"Inside a rule write {operator}(…, u)."
        )
    return view
