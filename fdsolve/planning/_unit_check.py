"""The check of units: a declaration is compiled beside a copy with longer lengths, and units followed through rules.

Weights and spacings of uniform axes stand in rules as numbers. Those that differ between the two are powers of a
length, and the power says which; nothing in the run itself has to know of units.
"""

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ..errors import PlanningError
from ..field import AbstractLayer, Along, Assignment, Field, Interpolate
from ..region import Coordinates, Index, Layout, Place, to_region
from ..stencil import Labelled, Operand, ProfileRead, StateRead
from ..units import ONE, SCALE, Follower, Measure, NotFollowed, UnitsDiffer, UnitsNotTaken, Worth, same
from ._bind import trace_speeds
from ._compile import Compiled, compile_phases
from ._phases import make_phases
from ._pieces import Piece
from ._problem import Problem, build_problem
from ._units import Units, groups, longer

_FREE = frozenset({"mask", "place", "value"})
_TRIED = tuple(Fraction(a, b) for a, b in ((1, 1), (-1, 1), (1, 2), (-1, 2), (2, 1), (-2, 1)))


@dataclass(frozen=True, eq=False)
class _Copy:
    """A declaration compiled with some lengths longer."""

    problem: Problem
    compiled: Compiled
    pieces: tuple[Piece, ...]
    speeds: Mapping[str, int]


def check_units(problem: Problem, compiled: Compiled, speeds: Mapping[str, int], stepper: Any) -> list[str]:
    """Follows units through every rule; returns what the plan is to note. Raises PlanningError where they differ.

    `compiled` and `speeds` are those that will run; where quantities were assigned, these are compiled once more, by
    name.
    """
    units = problem.units
    assert units is not None
    stretched = groups(problem.scope.grid, units)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = _compile(problem, frozenset(), stepper) if units.extra else _gathered(problem, compiled, speeds)
        copies = [_compile(problem, names, stepper) for names in stretched]
    checker = Checker(units, own, copies, Follower(tuple(stretched.values())))
    checker.check()
    left = list(dict.fromkeys(checker.left))
    told = f"units checked through {checker.count} rules" + ("; not followed through " * bool(left)) + "; ".join(left)
    return [told, *units.notes]


def _compile(problem: Problem, names: frozenset[str], stepper: Any) -> _Copy:
    units = problem.units
    assert units is not None
    grid = longer(problem.scope.grid, names, SCALE) if names else problem.scope.grid
    fields = tuple(Field(one.name, grid, at=one.at, dtype=one.dtype) for one in problem.fields)
    assignments = units.named
    if names:
        assignments = {
            name: tuple(_moved(one, names, all(axis in names for axis in grid.space)) for one in ones)
            for name, ones in assignments.items()
        }
    parameters = {name: _labelled(problem, name, value) for name, value in units.parameters.items()}
    made = build_problem(fields, dict(assignments), {**parameters, **units.extra})
    phases, of_level = make_phases(made)
    compiled = compile_phases(made, phases, of_level, staged=stepper is not None and stepper.at_levels)
    rated = list(dict.fromkeys(piece.field for one in compiled.phases for piece in one.rates))
    speeds = trace_speeds(made, compiled.book, stepper, rated) if stepper is not None else {}
    return _gathered(made, compiled, speeds)


def _gathered(problem: Problem, compiled: Compiled, speeds: Mapping[str, int]) -> _Copy:
    pieces = tuple(piece for one in compiled.phases for piece in (*one.values, *one.rates, *one.guesses))
    return _Copy(problem, compiled, pieces, speeds)


def _labelled(problem: Problem, name: str, value: Any) -> Any:
    """A DataArray by the axes it was found to lie on: its coordinates are none of a longer grid."""
    spec = problem.scope.parameters[name]
    if not isinstance(value, xr.DataArray | Interpolate) or not isinstance(spec, Labelled):
        return value
    layout = Layout(problem.scope.grid, spec.faces)
    sizes = dict(zip(layout.names, layout.shape, strict=True))
    build = problem.store.profiles[f"parameter {name}"].build
    return Along(build((0,) * len(spec.axes), tuple(sizes[axis] for axis in spec.axes)), spec.axes, spec.faces)


