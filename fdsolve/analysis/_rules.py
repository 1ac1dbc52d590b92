"""The assignments of a declaration, changed so that exact solutions solve it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..boundary import AntiPeriodic, Antisymmetric, Dirichlet, Extrapolate, Neumann, Periodic, Robin, Symmetric
from ..errors import PlanningError
from ..field import AbstractBoundary, Assignment, Rate, Residual, bare, describe_rule, normal
from ..grid import Grid, scaling_axes
from ..region import Layout, Place
from ..stencil import pick_component, take_value
from ..views import Exact
from ._exact import ReadByHand, World, exact_value
from ._modified import Equation

_NAMED = inspect.Parameter.KEYWORD_ONLY


@dataclass(frozen=True, eq=False)
class Target:
    """The problem that a declaration is turned into: exact solutions, and equations for rules read by hand.

    `equation` is the one that plain rules, or rates that read neighbours themselves, are consistent with; `depth` how
    many levels plain rules reach back.
    """

    world: World
    layouts: Mapping[str, Layout]
    equation: Equation | None
    depth: int

    @property
    def grid(self) -> Grid:
        """The declared grid: names of axes."""
        return self.world.grid


def solved_by(target: Target, name: str, one: Assignment) -> Assignment:
    """The assignment with its source, its wall values or its values taken from the exact solutions."""
    label = one.describe(name)
    if isinstance(one.region, Place):
        raise PlanningError(f"fd.manufactured: {label} acts at a point, which no smooth solution has; leave it out.")
    if isinstance(one.rule, AbstractBoundary):
        return replace(one, rule=_wall(target, name, one, label))
    if isinstance(one.rule, Rate):
        changed = Rate(_rate(target, name, one, label))
    elif isinstance(one.rule, Residual):
        changed = replace(one.rule, function=_residual(target, name, one, label))
    elif _reads_fields(target, one.rule) and _covers_last(one):
        changed = _plain(target, name, one, label)
    else:
        changed = _value(target, name)
        if one.adds:
            changed = 0.0
    return replace(one, rule=changed, component=None, partners=())


def _reads_fields(target: Target, rule: Any) -> bool:
    if not callable(rule) or hasattr(rule, "dtype"):
        return False
    return any(name in target.layouts for name in inspect.signature(rule).parameters)


def _covers_last(one: Assignment) -> bool:
    return any(term.levels[-1] for term in one.terms.terms)


def asked_names(one: Assignment) -> set[str]:
    """The names that the functions of an assignment ask for, predicates of its region included."""
    rule = bare(one.rule)
    found = list(rule.coefficients) if isinstance(rule, AbstractBoundary) else [rule]
    found += [one.rule.guess] if isinstance(one.rule, Residual) else []
    for term in one.terms.terms:
        found.extend(leaf.function for leaf in (term.predicate.leaves if term.predicate is not None else ()))
    functions = [part for part in found if callable(part) and not hasattr(part, "dtype")]
    return {name for function in functions for name in inspect.signature(function).parameters}


def with_arguments(function: Callable[..., Any], names: Mapping[str, Any]) -> Callable[..., Any]:
    """A function of keywords that is called by these names; values are defaults, or inspect's empty."""

    def called(**given: Any) -> Any:
        return function(given)

    called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, _NAMED, default=default) for name, default in names.items()]
    )
    called.__name__ = "manufactured"
    return called


def _axes(target: Target) -> dict[str, Any]:
    return dict.fromkeys(target.grid.names, inspect.Parameter.empty)


