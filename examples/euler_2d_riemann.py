"""Four shocks meet: a two-dimensional Riemann problem of gas dynamics, symmetric about the diagonal to rounding.

Configuration 3 of Lax & Liu, SIAM J. Sci. Comput. 19 (1998) 319: four constant states, a shock between each two. HLLC
flux, monotonised central limiter, Heun's method. The declaration knows nothing of the symmetry x ↔ y of the state;
the numbers keep it. Mass leaves through open walls only.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

gas, num = fd.schemes.IdealGas(1.4), 60
axis = fd.Axis(0.0, 1.0, num=num, cells=True)
grid = fd.Grid(t=fd.Time(0.0, 0.3, num=121), x=axis, y=axis)
rho, mx, my, energy = (fd.Field(name, grid) for name in ("rho", "mx", "my", "energy"))


def rates(rho, mx, my, energy):
    flux, limited = fd.schemes.HLLC(), fd.schemes.TVD(fd.schemes.mc)
    return fd.schemes.conservation(gas, (rho, mx, my, energy), flux=flux, reconstruction=limited)


fields = fd.together(rho, mx, my, energy)
fields[...] = fd.rate(rates)
states = [gas.to_conservative(s) for s in (
    (0.138, 1.206, 1.206, 0.029), (0.5323, 0.0, 1.206, 0.3), (0.5323, 1.206, 0.0, 0.3), (1.5, 0.0, 0.0, 1.5)
)]  # lower left, lower right, upper left, upper right  # fmt: skip


def start(component):
    a, b, c, d = (state[component] for state in states)
    return lambda x, y: jnp.where(x > 0.5, jnp.where(y > 0.5, d, b), jnp.where(y > 0.5, c, a))


for number, field in enumerate((rho, mx, my, energy)):
    field[0] = start(number)
    field[dict(x=[0, -1])] = field[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)

final = fd.solve([rho, mx, my, energy], stepper=fd.schemes.Heun(), save=fd.final()).final
density, along_x, along_y = (np.asarray(final[name]) for name in ("rho", "mx", "my"))
lopsided = max(abs(density - density.T).max(), abs(along_x - along_y.T).max())
assert lopsided < 1e-10, lopsided
assert density.min() > 0.13 and 1.4 < density.max() < 1.9, (density.min(), density.max())

fig, ax = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
image = ax.pcolormesh(axis.points, axis.points, density.T, cmap="viridis", shading="gouraud")
ax.contour(axis.points, axis.points, density.T, levels=16, colors="k", linewidths=0.3)
ax.set(title="Four shocks meet, t = 0.3", aspect="equal", xlabel="x", ylabel="y")
fig.colorbar(image, ax=ax, label="density", shrink=0.85)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/euler_2d_riemann.png", dpi=150)
print(f"2-D Riemann problem: density {density.min():.3f} to {density.max():.3f}, symmetric to {lopsided:.0e}; "
      "out/euler_2d_riemann.png")  # fmt: skip
