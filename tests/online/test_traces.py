"""Traces of bare functions: numbers known by hand, three arbiters, and rules that must differ."""

from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import ad, batching, mlir

import fdsolve as fd
from fdsolve.adjoint import traces
from fdsolve.adjoint.traces import DRTRL, UORO, Exact, ForwardGradient, PPProp, SnAp
from fdsolve.kernels import conv

U0 = jnp.asarray([1, 2, 0, -1, 3, 0.5, -2, 1])
I8, I16 = np.arange(8.0), np.arange(16.0)
KERNEL = jnp.asarray([0.2, -0.4, 0.2])
DRIVE = jnp.asarray(np.sin(0.7 * np.arange(5)[:, None] + 0.3 * I8))
TIMES = jnp.arange(5.0)
Step = Callable[[Any, Any, Any], Any]


def laplace(u: Any) -> Any:
    return jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)


def heat(p: Any, u: Any, x: Any) -> Any:
    return u + p["nu"] * laplace(u)


def taps(p: Any, u: Any) -> Any:
    v = jnp.pad(u, 1)
    return p["K"][0] * v[:-2] + p["K"][1] * v[1:-1] + p["K"][2] * v[2:]


def learned(p: Any, u: Any, x: Any) -> Any:
    return u + taps(p, u) + x[1]


def convolved(p: Any, u: Any, x: Any) -> Any:
    return u + conv(u[None, None], p["K"][None, None], (1,), "SAME")[0, 0] + x[1]


def leaky(p: Any, u: Any, x: Any) -> Any:
    return 0.8 * u + taps(p, x[1])


def faces(p: Any, u: Any, x: Any) -> Any:
    flux = p["k"] * (jnp.roll(u, -1) - u)
    return u + flux - jnp.roll(flux, 1)


def at_the_end(last: int) -> Any:
    return lambda u, x: jnp.where(x == last, 0.5 * jnp.sum(u**2), 0.0)


def misfit(u: Any, x: Any) -> Any:
    return 0.5 * jnp.sum((u - jnp.cos(0.5 * x[0] - 0.2 * I8)) ** 2)


def face_misfit(u: Any, x: Any) -> Any:
    return jnp.where(x == 5, 0.5 * jnp.sum((u - jnp.sin(0.4 * I16)) ** 2), 0.0)


def reverse(step: Step, loss: Any, parameters: Any, start: Any, inputs: Any) -> Any:
    """The loss of a run, whose gradient by reversal and differences are arbiters."""

    def total(p: Any) -> Any:
        def one(u: Any, x: Any) -> Any:
            u = step(p, u, x)
            return u, loss(u, x)

        return jnp.sum(jax.lax.scan(one, start, inputs)[1])

    return total


def march(
    step: Step, loss: Any, parameters: Any, start: Any, inputs: Any, cases: list[tuple[Any, int]]
) -> tuple[list[Any], list[Any]]:
    """The gradients by several methods (each with a window) in one program, and their reports."""
    first = jax.tree.map(lambda x: x[0], inputs)
    update = traces.make_update(lambda p, u, x, constants: step(p, u, x), parameters, start, first)
    followers = [traces.Follower(traces.follow(update, method), loss, window) for method, window in cases]

    @jax.jit
    def run(theta: Any) -> list[Any]:
        state, aside = update.packing.pack(start)
        held = [one.start(theta, state, aside, (None, first), first) for one in followers]

        def advance(carried: Any, x: Any) -> Any:
            made = zip(followers, carried, strict=True)
            return [one.advance(mine, (None, x), x)[0] for one, mine in made], None

        return [one["gradient"] for one in jax.lax.scan(advance, held, inputs)[0]]

    found = run(update.join(parameters))
    return [np.asarray(one) for one in found], [one.following.report[0] for one in followers]


