"""Heat sinks into the soil at Fargo, North Dakota: two months of a real record, from its ends and its first hour.

T_t = D T_zz from 5 to 225 cm, with the hourly record of the shallowest and the deepest sensor as boundary values
and all sensors' first values as the initial profile. The twelve sensors between say how good it is: with the one
diffusivity that fits best, D = 2.08e-7 m²/s, a Crank–Nicolson run of the same problem ends with an RMSE of
0.404 °C. The record is of the North Dakota Agricultural Weather Network; give its path, or have it in
../shared/data beside the repository.
"""

import sys
from pathlib import Path

import jax
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import pandas as pd
import xarray as xr

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "fargo_soil_2016.csv"
path = Path(sys.argv[1]) if len(sys.argv) > 1 else beside
if not path.exists():
    print(f"soil temperature: nothing done, there is no record at {path}; give its path as the argument")
    sys.exit(0)


def read_record(path):
    """The record as T(t, z), z in metres; gaps of up to three hours are bridged linearly."""
    table = pd.read_csv(path, index_col="time_cst", parse_dates=True).drop(columns="station")
    depths = [float(name.removeprefix("T").removesuffix("cm")) / 100 for name in table]
    table = table.asfreq("1h").interpolate(limit=3, limit_area="inside")
    return xr.DataArray(table.to_numpy(), dict(t=table.index.to_numpy(), z=depths), ("t", "z"))


record = read_record(path).sel(t=slice("2016-06-01T00:00", "2016-07-31T23:00"))
assert not record.isnull().any(), "the record has long gaps in June or July 2016"
hours = record.t.size - 1

grid = fd.Grid(
    t=fd.Time(0.0, hours * 3600.0, step=300.0, since="2016-06-01", units="s"),
    z=fd.Axis(0.05, 2.25, num=89, units="m"),
)
T = fd.Field("T", grid, units="°C")
T[...] = fd.rate(lambda T, diffusivity: diffusivity * fd.schemes.laplacian(T))
T[dict(z=0)] = fd.boundary.Dirichlet(fd.interpolate(record.isel(z=0, drop=True)))
T[dict(z=-1)] = fd.boundary.Dirichlet(fd.interpolate(record.isel(z=-1, drop=True)))
T[0] = fd.interpolate(record.isel(t=0, drop=True))

computed = fd.solve(T, diffusivity=2.08e-7, save=fd.every(12)).to_xarray().T  # hourly, as the record

observed = record.isel(z=slice(1, -1))
misfit = computed.sel(z=observed.z, method="nearest", tolerance=1e-9).drop_vars("z") - observed.drop_vars("z")
rmse = float((misfit**2).mean()) ** 0.5
assert abs(rmse / 0.404 - 1) < 0.01, rmse

fig, (top, bottom) = plt.subplots(2, 1, figsize=(9, 7), sharex=True, layout="constrained")
levels = range(4, 34, 2)
filled = top.contourf(computed.t, 100 * computed.z, computed.transpose("z", "t"), levels, cmap="inferno", extend="both")
top.set(ylabel="depth (cm)", ylim=(225, 5), title="Soil temperature at Fargo, summer 2016, D = 2.08·10⁻⁷ m²/s")
fig.colorbar(filled, ax=top, label="temperature (°C)")
for depth, color in zip((0.1, 0.3, 0.6, 1.0, 2.0), plt.get_cmap("viridis")([0.95, 0.75, 0.5, 0.3, 0.0]), strict=True):
    bottom.plot(record.t, record.sel(z=depth, method="nearest"), color=color, lw=2.5, alpha=0.4)
    at_depth = computed.sel(z=depth, method="nearest")
    bottom.plot(at_depth.t, at_depth, color=color, lw=1, label=f"{100 * depth:.0f} cm")
bottom.set(ylabel="temperature (°C)", xlim=record.t[[0, -1]])
bottom.set_title(f"computed (thin) and measured (broad), RMSE {rmse:.3f} °C")
bottom.legend(ncols=5, frameon=False, loc="lower right")
bottom.xaxis.set_major_formatter(mdates.ConciseDateFormatter(bottom.xaxis.get_major_locator()))
Path("out").mkdir(exist_ok=True)
fig.savefig("out/soil_temperature.png", dpi=150)
print(f"soil temperature: RMSE {rmse:.4f} °C over twelve sensors and {hours} h; picture in out/soil_temperature.png")
