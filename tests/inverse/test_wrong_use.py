"""Wrong use of fd.invert, and what its messages say."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix
import pytest
import xarray as xr

import fdsolve as fd

X = np.linspace(0.0, 1.0, 12)
START = dict(size=1e-7, slope=np.array([0.5, -1.0]))


def residuals(p):
    return dict(a=1e7 * p["size"] * jnp.exp(p["slope"][0] * X) + p["slope"][1] * X - 1.0)


DOUBLED = fd.inverse.Transform(lambda z: jnp.stack([z, z]), lambda p: p)
WRONG = [
    (residuals, dict(START, size=1), {}, "`size` is an integer"),
    (residuals, dict(START, size=np.nan), {}, "`size` is not finite"),
    (residuals, dict(START, other=2.0), {}, "does not depend on `other`"),
    (residuals, START, dict(bounds=dict(sise=(0, 1))), "no parameter `sise`; the parameters are `size`, `slope`"),
    (residuals, START, dict(bounds=dict(size=(1, 2))), "must lie in \\(1"),
    (residuals, START, dict(bounds=dict(size=3)), "are \\(lower, upper\\)"),
    (
        residuals,
        START,
        dict(bounds=dict(slope=(np.full(2, -2.0), None))),
        "one for all entries; got an array of shape \\(2,\\).*transform=dict\\(slope=",
    ),
    (residuals, dict(START, size=xr.Dataset(dict(x=1.0))), {}, "`size` is a Dataset; an array, a DataArray or a dict"),
    (residuals, {"a.b": 1.0, "a": dict(b=0.5)}, {}, "Two parameters are called `a.b`"),
    (residuals, START, dict(transform=dict(size=DOUBLED)), "`size` makes an array of shape \\(2,\\) of one of shape"),
    (residuals, START, dict(method="newton"), 'method= takes "levenberg'),
    (residuals, START, dict(method="bfgs", subsets=3), "two arguments"),
    (residuals, START, dict(tolerance=2.0), "tolerance="),
    (residuals, START, dict(grid=3), "grid= takes the grid"),
    (residuals, START, dict(regularise=fd.tikhonov(1.0)), "name of a parameter"),
    (lambda p: p["size"], START, dict(method="gauss-newton"), "wants residuals, and the loss is a scalar"),
    (lambda p: jnp.log(-p["size"]), dict(size=1.0), {}, "loss at the initial parameters is nan"),
    (lambda p: jnp.sqrt(p["size"] - p["size"]), dict(size=1.0), {}, "by `size` is not finite"),
    (lambda p: np.asarray(p["size"]), dict(size=1.0), {}, "into NumPy arrays"),
    (lambda p, k: p["size"] * k, dict(size=1.0), {}, "takes one argument.*subsets=8"),
    (lambda p: p["sise"], START, {}, "asks for 'sise', and there is none; the parameters are size, slope"),
    (lambda p: p["size"] * dict(part=p)["part"]["sise"], START, {}, "loss asks for 'sise'"),
    (residuals, START, dict(regularise=lambda p: p["sise"]), "regularise= asks for 'sise', and there is none"),
    (
        residuals,
        START,
        dict(regularise=lambda p: jax.lax.complex(p["size"], p["size"])),
        "regularise= is complex; a loss is a real number",
    ),
    (residuals, START, dict(regularise=lambda p: None), "regularise= returns nothing"),
    (residuals, START, dict(regularise=lambda p: p["size"] > 0), "regularise= returns bool"),
    (residuals, START, dict(regularise=lambda p: "much"), "regularise= returns a str"),
    (residuals, START, dict(regularise=lambda p: np.sin(p["size"])), "regularise= turns its parameters into NumPy"),
    (residuals, START, dict(regularise=lambda p, k: p["size"]), "regularise= takes one argument"),
    (residuals, START, dict(tolerance=np.array([1e-3])), "tolerance= is a number between 0 and 1"),
    (residuals, START, dict(tolerance=1 + 1j), "tolerance= is a number between 0 and 1"),
    (residuals, START, dict(seed=-1), "seed= is a whole number, 0 or more"),
    (residuals, START, dict(callback=lambda one: np.zeros(3)), "callback= returns True .* got a ndarray"),
    (residuals, {"size": 1.0, 3: 2.0}, {}, "Name all of them by strings"),
    (residuals, dict(START, size=np.longdouble(1)), {}, "`size` has dtype .*astype"),
    (lambda p: xr.DataArray(p["size"] * X, dims="x"), dict(size=1.0), {}, "returns a DataArray"),
    (lambda p, k: p["size"] - [X, X][k], dict(size=1.0), dict(subsets=2), "element of a list .* jnp.stack"),
    (
        lambda p, k: p["size"] - np.stack([X, X])[k],
        dict(size=1.0),
        dict(subsets=2),
        "element of a list or NumPy array .* jnp.stack",
    ),
    (residuals, dict(START, none=np.zeros(0)), {}, "`none` has no entries"),
    (residuals, START, dict(callback=lambda a, b: None), "a function of one iterate"),
    (residuals, START, dict(transform=dict(size=fd.inverse.Transform(jnp.exp, jnp.exp))), "does not invert itself"),
    (
        lambda p: "small",
        dict(size=1.0),
        {},
        "returns a str; a real scalar, or arrays of residuals, is wanted",
    ),
]


@pytest.mark.parametrize(("function", "initial", "options", "message"), WRONG, ids=[case[3][:18] for case in WRONG])
def test_wrong_use_is_told(function, initial, options, message):
    with pytest.raises(fd.DeclarationError, match=message):
        fd.invert(function, initial, **options)


METHODS = {
    "by name": (optax.multi_transform({"a": optax.sgd(0.1)}, {"size": "a"}), "different types at key path"),
    "no gradient kept": (
        optax.chain(optax.sgd(1.0), optax.scale_by_backtracking_linesearch(15)),
        "A line search wants store_grad=True",
    ),
    "two steps": (optax.contrib.sam(optax.sgd(0.1), optax.sgd(0.1)), "takes no step of a vector of free variables"),
    "interval": (optimistix.GoldenSearch(1e-3, 1e-3), "GoldenSearch wants options\\['lower'\\]"),
}


@pytest.mark.parametrize(("method", "message"), METHODS.values(), ids=METHODS)
def test_methods_that_do_not_serve_are_told(method, message):
    with pytest.raises(fd.DeclarationError, match=message):
        fd.invert(lambda p: (p["size"] - 2.0) ** 2, dict(size=1.0), method=method)


@pytest.mark.parametrize("noise", [np.ones(3), 1j, [1.0], 0.0])
def test_a_noise_that_is_no_number_is_told(noise):
    found = fd.invert(lambda p: p["a"] - jnp.arange(3.0), dict(a=1.0), max_iterations=2)
    with pytest.raises(fd.DeclarationError, match="noise= is a standard deviation"):
        found.covariance(noise=noise)


@pytest.mark.parametrize("options", [{}, dict(regularise=lambda p: {}["mine"])])
def test_a_key_that_was_not_asked_of_the_parameters_is_not_theirs(options):
    function = residuals if options else lambda p: p["size"] * {}["mine"]
    with pytest.raises(KeyError, match="mine"):
        fd.invert(function, START, **options)


def test_a_missing_library_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "optimistix", None)
    with pytest.raises(fd.DeclarationError, match=r"pip install fdsolve\[inversion\]"):
        fd.invert(residuals, START)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: fd.tikhonov(1.0, order=np.array([1, 2])), "order= is 0"),
        (lambda: fd.check_gradient(lambda p: p["z"], dict(x=1.0)), "asks for 'z', and there is none"),
    ],
)
def test_what_cannot_be_made_is_told(made, message):
    with pytest.raises(fd.DeclarationError, match=message):
        made()


def test_keys_that_are_numbers_name_bounds():
    found = fd.invert(lambda p: jnp.stack([p[0] - 1.0, p[1] - 0.5]), {0: 0.5, 1: 0.1}, bounds={0: (0, 2)})
    assert found.converged and abs(found.parameters[0] - 1) < 1e-6


def test_iterations_that_are_used_up_say_how_to_go_on():
    decay = lambda p: jnp.exp(-p["rate"] * X) - np.exp(-3.0 * X)  # noqa: E731
    found = fd.invert(decay, dict(rate=0.1), max_iterations=2)
    assert found.reason == "the iterations are used up; allow more, max_iterations=4, or go on from its parameters"
    assert fd.invert(decay, found.parameters).converged
