"""Sod's shock tube: rarefaction, contact and shock in an ideal gas, at their exact places.

The Euler equations with WENO of order 5 on primitive variables and the HLLC flux, SSPRK3, two hundred cells. The exact
states between the waves are those of the Riemann problem (Sod 1978; Toro 2009, section 4.3.3, test 1).
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

gas = fd.schemes.IdealGas(1.4)
grid = fd.Grid(t=fd.Time(0.0, 0.2, num=221), x=fd.Axis(0.0, 1.0, num=200, cells=True))
rho, mom, energy = fd.Field("rho", grid), fd.Field("mom", grid), fd.Field("energy", grid)


def rates(rho, mom, energy):
    flux, reconstruction = fd.schemes.HLLC(), fd.schemes.WENO5()
    return fd.schemes.conservation(gas, (rho, mom, energy), flux=flux, reconstruction=reconstruction)


fd.together(rho, mom, energy)[...] = fd.rate(rates)
x = grid.x.points
left, right = (gas.to_conservative(state) for state in ((1.0, 0.0, 1.0), (0.125, 0.0, 0.1)))
for field, low, high in zip((rho, mom, energy), left, right, strict=True):
    field[0] = np.where(x < 0.5, low, high)
    field[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)

final = fd.solve([rho, mom, energy], stepper=fd.schemes.SSPRK3(), save=fd.final()).final
density, velocity, pressure = (
    np.asarray(v) for v in gas.to_primitive(tuple(final[n] for n in ("rho", "mom", "energy")))
)

middle = (x > 0.52) & (x < 0.65)  # between the rarefaction and the contact
star = [float(np.median(v[middle])) for v in (pressure, velocity, density)]
assert np.allclose(star, (0.3031302, 0.9274526, 0.4263194), rtol=2e-3), star
shock = float(x[np.argmin(abs(density - (0.2655737 + 0.125) / 2))])
assert abs(shock - 0.85043) < 1.5 / 200, shock

states = density, velocity, pressure
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
fig.suptitle("Sod's shock tube (grey lines: the exact places)")
for k, (ax, value, name) in enumerate(zip(axes, states, ("density", "velocity", "pressure"), strict=True)):
    ax.plot(x, value, ".-", markersize=3, linewidth=0.6)
    ax.set(title=name, xlabel="x", ylabel="ρup"[k])
    for place in (0.26336, 0.48595, 0.68549, 0.85043):
        ax.axvline(place, color="0.8", linewidth=0.8, zorder=0)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/sod.png", dpi=150)
print(f"Sod: p*, u*, ρ* = {star[0]:.5f}, {star[1]:.5f}, {star[2]:.5f}; shock at {shock:.4f}; out/sod.png")
