"""The symbol of linear rules: what they do to exp(θ·i), as matrices over the fields that evolve."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import PlanningError
from ..planning import all_waves, fades
from ..schemes import AbstractStepper, Modes, NoGrowth
from ._linearise import LinearRule


@dataclass(frozen=True, eq=False)
class Symbol:
    """Linear rules with constant weights as a function of ξ = (∂x Δx, ∂y Δy, …); ξ = iθ for waves of phase θ a step.

    `names` are the fields that evolve; those that follow from others at their own level are eliminated.
    """

    rules: Sequence[LinearRule]
    names: tuple[str, ...]
    others: tuple[str, ...]
    depth: int
    has_rates: bool
    step: float
    stepper: AbstractStepper | None = field(default=None)

    def blocks(self, xi: np.ndarray) -> np.ndarray:
        """For ξ of shape (…, axes): matrices of each level, (levels, …, fields, fields); rates at level 0."""
        return self._sum(xi, self.rules)

    def _sum(self, xi: np.ndarray, rules: Sequence[LinearRule]) -> np.ndarray:
        every = (*self.names, *self.others)
        place = {name: k for k, name in enumerate(every)}
        found = np.zeros((self.depth + 1, *xi.shape[:-1], len(every), len(every)), complex)
        for rule in rules:
            for (name, level, offset), weight in rule.weights.items():
                if name in place:
                    phase = np.exp(xi @ np.asarray(offset))
                    found[(-level, ..., place[rule.field], place[name])] += weight * phase
        return self._eliminated(found, xi) if self.others else found

    def _eliminated(self, blocks: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """Fields that follow from others at their own level, a = E u, put in wherever they are read."""
        count, plain = len(self.names), self._algebraic(xi)
        inner = np.eye(len(self.others)) - plain[..., count:, count:]
        follow = np.linalg.solve(inner, plain[..., count:, :count])
        return blocks[..., :count, :count] + blocks[..., :count, count:] @ follow

    def _algebraic(self, xi: np.ndarray) -> np.ndarray:
        every = (*self.names, *self.others)
        found = np.zeros((*xi.shape[:-1], len(every), len(every)), complex)
        for rule in self.rules:
            for (name, _, offset), weight in rule.weights.items():
                if rule.field in self.others and name in every:
                    found[..., every.index(rule.field), every.index(name)] += weight * np.exp(xi @ np.asarray(offset))
        return found

    @property
    def fades(self) -> bool:
        """Whether what a level reads of itself fades along its way: else no level is made of waves."""
        fields = self.others if self.has_rates else (*self.names, *self.others)
        own = [rule for rule in self.rules if rule.field in fields and not rule.is_rate]
        offsets = [offset for rule in own for name, level, offset in rule.weights if name in fields and level == 0]
        if not any(map(any, offsets)):
            return True
        waves = all_waves(len(offsets[0]))
        found = np.zeros((len(waves), len(fields), len(fields)), complex)
        for rule in own:
            for (name, level, offset), weight in rule.weights.items():
                if name in fields and level == 0:
                    at = fields.index(rule.field), fields.index(name)
                    found[(slice(None), *at)] += weight * np.exp(1j * waves @ np.asarray(offset))
        return bool(fades(found, waves.shape[1]))

    def rates(self, xi: np.ndarray) -> np.ndarray:
        """The matrix of du/dt, (…, fields, fields)."""
        return self.blocks(xi)[0]

    def step_matrix(self, xi: np.ndarray) -> np.ndarray:
        """The matrix that takes one level to the next, (…, levels · fields, levels · fields), of plain rules."""
        blocks, count = self.blocks(xi), len(self.names)
        older = np.concatenate(list(blocks[1:]), axis=-1)
        solved = np.linalg.solve(np.eye(count) - blocks[0], older)
        matrix = np.zeros((*xi.shape[:-1], self.depth * count, self.depth * count), complex)
        matrix[..., :count, :] = solved
        for row in range(count, self.depth * count):
            matrix[..., row, row - count] = 1
        return matrix

    def roots(self, theta: np.ndarray) -> np.ndarray:
        """All factors G by which waves of phase θ (…, axes) a step grow in one time step, (…, roots)."""
        xi = 1j * theta
        if not self.has_rates:
            return np.linalg.eigvals(self.step_matrix(xi))
        assert self.stepper is not None
        found = self.stepper.amplify(self._modes(xi))
        if isinstance(found, NoGrowth):
            raise PlanningError(f"fd.analyse: the growth of {self.stepper!r} is not known: {found.reason}.")
        return np.asarray(found).reshape(*theta.shape[:-1], -1)

    def _modes(self, xi: np.ndarray) -> Modes:
        keys = dict.fromkeys((rule.group, rule.linear, rule.implicit) for rule in self.rules if rule.is_rate)
        parts = {}
        for key in keys:
            own = [rule for rule in self.rules if rule.is_rate and (rule.group, rule.linear, rule.implicit) == key]
            parts[key] = self._sum(xi, own)[0] * self.step
        speeds = np.zeros((xi.shape[-1], len(self.names), len(self.names)))
        for rule in (rule for rule in self.rules if rule.is_rate):
            for (name, _, offset), weight in rule.weights.items():
                if name in self.names:
                    speeds[:, self.names.index(rule.field), self.names.index(name)] += weight.real * np.asarray(offset)
        courant = self.step * np.abs(np.linalg.eigvals(np.abs(speeds))).max(axis=-1).sum()
        return Modes(self.names, parts, np.full(xi.shape[:-1], courant))


def make_symbol(rules: Sequence[LinearRule], step: float, stepper: AbstractStepper | None) -> Symbol:
    """The symbol of linear rules: which fields evolve, how many levels back they reach."""
    rated = {rule.field for rule in rules if rule.is_rate}
    fields = tuple(dict.fromkeys(rule.field for rule in rules))
    if rated:
        names = tuple(name for name in fields if name in rated)
    else:
        reads_back = {rule.field for rule in rules if any(level < 0 for _, level, _ in rule.weights)}
        names = tuple(name for name in fields if name in reads_back)
    if not names:
        raise PlanningError(
            "fd.analyse: no rule reads an older level and none is a rate, so that nothing evolves in time."
        )
    depth = max([1] + [-level for rule in rules for _, level, _ in rule.weights])
    others = tuple(name for name in fields if name not in names)
    found = Symbol(rules, names, others, 0 if rated else depth, bool(rated), step, stepper)
    if not found.fades:
        raise PlanningError(
            "fd.analyse: what a level reads of itself does not fade along its way, as in a running sum: no level is "
            "made of waves. Solve it, and look at the result."
        )
    return found
