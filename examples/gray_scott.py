"""Gray–Scott: two substances that react and diffuse grow a pattern out of a few specks.

u_t = D_u ∇²u − u v² + F (1 − u), v_t = D_v ∇²v + u v² − (F + k) v, periodic; the constants, the spacing and the forward
Euler step of J. E. Pearson, "Complex patterns in a simple system", Science 261, 189–192 (1993). Two checks: the first
hundred steps against a plain NumPy loop, and the balance that the sum of both equations obeys in the mean at any step,
Δ⟨u + v⟩/Δt = F (1 − ⟨u⟩) − (F + k) ⟨v⟩.
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

size, steps = 160, 5000
side = size * 2.5 / 256
constants = dict(D_u=2e-5, D_v=1e-5, F=0.037, k=0.06)
x_axis, y_axis = (fd.Axis(0.0, side, num=size, periodic=True) for _ in "xy")
grid = fd.Grid(t=fd.Time(0.0, float(steps), num=steps + 1), x=x_axis, y=y_axis)
u, v = fd.Field("u", grid), fd.Field("v", grid)


def reaction(u, v, D_u, D_v, F, k):
    here, there = u[...], v[...]
    turned = here * there**2
    rate_u = D_u * fd.schemes.laplacian(u)[...] - turned + F * (1 - here)
    rate_v = D_v * fd.schemes.laplacian(v)[...] + turned - (F + k) * there
    return rate_u, rate_v


random = np.random.default_rng(3)
specks = np.zeros((size, size), bool)
for i, j in random.integers(0, size - 8, (12, 2)):
    specks[i : i + 8, j : j + 8] = True
start_u = np.where(specks, 0.5, 1.0)
start_v = np.where(specks, 0.25, 0.0) * random.uniform(0.99, 1.01, specks.shape)

fd.together(u, v)[...] = fd.rate(reaction)
u[0], v[0] = start_u, start_v

shown = [500, 1500, steps]
solution = fd.solve([u, v], stepper=fd.schemes.Euler(), save=fd.at([100, *shown[:-1], steps - 1, steps]), **constants)


def numpy_steps(u, v, count, D_u, D_v, F, k):
    for _ in range(count):
        around = [sum(np.roll(q, s, a) for s in (1, -1) for a in (0, 1)) - 4 * q for q in (u, v)]
        turned = u * v**2
        u = u + D_u / x_axis.step**2 * around[0] - turned + F * (1 - u)
        v = v + D_v / x_axis.step**2 * around[1] + turned - (F + k) * v
    return u, v


for name, plain in zip("uv", numpy_steps(start_u, start_v, 100, **constants), strict=True):
    assert abs(np.asarray(solution[name][0]) - plain).max() < 1e-12, name

mean_u, mean_v = (np.asarray(solution[name]).mean((1, 2)) for name in "uv")
F, k = constants["F"], constants["k"]
change, balance = (mean_u + mean_v)[-1] - (mean_u + mean_v)[-2], F * (1 - mean_u[-2]) - (F + k) * mean_v[-2]
assert abs(change - balance) < 1e-14, (change, balance)

fig, axes = plt.subplots(1, 3, figsize=(12, 4.1), sharey=True, layout="constrained")
for ax, state in zip(axes, solution.to_xarray().v.sel(t=shown), strict=True):
    image = ax.pcolormesh(state.x, state.y, state.T, cmap="magma", vmin=0, vmax=0.4, shading="gouraud")
    ax.set(title=f"t = {float(state.t):.0f}", xlabel="x (1)", aspect="equal", xticks=(0, 0.5, 1, 1.5))
axes[0].set_ylabel("y (1)")
fig.colorbar(image, ax=axes, label="concentration v (1)", shrink=0.9)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/gray_scott.png", dpi=150)
print(f"Gray–Scott: mean v {mean_v[-1]:.6f} after {steps} steps, balance kept to {abs(change - balance):.0e}")
