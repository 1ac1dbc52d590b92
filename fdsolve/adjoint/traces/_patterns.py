"""Which numbers of a state depend on which, at any step; coloured so that few probes tell all."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import RunError
from ._dependence import spread_marks
from ._update import Point, Update

MAX_ENTRIES = 2**28
BATCH = 128
MOST_NUMBERED = 2**24
"""Numbers that single precision tells apart."""


def points_near(update: Update) -> list[Point]:
    """Points at which the structure is looked at: around the example, no number zero by chance."""
    theta, state, aside, inputs = update.example
    drawn, found = np.random.default_rng(7), []
    for _ in range(2):

        def near(value: Any, drawn: np.random.Generator = drawn) -> Any:
            if not jnp.issubdtype(jnp.result_type(value), jnp.inexact):
                return value
            array = np.asarray(value)
            size = np.abs(array[np.isfinite(array)]).max(initial=0.0) or 1.0
            moved = array * drawn.uniform(0.9, 1.1, array.shape) + 0.05 * size * drawn.uniform(0.2, 1.0, array.shape)
            return jnp.asarray(moved, jnp.result_type(value))

        found.append((near(theta), near(state), aside, (inputs[0], jax.tree.map(near, inputs[1]))))
    return found


def push_state(function: Any) -> Callable[[Point, Any], Any]:
    """The derivative of the next state along directions in the state, (point, direction) ↦ (N,), for a function
    (θ, u, aside, inputs) ↦ (u', …)."""

    def push(point: Point, direction: Any) -> Any:
        theta, state, aside, inputs = point
        return jax.jvp(lambda u: function(theta, u, aside, inputs)[0], (state,), (direction,))[1]

    return push


THETA, STATE = 0, 1
"""Which argument of a step a pattern is by."""


def mark(update: Update, function: Any, by: int | None, marks: Any, nudge: Any = None) -> Any:
    """What of a function (θ, u, aside, inputs) ↦ results depends on marked entries, of θ or of the state, at any step:
    marks of the results (see `spread_marks`). `by` None: of a `nudge` that the function takes before the others."""
    aside, inputs = jax.tree.map(lambda leaf: True, (update.example[2], update.example[3][1]))
    changes = (True, True, aside, (update.unknown, inputs))
    given = [jax.tree.map(lambda leaf: None, one) for one in update.example]
    if by is None:
        arguments = (nudge, *update.example)
        return spread_marks(function, arguments, (True, *changes), (marks, *given), marks.dtype)
    given[by] = marks
    return spread_marks(function, update.example, changes, tuple(given), marks.dtype)


def find_pattern(update: Update, function: Any, by: int, columns: np.ndarray, what: str) -> np.ndarray:
    """(rows, columns): which numbers of the first result of a function depend on which entries of θ or of the state,
    those of `columns`.

    Raises RunError where it would take too many of them.
    """
    rows, width = update.num_states, update.example[by].size
    if rows * len(columns) > MAX_ENTRIES:
        raise RunError(
            f"{what}: the pattern of a Jacobian of {rows} × {len(columns)} would be looked for; up to {MAX_ENTRIES} "
            f'entries are. Take method="forward" for few parameters, or adjoint=fd.adjoint.Checkpointed().'
        )
    found = np.zeros((rows, len(columns)), bool)
    if not len(columns):
        return found

    def reached(place: Any) -> Any:
        return mark(update, function, by, (jnp.arange(width) == place).astype(np.float32))[0] > 0

    with jax.ensure_compile_time_eval():
        batched = jax.jit(jax.vmap(reached))
        count = min(BATCH, len(columns))
        for start in range(0, len(columns), count):
            places = np.resize(columns[start : start + count], count)
            some = min(count, len(columns) - start)
            found[:, start : start + some] = np.asarray(batched(jnp.asarray(places)))[:some].T
    return found


def find_ends(function: Callable[[Any], Any], size: int) -> tuple[np.ndarray, np.ndarray]:
    """For each entry of a result the first and the last of so many entries on which it depends, −1 and −1 for none;
    `function` gives the marks of the result from those of the entries."""
    if size > MOST_NUMBERED:  # all entries, as far as is known
        return np.zeros(1, int), np.full(1, size - 1)
    numbers = np.arange(1, size + 1, dtype=float)
    with jax.ensure_compile_time_eval():
        both = jax.jit(jax.vmap(function))(jnp.asarray(np.stack([numbers, size + 1 - numbers])))
    last, first = (np.rint(np.asarray(one)).astype(int) for one in both)
    return np.where(last > 0, size - first, -1), np.where(last > 0, last - 1, -1)


def reach(first: np.ndarray, onward: np.ndarray, steps: int) -> np.ndarray:
    """The pattern of sensitivities after so many steps: what is reached at once, and from there by ∂u'/∂u."""
    found = first
    for _ in range(steps - 1):
        grown = first | carried(onward, found)
        if np.array_equal(grown, found):
            break
        found = grown
    return found


def carried(onward: np.ndarray, pattern: np.ndarray) -> np.ndarray:
    """The pattern of D S."""
    found = np.zeros_like(pattern)
    for row in np.flatnonzero(onward.any(1)):
        found[row] = pattern[onward[row]].any(0)
    return found


def colour(pattern: np.ndarray) -> np.ndarray:
    """A colour for each column, so that no row knows two columns of one colour.

    Columns in turn, c of them, where that serves (2 for fluxes, 2w + 1 for a band of w to either side); on a ring
    that c does not divide, blocks of c and of c + 1; else the first colour that is free.
    """
    columns = pattern.shape[1]
    least = int(pattern.sum(1).max(initial=1))
    for count in range(max(least, 1), max(least, 1) + 2):
        for candidate in (np.arange(columns) % count, _blocks(columns, count)):
            if _serves(pattern, candidate):
                return candidate
    found = np.full(columns, -1)
    for column in range(columns):
        near = pattern[pattern[:, column]].any(0)
        taken = set(found[near].tolist())
        found[column] = next(k for k in range(columns + 1) if k not in taken)
    return found


def _blocks(columns: int, count: int) -> np.ndarray:
    """Places within blocks that are as equal as can be, none shorter than `count`."""
    blocks = max(columns // count, 1)
    sizes = [columns // blocks + (k < columns % blocks) for k in range(blocks)]
    return np.concatenate([np.arange(size) for size in sizes]) if columns else np.zeros(0, int)


def _serves(pattern: np.ndarray, colours: np.ndarray) -> bool:
    many = int(colours.max(initial=-1)) + 1
    return all(pattern[:, colours == one].sum(1).max(initial=0) <= 1 for one in range(many))


def owners(pattern: np.ndarray, colours: np.ndarray, none: int) -> np.ndarray:
    """(colours, rows): which column a row knows by each colour; `none` for none."""
    many = int(colours.max(initial=-1)) + 1
    found = np.full((many, len(pattern)), none)
    for one in range(many):
        rows, columns = np.nonzero(pattern[:, colours == one])
        found[one, rows] = np.flatnonzero(colours == one)[columns]
    return found
