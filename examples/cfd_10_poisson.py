"""Poisson's equation with two spikes: a hundred sweeps, and beside them the answer that they are on the way to.

p_xx + p_yy = b on 2 × 1, p = 0 at the edges, b = 100 and −100 at one point each. Lesson 10 of CFD Python (L. A. Barba
and G. F. Forsyth, "CFD Python: the 12 steps to Navier–Stokes equations", J. Open Source Education 1(9), 21, 2018):
50 × 50 points, 100 of Jacobi's sweeps.
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

NORM, LARGEST, SWEEPS = 0.1757739498, 0.04508720027, 100  # from the lesson's own loop in float64
x_axis, y_axis = fd.Axis(0.0, 2.0, num=50), fd.Axis(0.0, 1.0, num=50)
b = np.zeros((50, 50))
b[12, 12], b[37, 37] = 100.0, -100.0


def sweep(p, b, dx, dy):
    along = (p["n-1", "x+1"] + p["n-1", "x-1"]) * dy**2
    across = (p["n-1", "y+1"] + p["n-1", "y-1"]) * dx**2
    return (along + across - b[...] * dx**2 * dy**2) / (2 * (dx**2 + dy**2))


# As the lesson has it: a level of the march is a sweep.
p = fd.Field("p", fd.Grid(n=fd.Time(0.0, SWEEPS, num=SWEEPS + 1), x=x_axis, y=y_axis))
p[...] = sweep
p[0] = 0.0
p[dict(x=[0, -1])] = p[dict(y=[0, -1])] = 0.0
swept = np.asarray(fd.solve(p, b=b, save=fd.final()).final["p"])
norm = float(np.linalg.norm(swept))
assert abs(norm / NORM - 1) < 1e-8, norm
assert abs(swept.max() / LARGEST - 1) < 1e-8, swept.max()

# The same equation, solved.
q = fd.Field("q", fd.Grid(x=x_axis, y=y_axis))
q[...] = fd.residual(lambda q, b: fd.schemes.laplacian(q) - b[...])
q[dict(x=[0, -1])] = q[dict(y=[0, -1])] = 0.0
solution = fd.solve(q, b=b)
solved = np.asarray(solution["q"])

# Against the same system by its sines: −4 sin²(kπ/2m)/h² is what the second difference does to the mode k.
k = np.arange(1, 49)
sines = np.sin(np.pi * np.outer(k, k) / 49)
symbol = -((2 * np.sin(np.pi * k / 98)) ** 2)
symbols = symbol[:, None] / x_axis.step**2 + symbol / y_axis.step**2
exact = (2 / 49) ** 2 * sines @ (sines @ b[1:-1, 1:-1] @ sines / symbols) @ sines
error = abs(solved[1:-1, 1:-1] - exact).max() / abs(exact).max()
assert error < 1e-12, error
missing = float(1 - np.linalg.norm(swept) / np.linalg.norm(solved))
assert 0.2 < missing < 0.8, missing

fig, axes = plt.subplots(1, 2, figsize=(11, 3.4), sharey=True, layout="constrained")
for ax, state, title in zip(axes, (swept, solved), (f"{SWEEPS} sweeps", "solved"), strict=True):
    image = ax.pcolormesh(x_axis.points, y_axis.points, state.T, cmap="RdBu_r", vmin=-0.05, vmax=0.05)
    ax.contour(x_axis.points, y_axis.points, state.T, levels=np.linspace(-0.03, 0.03, 24), colors="k", linewidths=0.4)
    ax.set(title=title, xlabel="x", aspect="equal")
axes[0].set_ylabel("y")
fig.colorbar(image, ax=axes, label="p")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cfd_10_poisson.png", dpi=150)
print(f"Poisson: |p| = {norm:.10f} after {SWEEPS} sweeps, {missing:.0%} short of the solution; out/cfd_10_poisson.png")
