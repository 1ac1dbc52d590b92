"""Stokes flow round obstacles: velocity and pressure solved for together, and the drag on an array of cylinders.

−∇p + μ∇²u + G = 0, ∇·u = 0, periodic, driven by the force G: velocities on the faces of cells, pressure at their
centres, no velocity on the faces of solid cells. For cylinders in a square array that fill the share c of the plane,
the drag on one is F = 4πμU/(ln(1/√c) − 0.738 + c − 0.887c² + 2.038c³), with U the mean velocity: Sangani and Acrivos,
Int. J. Multiphase Flow 8, 193, 1982. Through each section flows the same.
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd
from fdsolve.schemes import derivative, divergence, laplacian

jax.config.update("jax_enable_x64", True)


def flow(solid, mu=1.0, force=1.0):
    """u and v on faces, p in cells, round the cells that are solid."""
    cells = len(solid)
    grid = fd.Grid(**{axis: fd.Axis(0.0, 1.0, num=cells, cells=True, periodic=True) for axis in "xy"})
    u, v = fd.Field("u", grid, at=dict(x="face")), fd.Field("v", grid, at=dict(y="face"))
    p = fd.Field("p", grid)
    u[...] = fd.residual(lambda u, p, mu, force: mu * laplacian(u)[...] - derivative(p, "x")[...] + force)
    v[...] = fd.residual(lambda v, p, mu: mu * laplacian(v)[...] - derivative(p, "y")[...])
    p[...] = fd.residual(lambda u, v: divergence((u, v)))
    u[solid | np.roll(solid, 1, 0)] = 0.0  # face i lies between the cells i − 1 and i
    v[solid | np.roll(solid, 1, 1)] = 0.0
    p[solid] = 0.0
    solution = fd.solve([u, v, p], mu=mu, force=force)
    return tuple(np.asarray(solution[name]) for name in "uvp")


cells, radius = 48, 0.3
x, y = np.meshgrid(*2 * [(np.arange(cells) + 0.5) / cells], indexing="ij")
solid = np.hypot(x - 0.5, y - 0.5) < radius
u, v, p = flow(solid)

through = u.sum(1) / cells
assert np.ptp(through) < 1e-10 * through.mean(), through
assert abs(u - u[:, ::-1]).max() < 1e-9 * u.max()  # the same above and below
c, mean = solid.mean(), u.mean()
drag = 4 * np.pi * mean / (np.log(1 / np.sqrt(c)) - 0.738 + c - 0.887 * c**2 + 2.038 * c**3)
assert abs(drag - 1) < 0.03, drag  # the force on all of the fluid and of the cylinder, G times 1

u, v = (u + np.roll(u, -1, 0)) / 2, (v + np.roll(v, -1, 1)) / 2  # at the centres
fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
image = ax.pcolormesh(x, y, np.where(solid, np.nan, p), cmap="RdBu_r")
ax.streamplot(x[:, 0], y[0], np.where(solid, np.nan, u).T, np.where(solid, np.nan, v).T, color="k", linewidth=0.7)
ax.set(xlabel="x", ylabel="y", aspect="equal", xlim=(0, 1), ylim=(0, 1), facecolor="0.6")
ax.set_title("Stokes flow through an array of cylinders")
fig.colorbar(image, label="pressure p")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/stokes_holes.png", dpi=150)
print(f"Stokes: mean velocity {mean:.5f}, drag {drag:.3f} of the force on it; picture in out/stokes_holes.png")
