"""Streams that go on from a file: bit for bit as one that was not broken off, and only where they are of one kind."""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import saiunit
import xarray as xr

import fdsolve as fd

METHODS = {
    "forward": dict(),
    "snap, windows of 3": dict(method="snap", n=2, window=3),
    "d_rtrl": dict(method="d_rtrl"),
    "pp_prop": dict(method="pp_prop"),
    "uoro": dict(method="uoro", samples=2),
    "one for each": dict(method=dict(k="forward", s="forward_gradient")),
}


def rod(num: int = 9, steps: int = 40, name: str = "u") -> fd.Field:
    u = fd.Field(name, fd.Grid(t=fd.Time(0.0, 0.01 * steps, num=steps + 1), x=fd.Axis(0.0, 8.0, num=num)))

    def rule(u: Any, k: Any, s: Any, heating: Any, dt: Any) -> Any:
        return u["t-1"] + dt * (k[...] * fd.schemes.laplacian(u, at="t-1") + heating * jnp.tanh(s * u["t-1"]))

    u[...] = rule if name == "u" else lambda v, k, s, heating, dt: rule(v, k, s, heating, dt)
    u[0] = lambda x: jnp.sin(x)
    u[dict(x=[0, -1])] = 0.0
    return u


def stream(num: int = 9, steps: int = 40, name: str = "u", **options: Any) -> Any:
    params = dict(s=0.7, k=jnp.linspace(0.2, 0.4, num))
    misfit = lambda state, data: jnp.sum((state[name] - data["seen"]) ** 2)  # noqa: E731
    return fd.online(rod(num, steps, name), params, loss=misfit, inputs=dict(heating=0.1), **options)


def data(n: int, num: int = 9) -> dict[str, Any]:
    return dict(heating=0.1 * n, seen=np.cos(n + np.arange(num)))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::fdsolve.FdsolveWarning")
def test_a_stream_goes_on_bit_for_bit(name: str, tmp_path: Any) -> None:
    whole, first = stream(**METHODS[name]), stream(**METHODS[name])
    for n in range(4):
        whole.step(data(n))
        first.step(data(n))
    assert first.save(tmp_path / "new" / "kept") == tmp_path / "new" / "kept"
    again = stream(steps=90, **METHODS[name])  # a longer time axis
    again.restore(tmp_path / "new" / "kept")
    assert again.level == 4 and again.bytes == whole.bytes
    for n in range(4, 9):
        if n == 6:
            whole.update(s=0.5)
            again.update(s=0.5)
        for own, other in zip(jax.tree.leaves(again.step(data(n))), jax.tree.leaves(whole.step(data(n))), strict=True):
            np.testing.assert_array_equal(own, other)
    assert again.loss == whole.loss
    for key, value in whole.gradient.items():
        np.testing.assert_array_equal(again.gradient[key], value)
        np.testing.assert_array_equal(again.parameters[key], whole.parameters[key])
    np.testing.assert_array_equal(again.state["u"], whole.state["u"])
    assert first.level == 4, "what was saved is left alone"
    last = stream(steps=90, **METHODS[name])
    last.restore(again.save(tmp_path / "kept"))  # a second break
    np.testing.assert_array_equal(last.step(data(9)).state["u"], again.step(data(9)).state["u"])


def test_a_stream_without_steps_keeps_its_parameters(tmp_path: Any) -> None:
    one, other = stream(), stream()
    one.update(s=0.3)
    one.save(tmp_path / "kept")
    other.restore(tmp_path / "kept")
    assert other.level == 0 and other.parameters["s"] == 0.3
    for n in range(2):
        np.testing.assert_array_equal(other.step(data(n)).gradient["k"], one.step(data(n)).gradient["k"])


def test_forms_places_and_units_of_data_are_those_of_before(tmp_path: Any) -> None:
    K, M, S = saiunit.kelvin, saiunit.meter, saiunit.second

    def made(num: int = 11, unit: Any = M**2 / S) -> Any:
        T = fd.Field("T", fd.Grid(t=fd.Time(0 * S, 1 * S, num=11), x=fd.Axis(0 * M, 10 * M, num=num)), units=K)
        T[...] = fd.rate(lambda T, kappa: kappa * fd.schemes.laplacian(T))
        T[0] = 2 * K
        T[dict(x=[0, -1])] = fd.boundary.Dirichlet(0 * K)
        misfit = lambda state, data: ((state["T"][2:5] - data * K) ** 2).sum()  # noqa: E731
        return fd.online(T, dict(kappa=0.3 * (M**2 / S) if unit == M**2 / S else 3000 * unit), loss=misfit)

    seen = xr.DataArray(np.ones(3), dict(x=[2.0, 3.0, 4.0]), ("x",))
    one, other = made(), made()
    one.step(seen)
    one.save(tmp_path / "kept")
    other.restore(tmp_path / "kept")
    assert other.loss == one.loss and other.gradient["kappa"] == one.gradient["kappa"]
    begun = copy.copy(one)  # what is restored into a copy leaves the unit of the loss to the others
    begun.restore(made().save(tmp_path / "new"))
    assert begun.level == 0 and other.loss == one.loss and one.loss.unit == K**2
    with pytest.raises(fd.DeclarationError, match="step"):
        other.step(seen.assign_coords(x=[3.0, 4.0, 5.0]))
    with pytest.raises(fd.DeclarationError, match="data have the form"):
        other.step(np.ones(2))
    assert other.step(seen[::-1]).loss == one.step(seen).loss
    with pytest.raises(fd.DeclarationError, match=r"is kappa float64\[\] m\^2/s, and here .* cm\^2/s"):
        made(unit=saiunit.cmeter**2 / S).restore(tmp_path / "kept")


