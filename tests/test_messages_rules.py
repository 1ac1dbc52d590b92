"""What is said of rules that cannot be evaluated: offsets, arguments, results, operators, functions of arrays."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import derivative, divergence, gradient, laplacian

from .messages import Wrong, assign, declare, field, keep, nodes, rated, ruled, steady, undeclared, unplanned

RULE, RATE = "Rule `lambda` on u[...]", "Rule `rate lambda` on u[...]"
SPELL = 'write an axis name, a sign and a number, for example "x-1", "x+2" or "x+1/2".'
AT_A_POINT = (
    'Fields are numbers at one point there, of shape (): read neighbours, u["x-1"] + u["x+1"]; of all values fd.reduce '
    "makes a number."
)
NO_OFFSET = 'is no offset; write `[...]` for the point itself, or an offset such as "x-1" or "x+1/2".'


OFFSETS = {
    "unknown axis": undeclared(
        f'{RULE}: unknown axis `z` in "z-1"; the axes are t, x.', ruled(lambda u: u["t-1", "z-1"])
    ),
    "x+-1": undeclared(f'{RULE}: cannot read the offset "x+-1"; {SPELL}', ruled(lambda u: u["t-1", "x+-1"])),
    "x+1/3": undeclared(f'{RULE}: cannot read the offset "x+1/3"; {SPELL}', ruled(lambda u: u["t-1", "x+1/3"])),
    "x+0.5": undeclared(f'{RULE}: cannot read the offset "x+0.5"; {SPELL}', ruled(lambda u: u["t-1", "x+0.5"])),
    "one string": undeclared(f'{RULE}: cannot read the offset "t-1,x-1"; {SPELL}', ruled(lambda u: u["t-1,x-1"])),
    "a quarter": undeclared(
        f"{RULE}: the offset 0.25 is neither a whole number of steps nor a half; write -1, +1 or 0.5.",
        ruled(lambda u: u[-1, 0.25]),
    ),
    "too few": undeclared(
        f'{RULE}: 1 offset by position for 2 axes (t, x); give one for each axis, or name them: "x+1".',
        ruled(lambda u: u[-1]),
    ),
    "names and positions": undeclared(
        f"{RULE}: offsets are all by name or all by position, got ('t-1', 1). Name them all.",
        ruled(lambda u: u["t-1", 1]),
    ),
    "an axis twice": undeclared(f"{RULE}: axis `x` is named twice in x-1, x-1.", ruled(lambda u: u["x-1", "x-1"])),
    "None": undeclared(f"{RULE}: `None` {NO_OFFSET}", ruled(lambda u: u[None])),
    "a slice": undeclared(f"{RULE}: `slice(None, None, None)` {NO_OFFSET}", ruled(lambda u: u[-1, :])),
    "two Ellipsis": undeclared(f"{RULE}: `...` {NO_OFFSET}", ruled(lambda u: u[..., ...])),
    "a dict": undeclared(f"{RULE}: `{{'x': 1}}` {NO_OFFSET}", ruled(lambda u: u[dict(x=1)])),
    "True": undeclared(f"{RULE}: `True` {NO_OFFSET}", ruled(lambda u: u[True, False])),
    "nothing": undeclared(f"{RULE}: a read without an offset is written `[...]`, got `[()]`.", ruled(lambda u: u[()])),
    "half a level": unplanned(
        f'{RULE} reads `u["t-1/2"]`: time offsets are whole levels. Take the mean of two levels.',
        ruled(lambda u: u["t-1/2"]),
    ),
    "half a step": unplanned(
        f'{RULE} reads `u["t-1", "x+1/2"]`, which lies between the points of axis `x` where `u` lives. '
        'Read it half a step away, `u["t-1"]` or `u["t-1", "x+1"]`.',
        ruled(lambda u: u["t-1", "x+1/2"]),
    ),
    "twice": undeclared(
        f"{RULE} reads a plain value at an offset; only fields and parameters with axes have neighbours. Label an "
        f"array "
        'by its axes, fd.along(array, "x"); read a field at all offsets at once, u["t-1", "x-1"]. (…)',
        ruled(lambda u: u["t-1"]["x-1"]),
    ),
    "of a number": undeclared(
        f"{RULE} reads a plain value at an offset; only fields and parameters with axes have neighbours. Label an "
        f"array "
        'by its axes, fd.along(array, "x"); read a field at all offsets at once, u["t-1", "x-1"]. (…)',
        ruled(lambda u, k: u["t-1"] * k["x-1"], k=2.0),
    ),
    "of an array with the shape of the grid": undeclared(
        f'{RULE}: 1 offset by position for 2 axes (t, x); give one for each axis, or name them: "x+1". The parameter '
        f"has "
        "the shape of the grid and is read like a field; to index it as an array pass fd.whole(...).",
        ruled(lambda u, k: u["t-1"] * k[0], k=np.ones(6)),
    ),
}


def staggered() -> None:
    grid = nodes(cells=True)
    p, v = field(grid, "p"), field(grid, "v", at=dict(x="face"))
    p[...] = lambda v: v["t-1"]
    p[0], v[...] = 0.0, 0.0
    fd.solve((p, v))


def staggered_together() -> None:
    grid = nodes(cells=True)
    p, v = field(grid, "p"), field(grid, "v", at=dict(x="face"))
    fd.together(p, v)[...] = lambda p, v: (p["t-1"] + v["t-1"], 0.0)
    p[0], v[0] = 0.0, 0.0
    fd.solve((p, v))


OFFSETS["no half step on a staggered field that is set together"] = unplanned(
    'Rule `lambda` on p[...] reads `v["t-1"]`, which lies between the faces of axis `x` where `v` lives. '
    'Read it half a step away, `v["t-1", "x-1/2"]` or `v["t-1", "x+1/2"]`.',
    staggered_together,
)
OFFSETS["no half step on a staggered field"] = unplanned(
    'Rule `lambda` on p[...] reads `v["t-1"]`, which lies between the faces of axis `x` where `v` lives. '
    'Read it half a step away, `v["t-1", "x-1/2"]` or `v["t-1", "x+1/2"]`.',
    staggered,
)

KNOWN = "which is not known. Known are fields: u; axes: t, x; spacings: dt, dx"
NAMES = "have no names to be found by; wrap it in a function of named arguments"
ARGUMENTS = {
    "unknown field": unplanned(
        f"{RULE} asks for `v`, {KNOWN}. Pass it to `solve` as a keyword: v=...", ruled(lambda v: v["t-1"])
    ),
    "misspelt parameter": unplanned(
        f"{RULE} asks for `kapa`, {KNOWN}; parameters: kappa. Pass it to `solve` as a keyword: kapa=...",
        ruled(lambda u, kapa: kapa * u["t-1"], kappa=1.0),
    ),
    "time on a grid without": unplanned(
        "Rule `lambda` on u[...] asks for `dt`, which is not known. Known are fields: u; axes: x; spacings: dx. "
        "Pass it to `solve` as a keyword: dt=...",
        ruled(lambda dt: dt, grid=steady()),
    ),
    "*args": undeclared(
        "u[...] = <lambda>: arguments are found by name, one by one; `*a` has none. Write out each argument.",
        assign(..., lambda *a: 0.0),
    ),
    "**kwargs": undeclared(
        "u[...] = <lambda>: arguments are found by name, one by one; `**a` has none. Write out each argument.",
        assign(..., lambda **a: 0.0),
    ),
    "a ufunc": undeclared(
        f"u[...] = exp: the arguments of `exp` {NAMES}, for example lambda x: exp(x).", assign(..., np.exp)
    ),
    "a builtin": undeclared(
        f"u[...] = max: the arguments of `max` {NAMES}, for example lambda x: max(x).", assign(..., max)
    ),
}


def without_return(u: Any) -> None:
    u["t-1"]


OF_KEYS = (
    "Draw from it in a rule, at each point from one of its own: jax.random.normal(jax.random.fold_in(key, number))."
)
ONE = "a rule returns the value at its point, a number. A field is read through the argument of its name, `u[...]`."
SINGLE = "a rule returns one value. To set several fields by one function use `fd.together`."
RESULTS = {
    "nothing": undeclared(
        "Rule `without_return` on u[...] returned nothing; a rule returns the value at its point. Is there a `return`?",
        ruled(without_return),
    ),
    "an array": undeclared(
        f"{RULE} returned an array of shape (3,); a rule gives one number, the value at its point. Read single entries "
        'of an array, or label it by the grid\'s axes and name it: k=fd.along(array, "x").',
        ruled(lambda u: jnp.ones(3) * u["t-1"]),
    ),
    "an array of one entry": undeclared(
        f"{RULE} returned an array of shape (1,); a rule gives one number, the value at its point. {AT_A_POINT}",
        ruled(lambda u: jnp.ravel(u["t-1"])),
    ),
    "a random key": undeclared(
        f"{RULE} returned a random key; a rule gives a number. {OF_KEYS}",
        ruled(lambda u: jax.random.key(0)),
    ),
    "a tuple": undeclared(f"{RULE} returned a tuple; {SINGLE}", ruled(lambda u: (u["t-1"], 1.0))),
    "a gradient": undeclared(f"{RATE} returned a tuple; {SINGLE}", rated(lambda u: gradient(u))),
    "a string": undeclared(f"{RULE} returned 'hello'; {ONE}", ruled(lambda u: "hello")),
    "a function": undeclared(f"{RULE} returned a function; {ONE}", ruled(lambda u: lambda: 1.0)),
    "a rate": undeclared(f"{RULE} returned a Rate; {ONE}", ruled(lambda u: fd.rate(u))),
    "a field": undeclared(f"{RULE} returned a Target; {ONE}", ruled(lambda: field(name="v")[...])),
    "a complex value for a real field": undeclared(
        f"{RULE} returned a complex value for a real field; declare the field with dtype=complex.",
        ruled(lambda u: jax.lax.complex(u["t-1"], 1.0)),
    ),
    "a fraction for a field of integers": undeclared(
        f"{RULE} returned float64 for a field of dtype int64, which would cut it off; declare the field with "
        "dtype=float, or round in the rule.",
        ruled(lambda u: u["t-1"].astype(float) / 2, initial=0, dtype=int),
    ),
    "a number for a field of truth values": undeclared(
        "Rule `2` on u[0] returned int64 for a field of dtype bool; return a comparison.",
        ruled(keep, initial=2, dtype=bool),
    ),
    "a rate of integers": undeclared(
        f"{RATE}: a rate moves a field by fractions, and `u` has dtype int64. Declare it with dtype=float.",
        rated(lambda u: -u, initial=1, dtype=int),
    ),
}


def branch_on_view(u: Any) -> Any:
    return u["t-1"] if u > 0 else 0.0


def branch_on_value(u: Any) -> Any:
    return u["t-1"] if u["t-1"] > 0 else 0.0


def branch_on_coordinate(u: Any, x: Any) -> Any:
    return u["t-1"] if x > 0 else 0.0


TRUTH = (
    "has no truth value while the rule is traced. For `if` use `jnp.where(u[...] > 0, a, b)`; for `and`, `or`, `max` "
    "use `&`, `|`, `jnp.maximum` on values, `u[...]`."
)
NUMBER = (
    "needs to know the number of a value that has none before the run: it was used in `if`, `and`, `or`, `max`, "
    "`float`, "
    "or a function of `math` or `np`. Use jnp.where(condition, a, b) for `if`, `&` and `|` for `and` and `or`, and "
    "functions and arrays of `jnp`."
)
VALUES = (
    "hands a field to a function that takes values, or treats it as an array. Write `u[...]` for its value at the "
    "point, "
    "or `fd.apply(function, u)` for a quantity that can be differenced. (…)"
)
OWN = "Read what a rule needs through its own arguments."


def foreign_view() -> None:
    kept: list[Any] = []

    def remember(u: Any) -> Any:
        kept.append(u)
        return u["t-1"]

    fd.plan(declare(remember))
    fd.plan(declare(lambda u: (u + kept[0])["t-1"]))


PYTHON = {
    "if view": undeclared(f"Rule `branch_on_view` on u[...]: `gt(u, 0)` {TRUTH}", ruled(branch_on_view)),
    "if value": undeclared(f"Rule `branch_on_value` on u[...] {NUMBER}", ruled(branch_on_value)),
    "if coordinate": undeclared(f"Rule `branch_on_coordinate` on u[...] {NUMBER}", ruled(branch_on_coordinate)),
    "max": undeclared(f"{RATE}: `lt(u, 0.0)` {TRUTH}", rated(lambda u: max(u, 0.0))),
    "jnp of a view": undeclared(f"{RATE} {VALUES}", rated(lambda u: jnp.exp(u))),
    "jnp.where of a view": undeclared(f"{RATE} {VALUES}", rated(lambda u: jnp.where(u > 0, u, 0.0))),
    "jax.jit of a view": undeclared(f"{RATE} {VALUES}", rated(lambda u: jax.jit(lambda a: a)(u))),
    "np of a view": undeclared(f"{RATE} {VALUES}", rated(lambda u: np.exp(u))),
    "np of a value": undeclared(f"{RATE} {NUMBER}", rated(lambda u: np.exp(u[...]))),
    "math of a view": undeclared(f"{RATE} {VALUES}", rated(lambda u: math.exp(u))),
    "math of a value": undeclared(f"{RATE} {NUMBER}", rated(lambda u: math.exp(u[...]))),
    "math lifted": undeclared(f"{RATE} {NUMBER}", rated(lambda u: fd.apply(math.exp, u))),
    "& of views": undeclared(f"{RULE} {VALUES}", ruled(lambda u: ((u > 0) & (u < 1))["t-1"])),
    "a method": undeclared(f"{RULE} {VALUES}", ruled(lambda u: u.sum())),
    "a call": undeclared(f"{RULE} {VALUES}", ruled(lambda u: u(1))),
    "iteration": undeclared(f"{RULE}: `u` cannot be iterated over; read it at offsets.", ruled(lambda u: sum(u))),
    "the field itself": undeclared(
        f"{RULE} uses a Field itself, from outside the rule. Take it by its name as an argument of the rule, lambda v: "
        'v["t-1"], and give all fields to solve. (…)',
        ruled(lambda u: u["t-1"] + field(name="v")),
    ),
    "a view of another rule": undeclared(f"{RULE}: u and u belong to different rules. {OWN}", foreign_view),
    "a type error": undeclared(
        f"{RULE} failed when it was traced: TypeError: unsupported operand type(s) for *: …",
        ruled(lambda u, c: u["t-1"] * c, c=None),
    ),
    "shapes that do not fit": undeclared(
        f"{RULE} failed when it was traced: TypeError: dot_general requires contracting dimensions to have the same "
        "shape, got (3,) and (4,).",
        ruled(lambda k: k @ jnp.ones(4), k=np.ones(3)),
    ),
    "entries of the field": undeclared(
        f"{RULE} failed when it was traced: IndexError: Too many indices: array is 0-dimensional, but 1 were indexed. "
        f"{AT_A_POINT}",
        ruled(lambda u: u["t-1"][1:] - u["t-1"][:-1]),
    ),
    "the sum of a field in Python": undeclared(
        f"{RULE} failed when it was traced: TypeError: iteration over a 0-d array. {AT_A_POINT}",
        ruled(lambda u: sum(u["t-1"])),
    ),
    "an array indexed by a place": undeclared(
        f"{RULE} {NUMBER}", ruled(lambda x, dx: np.ones(6)[jnp.rint(x / dx).astype(int)])
    ),
    "a labelled array from outside": undeclared(
        f"{RULE} uses a labelled array from outside the rule. Name it among the rule's arguments, read it there, "
        'k[...], and give it to solve: k=fd.along(array, "x"). (…)',
        ruled(lambda u: u["t-1"] + fd.along(np.ones(6), "x")),
    ),
    "a convolution of the field": undeclared(
        f"{RULE} failed when it was traced: ValueError: convolve() only support 1-dimensional inputs. {AT_A_POINT}",
        ruled(lambda u, k: jnp.convolve(u["t-1"], k, mode="same"), k=np.ones(3)),
    ),
    "the number of points": undeclared(
        f"{RULE} failed when it was traced: IndexError: tuple index out of range. {AT_A_POINT}",
        ruled(lambda u: u["t-1"] / u["t-1"].shape[0]),
    ),
    "text for a number": undeclared(
        f"{RULE} failed when it was traced: TypeError: Only integer scalar arrays can be converted to a scalar index. "
        'Text and lists are no numbers: give k=1.0 for k="1", and jnp.array of a list.',
        ruled(lambda u, k: k * u["t-1"], k="1"),
    ),
    "a transform of the field": undeclared(
        f"{RULE} failed when it was traced: ValueError: axis -1 is out of bounds for array of dimension 0. "
        f"{AT_A_POINT}",
        ruled(lambda u: jnp.fft.fft(u["t-1"]).real),
    ),
}

TAKES = "takes a view (a field's name among the rule's arguments, or arithmetic on such), got"
COUNTS = "n is a whole number of at least 1, and the order an even one of at least 2."
PRODUCT = (
    f"{RATE} differences a product of a view and a value taken at one point (a coordinate, or `u[...]`): the value "
    f"would "
    "not move with the point. Use views throughout: `u` instead of `u[...]`, `fd.apply(jnp.sin, fd.coordinate(u, "
    "'x'))` "
    "instead of `jnp.sin(x)`."
)
OPERATORS = {
    "unknown axis": undeclared(
        f"{RATE}: derivative(u, 'z'): unknown space axis; the space axes are x.", rated(lambda u: derivative(u, "z"))
    ),
    "along time": undeclared(
        f"{RATE}: derivative(u, 't'): unknown space axis; the space axes are x.", rated(lambda u: derivative(u, "t"))
    ),
    "unknown axis in at=": undeclared(
        f'{RATE}: unknown axis `z` in "z-1"; the axes are t, x.', rated(lambda u: laplacian(u, at="z-1"))
    ),
    "unknown axis of a coordinate": undeclared(
        f"{RATE}: unknown axis `z`; the axes are t, x.", rated(lambda u: fd.coordinate(u, "z") * u)
    ),
    "of a value": undeclared(
        f"{RATE}: laplacian {TAKES} a value, as `u[...]` is. Inside a rule write laplacian(u).",
        rated(lambda u: laplacian(u[...])),
    ),
    "of the field itself": undeclared(
        f"laplacian {TAKES} Field. Inside a rule write laplacian(u).", lambda: laplacian(field())
    ),
    "odd order": undeclared(
        f"{RATE}: laplacian(u, order=3): the order is an even number of at least 2, got 3.",
        rated(lambda u: laplacian(u, order=3)),
    ),
    "fractional derivative": undeclared(
        f"{RATE}: derivative(u, 'x', n=1.5, order=2): {COUNTS}", rated(lambda u: derivative(u, "x", 1.5))
    ),
    "divergence of a scalar": undeclared(
        f"{RATE}: divergence takes a vector as a tuple or dict of views, or a coefficient and a view.",
        rated(lambda u: divergence(u)),
    ),
    "divergence with too many components": undeclared(
        f"{RATE}: divergence takes a component for each space axis, x; got 2.", rated(lambda u: divergence((u, u)))
    ),
    "divergence with an unknown component": undeclared(
        f"{RATE}: divergence takes a component for each space axis, x; got z.", rated(lambda u: divergence(dict(z=u)))
    ),
    "a product with a coordinate": unplanned(PRODUCT, rated(lambda u, x: derivative(x * u, "x"))),
    "a product with a value": unplanned(PRODUCT, rated(lambda u: derivative(u[...] * u, "x"))),
    "a coefficient that is a value": unplanned(PRODUCT, rated(lambda u, x: divergence(1 + x, u))),
    "a value inside a lifted function": unplanned(PRODUCT, rated(lambda u, x: laplacian(fd.apply(lambda a: a * x, u)))),
    "apply the wrong way round": undeclared(
        f"{RATE}: `fd.apply` takes a function and what it is applied to, as in fd.apply(jnp.exp, u); got u first.",
        rated(lambda u: fd.apply(u, jnp.exp)),
    ),
    "coordinate of a field": undeclared(
        '`fd.coordinate` takes a view of the rule it is used in and the name of an axis, as in fd.coordinate(u, "x"); '
        "got Field first.",
        lambda: fd.coordinate(field(), "x"),
    ),
}

CASES = {
    f"{group}: {name}": case
    for group, cases in dict(
        offset=OFFSETS, argument=ARGUMENTS, result=RESULTS, python=PYTHON, operator=OPERATORS
    ).items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_message(case: Wrong) -> None:
    case.check()


def test_a_rule_may_stand_under_jit() -> None:
    def slower(u: Any, c: Any) -> Any:
        return u["t-1"] - c * (u["t-1"] - u["t-1", "x-1"])

    def final(rule: Any) -> Any:
        u = declare(rule, lambda x: jnp.sin(x), grid=nodes(periodic=True))
        return fd.solve(u, c=0.3)["u"]

    np.testing.assert_array_equal(final(jax.jit(slower)), final(slower))


def test_other_exceptions_of_a_rule_keep_their_kind_and_name_the_rule() -> None:
    def misspelt(u: Any) -> Any:
        return kapa * u["t-1"]  # type: ignore[name-defined]

    with pytest.raises(NameError, match="kapa") as caught:
        fd.plan(declare(misspelt))
    assert "Rule `misspelt` on u[...] raised this when it was traced." in caught.value.__notes__


def test_the_error_inside_a_rule_is_kept_as_the_cause() -> None:
    with pytest.raises(fd.DeclarationError) as caught:
        fd.plan(declare(branch_on_value))
    assert isinstance(caught.value.__cause__, jax.errors.TracerBoolConversionError)
