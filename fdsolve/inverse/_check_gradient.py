"""`fd.check_gradient`: is a gradient right? Taylor remainders and the dot-product test, as a table."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._losses import check_arrays, takes, traced_by_jax
from ..errors import DeclarationError
from ..units import plain
from ._names import by_name, check_names, named_leaves
from ._objective import to_vector
from ._verdict import Measured, Row, bends, compare, is_unsure, judge, norm, settle

NUM_STEPS = 8
EACH = "each"
SLOPE = {8: 1.9, 4: 1.8}  # least slope by bytes of a number; exact derivatives have 2, or more at special points
MATCH = {8: 1e-10, 4: 1e-3}  # of the dot-product test


@dataclass(frozen=True)
class GradientTable:
    """The rows of a test of gradients, true where none fails and none is hidden by rounding.

    `notes` says where there is no derivative, or none but zero.
    """

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return all(row.verdict in ("pass", "kink") for row in self.rows)

    def __repr__(self) -> str:
        count = sum(row.verdict == "pass" for row in self.rows)
        kinks = sum(row.verdict == "kink" for row in self.rows)
        fails = any(row.verdict == "fail" for row in self.rows)
        told = "passes" if self else "FAILS" if fails else "IS NOT TESTED"
        lines = [f"Gradient {told}: {count} of {len(self.rows)} directions pass"]
        lines[0] += f", {kinks} cross a kink" if kinks else ""
        for number, row in enumerate(self.rows):
            lines.append(f"direction {number}, along {row.along}: {row.verdict}, {row.reason}")
            lines[-1] += f"; ⟨Jv,w⟩ − ⟨v,Jᵀw⟩: {row.mismatch:.0e}"
            lines.append("   h         " + " ".join(f"{h:8.1e}" for h in row.steps))
            lines.append("   remainder " + " ".join(f"{r:8.1e}" for r in row.remainders))
            shown = (f"{s:8.2f}" if np.isfinite(s) else f"{'–':>8}" for s in (np.nan, *row.slopes))
            lines.append("   slope     " + " ".join(shown))
        return "\n".join([*lines, *self.notes])


def check_gradient(
    loss: Any, at: Any, *, directions: Any = 3, step: Any = None, slope: Any = None, match: Any = None, seed: Any = 0
) -> GradientTable:
    """Tests the derivatives of a function at a point; print the table, or ask `bool(table)`.

    Along random directions v the remainder ‖f(x ± hv) − f(x) ∓ hJv‖, the larger of both, must fall like h² as h is
    halved (slope 2, or more where the second derivative vanishes), and ⟨Jv, w⟩ = ⟨v, Jᵀw⟩ for a random w must hold to
    rounding. Where f has a kink the direction is marked so, with the parameters along which it bends; it does not fail
    while Jv is between the slopes on both sides, and is tested once more without these; kinks near x are told by
    smaller steps. A derivative that is not finite fails, and so does a jump. What runs in single precision anywhere on
    the way is tested as that. Where remainders are lost in rounding, the direction passes if differences tell Jv to
    1e-3 all the same (1e-2 in single), as for an affine f; otherwise it is "hidden", as under a large constant, and the
    table is not true.

    Arguments:
        loss: a function of a pytree; it may return a scalar or any pytree of arrays.
        at: x, a pytree of real arrays in single or double precision.
        directions: how many random directions, each entry of the size of its parameter; or "each": one along each
            parameter by itself, which tells whose derivative is wrong.
        step: the largest h, relative to the parameters; 0.1 in double precision, 0.5 in single.
        slope, match: the least slope and the largest relative mismatch; 1.9 and 1e-10 (1.8 and 1e-3 in single).
        seed: of the directions.

    Raises: DeclarationError for parameters that are integers or of half precision, where the function is not finite at
    x, and inside jit, grad or vmap.

    >>> table = check_gradient(lambda p: jnp.sin(p["a"]) * p["b"] ** 3, dict(a=0.3, b=1.2), directions=1)
    >>> print(repr(table).splitlines()[0], bool(table))
    Gradient passes: 1 of 1 directions pass True
    """
    with _outside_jit():
        return _check(loss, at, directions, step, slope, match, seed)


@contextmanager
def _outside_jit() -> Iterator[None]:
    try:
        yield
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise DeclarationError(
            "fd.check_gradient reads values that are traced; it runs outside jit, grad and vmap."
        ) from error


def _check(loss: Any, at: Any, directions: Any, step: Any, slope: Any, match: Any, seed: Any) -> GradientTable:
    point = _Point.of(loss, at)
    size = point.bytes
    limits = (_positive("slope", slope, SLOPE[size]), _positive("match", match, MATCH[size]))
    each = isinstance(directions, str) and directions == EACH
    if not each and (isinstance(directions, bool) or not isinstance(directions, Integral) or directions < 1):
        raise DeclarationError(f'directions= is a whole number of at least 1, or "{EACH}", got {directions!r}.')
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise DeclarationError(f"seed= is a whole number, 0 or more, got {seed!r}.")
    first = _positive("step", step, {8: 0.1, 4: 0.5}[size])
    draw, count = np.random.default_rng(int(seed)), len(point.leaves) if each else int(directions)
    vectors = draw.standard_normal((count, point.vector.size)) * point.sizes
    duals = draw.standard_normal((count, point.shape.size))
    if each:
        owners = np.repeat(np.arange(count), list(point.leaves.values()))
        vectors = np.where(owners == np.arange(count)[:, None], vectors, 0.0)
    measured = point.measure(vectors, duals, first * 0.5 ** np.arange(NUM_STEPS))
    along = list(point.leaves) if each else ["all"] * count
    alone = "pass" if any(one.gradient.any() for one in measured) else "fail"  # where nothing counts, nothing is tested

    def judged(found: list[Measured], names: list[str]) -> list[Row]:
        return [judge(one, name, first, limits, point.eps, alone) for one, name in zip(found, names, strict=True)]

    rows = _looked_at_closer(point, vectors, duals, judged(measured, along), limits)
    kinks = [row.verdict == "kink" for row in rows]
    if not any(kinks) and not any("not finite" in row.reason for row in rows):
        return GradientTable(tuple(rows), tuple(_silent(point, measured)))
    bent = point.find_bent()
    around = np.where(bent, 0.0, vectors)
    again = [k for k, kink in enumerate(kinks) if kink and bent.any() and around[k].any()]
    if again:  # a kink in one parameter says nothing of the others
        others = point.measure(around[again], duals[again], first * 0.5 ** np.arange(NUM_STEPS))
        rows += judged(others, [f"{along[k]} where f does not bend" for k in again])
    return GradientTable(tuple(rows), (*point.explain(bent), *_silent(point, measured)))


def _looked_at_closer(
    point: "_Point", vectors: np.ndarray, duals: np.ndarray, rows: list[Row], limits: tuple[float, float]
) -> list[Row]:
    """The rows, at smaller steps where these tell otherwise."""
    unsure = [k for k, row in enumerate(rows) if is_unsure(row)]
    if not unsure:
        return rows
    steps = rows[0].steps[-1] * 0.5 ** np.arange(1, NUM_STEPS + 1)
    closer = point.measure(vectors[unsure], duals[unsure], steps)
    found = {k: settle(one, rows[k], limits, point.eps) for k, one in zip(unsure, closer, strict=True)}
    return [found.get(k, row) for k, row in enumerate(rows)]


def _positive(name: str, given: Any, default: float) -> float:
    """An option that is a positive number; `default` where it is not given."""
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, int | float | np.number) or not 0 < given < np.inf:
        raise DeclarationError(f"{name}= is a positive number, got {given!r}. Take {name}={default:g}.")
    return float(given)


def _silent(point: "_Point", measured: "list[Measured]") -> list[str]:
    """Tells of parameters by which the gradient is zero in every entry, whatever the direction."""
    ends = np.cumsum([0, *point.leaves.values()])
    parts = dict(zip(point.leaves, pairwise(ends), strict=True))
    names = [name for name, (a, b) in parts.items() if not any(one.gradient[a:b].any() for one in measured)]
    if not names:
        return []
    return [
        f"The gradient by {', '.join(names)} is zero: f does not depend on it there, or comparisons, floor or "
        f"stop_gradient hide it."
    ]


def _to_array(name: str, value: Any) -> jax.Array:
    """A parameter as an array, checked."""
    try:
        array = jnp.asarray(value)
    except TypeError:
        raise DeclarationError(
            f"The parameter `{name}` is a {_shown(value)}; numbers in single or double precision and arrays of them "
            f"are wanted."
        ) from None
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise DeclarationError(
            f"The parameter `{name}` has dtype {array.dtype} and no derivative; a real floating dtype is wanted. "
            f"Convert it with .astype(float), or close the function over it."
        )
    if array.dtype.itemsize < 4:
        raise DeclarationError(
            f"The parameter `{name}` has dtype {array.dtype}, whose rounding hides what is tested. Test in float32."
        )
    if not np.isfinite(np.asarray(array)).all():
        raise DeclarationError(f"The parameter `{name}` is not finite. Test the gradient where all of them are.")
    return array


def _shown(value: Any) -> str:
    return f"{value.dtype} array" if isinstance(value, np.ndarray | np.generic) else type(value).__name__


def _size(array: jax.Array) -> float:
    """The root of the mean square; 0 of no entries."""
    return float(np.sqrt(np.mean(np.square(np.asarray(array, float))))) if array.size else 0.0


def _narrows(jaxpr: Any) -> bool:
    """Whether double precision becomes single somewhere in a program, or in those that it calls."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "convert_element_type":
            kinds = [var.aval.dtype for var in (*eqn.invars, *eqn.outvars)]
            if all(jnp.issubdtype(kind, jnp.inexact) for kind in kinds):
                before, after = (jnp.finfo(kind).bits for kind in kinds)
                if after < before:
                    return True
        called = jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda one: hasattr(one, "eqns"))
        if any(_narrows(getattr(one, "jaxpr", one)) for one in called if hasattr(one, "eqns")):
            return True
    return False