def _point(target: Target, given: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(given[axis] for axis in target.grid.names)


def _value(target: Target, name: str) -> Callable[..., Any]:
    exact = target.world.field(name)
    return with_arguments(lambda given: exact(_point(target, given)), _axes(target))


def _arguments_of(target: Target, rule: Callable[..., Any]) -> dict[str, Any]:
    own = {name: parameter.default for name, parameter in inspect.signature(rule).parameters.items()}
    return {**own, **{axis: own.get(axis, default) for axis, default in _axes(target).items()}}


def _call(rule: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    positional, keywords = [], {}
    for name, parameter in inspect.signature(rule).parameters.items():
        if parameter.kind is _NAMED:
            keywords[name] = given[name]
        else:
            positional.append(given[name])
    return rule(*positional, **keywords)


def _picked(one: Assignment, result: Any, label: str) -> Any:
    if one.component is None:
        return take_value(result)
    return take_value(pick_component(result, one.component, one.partners, label))


def _plus(value: Any, source: Any) -> Any:
    with jax.numpy_dtype_promotion("standard"):
        return value + source


def _rate(target: Target, name: str, one: Assignment, label: str) -> Any:
    """f + ∂(exact)/∂t − f(exact); a rate that is added cancels its own part alone."""
    time = target.grid.time_name
    assert time is not None and isinstance(one.rule, Rate)
    rule = one.rule.function
    zero: Exact = lambda point: jnp.zeros_like(target.world.field(name)(point))  # noqa: E731
    wanted = zero if one.adds else target.world.derivative(target.world.field(name), time)
    if not callable(rule) or hasattr(rule, "dtype"):
        return with_arguments(lambda given: wanted(_point(target, given)), _axes(target))

    def balanced(given: Mapping[str, Any]) -> Any:
        point = _point(target, given)
        if target.equation is None:
            known = _picked(one, exact_value(rule, target.world, target.layouts[name], given, label, True), label)
        else:
            known = _right_side(target, target.equation, name)(point)
        return _plus(_picked(one, _call(rule, given), label), _plus(wanted(point), -known))

    return with_arguments(balanced, _arguments_of(target, rule))


def _residual(target: Target, name: str, one: Assignment, label: str) -> Any:
    """f − f(exact), which is zero for exact solutions; of an equation that adds to others, its own part."""
    rule = bare(one.rule)
    if not callable(rule) or hasattr(rule, "dtype"):
        return 0.0

    def balanced(given: Mapping[str, Any]) -> Any:
        try:
            found = exact_value(rule, target.world, target.layouts[name], given, label, False)
        except ReadByHand:
            raise PlanningError(
                f"fd.manufactured: {label} reads neighbours or older levels by hand; which derivatives an equation "
                f"then stands for is not told. Write it with operators, such as fd.schemes.laplacian(u), and what "
                f"changes in time as fd.rate(...) with an implicit stepper."
            ) from None
        return _plus(_picked(one, _call(rule, given), label), -_picked(one, found, label))

    return with_arguments(balanced, _arguments_of(target, rule))


def _right_side(target: Target, equation: Equation, name: str) -> Exact:
    """Σ a ∂ᵅ(exact) of the equation of a field."""
    row, terms = equation.names.index(name), []
    for (time, powers), matrix in equation.terms.items():
        for other, weight in zip(equation.names, matrix[row], strict=True):
            if weight:
                terms.append((weight, _differentiated(target, other, time, powers)))

    def total(point: tuple[Any, ...]) -> Any:
        result = jnp.zeros_like(target.world.field(name)(point))
        for weight, term in terms:
            value = term(point)
            factor = weight if jnp.issubdtype(result.dtype, jnp.complexfloating) else weight.real
            result = result + jnp.asarray(factor, result.dtype) * value.astype(result.dtype)
        return result

    return total


def _differentiated(target: Target, name: str, time: int, powers: tuple[int, ...]) -> Exact:
    found = target.world.field(name)
    for axis, power in zip(target.grid.space, powers, strict=True):
        found = target.world.derivative(found, axis, power) if power else found
    assert target.grid.time_name is not None
    return target.world.derivative(found, target.grid.time_name, time) if time else found


def _plain(target: Target, name: str, one: Assignment, label: str) -> Any:
    """rule + Δtᵍ (∂ᵍ(exact)/∂tᵍ − right side), in the middle of the levels read; others + what exact leaves over."""
    rule, time = one.rule, target.grid.time_name
    if target.equation is None or name not in target.equation.names or one.adds:

        def follows(given: Mapping[str, Any]) -> Any:
            known = _picked(one, exact_value(rule, target.world, target.layouts[name], given, label, False), label)
            wanted = jnp.zeros_like(known) if one.adds else target.world.field(name)(_point(target, given))
            return _plus(_picked(one, _call(rule, given), label), _plus(wanted, -known))

        return with_arguments(follows, _arguments_of(target, rule))
    order = target.equation.time_order
    assert time is not None
    change = target.world.derivative(target.world.field(name), time, order)
    right, position, depth = _right_side(target, target.equation, name), target.grid.names.index(time), target.depth

    def balanced(given: Mapping[str, Any]) -> Any:
        step, point = given[f"d{time}"], list(_point(target, given))
        point[position] = point[position] - 0.5 * depth * step
        source = change(tuple(point)) - right(tuple(point))
        return _plus(_picked(one, _call(rule, given), label), (step**order).astype(source.dtype) * source)

    arguments = {**_arguments_of(target, rule), f"d{time}": inspect.Parameter.empty}
    return with_arguments(balanced, arguments)


def _slope(target: Target, name: str) -> Callable[[Mapping[str, Any]], Any]:
    """∂(exact)/∂n along the outward normal, 1/h ∂(exact)/∂q across an angle."""
    exact, world = target.world.field(name), target.world
    parts = [_by_length(target, world.derivative(exact, axis), axis) for axis in target.grid.space]

    def slope(given: Mapping[str, Any]) -> Any:
        point = _point(target, given)
        found = [part(point) * int(sign) for part, sign in zip(parts, given["outward"], strict=True) if sign]
        return sum(found[1:], found[0])

    return slope


def _by_length(target: Target, slope: Exact, axis: str) -> Exact:
    inverse = [target.world.measure(other, "inverse scale") for other in scaling_axes(target.grid.axes, axis)]
    return lambda point: prod([one(point) for one in inverse], start=slope(point))


def _wall(target: Target, name: str, one: Assignment, label: str) -> Any:
    """The condition with the data of the exact solution."""
    exact, slope, condition = target.world.field(name), _slope(target, name), one.rule
    normals = {**_axes(target), "outward": normal}
    if isinstance(condition, Dirichlet):
        return replace(condition, value=_value(target, name))
    if isinstance(condition, Neumann):
        return replace(condition, flux=with_arguments(slope, normals))
    if isinstance(condition, Robin):
        parts = [_coefficient(part, label) for part in (condition.a, condition.b)]

        def mixed(given: Mapping[str, Any]) -> Any:
            a, b = (part(given) for part, _ in parts)
            value = exact(_point(target, given))
            with jax.numpy_dtype_promotion("standard"):
                return a * value + b * slope(given)

        return replace(condition, g=with_arguments(mixed, {**parts[0][1], **parts[1][1], **normals}))
    if isinstance(condition, Symmetric | Antisymmetric):
        _check_mirror(target, name, one, label, slope if isinstance(condition, Symmetric) else None)
    elif not isinstance(condition, Periodic | AntiPeriodic | Extrapolate):
        raise PlanningError(
            f"fd.manufactured: {label}: no exact data are known for {describe_rule(condition)}, and a smooth solution "
            f"does not meet it by itself. Put Dirichlet, Neumann or Robin there."
        )
    return condition


def _coefficient(part: Any, label: str) -> tuple[Callable[[Mapping[str, Any]], Any], dict[str, Any]]:
    """A coefficient a or b of Robin as a function of named values, and the names it asks for."""
    if callable(part) and not hasattr(part, "dtype"):
        names = {name: parameter.default for name, parameter in inspect.signature(part).parameters.items()}
        return (lambda given: take_value(_call(part, given))), names
    if np.ndim(part) > 0:  # type: ignore[arg-type]
        raise PlanningError(f"fd.manufactured: {label}: a coefficient is a number or a function here, got an array.")
    return (lambda given: part), {}


def _check_mirror(
    target: Target, name: str, one: Assignment, label: str, slope: Callable[[Mapping[str, Any]], Any] | None
) -> None:
    """Refuses an exact solution that a plane of symmetry does not have, at some points and times."""
    layout, grid = one.terms.layout, target.grid
    exact, found = target.world.field(name), []
    for term in one.terms.terms:
        box = term.points.bounds()
        for axis, start, stop, size in zip(layout.space, box.start, box.stop, layout.space_shape, strict=True):
            if stop - start > 1 or 0 < start < size - 1:
                continue
            owner = grid.space_axis(axis)
            wall = owner.lower if start == 0 else owner.upper
            for share in (0.21, 0.47, 0.83):
                given: dict[str, Any] = {grid.names[0]: jnp.asarray(share)} if grid.time is None else {}
                if grid.time is not None and grid.time_name is not None:
                    given[grid.time_name] = jnp.asarray(grid.time.start + share * (grid.time.stop - grid.time.start))
                for other in grid.space:
                    line = grid.space_axis(other)
                    given[other] = jnp.asarray(wall if other == axis else line.lower + share * line.length)
                given["outward"] = tuple((-1 if start == 0 else 1) * (other == axis) for other in grid.space)
                found.append(abs(complex(slope(given) if slope else exact(_point(target, given)))))
    if max(found, default=0.0) > 1e-8:
        wanted = "∂u/∂n" if slope else "u"
        raise PlanningError(
            f"fd.manufactured: {label}: the exact solution has {wanted} = {max(found):.3g} there, and the condition "
            f"wants 0. Choose one that is {'even' if slope else 'odd'} about that wall."
        )
