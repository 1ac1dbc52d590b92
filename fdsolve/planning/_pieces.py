"""Pieces: one traced rule on one box, the unit that schedules order and kernels run."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import DeclarationError, PlanningError
from ..field import AbstractCondition, Along, Assignment, Interpolate, Rate, Whole, bare
from ..region import Box, Place, Predicate, place_window
from ..stencil import (
    ProfileRead,
    Reader,
    RuleContext,
    StateRead,
    Traced,
    constant_rule,
    describe_result,
    pick_component,
    take_value,
    trace,
)
from ..views import AbstractOperation
from ._arrays import check_range, label_assigned, warn_of_gaps
from ._beside import NearHoles, holes_key
from ._derive import Deriver, Hidden
from ._holes import resolver_beside
from ._layers import Damper, Standing
from ._near import NearWalls
from ._pml import Stretch, Stretcher
from ._pml_memory import Memories
from ._problem import Problem, to_precision
from ._seams import Signs, check_sign
from ._walls import Side

_ARRAYS = (Along, Whole, Interpolate, xr.DataArray)
_ANYWHERE = Standing()


@dataclass(frozen=True)
class Piece:
    """A rule on the points of a box: where `mask` (a profile's name) and `predicate` (a traced rule) hold.

    `rule` and `predicate` index the plan's list of traced rules. `role` is "value", "rate", "ghost" or "hole";
    `adds` adds to what stands there; `operation` acts on the rule's values at all points at once. Rates: `group` counts
    the `+=` up to this one, for splitting; `implicit` is as marked. `stretched` pieces stand in absorbing layers.
    `signs` are those with which an operation's results repeat beyond periodic ends, by axis.
    """

    field: str
    box: Box
    rule: int
    mask: str | None
    predicate: int | None
    role: str
    adds: bool
    label: str
    operation: AbstractOperation | None = None
    group: int = 0
    implicit: bool = False
    stretched: bool = False
    signs: Signs = ()

    @property
    def replaces(self) -> bool:
        """Whether it takes the place of pieces before it, at points that are told at run time."""
        return self.predicate is not None and not self.adds


class RuleBook:
    """Traces rules once for each way they are used, and numbers them."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.rules: list[Traced] = []
        self.rooms: dict[int, dict[str, int]] = {}
        self.notes: list[str] = []
        self.hidden: dict[str, Hidden] = {}
        self.hidden_names: dict[Any, str] = {}
        self.stored_beside: dict[Any, bool] = {}
        """Whether hidden fields hold, beside which holes, what the rules of which field see: as far as it was asked."""
        self.stretches: tuple[Stretch, ...] = ()
        self.paired: set[tuple[str, Side]] = set()
        self.memories = Memories(problem)
        self.slopes: dict[int, frozenset[str]] = {}
        self.copies: set[int] = set()
        """The rules that copy ghost points from the other end of a periodic axis."""
        self.signs: dict[str, Signs] = {}
        """Those of declared and hidden fields."""
        self._numbers: dict[Any, int] = {}

    def number(self, key: Any, make: Callable[[], Traced]) -> int:
        """The number of the rule under `key`, traced when first asked for."""
        if key not in self._numbers:
            made = make()  # first: tracing a rule may trace those of derived views, and number them
            self._numbers[key] = len(self.rules)
            self.rules.append(made)
        return self._numbers[key]

    def hides(self, name: str) -> bool:
        """Whether a field is a hidden one: of derived values, or a memory variable."""
        return name in self.hidden or name in self.memories.by_name

    def owner(self, name: str) -> str:
        """The declared field whose rule asked for a hidden one; that field itself for a declared one."""
        if name in self.memories.by_name:
            return self.memories.by_name[name].stretcher.owner
        return self.hidden[name].owner if name in self.hidden else name

    def reach(self, number: int) -> tuple[StateRead, ...]:
        """What a rule reads, through derived views that are nothing but stored to the fields behind them."""
        found: dict[StateRead, None] = {}
        for read in self.rules[number].reads:
            if read.field in self.memories.by_name:  # held wherever it is read
                continue
            hidden = self.hidden.get(read.field)
            if hidden is None or hidden.operation is not None:
                found[read] = None
                continue
            for inner in self.reach(hidden.rule()):
                offset = tuple(a + b for a, b in zip(read.offset, inner.offset, strict=True))
                found[StateRead(inner.field, read.level + inner.level, offset)] = None
        return tuple(found)

    def rooms_of(self, number: int) -> dict[str, int]:
        """The axes along which a rule's operators ask for room, and for how many rows; with those of derived views."""
        found = dict(self.rooms[number])
        for read in self.rules[number].reads:
            hidden = self.hidden.get(read.field)
            if hidden is None:
                continue
            inner = dict.fromkeys(hidden.layout.space, 0)
            if hidden.operation is None:
                inner = self.rooms_of(hidden.rule())
            for axis, offset in zip(hidden.layout.space, read.offset, strict=True):
                if axis in inner:
                    rows = inner[axis] + abs(offset) if inner[axis] else 0
                    found[axis] = max(found.get(axis, 0), rows)
        return found

    def constant(self, field_name: str, value: float) -> int:
        """The rule that gives a number."""
        dtype = self.problem.scope.dtypes[field_name]
        return self.number(("constant", np.dtype(dtype).str, value), lambda: constant_rule(value, dtype))

    def rule(
        self,
        name: str,
        index: int,
        assignment: Assignment,
        holes: NearHoles = (),
        near: NearWalls = (),
        standing: Standing = _ANYWHERE,
    ) -> int:
        """The rule of an assignment to field `name`, near `holes` and open walls or away from them."""
        key = ("rule", name, index, holes_key(holes), near, standing.key)
        rooms: dict[str, int] = {}
        slopes: set[str] = set()
        number = self.number(
            key, lambda: self._trace_rule(name, index, assignment, holes, near, standing, rooms, slopes)
        )
        self.rooms.setdefault(number, dict(rooms))
        self.slopes.setdefault(number, frozenset(slopes))
        return number

    def _trace_rule(
        self,
        name: str,
        index: int,
        assignment: Assignment,
        holes: NearHoles,
        near: NearWalls,
        standing: Standing,
        rooms: dict[str, int],
        slopes: set[str],
    ) -> Traced:
        scope, what = self.problem.scope, f"Rule {assignment.describe(name)}"
        layout, dtype = scope.layouts[name], scope.dtypes[name]
        stage = isinstance(assignment.rule, Rate)
        if stage and not jnp.issubdtype(dtype, jnp.inexact):
            raise DeclarationError(
                f"{what}: a rate moves a field by fractions, and `{name}` has dtype {np.dtype(dtype)}. Declare it with "
                f"dtype=float."
            )
        rule = bare(assignment.rule)
        if isinstance(rule, AbstractCondition):
            (rule,) = rule.coefficients
        evaluate = self.evaluator(name, index, assignment, rule, what)
        scale = self._place_weights(name, index, assignment)
        resolver = resolver_beside(self, holes, what, name, [0] * len(layout.space))
        deriver = Deriver(self, name, rule, evaluate, what, stage)
        layers = standing.stretches
        stretcher = Stretcher(self, name, rule, evaluate, what, stage, layers) if layers else None
        dampers = [Damper.of(self, name, layer) for layer in standing.layers]
        normal = standing.normal(len(layout.space))

        def call(reader: Reader) -> tuple[Any, list[Any]]:
            walls = {(axis, upper): wall for axis, upper, wall in near}
            context = RuleContext(
                scope, layout, reader, what, stage=stage, resolver=resolver, deriver=deriver, near=walls, rooms=rooms,
                notes=self.notes, normal=normal, stretcher=stretcher,
            )  # fmt: skip
            value = take_value(evaluate(context))
            slopes.update(view.axis for view in context.enrolled)
            if scale is not None:
                with jax.numpy_dtype_promotion("standard"):  # real weights meet complex sources
                    value = value * scale(reader)
            for damper in dampers:
                value = damper.damped(context, value, assignment.adds)
            return value, context.shifted_constants

        return trace(call, what, dtype)

    def evaluator(
        self, name: str, index: int, assignment: Assignment, rule: Any, what: str, part: int = 0
    ) -> Callable[[RuleContext], Any]:
        """A rule in any of its forms as a function of the context it is evaluated in."""
        scope = self.problem.scope
        layout, dtype = scope.layouts[name], scope.dtypes[name]
        if callable(rule) and not isinstance(rule, _ARRAYS) and not hasattr(rule, "dtype"):
            if assignment.component is None:
                return lambda context: context.call(rule)
            names, component = assignment.partners, assignment.component
            absent = [partner for partner in names if partner not in scope.layouts]
            if absent:
                raise PlanningError(
                    f"{what} sets {', '.join(names)} together, and `{absent[0]}` is missing. Solve them together: "
                    f"fd.solve(({', '.join(names)}))."
                )
            return lambda context: pick_component(replace(context, partial=True).call(rule), component, names, what)
        value = rule.array if isinstance(rule, Whole) else rule
        labelled = label_assigned(value, assignment, layout, what)
        key = f"value {name} {index} {part}"
        if labelled is None:
            number = value if isinstance(value, int | float | complex) and not isinstance(value, bool) else None
            if number is not None:
                check_range(number, dtype, what)
                return lambda context: jnp.asarray(number, _widen(dtype, number))
            array = to_precision(value, scope.real)
            return lambda context: array
        check_range(labelled.array, dtype, what)
        array = to_precision(labelled.array, scope.real)
        warn_of_gaps(array, labelled.axes, assignment, layout, what)
        self.problem.store.add_array(key, labelled.axes, layout.faces & frozenset(labelled.axes), array)
        axes = labelled.axes

        def read(context: RuleContext) -> Any:
            moved = {**dict(zip(layout.space, context.entry, strict=True)), scope.grid.time_name: context.level}
            offset = tuple(moved[axis] for axis in axes)
            return context.reader(ProfileRead(key, axes, offset), (), array.dtype)

        return read

    def _place_weights(self, name: str, number: int, assignment: Assignment) -> Callable[[Reader], Any] | None:
        """Weights of a place between points, one profile an axis."""
        region = assignment.region
        if not isinstance(region, Place):
            return None
        scope, store = self.problem.scope, self.problem.store
        layout, what = scope.layouts[name], f"{assignment.describe(name)} reaches"
        keys = []
        for axis, sign in zip(layout.space, self.signs[name], strict=True):
            check_sign(sign, axis, name, what)
            owner, face, at = layout.grid.space_axis(axis), axis in layout.faces, region.coordinates[axis]
            # Under jit, weights of known places are numbers: a hundred sources would make a program of weights else.
            with nullcontext() if isinstance(at, Tracer) else jax.ensure_compile_time_eval():
                index, share = place_window(owner, face, at, region.interpolation, scope.real, sign, read=False)
                spread = jnp.zeros(owner.size(face), scope.real).at[index].add(share)
            keys.append((axis, f"place {name} {number} {axis}"))
            store.add_array(keys[-1][1], (axis,), layout.faces & {axis}, spread)

        def scale(reader: Reader) -> Any:
            weights = [reader(ProfileRead(key, (axis,), (0,)), (), scope.real) for axis, key in keys]
            product = weights[0]
            for weight in weights[1:]:
                product = product * weight
            return product

        return scale

    def predicate(self, name: str, index: int, assignment: Assignment, predicate: Predicate) -> int:
        """A run-time condition at the points of a field."""
        what = f"The predicate of {assignment.describe(name)}"
        key = ("predicate", name, index, id(predicate))
        return self.number(
            key,
            lambda: trace(lambda reader: (self.holds(name, predicate, reader, what, ()), []), what, np.dtype(bool)),
        )

    def holds(self, name: str, predicate: Predicate, reader: Reader, what: str, base: tuple[int, ...]) -> jax.Array:
        """Whether a run-time condition holds at the point moved by `base`."""
        scope = self.problem.scope
        if predicate.operator == "leaf":
            context = RuleContext(scope, scope.layouts[name], reader, what, may_read_fields=False, base=base)
            assert predicate.function is not None
            result = jnp.asarray(take_value(context.call(predicate.function)))
            if result.dtype != bool or result.shape != ():
                raise DeclarationError(
                    f"{what} returned {describe_result(result)} of {result.dtype}; a predicate returns true or false "
                    f"at "
                    f"one point, as a comparison does."
                )
            return result
        parts = [self.holds(name, part, reader, what, base) for part in predicate.parts]
        if predicate.operator == "not":
            return ~parts[0]
        return parts[0] & parts[1] if predicate.operator == "and" else parts[0] | parts[1]


def _widen(dtype: Any, number: int | float | complex) -> Any:
    """The field's dtype, or a wider one that holds the number, so that a mismatch is noticed."""
    if isinstance(number, complex):
        return dtype if jnp.issubdtype(dtype, jnp.complexfloating) else jnp.result_type(complex)
    if isinstance(number, float) and not jnp.issubdtype(dtype, jnp.inexact):
        return jnp.result_type(float)
    return jnp.result_type(int) if np.dtype(dtype) == bool else dtype
