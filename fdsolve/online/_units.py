"""Quantities in a stream: taken apart at the door, and put together in what it gives back."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from .._losses import check_arrays, traced_by_jax
from ..errors import DeclarationError
from ..planning import Plan
from ..units import is_quantity, magnitude, name_of, quantity, to_magnitudes, to_name, with_unit


class StreamUnits:
    """The units of parameters and inputs that were given as quantities, by name, and that of the loss."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._of = {name: value.unit for name, value in given.items() if is_quantity(value)}
        self.of_loss: Any = None
        """The unit of the loss, once it is known."""

    def know_loss(self, unit: Any) -> None:
        """Takes the unit of the loss from elsewhere, if it is known there."""
        self.of_loss = self.of_loss if unit is None else unit

    @staticmethod
    def describe(values: Mapping[str, Any]) -> str:
        """Arrays and quantities by name: their dtypes, shapes and units."""
        units = {name: f" {name_of(value.unit)}" for name, value in values.items() if is_quantity(value)}
        return ", ".join(f"{name} {v.dtype}{list(v.shape)}{units.get(name, '')}" for name, v in values.items())

    def attach(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Magnitudes by name as the quantities they stand for."""
        return {name: with_unit(value, self._of.get(name)) for name, value in values.items()}

    def detach(self, name: str, value: Any, what: str) -> Any:
        """A value that comes later as a magnitude. Raises DeclarationError where its unit is another."""
        unit = self._of.get(name)
        if unit is None and not is_quantity(value):
            return value
        if unit is None or not is_quantity(value):
            has, got = ("none", name_of(value.unit)) if unit is None else (name_of(unit), "none")
            raise DeclarationError(f"{what}: the unit of `{name}` is {has} at the start, and here {got}.")
        return to_magnitudes((value,), to_name(unit), f"{what}: values of `{name}`")[0][0]

    def fields(self, plan: Plan, arrays: Mapping[str, jax.Array]) -> dict[str, Any]:
        """Fields as quantities, where the declaration has quantities."""
        if plan.problem.units is None:
            return dict(arrays)
        units = {one.name: one.units for one in plan.problem.fields}
        return {name: quantity(array, units[name]) for name, array in arrays.items()}

    def measure(self, loss: Callable[[Any, Any], Any]) -> Callable[[Any, Any], jax.Array]:
        """A loss as a plain number; its unit is kept. Raises DeclarationError where it is not one real number."""

        def plain(state: Any, data: Any) -> jax.Array:
            with traced_by_jax("fd.online: the loss"):
                value = check_arrays(loss(state, data), "fd.online: the loss")
            if is_quantity(value):
                self.of_loss, value = value.unit, magnitude(value)
            number = jnp.asarray(value)
            if number.shape != () or not jnp.issubdtype(number.dtype, jnp.floating):
                raise DeclarationError(
                    f"fd.online: loss= gives one real number, and this gives {number.dtype} of shape {number.shape}. "
                    f"Add up: lambda state, data: jnp.sum((state['u'] - data) ** 2)."
                )
            return number

        return plain

    def loss(self, number: jax.Array) -> Any:
        """A loss in its unit."""
        return with_unit(number, self.of_loss)

    def gradient(self, gradient: Mapping[str, jax.Array]) -> dict[str, Any]:
        """A gradient in [loss]/[parameter]."""
        return {name: with_unit(array, self._slope(name)) for name, array in gradient.items()}

    def _slope(self, name: str) -> Any:
        loss, own = self.of_loss, self._of.get(name)
        known = ([] if loss is None else [loss]) + ([] if own is None else [own**-1])
        return math.prod(known[1:], start=known[0]) if known else None
