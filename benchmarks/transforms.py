"""Many levels of heat at once: the cost of transforms and of composed stencils, beside levels one by one.

Run `python -m benchmarks.transforms`; prints medians of interleaved runs, and the cost of one transform there and back.
"""

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.kernels import Arrays, MarchCall, get


def heat(num: int, periodic: bool, dtype: Any, levels: int) -> fd.Field:
    """Heat on a square, 5 points."""
    axis = fd.Axis(0.0, 1.0, num=num, periodic=periodic)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=levels + 1), x=axis, y=axis), dtype=dtype)
    u[...] = lambda u, r: (
        u["t-1"]
        + r * (u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y-1"] + u["t-1", "y+1"] - 4 * u["t-1"])
    )  # fmt: skip
    u[0] = 1.0
    if not periodic:
        u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    return u


def compiled(backend: str, num: int, periodic: bool, dtype: Any, levels: int) -> Callable[[], Any]:
    """A march of so many levels, ready to run."""
    plan = fd.plan(heat(num, periodic, dtype, levels), r=0.2, save=fd.final(), kernel="slices")
    structure, arrays = plan.structure, Arrays(**plan.operands)
    phase = structure.phases[structure.segments[-1].phases[0]]
    call = MarchCall(structure, phase, ("x", "y"), levels, "cpu")
    shape = structure.arrays[0].padded_shape
    state = {"u": (jnp.asarray(np.random.default_rng(0).standard_normal(shape), dtype),)}
    run = jax.jit(lambda a, s: get("march", backend)(call, a, s, 1)).lower(arrays, state).compile()
    return lambda: jax.block_until_ready(run(arrays, state))


def transform(num: int, dtype: Any) -> Callable[[], Any]:
    """A real transform there and back."""
    values = jnp.asarray(np.random.default_rng(0).standard_normal((num, num)), dtype)
    run = jax.jit(lambda v: jnp.fft.irfft2(jnp.fft.rfft2(v), v.shape)).lower(values).compile()
    return lambda: jax.block_until_ready(run(values))


def measure(runs: dict[str, Callable[[], Any]], rounds: int = 5) -> dict[str, float]:
    """Median seconds of each, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = perf_counter()
            run()
            times[name].append(perf_counter() - start)
    return {name: median(found) for name, found in times.items()}


def main(num: int = 1024, few: int = 25, many: int = 100_000) -> None:
    """Prints the table."""
    print(f"| {num}² | transform | fft, {many} levels | slices, a level | powers, a level |\n|---|---|---|---|---|")
    for dtype in (jnp.float32, jnp.float64):
        jax.config.update("jax_enable_x64", dtype == jnp.float64)
        for periodic in (True, False):
            found = measure(
                {
                    "transform": transform(num, dtype),
                    "fft": compiled("fft", num, periodic, dtype, many),
                    "slices": compiled("slices", num, periodic, dtype, few),
                    "powers": compiled("powers", num, periodic, dtype, few),
                }
            )
            name = f"{np.dtype(dtype).name}, {'periodic' if periodic else 'Dirichlet'}"
            levels = " | ".join(f"{1e3 * found[k] / few:.2f} ms" for k in ("slices", "powers"))
            print(f"| {name} | {1e3 * found['transform']:.0f} ms | {1e3 * found['fft']:.0f} ms | {levels} |")


if __name__ == "__main__":
    main()
