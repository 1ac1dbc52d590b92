"""Declarations with quantities, and the same with plain numbers."""

import jax.numpy as jnp
import numpy as np
import saiunit as u

import fdsolve as fd
from fdsolve.boundary import PML, Dirichlet, Neumann, Robin

M, S, K = u.meter, u.second, u.kelvin
PLAIN, UNITS = False, True


def taken(quantities, value):
    """A quantity, or its number alone."""
    return value if quantities else value.mantissa


def grid(quantities, axes=("x",), **options):
    """Unit-sized axes of 12 points and 5 levels."""
    if not quantities:
        space = {name: fd.Axis(0.0, 1.0, num=12, **options) for name in axes}
        return fd.Grid(t=fd.Time(0.0, 0.1, num=5), **space)
    space = {name: fd.Axis(0.0 * M, 1.0 * M, num=12, **options) for name in axes}
    return fd.Grid(t=fd.Time(0.0 * S, 0.1 * S, num=5), **space)


def diffuse(T, kappa):
    """The rate of the heat equation."""
    return kappa * fd.schemes.laplacian(T)


def bump(x, T0, L):
    """An initial state."""
    return T0 * jnp.exp(-((x / L) ** 2))


def heat(quantities):
    """Heat: initial values from a function, three kinds of condition, a source, an assigned array."""
    T = fd.Field("T", grid(quantities, ("x", "y")), units=K if quantities else "K")
    T[...] = fd.rate(diffuse)
    T[0] = bump
    T[dict(x=0)] = Dirichlet(taken(quantities, 3.0 * K))
    terms = (1.0 * u.watt / M**2 / K, 2.0 * u.watt / M / K, 5.0 * u.watt / M**2)
    T[dict(x=-1)] = Robin(*(taken(quantities, one) for one in terms))
    T[dict(y=0)] = Neumann(taken(quantities, u.Quantity(np.linspace(0.0, 1.0, 12), unit=K / M)))
    T[dict(y=-1)] = Neumann(lambda t, tau, slope: slope * jnp.exp(-t / tau))
    T[dict(x=6, y=6)] += fd.rate(taken(quantities, 3.0 * K / S))
    values = {"kappa": 0.01 * M**2 / S, "T0": 2.0 * K, "L": 0.3 * M, "tau": 2.0 * S, "slope": 1.0 * K / M}
    return T, {name: taken(quantities, value) for name, value in values.items()}


def wave(quantities):
    """Waves, by levels."""
    w = fd.Field("w", grid(quantities), units=M if quantities else "m")
    w[...] = lambda w, c, dt: 2 * w["t-1"] - w["t-2"] + (c * dt) ** 2 * fd.schemes.laplacian(w, at="t-1")
    w[0:2] = lambda x, L, A: A * jnp.sin(jnp.pi * x / L)
    w[dict(x=[0, -1])] = Dirichlet(0.0)
    values = {"c": 2.0 * M / S, "L": 1.0 * M, "A": 0.5 * M}
    return w, {name: taken(quantities, value) for name, value in values.items()}


def convection(quantities):
    """Convection by a limited scheme, and diffusion."""
    T = fd.Field("T", grid(quantities, periodic=True), units=K if quantities else "K")
    T[...] = fd.rate(lambda T, k, c: k * fd.schemes.laplacian(T) - fd.schemes.convection(c, T))
    T[0] = bump
    values = {"k": 1e-3 * M**2 / S, "c": 1.0 * M / S, "T0": 2.0 * K, "L": 0.3 * M}
    return T, {name: taken(quantities, value) for name, value in values.items()}


def darcy(quantities):
    """Flow through a porous medium: an equation."""
    ends = (0.0 * M, 1.0 * M) if quantities else (0.0, 1.0)
    p = fd.Field(
        "p",
        fd.Grid(**{name: fd.Axis(*ends, num=8, cells=True) for name in ("x", "y")}),
        units=u.pascal if quantities else "Pa",
    )
    p[...] = fd.residual(lambda p, k, source: fd.schemes.divergence(k, p) + source)
    for axis in ("x", "y"):
        p[{axis: [0, -1]}] = Dirichlet(taken(quantities, 1.0 * u.pascal))
    mobility = u.Quantity(np.linspace(1.0, 2.0, 64).reshape(8, 8), unit=M**2 / (u.pascal * S))
    return p, {"k": taken(quantities, mobility), "source": taken(quantities, 2.0 / S)}


def acoustics(quantities):
    """Pressure and velocity on a staggered grid."""
    axes = grid(quantities, cells=True)
    p = fd.Field("p", axes, units=u.pascal if quantities else "Pa")
    v = fd.Field("v", axes, at=dict(x="face"), units=M / S if quantities else "m/s")
    p[...] = fd.rate(lambda v, bulk: -bulk * fd.schemes.derivative(v, "x"))
    v[...] = fd.rate(lambda p, rho: -fd.schemes.derivative(p, "x") / rho)
    p[0] = lambda x, P, L: P * jnp.exp(-((x / L) ** 2))
    v[0] = 0.0
    v[dict(x=[0, -1])] = Dirichlet(0.0)
    values = {"bulk": 2.0 * u.pascal, "rho": 1.5 * u.kgram / M**3, "P": 1.0 * u.pascal, "L": 0.2 * M}
    return (p, v), {name: taken(quantities, value) for name, value in values.items()}


def layers(quantities):
    """Waves by levels in absorbing layers: memory variables of both derivatives."""
    w = fd.Field("w", grid(quantities), units=M if quantities else "m")
    w[...] = lambda w, c, dt: 2 * w["t-1"] - w["t-2"] + (c * dt) ** 2 * fd.schemes.laplacian(w, at="t-1")
    w[0:2] = lambda x, L, A: A * jnp.exp(-((x / L) ** 2))
    w[dict(x=[0, -1])] = PML(3, alpha=0.5, speed=2.0)
    values = {"c": 2.0 * M / S, "L": 0.2 * M, "A": 0.5 * M}
    return w, {name: taken(quantities, value) for name, value in values.items()}


def rates_in_layers(quantities):
    """Pressure and velocity as rates in an absorbing layer, whose memory is among the rates or follows its stages."""
    (p, v), values = acoustics(quantities)
    fd.together(p, v)[dict(x=[0, -1])] = PML(3, kappa=2.0, speed=1.2)
    return (p, v), values


ALL = {
    "heat": heat,
    "wave": wave,
    "convection": convection,
    "darcy": darcy,
    "acoustics": acoustics,
    "layers": layers,
    "rates in layers": rates_in_layers,
}
