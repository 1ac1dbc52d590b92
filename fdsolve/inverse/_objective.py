"""What is minimised: a loss, or residuals, of the parameters, with terms of regularisation."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._losses import check_arrays, takes, traced_by_jax
from ..errors import DeclarationError, NotFiniteWarning, UnstableWarning
from ..units import is_quantity, plain
from ._names import check_names
from ._regularise import AbstractTerm
from ._space import Space
from ._unjitted import unjitted

NO_SUBSET = None


class Linear(NamedTuple):
    """r of the data, (num,), its Jacobian, (num, size), and the same of regularisation."""

    data: jax.Array
    by_data: jax.Array
    prior: jax.Array
    by_prior: jax.Array

    def both(self) -> tuple[jax.Array, jax.Array]:
        """All residuals and their Jacobian."""
        return jnp.concatenate([self.data, self.prior]), jnp.concatenate([self.by_data, self.by_prior])


@dataclass(frozen=True, eq=False)
class Objective:
    """The function of the user with its regularisation, over vectors of free variables.

    `is_residuals`: the function gives residuals, and the loss is ½‖r‖². `unit` divides the loss, so that methods see
    one of size 1. Functions take a vector, (size,), and the subset, None where there are none. `compiled` is
    `linearise`, compiled once for all that want it: the check of the start, the method, and the covariance. `subsets`:
    of how many the residuals are, each with all of the regularisation. `plain`: the function as it was given, which
    sees values where `function` is traced.
    """

    space: Space
    function: Callable[..., Any]
    terms: tuple[AbstractTerm, ...]
    is_residuals: bool
    unit: float = 1.0
    compiled: Callable[[jax.Array], "Linear"] | None = None
    subsets: int = 1
    plain: Callable[..., Any] | None = None

    @property
    def is_least_squares(self) -> bool:
        """Whether all there is are residuals."""
        return self.is_residuals and all(term.is_residuals for term in self.terms)

    def over(self, space: Space) -> "Objective":
        """The same by the variables of another space."""
        made = replace(self, space=space, compiled=None)
        return replace(made, compiled=jax.jit(made.linearise)) if self.compiled is not None else made

    def _call(self, parameters: Any, subset: Any) -> Any:
        return self.function(parameters) if subset is None else self.function(parameters, subset)

    def data_residuals(self, vector: jax.Array, subset: Any = NO_SUBSET) -> jax.Array:
        """The residuals of the user's function alone, as they are, (num,)."""
        return to_vector(self._call(self.space.parameters(vector), subset), self.space.dtype)

    def data_loss(self, vector: jax.Array, subset: Any = NO_SUBSET) -> jax.Array:
        """The user's loss alone, as it is."""
        if self.is_residuals:
            return _half_square(self.data_residuals(vector, subset))
        return self._call(self.space.parameters(vector), subset).astype(self.space.dtype).reshape(())

    def residuals(self, vector: jax.Array) -> jax.Array:
        """All residuals, over √unit."""
        return jnp.concatenate([self.data_residuals(vector), self.prior_residuals(vector)]) / self.unit**0.5

    def prior_residuals(self, vector: jax.Array) -> jax.Array:
        """The residuals of regularisation, as they are; of the terms that are residuals."""
        parameters = self.space.parameters(vector)
        parts = [to_vector(term.residuals(parameters), self.space.dtype) for term in self.terms if term.is_residuals]
        return jnp.concatenate([jnp.zeros(0, self.space.dtype), *parts])

    def why_unsound(self, vector: jax.Array, subset: Any = NO_SUBSET) -> str | None:
        """What runs warn of where they see values: steps that are unstable, fields that are not finite."""
        assert self.plain is not None
        with warnings.catch_warnings(), suppress(Exception):  # what fails with values alone is no verdict
            warnings.simplefilter("ignore")
            for kind in (UnstableWarning, NotFiniteWarning):
                warnings.simplefilter("error", kind)
            try:
                replace(self, function=unjitted(self.plain))._call(self.space.parameters(vector), subset)
            except (UnstableWarning, NotFiniteWarning) as told:
                return str(told)
        return None

    def linearise(self, vector: jax.Array) -> "Linear":
        """Residuals of data and of regularisation, as they are, and their Jacobians as matrices."""
        return Linear(*_with_jacobian(self.data_residuals, vector), *_with_jacobian(self.prior_residuals, vector))

    def prior_loss(self, vector: jax.Array) -> jax.Array:
        """The terms of regularisation, as they are."""
        parameters, total = self.space.parameters(vector), jnp.zeros((), self.space.dtype)
        for term in self.terms:
            total = total + jnp.asarray(term(parameters)).astype(self.space.dtype).reshape(())
        return total

    def loss(self, vector: jax.Array, subset: Any = NO_SUBSET) -> jax.Array:
        """Loss and regularisation, over the unit."""
        return (self.data_loss(vector, subset) + self.prior_loss(vector)) / self.unit


