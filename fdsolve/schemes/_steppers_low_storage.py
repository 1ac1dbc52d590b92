"""Runge–Kutta methods that hold two registers whatever their number of stages."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ._steppers import ALL, AbstractOneStep, AbstractSystem, Modes, Part, Values, Walls, combine, on_eigenvalues
from ._tableau import Tableau, check_order, matrix_growth


class AbstractLowStorage(AbstractOneStep):
    """A Runge–Kutta method in two registers: q ← Aᵢq + f(tᵢ, u), u ← u + BᵢΔt q, i = 1 … s."""

    a: Any
    b: Any

    @property
    def tableau(self) -> Tableau:
        """The same method as Butcher's coefficients."""
        return _tableau_of(self.a, self.b, self.order)

    @property
    def evaluations(self) -> int:
        return len(self.a)

    def advance(
        self,
        system: AbstractSystem,
        values: Values,
        start: Any = 0.0,
        length: Any = 1.0,
        part: Part = ALL,
    ) -> Values:
        tableau, register = self.tableau, None
        stages = zip(self.a, self.b, tableau.times, tableau.wall_coefficients, strict=True)
        for a, b, time, wall in stages:
            walls = Walls(start, tuple(w * length**k for k, w in enumerate(wall)))
            slope = system.rates(values, start + time * length, walls, part)
            register = slope if register is None else _scaled_sum(a, register, slope)
            values = combine(system, values, [b * length], [register])
        return values

    def amplify(self, modes: Modes) -> np.ndarray:
        return on_eigenvalues(modes, self.tableau.growth)

    def propagator(self, modes: Modes) -> np.ndarray:
        return matrix_growth(self.tableau, modes.total)


@dataclass(frozen=True)
class LowStorage(AbstractLowStorage):
    """Any Runge–Kutta method in Williamson's 2N form: q ← Aᵢq + f(tᵢ, u), u ← u + BᵢΔt q, i = 1 … s, with A₁ = 0.

    Two registers, u and q, are held whatever s is. `order` is verified up to 4. Source: Williamson, J. Comput. Phys.
    35 (1980) 48. Raises DeclarationError for coefficients that are not of the order claimed.
    """

    a: Any
    b: Any
    order: int = 1  # type: ignore[assignment]

    def __post_init__(self) -> None:
        try:
            a, b = (tuple(float(value) for value in one) for one in (self.a, self.b))
        except (TypeError, ValueError):
            a, b = (), ()
        if not a or len(a) != len(b) or a[0] != 0 or not np.isfinite([*a, *b]).all():
            raise DeclarationError(
                f"LowStorage: a and b are lists of as many numbers, and a begins with 0; got {self.a!r} and {self.b!r}."
            )
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b)
        check_order(repr(self), self.tableau)


@dataclass(frozen=True)
class CarpenterKennedy(AbstractLowStorage):
    """The five-stage method of order 4 in two registers; stable to λΔt = −4.65 and ±3.34i.

    Source: Carpenter & Kennedy, NASA TM 109112 (1994), solution 3. Good values: large problems where memory counts.
    """

    @property
    def order(self) -> int:
        return 4

    @property
    def a(self) -> tuple[float, ...]:
        """The weights of the old register."""
        return (
            0.0,
            -567301805773 / 1357537059087,
            -2404267990393 / 2016746695238,
            -3550918686646 / 2091501179385,
            -1275806237668 / 842570457699,
        )

    @property
    def b(self) -> tuple[float, ...]:
        """The weights of the register in the solution."""
        return (
            1432997174477 / 9575080441755,
            5161836677717 / 13612068292357,
            1720146321549 / 2090206949498,
            3134564353537 / 4481467310338,
            2277821191437 / 14882151754819,
        )


def _tableau_of(a: tuple[float, ...], b: tuple[float, ...], order: int) -> Tableau:
    count = len(a)
    register, solution, rows = np.zeros(count), np.zeros(count), []
    for stage in range(count):
        rows.append(solution.copy())
        register = a[stage] * register + np.eye(count)[stage]
        solution = solution + b[stage] * register
    stages = tuple(tuple(float(v) for v in row[:i]) for i, row in enumerate(rows))
    return Tableau(stages, tuple(float(v) for v in solution), tuple(float(row.sum()) for row in rows), order)


def _scaled_sum(factor: float, register: Values, slope: Values) -> Values:
    return {
        name: tuple(np.asarray(factor, s.dtype) * q + s for q, s in zip(register[name], boxes, strict=True))
        for name, boxes in slope.items()
    }
