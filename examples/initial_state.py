"""Heat backwards: an initial state from its blurred, noisy image, with three kinds of knowledge of it.

u_t = κ u_xx turns jumps into ramps, and backwards makes noise into waves: with next to no regularisation the answer is
useless. Tikhonov's ½w∫u_x² (Dokl. Akad. Nauk SSSR 151, 501, 1963) gives the smoothest state that explains the data,
total variation w∫|u_x| (Rudin, Osher and Fatemi, Physica D 60, 259, 1992) one that may jump.
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)
noise, kappa = 0.01, 0.002
grid = fd.Grid(t=fd.Time(0.0, 1.0, num=21), x=fd.Axis(0.0, 1.0, num=81))
u = fd.Field("u", grid)
u[...] = fd.rate(lambda u, kappa: kappa * fd.schemes.laplacian(u))
u[0] = lambda start: start
u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)


@jax.jit
def march(start):
    return fd.solve(u, kappa=kappa, start=start, stepper=fd.schemes.CrankNicolson(), save=fd.final())["u"][0]


x = grid.x.points
true = np.where((x > 0.2) & (x < 0.45), 1.0, 0.0) + np.where((x > 0.6) & (x < 0.85), 0.5, 0.0)
blur = jax.jacfwd(march)(true)  # linear: the whole march as one matrix, which makes three inversions cheap
observed = blur @ true + noise * np.random.default_rng(1).standard_normal(x.size)


def residuals(parameters):
    """In standard deviations of the noise."""
    return (blur @ parameters["start"] - observed) / noise


kinds = {
    "almost none": fd.tikhonov(1.0, order=0, grid=grid),
    "Tikhonov": fd.tikhonov(1.0, order=1, grid=grid),
    "total variation": fd.total_variation(3.0, grid=grid, smoothing=0.3),
}
first = dict(start=np.asarray(observed))
options = dict(method="gauss-newton", tolerance=1e-4)
found = {name: fd.invert(residuals, first, regularise=term, **options) for name, term in kinds.items()}
states = {name: np.asarray(one.parameters["start"]) for name, one in found.items()}
errors = {name: float(np.sqrt(np.mean((state - true) ** 2))) for name, state in states.items()}
chi = {name: float((residuals(one.parameters) ** 2).mean()) for name, one in found.items()}
blurred = float(np.sqrt(np.mean((observed - true) ** 2)))
print(f"errors {errors} of {blurred:.3f}; squared residuals {chi}")
assert errors["total variation"] < errors["Tikhonov"] < blurred < errors["almost none"], errors
assert errors["total variation"] < 0.5 * blurred and 0.5 < chi["total variation"] < 1.5, (errors, chi)

fig, panels = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
for ax, (name, state) in zip(panels, states.items(), strict=True):
    ax.plot(x, true, color="0.75", lw=4, label="true at t = 0")
    ax.plot(x, observed, ".", color="#21918c", ms=4, label="observed at t = 1")
    ax.plot(x, state, color="#b5367a", lw=1.2, label="recovered at t = 0")
    ax.set(title=f"{name}: error {errors[name]:.3f}", xlabel="x", ylim=(-0.5, 1.75))
panels[0].set_ylabel("u")
panels[2].legend(frameon=False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/initial_state.png", dpi=150)
print("initial state: picture in out/initial_state.png")
