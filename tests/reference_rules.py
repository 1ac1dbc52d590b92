"""Which assignment holds at a point: the part of the reference that knows about order, walls and holes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .declarations import Condition, Declaration, Expr, Rule
from .reference_geometry import holds, index_positions, place_of, times_of

Point = tuple[int, ...]
Side = tuple[int, bool]
"""An axis, and whether its upper end."""


@dataclass(eq=False)
class Moment:
    """A level or a stage: its values as far as they are known. `given` holds what a stepper advanced."""

    level: int
    fraction: float
    time: float
    values: dict[tuple[str, Point], Any] = field(default_factory=dict)
    given: dict[tuple[str, Point], Any] = field(default_factory=dict)
    busy: set[tuple[str, Point]] = field(default_factory=set)


class Assignments:
    """The assignments of a declaration. `positive(expr, moment, name, point)` evaluates run-time predicates."""

    def __init__(self, declaration: Declaration, positive: Callable[[Expr, Moment, str, Point], bool]):
        self.positive = positive
        self.unknowns = {one.name: one for one in declaration.unknowns}
        self.places = {one.name: place_of(declaration, one) for one in declaration.unknowns}
        self.times = times_of(declaration)
        self.timed = declaration.times is not None
        self.axes = tuple(declaration.lines)
        self._holes: dict[tuple[str, int, Point], Rule | None] = {}
        self._ordered: dict[tuple[str, int], list[Rule]] = {}

    def covers(self, rule: Rule, name: str, moment: Moment, point: Point) -> bool:
        """Whether an assignment holds at a point of a moment."""
        if rule.region.kind == "place":
            return True

        def test(predicate: Expr, at: Point) -> bool:
            return self.positive(predicate, moment, name, at)

        return holds(rule.region, self.places[name], self.times, self.timed, moment.level, point, test)

    def ordered(self, name: str, level: int) -> list[Rule]:
        """Assignments in the order of values; at the levels of an initial state those of conditions come before it."""
        if (name, level) not in self._ordered:
            self._ordered[name, level] = self._sorted(name, level)
        return self._ordered[name, level]

    def _sorted(self, name: str, level: int) -> list[Rule]:
        rules = list(self.unknowns[name].rules)
        first = next((i for i, rule in enumerate(rules) if self.is_initial(rule, name, level)), None)
        if first is None:
            return rules
        conditions = [rule for rule in rules[first:] if isinstance(rule.body, Condition)]
        return rules[:first] + conditions + [rule for rule in rules[first:] if not isinstance(rule.body, Condition)]

    def is_initial(self, rule: Rule, name: str, level: int) -> bool:
        """Whether a plain rule is an initial state at a level: one for the first few levels and not all."""
        if isinstance(rule.body, Condition) or rule.region.kind != "index" or not self.timed:
            return False
        levels = sorted(set(index_positions(rule.region, self.places[name], True)[0]))
        return level in levels and levels == list(range(len(levels))) and len(levels) < len(self.times)

    def sides(self, rule: Rule, name: str, point: Point) -> list[Side]:
        """The walls a condition's region lies on at one of its points: where it is one point thick, at an end."""
        if rule.region.kind != "index":
            return []
        shape, found = self.places[name].shape, []
        for a, picked in enumerate(index_positions(rule.region, self.places[name], self.timed)[self.timed :]):
            for upper, end, inner in ((False, 0, 1), (True, shape[a] - 1, shape[a] - 2)):
                if point[a] == end and end in picked and inner not in picked:
                    found.append((a, upper))
        return found

    def on_wall(self, name: str, axis: int) -> bool:
        """Whether the field has points on the walls of an axis."""
        return self.places[name].shifts[axis] == 0

    def wall_condition(self, name: str, moment: Moment, side: Side, point: Point) -> Rule | None:
        """The last condition on a side of the grid at a wall point, unless a later plain rule removed it."""
        for rule in reversed(self.unknowns[name].rules):
            if not self._certainly(rule, name, moment, point):
                continue
            if isinstance(rule.body, Condition):
                if side in self.sides(rule, name, point):
                    return rule
            elif self._replaces(rule, name, moment.level):
                return None
        return None

    def _replaces(self, rule: Rule, name: str, level: int) -> bool:
        """Whether a plain rule takes the place of conditions before it."""
        return not rule.adds and not self.is_initial(rule, name, level)

    def _certainly(self, rule: Rule, name: str, moment: Moment, point: Point) -> bool:
        """Whether a rule covers a point whatever the time and the parameters."""
        if rule.region.kind == "place" or self._at_run_time(rule.region):
            return False
        return self.covers(rule, name, moment, point)

    def _at_run_time(self, region: Any) -> bool:
        def depends(part: Any) -> bool:
            if not isinstance(part, Expr):
                return False
            return (part.op == "name" and part.args[0] not in self.axes) or any(map(depends, part.args))

        if region.kind == "where":
            return depends(region.args[0])
        return region.kind in "|&-~" and any(map(self._at_run_time, region.args))

    def hole(self, name: str, level: int, point: Point) -> Rule | None:
        """The ghost condition that cuts a point out of the field."""
        key = name, level, point
        if key not in self._holes:
            self._holes[key] = self._find_hole(name, Moment(level, 1.0, float(self.times[level])), point)
        return self._holes[key]

    def _find_hole(self, name: str, moment: Moment, point: Point) -> Rule | None:
        for rule in reversed(self.unknowns[name].rules):
            if not self._certainly(rule, name, moment, point):
                continue
            if isinstance(rule.body, Condition):
                if not self.sides(rule, name, point):
                    return rule if rule.body.kind != "dirichlet" else None
            elif self._replaces(rule, name, moment.level):
                return None
        return None

    def value_rules(self, name: str, moment: Moment, point: Point) -> tuple[Rule | None, list[Rule]]:
        """The assignment that defines a point's value (None: what a stepper advanced), and the values added to it."""
        rule, added = self._last(name, moment, point, self.covers)
        return (rule if rule.kind == "value" else None), [one for one in added if one.kind == "value"]

    def has_rate(self, name: str, level: int, point: Point) -> bool:
        """Whether a point is advanced by the stepper: its last certain rule is a rate."""
        if self.hole(name, level, point) is not None:
            return False
        moment = Moment(level, 1.0, float(self.times[level]))
        return self._last(name, moment, point, self._certainly)[0].kind == "rate"

    def _last(self, name: str, moment: Moment, point: Point, covers: Callable[..., bool]) -> tuple[Rule, list[Rule]]:
        """The last assignment that covers a point and gives it a value or a rate, and what is added after it."""
        added: list[Rule] = []
        taken: set[Side] = set()
        for rule in reversed(self.ordered(name, moment.level)):
            if not covers(rule, name, moment, point):
                continue
            if isinstance(rule.body, Condition):
                sides = self.sides(rule, name, point)
                free = [side for side in sides if side not in taken and self.on_wall(name, side[0])]
                taken.update(sides)
                if rule.body.kind == "dirichlet" and (free or not sides):
                    return rule, added[::-1]
            elif rule.adds:
                added.append(rule)
            else:
                return rule, added[::-1]
        raise AssertionError(f"no rule covers {name} {point} at level {moment.level}")

    def rate_rules(self, name: str, moment: Moment, point: Point) -> list[Rule]:
        """The rates at a point, the one that defines du/dt first; `moment` is the stage, with the level it leads to."""
        added: list[Rule] = []
        for rule in reversed(self.ordered(name, moment.level)):
            if rule.kind == "rate" and self.covers(rule, name, moment, point):
                if not rule.adds:
                    return [rule, *added[::-1]]
                added.append(rule)
        raise AssertionError
