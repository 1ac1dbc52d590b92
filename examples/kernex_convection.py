"""kernex's convection example, as a field and its regions, and as the scan over windows that it was.

The README of kernex 0.2.1 (M. Asem, https://github.com/ASEM000/kernex) moves a square wave with one `kscan` over a time
× space array of 151 × 51 points: upwind differences inside, 1 at both ends, and at the start 2 on points 13 to 24. Run
there, in float32, its last row sums to 63.0 and has the maximum 1.9879777. The rules are the same here, once for
a field on a grid and once for the bare array in kernex's notation; either way all points of a level are computed at
once, where kernex visits them one by one.
"""

from math import comb
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

grid = fd.Grid(t=fd.Time(0.0, 0.5, num=151, units="s"), x=fd.Axis(0.0, 2.0, num=51, units="m"))
u = fd.Field("u", grid, units="m/s")


def linear_convection(u, c, dt, dx):
    return u["t-1"] - c * dt / dx * (u["t-1"] - u["t-1", "x-1"])


u[...] = linear_convection
u[0] = 1.0
u[0, 13:25] = 2.0
u[:, 0] = u[:, -1] = 1.0

solution = fd.solve(u, c=0.5)

width, share = 51, 0.5 * grid.t.step / grid.x.step
F = fd.kscan(kernel_size=(3, 3), padding=((1, 1), (1, 1)), named_axis={0: "n", 1: "i"}, relative=True)
F[...] = lambda u: 1.0
F[:1, 13:25] = lambda u: 2.0
F[1:, 1:-1] = lambda u: u["i", "n-1"] - share * (u["i", "n-1"] - u["i-1", "n-1"])
scanned = F(jnp.zeros((151, width)))
assert abs(scanned - solution["u"]).max() < 1e-13

total, top = float(solution["u"][-1].sum()), float(solution["u"][-1].max())
assert abs(total / 63.0 - 1) < 1e-6, total
assert abs(top / 1.9879777 - 1) < 1e-7, top

# Each step moves the share cΔt/Δx one point on: how far the wave has gone is binomial.
steps = grid.t.num - 1
moved = [comb(steps, k) * share**k * (1 - share) ** (steps - k) for k in range(width)]
exact = 1 + np.convolve(solution["u"][0] - 1, np.array(moved))[:width]
assert abs(solution["u"][-1] - exact)[:-1].max() < 1e-12

history = solution.to_xarray().u
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
image = left.pcolormesh(history.x, history.t, history, cmap="viridis", vmin=1, vmax=2, shading="nearest")
left.set(xlabel="x (m)", ylabel="time (s)", title="all 151 levels")
fig.colorbar(image, ax=left, label="u (m/s)")
for level, color in zip(range(0, 151, 30), plt.get_cmap("viridis")(np.linspace(0, 0.9, 6)), strict=True):
    right.plot(history.x, history[level], color=color, lw=1.8, label=f"{float(history.t[level]):.1f} s")
right.set(xlabel="x (m)", ylabel="u (m/s)", xlim=(0, 2), title="every thirtieth")
right.legend(frameon=False, title="time")
right.spines[["top", "right"]].set_visible(False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/kernex_convection.png", dpi=150)
print(f"kernex convection: sum {total:.6f}, maximum {top:.6f}; picture in out/kernex_convection.png")
