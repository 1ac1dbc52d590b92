"""Methods of minimisation: optimistix and optax underneath, one step at a time."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError, RunError
from ._extras import load
from ._objective import Linear, Objective

NEVER = 1e-30  # tolerance of a solver that leaves it to us when to stop
DENSE = 256  # free variables up to which a Jacobian is held as a matrix
ANEW = 1e-6  # of the loss, below which a method with a line search begins again with what is left as the unit
SEARCHED = 3  # refused points of a search along a line that count as an iteration: each is half as far as the last
DAMPING = 1e-3  # of the curvature at the start, with which Levenberg–Marquardt begins (Marquardt's τ)


@dataclass(frozen=True, eq=False)
class Report:
    """One iteration: the point, its loss and gradient's norm, whether it is a new one, and why the method ends."""

    vector: jax.Array
    loss: float
    gradient_norm: float
    accepted: bool
    ended: str | None = None


def num_iterations(reports: Sequence[Report]) -> int:
    """As how many iterations reports count, where points that a search along a line refuses are only parts of one."""
    refused = sum(not one.accepted for one in reports)
    return len(reports) - refused + refused // SEARCHED


@dataclass(frozen=True, eq=False)
class AbstractMethod(ABC):
    """Moves a vector of free variables downhill; `name` is printed."""

    name: str
    max_iterations: int
    patience: int  # iterations without progress that mean an end

    @property
    @abstractmethod
    def wants_residuals(self) -> bool:
        """Whether the loss must be ½‖residuals‖²."""

    @property
    def takes_subsets(self) -> bool:
        """Whether the loss may differ from one iteration to the next."""
        return False

    @property
    def has_own_test(self) -> bool:
        """Whether the method itself tells when it is done."""
        return False

    def is_dense(self, size: int) -> bool:
        """Whether the method holds Jacobians by so many variables as matrices."""
        return False

    def rescaled(self) -> "AbstractMethod | None":
        """The same with variables of one size, where the search begins again; None where that is not known of it."""
        return None

    @abstractmethod
    def begin(self, objective: Objective, vector: jax.Array, steepness: float) -> Callable[[Any], Report]:
        """A function of the subset that takes one step; `steepness` is the norm of the gradient at the start."""


@dataclass(frozen=True, eq=False)
class Optimistix(AbstractMethod):
    """A least-squares solver or a minimiser of optimistix; `make` builds it for a number of free variables. `scaled`:
    variables are in units in which all columns of the Jacobian at the start are as long as the longest."""

    make: Callable[[int], Any]
    least_squares: bool
    ends_itself: bool = False
    scaled: bool = False

    @property
    def wants_residuals(self) -> bool:
        return self.least_squares

    @property
    def has_own_test(self) -> bool:
        return self.ends_itself

    @property
    def end(self) -> str:
        """Why it ends where its own test is met."""
        return "the solver's own test is met" if self.ends_itself else "steps are lost in rounding"

    def is_dense(self, size: int) -> bool:
        if not self.least_squares or size > DENSE:
            return False
        return isinstance(self.make(size), load("optimistix", "fd.invert").AbstractGaussNewton)

    def rescaled(self) -> "AbstractMethod | None":
        return replace(self, scaled=True) if self.least_squares and not self.scaled else None

    def begin(self, objective: Objective, vector: jax.Array, steepness: float) -> Callable[[Any], Report]:
        equinox, solver = load("equinox", "fd.invert"), self.make(vector.size)
        sharpen = math.sqrt(2 / DAMPING) / steepness if self.least_squares else 1.0
        if self.is_dense(vector.size) and objective.compiled is not None:
            return _begin_dense(self, solver, objective.compiled, vector, (sharpen / objective.unit**0.5, sharpen**2))
        value = (lambda v: objective.residuals(v) * sharpen) if self.least_squares else objective.loss
        unit = sharpen**2 if self.least_squares else 1.0
        shape, tags = jax.eval_shape(value, vector), frozenset()

        def function(v: jax.Array, _: Any) -> tuple[jax.Array, None]:
            return value(v), None

        def first(options: dict[str, Any]) -> Any:
            with jax.numpy_dtype_promotion("standard"):
                return equinox.filter_jit(lambda v: solver.init(function, v, None, options, shape, None, tags))(vector)

        options = {}
        try:
            state = first(options)
        except KeyError as error:
            raise DeclarationError(
                f"{self.name} wants options[{error.args[0]!r}], which fd.invert does not give. Take another solver, as "
                f"optimistix.BFGS(rtol=1e-6, atol=1e-6), and bounds= for limits."
            ) from error
        except TypeError as error:  # a derivative of the user's own, in reverse alone
            if "custom_vjp" not in str(error):
                raise
            options = dict(jac="bwd") if self.least_squares else {}
            state = first(options)

        @equinox.filter_jit
        def step(v: jax.Array, state: Any) -> Any:
            v, state, _ = solver.step(function, v, None, options, state, tags)
            ended, _ = solver.terminate(function, v, None, options, state, tags)
            loss, slope = _seen(state, function, v)
            return v, state, ended, loss / unit, jnp.linalg.norm(slope) / unit

        held, unseen = [vector, state, math.inf], not _is_known(state)

        def advance(subset: Any) -> Report:
            nonlocal unseen
            if unseen:  # the solver steps at once, and others look at the start first
                loss, slope = jax.jit(jax.value_and_grad(lambda v: _loss(value(v))))(vector)
                unseen = False
                return Report(vector, float(loss) / unit, float(jnp.linalg.norm(slope)) / unit, True)
            with jax.numpy_dtype_promotion("standard"):
                v, state, ended, loss, steep = step(held[0], held[1])
            moved = not bool(jnp.array_equal(v, held[0])) or held[2] == math.inf
            held[:] = [v, state, float(loss)]
            return Report(v, float(loss), float(steep), moved, self.end if ended else None)

        return advance


