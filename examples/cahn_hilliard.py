"""Cahn–Hilliard: a mixture falls apart into two phases, and the phases gather into ever larger patches.

c_t = D ∇²(c³ − c − g ∇²c), periodic (Cahn and Hilliard, J. Chem. Phys. 28, 258, 1958). The mean of c stays as it
is, and the free energy ∫ (c² − 1)²/4 + g/2 |∇c|² falls. At first, while c is small, each Fourier mode grows by itself
as e^{σt}, σ = D q (1 − g q) (Cahn, Acta Metall. 9, 795, 1961), with q = Σ (2 − 2 cos k h)/h² on spacing h.
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

size, D, g = 128, 1.0, 1.0
x_axis, y_axis = (fd.Axis(0.0, float(size), num=size, periodic=True) for _ in "xy")
grid = fd.Grid(t=fd.Time(0.0, 240.0, step=0.025), x=x_axis, y=y_axis)
laplacian = fd.schemes.laplacian

c = fd.Field("c", grid)
c[...] = fd.rate(lambda c, D, g: D * laplacian(c**3 - c - g * laplacian(c)))
c[0] = 0.01 * np.random.default_rng(1).standard_normal((size, size)) - 0.002

solution = fd.solve(c, D=D, g=g, stepper=fd.schemes.Heun(), save=fd.every(80))  # every two units of time
history = np.asarray(solution["c"])


def free_energy(c):
    steps = [np.roll(c, -1, axis) - c for axis in (0, 1)]
    return ((c**2 - 1) ** 2 / 4 + g / 2 * (steps[0] ** 2 + steps[1] ** 2)).mean()


energy = np.array([free_energy(state) for state in history])
assert (np.diff(energy) < 0).all(), "the free energy rose"

drift = abs(history.mean((1, 2)) - history[0].mean()).max()
assert drift < 1e-14, drift

symbol = 2 - 2 * np.cos(2 * np.pi * np.fft.fftfreq(size))
q = symbol[:, None] + symbol
linear = np.fft.ifft2(np.fft.fft2(history[0]) * np.exp(D * q * (1 - g * q) * solution.times[1])).real
error = np.linalg.norm(history[1] - linear) / np.linalg.norm(linear)
assert error < 2e-3, error

fig = plt.figure(figsize=(12, 6.4), layout="constrained")
axes = fig.subplot_mosaic([["a", "b", "c"], ["e", "e", "e"]], height_ratios=(1.7, 1))
for name, time in zip("abc", (20, 60, 240), strict=True):
    state = history[int(np.searchsorted(solution.times, time - 1e-6))]
    image = axes[name].imshow(
        state.T, cmap="RdBu_r", vmin=-1, vmax=1, extent=(0, size, 0, size), origin="lower", interpolation="bicubic"
    )
    axes[name].set(title=f"t = {time}", xlabel="x (√g)")
axes["a"].set_ylabel("y (√g)")
fig.colorbar(image, ax=[axes[name] for name in "abc"], label="composition c (1)")
axes["e"].loglog(solution.times[1:], energy[1:], color="#21918c", lw=2)
late = solution.times[30:]
axes["e"].loglog(late, 1.12 * energy[30] * (late / solution.times[30]) ** (-1 / 3), "k--", lw=1, label="$t^{-1/3}$")
axes["e"].set(xlabel="time (g/D)", ylabel="free energy density (1)", xlim=(2, 240), yticks=[0.12, 0.16, 0.2, 0.24])
axes["e"].yaxis.set_major_formatter("{x:.2f}")
axes["e"].yaxis.set_minor_formatter("")
axes["e"].legend(frameon=False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/cahn_hilliard.png", dpi=150)
print(f"Cahn–Hilliard: free energy {energy[-1]:.5f}, mean kept to {drift:.0e}, linear stage to {error:.0e}")
