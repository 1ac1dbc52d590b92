"""Quantities through streams and inversions: the numbers of the plain run, with units around."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import saiunit as u
import xarray as xr

import fdsolve as fd

K, M, S = u.kelvin, u.meter, u.second
KAPPA = 0.3 * M**2 / S
REACHED = 4


def rod() -> fd.Field:
    grid = fd.Grid(t=fd.Time(0 * S, 1 * S, num=11), x=fd.Axis(0 * M, 10 * M, num=11))
    T = fd.Field("T", grid, units=K)
    T[...] = fd.rate(lambda T, kappa: kappa * fd.schemes.laplacian(T))
    T[0] = 2 * K
    T[dict(x=[0, -1])] = fd.boundary.Dirichlet(0 * K)
    return T


def warmth(state: Any, data: Any) -> Any:
    return (state["T"] ** 2).sum()


def summed(number: Any) -> Any:
    return (fd.solve(rod(), kappa=number * M**2 / S)["T"].mantissa[1 : REACHED + 1] ** 2).sum()


def test_a_stream_gives_fields_losses_and_gradients_in_units() -> None:
    stream = fd.online(rod(), dict(kappa=KAPPA), loss=warmth)
    assert stream.parameters["kappa"].unit == M**2 / S
    for _ in range(REACHED):
        found = stream.step()
    assert found.state["T"].unit == K and stream.state["T"].unit == K and found.loss.unit == K**2
    np.testing.assert_allclose(stream.loss.to(K**2).mantissa, summed(0.3), rtol=1e-12)
    for gradient in (found.gradient["kappa"], stream.gradient["kappa"]):
        assert gradient.unit.has_same_dim(K**2 * S / M**2)
        np.testing.assert_allclose(gradient.to(K**2 * S / M**2).mantissa, jax.grad(summed)(0.3), rtol=1e-10)
    stream.update(kappa=2000 * u.cmeter**2 / S)
    np.testing.assert_allclose(stream.parameters["kappa"].to(M**2 / S).mantissa, 0.2)
    with pytest.raises(fd.DeclarationError, match=r"update: the unit of `kappa` is m\^2/s at the start, and here none"):
        stream.update(kappa=0.2)


def test_labelled_data_of_a_stream_are_in_their_units() -> None:
    def apart(state: Any, data: Any) -> Any:
        return ((state["T"] - data) ** 2).sum()

    seen = xr.DataArray(np.linspace(0.0, 2.0, 11), dict(x=rod().grid.x.points), ("x",), attrs=dict(units="K"))
    losses = []
    for data in (seen, (1000 * seen).assign_attrs(units="mK"), seen.values * K):
        losses.append(fd.online(rod(), dict(kappa=KAPPA), loss=apart).step(data).loss.to(K**2).mantissa)
    np.testing.assert_allclose(losses, losses[2], rtol=1e-12)
    with pytest.raises(fd.DeclarationError, match="do not match: K != m"):
        fd.online(rod(), dict(kappa=KAPPA), loss=apart).step(seen.assign_attrs(units="m"))


def test_a_stream_takes_inputs_in_units() -> None:
    T = rod()
    T[dict(x=5)] += fd.rate(lambda heating: heating)
    stream = fd.online(T, dict(kappa=KAPPA), loss=warmth, inputs=dict(heating=0 * K / S))
    found = stream.step(dict(heating=1000 * u.mkelvin / S))
    plain = fd.solve(T, kappa=KAPPA, heating=1 * K / S, save=fd.at(0.1))["T"][0]
    np.testing.assert_allclose(found.state["T"].mantissa, plain.mantissa, rtol=1e-12)
    with pytest.raises(fd.DeclarationError, match="values of `heating`"):
        stream.step(dict(heating=1 * K))
    with pytest.raises(fd.DeclarationError, match=r"step: the unit of `heating` is K/s at the start, and here none"):
        stream.step(dict(heating=1.0))


@pytest.mark.parametrize("kappa", [0.3 * M / S, 0.3])
def test_a_stream_checks_units_before_it_runs(kappa: Any) -> None:
    with pytest.raises(fd.PlanningError, match=r"`kappa` .*; in m\^2/s it would fit"):
        fd.online(rod(), dict(kappa=kappa), loss=warmth)


def observed(kappa: float) -> xr.DataArray:
    solution = fd.solve(rod(), kappa=kappa * M**2 / S).to_xarray()["T"]
    return solution.isel(t=[3, 7], x=[2, 6])


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(bounds=dict(k=(0 * M**2 / S, 1e4 * u.cmeter**2 / S))),
        dict(bounds=dict(k=(0.0, None))),
        dict(transform=dict(k=fd.inverse.Exponential())),
        dict(method="l-bfgs"),
    ],
    ids=["free", "bounds in units", "one bound", "transform", "a loss"],
)
def test_an_inversion_finds_a_quantity(options: dict[str, Any]) -> None:
    data = observed(0.7)

    def misfit(p: Any) -> Any:
        return fd.misfit(fd.solve(rod(), kappa=p["k"]), data)

    found = fd.invert(misfit, dict(k=KAPPA), **options)
    assert found.converged
    np.testing.assert_allclose(found.parameters["k"].to(M**2 / S).mantissa, 0.7, rtol=1e-6)
    assert found.to_xarray()["k"].attrs["units"] == "m^2/s" and "k: 0.7 m^2/s" in repr(found)
    assert found.standard_deviation(noise=1.0)["k"].attrs["units"] == "m^2/s"
    assert found.covariance(noise=1.0).units.values.tolist() == ["m^2/s"]


def test_a_result_in_quantities_starts_another_search() -> None:
    data = observed(0.7)
    misfit = lambda p: fd.misfit(fd.solve(rod(), kappa=p["k"]), data)  # noqa: E731
    first = fd.invert(misfit, dict(k=3000 * u.cmeter**2 / S), max_iterations=1)
    again = fd.invert(misfit, first.to_xarray().copy(deep=True))
    assert again.converged and again.parameters["k"].unit == u.cmeter**2 / S
    np.testing.assert_allclose(again.parameters["k"].to(M**2 / S).mantissa, 0.7, rtol=1e-6)


def test_regularisation_and_bounds_go_by_the_name_of_a_quantity() -> None:
    misfit = lambda p: jnp.array([p["k"].mantissa - 1.0, 0.0])  # noqa: E731
    found = fd.invert(misfit, dict(k=KAPPA), regularise=fd.tikhonov(1.0, "k", order=0))
    np.testing.assert_allclose(found.parameters["k"].mantissa, 0.5, rtol=1e-8)
    with pytest.raises(fd.DeclarationError, match=r"bounds of `k` are in m\^2/s, got"):
        fd.invert(misfit, dict(k=KAPPA), bounds=dict(k=(0 * M, None)))
    with pytest.raises(fd.DeclarationError, match="bounds of `c` have a unit, 0 m, and its initial value has none"):
        fd.invert(lambda p: jnp.array([p["c"] - 1.0]), dict(c=0.3), bounds=dict(c=(0 * M, None)))


def test_units_without_a_name_serve_as_others_do() -> None:
    """A number times a quantity in km²/s is in 10⁶ m²/s for saiunit."""
    data, given = observed(0.7), 2 * (2e-7 * (u.kmeter**2 / S))
    assert str(given.unit).startswith("10.0^6"), given.unit
    misfit = lambda p: fd.misfit(fd.solve(rod(), kappa=p["k"]), data)  # noqa: E731
    found = fd.invert(misfit, dict(k=given), bounds=dict(k=(0 * M**2 / S, 2 * given)))
    np.testing.assert_allclose(found.parameters["k"].to(M**2 / S).mantissa, 0.7, rtol=1e-6)
    np.testing.assert_allclose(found.to_xarray()["k"], 0.7e-6, rtol=1e-6)
    stream = fd.online(rod(), dict(kappa=given), loss=warmth)
    stream.step()
    stream.update(kappa=0.3 * M**2 / S)
    np.testing.assert_allclose(stream.parameters["kappa"].to(M**2 / S).mantissa, 0.3, rtol=1e-12)


def test_a_gradient_by_quantities_is_checked_by_their_names() -> None:
    table = fd.check_gradient(lambda p: fd.solve(rod(), kappa=p["k"]).final["T"], dict(k=KAPPA), directions="each")
    assert table and [row.along for row in table.rows] == ["k"]
