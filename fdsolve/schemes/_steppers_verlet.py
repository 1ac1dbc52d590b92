"""Størmer–Verlet: two groups of rates, each moved by the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import PlanningError
from ._steppers import ALL, AbstractOneStep, AbstractSystem, Modes, Outline, Part, Values, combine
from ._steppers_leapfrog import check_two_levels


@dataclass(frozen=True)
class StormerVerlet(AbstractOneStep):
    """Størmer–Verlet in kick–drift–kick form for ∂q/∂t = f(p), ∂p/∂t = g(q), order 2.

    pⁿ⁺½ = pⁿ + Δt/2 g(qⁿ), qⁿ⁺¹ = qⁿ + Δt f(pⁿ⁺½), pⁿ⁺¹ = pⁿ⁺½ + Δt/2 g(qⁿ⁺¹). Symplectic: the energy of a
    conservative problem stays within O(Δt²) for ever; stable to |λ|Δt = 2 on the imaginary axis. The groups are found
    from what the rates read: each may read only the other (sources in time are welcome). Also accepts plain rules that
    read t-1 and t-2, which are its two-level form already. Source: Hairer, Lubich & Wanner, Acta Numerica 12 (2003)
    399, equation 1.7.
    """

    drifting: tuple[str, ...] = ()
    kicked: tuple[str, ...] = ()

    @property
    def order(self) -> int:
        return 2

    @property
    def evaluations(self) -> int:
        return 2

    @property
    def at_levels(self) -> bool:
        return True

    def bind(self, outline: Outline) -> "StormerVerlet":
        drifting, kicked = _two_groups(outline)
        return replace(self, drifting=drifting, kicked=kicked)

    def describe_plain(self, reads: Sequence[tuple[str, frozenset[int]]]) -> str:
        return check_two_levels("StormerVerlet", reads)

    def advance(
        self,
        system: AbstractSystem,
        values: Values,
        start: Any = 0.0,
        length: Any = 1.0,
        part: Part = ALL,
    ) -> Values:
        kick, drift = (replace(part, fields=names) for names in (self.kicked, self.drifting))
        half = 0.5 * length
        values = combine(system, values, [half], [system.rates(values, start, None, kick)])
        values = combine(system, values, [length], [system.rates(values, start + half, None, drift)])
        return combine(system, values, [half], [system.rates(values, start + length, None, kick)])

    @property
    def steps_back(self) -> bool:
        return True

    def step_back(
        self, system: AbstractSystem, memory: Any, at: Callable[[Values], AbstractSystem]
    ) -> tuple[AbstractSystem, Any]:
        return at(self.advance(system, system.start, 1.0, -1.0)), memory

    def amplify(self, modes: Modes) -> np.ndarray:
        return np.linalg.eigvals(self.propagator(modes))

    def propagator(self, modes: Modes) -> np.ndarray:
        z = modes.total
        one = np.eye(z.shape[-1])
        rows = np.array([name in self.kicked for name in modes.names])[:, None]
        kick, drift = one + z * rows / 2, one + z * ~rows
        return kick @ drift @ kick


def _two_groups(outline: Outline) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields in two groups that read only each other; the first field with rates is among the first."""
    colour: dict[str, int] = {}
    reads: dict[str, set[str]] = {name: set() for name in outline.fields}
    for one in outline.rates:
        for other in one.reads:
            reads[one.field].add(other)
            reads[other].add(one.field)
    for name in outline.fields:
        waiting = [(name, 0)] if name not in colour else []
        while waiting:
            field, own = waiting.pop()
            if field in colour:
                continue
            colour[field] = own
            waiting.extend((other, 1 - own) for other in reads[field])
    for one in outline.rates:
        for other in sorted(one.reads):
            if colour[other] == colour[one.field]:
                raise PlanningError(
                    f"StormerVerlet takes two groups of rates, each reading only the other; {one.label} gives the rate "
                    f"of `{one.field}` and reads `{other}`"
                    + (" itself." if other == one.field else ", of the same group.")
                    + " Write a second-order equation as two fields, u[...] = fd.rate(v), v[...] = fd.rate(f(u)). "
                    "Friction and sponges damp a field by itself: take fd.boundary.PML for a sponge, or another "
                    "stepper, for example fd.schemes.RK4()."
                )
    groups = tuple(tuple(name for name in outline.fields if colour[name] == which) for which in (0, 1))
    if not groups[1]:
        raise PlanningError(
            f"StormerVerlet takes two coupled groups of rates; those of {', '.join(outline.fields)} read no field "
            f"with rates. Take another stepper, for example fd.schemes.Midpoint()."
        )
    return groups[0], groups[1]
