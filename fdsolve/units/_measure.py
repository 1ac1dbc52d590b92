"""Units as vectors of exponents: what products, quotients and powers of quantities are measured in."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

NAMES = ("m", "kg", "s", "A", "K", "mol", "cd")
_SHOWN = (1, 3, 4, 5, 6, 0, 2)
_SLACK = 1e-9


@dataclass(frozen=True)
class Measure:
    """A unit: the exponents of the seven SI base units, and how many of those it is."""

    exponents: tuple[Fraction, ...]
    size: float = 1.0

    def __mul__(self, other: "Measure") -> "Measure":
        return Measure(
            tuple(a + b for a, b in zip(self.exponents, other.exponents, strict=True)), self.size * other.size
        )

    def __truediv__(self, other: "Measure") -> "Measure":
        return self * other ** Fraction(-1)

    def __pow__(self, power: int | Fraction) -> "Measure":
        return Measure(tuple(a * power for a in self.exponents), self.size ** float(power))

    def is_like(self, other: "Measure") -> bool:
        """Whether it is the same unit."""
        return self.exponents == other.exponents and abs(self.size / other.size - 1) < _SLACK

    @property
    def is_one(self) -> bool:
        """Whether it is no unit at all."""
        return self.is_like(ONE)


ONE = Measure((Fraction(0),) * len(NAMES))


@dataclass(frozen=True)
class System:
    """The units that magnitudes are in: for each base unit the name it goes by, and its size.

    `coherent` says whether all declared units are products of these; else magnitudes stay as they were given.
    """

    names: tuple[str, ...] = NAMES
    sizes: tuple[float, ...] = (1.0,) * len(NAMES)
    coherent: bool = True

    @classmethod
    def of(cls, declared: Iterable[tuple[str, Measure]]) -> "System":
        """The system of declared units with their names: the base units among them first, then what products fix."""
        names: list[str] = list(NAMES)
        coherent = True
        sizes: list[float | None] = [None] * len(NAMES)
        for name, measure in sorted(declared, key=lambda one: sum(map(abs, one[1].exponents))):
            rest, free = measure.size, []
            for i, exponent in enumerate(measure.exponents):
                size = sizes[i]
                if exponent and size is None:
                    free.append(i)
                elif exponent and size is not None:
                    rest /= size ** float(exponent)
            if not free:
                coherent = coherent and abs(rest - 1) < _SLACK
                continue
            for i in free[1:]:
                sizes[i] = 1.0
            sizes[free[0]] = rest ** (1 / float(measure.exponents[free[0]]))
            if sum(map(abs, measure.exponents)) == measure.exponents[free[0]] == 1:
                names[free[0]] = name
        return cls(tuple(names), tuple(1.0 if size is None else size for size in sizes), coherent)

    def factor(self, measure: Measure) -> float:
        """What a magnitude in a unit is multiplied by to be in this system; 1 where that is not coherent."""
        if not self.coherent:
            return 1.0
        rest = measure.size / self._size(measure)
        return 1.0 if abs(rest - 1) < 1e-14 else rest

    def adopt(self, measure: Measure) -> Measure:
        """The unit of this system for what a unit measures; that unit itself where the system is not coherent."""
        return Measure(measure.exponents, self._size(measure)) if self.coherent else measure

    def _size(self, measure: Measure) -> float:
        return math.prod(size ** float(power) for size, power in zip(self.sizes, measure.exponents, strict=True))

    def show(self, measure: Measure) -> str:
        """A unit in the names of this system, as "K/(m s)"."""
        upper, lower = [], []
        for i in _SHOWN:
            name, exponent = self.names[i], measure.exponents[i]
            if exponent:
                size = abs(exponent)
                power = "" if size == 1 else f"^{size}" if size.denominator == 1 else f"^({size})"
                (upper if exponent > 0 else lower).append(name + power)
        rest = measure.size / self._size(measure)
        number = "" if abs(rest - 1) < _SLACK else f"{rest:.6g} "
        below = lower[0] if len(lower) == 1 else f"({' '.join(lower)})"
        text = (" ".join(upper) or "1") + (f"/{below}" if lower else "")
        return number + text if number or upper or lower else "no unit"