def is_scalar(shape: Any) -> bool:
    """Whether a pytree of shapes is one scalar."""
    leaves, structure = jax.tree.flatten(shape)
    return len(leaves) == 1 and jax.tree_util.treedef_is_leaf(structure) and leaves[0].shape == ()


def to_vector(residuals: Any, dtype: Any) -> jax.Array:
    """A pytree of residuals as one vector; complex ones by real and imaginary parts."""
    parts = [jnp.zeros(0, dtype)]
    for leaf in jax.tree.leaves(residuals):
        array = jnp.asarray(leaf)
        both = [array.real, array.imag] if jnp.iscomplexobj(array) else [array]
        parts += [jnp.ravel(part).astype(dtype) for part in both]
    return jnp.concatenate(parts)


def _with_jacobian(function: Callable[[jax.Array], jax.Array], vector: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The function's value and its Jacobian, column by column; row by row where it has no forward derivative."""
    try:
        value, forward = jax.linearize(function, vector)
        return value, jax.vmap(forward, out_axes=1)(jnp.eye(vector.size, dtype=vector.dtype))
    except TypeError as error:  # a derivative of the user's own, in reverse alone
        if "custom_vjp" not in str(error):
            raise
        return function(vector), jax.jacrev(function)(vector)


def _half_square(residuals: jax.Array) -> jax.Array:
    return jnp.sum(residuals**2) / 2


def to_objective(function: Any, space: Space, terms: tuple[AbstractTerm, ...], subset: Any) -> Objective:
    """The objective of a function, checked by its output's shape."""
    if not callable(function):
        raise DeclarationError(
            f"fd.invert takes a function of the parameters first, got {type(function).__name__}. Write "
            f"fd.invert(lambda p: fd.misfit(fd.solve(u, kappa=p['kappa']), observations), dict(kappa=0.1))."
        )
    if subset is not None and not takes(function, 2):
        raise DeclarationError(
            "With subsets= the loss takes two arguments, the parameters and which subset: def loss(parameters, k)."
        )
    if subset is None and not takes(function, 1):
        raise DeclarationError(
            "The loss takes one argument, a pytree like `initial`: def loss(parameters). Where it also takes which "
            "subset of the data counts, say how many there are: subsets=8."
        )
    # One pass through Python for the checks and the method; a loss or residuals with units count in these.
    traced = jax.jit(
        lambda *given: check_arrays(jax.tree.map(plain, function(*given), is_leaf=is_quantity), "The loss")
    )
    bare = Objective(space, traced, terms, False)
    vector = jax.ShapeDtypeStruct((space.size,), space.dtype)
    try:
        with traced_by_jax("The loss"):
            shape = jax.eval_shape(lambda v, s: bare._call(space.parameters(v), s), vector, subset)
    except KeyError:
        rest = () if subset is None else (subset,)
        check_names("The loss", function, jax.eval_shape(space.parameters, vector), *rest)
        raise
    leaves = jax.tree.leaves(shape)
    if not leaves or not all(jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves):
        got = ", ".join(str(leaf.dtype) for leaf in leaves) or "nothing"
        raise DeclarationError(f"The loss returns {got}; a real scalar, or arrays of residuals, is wanted.")
    if is_scalar(shape) and jnp.issubdtype(leaves[0].dtype, jnp.complexfloating):
        raise DeclarationError("The loss is complex; a loss is a real number: take its abs()**2.")
    found = Objective(space, traced, terms, not is_scalar(shape), plain=function)
    return replace(found, compiled=jax.jit(found.linearise)) if found.is_least_squares else found


def check_start(objective: Objective, vector: jax.Array, subsets: Any, dense: bool) -> tuple[float, np.ndarray]:
    """The loss at the start with all terms, and its gradient; refuses nan, and parameters on which nothing depends.

    They are those of the first of `subsets`; the others are looked at where that one depends on less. `dense`: the
    method holds Jacobians as matrices, which then serve here too.
    """
    own, prior = _by_matrices(objective) if dense else _by_gradients(objective)
    value, slope = own(vector, subsets[0])
    if not np.isfinite(value):
        raise DeclarationError(
            f"The loss at the initial parameters is {float(value)}. Look whether the run is unstable there, whether "
            f"places among them lie off the grid, and whether the data hold nan that fd.misfit does not see."
        )
    _check_gradient(objective, np.asarray(slope), own, vector, subsets)
    if not objective.terms:
        return float(value), np.asarray(slope)
    extra, change = prior(vector)
    if not np.isfinite(extra) or not np.isfinite(change).all():
        raise DeclarationError("The regularisation of the initial parameters, or its gradient, is not finite.")
    return float(value) + float(extra), np.asarray(slope) + np.asarray(change)


def _by_gradients(objective: Objective) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Loss and gradient of the data, and of regularisation, in reverse."""
    return jax.jit(jax.value_and_grad(objective.data_loss)), jax.jit(jax.value_and_grad(objective.prior_loss))


def _by_matrices(objective: Objective) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The same as ½‖r‖² and Jᵀr."""
    compiled = objective.compiled or objective.linearise

    def own(vector: jax.Array, subset: Any) -> tuple[jax.Array, jax.Array]:
        seen = compiled(vector)
        return _half_square(seen.data), seen.data @ seen.by_data

    def prior(vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        seen = compiled(vector)
        return _half_square(seen.prior), seen.prior @ seen.by_prior

    return own, prior


def _check_gradient(objective: Objective, slope: np.ndarray, own: Any, vector: jax.Array, subsets: Any) -> None:
    """Each parameter must have a finite derivative, and count: a zero here and nearby is none."""
    space = objective.space
    silent = []
    for leaf, part in zip(space.leaves, space.split(slope), strict=True):
        if not np.isfinite(part).all():
            raise DeclarationError(
                f"The gradient of the loss by `{leaf.name}` is not finite at the initial parameters, though the loss "
                f"is. Look for roots, norms and divisions at zero: fd.check_gradient(loss, initial) shows where."
            )
        if not part.any():
            silent.append(leaf.name)
    shift = np.random.default_rng(0).uniform(0.05, 0.1, space.size)
    beside = space.inside(vector + jnp.asarray(shift.astype(space.dtype)))
    missing = silent
    for subset in subsets:
        if not missing:
            return
        parts = dict(zip(space.names, space.split(np.asarray(own(beside, subset)[1])), strict=True))
        missing = [name for name in missing if not parts[name].any()]
    if missing:
        names = " and ".join(f"`{name}`" for name in missing)
        every = "The loss does not" if len(subsets) == 1 else "In no subset does the loss"
        raise DeclarationError(
            f"{every} depend on {names}: its gradient is zero at the initial value and beside it. Look "
            f"whether the loss passes it on to the solve, and whether comparisons, floor or stop_gradient hide it; or "
            f"take it out of `initial`."
        )
