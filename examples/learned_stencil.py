"""Learning from data: the nine weights of an advection kernel, and a closure that makes a coarse Burgers solver better.

First q(t + Δt) = Σ wₖ q(x + k) on a periodic square: w is found from noisy snapshots, with nothing known of it, and is
the kernel that made them. Then u_t + (u²/2)_x = ν u_xx on 32 points, where 256 are needed: what the coarse grid
does not see is learned as four coefficients of the flux between two points (one is Smagorinsky's, Mon. Weather Rev.
91, 99, 1963) from one run on the fine grid, and judged by another one, that it has not seen.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)
draw, side = np.random.default_rng(0), fd.Axis(0.0, 1.0, num=32, periodic=True)
q = fd.Field("q", fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=side, y=side))
offsets = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
q[...] = lambda q, w: sum(w[k] * q["t-1", f"x{i:+d}", f"y{j:+d}"] for k, (i, j) in enumerate(offsets))
q[0] = draw.standard_normal((32, 32))
a, b = 0.4, 0.25  # Courant numbers: the kernel is upwind, bilinear in them
kernel = np.outer([a, 1 - a, 0.0], [b, 1 - b, 0.0]).ravel()
snapshots = fd.solve(q, w=kernel).to_xarray().q
snapshots = snapshots + 1e-3 * draw.standard_normal(snapshots.shape)


def errors(parameters):
    return fd.misfit(fd.solve(q, w=parameters["w"]), snapshots)


learned = fd.invert(errors, dict(w=np.full(9, 1 / 9)))
worst = float(abs(learned.parameters["w"] - kernel).max())
assert learned.converged and worst < 1e-3, learned


def burgers(u, c, dx, nu=0.005):
    """Fluxes between two points, from four; for c = 0 of second order."""

    def flux(left, west, east, right):
        jump, bend = east - west, right - 3 * east + 3 * west - left
        steep = c[0] * jump**2 + c[1] * jump * jnp.sqrt(jump**2 + 1e-6)
        far = c[2] * (east + west) * (right - east - west + left)
        return (east**2 + west**2) / 4 + steep + far - nu / dx * (jump + c[3] * bend)

    at = [u[f"x{k:+d}"] for k in range(-2, 3)]
    return (flux(*at[:4]) - flux(*at[1:])) / dx


def march(num, levels, c, mode):
    """u on `num` points at 17 times; `mode` tells the start."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=levels), x=fd.Axis(0, 1, num, periodic=True)))
    u[...] = fd.rate(burgers)
    u[0] = lambda x, mode: 0.3 + jnp.sin(2 * jnp.pi * x) + mode * jnp.cos(4 * jnp.pi * x)
    return fd.solve(u, c=c, mode=mode, save=fd.every(levels // 16), stepper=fd.schemes.Heun())


none, seen, unseen = np.zeros(4), 0.5, -0.3
fine = {mode: march(256, 1025, none, mode).to_xarray().u[:, ::8] for mode in (seen, unseen)}
closure = fd.invert(lambda p: fd.misfit(march(32, 65, p["c"], seen), fine[seen]), dict(c=none))
runs = [march(32, 65, c, unseen) for c in (none, closure.parameters["c"])]
before, after = (float((fd.misfit(run, fine[unseen]) ** 2).mean() ** 0.5) for run in runs)
assert after < 0.6 * before, (before, after)

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
left.bar(range(9), kernel, color="0.8", label="true kernel")
left.plot(range(9), learned.parameters["w"], "o", color="#b5367a", label="learned")
left.set(xticks=range(9), xticklabels=[f"{i}\n{j}" for i, j in offsets], ylim=(-0.02, 0.5))
left.set(xlabel="offset in x and in y", ylabel="weight")
right.plot(fine[unseen].x, fine[unseen][8], color="0.7", lw=4, label="256 points")
for run, color, text in zip(runs, ("#21918c", "#b5367a"), ("32 points", "32 points, learned flux"), strict=True):
    right.plot(fine[unseen].x, run["u"][8], ".-", color=color, lw=1, label=text)
right.set(xlabel="x", ylabel="u at t = 0.5", title=f"a start not learned from: error {before:.3f} → {after:.3f}")
left.legend(frameon=False), right.legend(frameon=False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/learned_stencil.png", dpi=150)
print(f"kernel to {worst:.0e}; closure: error {before:.4f} → {after:.4f}; out/learned_stencil.png")
