"""The context a rule is traced in: it turns reads at offsets into operands."""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
import xarray as xr
from jax.core import Tracer

from ..errors import PlanningError
from ..field import Along, Interpolate, Normal, Whole
from ..region import Layout, signature_of
from ..schemes import weights as finite_difference_weights
from ..views import AbstractContext, AbstractView, FieldView, Memo, ParameterView, Shift, show_shift
from ._operands import Misplaced, Operand, ProfileRead, StateRead, WholeRead
from ._scope import Labelled, Scope, Static

Reader = Callable[[Operand, tuple[int, ...], Any], jax.Array]
"""Gives the (traced) value of an operand of a shape and dtype."""


@runtime_checkable
class FieldResolver(Protocol):
    """Answers a read near a hole instead of the plain read: see `fdsolve.planning`."""

    def __call__(self, context: "RuleContext", name: str, level: int, offset: tuple[int, ...]) -> jax.Array: ...

    def sees(self, context: "RuleContext", derived: Any, shift: Shift) -> bool:
        """Whether what is stored of a view at a place is what the point sees there."""
        ...


@runtime_checkable
class Deriver(Protocol):
    """Makes the hidden field of a derived view, and gives its name: see `fdsolve.planning`."""

    def __call__(self, context: "RuleContext", derived: Any, level: int) -> str: ...


@runtime_checkable
class Stretcher(Protocol):
    """Answers for differences along an axis in a layer that stretches the coordinate: see `fdsolve.planning`."""

    def __call__(self, context: "RuleContext", view: Any, shift: Shift) -> Any: ...

    def check_read(self, context: "RuleContext", name: str, shift: Shift) -> None:
        """Refuses a read at an offset along a stretched axis that no operator made."""
        ...


AS_KEYWORD = "Pass it to `solve` as a keyword"
"""What to do about a name that a rule asks for and that is not known."""
_JITTED = type(jax.jit(lambda: None))
"""The class of what `jax.jit` returns."""


@dataclass(frozen=True)
class Near:
    """A wall beyond which some fields have no ghost values: its distance from the rule's point, and their names."""

    halves: int
    open: frozenset[str]


