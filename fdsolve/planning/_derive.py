"""Derived views become hidden fields: each is a rule of its own, traced in the context of the rule that uses it."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import PlanningError
from ..region import Layout
from ..stencil import Reader, RuleContext, StateRead, Traced, trace
from ..views import AbstractOperation
from ._beside import NearHoles, halves_between, holes_key
from ._holes import resolver_beside
from ._near import NearWalls
from ._seams import signs_of_rule, without_sign

Evaluate = Callable[[RuleContext], Any]


@dataclass(frozen=True, eq=False)
class Hidden:
    """One hidden field: where its points lie, which rule gives them, or which operation on which other hidden field.

    `owner` is the declared field whose rule asked for it first. `rule` gives the number of the rule near walls without
    ghost values and beside holes, or away from them.
    """

    name: str
    layout: Layout
    owner: str
    label: str
    rule: Callable[..., int]
    operation: AbstractOperation | None = None
    source: str = ""


@dataclass(frozen=True, eq=False)
class Deriver:
    """Makes the hidden fields of one rule: the same for every way the rule is traced, and for its components."""

    book: Any
    owner: str
    function: Any
    evaluate: Evaluate
    what: str
    stage: bool

    def __call__(self, context: RuleContext, derived: Any, level: int) -> str:
        layout = context.layout_of(derived)
        key = (id(self.function), context.target, self.stage, derived.number, level, layout)
        book = self.book
        if key not in book.hidden_names:
            source = self._hide(key, derived, level, layout)
            if derived.operation is not None:
                source = self._operate(derived, layout, source)
            book.hidden_names[key] = source
        return book.hidden_names[key]

    def _hide(self, key: Any, derived: Any, level: int, layout: Layout) -> str:
        """The hidden field with the values of the view itself."""
        book, scope = self.book, self.book.problem.scope
        target = scope.layouts[self.owner]
        name = f"derived {len(book.hidden)}"
        halves = halves_between(layout, target)
        by_axis = {axis: Fraction(h, 2) for axis, h in zip(layout.space, halves, strict=True)}
        shift = tuple(by_axis.get(axis, Fraction(level)) for axis in scope.grid.names)

        def rule(near: NearWalls = (), holes: NearHoles = ()) -> int:
            rooms: dict[str, int] = {}
            resolver = resolver_beside(book, holes, self.what, self.owner, halves)
            number = book.number(
                ("derived", *key, near, holes_key(holes)),
                lambda: self._trace(derived.number, shift, near, rooms, resolver),
            )
            book.rooms.setdefault(number, rooms)
            return number

        label = f"{derived.view} of {self.what}"
        book.hidden[name] = Hidden(name, layout, self.owner, label, rule)
        scope.layouts[name], scope.dtypes[name] = layout, np.dtype(bool)
        traced = book.rules[rule(())]
        scope.dtypes[name], book.signs[name] = traced.dtype, signs_of_rule(traced, book.signs, len(layout.space))
        return name

    def _trace(self, view_number: int, shift: Any, near: NearWalls, rooms: dict[str, int], resolver: Any) -> Traced:
        book, scope = self.book, self.book.problem.scope
        target = scope.layouts[self.owner]
        walls = {(axis, upper): wall for axis, upper, wall in near}

        def call(reader: Reader) -> tuple[Any, list[Any]]:
            context = RuleContext(
                scope, target, reader, self.what, stage=self.stage, near=walls, rooms=rooms, notes=book.notes,
                resolver=resolver, deriver=self, defining=view_number,
            )  # fmt: skip
            self.evaluate(context)
            view, _ = context.registered[view_number]
            return view.value(shift), context.shifted_constants

        return trace(call, self.what, scope.dtypes[self.owner], infer=True)

    def _operate(self, derived: Any, layout: Layout, source: str) -> str:
        """The hidden field with the result of the operation on the values in `source`."""
        book, scope = self.book, self.book.problem.scope
        operation, zero = derived.operation, (0,) * len(layout.space)
        name, signs = f"derived {len(book.hidden)}", book.signs[source]
        label = f"{operation} of {book.hidden[source].label}"
        for position in operation.crosses:
            if signs[position] == 0:
                raise PlanningError(f"{label}: {without_sign(layout.space[position])}")

        def copy() -> int:
            def make() -> Traced:
                def call(reader: Reader) -> tuple[Any, list[Any]]:
                    return reader(StateRead(source, 0, zero), (), scope.dtypes[source]), []

                return trace(call, "a copy", scope.dtypes[source])

            return book.number(("copy", source), make)

        for key, value in operation.operands(scope.grid, layout, signs).items():
            # Of NumPy: an array of JAX that is made while a rule is traced belongs to the trace.
            book.problem.store.wholes[f"{name} {key}"] = np.asarray(value, scope.real)
        book.hidden[name] = Hidden(name, layout, self.owner, label, copy, operation, source)
        scope.layouts[name], scope.dtypes[name] = layout, scope.dtypes[source]
        book.signs[name] = operation.signs(signs)
        return name
