"""Every kernel for stencils: the reference's answer, its own transpose, linear in values and weights, whole solves."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fdsolve as fd
from fdsolve import kernels
from fdsolve.kernels import StencilCall

NAMES = [kernel.backend for kernel in kernels.available("stencil")]
OTHERS = [name for name in NAMES if name != "reference"]
DTYPES = ("<f4", "<f8", "<c8", "<c16")


def loop(call, values, weights):
    """The sum as it is defined, in plain Python."""
    result = np.zeros(call.shape, call.dtype)
    for point in itertools.product(*map(range, call.shape)):
        for weight, offset in zip(weights, call.offsets, strict=True):
            result[point] += (
                weight * values[tuple(p + o + a for p, o, a in zip(point, offset, call.lower, strict=True))]
            )
    return result


def operands(call, seed):
    random = np.random.default_rng(seed)

    def draw(shape):
        array = random.uniform(-1, 1, shape)
        return (array + 1j * random.uniform(-1, 1, shape) if call.is_complex else array).astype(call.dtype)

    return draw(call.grown), draw((len(call.offsets),))


def eps(call):
    return float(np.finfo(call.dtype).eps)


@st.composite
def calls(draw, dtypes=DTYPES):
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 7)) for _ in range(rank))
    offset = st.tuples(*[st.integers(-3, 3)] * rank)
    offsets = draw(st.lists(offset, min_size=1, max_size=6, unique=True))
    return StencilCall(shape, draw(st.sampled_from(dtypes)), tuple(offsets))


@given(calls(), st.integers(0, 99))
@settings(max_examples=10)
def test_the_reference_is_the_definition(call, seed):
    values, weights = operands(call, seed)
    found = jax.jit(partial(kernels.get("stencil", "reference"), call))(values, weights)
    assert found.dtype == call.dtype and found.shape == call.shape
    np.testing.assert_allclose(found, loop(call, values, weights), rtol=0, atol=16 * eps(call))


FIXED = (
    StencilCall((9,), "<f8", ((-2,), (0,), (3,))),
    StencilCall((9, 5), "<f4", ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))),
    StencilCall((6, 7), "<f8", ((1, 1), (2, 1), (1, 3))),
    StencilCall((40, 3), "<f8", tuple((0, o) for o in range(-4, 5))),
    StencilCall((40, 3), "<f4", tuple((o, 0) for o in range(-4, 5))),
    StencilCall((3, 4, 5), "<f8", ((0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 2, 0), (0, 0, -2))),
    StencilCall((4, 3), "<c16", ((0, 0), (-1, 1))),
    StencilCall((4, 3), "<c8", ((0, 0), (1, -1))),
    StencilCall((1, 1), "<f8", ((0, 0),)),
)


@pytest.mark.parametrize("call", FIXED, ids=str)
@pytest.mark.parametrize("name", OTHERS)
def test_a_kernel_gives_the_answer_of_the_reference_and_its_adjoint_is_its_transpose(name, call):
    """Where it serves the call; where it does not, it says why."""
    kernel = kernels.get("stencil", name)
    refusal = kernel.refusal(call)
    if refusal is not None:
        with pytest.raises(fd.PlanningError, match="does not serve this stencil"):
            kernels.select(call, name)
        return
    values, weights = map(jnp.asarray, operands(call, 5))
    cotangent = jnp.asarray(operands(StencilCall(call.shape, call.dtype, ((0,) * call.rank,)), 6)[0])

    def whole(values, weights, cotangent):
        result, transpose = jax.vjp(lambda v, w: kernel(call, v, w), values, weights)
        _, moved = jax.jvp(lambda v, w: kernel(call, v, w), (values, weights), (2 * values, jnp.zeros_like(weights)))
        return result, transpose(cotangent), moved

    result, (to_values, to_weights), moved = jax.jit(whole)(values, weights, cotangent)
    wanted = loop(call, np.asarray(values), np.asarray(weights))
    scale = float(np.abs(wanted).max()) + 1
    np.testing.assert_allclose(result, wanted, rtol=0, atol=32 * eps(call) * scale)
    np.testing.assert_allclose(moved, 2 * wanted, rtol=0, atol=64 * eps(call) * scale)
    forward = (result * cotangent).sum()
    size = float(jnp.abs(result).max() * jnp.abs(cotangent).sum()) + 1
    bound = (1e-13 if eps(call) < 1e-10 else 1e-5) * size
    assert abs(forward - (values * to_values).sum()) <= bound
    assert abs(forward - (weights * to_weights).sum()) <= bound


@pytest.mark.parametrize("name", OTHERS)
def test_a_kernel_maps_over_values_and_weights(name):
    call = StencilCall((12,), "<f4", ((-1,), (0,), (2,)))
    kernel, judge = kernels.get("stencil", name), kernels.get("stencil", "reference")
    if kernel.refusal(call) is not None:
        assert isinstance(kernel.refusal(call), str)
        return
    values, weights = map(jnp.asarray, operands(call, 1))
    many, other = jnp.stack([values, 2 * values]), jnp.stack([weights, weights[::-1]])
    for axes in ((0, None), (None, 0), (0, 0)):
        given = many if axes[0] == 0 else values, other if axes[1] == 0 else weights
        found = jax.vmap(lambda v, w: kernel(call, v, w), axes)(*given)
        wanted = jax.vmap(lambda v, w: judge(call, v, w), axes)(*given)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (((3,), "<f8", ()), "reads at least one point"),
        (((3,), "<f8", ((1, 2),)), r"The offset \(1, 2\) is not one of 1 axes"),
        (((3,), "<i4", ((1,),)), "weighs floats or complex numbers; got dtype <i4"),
    ],
)
def test_what_is_no_stencil(arguments, message):
    with pytest.raises(fd.DeclarationError, match=message):
        StencilCall(*arguments)


def test_reach_and_grown_shape():
    call = StencilCall((4, 5), "float32", ((1, -2), (3, 0)))
    assert (call.rank, call.lower, call.upper, call.grown) == (2, (0, 2), (3, 0), (7, 7))
    assert call.dtype == "<f4" and call == StencilCall((4, 5), "<f4", ((1, -2), (3, 0)))


WALLS = [
    fd.boundary.Dirichlet(0.3),
    fd.boundary.Neumann(-0.2),
    fd.boundary.Robin(1.0, 0.5, 0.1),
]


def declare(seed, dtype):
    """Coupled fields, one a rate's neighbour two levels back, random weights, walls and a source in space and time."""
    random = np.random.default_rng(seed)
    grid = fd.Grid(
        t=fd.Time(0.0, 0.02, num=6), x=fd.Axis(0.0, 1.0, num=8), y=fd.Axis(0.0, 1.0, num=7, periodic=bool(seed % 2))
    )
    u, v = fd.Field("u", grid, dtype=dtype), fd.Field("v", grid, dtype=dtype)
    a = [float(w) for w in random.uniform(0.05, 0.3, 5)]

    def step(u, v, c, x, t):
        near = a[0] * u["t-1", "x-1"] + a[1] * u["t-1", "x+1"] + c * u["t-1", "y-1"] - a[2] * v["t-2"]
        return near + 0.1 * x * jnp.cos(t)

    u[...] = step
    v[...] = lambda u, v: a[3] * v["t-1", "x+1"] + a[4] * v["t-1"] + 0.2 * u["t-1", "y+1"]
    for one, shift in ((u, 0.0), (v, 1.0)):
        one[0] = lambda x, y, shift=shift: jnp.sin(3 * x + shift) * jnp.cos(2 * jnp.pi * y)
        one[1] = 0.5
        one[dict(x=[0, -1])] = WALLS[(seed + int(shift)) % 3]
        if not seed % 2:
            one[dict(y=[0, -1])] = WALLS[(seed + 1) % 3]
    return u, v


