"""A dam breaks over a wet and over a dry bed: shallow water against the exact solutions.

HLL flux and van Leer's limiter on depth and velocity, Heun's method. Over a wet bed a rarefaction runs back and a bore
forward (Stoker 1957; depth 1.4538409 and velocity 0.4169206 between); over a dry bed the water thins out to a front
at twice the wave speed (Ritter 1892). The depth stays non-negative and its sum is conserved.
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

num, time = 400, 0.2
grid = fd.Grid(t=fd.Time(0.0, time, num=641), x=fd.Axis(-1.0, 1.0, num=num, cells=True))
h, hu = fd.Field("h", grid), fd.Field("hu", grid)
water, x = fd.schemes.ShallowWater(g=1.0), grid.x.points


def rates(h, hu):
    limited = fd.schemes.TVD(fd.schemes.van_leer)
    return fd.schemes.conservation(water, (h, hu), flux=fd.schemes.HLL(), reconstruction=limited)


fd.together(h, hu)[...] = fd.rate(rates)
h[0] = lambda before: before[...]
hu[0] = 0.0
h[dict(x=[0, -1])] = hu[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)


def break_dam(deep, shallow):
    before = np.where(x < 0, deep, shallow)
    final = fd.solve([h, hu], before=before, stepper=fd.schemes.Heun(), save=fd.final()).final
    return np.asarray(final["h"]), np.asarray(final["hu"])


wet, flow = break_dam(2.0, 1.0)
middle = (x > -0.1) & (x < 0.2)
assert np.allclose(np.median(wet[middle]), 1.4538409, rtol=1e-3)
assert np.allclose(np.median((flow / wet)[middle]), 0.4169206, rtol=1e-3)
bore = 1.4538409 * 0.4169206 / 0.4538409 * time
assert abs(x[np.argmin(abs(wet - 1.227))] - bore) < 2.0 / num

dry, _ = break_dam(1.0, 0.0)
speed = x / time
exact = np.where(speed < -1, 1.0, np.where(speed < 2, (2 - speed) ** 2 / 9, 0.0))
error = float(abs(dry - exact).mean())
assert error < 3e-3 and dry.min() >= 0.0, (error, dry.min())
assert abs(dry.mean() - 0.5) < 1e-12

fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.plot(x, wet, label="wet bed")
ax.plot(x, dry, label="dry bed")
ax.plot(x, exact, "k--", linewidth=0.7, label="Ritter")
ax.set(xlabel="x", ylabel="depth", title=f"a dam, {time} after it broke")
ax.legend()
Path("out").mkdir(exist_ok=True)
fig.savefig("out/dam_break.png", dpi=150)
print(f"dam break: dry bed to {error:.1e} of Ritter's depth, least depth {dry.min():.1e}; out/dam_break.png")
