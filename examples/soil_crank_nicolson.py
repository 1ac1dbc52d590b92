"""Heat in the soil at Fargo with hourly steps by Crank–Nicolson, and the diffusivities that fit the record best.

T_t = (D T_z)_z from 5 to 225 cm, with the hourly record of the shallowest and the deepest sensor as boundary values
and all sensors' first values as the initial profile (Crank and Nicolson, Proc. Camb. Phil. Soc. 43, 50, 1947). Twelve
sensors between judge it: RMSE 0.404 °C at best with one diffusivity, 0.263 °C where log D is piecewise linear between
six depths. The record is of the North Dakota Agricultural Weather Network; give its path, or have it in ../shared/data.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "fargo_soil_2016.csv"
path = Path(sys.argv[1]) if len(sys.argv) > 1 else beside
if not path.exists():
    sys.exit(print(f"soil by Crank–Nicolson: nothing done, no record at {path}; give its path as the argument"))

table = pd.read_csv(path, index_col="time_cst", parse_dates=True).drop(columns="station")
table = table.asfreq("1h").interpolate(limit=3, limit_area="inside").loc["2016-06-01":"2016-07-31"]
depths = [float(name.removeprefix("T").removesuffix("cm")) / 100 for name in table]  # m
record = xr.DataArray(table.to_numpy(), dict(t=table.index.to_numpy(), z=depths), ("t", "z"))
assert not record.isnull().any(), "the record has long gaps in June or July 2016"

end = 3600.0 * (record.t.size - 1)
grid = fd.Grid(t=fd.Time(0.0, end, step=3600.0, since="2016-06-01", units="s"), z=fd.Axis(0.05, 2.25, 89, units="m"))
T = fd.Field("T", grid, units="°C")
T[...] = fd.rate(lambda T, diffusivity: fd.schemes.divergence(diffusivity, T))
T[dict(z=0)] = fd.boundary.Dirichlet(fd.interpolate(record.isel(z=0, drop=True)))
T[dict(z=-1)] = fd.boundary.Dirichlet(fd.interpolate(record.isel(z=-1, drop=True)))
T[0] = fd.interpolate(record.isel(t=0, drop=True))
sensors = np.searchsorted(grid.z.points, record.z.values[1:-1] - 1e-9)
observed = record.values[:, 1:-1]
knots = jnp.array([0.05, 0.2, 0.4, 0.8, 1.5, 2.25])  # m


@jax.jit
def march(log_diffusivity):
    """The history of T, where log D is piecewise linear in depth."""
    diffusivity = jnp.exp(jnp.interp(grid.z.points, knots, log_diffusivity))
    return fd.solve(T, diffusivity=diffusivity, stepper=fd.schemes.CrankNicolson())["T"]


def misfit(log_diffusivity):
    return (march(log_diffusivity)[:, sensors] - observed).ravel() / observed.size**0.5  # its norm is the RMSE


one = jnp.full(knots.size, jnp.log(2.08e-7))
rmse = float(jnp.linalg.norm(misfit(one)))
assert abs(rmse / 0.404 - 1) < 0.002, rmse

# Gauss–Newton for log D at the knots; its derivatives go through every step.
fitted, slopes = one, jax.jit(jax.jacfwd(misfit))
for _ in range(3):
    fitted -= jnp.linalg.lstsq(slopes(fitted), misfit(fitted))[0]
found = float(jnp.linalg.norm(misfit(fitted)))
assert abs(found / 0.263 - 1) < 0.002, found

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", width_ratios=(1, 2.2))
for log_d, color, text in ((one, "0.6", f"one, RMSE {rmse:.3f} °C"), (fitted, "#b5367a", f"six, RMSE {found:.3f} °C")):
    left.plot(1e7 * jnp.exp(log_d), 100 * knots, "o-", color=color, ms=4, label=text)
left.set(xlabel="diffusivity (10⁻⁷ m²/s)", ylabel="depth (cm)", ylim=(230, 0), xlim=(1.5, 5.0))
right.plot(record.t, observed[:, 4], color="#21918c", lw=3, alpha=0.4, label="measured")
right.plot(record.t, march(fitted)[:, sensors[4]], color="#21918c", lw=1, label="computed")
right.set(ylabel="temperature (°C)", title=f"at {100 * depths[5]:.0f} cm", xticks=record.t.values[::336])
for ax in (left, right):
    ax.legend(frameon=False, loc="upper right" if ax is left else "upper left")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/soil_crank_nicolson.png", dpi=150)
print(f"soil, steps of 1 h: RMSE {rmse:.4f} °C, with six diffusivities {found:.4f} °C; out/soil_crank_nicolson.png")