@pytest.mark.parametrize("seed, dtype, names", [(0, "float64", OTHERS), (1, "float32", NAMES)])
def test_whole_solves_agree_with_slices_gradients_too(seed, dtype, names):
    fields = declare(seed, dtype)
    tolerance = 1e-12 if dtype == "float64" else 1e-4

    def solve(kernel):
        def objective(c):
            found = fd.solve(fields, c=c, kernel={"march": "slices", "stencil": kernel})
            return (found["u"][-1] ** 2).sum(), (found["u"], found["v"])

        (_, histories), slope = jax.value_and_grad(objective, has_aux=True)(jnp.asarray(0.2, dtype))
        return (*histories, slope)

    wanted = solve("slices")
    for one in names:
        if one == "slices":
            continue
        call = StencilCall((6, 7), np.dtype(dtype).str, ((0, -1), (-1, 0), (1, 0)))
        if kernels.get("stencil", one).refusal(call) is not None:
            continue
        for found, expected in zip(solve(one), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * float(jnp.abs(expected).max() + 1))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_known_by_its_name(dtype):
    call = StencilCall((5,), dtype, ((-1,), (0,), (1,)))
    values, weights = call.examples()
    assert np.dtype(call.dtype) == jnp.dtype(dtype) and values.dtype == weights.dtype == jnp.dtype(dtype)
    wanted = np.convolve(np.asarray(values, float), np.asarray(weights, float)[::-1], "valid")
    for name in ("slices", "gemm", "reference"):
        found = kernels.get("stencil", name)(call, values, weights)
        np.testing.assert_allclose(np.asarray(found, float), wanted, atol=0.1 if dtype == "bfloat16" else 0.01)
    assert "does not serve" in kernels.explain(call, "conv") and f"this is {dtype}" in kernels.explain(call, "conv")