@dataclass(frozen=True, eq=False)
class _Point:
    """A function of one vector, with names of its parts."""

    function: Callable[[jax.Array], jax.Array]
    vector: jax.Array
    sizes: np.ndarray
    names: tuple[str, ...]
    leaves: dict[str, int]  # how many entries each has
    shape: Any
    bytes: int  # of the narrowest numbers on the way from the parameters to the values: 8 or 4

    @property
    def eps(self) -> float:
        return float(np.finfo({8: np.float64, 4: np.float32}[self.bytes]).eps)

    @classmethod
    def of(cls, loss: Any, at: Any) -> "_Point":
        if not callable(loss):
            raise DeclarationError(f"fd.check_gradient takes a function first, got {type(loss).__name__}.")
        if not takes(loss, 1):
            raise DeclarationError(
                "fd.check_gradient takes a function of one argument, a pytree like `at`. Put several parameters into a "
                "dict, or fix the others: fd.check_gradient(lambda p: loss(p, data), at)."
            )
        at = by_name(at)
        leaves = {name: _to_array(name, plain(leaf)) for name, leaf in named_leaves(at).items()}
        structure = jax.tree.structure(at)
        if not any(leaf.size for leaf in leaves.values()):
            raise DeclarationError("There are no parameters: `at` is empty.")
        dtype = jnp.result_type(*leaves.values())
        kinds = [(leaf.shape, leaf.dtype, leaf.size) for leaf in leaves.values()]
        ends = np.cumsum([size for *_, size in kinds])

        def function(vector: jax.Array) -> jax.Array:
            parts = [
                vector[end - size : end].reshape(shape).astype(kind)
                for end, (shape, kind, size) in zip(ends, kinds, strict=True)
            ]
            return to_vector(check_arrays(loss(jax.tree.unflatten(structure, parts)), "The function"), dtype)

        vector = jnp.concatenate([jnp.ravel(leaf).astype(dtype) for leaf in leaves.values()])
        roots = [_size(leaf) or 1.0 for leaf in leaves.values()]
        sizes = np.concatenate([np.full(leaf.size, root) for leaf, root in zip(leaves.values(), roots, strict=True)])
        names = tuple(
            f"{name}{list(map(int, np.unravel_index(k, leaf.shape))) if leaf.ndim else ''}"
            for name, leaf in leaves.items()
            for k in range(leaf.size)
        )
        try:
            with traced_by_jax("The function"):
                closed, shape = jax.make_jaxpr(function, return_shape=True)(vector)
        except KeyError:
            check_names("The function", loss, jax.tree.unflatten(structure, list(leaves.values())))
            raise
        if not shape.size:
            raise DeclarationError("The function returns nothing; a real scalar, or arrays of residuals, is wanted.")
        return cls(
            jax.jit(function),  # seen by Python once, however it is differentiated
            vector,
            sizes,
            names,
            {k: leaf.size for k, leaf in leaves.items() if leaf.size},
            shape,
            8 if dtype.itemsize == 8 and not _narrows(closed.jaxpr) else 4,
        )

    def measure(self, vectors: np.ndarray, duals: np.ndarray, steps: np.ndarray) -> list[Measured]:
        """What is found along each direction; the function is compiled once for all its values."""
        dtype, x = self.vector.dtype, self.vector
        shifts = np.concatenate([[0.0], steps, -steps])
        points = (shifts[None, :, None] * vectors[:, None, :]).reshape(-1, x.size)
        moved = jnp.asarray(points.astype(dtype)) + x
        values = np.asarray(jax.jit(lambda many: jax.lax.map(self.function, many))(moved), float)
        values = values.reshape(len(vectors), len(shifts), -1)
        if not np.isfinite(values[0, 0]).all():
            raise DeclarationError(
                "The function is not finite at the point itself; gradients there mean nothing. Look whether the run is "
                "unstable there, or test at another point."
            )
        v, w = jnp.asarray(vectors.astype(dtype)), jnp.asarray(duals.astype(dtype))
        back = np.asarray(jax.jit(lambda many: jax.lax.map(self._pull, many))(w), float)
        forward = self._forward(v)

        def one(k: int, vector: np.ndarray, dual: np.ndarray) -> Measured:
            if forward is None:  # in reverse alone: Jv along w is ⟨v, Jᵀw⟩, and f is looked at along w
                value, change, ups = values[k] @ dual[:, None], np.array([vector @ back[k]]), 0.0
            else:
                value, change = values[k], forward[k]
                ups = abs(change @ dual - vector @ back[k])
                ups = ups / max(float(norm(change)), np.finfo(float).tiny) / float(norm(dual))
            return compare(value, change, ups, steps, back[k], vector)

        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is told by the verdict
            return [one(k, *pair) for k, pair in enumerate(zip(vectors, duals, strict=True))]

    def _pull(self, dual: jax.Array) -> jax.Array:
        return jax.vjp(self.function, self.vector)[1](dual)[0]

    def _forward(self, vectors: jax.Array) -> np.ndarray | None:
        """Jv of each direction; None where the function has a derivative in reverse mode alone."""
        push = lambda one: jax.jvp(self.function, (self.vector,), (one,))[1]  # noqa: E731
        try:
            return np.asarray(jax.jit(lambda many: jax.lax.map(push, many))(vectors), float)
        except TypeError as error:
            if "custom_vjp" not in str(error):
                raise
            return None

    def find_bent(self) -> np.ndarray:
        """Marks the entries of the parameters along which the function bends; of the first 64."""
        count = min(self.vector.size, 64)
        basis = np.eye(count, self.vector.size) * self.sizes
        steps = 1e-2 * 0.5 ** np.arange(4)
        duals = np.random.default_rng(1).standard_normal((count, self.shape.size))
        measured = self.measure(basis, duals, steps)
        marks = np.zeros(self.vector.size, bool)
        marks[:count] = [bends(one, self.eps) is not None for one in measured]
        return marks

    def explain(self, marks: np.ndarray) -> list[str]:
        """By which entries of the parameters the function has no derivative, those that bend it among them."""
        bent = [name for name, mark in zip(self.names, marks, strict=True) if mark]
        whole = np.asarray(jax.jit(self._pull)(jnp.ones(self.shape.size, self.shape.dtype)), float)
        lost = [name for name, value in zip(self.names, whole, strict=True) if not np.isfinite(value)]
        notes = [f"Not differentiable by {', '.join(bent[:6])}: f bends there."] if bent else []
        if lost:
            notes.append(f"The gradient by {', '.join(lost[:6])} is not finite: look for roots and divisions at zero.")
        return notes
