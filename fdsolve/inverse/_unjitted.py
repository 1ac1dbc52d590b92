"""A function without the `jax.jit` in it, so that it sees values."""

from collections.abc import Callable
from functools import partial
from types import CellType, FunctionType
from typing import Any

import jax

LIBRARIES = ("fdsolve", "jax", "numpy", "xarray")
"""Their functions stay as they are."""


def unjitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function where it, or one that it calls by a name, is under `jax.jit`, and none of these is.

    Those that are reached in other ways (attributes, entries) stay compiled.
    """
    return _without(function, {})


def _without(value: Any, known: dict[int, Any]) -> Any:
    if id(value) not in known:
        known[id(value)] = value  # one that calls itself stays as it is there
        known[id(value)] = _made(value, known)
    return known[id(value)]


def _made(value: Any, known: dict[int, Any]) -> Any:
    if isinstance(value, partial):
        return partial(_without(value.func, known), *value.args, **value.keywords)
    inner = getattr(value, "__wrapped__", None)
    if isinstance(value, jax.stages.Wrapped) and callable(inner):
        return _without(inner, known)
    if not isinstance(value, FunctionType) or value.__module__.partition(".")[0] in LIBRARIES:
        return value
    cells = value.__closure__ or ()
    inside = tuple(_in_cell(cell, known) for cell in cells)
    named = {name: value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__}
    others = {name: made for name, one in named.items() if (made := _without(one, known)) is not one}
    defaults = tuple(_without(one, known) for one in value.__defaults__ or ())
    before, after = (*cells, *(value.__defaults__ or ())), (*inside, *defaults)
    if not others and all(a is b for a, b in zip(before, after, strict=True)):
        return value
    made = FunctionType(value.__code__, {**value.__globals__, **others}, value.__name__, defaults or None, inside)
    made.__kwdefaults__ = value.__kwdefaults__
    return made


def _in_cell(cell: CellType, known: dict[int, Any]) -> CellType:
    try:
        value = cell.cell_contents
    except ValueError:  # not set yet
        return cell
    made = _without(value, known)
    return cell if made is value else CellType(made)
