"""A lid drives the flow in a cavity at Reynolds number 100, on a staggered grid, free of divergence to rounding.

u_t + ∇·(u u) = −∇p + ν∇²u, ∇·u = 0 on the unit square, u = 1 on the lid: velocities on the faces of cells, pressure
at their centres (Harlow and Welch, Phys. Fluids 8, 2182, 1965). Steps are projected (Chorin, Math. Comp. 22, 1968):
a velocity from all forces but the pressure, ∇²p from its divergence, and the velocity less Δt ∇p. The steady u on x = ½
is compared with converged values at points of Ghia, Ghia and Shin (J. Comput. Phys. 48, 387, 1982).
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
from scipy.interpolate import CubicSpline

import fdsolve as fd
from fdsolve.schemes import average, derivative, divergence, laplacian

jax.config.update("jax_enable_x64", True)

# Converged: by Richardson's extrapolation from 129² and 257² cells.
heights = np.array([0.0547, 0.1016, 0.1719, 0.2813, 0.4531, 0.5, 0.6172, 0.7344, 0.8516, 0.9531, 0.9766])
converged = [-0.03723, -0.06443, -0.10174, -0.15767, -0.21397, -0.20914, -0.1388, 0.00418, 0.23654, 0.69101, 0.84372]
reynolds, end = 100.0, 15.0


def forced(q, u, v, nu, dt, dx, dy):
    """The new q, which is u or v, without the pressure: central fluxes through the faces around it."""

    def flux(w, place):
        return average(q)["t-1", place] * average(w)["t-1", place]

    lost = (flux(u, "x+1/2") - flux(u, "x-1/2")) / dx + (flux(v, "y+1/2") - flux(v, "y-1/2")) / dy
    return q["t-1"] + dt * (nu * laplacian(q, at="t-1")[...] - lost)


def steady(cells, dt):
    """The flow at the end of the march and one unit of time before."""
    x, y = (fd.Axis(0.0, 1.0, num=cells, cells=True) for _ in "xy")
    grid = fd.Grid(t=fd.Time(0.0, end, num=round(end / dt) + 1), x=x, y=y)
    u, u_free = (fd.Field(name, grid, at=dict(x="face")) for name in ("u", "u_free"))
    v, v_free = (fd.Field(name, grid, at=dict(y="face")) for name in ("v", "v_free"))
    p = fd.Field("p", grid)

    u_free[...] = lambda u, v, nu, dt, dx, dy: forced(u, u, v, nu, dt, dx, dy)
    v_free[...] = lambda u, v, nu, dt, dx, dy: forced(v, u, v, nu, dt, dx, dy)
    p[...] = fd.residual(lambda p, u_free, v_free, dt: laplacian(p) - divergence((u_free, v_free)) / dt)
    u[...] = lambda u_free, p, dt: u_free[...] - dt * derivative(p, "x")[...]
    v[...] = lambda v_free, p, dt: v_free[...] - dt * derivative(p, "y")[...]

    p[dict(x=[0, -1])] = p[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    u[dict(y=0)] = v[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.0)
    u[dict(y=-1)] = fd.boundary.Dirichlet(1.0)  # the lid
    u[dict(x=[0, -1])] = u_free[dict(x=[0, -1])] = v[dict(y=[0, -1])] = v_free[dict(y=[0, -1])] = 0.0
    u[0] = u_free[0] = v[0] = v_free[0] = p[0] = 0.0
    return fd.solve([u, v, u_free, v_free, p], nu=1 / reynolds, save=fd.at([end - 1, end])).to_xarray()


errors = []
for cells, dt in ((32, 0.0125), (64, 0.005)):
    levels = steady(cells, dt)
    before, now = levels.isel(t=0), levels.isel(t=1)
    assert abs(now.u - before.u).max() < 1e-4  # steady
    assert abs(np.diff(now.u, axis=0) + np.diff(now.v, axis=1)).max() * cells < 1e-12  # free of divergence
    profile = CubicSpline([0.0, *now.y.values, 1.0], [0.0, *now.u[cells // 2].values, 1.0])
    errors.append(float(abs(profile(heights) - converged).max()))
order = float(np.log2(errors[0] / errors[1]))
assert errors[1] < 0.002 and order > 1.9, (errors, order)

u, v = (now.u.values[1:] + now.u.values[:-1]) / 2, (now.v.values[:, 1:] + now.v.values[:, :-1]) / 2  # at centres
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
lines = left.streamplot(now.x.values, now.y.values, u.T, v.T, color=np.hypot(u, v).T, density=1.6, linewidth=0.9)
left.set(xlabel="x", ylabel="y", xlim=(0, 1), ylim=(0, 1), aspect="equal", title=f"Re {reynolds:.0f}, {cells}² cells")
fig.colorbar(lines.lines, ax=left, label="speed", shrink=0.9)
right.plot(profile(np.linspace(0, 1, 200)), np.linspace(0, 1, 200), "-", converged, heights, "ko", ms=4)
right.set(xlabel="u on x = ½ (dots: converged)", ylabel="y")
Path("out").mkdir(exist_ok=True)
fig.savefig("out/lid_driven_cavity.png", dpi=150)
print(f"cavity: {errors[1]:.5f} from the converged profile, order {order:.2f}; picture in out/lid_driven_cavity.png")
