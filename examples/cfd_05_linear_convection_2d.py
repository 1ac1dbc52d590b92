"""Linear convection in two dimensions: a square hat carried along the diagonal.

u_t + c u_x + c u_y = 0 on 2 m × 2 m, u = 1 at the edges. Lesson 5 of CFD Python (L. A. Barba and G. F. Forsyth, "CFD
Python: the 12 steps to Navier–Stokes equations", J. Open Source Education 1(9), 21, 2018): 81 × 81 points, Δt = 0.2 Δx,
and 101 steps (its loop runs over range(nt + 1) with nt = 100).
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

steps, sigma = 101, 0.2
x_axis, y_axis = (fd.Axis(0.0, 2.0, num=81, units="m") for _ in "xy")
grid = fd.Grid(t=fd.Time(0.0, steps * sigma * x_axis.step, num=steps + 1, units="s"), x=x_axis, y=y_axis)
u = fd.Field("u", grid, units="m/s")


def upwind(u, c, dt, dx, dy):
    before = u["t-1"]
    return before - c * dt / dx * (before - u["t-1", "x-1"]) - c * dt / dy * (before - u["t-1", "y-1"])


u[...] = upwind
u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 1.0
u[0] = 1.0
u.loc[dict(t=0.0, x=slice(0.5, 1.0), y=slice(0.5, 1.0))] = 2.0

solution = fd.solve(u, c=1.0, save=fd.every(steps))

norm = float(jnp.linalg.norm(solution.final["u"]))  # of the lesson's last array, from its own loop in float64
assert abs(norm / 87.83561566 - 1) < 1e-6, norm

fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, state in zip(axes, solution.to_xarray().u, strict=True):
    image = ax.pcolormesh(state.x, state.y, state.T, cmap="viridis", vmin=1, vmax=2, shading="gouraud")
    ax.set(title=f"t = {float(state.t):.3f} s", xlabel="x (m)", aspect="equal")
axes[0].set_ylabel("y (m)")
fig.colorbar(image, ax=axes, label="u (m/s)")
fig.suptitle("A square hat carried along the diagonal")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cfd_05_linear_convection_2d.png", dpi=150)
print(f"2-D linear convection: |u| = {norm:.8f}; picture in out/cfd_05_linear_convection_2d.png")
