"""Maxwell's equations in a cavity by Yee's scheme: energy is kept to rounding, and the mode keeps its frequency.

E_t = ∂H_y/∂x − ∂H_x/∂y, H_t = −∇ × E (TM waves, c = 1), E on the nodes, H half-way between them, H half a step behind E
in time: Yee, "Numerical solution of initial boundary value problems involving Maxwell's equations in isotropic media",
IEEE Trans. Antennas Propag. 14 (1966) 302. Between perfect conductors (E = 0) ΣE² + ΣH⁻·H⁺ does not change.
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd
from fdsolve.schemes import curl

jax.config.update("jax_enable_x64", True)

num, steps = 41, 400
x, y = (fd.Axis(0.0, 1.0, num) for _ in "xy")
dt = 0.7 * x.step / np.sqrt(2)
grid = fd.Grid(t=fd.Time(0.0, steps * dt, num=steps + 1), x=x, y=y)
e = fd.Field("e", grid)
hx, hy = fd.Field("hx", grid, at=dict(y="face")), fd.Field("hy", grid, at=dict(x="face"))

hx[...] = lambda hx, e, dt: hx["t-1"] - dt * curl(e, at="t-1")[0]  # at t − Δt/2
hy[...] = lambda hy, e, dt: hy["t-1"] - dt * curl(e, at="t-1")[1]
e[...] = lambda e, hx, hy, dt: e["t-1"] + dt * curl((hx, hy))
e[dict(x=[0, -1])] = 0.0
e[dict(y=[0, -1])] = 0.0

mode = np.sin(np.pi * x.points)[:, None] * np.sin(2 * np.pi * y.points)
e[0], hx[0], hy[0] = mode, 0.0, 0.0
result = fd.solve([e, hx, hy]).to_xarray()

inside = result.hx.values[:, 1:-1, :], result.hy.values[:, :, 1:-1]
magnetic = sum((h[:-1] * h[1:]).sum((1, 2)) for h in inside)
energy = (result.e.values[:-1] ** 2).sum((1, 2)) + magnetic
drift = np.ptp(energy) / energy[0]
print(f"energy drifts by {drift:.1e} of itself in {steps} steps")
assert drift < 1e-12

amplitude = (result.e.values * mode).sum((1, 2)) / (mode**2).sum()
frequency = np.sqrt(5) * np.pi
# Yee's dispersion relation: sin²(ωΔt/2)/Δt² = Σ sin²(kΔx/2)/Δx².
squares = sum((np.sin(k * x.step / 2) / x.step) ** 2 for k in (np.pi, 2 * np.pi))
numerical = 2 / dt * np.arcsin(dt * np.sqrt(squares))
crossings = np.flatnonzero(np.diff(np.sign(amplitude)))
times = [(n + amplitude[n] / (amplitude[n] - amplitude[n + 1])) * dt for n in crossings]
measured = np.pi * (len(times) - 1) / (times[-1] - times[0])
print(f"frequency {measured:.5f}; of the scheme {numerical:.5f}, exact {frequency:.5f}")
assert abs(measured / numerical - 1) < 1e-3
assert abs(measured / frequency - 1) < 3e-3

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
half = result.e.isel(t=36)
image = left.pcolormesh(half.x, half.y, half.T, vmin=-1, vmax=1, cmap="RdBu_r", shading="gouraud")
fig.colorbar(image, ax=left, label="E")
left.set(title=f"electric field after half a period, t = {float(half.t):.2f}", xlabel="x", ylabel="y", aspect="equal")
right.plot(result.t[:-1], 1e15 * (energy / energy[0] - 1), lw=0.8)
right.set(title="energy: rounding alone", xlabel="t", ylabel="relative change (10⁻¹⁵)")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/maxwell_cavity.png", dpi=150)
print("picture in out/maxwell_cavity.png")
