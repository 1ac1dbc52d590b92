"""Sound leaves an open domain: pressure and velocity on a staggered grid, with an absorbing layer on every side.

p_t = −ρc² ∇·v, ρ v_t = −∇p, as rates under RK4. The trace at a receiver is compared with that of a domain so large that
no echo comes back in time: what differs is what the layers reflect, here asserted to be below −60 dB of the wave.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd
from fdsolve.schemes import derivative

jax.config.update("jax_enable_x64", True)

NUM, ROOM, STOP = 81, 12, 90.0
CENTRE, RECEIVER = (40.0, 40.0), (48.0, 30.0)


def pulse(t):
    return -2 * (t - 16) / 9 * jnp.exp(-(((t - 16) / 3) ** 2))


def propagate(room, wall):
    """The pressure around a source, `room` metres more on each side."""
    lower, upper, num = -float(room), NUM - 1.0 + room, NUM + 2 * room
    sides = {name: fd.Axis(lower, upper, num=num, units="m") for name in "xy"}
    grid = fd.Grid(t=fd.Time(0.0, STOP, step=0.5), **sides)
    p = fd.Field("p", grid)
    vx, vy = fd.Field("vx", grid, at=dict(x="face")), fd.Field("vy", grid, at=dict(y="face"))
    p[...] = fd.rate(lambda vx, vy: -derivative(vx, "x", order=4) - derivative(vy, "y", order=4))
    vx[...] = fd.rate(lambda p: -derivative(p, "x", order=4))
    vy[...] = fd.rate(lambda p: -derivative(p, "y", order=4))
    p[fd.point(x=CENTRE[0], y=CENTRE[1])] += fd.rate(lambda t: pulse(t))
    p[0] = vx[0] = vy[0] = 0.0
    sound = fd.together(p, vx, vy)
    sound[dict(x=[0, -1])] = sound[dict(y=[0, -1])] = wall
    field = fd.solve((p, vx, vy), save=fd.every(2)).to_xarray().p
    return field.sel(x=slice(0, NUM - 1), y=slice(0, NUM - 1))


absorbed = propagate(0, fd.boundary.PML(20))
free = propagate(ROOM, fd.boundary.Dirichlet(0.0))
walled = propagate(0, fd.boundary.Dirichlet(0.0))
traces = [one.sel(x=RECEIVER[0], y=RECEIVER[1]) for one in (free, absorbed, walled)]
error = np.abs(traces[1] - traces[0])
reflection = 20 * np.log10(float(error.max() / np.abs(traces[0]).max()))
assert reflection < -60, reflection

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.3), layout="constrained", width_ratios=(1, 1.3))
state = absorbed.sel(t=50.0)
limit = float(np.abs(state).max())
image = left.pcolormesh(state.x, state.y, state.T, cmap="RdBu_r", vmin=-limit, vmax=limit, shading="gouraud")
left.add_patch(plt.Rectangle((20, 20), 40, 40, fill=False, ls="--", lw=1))
left.plot(*RECEIVER, "kv")
left.set(title="50 s; absorbing outside the dashes", xlabel="x (m)", ylabel="y (m)", aspect="equal")
fig.colorbar(image, ax=left, label="pressure", shrink=0.85)
right.plot(traces[2].t, traces[2], color="#009E73", lw=1.5, label="walls")
right.plot(traces[0].t, traces[0], color="k", lw=3, label="no walls in reach")
right.plot(traces[1].t, traces[1], color="#E69F00", lw=1.2, label=f"layers of 20 cells, −{-reflection:.0f} dB")
right.set(title="at the receiver", xlabel="time (s)", ylabel="pressure")
right.legend(frameon=False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/pml_acoustic.png", dpi=150)
print(f"absorbing layers of 20 cells: reflection {reflection:.1f} dB; picture in out/pml_acoustic.png")
