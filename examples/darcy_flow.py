"""Darcy flow through rock of varied permeability: what flows in flows out, and a checkerboard's effective permeability.

∇·(k ∇p) = 0 on the unit square, p = 1 at x = 0, p = 0 at x = 1, no flow through the other walls. The flux through
every section x = const is the same to rounding, since the equation is a balance of cells. A checkerboard of k₁ and k₂
lets through as much as an even k = √(k₁k₂) (Keller, J. Math. Phys. 5, 548, 1964; Dykhne, Sov. Phys. JETP 32, 63, 1971).
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)


def declare(cells, mean):
    """p on the centres of cells; `mean` is that of k between two of them."""
    p = fd.Field("p", fd.Grid(**{axis: fd.Axis(0.0, 1.0, num=cells, cells=True) for axis in "xy"}))
    p[...] = fd.residual(lambda p, k: fd.schemes.divergence(k, p, mean=mean))
    p[dict(x=0)], p[dict(x=-1)] = fd.boundary.Dirichlet(1.0), fd.boundary.Dirichlet(0.0)
    p[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    return p


def flow(k, mean):
    """p, and what flows through each section between two columns of cells."""
    p = np.asarray(fd.solve(declare(len(k), mean), k=k)["p"])
    joined = (k[1:] + k[:-1]) / 2 if mean == fd.schemes.Arithmetic() else 2 * k[1:] * k[:-1] / (k[1:] + k[:-1])
    return p, (joined * (p[:-1] - p[1:])).sum(1)


cells = 64
i, j = np.indices((cells, cells)) * 4 // cells
board = np.where((i + j) % 2, 10.0, 1.0)
harmonic, arithmetic = (flow(board, mean)[1].mean() for mean in (fd.schemes.Harmonic(), fd.schemes.Arithmetic()))
assert harmonic < np.sqrt(10) < arithmetic, (harmonic, arithmetic)  # the corners where four fields meet are singular
effective = np.sqrt(harmonic * arithmetic)
assert abs(effective / np.sqrt(10) - 1) < 0.02, effective

# Rock: log k is a random field, smooth over a tenth of the square.
waves = 2 * np.pi * np.fft.fftfreq(cells, 1 / cells)
smooth = np.exp(-(waves[:, None] ** 2 + waves**2) * 0.05**2 / 2)
noise = np.fft.ifft2(smooth * np.fft.fft2(np.random.default_rng(2).standard_normal((cells, cells)))).real
k = np.exp(1.5 * noise / noise.std())
p, through = flow(k, fd.schemes.Harmonic())
imbalance = float(np.ptp(through) / through.mean())
assert imbalance < 1e-11, imbalance
assert 0 < p.min() < p.max() < 1
assert 1 / (1 / k).mean() < through.mean() < k.mean()  # Wiener's bounds of the effective permeability

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
place = dict(extent=(0, 1, 0, 1), origin="lower")
fig.colorbar(left.imshow(np.log10(k).T, cmap="cividis", **place), ax=left, label="log₁₀ k")
fig.colorbar(right.imshow(p.T, cmap="magma", **place), ax=right, label="p")
right.contour(p.T, levels=np.linspace(0, 1, 21), colors="w", linewidths=0.5, **place)
for ax, title in ((left, "permeability"), (right, "pressure")):
    ax.set(title=title, xlabel="x")
left.set_ylabel("y")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/darcy_flow.png", dpi=150)
print(f"Darcy: flux even to {imbalance:.0e}; checkerboard {effective:.4f} of {np.sqrt(10):.4f}; out/darcy_flow.png")
