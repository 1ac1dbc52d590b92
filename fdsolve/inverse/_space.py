"""The parameters of an inversion: a pytree of named arrays, and the vector of free variables a method moves."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ..errors import DeclarationError
from ..units import UnitName, in_words, is_quantity, plain, to_magnitudes, to_name, units_of, with_unit
from ._frame import Labels
from ._names import is_leaf, named_leaves
from ._transforms import AbstractTransform, Identity, extent, inside, within

NEAR = 1e-2
"""How well a transform and its inverse give a value back, relative to the largest."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """One named array of parameters, in its `unit` where it is a quantity, with its transform and its size in
    free variables. `units` is the name of its unit, as a quantity or a DataArray says it; None where it has none.
    `limits` are those within which a method keeps it by itself; `bounded`: its transform is one that keeps bounds=."""

    name: str
    value: np.ndarray
    transform: AbstractTransform
    dims: tuple[str, ...]
    coords: Mapping[str, Any]
    scale: float
    labelled: bool = False
    unit: Any = None
    units: str | None = None
    limits: tuple[float, float] = (-math.inf, math.inf)
    bounded: bool = False

    def straight(self) -> "Leaf":
        """The same with limits in place of a transform that keeps bounds."""
        if not self.bounded:
            return self
        limits, size = extent(self.transform)
        # A power of two, so that a variable at its limit gives the bound itself.
        return replace(self, transform=Identity(), scale=2.0 ** round(math.log2(size)), limits=limits, bounded=False)

    def to_parameter(self, free: jax.Array) -> jax.Array:
        """The array, of its own dtype and shape, from its part of the vector."""
        moved = free.astype(self.value.dtype).reshape(self.value.shape) * self.scale
        return self.transform.to_parameter(moved)

    def to_free(self) -> np.ndarray:
        """The part of the vector at the start."""
        with jax.numpy_dtype_promotion("standard"):
            return np.ravel(np.asarray(self.transform.to_free(jnp.asarray(self.value))) / self.scale)


@dataclass(frozen=True, eq=False)
class Space:
    """The leaves of a pytree, in its order; `vector` ↔ `parameters`.

    Where variables are held at those of a `base`, the vectors that give parameters are of the others, `where`.
    """

    leaves: tuple[Leaf, ...]
    structure: Any
    base: jax.Array | None = None
    where: np.ndarray | None = None

    @cached_property
    def dtype(self) -> Any:
        """That of the free variables: the widest there is, as solvers have it, whatever that of the parameters."""
        return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))

    @cached_property
    def rounding(self) -> float:
        """The relative rounding of the least exact parameter."""
        return max(float(jnp.finfo(leaf.value.dtype).eps) for leaf in self.leaves)

    @property
    def size(self) -> int:
        """The number of free variables."""
        return sum(leaf.value.size for leaf in self.leaves)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(leaf.name for leaf in self.leaves)

    @property
    def labels(self) -> dict[str, Labels]:
        """What each parameter says of itself."""
        return {leaf.name: Labels(leaf.dims if leaf.labelled else (), leaf.coords, leaf.units) for leaf in self.leaves}

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest that a method may make each free variable, (size,), where it keeps bounds."""
        low, high = (
            np.concatenate([np.full(leaf.value.size, leaf.limits[end] / leaf.scale) for leaf in self.leaves])
            for end in (0, 1)
        )
        return (low, high) if self.where is None else (low[self.where], high[self.where])

    def inside(self, vector: Any) -> Any:
        """The vector with variables beyond their limits at these."""
        low, high = self.limits
        return vector if not np.isfinite([low, high]).any() else jnp.clip(vector, *jnp.asarray([low, high], self.dtype))

    def straight(self) -> "Space":
        """The same for methods that keep bounds by themselves: without transforms that do."""
        return replace(self, leaves=tuple(leaf.straight() for leaf in self.leaves))

    def start(self) -> jax.Array:
        """The vector of the initial values, (size,)."""
        parts = [leaf.to_free() for leaf in self.leaves]
        for leaf, part in zip(self.leaves, parts, strict=True):
            if not np.isfinite(part).all():
                raise DeclarationError(
                    f"The transform of `{leaf.name}` does not reach its initial value: {leaf.transform!r} of it is not "
                    f"finite. Start inside its range, or leave the transform out."
                )
            again = np.asarray(leaf.to_parameter(jnp.asarray(part, self.dtype)), float)
            if again.shape != leaf.value.shape:
                raise DeclarationError(
                    f"The transform of `{leaf.name}` makes an array of shape {again.shape} of one of shape "
                    f"{leaf.value.shape}. It keeps shapes."
                )
            further = np.asarray(leaf.to_parameter(jnp.asarray(part + 1.0, self.dtype)), float) - again
            sizes = np.abs([*np.ravel(leaf.value), *np.ravel(further)])  # zero has the scale of its transform
            size = float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))
            if not np.allclose(again, leaf.value, rtol=NEAR, atol=NEAR * size):
                raise DeclarationError(
                    f"The transform of `{leaf.name}` does not invert itself: back and forth its initial value is "
                    f"{again.ravel()[0]:g} and was {leaf.value.ravel()[0]:g}. Give the function and its inverse: "
                    f"fd.inverse.Transform(jnp.exp, jnp.log)."
                )
        return jnp.asarray(np.concatenate(parts).astype(self.dtype))

    def parameters(self, vector: jax.Array) -> Any:
        """The pytree of parameters of a vector."""
        pairs = zip(self.leaves, self.split(self.whole(vector)), strict=True)
        arrays = [with_unit(leaf.to_parameter(part), leaf.unit) for leaf, part in pairs]
        return jax.tree.unflatten(self.structure, arrays)

    def whole(self, vector: Any) -> Any:
        """All variables, those that are held among them."""
        return vector if self.base is None else self.base.at[self.where].set(vector)

    def split(self, vector: Any) -> list[Any]:
        """The parts of a vector, one for each leaf."""
        ends = np.cumsum([leaf.value.size for leaf in self.leaves])
        return [vector[end - leaf.value.size : end] for leaf, end in zip(self.leaves, ends, strict=True)]


