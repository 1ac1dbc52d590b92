"""A sine steepens to a viscous shock: Burgers' equation, and the published largest slope.

u_t + (u²/2)_x = ν u_xx with ν = 0.01/π and u₀ = −sin πx on [−1, 1]. The slope at the origin grows to 152.005 at
t = 0.51047 (Basdevant et al., Comput. Fluids 14 (1986) 23). WENO of order 5 with the Lax–Friedrichs flux at points,
a diffusion of order 6, RK4.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

viscosity, peak_time, num = 0.01 / np.pi, 0.51047, 1024
grid = fd.Grid(t=fd.Time(0.0, peak_time, num=2001), x=fd.Axis(-1.0, 1.0, num=num, periodic=True))
u = fd.Field("u", grid)


def steepen(u, nu):
    wind = fd.schemes.conservation(lambda u: u**2 / 2, u, reconstruction=fd.schemes.WENO5())
    return wind + nu * fd.schemes.derivative(u, "x", 2, order=6)


u[...] = fd.rate(steepen)
u[0] = lambda x: -jnp.sin(jnp.pi * x)
solution = fd.solve(u, nu=viscosity, stepper=fd.schemes.RK4(), save=fd.every(500))
levels = np.asarray(solution["u"])

wavenumber = 1j * np.pi * np.fft.fftfreq(num, 1 / num)
slopes = np.abs(np.fft.ifft(wavenumber * np.fft.fft(levels)).real).max(axis=1)
assert abs(slopes[-1] / 152.005 - 1) < 1e-3, slopes
assert abs(levels.sum(axis=1)).max() < 1e-9

fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(levels)))
for time, level, colour in zip(solution.times, levels, colours, strict=True):
    ax.plot(grid.x.points, level, color=colour, label=f"t = {float(time):.3f}")
ax.set(xlabel="x", ylabel="u", xlim=(-1, 1), title=f"a sine steepens to the slope −{slopes[-1]:.2f}")
ax.legend(fontsize="small", frameon=False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/burgers_steep.png", dpi=150)
print(f"Burgers: largest slope {slopes[-1]:.4f} of 152.005 at t = {peak_time}; out/burgers_steep.png")
