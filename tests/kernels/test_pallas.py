"""The GPU kernel in interpret mode against fused slices, its derivatives, and what it hands to the compiler."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import pallas
from fdsolve.kernels.pallas._march import turn
from fdsolve.kernels.pallas._operations import make_program
from fdsolve.kernels.pallas._tiles import make_tiling

from . import pallas_cases as cases

CASES = [
    (cases.heat, np.float64, (8, 16), 1, 2),
    (cases.wave, np.float64, (16,), 2, 5),
    (cases.staggered, np.float64, (8,), 2, 4),
    (cases.holed, np.float64, (16, 16), 1, 2),
    (cases.solid, np.float64, (8, 8, 4), 1, 2),
    (cases.acoustic, np.float32, (8, 16), 1, 2),
]


def run(case, dtype, tile, levels, steps):
    fields, parameters = case(dtype)
    call, arrays, given, start = cases.prepare(fields, steps, dtype, **parameters)
    options = pallas.Options(levels=levels, tile=tile, interpret=True)
    return call, arrays, given, partial(pallas.march, call, start=start, options=options), start


@pytest.mark.parametrize(
    ("case", "dtype", "tile", "levels", "steps"), CASES, ids=lambda v: getattr(v, "__name__", str(v))
)
def test_it_gives_what_fused_slices_give(case, dtype, tile, levels, steps):
    call, arrays, given, march, start = run(case, dtype, tile, levels, steps)
    found = jax.jit(lambda a, g: march(a, g))(arrays, given)
    wanted = jax.jit(partial(pallas.march_portably, call))(arrays, given, jnp.asarray(start))
    assert found.keys() == wanted.keys()
    for name in wanted:
        assert len(found[name]) == len(wanted[name])
        for a, b in zip(found[name], wanted[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 if dtype == np.float64 else 2e-5)
            assert float(jnp.abs(b - given[name][0]).max()) > 1e-3


def small(steps, levels=1, tile=(64,), dtype=np.float64):
    """A quick case: a call, its arrays and levels, and the march as a function of both."""
    call, arrays, given, march, start = run(cases.staggered, dtype, tile, levels, steps)
    return call, arrays, given, march, start


def test_derivatives_are_those_of_fused_slices_and_adjoint_to_each_other():
    call, arrays, given, march, start = small(3)
    random = np.random.default_rng(3)
    moved = jax.tree.map(lambda x: jnp.asarray(random.normal(size=x.shape)), given)
    back = jax.tree.map(lambda x: jnp.asarray(random.normal(size=x.shape)), given)
    _, tangent = jax.jvp(lambda g: march(arrays, g), (given,), (moved,))
    _, wanted = jax.jvp(lambda g: pallas.march_portably(call, arrays, g, jnp.asarray(start)), (given,), (moved,))
    (cotangent,) = jax.vjp(lambda g: march(arrays, g), given)[1](back)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-13), tangent, wanted)

    def dot(a, b):
        return sum(float(jnp.vdot(x, y)) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))

    np.testing.assert_allclose(dot(tangent, back), dot(moved, cotangent), rtol=1e-13)


def test_it_runs_under_vmap():
    _, arrays, given, march, _ = small(1)
    scales = jnp.asarray([1.0, 2.0, -3.0])
    found = jax.jit(jax.vmap(lambda s: march(arrays, jax.tree.map(lambda x: s * x, given))))(scales)
    wanted = march(arrays, given)
    for name in wanted:
        np.testing.assert_allclose(found[name][0], scales[:, None] * wanted[name][0], rtol=1e-13)


@pytest.mark.filterwarnings("ignore:.*Pallas Triton backend is deprecated.*:DeprecationWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_launch_is_handed_to_the_compiler_for_a_pass(dtype):
    fields, parameters = cases.holed(dtype)
    call, arrays, given, start = cases.prepare(fields, 1, dtype, **parameters)
    text = cases.lower_for_gpu(lambda a, g: pallas.march(call, a, g, start), arrays, given)
    assert text.count("__gpu$xla.gpu.triton") == 1


@pytest.mark.parametrize(("case", "levels", "passes"), [(cases.heat, 1, 2), (cases.wave, 1, 3), (cases.wave, 2, 2)])
def test_arrays_change_places_until_each_is_back(case, levels, passes):
    fields, parameters = case(np.float64)
    call, *_ = cases.prepare(fields, 1, np.float64, **parameters)
    assert turn(make_program(call), levels) == passes


def test_it_says_why_it_does_not_serve():
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=5), x=fd.Axis(0.0, 1.0, num=8))

    def reason(rule, dtype=float, **parameters):
        u = fd.Field("u", grid, dtype=dtype)
        u[...] = rule
        u[0] = 1.0
        u[:, 0] = u[:, -1] = 1.0
        made = fd.plan(u, **parameters)
        phase = made.structure.phases[made.structure.segments[-1].phases[-1]]
        return pallas.why_not(fd.kernels.MarchCall(made.structure, phase, ("x",), 2, "gpu"))

    assert reason(lambda u: u["t-1", "x-1"] + u["t-1", "x+1"]) is None
    assert "stepper" in reason(fd.rate(lambda u: -u))
    assert "sweep" in reason(lambda u: u["t-1"] + 0.5 * u["x-1"])
    assert "complex128" in reason(lambda u: 1j * u["t-1"], complex)
    assert "array" in reason(lambda u, a: u["t-1"] * jnp.sum(a), a=fd.whole(jnp.arange(3000.0)))


def test_it_is_registered_for_gpus_only():
    kernel = fd.kernels.get("march", "pallas")
    call, *_ = small(1)
    assert kernel.refusal(call) is None
    assert "gpu" in kernel.refusal(replace(call, platform="cpu"))


@pytest.mark.parametrize("case", [cases.heat, cases.staggered, cases.solid, cases.acoustic])
@pytest.mark.parametrize("size", [2, 4, 16])
def test_every_tile_is_of_one_class_and_within_its_box(case, size):
    fields, parameters = case(np.float64)
    call, *_ = cases.prepare(fields, 1, np.float64, **parameters)
    tiling = make_tiling(make_program(call), (size,) * len(call.axes), 2)
    leaves = list(tiling.leaves())
    covered = np.zeros(tiling.counts, int)
    for runs, box in leaves:
        if runs is not None:
            covered[tuple(slice(a, b) for a, b in runs)] += 1
            sides = zip(runs, tiling.tile, tiling.box.start, box.start, box.stop, strict=True)
            for (a, b), side, first, low, high in sides:
                assert (low - first, high - first) == (a * side, b * side)
    assert (covered == 1).all() if tiling.main is None else covered.sum() > 0
    assert all(n * t >= m for n, t, m in zip(tiling.counts, tiling.tile, tiling.box.shape, strict=True))
