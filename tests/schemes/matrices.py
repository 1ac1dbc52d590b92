"""Operators as matrices: what they make of every unit vector, through a context that answers with unit vectors."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.region import Layout
from fdsolve.schemes import weights
from fdsolve.views import AbstractContext, AbstractView, FieldView, Shift

N = 21


def nodes(n: int = N) -> fd.Axis:
    return fd.Axis(0.0, 1.0, n)


def cells(n: int = N) -> fd.Axis:
    return fd.Axis(0.0, 1.0, n, cells=True)


def stretched(n: int = N) -> fd.Axis:
    s = np.linspace(0.0, 1.0, n)
    return fd.Axis.from_points(s - 0.08 * np.sin(2 * np.pi * s))


def stretched_cells(n: int = N) -> fd.Axis:
    s = (np.arange(n) + 0.5) / n
    return fd.Axis.from_points(s - 0.08 * np.sin(2 * np.pi * s), cells=True)


AXES: dict[str, Callable[..., fd.Axis]] = {
    "nodes": nodes,
    "cells": cells,
    "stretched": stretched,
    "stretched cells": stretched_cells,
}


@cache
def unit_vectors(size: int) -> list[jax.Array]:
    return [jnp.asarray(row) for row in np.eye(size)]


class BeyondWall(Exception):
    """A read outside the grid."""


class RowContext(AbstractContext):
    """One place of an axis: a read gives a unit vector, beyond both walls there is nothing."""

    def __init__(self, axis: fd.Axis, place: int, target: Layout) -> None:
        self.grid, self.target, self.what = fd.Grid(x=axis), target, "a test"
        self.axis, self.place = axis, place
        self.notes: list[str] = []

    def _halves(self, shift: Shift) -> int:
        return self.place + int(2 * shift[0])

    def read_field(self, name: str, shift: Shift) -> Any:
        halves = self._halves(shift)
        face = self.axis.shift(True) == halves % 2
        size, index = self.axis.size(face), (halves - self.axis.shift(face)) // 2
        if not 0 <= index < size:
            raise BeyondWall(index)
        return unit_vectors(size)[index]

    def read_parameter(self, name: str, shift: Shift) -> Any:
        raise AssertionError(f"the matrix of an operator has no parameters, and `{name}` was read")

    def read_coordinate(self, axis: str, shift: Shift) -> Any:
        return jnp.asarray(self.axis.position(self._halves(shift)))

    def read_weight(self, axis: str, derivative: int, offsets: tuple[float, ...], index: int, shift: Shift) -> Any:
        here = self._halves(shift)
        places = np.array([self.axis.position(here + round(2 * o)) for o in offsets]) - self.axis.position(here)
        return float(weights(derivative, places)[index])

    def read_measure(self, axis: str, name: str, shift: Shift, view: Any = None) -> Any:
        raise AssertionError(f"axis {axis} is straight, and its measure {name} was read")

    def note_shifted_constant(self, value: Any) -> None:
        """Plain values are numbers here."""

    def room(self, view: AbstractView, axis: str, shift: Shift, rows: int = 0) -> tuple[int | None, int | None]:
        return self._halves(shift), self.axis.num_halves - self._halves(shift)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def enroll(self, view: AbstractView) -> int:
        return 0

    def stretched(self, view: Any, shift: Shift) -> Any:
        return None

    def within(self) -> AbstractContextManager[None]:
        return nullcontext()


RowContext.__abstractmethods__ = frozenset()  # derived views are not for single rows


def matrix(
    axis: fd.Axis, operator: Callable[[AbstractView], Any], u_on: str = "point", on: str = "point"
) -> np.ndarray:
    """The matrix of an operator from a field on "point" or "face" to either; rows that leave the grid are nan."""
    grid = fd.Grid(x=axis)
    source, target = (Layout(grid, frozenset({"x"} if place == "face" else ())) for place in (u_on, on))
    rows = []
    for index in range(axis.size(on == "face")):
        context = RowContext(axis, 2 * index + axis.shift(on == "face"), target)
        try:
            rows.append(np.asarray(operator(FieldView("u", source, context)).value((Fraction(0),))))
        except BeyondWall:
            rows.append(np.full(axis.size(u_on == "face"), np.nan))
    return np.array(rows)