@dataclass(eq=False)
class RuleContext(AbstractContext):
    """Where a rule stands (`target`, moved by `base` points), what it may read, and who answers.

    `stage` marks a rate: it reads the stage and no older level. `wall` moves coordinates (not reads) by half steps, for
    coefficients of a condition on a wall between points; `level` moves all to an older level, whose values are read;
    `entry` is the index offset at which arrays assigned to a region are read, where that is not the point itself.
    `normal` is the outward direction of the wall that a boundary condition stands on.
    `near` holds the walls without ghost values that are close, by axis and side; `rooms` collects the axes along which
    an operator asked for them and for how many rows, `notes` what the plan is to tell. `registered` are the derived
    views of the rule so far, `lazy` their values where none are stored; `defining` is the number of the one that the
    rule is traced for. `partial` says that one
    of several results will be taken: what the others read may lie between the places of this one.
    """

    scope: Scope
    target: Layout
    reader: Reader
    what: str
    stage: bool = False
    may_read_fields: bool = True
    base: tuple[int, ...] = ()
    wall: dict[str, Fraction] = field(default_factory=dict)
    resolver: FieldResolver | None = None
    level: int = 0
    entry: tuple[int, ...] = ()
    normal: tuple[int, ...] | None = None
    near: Mapping[tuple[str, bool], Near] = field(default_factory=dict)
    deriver: Deriver | None = None
    stretcher: Stretcher | None = None
    enrolled: list[Any] = field(default_factory=list)
    depth: int = 0
    registered: list[tuple[AbstractView, Any]] = field(default_factory=list)
    lazy: Memo = field(default_factory=Memo)
    defining: int | None = None
    shifted_constants: list[Any] = field(default_factory=list)
    rooms: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    partial: bool = False

    def __post_init__(self) -> None:
        self.grid = self.scope.grid
        self.base = self.base or (0,) * len(self.grid.space)
        self.entry = self.entry or self.base

    def read_field(self, name: str, shift: Shift) -> jax.Array:
        layout, level = self.scope.layouts[name], self._level(name, shift)
        if self.partial and (misplaced := self._misplaced(name, layout, shift)):
            return self.reader(Misplaced(misplaced), (), self.scope.dtypes[name])
        offset = self._index_offset(name, layout, shift)
        if not self.may_read_fields:
            raise PlanningError(
                f"{self.what} reads `{name}`; here only coordinates, time and parameters are known. Put a condition on "
                f"the state into the rule, with jnp.where."
            )
        if self.stretcher is not None and self.depth == 0:
            self.stretcher.check_read(self, name, shift)
        if self.resolver is not None:
            return self.resolver(self, name, level, offset)
        return self.read_state(name, level, offset)

    def read_state(self, name: str, level: int, offset: tuple[int, ...]) -> jax.Array:
        """The value of a field at an index offset, as an operand."""
        return self.reader(StateRead(name, level, offset), (), self.scope.dtypes[name])

    def read_parameter(self, name: str, shift: Shift) -> jax.Array:
        spec = self.scope.parameters[name]
        assert isinstance(spec, Labelled)
        self.scope.used.add(name)
        layout = Layout(self.grid, spec.faces)
        if self.partial and (misplaced := self._misplaced(name, layout, shift, spec.axes)):
            return self.reader(Misplaced(misplaced), (), spec.dtype)
        offsets = self._index_offset(name, layout, shift, spec.axes)
        by_axis = dict(zip(self.grid.space, offsets, strict=True))
        if self.grid.time_name in spec.axes:
            by_axis[self.grid.time_name] = self._level(name, shift, any_level=True)
        offset = tuple(by_axis[axis] for axis in spec.axes)
        return self.reader(ProfileRead(f"parameter {name}", spec.axes, offset), (), spec.dtype)

    def read_coordinate(self, axis: str, shift: Shift) -> jax.Array:
        if axis == self.grid.time_name:
            return self._time()
        moved = list(shift)
        moved[self.grid.names.index(axis)] += self.wall.get(axis, Fraction(0))
        face, index = self._entity(axis, tuple(moved))
        name = f"coordinate {axis}" + (" face" if face else "")
        return self.reader(ProfileRead(name, (axis,), (index,)), (), self.scope.real)

    def read_weight(self, axis: str, derivative: int, offsets: tuple[float, ...], index: int, shift: Shift) -> Any:
        owner = self.grid.space_axis(axis)
        if owner.uniform:
            return float(finite_difference_weights(derivative, offsets)[index] / owner.step**derivative)
        face, at = self._entity(axis, shift)
        reach = ",".join(f"{o:g}" for o in offsets)
        name = f"weight {axis}{' face' if face else ''} {derivative} {reach} {index}"
        return self.reader(ProfileRead(name, (axis,), (at,)), (), self.scope.real)

    def read_measure(self, axis: str, name: str, shift: Shift, view: AbstractView | None = None) -> jax.Array:
        face, index = self._entity(axis, shift)
        ends = [f"mirrored-{end}" for end in ("lower", "upper") if self.scope.is_even(view, axis, end == "upper")]
        read = ProfileRead(" ".join(["measure", axis, *["face"] * face, *ends, name]), (axis,), (index,))
        return self.reader(read, (), self.scope.real)

    def note_shifted_constant(self, value: Any) -> None:
        if isinstance(value, Tracer):
            self.shifted_constants.append(value)

    def room(self, view: AbstractView, axis: str, shift: Shift, rows: int = 0) -> tuple[int | None, int | None]:
        wanted = rows + math.ceil(abs(shift[self.grid.names.index(axis)])) if rows else 0
        self.rooms[axis] = max(self.rooms.get(axis, 0), wanted)
        sources = view.sources()
        fields = sources & self.scope.layouts.keys()  # parameters count where there is nothing else
        moved = int(2 * shift[self.grid.names.index(axis)])
        ends: list[int | None] = []
        for upper in (False, True):
            wall = self.near.get((axis, upper))
            met = wall is not None and not wall.open.isdisjoint(fields or sources)
            ends.append(wall.halves + (-moved if upper else moved) if wall is not None and met else None)
        return ends[0], ends[1]

    def read_profile(self, name: str, axis: str, shift: Shift, dtype: Any = None) -> jax.Array:
        """The value of a profile of the planner's own, kept for points and, under another name, for faces."""
        face, index = self._entity(axis, shift)
        read = ProfileRead(name + (" face" if face else ""), (axis,), (index,))
        return self.reader(read, (), self.scope.real if dtype is None else dtype)

    def enroll(self, view: AbstractView) -> int:
        self.enrolled.append(view)
        return len(self.enrolled) - 1

    def stretched(self, view: Any, shift: Shift) -> Any:
        return None if self.stretcher is None else self.stretcher(self, view, shift)

    @contextmanager
    def within(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def register(self, view: AbstractView, operation: Any) -> int:
        self.registered.append((view, operation))
        return len(self.registered) - 1

    def name_derived(self, derived: Any, level: int) -> str:
        if self.deriver is None or not self.may_read_fields:
            raise PlanningError(
                f"{self.what} uses {derived}, which is computed at every point beforehand; coefficients of conditions "
                f"and predicates cannot. Make it a rule of a field of its own, and read that."
            )
        return self.deriver(self, derived, level)

    def read_derived(self, derived: Any, shift: Shift) -> jax.Array:
        unused = self.defining is not None and derived.number >= self.defining
        lazily = unused or (derived.operation is None and self._sees_its_own(derived, shift))
        if lazily and self.stretcher is None:
            return self.lazy.take((derived.number, shift), lambda: derived.view.value(shift))
        if lazily:
            return derived.view.value(shift)
        layout = self.layout_of(derived)
        if self.is_between(layout, shift):
            if derived.operation is None:
                return derived.view.value(shift)
            raise PlanningError(
                f"{self.what} reads {derived} between the places where it is computed. Read it half a step away."
            )
        if self.stretcher is not None:
            raise PlanningError(
                f"{self.what} uses {derived}, which acts on whole lines; a layer that absorbs waves stretches "
                f"derivatives by stencils only. Write it with `derivative`, or start the region outside the layer."
            )
        name = self.name_derived(derived, self.level_of(shift))
        return self.read_hidden(name, layout, shift)

    def _sees_its_own(self, derived: Any, shift: Shift) -> bool:
        """Whether a view has another value here than where it is stored: beside walls, beside holes, in layers."""
        apart = self.deriver is None or self.stretcher is not None
        if apart or any(not wall.open.isdisjoint(derived.view.sources()) for wall in self.near.values()):
            return True
        return self.resolver is not None and not self.resolver.sees(self, derived, shift)

    def is_between(self, layout: Layout, shift: Shift) -> bool:
        """Whether a shift leads between the places of a layout."""
        return any(self.parity(axis, shift) != layout.shift(axis) % 2 for axis in self.grid.space)

    def read_hidden(self, name: str, layout: Layout, shift: Shift, level: int = 0) -> jax.Array:
        """The value of a hidden field at the place `shift` away; the levels in `shift` are those that it stands for."""
        return self.read_state(name, level, self._index_offset(name, layout, shift))

    def level_of(self, shift: Shift) -> int:
        """The level that a shift leads to, seen from the one that the rule defines."""
        return self._level("a derived view", shift)

    def layout_of(self, view: AbstractView) -> Layout:
        """The points or faces on which a view lies; along an axis on which it lies anywhere, those of the rule."""
        faces = set()
        for axis in self.grid.space:
            parity = view.parity(axis)
            own = self.target.shift(axis) if parity is None else parity
            if own % 2 == self.grid.space_axis(axis).shift(True) % 2:
                faces.add(axis)
        return Layout(self.grid, frozenset(faces))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _time(self) -> jax.Array:
        now = self.reader(WholeRead("t"), (), self.scope.real)
        if self.level == 0:
            return now
        return now + self.level * self.reader(WholeRead("dt"), (), self.scope.real)

    def _level(self, name: str, shift: Shift, any_level: bool = False) -> int:
        if self.grid.time is None:
            return self.level
        moved = shift[self.grid.names.index(self.grid.time_name)]
        key = f"`{name}[{show_shift(shift, self.grid.names)}]`"
        if moved.denominator != 1:
            raise PlanningError(f"{self.what} reads {key}: time offsets are whole levels. Take the mean of two levels.")
        if moved > 0 and not any_level:
            raise PlanningError(
                f"{self.what} reads {key}, a later level, which is not known yet. "
                f'Read older levels ("{self.grid.time_name}-1") or the same one.'
            )
        if moved < 0 and self.stage and not any_level:
            raise PlanningError(
                f"{self.what} reads {key}, an older level; a rate is read at its stage only. "
                f"Drop the time offset, or assign a plain update rule instead of `fd.rate`."
            )
        return int(moved) + self.level

    def _index_offset(
        self, name: str, layout: Layout, shift: Shift, axes: tuple[str, ...] | None = None
    ) -> tuple[int, ...]:
        if misplaced := self._misplaced(name, layout, shift, axes):
            raise PlanningError(misplaced)
        among = self.grid.space if axes is None else axes
        return tuple(
            int(self._halves(layout, axis, shift)) // 2 + base if axis in among else 0
            for axis, base in zip(self.grid.space, self.base, strict=True)
        )

    def _misplaced(self, name: str, layout: Layout, shift: Shift, axes: tuple[str, ...] | None = None) -> str:
        """What to say of a read between the places of a layout; nothing where it is at one."""
        for axis in self.grid.space if axes is None else axes:
            if axis in self.grid.space and self._halves(layout, axis, shift) % 2:
                place = "faces" if axis in layout.faces else "points"
                key, lower, upper = (
                    f"`{name}[{show_shift(self._moved(shift, axis, half), self.grid.names)}]`" for half in (0, -1, 1)
                )
                return (
                    f"{self.what} reads {key}, which lies between the {place} of axis `{axis}` where `{name}` lives. "
                    f"Read it half a step away, {lower} or {upper}."
                )
        return ""

    def _halves(self, layout: Layout, axis: str, shift: Shift) -> Fraction:
        """How many half steps a read is away from the point of the rule that has the same index."""
        return self.target.shift(axis) + 2 * shift[self.grid.names.index(axis)] - layout.shift(axis)

    def _moved(self, shift: Shift, axis: str, halves: int) -> Shift:
        """A shift with some half steps more along one axis."""
        return tuple(s + Fraction(halves, 2) if n == axis else s for n, s in zip(self.grid.names, shift, strict=True))

    def _entity(self, axis: str, shift: Shift) -> tuple[bool, int]:
        """Whether the moved point lies on faces of the axis, and its index offset from the target."""
        owner, position = self.grid.space_axis(axis), self.grid.space.index(axis)
        halves = int(self.target.shift(axis) + 2 * shift[self.grid.names.index(axis)])
        face = owner.shift(True) == halves % 2
        return face, (halves - owner.shift(face)) // 2 + self.base[position]

    def zero_shift(self) -> Shift:
        """No offset."""
        return (Fraction(0),) * len(self.grid.names)

    def argument(self, name: str, parameter: inspect.Parameter) -> Any:
        """The value of a rule's argument, found by its name."""
        scope = self.scope
        if isinstance(parameter.default, Normal):
            return self._normal(name)
        if name in scope.layouts:
            return FieldView(name, scope.layouts[name], self)
        if name in self.grid.names:
            return self.read_coordinate(name, self.zero_shift())
        if name.startswith("d") and name[1:] in self.grid.names:
            return self._spacing(name[1:])
        if name in scope.parameters:
            spec = scope.parameters[name]
            scope.used.add(name)
            if isinstance(spec, Static):
                return spec.value
            if isinstance(spec, Labelled):
                return ParameterView(name, spec.axes, spec.faces, self)
            whole = self.reader(WholeRead(f"parameter {name}"), spec.shape, spec.dtype)
            return whole if spec.keys is None else jax.random.wrap_key_data(whole, impl=spec.keys)
        if isinstance(parameter.default, Along | Interpolate | Whole | xr.DataArray):
            raise PlanningError(
                f"{self.what}: the default of `{name}` is a labelled array, and a default is taken as it is. "
                f"{AS_KEYWORD}: {name}=..."
            )
        if parameter.default is not inspect.Parameter.empty:
            return parameter.default
        raise PlanningError(
            f"{self.what} asks for `{name}`, which is not known. Known are {scope.describe_known()}. "
            f"{AS_KEYWORD}: {name}=..."
        )

    def _normal(self, name: str) -> tuple[int, ...]:
        if self.normal is None:
            raise PlanningError(
                f"{self.what}: the argument `{name}` is the normal of a wall, which boundary conditions on walls and "
                f"holes know. Give such a condition this rule."
            )
        return self.normal

    def _spacing(self, axis: str) -> Any:
        if axis == self.grid.time_name:
            return self.reader(WholeRead("dt"), (), self.scope.real)
        owner = self.grid.space_axis(axis)
        if owner.uniform:
            return np.asarray(owner.step, self.scope.real)[()]
        face, index = self._entity(axis, self.zero_shift())
        return self.reader(
            ProfileRead(f"spacing {axis}" + (" face" if face else ""), (axis,), (index,)), (), self.scope.real
        )

    def call(self, function: Callable[..., Any]) -> Any:
        """Calls a rule with its arguments found by name; its result may be a view, taken at the point."""
        # A jitted rule would take views for arrays, and what jit is for is done anyway.
        function = inspect.unwrap(function, stop=lambda one: not isinstance(one, _JITTED))
        arguments, keywords = [], {}
        for name, parameter in signature_of(function, self.what).parameters.items():
            value = self.argument(name, parameter)
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                keywords[name] = value
            else:
                arguments.append(value)
        return function(*arguments, **keywords)