def close(found: Any, wanted: Any, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(found, wanted, rtol=rtol)


def test_heat_by_each_rule_and_window() -> None:
    """Golden numbers A; within short windows the exact trace is exact, and the rules lie between."""
    coupled = DRTRL("coupled")
    cases = [(Exact(), 1), (DRTRL(), 1), (coupled, 1), (Exact(), 2), (DRTRL(), 2), (coupled, 2)]
    setup = (heat, at_the_end(4), dict(nu=jnp.asarray(0.2)), U0, jnp.arange(5))
    found, reports = march(*setup, cases)
    exact, (short, other) = -1.76848384, np.ravel(found)[4:]
    close(np.ravel(found), [exact, -4.802379008, -1.45680512, exact, short, other])
    assert -4.8 < short < exact - 0.1, "a short window leaves the rule's bias"
    assert abs(short - other) > 1, "the two rules differ where the window is short"
    total = reverse(*setup)
    close(jax.grad(total)(setup[2])["nu"], exact)
    near = [float(total(dict(nu=jnp.asarray(0.2 + d)))) for d in (1e-5, -1e-5)]
    close((near[0] - near[1]) / 2e-5, exact, 1e-7)
    assert [one.exact for one in reports] == [True, False, False, True, False, False]
    assert "mul" in str(reports[1])
    assert "exact: no, because D is not diagonal" in str(reports[1])


def test_ratios_of_one_mode_have_a_closed_form() -> None:
    """g_online / g_exact = (a^T − G^T) / ((a − G) T G^(T−1)) for a mode of the heat equation."""
    modes = np.array([[1], [2]])
    start = jnp.asarray(np.cos(2 * np.pi * modes * I8 / 8))

    def both(p: Any, u: Any, x: Any) -> Any:
        return u + p["nu"] * (jnp.roll(u, 1, 1) - 2 * u + jnp.roll(u, -1, 1))

    cases = [(Exact(), 1), (DRTRL(), 1), (DRTRL("coupled"), 1)]
    found, _ = march(both, at_the_end(4), dict(nu=jnp.full((2, 1), 0.2)), start, jnp.arange(5), cases)
    growth = 1 - 0.2 * 4 * np.sin(np.pi * modes[:, 0] / 8) ** 2
    a = np.array([[1.0, 1.0], [0.6, 0.6 + 1e-9]])  # the second mode of the second rule is the limit a → G
    ratios = np.stack(found[1:]) / found[0]
    np.testing.assert_allclose(ratios, (a**5 - growth**5) / ((a - growth) * 5 * growth**4), rtol=1e-6)
    close(ratios, [[1.30302923916, 3.55802469136], [0.533751704625, 1.0]], 1e-11)


GOLDEN_B = {
    "exact": [231.410453824489, 308.152471225056, 288.467146643608],
    "diagonal": [239.621946491318, 326.761794932776, 306.118317305169],
    "coupled": [156.482564738793, 219.076164856998, 202.939246193182],
    "pp_prop": [142.224358557486, 200.002792575601, 184.333002751592],
}


def test_a_kernel_is_learned_by_each_rule() -> None:
    """Golden numbers B, by a convolution; tap by tap see the declarations."""
    cases = [(Exact(), 1), (DRTRL(), 1), (DRTRL("coupled"), 1), (PPProp(0.5, 0.5), 1)]
    found, reports = march(convolved, misfit, dict(K=KERNEL), U0, (TIMES, DRIVE), cases)
    for one, wanted in zip(found, GOLDEN_B.values(), strict=True):
        close(one, wanted)
    assert not np.allclose(found[1], found[2]), "two rules differ"
    total = reverse(learned, misfit, dict(K=KERNEL), U0, (TIMES, DRIVE))
    close(jax.grad(total)(dict(K=KERNEL))["K"], found[0], 1e-12)
    assert [one.exact for one in reports] == [True, False, False, False]
    assert reports[1].shape[-1] == 8
    assert reports[1].bytes == 3 * 8 * 8


SUMMED_FIRST = [264756.101638, 327915.742354, 264440.680981]


def test_summing_positions_first_is_wrong() -> None:
    """The negative control: a trace of the kernel's shape, for which positions are summed before they are paired.

    D̃ = I of the diagonal rule is summed too, to 8 for 8 points, and the gradient is (Σδ)(Σpatch): wrong at the first
    step already, and growing eightfold with every one.
    """

    def one(held: Any, x: Any) -> Any:
        u, eps, gradient = held
        v = jnp.pad(u, 1)
        eps = I8.size * eps + jnp.stack([v[:-2].sum(), v[1:-1].sum(), v[2:].sum()])
        u = learned(dict(K=KERNEL), u, x)
        delta = u - jnp.cos(0.5 * x[0] - 0.2 * I8)
        gradient = gradient + jnp.sum(delta) * eps
        return (u, eps, gradient), gradient

    wrong = np.asarray(jax.lax.scan(one, (U0, jnp.zeros(3), jnp.zeros(3)), (TIMES, DRIVE))[1])
    close(wrong[-1], SUMMED_FIRST)
    first = jax.grad(reverse(learned, misfit, None, U0, (TIMES[:1], DRIVE[:1])))(dict(K=KERNEL))["K"]
    assert np.abs(wrong[0] - first).max() > 0.1 * np.abs(np.asarray(first)).max(), "wrong at one step"
    assert all(np.abs(wrong[-1] / wanted).min() > 100 for wanted in GOLDEN_B.values()), "far from every rule"


def test_leaks_are_diagonal_and_rules_exact() -> None:
    cases = [(Exact(), 1), (DRTRL(), 1), (PPProp(0.8, 0.0), 1), (PPProp(0.8, 0.5), 1)]
    found, reports = march(leaky, misfit, dict(K=KERNEL), U0, (TIMES, DRIVE), cases)
    for one in found[:3]:
        close(one, [-17.611412647133, -13.803228106705, -9.933245798209])
    assert not np.allclose(found[3], found[0])
    assert [one.exact for one in reports] == [True, True, True, False]
    assert reports[1].because == "D is diagonal"


def test_a_diagonal_step_whose_parameter_scales_the_state_is_followed_by_the_coupled_rule() -> None:
    """D is diagonal, and the diagonal rule drops what the decay reads: that is said, and by which rule it is right."""

    def decay(p: Any, u: Any, x: Any) -> Any:
        return u - p["k"] * u

    def loss(u: Any, x: Any) -> Any:
        return jnp.sum(u**2)

    cases = [(Exact(), 1), (DRTRL("coupled"), 1), (DRTRL(), 1)]
    found, reports = march(decay, loss, dict(k=jnp.asarray(0.3)), U0, DRIVE, cases)
    close(found[1]["k"] if isinstance(found[1], dict) else found[1], found[0], 1e-12)
    assert [one.exact for one in reports] == [True, True, False]
    assert not np.allclose(found[2], found[0])
    assert reports[2].structure == "D is diagonal; D̃ by the rule `diagonal`"
    assert 'rule="coupled" is exact here' in reports[2].because


FACES = dict(k=jnp.asarray(0.15 + 0.05 * np.sin(1.3 * I16)))
WAVY = jnp.asarray(np.cos(0.9 * I16) + 0.3 * np.sin(2.1 * I16))


def test_face_coefficients_by_patterns() -> None:
    """Golden numbers C: SnAp closes in on the gradient as its pattern grows."""
    cases: list[Any] = [(Exact(), 1), *((SnAp(n), 1) for n in range(1, 7))]
    found, reports = march(faces, face_misfit, FACES, WAVY, jnp.arange(6), cases)
    close(found[0][:3], [-1.249818153638, -2.327382603629, -1.155247553606], 1e-11)
    errors = [np.linalg.norm(one - found[0]) / np.linalg.norm(found[0]) for one in found[1:]]
    close(errors[:5], [0.6182627, 0.1875884, 2.629776e-2, 1.830538e-3, 5.138414e-5], 2e-7)
    assert errors[5] < 1e-14
    assert [one.shape[0] for one in reports] == [16, 4, 8, 8, 16, 16, 16]
    assert not any(one.exact for one in reports[1:])


def test_colours_are_as_few_as_can_be() -> None:
    """2 for fluxes, 2w + 1 for a band; on a ring one more where 2w + 1 does not divide it."""

    def band(size: int, width: int, ring: bool) -> np.ndarray:
        apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
        return (np.minimum(apart, size - apart) if ring else apart) <= width

    for size, width, ring, wanted in ((15, 1, True, 3), (16, 1, True, 4), (17, 1, True, 4), (16, 1, False, 3),
                                      (20, 2, True, 5), (13, 2, False, 5), (16, 2, True, 6)):  # fmt: skip
        pattern = band(size, width, ring)
        colours = traces.colour(pattern)
        assert colours.max() + 1 == wanted, (size, width, ring)
        assert all(pattern[:, colours == k].sum(1).max() <= 1 for k in range(wanted))
    flux = np.eye(16, dtype=bool) | np.roll(np.eye(16, dtype=bool), 1, 0)
    assert traces.colour(flux).max() + 1 == 2


def test_random_methods_are_right_in_the_mean() -> None:
    """Close to the gradient in the mean of many draws, closer than each; and not by being the gradient in each."""
    cases: list[Any] = [(Exact(), 1)]
    for seed in range(4):
        cases += [(UORO(seed, 3000), 1), (ForwardGradient(seed, 3000), 1)]
    found, _ = march(faces, face_misfit, FACES, WAVY, jnp.arange(6), cases)
    for kind in (found[1::2], found[2::2]):
        drawn = np.stack(kind)
        errors, size = np.linalg.norm(drawn - found[0], axis=1), np.linalg.norm(found[0])
        mean = np.linalg.norm(drawn.mean(0) - found[0])
        assert 1e-3 * size < errors.min()
        assert mean < 0.75 * np.sqrt(np.mean(errors**2)), "independent errors average out, a bias would not"
        assert mean < 0.2 * size


def test_uoro_balances_arrays_of_a_state_by_themselves() -> None:
    """Slopes that a step carries along may be far larger than the field they move: by one balance for all, 3000 draws
    are six times the gradient away."""

    def step(p: Any, state: Any, x: Any) -> Any:
        u, before = state
        slope = 100 * p["k"] * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))
        return u + 0.01 * (1.5 * slope - 0.5 * before), slope

    def loss(state: Any, x: Any) -> Any:
        return jnp.sum(state[0] ** 2)

    start = (jnp.asarray(np.random.default_rng(3).standard_normal(12)), jnp.zeros(12))
    found, _ = march(step, loss, dict(k=jnp.float64(0.1)), start, jnp.arange(3), [(Exact(), 1), (UORO(0, 3000), 1)])
    size = np.linalg.norm(found[0])
    assert 1e-6 * size < np.linalg.norm(found[1] - found[0]) < 0.5 * size


