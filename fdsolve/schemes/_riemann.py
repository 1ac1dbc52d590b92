"""Numerical fluxes: what passes a face between two states."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax.numpy as jnp

from ..errors import DeclarationError
from ._faces import pick_upwind
from ._laws import AbstractConservationLaw, AbstractContactLaw, AbstractRoeLaw, ScalarLaw, State
from ._values import choose, least, most, safe_divide


class AbstractRiemannFlux(ABC):
    """A flux from the states on both sides of a face: consistent, and the same read from either side."""

    @property
    @abstractmethod
    def wants(self) -> type[AbstractConservationLaw]:
        """The kind of law it is for."""

    @abstractmethod
    def flux(self, law: Any, left: State, right: State, axis: int) -> State:
        """The flux of each quantity from `left`, on the lower side, to `right`."""


@dataclass(frozen=True)
class LaxFriedrichs(AbstractRiemannFlux):
    """The local Lax–Friedrichs (Rusanov) flux, F = ½(F_L + F_R) − ½ α(q_R − q_L), α the greatest wave speed of both.

    For f(u) the speed of the jump counts too. For every law; the most robust and diffusive. Good with `WENO5()`, where
    its diffusion hardly counts.
    Source: Rusanov, J. Comput. Math. Phys. USSR 1 (1961) 267.
    """

    @property
    def wants(self) -> type[AbstractConservationLaw]:
        return AbstractConservationLaw

    def flux(self, law: Any, left: State, right: State, axis: int) -> State:
        if isinstance(law, ScalarLaw):  # of an f that is neither convex nor concave the jump may be the fastest
            speeds = law.bounds(left, right, axis)
        else:
            speeds = (*law.speeds(left, axis), *law.speeds(right, axis))
        alpha = reduce(most, map(abs, speeds))
        ends = zip(law.flux(left, axis), law.flux(right, axis), left, right, strict=True)
        return tuple(0.5 * (f + g) - 0.5 * alpha * (b - a) for f, g, a, b in ends)


@dataclass(frozen=True)
class HLL(AbstractRiemannFlux):
    """The flux of Harten, Lax & van Leer, SIAM Rev. 25 (1983) 35: one state between the slowest and the fastest wave.

    Speeds by Einfeldt where the law has Roe's linearisation, else the extremes of both sides (Davis 1988). Keeps
    density, pressure and depth positive with `Upwind(1)` and a Courant number of at most ½ a Euler step; robust at
    vacuum and dry beds. Smears contacts: see `HLLC`.
    """

    @property
    def wants(self) -> type[AbstractConservationLaw]:
        return AbstractConservationLaw

    def flux(self, law: Any, left: State, right: State, axis: int) -> State:
        slowest, fastest = _bounds(law, left, right, axis)
        low, high = least(slowest, 0 * slowest), most(fastest, 0 * fastest)
        width = high - low
        share = choose(width == 0, 0.5 + 0 * width, safe_divide(high, width))
        other = choose(width == 0, 0.5 + 0 * width, safe_divide(-low, width))
        ends = zip(law.flux(left, axis), law.flux(right, axis), left, right, strict=True)
        return tuple(share * f + other * g + share * low * (b - a) for f, g, a, b in ends)


@dataclass(frozen=True)
class HLLC(AbstractRiemannFlux):
    """HLL with the contact restored (Toro, Spruce & Speares, Shock Waves 4 (1994) 25): the everyday choice for systems.

    Resolves contacts and shear exactly; positive as `HLL` is. Speeds by Einfeldt.
    """

    @property
    def wants(self) -> type[AbstractConservationLaw]:
        return AbstractContactLaw

    def flux(self, law: Any, left: State, right: State, axis: int) -> State:
        slowest, fastest = law.bounds(left, right, axis)
        middle, low, high = law.contact(left, right, slowest, fastest, axis)
        below, above = law.flux(left, axis), law.flux(right, axis)
        lower = [f + slowest * (star - q) for f, star, q in zip(below, low, left, strict=True)]
        upper = [g + fastest * (star - q) for g, star, q in zip(above, high, right, strict=True)]
        # A contact at rest takes the mean of both sides, so that mirrored states give mirrored fluxes.
        between = [pick_upwind(middle, a, b) for a, b in zip(lower, upper, strict=True)]
        return tuple(
            choose(slowest >= 0, f, choose(fastest <= 0, g, star))
            for f, g, star in zip(below, above, between, strict=True)
        )


@dataclass(frozen=True)
class Roe(AbstractRiemannFlux):
    """Roe's flux, F = ½(F_L + F_R) − ½ Σ |λ| W, with the entropy fix of Harten & Hyman.

    Exact for a single shock or contact; not for vacuum and dry beds, nor strong rarefactions, where `HLLC` is safer.
    Sources: Roe, J. Comput. Phys. 43 (1981) 357; Harten & Hyman, J. Comput. Phys. 50 (1983) 235.
    """

    @property
    def wants(self) -> type[AbstractConservationLaw]:
        return AbstractRoeLaw

    def flux(self, law: Any, left: State, right: State, axis: int) -> State:
        total = [f + g for f, g in zip(law.flux(left, axis), law.flux(right, axis), strict=True)]
        for wave in law.waves(left, right, axis):
            size = abs(wave.speed)
            if wave.left is not None:
                width = most(wave.speed - wave.left, wave.right - wave.speed)
                fixed = 0.5 * (safe_divide(wave.speed * wave.speed, width) + width)
                size = choose(size < width, fixed, size)
            total = [f - size * jump for f, jump in zip(total, wave.jump, strict=True)]
        return tuple(0.5 * f for f in total)


@dataclass(frozen=True)
class Godunov(AbstractRiemannFlux):
    """Godunov's flux of a scalar law: the least f between rising states, the greatest between falling ones.

    `critical`: where f′ = 0, all of them: (0.0,) for u²/2, (0.5,) for u(1 − u), () for a monotone f. Exact then,
    for f that are neither convex nor concave too. Source: Osher, SIAM J. Numer. Anal. 21 (1984) 217.
    """

    critical: Any = ()

    def __post_init__(self) -> None:
        points = self.critical
        if not isinstance(points, tuple) or not all(isinstance(p, int | float) for p in points):
            raise DeclarationError(
                f"Godunov(critical) takes the places where f′ = 0 as a tuple, such as (0.0,); got {points!r}."
            )

    @property
    def wants(self) -> type[AbstractConservationLaw]:
        return ScalarLaw

    def flux(self, law: Any, left: State, right: State, axis: int) -> State:
        (low,), (high,) = left, right
        lower, upper = least(low, high), most(low, high)
        values = [law.flux(state, axis)[0] for state in (left, right)]
        floor, top = least(*values), most(*values)
        steady: Any = True
        for point in self.critical:
            steady = steady & ~((lower < point) & (point < upper))
            inside = jnp.clip(jnp.asarray(point, low.dtype), lower, upper)
            value = law.flux((inside,), axis)[0]
            floor, top = least(floor, value), most(top, value)
        # Where f′ has one sign between both, f is that of one of them: so is its derivative, of equal states too.
        one_way = choose(law.slope(0.5 * (low + high), axis) >= 0, *values)
        return (choose(steady, one_way, choose(low <= high, floor, top)),)


def _bounds(law: Any, left: State, right: State, axis: int) -> tuple[Any, Any]:
    if isinstance(law, AbstractRoeLaw):
        return law.bounds(left, right, axis)
    (low, high), (other_low, other_high) = law.speeds(left, axis), law.speeds(right, axis)
    return least(low, other_low), most(high, other_high)
