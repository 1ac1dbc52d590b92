"""A lid drags the flow in a cavity: fifty sweeps for the pressure in each step, and the pressure solved for.

u_t + u u_x + v u_y = −p_x + ν∇²u, the same for v, and ∇²p such that divergence does not grow; u = 1 on the lid y = 2,
where p = 0, no slip and p_n = 0 at the other walls. Lesson 11 of CFD Python (L. A. Barba and G. F. Forsyth, "CFD
Python: the 12 steps to Navier–Stokes equations", J. Open Source Education 1(9), 21, 2018): 41 × 41 points, ν = 0.1,
Δt = 0.001, 100 steps, each with 50 of Jacobi's sweeps.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

NORMS = dict(u=8.036118215, v=1.07938089, p=12.76660156)  # from the lesson's own loop in float64
nu, step, steps, sweeps = 0.1, 0.001, 100, 50
x_axis, y_axis = (fd.Axis(0.0, 2.0, num=41) for _ in "xy")


def source(u, v, h):
    """b in ∇²p = b, from older velocities."""
    u_x, v_x = ((w["t-1", "x+1"] - w["t-1", "x-1"]) / (2 * h) for w in (u, v))
    u_y, v_y = ((w["t-1", "y+1"] - w["t-1", "y-1"]) / (2 * h) for w in (u, v))
    return (u_x + v_y) / step - u_x**2 - 2 * u_y * v_x - v_y**2


def sweep(p, u, v, dx):
    around = p["t-1", "x+1"] + p["t-1", "x-1"] + p["t-1", "y+1"] + p["t-1", "y-1"]
    return (around - dx**2 * source(u, v, dx)) / 4


def momentum(w, axis):
    def rule(u, v, p, dx):
        q = dict(u=u, v=v)[w]
        carried = u["t-1"] * (q["t-1"] - q["t-1", "x-1"]) + v["t-1"] * (q["t-1"] - q["t-1", "y-1"])
        pushed = (p[f"{axis}+1"] - p[f"{axis}-1"]) / (2 * dx)
        return q["t-1"] + step * (nu * fd.schemes.laplacian(q, at="t-1")[...] - carried / dx - pushed)

    return rule


def last_level(every):
    """The last u, v and p. `every` levels are a step, whose last moves u and v: sweeps, or one that solves for p."""
    grid = fd.Grid(t=fd.Time(0.0, every * steps, num=every * steps + 1), x=x_axis, y=y_axis)
    u, v, p = (fd.Field(name, grid) for name in "uvp")
    solved = fd.residual(lambda p, u, v, dx: fd.schemes.laplacian(p)[...] - source(u, v, dx))
    p[...] = solved if every == 1 else sweep
    p[dict(x=-1)], p[dict(y=0)] = (lambda p: p["x-1"]), (lambda p: p["y+1"])
    p[dict(x=0)], p[dict(y=-1)] = (lambda p: p["x+1"]), 0.0
    u[...], v[...] = (lambda u: u["t-1"]), (lambda v: v["t-1"])
    for field, axis in ((u, "x"), (v, "y")):
        field[fd.where(lambda t: t % every < 0.5)] = momentum(field.name, axis)
        field[dict(x=[0, -1])] = field[dict(y=[0, -1])] = 0.0
    u[dict(y=-1)] = lambda t: jnp.where(t < every, 0.0, 1.0)  # the lid moves from the end of the first step
    u[0] = v[0] = p[0] = 0.0
    return fd.solve([u, v, p], save=fd.final()).to_xarray().isel(t=0)


swept, solved = last_level(every=sweeps), last_level(every=1)
norms = {name: float(np.linalg.norm(swept[name])) for name in NORMS}
for name, expected in NORMS.items():
    assert abs(norms[name] / expected - 1) < 1e-8, (name, norms[name])
apart = max(float(np.linalg.norm(solved[name] - swept[name])) / norms[name] for name in NORMS)
assert apart < 0.01, apart

fig, ax = plt.subplots(figsize=(6.4, 5), layout="constrained")
image = ax.contourf(x_axis.points, y_axis.points, solved["p"].T, levels=np.linspace(-3.3, 3.3, 23), cmap="RdBu_r")
ax.streamplot(x_axis.points, y_axis.points, solved["u"].T, solved["v"].T, color="k", linewidth=0.6, arrowsize=0.7)
ax.set(title=f"a lid drags the flow: t = {steps * step}", xlabel="x", ylabel="y", aspect="equal", ylim=(0, 2))
fig.colorbar(image, label="pressure, solved for in each step")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cfd_11_cavity.png", dpi=150)
shown = ", ".join(f"|{name}| = {norm:.8f}" for name, norm in norms.items())
print(f"cavity: {shown}; with p solved {apart:.1e} away; picture in out/cfd_11_cavity.png")
