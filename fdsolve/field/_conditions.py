"""What a boundary condition is: what it knows of a wall, and what it gives the points on and beyond it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar

import jax
import numpy as np


class Use(Enum):
    """How rules use the ghost values of a field: what decides which extrapolations are stable."""

    DIFFUSION = "diffusion"
    """Even derivatives in the field's own real first-order rate: u_t = u_xx."""
    WAVE = "waves"
    """Even derivatives that must keep real eigenvalues (u_tt = u_xx, i u_t = u_xx), or half-step differences."""
    ADVECTION = "advection"
    """Odd derivatives between points: u_t + c u_x = 0."""


@dataclass(frozen=True)
class Normal:
    """Stands for the outward direction of the wall in the arguments of a condition's rule; there is one, `normal`."""

    def __repr__(self) -> str:
        return "fd.boundary.normal"


normal = Normal()
"""The outward axis direction at a wall: give it as a default, and the argument is a tuple of −1, 0 and 1.

`Neumann(lambda x, y, n=fd.boundary.normal: n[0] * gx(x, y) + n[1] * gy(x, y))` prescribes the normal part of a
vector on every wall, and on every face of a hole. One number a space axis, in grid order.
"""


class AbstractWall(ABC):
    """One ghost point and the line of points behind it, as a boundary condition sees them.

    `layer` is k ≥ 1. `on_point` says whether the field has a point on the wall. Distances are along the outward normal,
    in the units of the axis: across an angle in radians, and coefficients whose dimension has a length are told in them
    (`straight` is false there). Points are counted inwards: 0 is the one on the wall, or the one next to it, and −k is
    the ghost point of layer k.
    """

    layer: int
    on_point: bool
    use: Use
    straight: bool = True
    paired: bool = False
    """Whether a field that has a point on the wall shares its condition: the two are staggered about each other."""

    @abstractmethod
    def interior(self, index: int, back: int = 0) -> jax.Array:
        """The value `index` points inwards, `back` levels ago."""

    @abstractmethod
    def distance(self, index: int) -> Any:
        """Distance from interior point `index` to the ghost point."""

    @abstractmethod
    def depths(self, start: int, stop: int) -> tuple[float, ...]:
        """How far inside the wall the points of index start … stop − 1 lie; negative for ghost points.

        Raises PlanningError where there are not so many points, or where their places are not known (holes).
        """

    @property
    @abstractmethod
    def period(self) -> int:
        """How many steps lie between this wall and the one across."""

    @property
    @abstractmethod
    def remembers(self) -> bool:
        """Whether the ghost point has a value at the level before."""

    @abstractmethod
    def time_step(self) -> jax.Array:
        """Δt."""

    @abstractmethod
    def rate(self, index: int) -> jax.Array:
        """du/dt `index` points inwards, by the field's own rate. Raises PlanningError where it has none."""


@dataclass(frozen=True)
class Dimension:
    """What a number at a wall is measured in: powers of the units of the field, of the axis across and of time."""

    field: int = 0
    length: int = 0
    time: int = 0


class AbstractBoundary(ABC):
    """What is assigned to walls: conditions, which give values there, and layers inside them."""

    dimensions: ClassVar[Mapping[str, Dimension]] = MappingProxyType({})
    """What the coefficients are measured in, by attribute and in their order; empty where that is not told."""
    shares_factor: ClassVar[bool] = False
    """Whether that holds but for a factor in any unit which all of them have, as the terms of a·u + b·∂u/∂n = g."""
    numbers: ClassVar[Mapping[str, Dimension]] = MappingProxyType({})
    """What its numbers beside the coefficients (widths, speeds) are measured in, by attribute."""

    @property
    @abstractmethod
    def coefficients(self) -> tuple[Any, ...]:
        """The rules (numbers, arrays, functions) it depends on."""


class AbstractCondition(AbstractBoundary):
    """A boundary condition: it sets the value on the wall, or supplies the ghost values that the rule below reads.

    Its coefficients are evaluated at the wall.
    """

    even: bool = False
    """Whether the ghost values are the even mirror image of the values within, in all layers: nothing flows through."""

    @property
    @abstractmethod
    def sets_value_on_points(self) -> bool:
        """Whether the condition sets the value where the field has a point on the wall."""

    @abstractmethod
    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        """The value of the ghost point, from the values behind it and the coefficients at the wall."""


class AbstractOrdered(AbstractCondition):
    """A condition whose ghost values are of a chosen order where that is stable."""

    @property
    @abstractmethod
    def order(self) -> int:
        """The order declared."""

    @abstractmethod
    def stable_order(self, use: Use, on_point: bool) -> int:
        """The order used beside rules of a kind: the declared one, or the highest stable one below it."""


class AbstractEvolving(AbstractCondition):
    """A condition whose ghost points are carried along in time by an equation of their own."""

    @property
    @abstractmethod
    def evolves(self) -> bool:
        """Whether they are, as declared."""

    @abstractmethod
    def ghost_rate(self, wall: AbstractWall, *coefficients: Any) -> Any:
        """du/dt of the ghost point, where the field is advanced by a stepper."""


class AbstractPeriodic(AbstractCondition):
    """A condition that joins a wall to the one across."""

    @property
    @abstractmethod
    def sign(self) -> int:
        """1, or −1 where the values beyond a wall have the opposite sign."""


class AbstractAbsorber(AbstractCondition):
    """A layer inside a wall in which derivatives are taken along a stretched coordinate, ∂/∂x → (1/s) ∂/∂x.

    s = κ + σ/(α + iω) for waves, s = 1 + e^{iπ/4}σ where a wavenumber is given. `cells` is how thick the layer is, in
    steps. As a condition it gives the fields on the wall behind it. A depth is 0 at the inner edge and 1 on the wall.
    """

    cells: int
    speed: Any
    wavenumber: float | None

    @property
    @abstractmethod
    def options(self) -> tuple[Any, ...]:
        """All that makes two absorbers alike."""

    @abstractmethod
    def strength(self, thickness: float, speed: Any) -> Any:
        """σ on the wall: one over time for a wave speed; for a wavenumber (speed 1) without a unit."""

    @abstractmethod
    def profiles(self, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """σ over that on the wall, κ and α at relative depths."""


class AbstractLayer(AbstractBoundary):
    """What acts on the points of a layer inside the wall, beside the rules and conditions that hold there.

    `width` is how thick the layer is, in the units of the axis. Its coefficients are evaluated at its points.
    """

    width: float

    @abstractmethod
    def damping(self, depth: Any, *coefficients: Any) -> Any:
        """σ at a relative depth in the layer: 0 at its inner edge, 1 on the wall. Units: one over time."""

    @abstractmethod
    def target(self, *coefficients: Any) -> Any:
        """The value that the layer draws the field to."""