def _moved(assignment: Assignment, names: frozenset[str], layers: bool) -> Assignment:
    """An assignment on a grid with longer axes; its points are known by number."""
    region, rule = assignment.region, assignment.rule
    if isinstance(region, Place):
        places = {name: value * SCALE if name in names else value for name, value in region.coordinates.items()}
        region = replace(region, coordinates=places)
    elif isinstance(region, Index | Coordinates):
        region = to_region(Ellipsis)
    if isinstance(rule, AbstractLayer) and layers:
        rule = copy.copy(rule)
        object.__setattr__(rule, "width", rule.width * SCALE)
    return replace(assignment, region=region, rule=rule)


@dataclass(eq=False)
class Checker:
    """Follows units from rule to rule; `left` tells where that ended, `count` how many rules were followed."""

    units: Units
    own: _Copy
    copies: Sequence[_Copy]
    follower: Follower
    left: list[str] = field(default_factory=list)
    count: int = 0
    hidden: dict[str, Worth] = field(default_factory=dict)

    def check(self) -> None:
        """Checks all rules."""
        if any([_form(p) for p in one.pieces] != [_form(p) for p in self.own.pieces] for one in self.copies):
            self.left.append("any rule: what is computed depends on the spacing")
            return
        done = set()
        for piece in self.own.pieces:
            key = (piece.rule, piece.role, piece.field, piece.predicate)
            if key in done:
                continue
            done.add(key)
            if piece.predicate is not None:
                self._check_rule(piece.predicate, f"the predicate of {piece.label}", None, "")
            if self.own.compiled.book.hides(piece.field):
                self._hidden(piece.field)
                continue
            self._check_rule(piece.rule, piece.label, *self._wanted(piece))
        for rule in self.own.speeds.values():
            time = self._time()
            self._check_rule(rule, "the stepper's speed", time and ONE / time, "one over the time step")

    def _time(self) -> Measure | None:
        name = self.own.problem.scope.grid.time_name
        return None if name is None else self.units.measure(name)

    def _wanted(self, piece: Piece) -> tuple[Measure | None, str]:
        """The unit that a piece's values have, and of what it is."""
        own, time = self.units.measure(piece.field), self._time()
        if piece.role == "rate":
            return (None if own is None or time is None else own / time), f"the rate of `{piece.field}`"
        return (None, "") if piece.role == "residual" else (own, f"`{piece.field}`")

    def _check_rule(self, number: int, label: str, wanted: Measure | None, of: str) -> None:
        wrong = self._try(number, wanted, {})
        if isinstance(wrong, Worth):
            self.count += 1
            rule = self.own.compiled.book.rules[number]
            lost = [one for one in rule.operands if not self._operand(one, {}).known]
            if lost:
                self.left.append(f"{label}: what it reads of {self._called(lost[0])} has no unit that is known")
        elif isinstance(wrong, NotFollowed):
            self.left.append(f"{label}: {wrong}")
        else:
            raise PlanningError(self._explain(wrong, number, label, wanted, of))

    def _try(self, number: int, wanted: Measure | None, other: Mapping[str, Measure]) -> Worth | Exception:
        """What a rule's result is worth, or what is wrong; `other` are units tried for parameters."""
        rules = [one.compiled.book.rules[number] for one in (self.own, *self.copies)]
        try:
            if any(rule.operands != rules[0].operands for rule in rules):
                raise NotFollowed("what it reads depends on the spacing")
            inputs = [self._operand(operand, other) for operand in rules[0].operands]
            (found,) = self.follower.follow([rule.jaxpr for rule in rules], [rule.consts for rule in rules], inputs)
            if wanted is not None:
                same([Worth(wanted), found])
        except (UnitsDiffer, UnitsNotTaken, NotFollowed) as wrong:
            return wrong
        if not found.known:
            return NotFollowed("an operation there has no rule for units")
        return found

    def _operand(self, operand: Operand, other: Mapping[str, Measure]) -> Worth:
        if isinstance(operand, StateRead):
            return self._hidden(operand.field) if operand.field not in self.units.worths else self._named(operand.field)
        kind, *rest = operand.name.split(" ")
        if kind == "parameter":
            found = self._named(rest[0])
            return replace(found, measure=other[rest[0]]) if rest[0] in other else found
        if isinstance(operand, ProfileRead):
            return self._profile(operand, kind, rest)
        if kind in ("t", "dt", "passed"):
            name = self.own.problem.scope.grid.time_name
            return self._named(name) if name is not None else Worth()
        return Worth(known=False)

    def _called(self, operand: Operand) -> str:
        """An operand in words."""
        if not isinstance(operand, StateRead):
            return operand.name
        if operand.field in self.own.compiled.book.memories.by_name:
            return "an absorbing layer's memory"
        hidden = self.own.compiled.book.hidden.get(operand.field)
        return f"`{operand.field}`" if hidden is None else hidden.label

    def _named(self, name: str) -> Worth:
        """What an axis, a field or a parameter is worth."""
        return self.units.worths[name]

    def _profile(self, read: ProfileRead, kind: str, rest: list[str]) -> Worth:
        if kind in _FREE:
            return Worth()
        if kind in ("coordinate", "spacing"):
            return self._named(rest[0])
        if kind == "pml":
            return self._stretching(rest[2])
        if kind not in ("weight", "measure"):
            return Worth(known=False)
        start, stop = (1,) * len(read.axes), (3,) * len(read.axes)  # a measure may vanish on the wall
        arrays = [one.problem.store.find(read).build(start, stop) for one in (self.own, *self.copies)]
        return self.follower.number([np.asarray(array, float) for array in arrays])

    def _stretching(self, quantity: str) -> Worth:
        """What a profile of an absorbing layer is worth: a decay is one over time, all else are pure numbers."""
        if quantity not in ("beta", "gain"):
            return Worth()
        time = self._time()
        return Worth(known=False) if time is None else Worth(ONE / time)

    def _memory(self, name: str) -> None:
        """A memory variable has the unit of the derivative that drives it, which its own rules add to it."""
        label, time = self.own.compiled.book.memories.by_name[name].label, self._time()
        rules = dict.fromkeys((piece.rule, piece.role) for piece in self.own.pieces if piece.field == name)
        for number, role in rules:
            found = self._try(number, None, {})
            if isinstance(found, Worth) and found.measure is not None and not found.is_zero:
                over = time if role == "rate" else ONE
                self.hidden[name] = found if over is None else replace(found, measure=found.measure * over)
                break
        own = self.hidden[name].measure
        for number, role in rules:
            wanted = own if role != "rate" else None if own is None or time is None else own / time
            self._check_rule(number, f"the memory of {label}", wanted, "")

    def _hidden(self, name: str) -> Worth:
        """What a derived view is worth: the result of its rule, through the operation on it; or a layer's memory."""
        if name not in self.hidden and name in self.own.compiled.book.memories.by_name:
            self.hidden[name] = Worth(known=False)
            self._memory(name)
        if name not in self.hidden:
            self.hidden[name] = Worth(known=False)
            hidden = self.own.compiled.book.hidden.get(name)
            pieces = [piece for piece in self.own.pieces if piece.field == name]
            if hidden is not None and pieces:
                for number in dict.fromkeys(piece.rule for piece in pieces):
                    self._check_rule(number, hidden.label, None, "")
                found = self._try(pieces[0].rule, None, {})
                if isinstance(found, Worth):
                    self.hidden[name] = found if hidden.operation is None else self._operated(name, found)
        return self.hidden[name]

    def _operated(self, name: str, given: Worth) -> Worth:
        """What an operation makes of a unit: it is measured, by doubling its values and by stretching the grid."""
        hidden = [one.compiled.book.hidden[name] for one in (self.own, *self.copies)]
        signs = self.own.compiled.book.signs[hidden[0].source]
        shape = hidden[0].layout.space_shape
        values = np.random.default_rng(0).uniform(0.5, 1.0, shape)

        def apply(copy: int, times: float) -> np.ndarray:
            one = hidden[copy]
            assert one.operation is not None
            scope = (self.own, *self.copies)[copy].problem.scope
            known = one.operation.operands(scope.grid, one.layout, signs)
            arrays = {key: jnp.asarray(value, scope.real) for key, value in known.items()}
            return np.asarray(_apply(one.operation, jnp.asarray(values * times, scope.real), arrays))

        plain, twice = apply(0, 1.0), apply(0, 2.0)
        ratio = np.median(twice[plain != 0] / plain[plain != 0]) if np.any(plain) else 2.0
        power = Fraction(round(2 * float(np.log2(np.abs(ratio)))), 2) if ratio > 0 else Fraction(1)
        if not np.allclose(twice, 2.0 ** float(power) * plain, rtol=1e-3, atol=1e-6 * np.abs(plain).max()):
            return Worth(known=False, sources=given.sources)
        reference = np.max(np.abs(plain))
        tops = [reference, *(np.max(np.abs(apply(copy, 1.0))) for copy in range(1, len(hidden)))]
        length = self.follower.number(tops)
        if not length.known:
            return length
        if given.measure is None:
            return replace(length, sources=given.sources)
        return replace(given, measure=given.measure**power * (length.measure or ONE))

    def _explain(self, wrong: Exception, number: int, label: str, wanted: Measure | None, of: str) -> str:
        show = self.units.show
        if isinstance(wrong, UnitsNotTaken):
            assert wrong.argument.measure is not None
            blamed = self._blame(number, wanted, wrong.argument.sources, [(wrong.argument.measure, ONE)])
            text = (
                f"{label} takes `{wrong.function}` of what is in {show(wrong.argument.measure)}, not of a pure number"
            )
            return f"{blamed[0]}{text}{blamed[1]}."
        assert isinstance(wrong, UnitsDiffer)
        first, second = wrong.first, wrong.second
        assert first.measure is not None and second.measure is not None
        pairs = [(first.measure, second.measure), (second.measure, first.measure)]
        blamed = self._blame(number, wanted, first.sources | second.sources, pairs)
        label = label.replace("`rate ", "`").replace("`residual ", "`")
        if first.sources or not of:
            text = f"the terms of {label} have units {show(first.measure)} and {show(second.measure)}"
        elif of.startswith("the rate"):
            text = f"the terms of {label} have units {show(first.measure)} ({of}) and {show(second.measure)}"
        else:
            text = f"{label} gives {show(second.measure)}, and {of} is in {show(first.measure)}"
        alike = first.measure.exponents == second.measure.exponents
        return f"{blamed[0]}{text}{blamed[1]}." + " They differ in size alone." * alike

    def _blame(
        self, number: int, wanted: Measure | None, sources: frozenset[str], pairs: list[tuple[Measure, Measure]]
    ) -> tuple[str, str]:
        """The parameter most probably wrong, and the unit that it would fit in: one with which the rule is right."""
        scope = self.own.problem.scope.parameters
        names = [name for name in scope if name in sources]
        for name in names:
            own = self.units.measure(name)
            for got, meant in pairs:
                for power in _TRIED:
                    fits = (own or ONE) * (meant / got) ** power
                    if isinstance(self._try(number, wanted, {name: fits}), Worth):
                        # A value that was assigned stands in the name of its rule.
                        called = "" if name in self.units.extra else f"`{name}` {self.units.shown[name]}: "
                        return called, f"; in {self.units.show(fits)} it would fit"
        written_out = any(ONE in pair for pair in pairs)
        if len(names) == 1 and names[0] not in self.units.extra and not written_out:
            return f"`{names[0]}` {self.units.shown[names[0]]}: ", ""
        return "", "; numbers that a rule writes out have no unit, give one that has as a parameter"


@partial(jax.jit, static_argnums=0)
def _apply(operation: Any, values: Any, operands: Any) -> Any:
    return operation.apply(values, operands)


def _form(piece: Piece) -> tuple[Any, ...]:
    return (piece.field, piece.box, piece.rule, piece.role, piece.adds)