def _begin_dense(
    method: Optimistix, solver: Any, linearise: Callable[..., Linear], vector: jax.Array, scales: tuple[float, float]
) -> Callable[[Any], Report]:
    """Steps of a solver that looks at one point in each, `y_eval`: it is given the function linear there.

    The residuals it sees are `scale` times those of `linearise`; its loss is divided by `unit`. What is compiled with
    the solver is then linear algebra alone, and the function itself only once. If `scaled`, each variable is damped
    alike (Marquardt).
    """
    (scale, unit), equinox, tags, start = scales, load("equinox", "fd.invert"), frozenset(), linearise(vector)
    units = _units_of(start.both()[1]) if method.scaled else jnp.ones_like(vector)

    def model(point: jax.Array, seen: Linear) -> Callable[[jax.Array, Any], tuple[jax.Array, None]]:
        value, matrix = seen.both()
        return lambda v, _: (scale * (value + (matrix * units) @ (v - point)), None)

    @equinox.filter_jit
    def first(v: jax.Array, seen: Linear) -> Any:
        function = model(v, seen)
        return solver.init(function, v, None, {}, jax.eval_shape(lambda: function(v, None)[0]), None, tags)

    @equinox.filter_jit
    def step(v: jax.Array, state: Any, seen: Linear) -> Any:
        function = model(state.y_eval, seen)
        v, state, _ = solver.step(function, v, None, {}, state, tags)
        ended, _ = solver.terminate(function, v, None, {}, state, tags)
        loss, slope = state.f_info.as_min(), state.f_info.compute_grad()
        return v, state, ended, loss / unit, jnp.linalg.norm(slope / units) / unit

    with jax.numpy_dtype_promotion("standard"):
        held = [vector / units, first(vector / units, start), math.inf]

    def advance(subset: Any) -> Report:
        seen = linearise(held[1].y_eval * units)
        with jax.numpy_dtype_promotion("standard"):
            v, state, ended, loss, steep = step(held[0], held[1], seen)
        moved = not bool(jnp.array_equal(v, held[0])) or held[2] == math.inf
        held[:] = [v, state, float(loss)]
        return Report(v * units, float(loss), float(steep), moved, method.end if ended else None)

    return advance


def _units_of(matrix: jax.Array) -> jax.Array:
    """By column of a Jacobian how much shorter the longest one is to it; 1 for columns that are zero to rounding."""
    lengths = jnp.linalg.norm(matrix, axis=0)
    longest = jnp.max(lengths, initial=0.0)
    seen = lengths > float(jnp.finfo(matrix.dtype).eps) * longest
    return jnp.where(seen, longest / jnp.where(seen, lengths, jnp.ones_like(lengths)), jnp.ones_like(lengths))


