"""Permeability of rock from a few wells: a field of 64 × 64 values from sparse noisy pressures, with its uncertainty.

∇·(k ∇p) = 0 on the unit square, p = 1 at x = 0, p = 0 at x = 1, no flow through the other walls. Pressure is known at
100 places between the points, to 0.3 %. log k is the sum of the modes cos(πax) cos(πby) that vary least; what is
known of them beforehand is their size, the term of regularisation; then the Gauss–Newton matrix at the end is the
inverse of the posterior's covariance (Tarantola, Inverse Problem Theory, SIAM, 2005).
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import fdsolve as fd

jax.config.update("jax_enable_x64", True)
cells, noise, draw = 64, 0.003, np.random.default_rng(4)
grid = fd.Grid(x=fd.Axis(0.0, 1.0, num=cells, cells=True), y=fd.Axis(0.0, 1.0, num=cells, cells=True))
p = fd.Field("p", grid)
p[...] = fd.residual(lambda p, k: fd.schemes.divergence(k, p, mean=fd.schemes.Harmonic()))
p[dict(x=0)], p[dict(x=-1)] = fd.boundary.Dirichlet(1.0), fd.boundary.Dirichlet(0.0)
p[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)

a, b = (index.ravel() for index in np.indices((10, 10)))
few = a**2 + b**2 <= 64  # modes
a, b = a[few], b[few]
waves = np.cos(np.pi * np.outer(a, grid.x.points)), np.cos(np.pi * np.outer(b, grid.y.points))
modes = np.einsum("mi,mj->mij", *waves)
expected = 1.6 / (1 + (a**2 + b**2) / 4)  # standard deviation of each mode's amplitude
expected[0] = 0.5


def log_k(weights):
    """log k on the grid, (64, 64), of amplitudes in units of what is expected."""
    return jnp.einsum("m,mij->ij", weights * expected, modes)


true = np.asarray(log_k(draw.standard_normal(len(a))))
wells = dict(x=("well", draw.uniform(0.03, 0.97, 100)), y=("well", draw.uniform(0.03, 0.97, 100)))
empty = xr.DataArray(np.zeros(100), wells, ("well",), name="p")
pressures = fd.misfit(fd.solve(p, k=np.exp(true)), empty)
observed = empty.copy(data=pressures + noise * draw.standard_normal(100)).assign_attrs(sigma=noise)


def residuals(parameters):
    """What the wells say, in standard deviations."""
    return fd.misfit(fd.solve(p, k=jnp.exp(log_k(parameters["m"]))), observed, weight="1/sigma")


found = fd.invert(residuals, dict(m=np.zeros(len(a))), regularise=fd.tikhonov(1.0, "m", order=0), tolerance=1e-5)
print(found)
estimate = np.asarray(log_k(found.parameters["m"]))
spread = expected[:, None] * modes.reshape(len(a), -1)
before, after = (
    np.sqrt(np.einsum("mi,mn,ni->i", spread, matrix, spread)).reshape(cells, cells)
    for matrix in (np.eye(len(a)), found.covariance(noise=1.0).values)
)
inside = float((abs(estimate - true) < 2 * after).mean())
alike = float(np.corrcoef(estimate.ravel(), true.ravel())[0, 1])
assert found.converged and 60 < 2 * found.loss < 140, found  # as many as there are wells
assert alike > 0.7 and inside > 0.8, (alike, inside)
assert (after < 0.75 * before).all()

fig, panels = plt.subplots(1, 3, figsize=(12, 3.9), sharey=True, layout="constrained")
place = dict(extent=(0, 1, 0, 1), origin="lower")
limit = dict(vmin=true.min(), vmax=true.max(), cmap="viridis")
titles = ("true log k", "log k from pressures in the 100 wells", "standard deviation of log k")
styles = (limit, limit, dict(cmap="magma", vmin=0))
for ax, field, title, style in zip(panels, (true, estimate, after), titles, styles, strict=True):
    fig.colorbar(ax.imshow(field.T, **place, **style), ax=ax, shrink=0.8)
    ax.set(title=title, xlabel="x")
panels[1].plot(*(value[1] for value in wells.values()), "o", ms=4, mfc="w", mec="k", mew=0.6)
panels[0].set_ylabel("y")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/darcy_permeability.png", dpi=150)
print(f"Darcy: correlation {alike:.2f}, {100 * inside:.0f} % within 2 σ; out/darcy_permeability.png")
