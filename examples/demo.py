"""Heat crosses a plate with holes: walls and holes by region, a NetCDF file and a picture.

u_t = α ∇²u on an aluminium plate: held at 80 °C on the left, cooled by air on the right (Robin), insulated above
and below and around its holes (Neumann). When it has come to rest, as much heat enters as leaves, and the holes
hinder it as Lord Rayleigh has it for a square array of cylinders (Phil. Mag. 34, 481, 1892; more terms by Perrins,
McKenzie and McPhedran, Proc. R. Soc. A 369, 207, 1979), with φ the share of the holes in the area:
k_eff = k (1 − 2φ / (1 + φ − 0.305827 φ⁴ / (1 − 1.402958 φ⁸) − 0.013362 φ⁸)).
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

alpha, hot, air, transfer = 0.97, 80.0, 20.0, 0.25  # cm²/s, °C, °C, 1/cm (heat transfer over conductivity)
length, width, cell, radius = 12.0, 8.0, 4.0, 1.15  # cm
grid = fd.Grid(
    t=fd.Time(0.0, 300.0, step=0.01, units="s"),
    x=fd.Axis(0.0, length, num=61, units="cm"),
    y=fd.Axis(0.0, width, num=41, units="cm"),
)
u = fd.Field("u", grid, units="°C")


def in_hole(x, y):
    return ((x % cell) - cell / 2) ** 2 + ((y % cell) - cell / 2) ** 2 < radius**2


u[...] = fd.rate(lambda u, alpha: alpha * fd.schemes.laplacian(u))  # everywhere, unless a later line says otherwise
u[0] = air
u[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
u[dict(x=-1)] = fd.boundary.Robin(transfer, 1.0, transfer * air)
u[dict(x=0)] = fd.boundary.Dirichlet(hot)
u[fd.where(in_hole)] = fd.boundary.Neumann(0.0)

solution = fd.solve(u, alpha=alpha, stepper=fd.schemes.Euler(), save=fd.at([5, 20, 60, 300]))

final = np.asarray(solution.final["u"])
entering = np.trapezoid(final[0] - final[1], grid.y.points) / (width * grid.x.step)  # °C/cm: times k, a heat flux
leaving = transfer * np.trapezoid(final[-1] - air, grid.y.points) / width
assert abs(entering / leaving - 1) < 1e-4, (entering, leaving)

share = np.pi * radius**2 / cell**2
k_eff = 1 - 2 * share / (1 + share - 0.305827 * share**4 / (1 - 1.402958 * share**8) - 0.013362 * share**8)
rayleigh = (hot - air) / (length / k_eff + 1 / transfer)
assert abs(leaving / rayleigh - 1) < 0.07, (leaving, rayleigh)  # rims in steps of dx: other radii miss by up to 7 %

data = solution.to_xarray()
Path("out").mkdir(exist_ok=True)
fd.to_netcdf(solution, "out/demo.nc")

fig, axes = plt.subplots(2, 2, figsize=(11, 7.4), sharex=True, sharey=True, layout="constrained")
for ax, state in zip(axes.flat, data.u, strict=True):
    picture = state.interpolate_na("x").T  # the holes are nan; what is drawn there lies under the discs
    image = ax.contourf(state.x, state.y, picture, np.linspace(air, hot, 31), cmap="inferno")
    ax.contour(state.x, state.y, picture, np.arange(25, 80, 5), colors="w", linewidths=0.5, alpha=0.6)
    for x, y in np.ndindex(3, 2):
        ax.add_patch(plt.Circle((cell * (x + 0.5), cell * (y + 0.5)), radius + 0.1, fc="0.92", ec="0.4", zorder=3))
    ax.set(title=f"after {float(state.t):.0f} s", aspect="equal", xlim=(0, length), ylim=(0, width))
flow = np.nan_to_num(final[:-1] - final[1:])  # from point to point; none into a hole
below = np.cumsum(flow, axis=1) - flow[:, :1] / 2  # what flows below a height: its contours are the lanes of the heat
lanes = (np.arange(16) + 0.5) / 16 * below[:, -2:].mean()  # the plate ends half-way between the last two
middle_x, middle_y = (axis.points + axis.step / 2 for axis in (grid.x, grid.y))
ax.contour(middle_x[:-1], middle_y, below.T, lanes, colors="w", linewidths=0.9)
ax.set_title("at rest: each lane carries as much heat")
for ax in axes[:, 0]:
    ax.set_ylabel("y (cm)")
for ax in axes[-1]:
    ax.set_xlabel("x (cm)")
fig.colorbar(image, ax=axes, label="temperature (°C)", shrink=0.8, ticks=range(20, 81, 10))
fig.savefig("out/demo.png", dpi=150)
print(f"demo: the heat flux is {leaving:.4f} °C/cm times the conductivity (Rayleigh: {rayleigh:.4f})")
print(f"saved {Path('out/demo.nc').resolve()} and {Path('out/demo.png').resolve()}")
