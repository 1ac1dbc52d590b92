"""Derivatives carried forward in time by a method of one's choice: exact, or cheap and biased, or right in the mean."""

import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._tangents import replaced
from ..errors import DeclarationError, FdsolveWarning
from ._base import is_whole
from ._forward import Forward
from ._whole import AbstractWhole, Run, shapes_of
from .traces import (
    DRTRL,
    UORO,
    AbstractMethod,
    Exact,
    Follower,
    Following,
    ForwardGradient,
    PPProp,
    SnAp,
    Update,
    follow,
    make_update,
    stand_in,
)

_METHODS: dict[str, type[AbstractMethod]] = {
    "forward": Exact,
    "d_rtrl": DRTRL,
    "pp_prop": PPProp,
    "snap": SnAp,
    "uoro": UORO,
    "forward_gradient": ForwardGradient,
}
_CARRIED: dict[type, str] = {
    Exact: "entry of a parameter",
    SnAp: "colour of its pattern",
    UORO: "sample, and the parameters' own",
    ForwardGradient: "sample",
}
"""For what a method carries as many numbers as the state has."""
Method = str | AbstractMethod | Mapping[str, Any]
"""A method by name or as an object, or one of these for each parameter."""


def make_method(method: Any, options: Mapping[str, Any], what: str) -> AbstractMethod | dict[str, AbstractMethod]:
    """The method, or a dict of methods by parameter, that was asked for.

    Raises DeclarationError for unknown names and options.
    """
    if isinstance(method, Mapping):
        if options:
            raise DeclarationError(
                f"{what}: options go with one method, and there is one for each parameter. Give objects, as in "
                f'method=dict(K=fd.adjoint.traces.DRTRL("coupled")); got {", ".join(options)}.'
            )
        return {name: _one(each, {}, what) for name, each in method.items()}
    return _one(method, options, what)


def _one(method: Any, options: Mapping[str, Any], what: str) -> AbstractMethod:
    if isinstance(method, AbstractMethod):
        if options:
            raise DeclarationError(f"{what}: the method {method!r} has its options already; got {', '.join(options)}.")
        return method
    if not isinstance(method, str) or method not in _METHODS:
        known = ", ".join(f'"{name}"' for name in _METHODS)
        raise DeclarationError(
            f"{what}: method= is one of {known}, an object such as fd.adjoint.traces.SnAp(2), or a dict of these by "
            f"parameter; got {method!r}."
        )
    made = _METHODS[method]
    allowed = [name for name in made.__dataclass_fields__]  # type: ignore[attr-defined]
    wrong = [name for name in options if name not in allowed]
    if wrong:
        raise DeclarationError(
            f'{what}: the method "{method}" takes {", ".join(f"{n}=" for n in allowed)}; got {wrong[0]}=.'
        )
    return made(**options)


def warn_if_inexact(following: Following) -> None:
    """Warns of parameters whose gradient is not exact, naming the exact method."""
    rough = [row for row in following.report if not row.exact]
    if rough:
        shown = "; ".join(f"`{row.parameter}` ({row.method}: {row.because})" for row in rough)
        warnings.warn(
            f'These gradients are not exact: {shown}. method="forward" is exact, and for a parameter shared over a '
            f"field costs no more.",
            FdsolveWarning,
            stacklevel=4,
        )


class Online(AbstractWhole):
    """Marches traces beside the state, by a method of one's choice; memory does not grow with the number of steps.

    `method`: "forward" (exact, the default), "d_rtrl" (`rule`), "pp_prop" (`alpha_x`, `alpha_f`, `rule`), "snap"
    (`n`), "uoro" and "forward_gradient" (`seed`, `samples`), an object of `fd.adjoint.traces`, or a dict of these by
    parameter. `window`: within so many steps derivatives are taken by reversal. `otherwise="forward"` follows exactly
    what the method cannot. Only gradients are changed: tangents (jvp) stay exact.
    """

    def __init__(self, method: Method = "forward", *, window: Any = 1, otherwise: Any = None, **options: Any) -> None:
        self.method = make_method(method, options, "Online")
        self.otherwise = None if otherwise is None else _one(otherwise, {}, "Online, otherwise=")
        self.window = check_window(window, "Online")

    @property
    def _key(self) -> Any:
        method = tuple(sorted(self.method.items())) if isinstance(self.method, dict) else self.method
        return method, self.otherwise, self.window

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Online) and self._key == other._key

    def __hash__(self) -> int:
        return hash((Online, self._key))

    def __repr__(self) -> str:
        return f"Online({self.method!r})"

    def describe(self, count: int, state_bytes: int) -> str:
        known = _CARRIED.get(type(self.method))
        carried = f", {state_bytes} bytes for each {known}" if known is not None else ""
        return (
            f"{self!r}: traces beside the state{carried}, as many bytes after {count} steps as after one; the run is "
            f"marched once more"
        )

    def pull(self, run: Run, leaves: Sequence[Any], moving: Sequence[int], join: Any, cotangents: Any) -> list[Any]:
        exact = self.method if isinstance(self.method, Exact) else None
        if exact is not None and self.window == 1:
            return Forward(exact.memory).pull(run, leaves, moving, join, cotangents)
        if run.records:
            raise DeclarationError(
                f"{self!r} follows the fields, not what receivers record on the way. Take adjoint=fd.adjoint.Forward() "
                f"or fd.adjoint.Checkpointed(), or save levels."
            )
        names = _names(join(list(leaves)), moving)
        specs = tuple((tuple(jnp.shape(leaf)), np.dtype(jnp.result_type(leaf))) for leaf in leaves)
        following = _follow(self, run, specs, tuple(moving), join, tuple(names))
        update = following.update
        given = {name: leaves[k] for name, k in zip(names, moving, strict=True)}
        self._check(run, leaves, join, update, given)
        gradient = update.by_name(_march(run, leaves, join, update, following, cotangents, given, self.window))
        return [gradient[name].reshape(jnp.shape(given[name])) for name in names]

    def _check(self, run: Run, leaves: Sequence[Any], join: Any, update: Update, given: Any) -> None:
        """Asks the methods once more where numbers are known, which they are not when a run is traced."""
        if any(isinstance(leaf, Tracer) for leaf in leaves):
            return
        inputs = (list(leaves), (jnp.asarray(run.usual, jnp.int32),))
        point = (update.join(given), *update.packing.pack(run.begin(join(list(leaves)))), inputs)
        for one in self.method.values() if isinstance(self.method, dict) else [self.method]:
            one.check(update, point)


