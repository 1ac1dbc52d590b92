"""What comes back from an absorbing layer of twenty cells at normal incidence, 10 to 40 points a wavelength."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.boundary import PML, Dirichlet
from fdsolve.schemes import StormerVerlet, laplacian
from tests.boundary.pml_waves import elastic, leapfrog, maxwell, pressure, reflection, two_rates

SYSTEMS = {
    "acoustic, plain leapfrog, order 2": (leapfrog(2), -100),
    "acoustic, plain leapfrog, order 4": (leapfrog(4), -100),
    "acoustic, plain leapfrog, order 6": (leapfrog(6), -100),
    "acoustic, plain leapfrog, order 8": (leapfrog(8), -100),
    "pressure and velocity, plain, order 2": (pressure(2), -100),
    "pressure and velocity, plain, order 8": (pressure(8), -100),
    "pressure and velocity, RK4, order 4": (pressure(4, rates=True), -100),
    "pressure and velocity, Störmer–Verlet": (pressure(2, rates=True, stepper=StormerVerlet()), -60),
    "two rates, RK4, order 6": (two_rates(6), -100),
    "two rates, Störmer–Verlet, order 4": (two_rates(4, StormerVerlet()), -100),
    "elastic, P waves, order 4": (elastic(4, shear=False), -100),
    "elastic, S waves, order 2": (elastic(2, shear=True), -100),
    "Maxwell, TM, order 2": (maxwell(2, electric=False), -100),
    "Maxwell, TE, order 4": (maxwell(4, electric=True), -100),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_little_comes_back(name):
    make, bound = SYSTEMS[name]
    found = reflection(make)
    print(f"{name}: reflection {np.round(found, 1)} dB at 10, 14, 20, 30, 40 points a wavelength")
    assert (found < bound).all()


@pytest.mark.parametrize("pml", [PML(20, kappa=2.0), PML(20, alpha=0.02), PML(20, order=2), PML(20, order=4)], ids=str)
def test_other_profiles(pml):
    found = reflection(leapfrog(4), pml)
    print(f"{pml.options}: {np.round(found, 1)} dB")
    assert (found < -60).all()


def test_the_reflection_asked_for_is_what_comes_back():
    found = reflection(leapfrog(2), PML(20, reflection=1e-3))
    assert np.allclose(found, -60, atol=5)


@pytest.mark.parametrize("points", [10, 20, 40])
@pytest.mark.parametrize("order", [2, 8])
def test_schroedinger(points, order):
    k, step = 2 * np.pi / points, 0.2

    def packet(num, wall):
        stop = round(70 / k / step / 10) * 10 * step
        grid = fd.Grid(t=fd.Time(0, stop, step=step), x=fd.Axis(0.0, num - 1.0, num=num))
        u, middle = fd.Field("u", grid, dtype=complex), float(num // 2)
        u[...] = fd.rate(lambda u: 0.5j * laplacian(u, order=order))
        u[0] = lambda x: (
            jnp.exp(-(((x - middle) / 12) ** 2)).astype(complex)
            * jax.lax.complex(jnp.cos(k * (x - middle)), jnp.sin(k * (x - middle)))
        )
        u[dict(x=[0, -1])] = wall
        return np.array(fd.solve(u, save=fd.every(10))["u"])

    num, room = 121, 320
    here, free = packet(num, PML(20, wavenumber=k)), packet(num + room, Dirichlet(0.0))
    inside = free[:, room // 2 + 20 : -room // 2 - 20]
    assert np.abs(inside[-1]).max() < 0.5 * np.abs(inside[0]).max()  # it has gone out
    found = 20 * np.log10(np.abs(here[:, 20:-20] - inside).max())
    print(f"Schrödinger, order {order}, {points} points a wavelength: {found:.1f} dB")
    assert found < -60
