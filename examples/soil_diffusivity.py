"""Which diffusivity has the soil at Fargo? One value, and a profile with its uncertainty, inverted from a real record.

T_t = (D T_z)_z from 5 to 225 cm over two summer months by Crank–Nicolson steps of an hour, with the record of the
shallowest and the deepest sensor as boundary values. The twelve sensors between are the observations: missing hours
weigh nothing. One value fits them to 0.404 °C; log D piecewise linear between six depths to 0.263 °C. The record is of
the North Dakota Agricultural Weather Network; give its path, or have it in ../shared/data beside the repository.
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
    sys.exit(print(f"soil diffusivity: nothing done, no record at {path}; give its path as the argument"))

table = pd.read_csv(path, index_col="time_cst", parse_dates=True).drop(columns="station")
table = table.asfreq("1h").loc[f"{table.index[0].year}-06-01" : f"{table.index[0].year}-07-31"]
depths = [float(name.removeprefix("T").removesuffix("cm")) / 100 for name in table]  # m
record = xr.DataArray(table.to_numpy(), dict(t=table.index.to_numpy(), z=depths), ("t", "z"), name="T")
driven = record.copy(data=table.interpolate(limit_direction="both").to_numpy())  # walls and start want every hour

hours = fd.Time(0.0, 3600.0 * (record.t.size - 1), step=3600.0, since=str(record.t.values[0]), units="s")
grid = fd.Grid(t=hours, z=fd.Axis(depths[0], depths[-1], 89, units="m"))
T = fd.Field("T", grid, units="°C")
T[...] = fd.rate(lambda T, diffusivity: fd.schemes.divergence(diffusivity, T))
T[dict(z=0)] = fd.boundary.Dirichlet(fd.interpolate(driven.isel(z=0, drop=True)))
T[dict(z=-1)] = fd.boundary.Dirichlet(fd.interpolate(driven.isel(z=-1, drop=True)))
T[0] = fd.interpolate(driven.isel(t=0, drop=True))
observed = record.isel(z=slice(1, -1))
knots = np.array([0.05, 0.2, 0.4, 0.8, 1.5, 2.25])  # m


def residuals(parameters):
    """Computed minus observed, °C; `D` holds one diffusivity, or those at the knots."""
    log_d = jnp.broadcast_to(jnp.log(parameters["D"]), knots.shape)
    diffusivity = jnp.exp(jnp.interp(grid.z.points, knots, log_d))
    return fd.misfit(fd.solve(T, diffusivity=diffusivity, stepper=fd.schemes.CrankNicolson()), observed)


def rmse(found):
    return (2 * found.loss / int(observed.notnull().sum())) ** 0.5


one = fd.invert(residuals, dict(D=4e-7), transform=dict(D=fd.inverse.Exponential()))
start = xr.DataArray(np.full(knots.size, float(one.parameters["D"])), dict(z=knots), name="D")
profile = fd.invert(residuals, dict(D=start), transform=dict(D=fd.inverse.Exponential()))
print(one, profile, sep="\n")
assert one.converged and profile.converged
if path == beside:
    assert abs(float(one.parameters["D"]) / 2.08e-7 - 1) < 0.005 and rmse(one) < 0.4045, rmse(one)
    assert rmse(profile) < 0.2635, rmse(profile)

D, sigma = profile.to_xarray().D, profile.standard_deviation().D
error, sensor = jax.jit(lambda D: residuals(dict(D=D))), np.nonzero(observed.notnull().to_numpy())[1]
uniform = np.full(knots.size, float(one.parameters["D"]))
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
left.axvline(1e7 * uniform[0], color="0.6", label="one value")
left.errorbar(1e7 * D, 100 * knots, xerr=2e7 * sigma, fmt="o-", color="#b5367a", capsize=3, label="a profile, ± 2 σ")
left.set(xlabel="diffusivity (10⁻⁷ m²/s)", ylabel="depth (cm)", ylim=(230, 0))
for values, whole, color in ((uniform, rmse(one), "0.6"), (D.values, rmse(profile), "#b5367a")):
    each = np.sqrt(np.bincount(sensor, error(values) ** 2) / np.bincount(sensor))
    right.plot(each, 100 * observed.z, "o-", color=color, label=f"all sensors {whole:.3f} °C")
right.set(xlabel="RMSE of the soil temperature (°C)", xlim=(0, None))
left.legend(frameon=False), right.legend(frameon=False, loc="center right")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/soil_diffusivity.png", dpi=150)
print(f"soil: one value {rmse(one):.4f} °C, profile {rmse(profile):.4f} °C; picture in out/soil_diffusivity.png")
