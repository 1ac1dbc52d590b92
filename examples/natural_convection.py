"""Air in a square box between a hot and a cold wall at Rayleigh number 10⁴: how much heat it carries.

u_t + ∇·(u u) = −∇p + Pr ∇²u + Ra Pr T e_y, ∇·u = 0, T_t + ∇·(u T) = ∇²T on the unit square, Pr = 0.71; T = 1 at x = 0,
T = 0 at x = 1, no heat through the other walls, no slip at any. The mean Nusselt number of the steady state is 2.243
(de Vahl Davis, Int. J. Numer. Methods Fluids 3, 249, 1983). Velocities on the faces of cells, the rest at their
centres; steps by projection, as in lid_driven_cavity.py.
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd
from fdsolve.schemes import average, derivative, divergence, laplacian

jax.config.update("jax_enable_x64", True)

rayleigh, prandtl, end = 1e4, 0.71, 0.4


def carried(q, u, v, dx, dy):
    """∇·(u q) of the older level, by central fluxes through the faces around q."""

    def flux(w, place):
        return average(q)["t-1", place] * average(w)["t-1", place]

    return (flux(u, "x+1/2") - flux(u, "x-1/2")) / dx + (flux(v, "y+1/2") - flux(v, "y-1/2")) / dy


def flow(cells):
    """The steady state, by a march in steps that diffusion allows."""
    x, y = (fd.Axis(0.0, 1.0, num=cells, cells=True) for _ in "xy")
    grid = fd.Grid(t=fd.Time(0.0, end, num=round(end / (0.22 * x.step**2))), x=x, y=y)
    u, u_free = (fd.Field(name, grid, at=dict(x="face")) for name in ("u", "u_free"))
    v, v_free = (fd.Field(name, grid, at=dict(y="face")) for name in ("v", "v_free"))
    p, T = fd.Field("p", grid), fd.Field("T", grid)

    def pushed(q, u, v, dt, dx, dy):
        return q["t-1"] + dt * (prandtl * laplacian(q, at="t-1")[...] - carried(q, u, v, dx, dy))

    T[...] = lambda T, u, v, dt, dx, dy: T["t-1"] + dt * (laplacian(T, at="t-1")[...] - carried(T, u, v, dx, dy))
    u_free[...] = lambda u, v, dt, dx, dy: pushed(u, u, v, dt, dx, dy)
    v_free[...] = lambda u, v, T, dt, dx, dy: pushed(v, u, v, dt, dx, dy) + dt * rayleigh * prandtl * average(T)[...]
    p[...] = fd.residual(lambda p, u_free, v_free, dt: laplacian(p) - divergence((u_free, v_free)) / dt)
    u[...] = lambda u_free, p, dt: u_free[...] - dt * derivative(p, "x")[...]
    v[...] = lambda v_free, p, dt: v_free[...] - dt * derivative(p, "y")[...]

    T[dict(x=0)], T[dict(x=-1)] = fd.boundary.Dirichlet(1.0), fd.boundary.Dirichlet(0.0)
    T[dict(y=[0, -1])] = p[dict(x=[0, -1])] = p[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    u[dict(y=[0, -1])] = v[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.0)
    u[dict(x=[0, -1])] = u_free[dict(x=[0, -1])] = v[dict(y=[0, -1])] = v_free[dict(y=[0, -1])] = 0.0
    u[0] = u_free[0] = v[0] = v_free[0] = p[0] = 0.0
    T[0] = lambda x: 1 - x
    return fd.solve([T, u, v, u_free, v_free, p], save=fd.final()).to_xarray().isel(t=0)


numbers = []
for cells in (16, 32):
    state = flow(cells)
    t, u, v = (state[name].values for name in ("T", "u", "v"))
    # Heat through the hot wall and through each section, carried and conducted: the same through all.
    inside = (u[1:-1] * (t[1:] + t[:-1]) / 2 - np.diff(t, axis=0) * cells).mean(1)
    assert np.ptp([2 * cells * (1 - t[0]).mean(), *inside]) < 1e-3 * inside.mean(), inside
    assert abs(np.diff(u, axis=0) + np.diff(v, axis=1)).max() * cells < 1e-11  # free of divergence
    numbers.append(float(inside.mean()))
nusselt = (4 * numbers[1] - numbers[0]) / 3  # extrapolated: errors fall with the square of the spacing
assert abs(nusselt / 2.243 - 1) < 0.004, (nusselt, numbers)

u, v = (u[1:] + u[:-1]) / 2, (v[:, 1:] + v[:, :-1]) / 2  # at the centres
fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
image = ax.imshow(t.T, extent=(0, 1, 0, 1), origin="lower", cmap="inferno", vmin=0, vmax=1, interpolation="bicubic")
ax.streamplot(state.x.values, state.y.values, u.T, v.T, color="w", linewidth=0.6, arrowsize=0.8)
ax.set(xlabel="x", ylabel="y", xlim=(0, 1), ylim=(0, 1), title=f"Ra = 10⁴: Nu = {nusselt:.3f}")
fig.colorbar(image, label="temperature T")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/natural_convection.png", dpi=150)
print(f"natural convection: Nu = {numbers[1]:.4f}, extrapolated {nusselt:.4f} of 2.243; out/natural_convection.png")
