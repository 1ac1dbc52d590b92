"""Linear convection in one dimension: a square wave carried along, and smeared by the upwind difference.

u_t + c u_x = 0 on 0 ≤ x ≤ 2 m. Lesson 1 of CFD Python (L. A. Barba and G. F. Forsyth, "CFD Python: the 12 steps to
Navier–Stokes equations", J. Open Source Education 1(9), 21, 2018), with its grid, its time step and its 25 steps.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

grid = fd.Grid(t=fd.Time(0.0, 0.625, step=0.025, units="s"), x=fd.Axis(0.0, 2.0, num=41, units="m"))
u = fd.Field("u", grid, units="m/s")


def upwind(u, c, dt, dx):
    return u["t-1"] - c * dt / dx * (u["t-1"] - u["t-1", "x-1"])


u[...] = upwind
u[:, 0] = 1.0
u[0] = 1.0
u.loc[dict(t=0.0, x=slice(0.5, 1.0))] = 2.0

solution = fd.solve(u, c=1.0)

# The norm and the sum of the lesson's last array, from its own loop in float64.
norm, total = float(jnp.linalg.norm(solution.final["u"])), float(solution.final["u"].sum())
assert abs(norm / 8.437617885 - 1) < 1e-6, norm
assert abs(total / 51.99945596 - 1) < 1e-6, total

history = solution.to_xarray().u
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for level, color in zip(range(0, 26, 5), plt.get_cmap("viridis")(np.linspace(0, 0.9, 6)), strict=True):
    state = history[level]
    ax.plot(state.x, state, color=color, lw=1.8, label=f"{float(state.t):.3f} s")
ax.set(xlabel="x (m)", ylabel="u (m/s)", xlim=(0, 2), title="A square wave, carried to the right at 1 m/s")
ax.legend(title="time", frameon=False)
ax.spines[["top", "right"]].set_visible(False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cfd_01_linear_convection.png", dpi=150)
print(f"linear convection: |u| = {norm:.9f}, sum = {total:.8f}; picture in out/cfd_01_linear_convection.png")