def _seen(state: Any, function: Any, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Loss and gradient at an accepted point: what the solver has of them, else computed."""
    info = load("optimistix", "fd.invert").FunctionInfo
    known: Any = getattr(state, "f_info", None)
    if isinstance(known, info.ResidualJac):
        return known.as_min(), known.compute_grad()
    if isinstance(known, info.EvalGrad | info.EvalGradHessian | info.EvalGradHessianInv):
        return known.as_min(), known.grad
    return jax.value_and_grad(lambda v: _loss(function(v, None)[0]))(vector)


def _is_known(state: Any) -> bool:
    """Whether a solver keeps what the function is at the accepted point: it then looks there in its first step."""
    info = load("optimistix", "fd.invert").FunctionInfo
    kinds = (info.ResidualJac, info.EvalGrad, info.EvalGradHessian, info.EvalGradHessianInv)
    parts = jax.tree.leaves(state, is_leaf=lambda part: isinstance(part, kinds))
    return any(isinstance(part, kinds) for part in parts)


def _loss(value: jax.Array) -> jax.Array:
    return value if value.ndim == 0 else jnp.sum(value**2) / 2


@dataclass(frozen=True, eq=False)
class Optax(AbstractMethod):
    """A gradient transformation of optax; `make` builds it. `searches`: whether it looks along a line itself."""

    make: Callable[[], Any]
    searches: bool

    @property
    def wants_residuals(self) -> bool:
        return False

    @property
    def takes_subsets(self) -> bool:
        return not self.searches

    def begin(self, objective: Objective, vector: jax.Array, steepness: float) -> Callable[[Any], Report]:
        transformation = load("optax", "fd.invert").with_extra_args_support(self.make())

        @jax.jit
        def step(v: jax.Array, state: Any, subset: Any, unit: Any) -> Any:
            return _descend(transformation, self.searches, lambda w: objective.loss(w, subset) / unit, v, state)

        held = [vector, transformation.init(vector), 1.0, True]

        def advance(subset: Any) -> Report:
            here, _, unit, new = held
            with jax.numpy_dtype_promotion("standard"):
                v, state, loss, steep = step(here, held[1], subset, jnp.asarray(unit, here.dtype))
            found = Report(here, float(loss) * unit, float(steep) * unit, new)
            held[:] = [v, state, unit, True]
            if self.searches and 0 < float(loss) < ANEW:  # line searches tell a step by a loss of size 1
                held[:] = [here, transformation.init(here), unit * float(loss), False]
            return found

        return advance


def _descend(transformation: Any, searches: bool, loss: Callable[[Any], Any], v: jax.Array, state: Any) -> Any:
    """The next vector and state; the loss and its gradient's norm here."""
    optax = load("optax", "fd.invert")
    evaluate = optax.value_and_grad_from_state(loss) if searches else None
    value, slope = evaluate(v, state=state) if evaluate else jax.value_and_grad(loss)(v)
    change, state = transformation.update(slope, state, v, value=value, grad=slope, value_fn=loss)
    return optax.apply_updates(v, change), state, value, jnp.linalg.norm(slope)


def _gauss_newton(name: str) -> Callable[[int], Any]:
    """Makes Levenberg–Marquardt or Gauss–Newton: by QR or SVD for few variables, by products with J and Jᵀ for many."""

    def make(size: int) -> Any:
        optimistix, lineax = load("optimistix", f"The method {name}"), load("lineax", f"The method {name}")
        few = lineax.QR() if name == "LevenbergMarquardt" else _shortest(lineax)
        many = lineax.Normal(lineax.CG(rtol=1e-3, atol=NEVER, max_steps=400))
        return getattr(optimistix, name)(NEVER, NEVER, linear_solver=few if size <= DENSE else many)

    return make


@cache
def _shortest(lineax: Any) -> Any:
    """A solver by SVD, columns scaled to one size: where one vanishes (at a bound), its variable stays."""

    class ShortestStep(lineax.AbstractLinearSolver):
        def init(self, operator: Any, options: dict[str, Any]) -> Any:
            matrix = operator.as_matrix()
            sizes = jnp.linalg.norm(matrix, axis=0)
            sizes = jnp.where(sizes > 0, sizes, jnp.ones_like(sizes))
            return lineax.SVD().init(lineax.MatrixLinearOperator(matrix / sizes), options), sizes

        def compute(self, state: Any, vector: Any, options: dict[str, Any]) -> Any:
            found, result, stats = lineax.SVD().compute(state[0], vector, options)
            return found / state[1], result, stats

        def transpose(self, state: Any, options: dict[str, Any]) -> Any:
            raise RunError("The linear solver of Gauss–Newton has no transpose: fd.invert is not differentiated.")

        conj = transpose

        def assume_full_rank(self) -> bool:
            return False

    return ShortestStep()


def _bfgs(size: int) -> Any:
    return load("optimistix", "The method BFGS").BFGS(NEVER, NEVER)


BY_NAME: dict[str, AbstractMethod] = {
    "levenberg-marquardt": Optimistix("Levenberg–Marquardt", 100, 12, _gauss_newton("LevenbergMarquardt"), True),
    "gauss-newton": Optimistix("Gauss–Newton", 100, 12, _gauss_newton("GaussNewton"), True),
    "bfgs": Optimistix("BFGS", 500, 12, _bfgs, False),
    "l-bfgs": Optax("L-BFGS", 500, 5, lambda: load("optax", "The method L-BFGS").lbfgs(), True),
    "adam": Optax("Adam", 1000, 200, lambda: load("optax", "The method Adam").adam(1e-2), False),
}


def to_method(given: Any, objective: Objective, subsets: bool) -> AbstractMethod:
    """The method that a name or an object stands for; chosen where none is given."""
    chosen = _choose(given, objective, subsets)
    if chosen.wants_residuals and not objective.is_least_squares:
        part = "regularise= has a term that is a scalar" if objective.is_residuals else "the loss is a scalar"
        raise DeclarationError(
            f"{chosen.name} wants residuals, and {part}. Return the residuals themselves (½‖r‖² is taken of them), or "
            f'take method="l-bfgs".'
        )
    if subsets and not chosen.takes_subsets:
        raise DeclarationError(
            f'{chosen.name} wants the same loss at every iteration, and subsets= changes it. Take method="adam" or '
            f"another transformation of optax."
        )
    return chosen


def _choose(given: Any, objective: Objective, subsets: bool) -> AbstractMethod:
    if given is None:
        return BY_NAME["adam" if subsets else "levenberg-marquardt" if objective.is_least_squares else "l-bfgs"]
    if isinstance(given, AbstractMethod):
        return given
    if isinstance(given, str):
        if given not in BY_NAME:
            names = ", ".join(f'"{name}"' for name in BY_NAME)
            raise DeclarationError(f"method= takes {names}, or an object of optimistix or optax; got {given!r}.")
        return BY_NAME[given]
    family = type(given).__module__.partition(".")[0]
    if isinstance(given, tuple) and callable(getattr(given, "update", None)) and callable(getattr(given, "init", None)):
        searches = _searches_lines(given)
        return Optax("optax", 500 if searches else 1000, 5 if searches else 200, lambda: given, searches)
    if not isinstance(given, type):
        optimistix = load("optimistix", f"method= with an object of {family}")
        if isinstance(given, optimistix.AbstractLeastSquaresSolver):
            return Optimistix(type(given).__name__, 200, 12, lambda size: given, True, True)
        if isinstance(given, optimistix.AbstractMinimiser):
            return Optimistix(type(given).__name__, 500, 12, lambda size: given, False, True)
    raise DeclarationError(
        f'method= takes a name such as "l-bfgs", a solver of optimistix (optimistix.BFGS(rtol=1e-6, atol=1e-6)) or a '
        f"transformation of optax (optax.adam(0.01)); got {given!r}."
    )


def _searches_lines(given: Any) -> bool:
    """Whether the state of a transformation keeps a value, as those with a line search do; tries one step of it."""
    transformation, vector = load("optax", "fd.invert").with_extra_args_support(given), jnp.ones(1)
    try:
        with jax.numpy_dtype_promotion("standard"):
            state = transformation.init(vector)
            paths = jax.tree_util.tree_flatten_with_path(state)[0]
            searches = any(getattr(key, "name", None) == "value" for path, _ in paths for key in path)
            jax.eval_shape(lambda v, kept: _descend(transformation, searches, lambda w: w @ w, v, kept), vector, state)
    except Exception as error:  # of whatever kind, it is about the transformation
        why = str(error).strip().partition("\n")[0].rstrip(".")
        raise DeclarationError(
            f"method=: this transformation of optax takes no step of a vector of free variables, which is what "
            f"fd.invert moves: {why}. A line search wants store_grad=True; what goes by names of parameters, keeps two "
            f"sets of them or calls the loss in ways of its own does not serve."
        ) from error
    return searches


def relative(a: jax.Array, b: jax.Array) -> float:
    """The largest change of a vector, relative to 1 + its size."""
    here, there = np.asarray(a, float), np.asarray(b, float)
    return float(np.max(np.abs(here - there) / (1 + np.abs(here)), initial=0.0))