def to_space(initial: Any, bounds: Any, transform: Any) -> Space:
    """The space of an inversion, checked."""
    named, structure = named_leaves(initial), jax.tree.structure(initial, is_leaf=is_leaf)
    if not named:
        raise DeclarationError("There are no parameters: `initial` is empty. Give a dict: dict(kappa=0.1).")
    names = list(named)
    limits, maps = _by_name("bounds", bounds, names), _by_name("transform", transform, names)
    twice = sorted(set(limits) & set(maps))
    if twice:
        raise DeclarationError(
            f"`{twice[0]}` has both bounds and a transform; a transform keeps its own bounds. Leave one of the two out."
        )
    leaves = []
    for name, value in named.items():
        array, unit = _to_array(name, plain(value)), _unit_of(value)
        units = units_of(value) if unit is None else to_name(unit)
        dims, coords = _dims(name, value, array)
        chosen = maps.get(name, Identity())
        if not isinstance(chosen, AbstractTransform):
            raise DeclarationError(
                f"transform of `{name}`: an object such as fd.inverse.Exponential() or "
                f"fd.inverse.Transform(forward, inverse) is wanted, got {chosen!r}."
            )
        if name in limits:
            chosen = within(_in_unit(limits[name], units, name), array, name)
            array = inside(chosen, array)
        scale = 1.0
        if isinstance(chosen, Identity):
            size = float(np.sqrt(np.mean(np.abs(array.astype(float)) ** 2)))
            scale = size if size > 0 else 1.0
        labelled, bounded = isinstance(value, xr.DataArray), name in limits and not isinstance(chosen, Identity)
        leaves.append(Leaf(name, array, chosen, dims, coords, scale, labelled, unit, units, bounded=bounded))
    return Space(tuple(leaves), structure)


def _unit_of(value: Any) -> Any:
    """The unit of a quantity, or of a DataArray that was one, as `Inversion.to_xarray` gives it; None of others."""
    if is_quantity(value):
        return value.unit
    units = units_of(value)
    return units.unit if isinstance(units, UnitName) else None


def _in_unit(bounds: Any, units: str | None, name: str) -> Any:
    """Bounds in the unit of their parameter; plain numbers are in it."""
    if not isinstance(bounds, tuple | list) or not any(is_quantity(end) for end in bounds):
        return bounds
    if units is None:
        given = next(in_words(end) for end in bounds if is_quantity(end))
        raise DeclarationError(
            f"bounds of `{name}` have a unit, {given}, and its initial value has none. Give both one, or neither."
        )
    what = f"bounds of `{name}`"
    return tuple(to_magnitudes((end,), units, what)[0][0] if is_quantity(end) else end for end in bounds)


def _by_name(option: str, given: Any, names: list[str]) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(names) == 1:
            return {names[0]: given}
        raise DeclarationError(
            f"{option}= takes a dict by the names of parameters ({', '.join(names)}), got {given!r}."
        )
    given = {key if isinstance(key, str) else str(key): one for key, one in given.items()}
    unknown = [name for name in given if name not in names]
    if unknown:
        known = ", ".join(f"`{name}`" for name in names)
        raise DeclarationError(f"{option}=: there is no parameter `{unknown[0]}`; the parameters are {known}.")
    return given


def _to_array(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except jax.errors.TracerArrayConversionError:
        raise DeclarationError(
            f"The initial value of `{name}` is traced; fd.invert runs outside jit, grad and vmap."
        ) from None
    except TypeError:
        raise DeclarationError(
            f"The parameter `{name}` is a {type(value).__name__}; an array, a DataArray or a dict of them is wanted."
        ) from None
    if array.dtype.kind in "iub" and isinstance(value, int | float) and not isinstance(value, bool):
        raise DeclarationError(
            f"The parameter `{name}` is an integer, {value!r}, and has no derivative. Write {name}={float(value)}."
        )
    if not jnp.issubdtype(array.dtype, jnp.floating) or array.dtype.itemsize > 8:
        raise DeclarationError(
            f"The parameter `{name}` has dtype {array.dtype}; a real floating dtype is wanted. Convert it with "
            f".astype(float), or close the loss over what is not to be found."
        )
    if array.size == 0:
        raise DeclarationError(f"The parameter `{name}` has no entries: its shape is {array.shape}. Leave it out.")
    if not np.isfinite(array).all():
        raise DeclarationError(f"The initial value of `{name}` is not finite.")
    return np.asarray(array, jax.dtypes.canonicalize_dtype(array.dtype))


def _dims(name: str, value: Any, array: np.ndarray) -> tuple[tuple[str, ...], dict[str, Any]]:
    if isinstance(value, xr.DataArray):
        coords = {str(key): one.variable for key, one in value.coords.items()}
        return tuple(str(dim) for dim in value.dims), coords
    return tuple(f"{name}_{axis}" for axis in range(array.ndim)), {}
