"""The equations, each one scalar rule of readers: `u(0, 1)` is the value one point further along the second axis.

A reader gives whatever a contestant computes with: text, slices of an array, symbols.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

Reader = Callable[..., Any]
WEIGHTS = {
    2: (-2.0, 1.0),
    4: (-5 / 2, 4 / 3, -1 / 12),
    8: (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560),
}
"""Central weights of ∂²/∂x² by order, from the middle outwards."""


class AbstractEquation(Protocol):
    """One explicit step in `rank` dimensions; a frame of `reach` points keeps its first values, `edges`."""

    rank: int
    reach: int
    fields: ClassVar[tuple[str, ...]]
    edges: ClassVar[tuple[float, ...]]
    num_coefficients: ClassVar[int]
    two_levels: ClassVar[bool]

    @abstractmethod
    def step(self, *readers: Reader) -> tuple[Any, ...]:
        """The new value of each field, from readers of the fields, of their older level and of the coefficients."""

    @property
    def words(self) -> int:
        """Numbers a point that a step must move: every field read and written, older levels and coefficients read."""
        return len(self.fields) * (3 if self.two_levels else 2) + self.num_coefficients


@dataclass(frozen=True)
class Heat(AbstractEquation):
    """u' = u + k ∇²u, the three-, five- or seven-point stencil, between cold walls."""

    rank: int
    reach: int = 1
    fields = ("u",)
    edges = (0.0,)
    num_coefficients = 0
    two_levels = False
    k: ClassVar[float] = 0.1

    def step(self, *readers: Reader) -> tuple[Any, ...]:
        (u,) = readers
        return (u(*(0,) * self.rank) + self.k * laplacian(u, self.rank, 2),)


@dataclass(frozen=True)
class VariableHeat(AbstractEquation):
    """u' = u + ∇·(κ ∇u) in flux form, κ at the faces the mean of its neighbours (κ holds Δt/2Δx²)."""

    rank: int = 2
    reach: int = 1
    fields = ("u",)
    edges = (0.0,)
    num_coefficients = 1
    two_levels = False

    def step(self, *readers: Reader) -> tuple[Any, ...]:
        u, kappa = readers
        here, ours = u(0, 0), kappa(0, 0)
        flux = sum_of([(kappa(*to) + ours) * (u(*to) - here) for to in ((-1, 0), (1, 0), (0, -1), (0, 1))])
        return (here + flux,)


@dataclass(frozen=True)
class Acoustic(AbstractEquation):
    """u' = 2u − u₋₁ + m ∇²u with m = c²Δt²/Δx² at every point, ∇² of an even order."""

    rank: int
    order: int
    fields = ("u",)
    edges = (0.0,)
    num_coefficients = 1
    two_levels = True

    @property
    def reach(self) -> int:  # type: ignore[override]
        """Half the order."""
        return self.order // 2

    def step(self, *readers: Reader) -> tuple[Any, ...]:
        u, older, m = readers
        here = (0,) * self.rank
        return (2.0 * u(*here) - older(*here) + m(*here) * laplacian(u, self.rank, self.order),)


@dataclass(frozen=True)
class Burgers(AbstractEquation):
    """u' = u − r u (∂ₓu + ∂ᵧu) + ν ∇²u, central differences: r = Δt/2Δx, ν = νΔt/Δx²."""

    rank: int = 2
    reach: int = 1
    fields = ("u",)
    edges = (0.0,)
    num_coefficients = 0
    two_levels = False
    r: ClassVar[float] = 0.05
    nu: ClassVar[float] = 0.1

    def step(self, *readers: Reader) -> tuple[Any, ...]:
        (u,) = readers
        slope = (u(1, 0) - u(-1, 0)) + (u(0, 1) - u(0, -1))
        return (u(0, 0) - self.r * (u(0, 0) * slope) + self.nu * laplacian(u, 2, 2),)


@dataclass(frozen=True)
class GrayScott(AbstractEquation):
    """Gray and Scott's reaction and diffusion of two substances, forward Euler (Pearson, Science 261, 1993)."""

    rank: int = 2
    reach: int = 1
    fields = ("u", "v")
    edges = (1.0, 0.0)
    num_coefficients = 0
    two_levels = False
    du: ClassVar[float] = 0.16
    dv: ClassVar[float] = 0.08
    feed: ClassVar[float] = 0.035
    kill: ClassVar[float] = 0.065

    def step(self, *readers: Reader) -> tuple[Any, ...]:
        u, v = readers
        a, b = u(0, 0), v(0, 0)
        react = a * b * b
        first = a + (self.du * laplacian(u, 2, 2) - react + self.feed * (1.0 - a))
        return first, b + (self.dv * laplacian(v, 2, 2) + react - (self.feed + self.kill) * b)


def laplacian(u: Reader, rank: int, order: int) -> Any:
    """Δx² ∇²u of an even order."""
    weights = WEIGHTS[order]
    total = rank * weights[0] * u(*(0,) * rank)
    for k in range(1, order // 2 + 1):
        around = [u(*(side * k * (axis == other) for other in range(rank))) for axis in range(rank) for side in (-1, 1)]
        ring = sum_of(around)
        total = total + (ring if weights[k] == 1.0 else weights[k] * ring)
    return total


def sum_of(terms: list[Any]) -> Any:
    """The sum, without a zero to begin with."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