@pytest.mark.parametrize(
    "layout",
    [("NCH", "OIH", "NCH"), ("HNC", "IHO", "CHN")],
    ids=lambda layout: " ".join(layout),
)
def test_convolutions_of_every_layout_and_biases(layout: tuple[str, str, str]) -> None:
    """Strides over features and batch: with a leak, the trace is exact, and its gradient is that by reversal."""
    rng, sizes = np.random.default_rng(1), dict(N=2, C=3, H=5, O=3, I=3)
    kernel = jnp.asarray(rng.standard_normal([2 if a == "H" else sizes[a] for a in layout[1]]))
    bias = jnp.asarray(rng.standard_normal([3 if a == "C" else 1 for a in layout[2]]))
    start = jnp.asarray(rng.standard_normal([sizes[a] for a in layout[2]]))
    inputs = jnp.asarray(rng.standard_normal([4, *(sizes[a] for a in layout[0])]))
    target = jnp.asarray(rng.standard_normal(start.shape))

    def step(p: Any, u: Any, x: Any) -> Any:
        return 0.7 * u + conv(x, p["K"], (1,), [(1, 0)], dimension_numbers=layout) + p["b"]

    def loss(u: Any, x: Any) -> Any:
        return jnp.sum((u - target) ** 2)

    parameters = dict(K=kernel, b=bias)
    found, reports = march(step, loss, parameters, start, inputs, [(DRTRL(), 1)])
    expected = jax.grad(reverse(step, loss, None, start, inputs))(parameters)
    wanted = np.concatenate([np.ravel(expected["K"]), np.ravel(expected["b"])])
    close(found[0], wanted, 1e-11)
    assert reports[0].shape[0] == 6, "features and window, not the features of the result"
    assert reports[0].exact


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_traces_of_inputs_follow_a_kernel_on_either_side_of_a_convolution(left: bool) -> None:
    """With a leak that the decay of the inputs equals, they are exact."""
    rng = np.random.default_rng(5)
    parameters = dict(K=jnp.asarray(rng.standard_normal((2, 3, 3))))
    inputs = jnp.asarray(rng.standard_normal((4, 2, 3, 7)))

    def step(p: Any, u: Any, x: Any) -> Any:
        sides = (p["K"], x) if left else (x, p["K"])
        return 0.7 * u + conv(*sides, (1,), [(2, 2) if left else (0, 0)])

    start = jnp.zeros(jax.eval_shape(step, parameters, 0.0, inputs[0]).shape)
    method = PPProp(alpha_x=0.7, alpha_f=0.0)
    found, _ = march(step, lambda u, x: jnp.sum(u**3), parameters, start, inputs, [(Exact(), 1), (method, 1)])
    close(found[1], found[0], 1e-11)


