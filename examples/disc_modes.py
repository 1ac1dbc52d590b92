"""A drum: modes of the unit disc, through the pole and around it, on an axis that measures a radius.

u_tt = ∇²u with u = 0 on the rim has the solutions J_m(kr) cos mθ cos kt with J_m(k) = 0; the lowest k is 2.404825558
(Abramowitz & Stegun, Handbook of Mathematical Functions, table 9.5). The pole r = 0 is no wall: no condition there.
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import jn_zeros, jv

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

ZERO = 2.404825558


def struck(m, shells, rays, periods=1.0):
    """The m-th angular mode released from rest, and its exact wave number: (history as xarray, k)."""
    k = jn_zeros(m, 1)[0]
    r = fd.Axis(0.0, 1.0, shells, cells=True, metric="radius")
    angle = fd.Axis(0.0, 2 * np.pi, rays, periodic=True, metric="angle")
    shortest = min(1 / shells, np.pi / (shells * rays))
    num = int(np.ceil(periods * 2 * np.pi / k / (0.5 * shortest))) + 1
    grid = fd.Grid(t=fd.Time(0.0, periods * 2 * np.pi / k, num=num), r=r, q=angle)
    u = fd.Field("u", grid)
    u[...] = lambda u, dt: 2 * u["t-1"] - u["t-2"] + dt**2 * fd.schemes.laplacian(u, at="t-1")
    start = jv(m, k * r.points)[:, None] * np.cos(m * angle.points)
    u[0] = start
    u[1] = start * np.cos(k * grid.t.step)  # from rest
    u[dict(r=-1)] = fd.boundary.Dirichlet(0.0)
    return fd.solve(u).to_xarray().u, k


history, k = struck(0, 32, 4)
assert abs(k - ZERO) < 1e-8
swing = history.isel(q=0, r=0).values
n = int(np.argmax(swing < 0))  # a quarter of a period on
measured = np.pi / 2 / np.interp(0.0, -swing[n - 1 : n + 1], history.t[n - 1 : n + 1])
print(f"lowest mode: k = {measured:.4f}, exact {ZERO:.4f}")
assert abs(measured - ZERO) < 2e-3

errors = []
for shells in (6, 12):
    mode, k = struck(1, shells, 2 * shells, periods=0.5)
    errors.append(float(abs(mode.isel(t=-1) + mode.isel(t=0)).max()))  # half a period on it is the negative
order = np.log2(errors[0] / errors[1])
print(f"first mode around the pole: errors {errors[0]:.1e}, {errors[1]:.1e}, order {order:.2f}")
assert order > 1.9

angles = np.append(mode.q, 2 * np.pi)
fig, axes = plt.subplots(1, 3, subplot_kw=dict(projection="polar"), figsize=(10, 3.5), layout="constrained")
radii = np.array([0.0, *mode.r.values, 1.0])
for ax, share in zip(axes, (0.0, 0.3, 1.0), strict=True):
    shown = mode.isel(t=int(share * (mode.t.size - 1))).transpose("r", "q").values
    shown = np.vstack([np.full_like(shown[:1], shown[0].mean()), shown, 0 * shown[:1]])  # to the pole and the rim
    colours = dict(vmin=-0.6, vmax=0.6, cmap="RdBu_r", shading="gouraud")
    image = ax.pcolormesh(angles, radii, np.hstack([shown, shown[:, :1]]), **colours)
    ax.set(title=f"after {share / 2:g} periods" if share else "released", xticklabels=[], yticks=[])
    ax.grid(False)
fig.get_layout_engine().set(w_pad=0.12)
fig.suptitle("A drum's first mode around the pole")
fig.colorbar(image, ax=axes, label="displacement u", shrink=0.8)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/disc_modes.png", dpi=150)
print("picture in out/disc_modes.png")
