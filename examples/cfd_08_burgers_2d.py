"""Burgers' equation in two dimensions: two velocities carried by themselves and smoothed by viscosity.

u_t + u u_x + v u_y = ν ∇²u, the same for v, on 2 m × 2 m, u = v = 1 at the edges. Lesson 8 of CFD Python (L. A. Barba
and G. F. Forsyth, "CFD Python: the 12 steps to Navier–Stokes equations", J. Open Source Education 1(9), 21, 2018):
41 × 41 points, σ = 0.0009, Δt = σΔxΔy/ν, and 121 steps (its loop runs over range(nt + 1) with nt = 120).
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

viscosity, sigma, steps = 0.01, 0.0009, 121
x_axis, y_axis = (fd.Axis(0.0, 2.0, num=41, units="m") for _ in "xy")
dt = sigma * x_axis.step * y_axis.step / viscosity
grid = fd.Grid(t=fd.Time(0.0, steps * dt, num=steps + 1, units="s"), x=x_axis, y=y_axis)
u, v = fd.Field("u", grid, units="m/s"), fd.Field("v", grid, units="m/s")


def rates(u, v, nu, dx, dy):
    def carried(q):
        return u[...] * (q[...] - q["x-1"]) / dx + v[...] * (q[...] - q["y-1"]) / dy

    return tuple(nu * fd.schemes.laplacian(q)[...] - carried(q) for q in (u, v))


fd.together(u, v)[...] = fd.rate(rates)
for field in (u, v):
    field[dict(x=[0, -1])] = field[dict(y=[0, -1])] = 1.0
    field[0] = 1.0
    field.loc[dict(t=0.0, x=slice(0.5, 1.0), y=slice(0.5, 1.0))] = 2.0

solution = fd.solve([u, v], nu=viscosity, stepper=fd.schemes.Euler(), save=fd.every(steps))

norm = float(jnp.linalg.norm(solution.final["u"]))  # of the lesson's last array, from its own loop in float64
assert abs(norm / 44.77248997 - 1) < 1e-6, norm
assert abs(float(jnp.linalg.norm(solution.final["v"])) / norm - 1) < 1e-12  # u and v are the same here

fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, state in zip(axes, solution.to_xarray().u, strict=True):
    image = ax.pcolormesh(state.x, state.y, state.T, cmap="viridis", vmin=1, vmax=2, shading="gouraud")
    ax.set(title=f"t = {float(state.t):.4f} s", xlabel="x (m)", aspect="equal")
axes[0].set_ylabel("y (m)")
fig.colorbar(image, ax=axes, label="u (m/s)")
fig.suptitle("Burgers' equation in two dimensions, ν = 0.01 m²/s")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cfd_08_burgers_2d.png", dpi=150)
print(f"2-D Burgers: |u| = {norm:.8f}; picture in out/cfd_08_burgers_2d.png")
