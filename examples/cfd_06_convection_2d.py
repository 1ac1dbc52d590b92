"""Nonlinear convection in two dimensions: two velocities that carry each other.

u_t + u u_x + v u_y = 0 and v_t + u v_x + v v_y = 0 on 2 m × 2 m, u = v = 1 at the edges. Lesson 6 of CFD Python (L.
A. Barba and G. F. Forsyth, "CFD Python: the 12 steps to Navier–Stokes equations", J. Open Source Education 1(9), 21,
2018): 101 × 101 points, Δt = 0.2 Δx, and 81 steps (its loop runs over range(nt + 1) with nt = 80).
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

steps, sigma = 81, 0.2
x_axis, y_axis = (fd.Axis(0.0, 2.0, num=101, units="m") for _ in "xy")
grid = fd.Grid(t=fd.Time(0.0, steps * sigma * x_axis.step, num=steps + 1, units="s"), x=x_axis, y=y_axis)
u, v = fd.Field("u", grid, units="m/s"), fd.Field("v", grid, units="m/s")


def carried(q, u, v, dt, dx, dy):
    """The quantity q after a step in the wind (u, v), by upwind differences."""
    before = q["t-1"]
    along_x = u["t-1"] * dt / dx * (before - q["t-1", "x-1"])
    along_y = v["t-1"] * dt / dy * (before - q["t-1", "y-1"])
    return before - along_x - along_y


both = fd.together(u, v)
both[...] = lambda u, v, dt, dx, dy: (carried(u, u, v, dt, dx, dy), carried(v, u, v, dt, dx, dy))
for field in (u, v):
    field[dict(x=[0, -1])] = field[dict(y=[0, -1])] = 1.0
    field[0] = 1.0
    field.loc[dict(t=0.0, x=slice(0.5, 1.0), y=slice(0.5, 1.0))] = 2.0

solution = fd.solve([u, v], save=fd.every(steps))

norm = float(jnp.linalg.norm(solution.final["u"]))  # of the lesson's last array, from its own loop in float64
assert abs(norm / 107.9607413 - 1) < 1e-6, norm
assert abs(float(jnp.linalg.norm(solution.final["v"])) / norm - 1) < 1e-12  # u and v are the same here

fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, state in zip(axes, solution.to_xarray().u, strict=True):
    image = ax.pcolormesh(state.x, state.y, state.T, cmap="viridis", vmin=1, vmax=2, shading="gouraud")
    ax.set(title=f"t = {float(state.t):.3f} s", xlabel="x (m)", aspect="equal")
axes[0].set_ylabel("y (m)")
fig.colorbar(image, ax=axes, label="u (m/s)")
fig.suptitle("Two velocities that carry each other along the diagonal")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cfd_06_convection_2d.png", dpi=150)
print(f"2-D convection: |u| = {norm:.7f}; picture in out/cfd_06_convection_2d.png")
