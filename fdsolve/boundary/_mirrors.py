"""Conditions that copy interior points: even and odd mirrors, periodic and anti-periodic ends."""

from dataclasses import dataclass
from typing import Any

from ..errors import DeclarationError
from ..field import AbstractCondition, AbstractPeriodic, AbstractWall
from ._show import mirror


@dataclass(frozen=True, eq=False)
class Symmetric(AbstractCondition):
    """An even mirror: u₋ₖ = uₖ about a point on the wall, uₖ₋₁ about a face, in all layers.

    The wall is a plane of symmetry: ∂u/∂n and every odd derivative vanish, so a scheme of any order keeps it, and on a
    uniform axis its spectrum stays that of the periodic problem.

    Good values: insulated and free-slip walls, planes of symmetry; on cell axes the stable choice beside central first
    derivatives of order 4 and more.
    """

    even = True

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return ()

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        return wall.interior(mirror(wall))

    def __repr__(self) -> str:
        return "Symmetric()"


@dataclass(frozen=True, eq=False)
class Antisymmetric(AbstractCondition):
    """An odd mirror: u₋ₖ = −uₖ about a point on the wall, which is 0; −uₖ₋₁ about a face; in all layers.

    u and every even derivative vanish on the wall, so a scheme of any order keeps it.

    Good values: the component of a vector normal to a plane of symmetry; a clamped end of the wave equation.
    """

    @property
    def sets_value_on_points(self) -> bool:
        return True

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return (0,)

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        return -wall.interior(mirror(wall))

    def __repr__(self) -> str:
        return "Antisymmetric()"


@dataclass(frozen=True, eq=False)
class Periodic(AbstractPeriodic):
    """u(x + L) = sign · u(x), for one field: `sign=-1` is anti-periodic.

    On an axis declared periodic it sets the sign; on a cell axis with walls it joins the two, and both walls are to be
    given it: `u[dict(x=[0, -1])] = fd.boundary.Periodic()`. Where all fields are periodic declare the axis
    so instead: `fd.Axis(..., periodic=True)`.

    Raises: DeclarationError for a sign other than 1 and −1, on node axes with walls (which repeat the end point).
    """

    sign: int = 1  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if isinstance(self.sign, bool) or self.sign not in (1, -1):
            raise DeclarationError(f"Periodic: sign= is 1 or -1, got {self.sign!r}.")

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return ()

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        across = wall.interior(wall.period - wall.layer)
        return across if self.sign == 1 else -across

    def __repr__(self) -> str:
        return "Periodic()" if self.sign == 1 else "Periodic(sign=-1)"


@dataclass(frozen=True, eq=False)
class AntiPeriodic(AbstractPeriodic):
    """u(x + L) = −u(x): `Periodic(sign=-1)` under its own name."""

    @property
    def sign(self) -> int:
        return -1

    @property
    def sets_value_on_points(self) -> bool:
        return False

    @property
    def coefficients(self) -> tuple[Any, ...]:
        return ()

    def ghost(self, wall: AbstractWall, *coefficients: Any) -> Any:
        return -wall.interior(wall.period - wall.layer)

    def __repr__(self) -> str:
        return "AntiPeriodic()"