def test_steps_that_never_come_have_no_part_in_a_gradient() -> None:
    """A window that is longer than the run, or not full yet, is filled up with steps that may have no slopes."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 2.0, num=3), x=fd.Axis(0.0, 1.0, num=3)))
    u[...] = lambda u, k: jnp.sqrt(u["t-1"] - k)  # the fourth root would be that of a negative number
    u[0] = 1.0

    def gradient(adjoint: Any) -> Any:
        return jax.vmap(jax.grad(lambda k: fd.solve(u, k=k, adjoint=adjoint)["u"].sum()))(jnp.array([0.5, 0.45]))

    for window in (2, 3, 7):
        close(gradient(fd.adjoint.Online(window=window)), gradient(fd.adjoint.Full()), 1e-12)
    v = fd.Field("u", fd.Grid(t=fd.Time(0.0, 6.0, num=7), x=fd.Axis(0.0, 1.0, num=3)))
    v[...] = lambda u, k, X: jnp.sqrt(k * u["t-1"] - X[...])
    v[0] = 1.0
    streams = [
        fd.online(v, dict(k=1.0), loss=lambda s, d: jnp.sum(s["u"]), inputs=dict(X=np.zeros(3)), window=window)
        for window in (1, 3)
    ]
    for x in (0.9, 0.0, 0.0, 0.0, 0.1):
        one, other = (stream.step(dict(X=np.full(3, x))).gradient["k"] for stream in streams)
        close(other, one, 1e-12)


def test_a_matrix_of_parameters() -> None:
    """Products keep one trace a column of the matrix, and rows of y."""
    rng = np.random.default_rng(2)
    parameters = dict(W=jnp.asarray(rng.standard_normal((4, 3))))
    start, inputs = jnp.asarray(rng.standard_normal(4)), jnp.asarray(rng.standard_normal((5, 3)))

    def step(p: Any, u: Any, x: Any) -> Any:
        return jnp.tanh(0.5 * u + p["W"] @ x)

    def loss(u: Any, x: Any) -> Any:
        return jnp.sum(u**3)

    found, reports = march(step, loss, parameters, start, inputs, [(DRTRL(), 1), (Exact(), 1)])
    close(found[0], found[1], 1e-11)
    close(found[1], np.ravel(jax.grad(reverse(step, loss, None, start, inputs))(parameters)["W"]), 1e-11)
    assert reports[0].shape == (3, 4)


def _rotated() -> Any:
    """An operation of its own: y = kernel, turned by one place, times x."""
    made = jex.Primitive("turned_product")

    def run(kernel: Any, x: Any) -> Any:
        return jnp.roll(kernel, 1) * x

    made.def_impl(run)
    made.def_abstract_eval(lambda kernel, x: x)
    mlir.register_lowering(made, mlir.lower_fun(run, multiple_results=False))

    def push(primals: Any, tangents: Any) -> Any:
        moved = [
            made.bind(*(t if k == place else p for k, p in enumerate(primals)))
            for place, t in enumerate(tangents)
            if type(t) is not ad.Zero
        ]
        return made.bind(*primals), sum(moved[1:], moved[0])

    def batch(values: Any, axes: Any) -> Any:
        size = next(v.shape[a] for v, a in zip(values, axes, strict=True) if a is not None)
        front = [
            jnp.broadcast_to(v, (size, *v.shape)) if a is None else jnp.moveaxis(v, a, 0)
            for v, a in zip(values, axes, strict=True)
        ]
        return jnp.roll(front[0], 1, -1) * front[1], 0

    ad.primitive_jvps[made] = push
    batching.primitive_batchers[made] = batch
    return made


class Turned(traces.AbstractOperation):
    """Its rules."""

    def adjacency(self, site: traces.Site) -> Any:
        return np.ones((1, *site.raw.shape))

    def solve(self, site: traces.Site, delta: Any, trace: Any) -> Any:
        return jnp.roll(delta * trace[0], -1)


def test_operations_can_be_registered() -> None:
    product = _rotated()
    parameters, start = dict(c=jnp.linspace(0.1, 0.4, 8)), U0
    inputs = DRIVE

    def step(p: Any, u: Any, x: Any) -> Any:
        return 0.6 * u + product.bind(p["c"], x)

    def loss(u: Any, x: Any) -> Any:
        return jnp.sum(u**2)

    setup = (step, loss, parameters, start, inputs)
    with pytest.raises(traces.CannotFollow, match=r"`c`: it enters the step through `turned_product`"):
        march(*setup, [(DRTRL(), 1)])
    traces.register("turned_product", Turned())
    try:
        found, reports = march(*setup, [(DRTRL(), 1), (Exact(), 1)])
        with pytest.raises(fd.DeclarationError, match="is registered already"):
            traces.register("turned_product", Turned())
    finally:
        traces.withdraw("turned_product")
    close(found[0], found[1], 1e-12)
    assert reports[0].operation == "turned_product"
    assert {"mul", "conv_general_dilated", "fdsolve_conv", "dot_general"} <= set(traces.names())


class _Two(traces.AbstractOperation):
    """y_i = k_0 x_i + k_1 x_{i−1}; right with two colours, and their parts to be put wrong."""

    combs: Any = np.eye(2)
    turned = False

    def adjacency(self, site: traces.Site) -> Any:
        return self.combs

    def solve(self, site: traces.Site, delta: Any, trace: Any) -> Any:
        found = jnp.sum(delta * trace, -1)
        return found[::-1] if self.turned else found


def _with_rules(**changed: Any) -> Any:
    return type("Changed", (_Two,), changed)()


def _of_two(results: bool = False) -> Any:
    made = jex.Primitive("two_taps")
    made.multiple_results = results

    def run(kernel: Any, x: Any) -> Any:
        y = kernel[0] * x + kernel[1] * jnp.roll(x, 1)
        return [y, y] if results else y

    made.def_impl(run)
    made.def_abstract_eval(lambda kernel, x: [x, x] if results else x)
    mlir.register_lowering(made, mlir.lower_fun(run, multiple_results=results))
    ad.primitive_jvps[made] = lambda primals, tangents: jax.jvp(
        run, tuple(primals), tuple(map(ad.instantiate_zeros, tangents))
    )
    return made


WRONG = {
    "shape of colours": (dict(combs=np.ones(2)), r"`adjacency` has the shape \(2,\), wanted is \(colours, 2\)"),
    "an entry left out": (dict(combs=np.array([[1, 0]])), "leaves an entry of the parameter out, the first at 1"),
    "one colour for two": (
        dict(combs=np.ones((1, 2)), solve=lambda self, site, delta, trace: jnp.full(2, jnp.sum(delta * trace))),
        "two entries of one colour reach the same entry of y",
    ),
    "entries exchanged": (dict(turned=True), "gives an entry of the parameter what belongs to another"),
    "shape of the gradient": (
        dict(solve=lambda self, site, delta, trace: delta * trace[0]),
        r"`solve` gives the shape \(8,\), wanted is that of the parameter, \(2,\)",
    ),
    "shape of the Jacobian": (
        dict(jacobian=lambda self, site, raw, others: jnp.zeros(8)),
        r"`jacobian` gives the shape \(8,\), wanted is \(colours, \*y\), \(2, 8\)",
    ),
    "half the Jacobian": (
        dict(jacobian=lambda self, site, raw, others: 0.5 * _Two.jacobian(self, site, raw, others)),
        "is not ∂y/∂raw along each colour",
    ),
    "a leak": (
        dict(propagate=lambda self, slope, trace: 0.5 * slope * trace),
        "over two steps, `solve` of what `propagate` makes of a trace gives",
    ),
    "slopes of other places": (
        dict(propagate=lambda self, slope, trace: jnp.roll(slope, 1) * trace),
        "over two steps, `solve` of what `propagate` makes of a trace gives",
    ),
    "shape of the next trace": (
        dict(propagate=lambda self, slope, trace: (slope * trace)[0]),
        r"`propagate` gives the shape \(8,\), wanted is that of the trace, \(2, 8\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ["right", *WRONG])
def test_wrong_rules_of_an_operation_are_told(name: str) -> None:
    """They are held against its derivative before a trace takes them."""
    taps = _of_two()
    parameters = dict(k=jnp.asarray([0.3, 0.2]))

    def step(p: Any, u: Any, x: Any) -> Any:
        return 0.6 * u + taps.bind(p["k"], x)

    def loss(u: Any, x: Any) -> Any:
        return jnp.sum(u**2)

    changed, message = WRONG.get(name, ({}, ""))
    traces.register("two_taps", _with_rules(**changed))
    try:
        if message:
            with pytest.raises(fd.DeclarationError, match=f"registered for `two_taps` has wrong rules.*{message}"):
                march(step, loss, parameters, U0, DRIVE, [(DRTRL(), 1)])
            return
        found, _ = march(step, loss, parameters, U0, DRIVE, [(DRTRL(), 1), (Exact(), 1)])
    finally:
        traces.withdraw("two_taps")
    close(found[0], found[1], 1e-12)


@pytest.mark.parametrize("registered", [False, True])
def test_operations_of_several_results_are_refused_with_a_way_that_works(registered: bool) -> None:
    taps = _of_two(results=True)
    update = traces.make_update(
        lambda p, u, x, c: 0.6 * u + taps.bind(p["k"], x)[0], dict(k=jnp.asarray([0.3, 0.2])), U0, DRIVE[0]
    )
    if registered:
        traces.register("two_taps", _Two())
    try:
        with pytest.raises(traces.CannotFollow, match="`two_taps`") as refused:
            traces.follow(update, DRTRL())
    finally:
        traces.withdraw("two_taps")
    assert "register" not in str(refused.value).replace("registered", "")
    assert traces.follow(update, DRTRL(), Exact()).report[0].exact


def test_operations_are_registered_by_the_names_of_primitives() -> None:
    with pytest.raises(fd.DeclarationError, match=r"the name of a primitive, its `\.name`, got .*two_taps"):
        traces.register(_of_two(), _Two())
    assert all(isinstance(name, str) for name in traces.names())


def test_waves_are_refused() -> None:
    """A mode that turns undamped, seen in one state; the message names the exact methods."""

    def swing(p: Any, u: Any, x: Any) -> Any:
        height, speed = u
        speed = speed + p["c"] * laplace(height)
        return height + speed, speed

    update = traces.make_update(lambda p, u, x, c: swing(p, u, x), dict(c=jnp.asarray(0.2)), (U0, 0 * U0))
    for method in (DRTRL(), DRTRL("coupled"), PPProp()):
        with pytest.raises(fd.DeclarationError, match=r'is not for waves.*\n?.*wrong sign.*method="forward"'):
            traces.follow(update, method)
    assert traces.follow(update, Exact()).report[0].exact


def test_parameters_beyond_a_trace_are_refused_or_followed_exactly() -> None:
    """No silent zeros: what a rule cannot follow is an error, or is taken by the exact method."""

    def step(p: Any, u: Any, x: Any) -> Any:
        return 0.5 * u + 0.1 * jnp.cumsum(p["s"] * jnp.sin(u)) + p["a"] * x

    parameters = dict(s=jnp.linspace(0.2, 0.6, 8), a=jnp.asarray(0.3))
    update = traces.make_update(lambda p, u, x, c: step(p, u, x), parameters, U0, DRIVE[0])
    with pytest.raises(traces.CannotFollow, match="several points"):
        traces.follow(update, PPProp())
    following = traces.follow(update, PPProp(), Exact())
    assert [row.method for row in following.report] == ["forward", "pp_prop"]
    both = traces.follow(update, dict(s=Exact(), a=DRTRL("coupled")))
    assert [row.exact for row in both.report] == [True, False]
    with pytest.raises(fd.DeclarationError, match="`q` is no parameter"):
        traces.follow(update, dict(s=Exact(), a=Exact(), q=Exact()))


@pytest.mark.parametrize("wall", ["neumann", "robin", "value", "start"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_snap_is_exact_for_its_steps(wall, n):
    """Also where the first state depends on the parameter: it lies a step before what the first step gives."""
    walls = {
        "neumann": fd.boundary.Neumann(lambda b: b),
        "robin": fd.boundary.Robin(1.0, 2.0, lambda b: b),
        "value": fd.boundary.Dirichlet(lambda b: b),
        "start": fd.boundary.Neumann(0.0),
    }
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.04, num=11), x=fd.Axis(0.0, 1.0, num=8, cells=True)))
    u[...] = lambda u, dt: u["t-1"] + dt * fd.schemes.laplacian(u, at="t-1")
    u[0] = (lambda x, b: jnp.sin(3 * x) * jnp.where(x < 0.2, b, 1.0)) if wall == "start" else (lambda x: jnp.sin(3 * x))
    u[dict(x=0)], u[dict(x=-1)] = walls[wall], fd.boundary.Neumann(0.0)

    def follow(**options):
        stream = fd.online(u, dict(b=0.7), loss=lambda values, data: jnp.sum(values["u"] ** 2), **options)
        return [float(stream.step().gradient["b"]) for _ in range(n)]

    exact = follow()
    assert all(exact)
    with pytest.warns(fd.FdsolveWarning, match="not exact"):
        np.testing.assert_allclose(follow(method="snap", n=n), exact, rtol=1e-12)
