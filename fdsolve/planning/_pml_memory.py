"""Memory variables of absorbing layers: hidden fields held on their layer, one for each derivative, axis and side."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ..region import Layout
from ..stencil import Reader, RuleContext, StateRead, Traced, WholeRead, trace
from ..views import Shift
from ._near import NearWalls
from ._pml import Stretch, Stretcher, decay_share
from ._problem import Problem


class AbstractEvolution(ABC):
    """How a memory variable follows what drives it."""

    back: ClassVar[int]
    """The level of its own that it reads."""

    @abstractmethod
    def value(self, context: RuleContext, layer: Stretch, shift: Shift, own: Any, source: Any) -> Any:
        """Its value, or its rate, from its own and the source's."""


@dataclass(frozen=True)
class Recursive(AbstractEvolution):
    """ψⁿ = bψⁿ⁻¹ + a∂u from level to level. Source: Roden & Gedney (2000), equations 19 to 22."""

    back: ClassVar[int] = -1

    def value(self, context: RuleContext, layer: Stretch, shift: Shift, own: Any, source: Any) -> Any:
        b, a = (context.read_profile(layer.name(one), layer.axis, shift) for one in ("b", "a"))
        return b * own + a * source


@dataclass(frozen=True)
class Staged(AbstractEvolution):
    """The same to a stage of a step from the level before: b and a of the part of the step that has passed."""

    back: ClassVar[int] = -1

    def value(self, context: RuleContext, layer: Stretch, shift: Shift, own: Any, source: Any) -> Any:
        beta, gain = (context.read_profile(layer.name(one), layer.axis, shift) for one in ("beta", "gain"))
        passed = context.reader(WholeRead("passed"), (), context.scope.real)
        return jnp.exp(-beta * passed) * own - gain * passed * decay_share(beta * passed) * source


@dataclass(frozen=True)
class Continuous(AbstractEvolution):
    """dψ/dt = −(σ/κ + α)ψ − (σ/κ²)∂u, for steppers that take it among the rates."""

    back: ClassVar[int] = 0

    def value(self, context: RuleContext, layer: Stretch, shift: Shift, own: Any, source: Any) -> Any:
        beta, gain = (context.read_profile(layer.name(one), layer.axis, shift) for one in ("beta", "gain"))
        return -beta * own - gain * source


@dataclass(frozen=True, eq=False)
class Memory:
    """One memory variable: of which part of which difference of a rule, at which places, in which layer."""

    name: str
    layout: Layout
    target: Layout
    stretcher: Stretcher
    number: int
    part: int
    level: int
    layer: Stretch
    dtype: Any
    label: str

    @property
    def shift(self) -> Shift:
        """From the point of the rule that uses it to its own place and level."""
        halves = {a: Fraction(self.layout.shift(a) - self.target.shift(a), 2) for a in self.layout.space}
        return tuple(halves.get(axis, Fraction(self.level)) for axis in self.layout.grid.names)

    def rule(self, near: NearWalls, layers: tuple[Stretch, ...], evolution: AbstractEvolution) -> int:
        """Its own rule where it stands in some layers and near some walls."""
        book, rooms = self.stretcher.book, {}
        key = ("memory", self.name, near, tuple(layer.side for layer in layers), evolution)
        number = book.number(key, lambda: self._trace(near, layers, evolution, rooms))
        book.rooms.setdefault(number, rooms)
        return number

    def hold(self) -> int:
        """The rule that keeps its value from level to level."""

        def call(reader: Reader) -> tuple[Any, list[Any]]:
            return reader(StateRead(self.name, -1, (0,) * len(self.layout.space)), (), self.dtype), []

        return self.stretcher.book.number(("hold", self.name), lambda: trace(call, "a copy", self.dtype))

    def _trace(
        self, near: NearWalls, layers: tuple[Stretch, ...], evolution: AbstractEvolution, rooms: dict[str, int]
    ) -> Traced:
        stretcher, shift = replace(self.stretcher, layers=layers), self.shift
        book, scope = stretcher.book, stretcher.book.problem.scope
        walls = {(axis, upper): wall for axis, upper, wall in near}
        here = tuple(
            s if name in scope.grid.space else Fraction(0) for name, s in zip(scope.grid.names, shift, strict=True)
        )

        def call(reader: Reader) -> tuple[Any, list[Any]]:
            context = RuleContext(
                scope, self.target, reader, stretcher.what, stage=stretcher.stage, near=walls, rooms=rooms,
                notes=book.notes, stretcher=stretcher,
            )  # fmt: skip
            stretcher.evaluate(context)
            source = stretcher.source(context, context.enrolled[self.number], self.part, shift)
            own = context.read_hidden(self.name, self.layout, here, evolution.back)
            with jax.numpy_dtype_promotion("standard"):  # real coefficients meet complex fields
                return evolution.value(context, self.layer, here, own, source), context.shifted_constants

        return trace(call, f"The memory of {stretcher.what}", self.dtype)


@dataclass(eq=False)
class Memories:
    """The memory variables of a problem, found while rules are traced in layers."""

    problem: Problem
    by_name: dict[str, Memory] = field(default_factory=dict)
    _names: dict[Any, str] = field(default_factory=dict)

    def find(
        self, stretcher: Stretcher, target: Layout, view: Any, part: int, layer: Stretch, layout: Layout, level: int,
        dtype: Any,
    ) -> str:  # fmt: skip
        """The name of the variable for a part of a difference at some places; the same whoever asks."""
        key = (id(stretcher.function), target, stretcher.stage, view.number, part, layer.side, layout, level)
        if key not in self._names:
            name, scope = f"memory {len(self._names)}", self.problem.scope
            label = f"{view} in {layer.rule!r} at the {layer.side.word} end of {layer.axis}"
            self._names[key] = name
            self.by_name[name] = Memory(name, layout, target, stretcher, view.number, part, level, layer, dtype, label)
            scope.layouts[name], scope.dtypes[name] = layout, dtype
        return self._names[key]
