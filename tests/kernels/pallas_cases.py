"""Marches that the GPU kernel is tried on: all kinds of pieces, walls, fields and ranks, small."""

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.kernels import Arrays, MarchCall


def prepare(fields, steps, dtype, **parameters):
    """The call of the last segment of a march, its arrays, random levels to start from, and the first level's number.

    What the levels hold is random also where walls say otherwise: a kernel may rely on nothing.
    """
    made = fd.plan(fields, save=fd.final(), **parameters)
    structure, last = made.structure, made.structure.segments[-1]
    assert {one.dtype for one in structure.arrays} == {np.dtype(dtype).str}
    random = np.random.default_rng(7)
    levels = {
        one.name: tuple(
            jnp.asarray(random.uniform(0.5, 1.5, one.padded_shape), one.dtype) for _ in range(max(one.kept, 1))
        )
        for one in structure.carried
    }
    axes = made.problem.scope.grid.space
    call = MarchCall(structure, structure.phases[last.phases[-1]], axes, steps, "gpu")
    return call, Arrays(**made.operands), levels, last.start + 2


def heat(dtype):
    """Walls of each kind, a periodic axis, and a coefficient that varies in space."""
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=21), x=fd.Axis(0.0, 1.0, num=13), y=fd.Axis(0.0, 2.0, num=9, periodic=True))
    u = fd.Field("u", grid, dtype=dtype)

    def diffuse(u, k, dt, dx, dy):
        across = (k["x+1"] + k[...]) * (u["t-1", "x+1"] - u["t-1"]) - (k["x-1"] + k[...]) * (u["t-1"] - u["t-1", "x-1"])
        along = u["t-1", "y+1"] - 2 * u["t-1"] + u["t-1", "y-1"]
        return u["t-1"] + dt * (across / (2 * dx**2) + k[...] * along / dy**2)

    u[...] = diffuse
    u[0] = 1.0
    u[dict(x=0)] = fd.boundary.Dirichlet(lambda t: jnp.sin(t))
    u[dict(x=-1)] = fd.boundary.Neumann(0.7)
    x, y = np.linspace(0, 1, 13), np.linspace(0, 2, 9)
    return u, dict(k=jnp.asarray(0.02 * (1 + x[:, None] * y), dtype))


def wave(dtype):
    """Two older levels, a nonlinear term, a source between the points, and an array along time."""
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=41), x=fd.Axis(0.0, 1.0, num=45))
    u = fd.Field("u", grid, dtype=dtype)

    def ring(u, c, dt, dx):
        pull = u["t-1", "x+1"] - 2 * u["t-1"] + u["t-1", "x-1"]
        return 2 * u["t-1"] - u["t-2"] + (c * dt / dx) ** 2 * pull - dt**2 * jnp.sin(u["t-1"])

    u[...] = ring
    u[0] = u[1] = 1.0
    u[dict(x=0)] = fd.boundary.Neumann(0.0)
    u[dict(x=-1)] = fd.boundary.Robin(1.0, 0.5, 0.2)
    u[fd.point(x=0.31)] += lambda s, dt: s[...] * dt
    return u, dict(c=dtype(0.6), s=fd.along(jnp.asarray(np.cos(np.arange(41.0)), dtype), "t"))


def staggered(dtype):
    """Pressure and velocity half a step apart: at each level one is read by the other."""
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=41), x=fd.Axis(0.0, 1.0, num=21, cells=True))
    p, v = fd.Field("p", grid, dtype=dtype), fd.Field("v", grid, at=dict(x="face"), dtype=dtype)
    v[:, 1:-1] = lambda v, p, dt, dx: v["t-1"] - dt / dx * (p["t-1", "x+1/2"] - p["t-1", "x-1/2"])
    v[:, 0] = v[:, -1] = 0.0
    p[...] = lambda v, p, dt, dx: p["t-1"] - dt / dx * (v["x+1/2"] - v["x-1/2"])
    p[0] = v[0] = 1.0
    return (p, v), {}


def holed(dtype):
    """A hole, a region that opens in time, and two fields that react."""
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=41), x=fd.Axis(0.0, 1.0, num=12), y=fd.Axis(0.0, 1.0, num=14))
    u, w = fd.Field("u", grid, dtype=dtype), fd.Field("w", grid, dtype=dtype)

    def spread(u, w, k):
        around = u["t-1", "x+1"] + u["t-1", "x-1"] + u["t-1", "y+1"] + u["t-1", "y-1"] - 4 * u["t-1"]
        return u["t-1"] + k * around - 0.1 * u["t-1"] * w["t-1"] ** 2

    u[...] = spread
    u[fd.where(lambda x, y: (x - 0.4) ** 2 + (y - 0.6) ** 2 < 0.03)] = fd.boundary.Neumann(0.0)
    u[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.3)
    u[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
    u[fd.where(lambda x, t: x > 0.5 + t)] += 0.01
    w[...] = lambda u, w: w["t-1"] + 0.05 * (u[...] - jnp.exp(-w["t-1"]))
    u[0] = w[0] = 1.0
    return (u, w), dict(k=dtype(0.1))


def solid(dtype):
    """Three axes."""
    axes = dict(x=fd.Axis(0.0, 1.0, num=6), y=fd.Axis(0.0, 1.0, num=7, periodic=True), z=fd.Axis(0.0, 1.0, num=9))
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=41), **axes)
    u = fd.Field("u", grid, dtype=dtype)

    def spread(u, k):
        around = sum((u["t-1", f"{a}+1"] + u["t-1", f"{a}-1"] for a in "xyz"), -6 * u["t-1"])
        return u["t-1"] + k * around

    u[...] = spread
    u[0] = 1.0
    u[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.3)
    u[dict(z=[0, -1])] = fd.boundary.Neumann(0.1)
    return u, dict(k=dtype(0.1))


def acoustic(dtype):
    """A wide stencil: so many loads that all tiles at edges share one branch."""
    grid = fd.Grid(t=fd.Time(0.0, 0.5, num=41), x=fd.Axis(0.0, 1.0, num=40), y=fd.Axis(0.0, 1.0, num=48))
    u = fd.Field("u", grid, dtype=dtype)

    def ring(u, c):
        total = -5.0 * u["t-1"]
        for m, weight in ((1, 1.6), (2, -0.2), (3, 0.025), (4, -0.002)):
            for axis in "xy":
                total = total + weight * (u["t-1", f"{axis}+{m}"] + u["t-1", f"{axis}-{m}"])
        return 2 * u["t-1"] - u["t-2"] + c * total

    u[...] = 0.0
    u[:, 4:-4, 4:-4] = ring
    u[0] = u[1] = 1.0
    return u, dict(c=dtype(0.1))


def lower_for_gpu(function, *operands):
    """The program of a function for an NVIDIA GPU, which need not be there."""
    leaves, tree = jax.tree.flatten(operands)  # what JAX notes of arguments would not pass as arrays in dataclasses

    def lower():
        traced = jax.jit(lambda *given: function(*tree.unflatten(given))).trace(*leaves)
        return traced.lower(lowering_platforms=("cuda",)).as_text()

    try:
        return lower()
    except RuntimeError:  # newer versions of JAX want to know which one
        device = jax.sharding.AbstractDevice("NVIDIA H200", 1, "gpu")  # type: ignore[call-arg]
        mesh = jax.sharding.AbstractMesh((1,), ("device",), abstract_device=device)
        with jax.sharding.use_abstract_mesh(mesh):
            return lower()
