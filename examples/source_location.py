"""Who let it out? Place, hour and strength of a puff in a stream, from eight sensors that smell it pass.

c_t + a·∇c = D ∇²c + m g(t − t₀) δ(x − x₀), g a bell of width 0.05. The place lies between the points of the grid; it
is found by gradients through the interpolation of the source, to a part of their distance though concentrations have
noise. The ellipse is what Gauss–Newton's covariance says of it.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)
grid = fd.Grid(t=fd.Time(0.0, 1.2, num=121), x=fd.Axis(0.0, 2.0, num=41), y=fd.Axis(0.0, 1.0, num=21))
h, wind, spread, noise = grid.x.step, (1.2, 0.15), 0.02, 0.005
sensors = dict(x=np.repeat([1.0, 1.5], 4), y=np.tile([0.2, 0.4, 0.6, 0.8], 2))


@jax.jit
def march(p):
    """Concentrations, (times, x, y), where a puff of strength m leaves (x, y) at about t0."""
    c = fd.Field("c", grid)
    c[...] = fd.rate(lambda c: spread * fd.schemes.laplacian(c) - fd.schemes.upwind(wind, c, order=1))
    c[fd.point(x=p["x"], y=p["y"])] += fd.rate(lambda t, m, t0: m * jnp.exp(-(((t - t0) / 0.05) ** 2)) / h**2)
    c[0] = 0.0
    c[dict(x=[0, -1])] = c[dict(y=[0, -1])] = 0.0
    return fd.solve(c, m=p["m"], t0=p["t0"], save=fd.every(4), stepper=fd.schemes.Heun())["c"]


true, times = dict(x=0.337, y=0.462, m=1.3, t0=0.21), grid.t.points[::4]
at = tuple(np.rint(place / h).astype(int) for place in sensors.values())  # they stand on points of the grid
heard = march(jax.tree.map(np.float64, true))[:, *at]
heard += noise * np.random.default_rng(0).standard_normal(heard.shape)


def residuals(p):  # in standard deviations
    return (march(p)[:, *at] - heard) / noise


start = dict(x=0.6, y=0.6, m=0.7, t0=0.4)
found = fd.invert(residuals, start, bounds=dict(x=(0.05, 0.95), y=(0.05, 0.95), m=(0, None)))
C = found.covariance(noise=1.0)
for name, value in true.items():
    sigma = float(C.sel(parameter=name, other=name)) ** 0.5
    assert abs(float(found.parameters[name]) - value) < 4 * sigma, (name, found)
    print(f"{name}: {float(found.parameters[name]):.4f} ± {sigma:.4f}, true {value}")
away = float(np.hypot(found.parameters["x"] - true["x"], found.parameters["y"] - true["y"]))
assert away < 0.3 * h, away

fig, (left, right) = plt.subplots(1, 2, figsize=(11.5, 3.8), layout="constrained", width_ratios=(1.7, 1))
history = march(found.parameters)
filled = left.contourf(grid.x.points, grid.y.points, history[18].T, 12, cmap="Purples")
fig.colorbar(filled, ax=left, label="concentration at t = 0.72")
left.scatter(sensors["x"], sensors["y"], marker="^", color="k", s=30, label="sensors")
left.plot(start["x"], start["y"], "o", mfc="none", color="0.4", label="first guess")
left.plot(true["x"], true["y"], "*", color="#21918c", ms=12, label="true")
turn = np.linspace(0, 2 * np.pi, 99)
root = np.linalg.cholesky(C.sel(parameter=["x", "y"], other=["x", "y"]).values)
spot = 2 * root @ np.array([np.cos(turn), np.sin(turn)])
inset = left.inset_axes((0.03, 0.05, 0.3, 0.36), xticks=[], yticks=[])
for ax in (left, inset):
    ax.plot(found.parameters["x"] + spot[0], found.parameters["y"] + spot[1], color="#b5367a", label="found, 2 σ")
inset.plot(true["x"], true["y"], "*", color="#21918c", ms=12)
inset.margins(0.3)
left.indicate_inset_zoom(inset, edgecolor="0.3")
left.set(xlabel="x", ylabel="y", title="a puff in a stream, and where it came from")
left.legend(frameon=False, loc="upper right", ncols=4, fontsize=8)
for sensor, color in ((1, "#21918c"), (5, "#b5367a")):
    right.plot(times, heard[:, sensor], ".", color=color, ms=4)
    right.plot(times, history[:, *at][:, sensor], color=color, lw=1, label=f"at x = {sensors['x'][sensor]}")
right.set(xlabel="t", ylabel="concentration", title="two sensors: measured, computed")
right.legend(frameon=False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/source_location.png", dpi=150)
print(f"source: {away / h:.2f} of a step away from the true place; picture in out/source_location.png")
