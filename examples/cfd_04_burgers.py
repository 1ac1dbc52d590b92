"""Burgers' equation in one dimension: a saw tooth travels around a ring, against its exact solution.

u_t + u u_x = ν u_xx, periodic on 0 ≤ x < 2π m. Lesson 4 of CFD Python (L. A. Barba and G. F. Forsyth, "CFD Python:
the 12 steps to Navier–Stokes equations", J. Open Source Education 1(9), 21, 2018): 100 steps of Δt = νΔx. The exact
solution is that of Cole (1951) and Hopf (1950), u = 4 − 2ν φ_x/φ with φ a sum of two Gaussians.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

viscosity, steps = 0.07, 100
x_axis = fd.Axis(0.0, 2 * np.pi, num=100, periodic=True, units="m")  # the lesson's 101st point repeats the first
dt = x_axis.step * viscosity
grid = fd.Grid(t=fd.Time(0.0, steps * dt, num=steps + 1, units="s"), x=x_axis)
u = fd.Field("u", grid, units="m/s")


def exact(t, x, nu):
    def log_phi(x):
        return jnp.logaddexp(*(-((x - 4 * t - s) ** 2) / (4 * nu * (t + 1)) for s in (0, 2 * jnp.pi)))

    return -2 * nu * jax.grad(log_phi)(x) + 4


def upwind(u, nu, dt, dx):
    before, left, right = u["t-1"], u["t-1", "x-1"], u["t-1", "x+1"]
    return before - before * dt / dx * (before - left) + nu * dt / dx**2 * (right - 2 * before + left)


u[...] = upwind
u[0] = exact

solution = fd.solve(u, nu=viscosity)

final = jnp.append(solution.final["u"], solution.final["u"][0])  # as the lesson has it, the end point repeated
norm = float(jnp.linalg.norm(final))
assert abs(norm / 40.01104916 - 1) < 1e-6, norm  # of the lesson's last array, from its own loop in float64

x = np.append(grid.x.points, 2 * np.pi)
truth = jax.vmap(exact, (None, 0, None))(grid.t.stop, jnp.asarray(x), viscosity)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(x[:-1], solution["u"][0], color="0.75", lw=1.5, label="start")
ax.plot(x, truth, color="k", lw=1.2, label="exact")
ax.plot(x, final, ".", color="#21918c", ms=6, label="upwind, 100 points")
ax.set(xlabel="x (m)", ylabel="u (m/s)", xlim=(0, 2 * np.pi), title=f"Burgers' saw tooth after {grid.t.stop:.3f} s")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cfd_04_burgers.png", dpi=150)
print(f"Burgers: |u| = {norm:.8f}; picture in out/cfd_04_burgers.png")
