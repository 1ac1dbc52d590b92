"""Diffusion in two dimensions: a square hat melts away.

u_t = ν (u_xx + u_yy) on 2 m × 2 m, u = 1 at the edges. Lesson 7 of CFD Python (L. A. Barba and G. F. Forsyth, "CFD
Python: the 12 steps to Navier–Stokes equations", J. Open Source Education 1(9), 21, 2018): 31 × 31 points, σ = 0.25,
Δt = σΔxΔy/ν, shown after nt = 10, 14 and 50 (its loop runs over range(nt + 1), so one step more than that).
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

NORMS = {11: 34.10925572, 15: 34.02568452, 51: 33.48989784}  # by steps, from the lesson's own loop in float64
viscosity, sigma, steps = 0.05, 0.25, 51
x_axis, y_axis = (fd.Axis(0.0, 2.0, num=31, units="m") for _ in "xy")
dt = sigma * x_axis.step * y_axis.step / viscosity
grid = fd.Grid(t=fd.Time(0.0, steps * dt, num=steps + 1, units="s"), x=x_axis, y=y_axis)
u = fd.Field("u", grid, units="m/s")

u[...] = fd.rate(lambda u, nu: nu * fd.schemes.laplacian(u))
u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 1.0
u[0] = 1.0
u[0, 7:16, 7:16] = 2.0  # the lesson's int(0.5 / dx) rounds 7.5 points down

shown = [0, *NORMS]
solution = fd.solve(u, nu=viscosity, stepper=fd.schemes.Euler(), save=fd.at(grid.t.points[shown]))

norms = {n: float(jnp.linalg.norm(state)) for n, state in zip(shown, solution["u"], strict=True)}
for n, expected in NORMS.items():
    assert abs(norms[n] / expected - 1) < 1e-6, (n, norms[n])

fig, axes = plt.subplots(1, 4, figsize=(12, 3.4), sharey=True, layout="constrained")
for ax, state in zip(axes, solution.to_xarray().u, strict=True):
    image = ax.pcolormesh(state.x, state.y, state.T, cmap="magma", vmin=1, vmax=2, shading="gouraud")
    ax.set(title=f"t = {float(state.t):.3f} s", xlabel="x (m)", aspect="equal")
axes[0].set_ylabel("y (m)")
fig.colorbar(image, ax=axes, label="u (m/s)", shrink=0.85)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cfd_07_diffusion_2d.png", dpi=150)
shown_norms = ", ".join(f"{norms[n]:.7f}" for n in NORMS)
print(f"2-D diffusion: |u| = {shown_norms}; picture in out/cfd_07_diffusion_2d.png")
