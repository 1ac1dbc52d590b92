"""Derivatives of rules that have much in common, by generated code: one way back through all of them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.kernels.native._weights import target, together
from fdsolve.schemes import HLL, TVD, Heun, ShallowWater, conservation
from fdsolve.stencil import StateRead, WholeRead, make_traced

U, V = StateRead("u", 0, (0,)), StateRead("v", 0, (1,))
K = WholeRead("parameter k")


def _flux(u: Any, v: Any, k: Any) -> tuple[Any, Any]:
    common = u
    for _ in range(12):
        common = jnp.sin(common * k) + v / (2.0 + common * common)
    return common * u, common - v * k


def test_the_derivatives_of_rules_together_are_the_sum_of_theirs() -> None:
    specs = [jax.ShapeDtypeStruct((), np.float64)] * 3
    rules = tuple(
        make_traced(jax.make_jaxpr(lambda *a, n=n: _flux(*a)[n])(*specs), (U, V, K), np.dtype(float)) for n in (0, 1)
    )
    pulls = together(rules, np.dtype(float))
    assert pulls is not None and set(pulls) == {U, V, K}
    given = dict(zip((U, V, K), np.random.default_rng(1).normal(size=3), strict=True))
    seeds = {target(0): 0.7, target(1): -1.3}
    wanted = jax.vjp(_flux, *given.values())[1](tuple(seeds.values()))
    for operand, value in zip((U, V, K), wanted, strict=True):
        pull = pulls[operand]
        found = pull.function(pull.consts)(*((seeds | given)[one] for one in pull.operands))
        np.testing.assert_allclose(found, value, rtol=1e-13)
    assert together(rules[:1] * 2, np.dtype(float)) is not None  # the same twice has everything in common


def test_the_gradient_of_shallow_water_is_that_of_the_portable_kernel() -> None:
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=7), x=fd.Axis(0.0, 1.0, num=12, cells=True))
    fields = h, q = [fd.Field(name, grid) for name in ("h", "q")]
    law = ShallowWater(g=1.0)
    fd.together(*fields)[...] = fd.rate(
        lambda h, q, k: tuple(k * r for r in conservation(law, (h, q), flux=HLL(), reconstruction=TVD()))
    )
    h[0], q[0] = (lambda a: a[...]), 0.0
    h[dict(x=[0, -1])], q[dict(x=[0, -1])] = fd.boundary.Symmetric(), fd.boundary.Antisymmetric()
    depth = 1.0 + np.random.default_rng(2).uniform(size=12)

    def loss(a: Any, k: Any, kernel: str) -> Any:
        found = fd.solve(fields, a=a, k=k, stepper=Heun(), save=fd.final(), kernel=kernel).final
        return jnp.sum(jnp.asarray(found["h"]) ** 3 + jnp.asarray(found["q"]))

    ours, wanted = (jax.grad(loss, (0, 1))(depth, 1.1, kernel) for kernel in ("native", "slices"))
    for one, other in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
