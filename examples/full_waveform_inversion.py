"""Full-waveform inversion: the speed of sound in layered rock with an anomaly, from what receivers around it record.

Eight shots near the free surface of u_tt = c² ∇²u + q(t) δ(x − x_s), absorbing layers at the other sides. The gradient
of the misfit with respect to c at every point comes from `Reversible`, which steps the waves back in time instead of
keeping them (a rim beside the layers is kept). Started from the layers alone, L-BFGS finds the anomaly.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import fdsolve as fd

axes = dict(x=fd.Axis(0.0, 800.0, num=81, units="m"), z=fd.Axis(0.0, 560.0, num=57, units="m"))
grid = fd.Grid(t=fd.Time(0.0, 0.78, step=0.0025, units="s"), **axes)
x, z = np.meshgrid(grid.x.points, grid.z.points, indexing="ij")
layers = 1600 + 200 / (1 + np.exp((180 - z) / 15)) + 200 / (1 + np.exp((340 - z) / 15))  # m/s
true = layers + 200 * np.exp(-((x - 430) ** 2 + (z - 260) ** 2) / (2 * 50.0**2))
inside = (x > 110) & (x < 690) & (z < 450)  # of the absorbing layers; there c is as known
shots = jnp.linspace(115.0, 685.0, 8)
xs = np.concatenate([np.linspace(123, 677, 13), np.full(6, 113.3), np.full(6, 687.7)])
zs = np.concatenate([np.full(13, 447.7), np.linspace(33, 423, 6), np.linspace(33, 423, 6)])


def record(c, shot):
    """What the receivers hear of one shot, (levels, receivers)."""
    u = fd.Field("u", grid)
    u[...] = lambda u, c, dt: 2 * u["t-1"] - u["t-2"] + (c[...] * dt) ** 2 * fd.schemes.laplacian(u, at="t-1")
    u[fd.point(x=shot, z=12.0)] += lambda t, dt: (
        100 * jnp.exp(-(((t - dt - 0.12) / 0.03) ** 2)) * (t - dt - 0.12) / 0.03
    )
    u[:2] = 0.0
    u[dict(x=[0, -1])] = u[dict(z=[0, -1])] = fd.boundary.Dirichlet(0.0)
    u[dict(x=[0, -1])] = u[dict(z=-1)] = fd.boundary.Sponge(100.0, 120.0)
    return fd.solve(u, c=c, save=fd.receivers(dict(x=xs, z=zs)), adjoint=fd.adjoint.Reversible("frozen"))["u"]


def misfit(change, data):
    """½‖records − data‖² for so much change of c inside, in units of 100 m/s; and the records."""
    c = jnp.asarray(layers, jnp.float32) + jnp.zeros(x.shape, jnp.float32).at[inside].set(100 * change)
    found = jax.vmap(record, (None, 0))(c, shots)
    return 0.5 * jnp.sum((found - data) ** 2), found


change = jnp.asarray((true - layers)[inside] / 100, jnp.float32)
nothing = jnp.zeros((len(shots), grid.t.num, xs.size), jnp.float32)
slope = jax.jit(jax.value_and_grad(misfit, has_aux=True)).lower(change, nothing).compile()
kept = len(shots) * (grid.t.num - 1) * x.size * 4  # bytes that Full keeps at the least: one state a step
share = slope.memory_analysis().temp_size_in_bytes / kept
assert share < 0.1, share
data = slope(change, nothing)[0][1]
start = float(slope(0 * change, data)[0][0])


def objective(change):
    (loss, _), gradient = slope(jnp.asarray(change, jnp.float32), data)
    return float(loss) / start, np.asarray(gradient, float) / start


fit = minimize(objective, np.zeros(change.size), jac=True, method="L-BFGS-B", options=dict(maxiter=13))
found = 0 * x
found[inside] = 100 * fit.x
place = np.unravel_index(found.argmax(), x.shape)
assert fit.fun < 0.05 and np.hypot(x[place] - 430, z[place] - 260) < 30, (fit.fun, x[place], z[place])
assert abs(found.max() - 200) < 40 and abs((found - (true - layers))[inside]).max() < 80, found.max()
fig, axs = plt.subplots(1, 3, figsize=(11.5, 2.9), sharey=True, layout="constrained")
titles = ("true speed (m/s)", "true anomaly (m/s)", f"anomaly found (m/s); misfit {fit.fun:.1%}")
for ax, title, c in zip(axs, titles, (true, true - layers, found), strict=True):
    colors = dict(cmap="cividis") if c is true else dict(cmap="RdBu_r", vmin=-200, vmax=200)
    fig.colorbar(ax.pcolormesh(x, z, c, shading="gouraud", **colors), ax=ax, shrink=0.85)
    ax.plot(shots, 12 + 0 * shots, "r*", xs, zs, "wv", ms=6, mec="k", mew=0.5)
    ax.set(title=title, xlabel="x (m)", ylabel="depth (m)" if c is true else "", aspect="equal", ylim=(560, 0))
Path("out").mkdir(exist_ok=True)
fig.savefig("out/full_waveform_inversion.png", dpi=150)
print(f"inversion: misfit {fit.fun:.1%}, {found.max():.0f} m/s, memory {share:.1%}; out/full_waveform_inversion.png")
