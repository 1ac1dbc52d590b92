"""A diffusivity that changes while data arrive: followed by its gradient after every step, in constant memory.

∂u/∂t = D(t) ∂²u/∂x² in a rod that is heated to and fro at one end. Five thermometers read u with noise at every step;
the model beside it runs on its own guess of D and goes down the gradient of their misfit. The sensitivity ∂u/∂D is
carried forward with the state, so that nothing of the past is kept, however long the record is.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fdsolve as fd

jax.config.update("jax_enable_x64", True)

levels, cells, step = 6001, 32, 2.5e-4
time = step * np.arange(levels)
true = 1.0 + 0.35 * np.sin(2 * np.pi * time / time[-1])

u = fd.Field("u", fd.Grid(t=fd.Time(0.0, time[-1], num=levels), x=fd.Axis(0.0, 1.0, num=cells + 1)))
u[...] = fd.rate(lambda u, D: D[...] * fd.schemes.laplacian(u))
u[0] = 0.0
u[dict(x=0)] = fd.boundary.Dirichlet(lambda t: jnp.sin(40.0 * t))
u[dict(x=-1)] = fd.boundary.Neumann(0.0)
euler = fd.schemes.Euler()

places = np.array([3, 7, 12, 18, 25])
truth = np.asarray(fd.solve(u, stepper=euler, D=fd.along(true, "t"))["u"])[:, places]
data = truth + 0.01 * np.random.default_rng(0).standard_normal(truth.shape)


def misfit(state, observed):
    """Half the square of what the thermometers read beside the model."""
    return 0.5 * jnp.sum((state["u"][places] - observed) ** 2)


stream = fd.online(u, dict(D=0.6), loss=misfit, stepper=euler)  # exact: S' = ∂Φ/∂u S + ∂Φ/∂D
print(stream.report)
assert stream.report[0].exact

guess, found, size, sizes = 0.6, [0.6], 1e-8, set()
for n in range(1, levels):
    gradient = float(stream.step(data[n]).gradient["D"])
    if n % 20 == 0:  # a step down the gradient of the last 20 readings, measured by its usual size
        size = 0.98 * size + 0.02 * gradient**2
        guess = float(np.clip(guess - 0.012 * gradient / np.sqrt(size), 0.3, 1.8))
        stream.update(D=guess)
        stream.forget()
        sizes.add(stream.bytes)
    found.append(guess)

late = slice(levels // 4, None)
error = np.sqrt(np.mean((np.array(found)[late] / true[late] - 1) ** 2))
assert error < 0.08, error
assert np.std(true[late]) > 0.15  # what is followed does move
assert len(sizes) == 1, sizes

fig, (above, below) = plt.subplots(2, 1, figsize=(8, 6), sharex=True, layout="constrained")
for place, color, record in zip(places[::2], ("#21918c", "#b5367a", "#e08214"), data.T[::2], strict=True):
    above.plot(time, record, lw=0.6, color=color, label=f"x = {place / cells:.2f}")
above.set(ylabel="u", ylim=(-0.8, 1.05), title="three of the five thermometers that are followed")
above.legend(frameon=False, ncols=3, loc="upper right")
below.plot(time, true, color="0.75", lw=4, label="D(t)")
below.plot(time, found, color="#b5367a", lw=1, label="followed online, from 0.6")
below.set(
    xlabel="t", ylabel="D", title=f"diffusivity: {100 * error:.1f} % off, {sizes.pop()} bytes carried at every step"
)
below.legend(frameon=False)
Path("out").mkdir(exist_ok=True)
fig.savefig("out/streaming_diffusivity.png", dpi=150)
print(f"Diffusivity followed to {100 * error:.1f} % over {levels - 1} steps; out/streaming_diffusivity.png")
