"""The table of a gradient test: right derivatives pass, wrong ones fail, kinks are called kinks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd


@jax.custom_jvp
def wrong(x):
    return x**2


wrong.defjvp(lambda primals, tangents: (wrong(*primals), 2.1 * primals[0] * tangents[0]))


def test_a_wrong_derivative_fails_and_is_found():
    table = fd.check_gradient(lambda p: wrong(p["a"]) + p["b"] ** 2, dict(a=1.0, b=1.0), directions="each")
    assert not table and [row.verdict for row in table.rows] == ["fail", "pass"]
    assert "FAILS" in repr(table) and table.rows[0].along == "a"


def test_kinks_are_told_without_nan():
    table = fd.check_gradient(lambda p: jnp.sqrt(jnp.sum(p["a"] ** 2)) + p["b"], dict(a=jnp.zeros(2), b=1.0))
    assert not table and {row.verdict for row in table.rows} == {"fail"}
    assert "Not differentiable by a[0], a[1]" in repr(table) and "is not finite, and f bends" in repr(table)
    table = fd.check_gradient(lambda p: jnp.sum(jnp.abs(p["a"])), dict(a=jnp.zeros(2)))
    assert table and {row.verdict for row in table.rows} == {"kink"}


def test_the_rounding_of_an_invariant_is_no_wrong_derivative():
    x = np.random.default_rng(0).standard_normal(400)

    def length(p, hidden=0.0):  # a rotation and a little growth: the derivative is what is left of large terms
        cos, sin = jnp.cos(p["c"]), jnp.sin(p["c"])
        turned = jnp.concatenate([cos * x[::2] - sin * x[1::2], sin * x[::2] + cos * x[1::2]])
        return jnp.sum(turned**2) + 1e-5 * p["c"] ** 2 + hidden * wrong(p["c"])

    right = fd.check_gradient(length, dict(c=1.0))
    assert right and all("slope" in row.reason for row in right.rows)
    assert max(row.mismatch for row in right.rows) > 1e-10
    assert not fd.check_gradient(lambda p: length(p, hidden=1e-5), dict(c=1.0))


@pytest.mark.parametrize("directions", [3, "each"])
def test_a_kink_in_one_parameter_hides_no_wrong_derivative_in_another(directions):
    def loss(p, function):
        return jnp.abs(p["a"][0]) + p["a"][1] ** 2 + function(p["b"])

    at = dict(a=jnp.array([0.0, 0.4]), b=0.7)
    right = fd.check_gradient(lambda p: loss(p, jnp.sin), at, directions=directions)
    assert right and {"kink", "pass"} == {row.verdict for row in right.rows}
    found = fd.check_gradient(lambda p: loss(p, wrong), at, directions=directions)
    assert not found and "kink" in {row.verdict for row in found.rows}


def test_jumps_and_derivatives_that_are_nan_at_a_kink_fail():
    jump = fd.check_gradient(lambda p: jnp.where(p["a"] > 0, 1.0 + p["a"], 2 * p["a"]), dict(a=0.0))
    assert not jump and "f jumps" in repr(jump)
    root = fd.check_gradient(
        lambda p: jnp.where(p["a"] > 0, jnp.sqrt(p["a"]), 0.0).sum(), dict(a=jnp.array([0.0, 1.0]))
    )
    assert not root and "The gradient by a[0] is not finite" in repr(root)
    many = fd.check_gradient(lambda p: jnp.sqrt(p["a"]), dict(a=jnp.zeros(2)))
    assert not many and "The gradient by a[0], a[1] is not finite" in repr(many)


def test_integers_and_undefined_values_are_refused():
    with pytest.raises(fd.DeclarationError, match="`n` has dtype int"):
        fd.check_gradient(lambda p: p["n"] * 1.0, dict(n=1))
    with pytest.raises(fd.DeclarationError, match="not finite at the point"):
        fd.check_gradient(lambda p: jnp.log(p), -1.0)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (lambda p: float(p) ** 2, {}, "The function turns its parameters into NumPy arrays or numbers"),
        (lambda p: "much", {}, "The function returns a str; a real scalar, or arrays"),
        (lambda p: None, {}, "The function returns nothing"),
        (lambda p, k: p * k, {}, "a function of one argument"),
        (lambda p: p**2, dict(step=-1.0), "step= is a positive number, got -1.0"),
        (lambda p: p**2, dict(step="small"), "step= is a positive number, got 'small'"),
        (lambda p: p**2, dict(match=0.0), "match= is a positive number"),
        (lambda p: p**2, dict(seed="one"), "seed= is a whole number"),
        (lambda p: p**2, dict(directions=0), "directions= is a whole number of at least 1"),
    ],
)
def test_wrong_use_is_told(function, options, message):
    with pytest.raises(fd.DeclarationError, match=message):
        fd.check_gradient(function, 1.5, **options)


def squares(factor, constant):
    """Σ x² + c, whose gradient is taken to be `factor` times what it is."""

    @jax.custom_vjp
    def function(x):
        return jnp.sum(x**2) + jnp.asarray(constant, x.dtype)

    function.defvjp(lambda x: (function(x), x), lambda x, bar: (factor * 2 * x * bar,))
    return function


@pytest.mark.parametrize(
    ("dtype", "constant"), [(np.float32, 0), (np.float32, 1e4), (np.float64, 1e5), (np.float64, 1e11)]
)
def test_a_large_constant_hides_no_wrong_gradient(dtype, constant):
    at = dict(x=np.ones(3, dtype))
    assert not fd.check_gradient(lambda p: squares(0.5, constant)(p["x"]), at)
    right = fd.check_gradient(lambda p: squares(1.0, constant)(p["x"]), at)
    assert bool(right) == (constant in (0, 1e5)) and "fail" not in {row.verdict for row in right.rows}
    assert right or ("Gradient IS NOT TESTED" in repr(right) and "take constants off it" in repr(right))


@pytest.mark.parametrize("size", [1e-200, 1e-290, 1e250])
def test_values_whose_squares_are_no_numbers_hide_no_wrong_gradient(size):
    at = dict(x=np.linspace(0.5, 1.5, 3))
    right = fd.check_gradient(lambda p: size * squares(1.0, 0)(p["x"]), at)
    assert right and "Taylor slope 2.00" in repr(right)
    assert not fd.check_gradient(lambda p: size * squares(0.99, 0)(p["x"]), at)


def test_parameters_without_effect_hide_nothing():
    smooth = fd.check_gradient(lambda p: jnp.sin(p["a"]), dict(a=0.3, b=1.0), directions="each")
    assert smooth and [row.reason for row in smooth.rows][1] == "f does not change along it"
    assert "The gradient by b is zero" in repr(smooth)
    bent = lambda p: jnp.maximum(p["a"][0], 0.3) + p["c"] ** 2  # noqa: E731
    at = dict(a=np.array([0.3, 1.0]), c=1.0)
    for directions in (3, "each"):
        table = fd.check_gradient(bent, at, directions=directions)
        assert table and {row.verdict for row in table.rows} == {"kink", "pass"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_affine_functions_pass(dtype):
    at = dict(x=np.ones(3, dtype))
    for function in (lambda p: 3 * p["x"], lambda p: 3 * p["x"].sum() + 1e3):
        table = fd.check_gradient(function, at)
        assert table and "affine to rounding" in repr(table)


def test_parameters_without_entries_are_left_out():
    at = dict(a=np.zeros(0), x=np.ones(3))
    for directions in (2, "each"):
        table = fd.check_gradient(lambda p: jnp.sum(p["x"] ** 2) + p["a"].sum(), at, directions=directions)
        assert table and not table.notes


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (dict(x=np.ones(2, np.float16)), "`x` has dtype float16, whose rounding hides what is tested. Test in float32"),
        (dict(x=jnp.ones(2, jnp.bfloat16)), "`x` has dtype bfloat16"),
        (dict(x="much"), "`x` is a str; numbers in single"),
        (dict(x=np.zeros(0)), "There are no parameters"),
        (dict(x=np.array([1.0, np.nan])), "`x` is not finite. Test the gradient where"),
        (dict(x=1), "no derivative; a real floating dtype is wanted. Convert it"),
        ({"x": 1.0, 3: 2.0}, "different types.*Name all of them by strings"),
    ],
)
def test_parameters_that_cannot_be_tested_are_told(at, message):
    with pytest.raises(fd.DeclarationError, match=message):
        fd.check_gradient(lambda p: jnp.sum(p["x"] ** 2), at)


@pytest.mark.parametrize("around", [jax.jit, jax.vmap])
@pytest.mark.parametrize("at", [lambda x: x, lambda x: 1.5])
def test_inside_a_transformation_is_told(around, at):
    with pytest.raises(fd.DeclarationError, match="runs outside jit, grad and vmap"):
        around(lambda x: bool(fd.check_gradient(lambda p: jnp.sum(p**2 * x), at(x))))(jnp.ones(2))


def test_parameters_that_do_not_count_are_told():
    table = fd.check_gradient(lambda p: p["a"] ** 2 + 0 * p["c"], dict(a=1.0, b=jnp.ones(2), c=2.0))
    assert table and "The gradient by b, c is zero: f does not depend on it" in repr(table)
    assert not fd.check_gradient(lambda p: p["a"] ** 2, dict(a=1.0)).notes
    nothing = fd.check_gradient(lambda p: 0 * p["a"] + 3.0, dict(a=1.0))
    assert not nothing and "f does not change along it" in repr(nothing)


def test_one_wrong_entry_of_many_is_seen_from_one_side_or_the_other():
    """A wrong part against the curvature makes slopes on one side larger than 2."""
    x = jnp.linspace(1.0, 2.0, 1000)
    loss = lambda p: (p["x"] ** 2).sum() - jax.lax.stop_gradient(p["x"][7])  # noqa: E731
    assert not any(fd.check_gradient(loss, dict(x=x), seed=seed) for seed in range(8))


def test_a_derivative_beyond_the_slopes_of_a_kink_fails():
    def f(more):
        return lambda p: 3 * jnp.abs(p["z"]).sum() + more * jax.lax.stop_gradient(p["z"]).sum()

    assert fd.check_gradient(f(0.0), dict(z=jnp.zeros(4)))
    table = fd.check_gradient(f(20.0), dict(z=jnp.zeros(4)))
    assert not table and "not between its slopes" in repr(table)


@pytest.mark.parametrize(("back", "verdict"), [(-1.0, "kink"), (-3.0, "fail")])
def test_forward_and_reverse_may_take_either_side_of_a_kink(back, verdict):
    """As of |u - data| where both are equal but for rounding; a slope that is on neither side is wrong."""

    @jax.custom_jvp
    def size(x):
        return jnp.abs(x)

    @size.defjvp
    def _(primals, tangents):
        sides = (lambda _, t: t, lambda _, bar: back * bar)
        return size(*primals), jax.custom_derivatives.linear_call(*sides, (), tangents[0])

    table = fd.check_gradient(lambda p: size(p["z"]) + p["b"] ** 2, dict(z=0.0, b=1.0), directions="each")
    assert {row.along: row.verdict for row in table.rows} == dict(z=verdict, b="pass")
    assert bool(table) == (verdict == "kink")


@pytest.mark.parametrize("narrow", ["parameter", "within", "field"])
def test_what_runs_in_single_precision_is_tested_in_single(narrow):
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=5), x=fd.Axis(0.0, 1.0, num=7))
    u = fd.Field("u", grid, dtype=jnp.float32)
    u[...] = fd.rate(lambda u, k: k * fd.schemes.laplacian(u) - u[...] ** 3)
    u[0] = lambda x, a: a * jnp.sin(3 * x)
    u[dict(x=[0, -1])] = 0.0

    def loss(p, function):
        if narrow == "field":
            return (fd.solve(u, k=p["k"], a=function(p["a"]), save=fd.final())["u"] ** 2).sum()
        k = p["k"].astype(jnp.float32) if narrow == "within" else p["k"]
        return jnp.sin(k).astype(float) * p["a"] + function(p["a"])

    at = dict(k=jnp.asarray(0.3, jnp.float32 if narrow == "parameter" else float), a=jnp.asarray(1.3))
    assert fd.check_gradient(lambda p: loss(p, jnp.sin), at, directions=1)
    assert narrow == "field" or not fd.check_gradient(lambda p: loss(p, wrong), at)


def test_kinks_near_the_point_fail_no_right_derivative_and_hide_no_wrong_one():
    edges = 10 ** np.random.default_rng(2).uniform(-4.5, -2, 40)

    def loss(p, function):
        return jnp.sum(jnp.abs(p["a"] - 1 - edges)) * 0.05 + function(p["a"])

    right = fd.check_gradient(lambda p: loss(p, jnp.sin), dict(a=1.0))
    assert right and any("bends further off" in row.reason for row in right.rows)
    for share in (1.0, 0.01):
        found = fd.check_gradient(lambda p: loss(p, lambda a: share * wrong(a)), dict(a=1.0))  # noqa: B023
        assert {row.verdict for row in found.rows} == {"fail"}


def test_a_narrow_rise_beside_the_point_is_no_jump_at_it():
    rise = lambda p: 10 * jnp.clip(p["a"] - 1 - 5e-5, 0.0, 5e-5)  # noqa: E731
    assert fd.check_gradient(lambda p: rise(p) + jnp.sin(p["a"]), dict(a=1.0))
    assert not fd.check_gradient(lambda p: rise(p) + wrong(p["a"]), dict(a=1.0))