def check_window(window: Any, what: str) -> int:
    """A number of steps."""
    if not is_whole(window, 1):
        raise DeclarationError(f"{what}: window= is a number of steps, at least 1, got {window!r}.")
    return int(window)


def _names(tree: Any, moving: Sequence[int]) -> list[str]:
    """The names of the leaves that move, as parameters are called where they are."""
    paths, names = [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)], []
    for path in (paths[k] for k in moving):
        last = path[-1]
        key = str(last.key) if isinstance(last, jax.tree_util.DictKey) else jax.tree_util.keystr(path)
        names.append(key.removeprefix("parameter "))
    return [name if names.count(name) == 1 else f"{name} {k}" for name, k in zip(names, moving, strict=True)]


@lru_cache(maxsize=2)
def _follow(
    adjoint: Online, run: Run, specs: tuple[Any, ...], moving: tuple[int, ...], join: Any, names: tuple[str, ...]
) -> Following:
    """The method bound to a run: once, however often the run is traced."""
    with jax.ensure_compile_time_eval():  # the structure is found with concrete numbers, also while others trace
        update = _make_update(run, specs, moving, join, names)
        following = follow(update, adjoint.method, adjoint.otherwise)
    warn_if_inexact(following)
    return following


def _make_update(run: Run, specs: Sequence[Any], moving: Sequence[int], join: Any, names: Sequence[str]) -> Update:
    """The step of a run as an update, whose parameters are the leaves that move."""

    def operands(parameters: Mapping[str, Any], constants: Any) -> Any:
        return join(replaced(constants, moving, [parameters[name] for name in names]))

    def step(parameters: Any, carry: Any, number: Any, constants: Any) -> Any:
        return run.step(operands(parameters, constants), carry, number[0])

    def settled(parameters: Any, carry: Any, number: Any, constants: Any) -> Any:
        return run.settled(operands(parameters, constants), carry, number[0] - 1)

    held = [jax.ShapeDtypeStruct(*spec) if one is None else one for spec, one in zip(specs, run.known, strict=True)]
    own = {name: held[k] for name, k in zip(names, moving, strict=True)}
    shapes, form = shapes_of(lambda known: run.begin(join(known)), held)
    begun = form.unflatten([stand_in(one) for one in shapes])
    deep = any(len(levels) > 1 for levels in begun[0].levels.values())
    return make_update(
        step,
        own,
        begun,
        (jnp.asarray(run.usual, jnp.int32),),
        constants=held,
        first=lambda parameters, constants: run.begin(operands(parameters, constants)),
        look=run.look,
        is_deep=deep,
        settled=settled,
    )


def _march(
    run: Run,
    leaves: Sequence[Any],
    join: Any,
    update: Update,
    following: Following,
    cotangents: Any,
    own: Any,
    window: int,
) -> Any:
    """The gradient: traces marched beside the state, contracted with the cotangents of what is saved."""

    def loss(carry: Any, number: Any) -> Any:
        return run.score(carry, number[0], cotangents)

    follower = Follower(following, loss, window)
    theta, constants = update.join(own), list(leaves)
    state, aside = update.packing.pack(run.begin(join(constants)))
    number = (jnp.asarray(1, jnp.int32),)
    inputs = (constants, number)
    held = follower.start(theta, state, aside, inputs, number)
    first = jax.grad(lambda u: follower.measure(u, aside, (jnp.asarray(0, jnp.int32),)))(state)
    begun = following.gradient((theta, state, aside, inputs), held["traces"], first)

    def one(passed: Any, carry: Any) -> Any:
        number = (passed.astype(jnp.int32) + 1,)
        return follower.advance(carry, (constants, number), number)[0]

    return begun + jax.lax.fori_loop(0, run.last, one, held)["gradient"]
