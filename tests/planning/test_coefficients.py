"""Coefficients at every point: cut out of what is given, and put together beyond periodic ends, by slices alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd

AXES = {
    "inside": dict(num=9),
    "ring": dict(num=8, periodic=True),
    "cells": dict(num=8, cells=True),
}


@pytest.mark.parametrize("kind", AXES)
def test_a_coefficient_is_neither_gathered_nor_scattered(kind: str) -> None:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.3, num=4), x=fd.Axis(0.0, 1.0, **AXES[kind])))
    far = ("x+1", "x-1") if kind == "ring" else ("x", "x")
    u[...] = lambda u, k: u["t-1"] + k[far[0]] * u["t-1"] ** 2 + k[far[1]]
    u[0] = 0.3
    if kind != "ring":
        u[dict(x=[0, -1])] = lambda: 0.1
    k = jnp.asarray(np.random.default_rng(0).random(AXES[kind]["num"]))

    def total(k: jax.Array) -> jax.Array:
        return jnp.sum(fd.solve(u, k=k, save=fd.final(), kernel="slices")["u"] ** 2)

    shown = str(jax.make_jaxpr(jax.grad(total))(k))
    assert "gather" not in shown and "scatter" not in shown
    for at in (0, 1, 3, k.size - 2):
        ahead, behind = total(k.at[at].add(1e-5)), total(k.at[at].add(-1e-5))
        np.testing.assert_allclose(jax.grad(total)(k)[at], (ahead - behind) / 2e-5, rtol=1e-8, atol=1e-10)