@pytest.mark.filterwarnings("ignore:These gradients are not exact")
def test_files_of_others_are_refused(tmp_path: Any) -> None:
    one, place = stream(), tmp_path / "kept"
    one.step(data(0))
    one.save(place)
    for other, text in (
        (
            stream(num=8),
            r"its list of parameters is s float64\[\], k float64\[9\], and here it is s float64\[\], k float64\[8\]",
        ),
        (stream(window=2), "its window is 1, and here it is 2"),
        (stream(method=dict(k="forward", s="forward_gradient")), "its method is"),
    ):
        with pytest.raises(fd.DeclarationError, match=f"restore: .* is of another stream: {text}"):
            other.restore(place)
        assert other.level == 0
    for other, text in (
        (stream(method="pp_prop", alpha_x=0.5), "its method is"),
        (stream(steps=40, name="v"), "its list of fields is u float64\\[9\\], and here it is v float64\\[9\\]"),
    ):
        with pytest.raises(fd.DeclarationError, match=f"restore: .* is of another stream: {text}"):
            other.restore(place)
    u = rod()
    u[1:] = lambda u, k, s, heating, dt: u["t-1"] + dt * (k[...] * u["t-1"] + heating * jnp.tanh(s * u["t-1"]))
    misfit = lambda state, data: jnp.sum((state["u"] - data["seen"]) ** 2)  # noqa: E731
    params = dict(s=0.7, k=jnp.linspace(0.2, 0.4, 9))
    other = fd.online(u, params, loss=misfit, inputs=dict(heating=0.1))
    with pytest.raises(
        fd.DeclarationError, match=r"its list of rules is .*`rule` on u\[\.\.\.\].*, and here it is .*`lambda`"
    ):
        other.restore(place)
    with pytest.raises(fd.RunError, match="there is no file"):
        one.restore(tmp_path / "none")
    for content in (b"", b"text", place.read_bytes()[:200]):
        (tmp_path / "wrong").write_bytes(content)
        with pytest.raises(fd.RunError, match="cannot be read as a stream"):
            one.restore(tmp_path / "wrong")
    (tmp_path / "wrong").write_bytes(b"\x80\x04N.")  # a pickle of None
    with pytest.raises(fd.RunError, match=r"holds no stream.*stream.save\(path\) writes one"):
        one.restore(tmp_path / "wrong")
    assert one.level == 1

    @jax.jit
    def traced(seen: Any) -> Any:
        own = stream()
        own.step(dict(heating=0.1, seen=seen))
        own.save(place)
        return own.loss

    with pytest.raises(fd.RunError, match="save: the stream is traced"):
        traced(jnp.zeros(9))


def test_a_file_of_another_grid_is_refused(tmp_path: Any) -> None:
    def made(step: float = 0.01, length: float = 1.0, steps: int = 10, bent: float = 2.0) -> Any:
        y = fd.Axis.from_points([0.0, 1.0, bent, 4.0])
        t, x = fd.Time(0.0, step * steps, num=steps + 1), fd.Axis(0.0, length, num=5)
        u = fd.Field("u", fd.Grid(t=t, x=x, y=y))
        u[...] = fd.rate(lambda u, k: -k * u[...])
        u[0] = 1.0
        return fd.online(u, dict(k=0.1), loss=lambda state, data: jnp.sum(state["u"] ** 2), stepper=fd.schemes.Euler())

    one = made()
    one.step(0.0)
    place = one.save(tmp_path / "kept")
    made(steps=25).restore(place)  # longer
    for other in (made(step=0.1), made(length=2.0), made(bent=2.5)):
        with pytest.raises(fd.DeclarationError, match=r"its grid is x=Axis.* t from 0 by 0\.01, and here"):
            other.restore(place)


def test_a_file_beyond_the_end_of_the_time_axis_is_refused(tmp_path: Any) -> None:
    one, short = stream(), stream(steps=2)
    for n in range(3):
        one.step(data(n))
    with pytest.raises(
        fd.DeclarationError, match=r"is at level 3, and the time axis ends at level 2\. Declare it longer"
    ):
        short.restore(one.save(tmp_path / "kept"))
    assert short.level == 0


def test_places_that_are_no_files_are_told(tmp_path: Any) -> None:
    one, taken = stream(), tmp_path / "taken"
    taken.write_bytes(b"")
    for place, text in ((None, "a file, whose name is wanted"), ("", "is wanted"), (tmp_path, "is a folder")):
        for call in (one.save, one.restore):
            with pytest.raises(fd.DeclarationError, match=text):
                call(place)
    with pytest.raises(fd.RunError, match=r"save: .* cannot be written"):
        one.save(taken / "kept")
    with pytest.raises(fd.RunError, match=r"restore: .* cannot be read"):
        one.restore(taken / "kept")
    assert sorted(tmp_path.iterdir()) == [taken]
