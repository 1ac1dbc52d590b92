"""Laplace's equation: sweeps until they hardly move, and beside them the answer that they are on the way to.

p_xx + p_yy = 0, p = 0 at x = 0, p = y/2 at x = 2, p_y = 0 at y = 0 and y = 2. Lesson 9 of CFD Python (L. A. Barba and
G. F. Forsyth, "CFD Python: the 12 steps to Navier–Stokes equations", J. Open Source Education 1(9), 21, 2018): 31 × 31
points, Jacobi's sweeps until Σ|p| grows by less than 1e-4 of itself. (It labels y from 0 to 1, and steps with Δy = Δx.)
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

NORM, SWEEPS = 9.51067801, 1132  # from the lesson's own loop in float64
x_axis, y_axis = (fd.Axis(0.0, 2.0, num=31) for _ in "xy")

# As the lesson has it: a level of the march is a sweep.
sweeps = fd.Grid(n=fd.Time(0.0, SWEEPS, num=SWEEPS + 1), x=x_axis, y=y_axis)
p = fd.Field("p", sweeps)
p[...] = lambda p: (p["n-1", "x-1"] + p["n-1", "x+1"] + p["n-1", "y-1"] + p["n-1", "y+1"]) / 4
p[0] = 0.0
p[dict(x=0)] = 0.0
p[dict(x=-1)] = lambda y: y / 2
p[dict(y=0)] = lambda p: p["y+1"]  # p_y = 0, of first order
p[dict(y=-1)] = lambda p: p["y-1"]
swept = np.asarray(fd.solve(p)["p"])

norm = float(np.linalg.norm(swept[-1]))
assert abs(norm / NORM - 1) < 1e-8, norm
totals = abs(swept).sum((1, 2))
assert (np.argmax(np.diff(totals[1:]) / totals[1:-1] < 1e-4) + 2) == SWEEPS

# The same equation, solved; the walls are of second order here.
q = fd.Field("q", fd.Grid(x=x_axis, y=y_axis))
q[...] = fd.residual(lambda q: fd.schemes.laplacian(q))
q[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
q[dict(x=0)] = 0.0
q[dict(x=-1)] = lambda y: y / 2
solution = fd.solve(q)

x, y = np.meshgrid(x_axis.points, y_axis.points, indexing="ij")
modes = np.pi * np.arange(1, 4000, 2)[:, None, None]
growth = np.exp(modes * (x / 2 - 1)) * (1 - np.exp(-modes * x)) / (1 - np.exp(-2 * modes))  # sinh over sinh
exact = x / 4 - (4 / modes**2 * growth * np.cos(modes * y / 2)).sum(0)
error = float(abs(solution["q"] - exact).max())
short = float(abs(swept[-1] - exact).max())
assert error < 4e-3, error  # at the corner where p = y/2 meets p_y = 0
assert 5 * error < short, short

fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for ax, state, title in zip(axes, (swept[-1], solution["q"]), (f"{SWEEPS} sweeps", "solved"), strict=True):
    image = ax.contourf(x, y, state, levels=np.linspace(0, 1, 21), cmap="viridis")
    ax.contour(x, y, exact, levels=np.linspace(0, 1, 21)[1:-1], colors="w", linewidths=0.6)
    ax.set(title=f"{title} (lines: exact)", xlabel="x", aspect="equal")
axes[0].set_ylabel("y")
fig.colorbar(image, ax=axes, label="p")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cfd_09_laplace.png", dpi=150)
print(f"Laplace: |p| = {norm:.8f}, off by {short:.3f}; solved: by {error:.5f}; picture in out/cfd_09_laplace.png")
