"""A channel: a force drives the flow along it until it hardly changes, and the steady state at once.

u_t + u u_x + v u_y = −p_x + ν∇²u + F, v_t + u v_x + v v_y = −p_y + ν∇²v, periodic in x, no slip at y = 0 and y = 2.
Lesson 12 of CFD Python (L. A. Barba and G. F. Forsyth, "CFD Python: the 12 steps to Navier–Stokes equations", J. Open
Source Education 1(9), 21, 2018): 41 × 41 points, ν = 0.1, F = 1, Δt = 0.01, steps until Σu grows by less than 0.001 of
itself: 499. Its axis holds x = 2 beside x = 0, as neighbours. The steady state is Poiseuille's, u = F y (2 − y)/2ν.
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

STEPS, LARGEST = 499, 3.494896156  # from the lesson's own loop in float64
nu, force, step = 0.1, 1.0, 0.01
spacing = 2 / 40
x_axis, y_axis = fd.Axis(0.0, 41 * spacing, num=41, periodic=True), fd.Axis(0.0, 2.0, num=41)


def source(u, v, dx, dy):
    """b in ∇²p = b, from older velocities."""
    u_x, v_x = ((w["t-1", "x+1"] - w["t-1", "x-1"]) / (2 * dx) for w in (u, v))
    u_y, v_y = ((w["t-1", "y+1"] - w["t-1", "y-1"]) / (2 * dy) for w in (u, v))
    return (u_x + v_y) / step - u_x**2 - 2 * u_y * v_x - v_y**2


def momentum(w, axis, pushed):
    """The rule for u or v: carried upwind, smoothed, pushed by the pressure and by a force."""

    def rule(u, v, p, dx, dy):
        q = dict(u=u, v=v)[w]
        h = dict(x=dx, y=dy)[axis]
        carried = u["t-1"] * (q["t-1"] - q["t-1", "x-1"]) / dx + v["t-1"] * (q["t-1"] - q["t-1", "y-1"]) / dy
        slope = (p[f"{axis}+1"] - p[f"{axis}-1"]) / (2 * h)
        return q["t-1"] + step * (nu * fd.schemes.laplacian(q, at="t-1")[...] - carried - slope + pushed)

    return rule


grid = fd.Grid(t=fd.Time(0.0, STEPS * step, num=STEPS + 1), x=x_axis, y=y_axis)
u, v, p = (fd.Field(name, grid) for name in "uvp")
p[...] = fd.residual(lambda p, u, v, dx, dy: fd.schemes.laplacian(p)[...] - source(u, v, dx, dy))
p[dict(y=0)] = lambda p: p["y+1"]
p[dict(y=-1)] = lambda p: p["y-1"]
u[...], v[...] = momentum("u", "x", force), momentum("v", "y", 0.0)
u[dict(y=[0, -1])] = v[dict(y=[0, -1])] = 0.0
u[0] = v[0] = p[0] = 0.0
history = np.asarray(fd.solve([u, v, p])["u"])

totals = history.sum((1, 2))
changes = np.diff(totals) / totals[1:]
assert changes[-1] <= 1e-3 < changes[:-1].min(), changes[-2:]
largest = float(history[-1].max())
assert abs(largest / LARGEST - 1) < 1e-8, largest

# Where nothing changes along the channel any more, u is the solution of equations.
still = fd.Field("u", fd.Grid(x=x_axis, y=y_axis))
still[...] = fd.residual(lambda u, dx: nu * fd.schemes.laplacian(u)[...] - u[...] * (u[...] - u["x-1"]) / dx + force)
still[dict(y=[0, -1])] = 0.0
steady = np.asarray(fd.solve(still)["u"])
error = float(abs(steady - force * y_axis.points * (2 - y_axis.points) / (2 * nu)).max())
assert error < 1e-10, error  # second differences of a parabola are exact

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for n in (20, 60, 120, 250, STEPS):
    ax.plot(history[n, 20], y_axis.points, color=plt.get_cmap("viridis")(0.87 * n / STEPS), label=f"t = {n * step:.2f}")
ax.plot(steady[20], y_axis.points, "k--", label="steady")
ax.set(xlabel="u", ylabel="y", xlim=(0, 6.5), ylim=(0, 2), title="Flow along a channel")
ax.legend(frameon=False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cfd_12_channel.png", dpi=150)
print(f"channel: max u = {largest:.9f} after {STEPS} steps, steady {steady.max():.6f}; out/cfd_12_channel.png")
