"""Helmholtz' equation with a matched layer: a point source in open space, against Hankel's function.

∇²u + k²u = −δ, outgoing: u = (i/4) H₀⁽¹⁾(kr) with waves e^{−iωt}. In a layer along the edges x is stretched into the
complex plane, ∂/∂x → (1/s) ∂/∂x with s = 1 + iσ/k, and σ growing as the cube of the depth: waves enter it without
reflection and die out: Chew and Weedon, Microw. Opt. Technol. Lett. 7, 599, 1994. Plain iterations fail on this system,
indefinite and complex; elimination does not.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import hankel1

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

wavenumber, depth, reflection = 30.0, 0.1875, 1e-6
strength = 4 * np.log(1 / reflection) / (2 * depth)  # ∫ 2σ over the layer leaves this reflection


def stretching(z):
    """s at a place between 0 and 1."""
    inside = jnp.maximum(jnp.maximum(depth - z, z - 1 + depth), 0.0) / depth
    return 1 + 1j * strength * inside**3 / wavenumber


def helmholtz(u, x, y, source, dx, dy):
    def along(axis, z, h):
        upper = (u[f"{axis}+1"] - u[...]) / stretching(z + h / 2)
        lower = (u[...] - u[f"{axis}-1"]) / stretching(z - h / 2)
        return (upper - lower) / (h**2 * stretching(z))

    return along("x", x, dx) + along("y", y, dy) + wavenumber**2 * u[...] + source[...]


def radiate(num):
    """u, the exact solution, and where they are compared: out of the layers, and away from the source."""
    axis = fd.Axis(0.0, 1.0, num=num)
    u = fd.Field("u", fd.Grid(x=axis, y=fd.Axis(0.0, 1.0, num=num)), dtype=complex)
    u[...] = fd.residual(helmholtz)
    u[dict(x=[0, -1])] = u[dict(y=[0, -1])] = 0.0
    source = np.zeros((num, num), complex)
    source[num // 2, num // 2] = 1 / axis.step**2
    x, y = np.meshgrid(axis.points, axis.points, indexing="ij")
    distance = np.hypot(x - 0.5, y - 0.5)
    exact = 0.25j * hankel1(0, wavenumber * np.maximum(distance, axis.step / 2))
    compared = (distance > 0.1) & (np.maximum(abs(x - 0.5), abs(y - 0.5)) < 0.5 - depth)
    return np.asarray(fd.solve(u, source=source)["u"]), exact, compared


errors = []
for num in (65, 129):
    found, exact, compared = radiate(num)
    errors.append(float(np.linalg.norm((found - exact)[compared]) / np.linalg.norm(exact[compared])))
order = float(np.log2(errors[0] / errors[1]))
assert errors[1] < 0.015, errors
assert order > 1.9, order  # what is left is the dispersion of second differences, not the layer

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
shown = dict(cmap="RdBu_r", vmin=-0.1, vmax=0.1, extent=(0, 1, 0, 1), origin="lower")
image = left.imshow(found.real.T, **shown)
left.add_patch(plt.Rectangle((depth, depth), 1 - 2 * depth, 1 - 2 * depth, fill=False, ls="--"))
left.set(xlabel="x", ylabel="y", title="Re u, with the layers outside the dashed line")
fig.colorbar(image, ax=left)
along = np.linspace(0, 1, num)
right.plot(along, found[:, num // 2].real, label="found")
right.plot(along, exact[:, num // 2].real, "k--", lw=1, label="Hankel's function")
right.set(xlabel="x", ylabel="Re u on y = ½", ylim=(-0.15, 0.15))
right.legend(frameon=False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/helmholtz_pml.png", dpi=150)
print(f"Helmholtz: {errors[1]:.4f} from Hankel's function, order {order:.2f}; picture in out/helmholtz_pml.png")
