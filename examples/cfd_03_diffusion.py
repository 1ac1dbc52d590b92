"""Diffusion in one dimension: a square pulse spreads out.

u_t = ν u_xx on 0 ≤ x ≤ 2 m. Lesson 3 of CFD Python (L. A. Barba and G. F. Forsyth, "CFD Python: the 12 steps to
Navier–Stokes equations", J. Open Source Education 1(9), 21, 2018), with Δt = σ Δx²/ν, σ = 0.2, and its 20 steps.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

viscosity, sigma, steps = 0.3, 0.2, 20
x_axis = fd.Axis(0.0, 2.0, num=41, units="m")
dt = sigma * x_axis.step**2 / viscosity
grid = fd.Grid(t=fd.Time(0.0, steps * dt, num=steps + 1, units="s"), x=x_axis)
u = fd.Field("u", grid, units="m/s")

u[...] = fd.rate(lambda u, nu: nu * fd.schemes.laplacian(u))
u[:, [0, -1]] = 1.0
u[0] = 1.0
u.loc[dict(t=0.0, x=slice(0.5, 1.0))] = 2.0

solution = fd.solve(u, nu=viscosity, stepper=fd.schemes.Euler())

norm = float(jnp.linalg.norm(solution.final["u"]))  # of the lesson's last array, from its own loop in float64
assert abs(norm / 8.415996496 - 1) < 1e-6, norm

history = solution.to_xarray().u
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for level, color in zip(range(0, 21, 4), plt.get_cmap("viridis")(np.linspace(0, 0.9, 6)), strict=True):
    state = history[level]
    ax.plot(state.x, state, color=color, lw=1.8, label=f"{1000 * float(state.t):.1f} ms")
ax.set(xlabel="x (m)", ylabel="u (m/s)", xlim=(0, 2), title="Diffusion of a square pulse, ν = 0.3 m²/s")
ax.legend(title="time", frameon=False)
ax.spines[["top", "right"]].set_visible(False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cfd_03_diffusion.png", dpi=150)
print(f"diffusion: |u| = {norm:.9f}; picture in out/cfd_03_diffusion.png")
