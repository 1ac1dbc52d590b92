"""What lives within a level and is dear to compute again: a march writes it down for its transpose, with its levels.

A transpose reads what rules that are not affine read: stage values of a Runge–Kutta method, sides of faces. All of it
can be computed again from kept levels; the second stage's value takes all fluxes of the first, to save one number a
point. So arrays are taken out of what is written down, one by one, as long as it takes few equations more to compute
each again.
"""

from collections.abc import Collection, Iterable
from math import fsum, prod

from ...stencil import count_equations
from ._operands import Pull
from ._program import Program

WORTH = 128
"""Equations a point for which a number of it is sooner written down and read."""


def left_by(program: Program, pull: Pull) -> frozenset[str]:
    """The arrays that live within a level, which a march leaves for a pull: all to one that goes on beside it."""
    if pull.beside:
        return frozenset(one.name for one in program.arrays) - {one.name for one, _ in program.state}
    return dear_arrays(program) if pull.written else frozenset()


def dear_arrays(program: Program) -> frozenset[str]:
    """The arrays whose values are written down, of those that live within a level."""
    again = _Again(program)
    hidden = {one.name for one, kept in zip(program.arrays, program.kept, strict=True) if not kept}
    found = {name for name in again.wanted if name in hidden and program.written_once(name)}
    for name in [one.name for one in program.arrays if one.name in found]:
        if again.work(found - {name}) - again.work(found) < WORTH:
            found.discard(name)
    return frozenset(found if again.work(()) - again.work(found) >= WORTH * len(found) else ())


class _Again:
    """What it takes to compute again what a transpose reads, within a level."""

    def __init__(self, program: Program):
        self.writing: dict[str, list[int]] = {}
        for number, one in enumerate(program.operations):
            self.writing.setdefault(one.array, []).append(number)
        points = prod(program.arrays[0].shape)
        self.equations = [count_equations(one.rule.jaxpr) * one.box.size / points for one in program.operations]
        self.reads = [{read.field for read in one.reads if not read.level} for one in program.operations]
        self.wanted = {name for one, reads in zip(program.operations, self.reads, strict=True)
                       for name in reads if not one.rule.affine}  # fmt: skip

    def work(self, known: Collection[str]) -> float:
        """Equations a point where some arrays are known."""
        return fsum(self.equations[number] for number in self._needed(self.wanted - set(known), known))

    def _needed(self, names: Iterable[str], known: Collection[str]) -> set[int]:
        """The operations that compute arrays, and what they read."""
        found: set[int] = set()
        left = list(names)
        while left:
            for number in self.writing.get(left.pop(), ()):
                if number not in found:
                    found.add(number)
                    left += [name for name in self.reads[number] if name not in known]
        return found
