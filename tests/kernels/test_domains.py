"""Every kernel for partial, ragged and grouped domains: the answers of plain loops, derivatives that fit together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

from .domain_cases import all_cases

CASES = all_cases(1)
OPERATIONS = ("recurrence", "pool", "ragged", "grouped", "block_sparse")
KERNELS = [(name, kernel.backend) for name in OPERATIONS for kernel in fd.kernels.available(name)]


def served(operation, backend, dtype):
    """The cases that a kernel serves: a function of the operands and its input in a dtype, and the case."""
    found = []
    for case in CASES:
        if case.operation != operation:
            continue
        operands = tuple(jnp.asarray(x, dtype) for x in case.operands)
        traced = tuple(map(jnp.asarray, case.traced))

        def run(operands, traced, case=case):
            return case.run(backend, *operands, *traced)

        try:
            shape = jax.eval_shape(run, operands, traced)
        except fd.PlanningError:
            continue
        found.append((run, operands, traced, case, shape))
    assert found, f"no case is served by {backend}"
    return found


def draw(rng, like):
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape), x.dtype), like)


@pytest.mark.parametrize(("operation", "backend"), KERNELS)
def test_a_kernel_gives_the_answer_of_plain_loops_and_its_derivatives_fit_together(operation, backend):
    rng, cases = np.random.default_rng(2), served(operation, backend, "float64")
    inputs = [(x, draw(rng, x), draw(rng, shape), traced) for _, x, traced, _, shape in cases]

    def differentiate(run, operands, tangents, cotangent, traced):
        moved = jax.jvp(lambda *given: run(given, traced), operands, tangents)[1]
        return moved, jax.vjp(lambda *given: run(given, traced), *operands)[1](cotangent)

    @jax.jit
    def everything(inputs):
        values = [run(given[0], given[-1]) for (run, *_), given in zip(cases, inputs, strict=True)]
        return values, [differentiate(case[0], *given) for case, given in zip(cases[:2], inputs[:2], strict=True)]

    values, derivatives = everything(inputs)
    for value, (*_, case, _) in zip(values, cases, strict=True):
        np.testing.assert_allclose(value, case.answer, rtol=1e-12, atol=1e-12)
    for (moved, back), (_, tangents, cotangent, _) in zip(derivatives, inputs[:2], strict=True):
        ahead, behind = np.vdot(cotangent, moved), sum(map(np.vdot, back, tangents))
        assert abs(ahead - behind) <= 1e-13 * max(np.linalg.norm(cotangent) * np.linalg.norm(moved), 1.0)


@pytest.mark.parametrize(("operation", "backend"), KERNELS)
def test_a_kernel_keeps_single_precision_and_complex_numbers_and_serves_several_inputs(operation, backend):
    run, operands, traced, case, _ = served(operation, backend, "float32")[0]
    linear = {"recurrence": (1, 2), "block_sparse": (0, 2)}.get(operation, (0,))
    turned = tuple(
        x.astype(jnp.complex64) * jnp.complex64(1 + 2j) if number in linear else x for number, x in enumerate(operands)
    )

    @jax.jit
    def everything(operands, turned):
        twice = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), operands)
        doubled = jax.tree.map(lambda x: x[1], twice)
        several = jax.vmap(run, (0, None))(twice, traced)
        return run(operands, traced), run(turned, traced), several, run(doubled, traced)

    value, rotated, several, second = everything(operands, turned)
    assert (value.dtype, rotated.dtype) == (jnp.float32, jnp.complex64)
    np.testing.assert_allclose(value, case.answer, rtol=1e-4, atol=1e-4)
    wanted = (1 + 2j) * case.answer
    if operation == "pool":  # windows without a point have a value of their own
        wanted = np.where(case.answer == 7.0, 7.0, wanted)
    np.testing.assert_allclose(rotated, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(several[0], value, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(several[1], second, rtol=1e-4, atol=1e-4)
