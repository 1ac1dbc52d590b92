"""What streams take: labelled data by their coordinates, in any order; copies; what is told where it does not fit."""

import copy

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import fdsolve as fd

GRID = fd.Grid(t=fd.Time(0.0, 1.0, num=11, units="s"), x=fd.Axis(0.0, 10.0, num=11, cells=True, units="m"))
X = GRID.x.points
SEEN = xr.DataArray(X**2, dict(x=X), ("x",), name="seen")
DRIVE = xr.DataArray(np.cos(X), dict(x=X), ("x",), name="drive")


def driven(part=slice(None), params=None, **options):
    """A stream whose drive comes with the data."""
    T = fd.Field("T", GRID, units="K")
    T[...], T[0] = (lambda T, c, drive: c * T["t-1"] + drive[...]), lambda x: x
    loss = lambda state, data: jnp.sum((state["T"][part] - data["seen"]) ** 2)  # noqa: E731
    return fd.online(T, params or dict(c=0.9), loss=loss, **{"inputs": dict(drive=DRIVE), **options})


def moved(array, by=99.0):
    return array.assign_coords(x=array.x + by)


def test_entries_are_found_by_their_coordinates():
    stream = driven()
    wanted = [stream.step(dict(seen=n * SEEN.values, drive=DRIVE.values)) for n in (1, 2)]
    for example in (DRIVE, DRIVE[::-1], fd.along(DRIVE.values, "x")):
        stream = driven(inputs=dict(drive=example))
        for n, step in zip((1, 2), wanted, strict=True):
            found = stream.step(dict(seen=n * SEEN[::-1], drive=DRIVE[:: 3 - 2 * n]))
            np.testing.assert_allclose(found.loss, step.loss, rtol=1e-12)
            np.testing.assert_allclose(found.gradient["c"], step.gradient["c"], rtol=1e-12)
    found = driven().step(xr.Dataset(dict(seen=SEEN, drive=DRIVE)).isel(x=slice(None, None, -1)))
    np.testing.assert_allclose(found.loss, wanted[0].loss, rtol=1e-12)


def test_coordinates_are_in_the_units_of_their_axis():
    pytest.importorskip("saiunit")
    seen, drive = (one.assign_coords(x=("x", 100 * X, dict(units="cm")))[::-1] for one in (SEEN, DRIVE))
    found = driven(inputs=dict(drive=drive)).step(dict(seen=seen, drive=drive))
    np.testing.assert_allclose(found.loss, driven().step(dict(seen=SEEN, drive=DRIVE)).loss, rtol=1e-12)
    with pytest.raises(fd.DeclarationError, match='coordinate `x` is in "K"'):
        driven().step(dict(seen=SEEN.assign_coords(x=("x", X, dict(units="K"))), drive=DRIVE))


def test_other_places_are_refused():
    stream = driven()
    where = r"lies at other places along `x` than the grid: 99\.4545, .*, where 0\.454545, .* are wanted"
    for seen, drive, what in ((moved(SEEN), DRIVE, r"data\['seen'\]"), (SEEN, moved(DRIVE), "`drive`")):
        with pytest.raises(fd.DeclarationError, match=f"step: {what} {where}"):
            stream.step(dict(seen=seen, drive=drive))
    with pytest.raises(fd.DeclarationError, match=f"`drive` {where}"):
        driven(inputs=dict(drive=moved(DRIVE)))
    stream.step(dict(seen=moved(SEEN).drop_vars("x"), drive=DRIVE))  # by position
    with pytest.raises(fd.DeclarationError, match=r"`c` is in another order than the grid.*c\.sortby\(\['x'\]\)"):
        driven(params=dict(c=SEEN[::-1]))


def test_parts_of_axes_lie_where_they_did_at_the_first_step():
    one, other = driven(slice(2, 5)), driven(slice(2, 5))
    part, late = SEEN[2:5], SEEN[2:5].expand_dims(t=[0.1])[0]
    for stream, second in ((one, part), (other, late[::-1])):
        stream.step(dict(seen=part, drive=DRIVE))
        stream.step(dict(seen=2 * second, drive=DRIVE))
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)
    with pytest.raises(fd.DeclarationError, match="along `x` than the first step: 3"):
        one.step(dict(seen=SEEN[3:6], drive=DRIVE))


def test_a_copy_goes_on_by_itself():
    stream, data = driven(), dict(seen=SEEN, drive=DRIVE)
    stream.step(data)
    before = float(stream.loss)
    for twin in (copy.copy(stream), copy.deepcopy(stream)):
        twin.update(c=0.5)
        twin.step(data)
        assert (twin.level, stream.level) == (2, 1)
        assert float(twin.loss) != before == float(stream.loss)
        assert float(stream.parameters["c"]) == 0.9


WRONG = [
    (dict(params=dict(c=dict(a=1.0))), "the parameter `c` is a dict. Give its arrays one by one"),
    (dict(params=dict(c=object())), "the parameter `c` is no number or array, got <object"),
    (dict(params={1: 1.0}), "params= takes a dict of parameters by name"),
    (dict(inputs=dict(drive="a")), "the input `drive` is no number or array, got 'a'"),
    (dict(memory=-1), "memory= is a number of bytes, at least 1, got -1"),
    (dict(window=2.0), "window= is a number of steps, at least 1, got 2.0"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[case[1][:24] for case in WRONG])
def test_what_does_not_fit_is_told(options, message):
    with pytest.raises(fd.DeclarationError, match=message):
        driven(**options)


def test_data_that_are_no_numbers_are_told():
    for seen, message in (("x", "got 'x', which is no array"), (xr.Dataset(dict(a=SEEN)), r"dict\(dataset\)")):
        with pytest.raises(fd.DeclarationError, match=rf"step: data\['seen'\].*{message}"):
            driven().step(dict(seen=seen, drive=DRIVE))


COUNTS = [
    dict(window=np.int64(2)),
    dict(memory=np.int64(10**6)),
    dict(method="snap", n=np.int32(2), otherwise="forward"),
]


@pytest.mark.parametrize("options", COUNTS, ids=str)
def test_counts_may_be_those_of_numpy(options):
    assert float(driven(**options).step(dict(seen=SEEN, drive=DRIVE)).loss) > 0


def test_what_is_refused_leaves_no_trace():
    T = fd.Field("T", GRID)
    T[...], T[0] = (lambda T, c, d: c * T["t-1"] + d), lambda x: x
    loss = lambda state, data: jnp.sum((state["T"] - data.astype(float)) ** 2)  # noqa: E731
    stream = fd.online(T, dict(c=0.9, d=0.1), loss=loss, window=2)
    with pytest.raises(TypeError, match="shapes"):  # the loss itself
        stream.step(np.zeros(3))
    with pytest.raises(fd.RunError, match="nan"):
        stream.step(np.full(11, np.nan, np.float32))
    stream.step(np.zeros(11))
    with pytest.raises(fd.RunError, match="between windows"):
        stream.update(c=0.5)
    stream.step(np.zeros(11))
    with pytest.raises(fd.DeclarationError, match="shape"):
        stream.update(c=0.5, d=np.ones(2))
    assert stream.parameters == dict(c=0.9, d=0.1) and stream.level == 2


def test_data_in_units_of_another_kind_are_told():
    saiunit = pytest.importorskip("saiunit")
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=5, units="s"), x=fd.Axis(0.0, 8.0, num=8, periodic=True, units="m"))
    u = fd.Field("u", grid, units="K")
    u[...] = fd.rate(lambda u, k: k * fd.schemes.laplacian(u))
    u[0] = np.sin(np.arange(8.0))
    params = dict(k=0.1 * saiunit.meter**2 / saiunit.second)
    stream = fd.online(u, params, loss=lambda state, data: ((state["u"] - data) ** 2).sum(), stepper=fd.schemes.Euler())
    with pytest.raises(fd.DeclarationError, match=r"the loss puts quantities of units together .* K != m"):
        stream.step(np.ones(8) * saiunit.meter)
    found = stream.step(np.ones(8) * saiunit.kelvin)
    assert found.loss.unit == saiunit.kelvin2

    def loss(p):
        return ((fd.solve(u, **p, save=fd.final())["u"] - 3.0 * saiunit.second) ** 2).sum()

    with pytest.raises(fd.DeclarationError, match=r"loss puts quantities of units together .* K != s"):
        fd.invert(loss, params)


def test_data_of_a_field_come_in_its_units():
    pytest.importorskip("saiunit")
    wanted = driven().step(dict(seen=SEEN, drive=DRIVE)).loss
    named = (1000 * SEEN).assign_attrs(units="mK").rename("T")
    for seen in (SEEN.assign_attrs(units="kelvin"), named, SEEN.assign_attrs(units="W/m^2")):
        np.testing.assert_allclose(driven().step(dict(seen=seen, drive=DRIVE)).loss, wanted, rtol=1e-12)
    with pytest.raises(fd.DeclarationError, match=r"step: data\['seen'\] is in \"m\", and `T` is in \"K\""):
        driven().step(dict(seen=named.assign_attrs(units="m"), drive=DRIVE))
    for given in ("mK", "degC"):
        match = rf"data\['seen'\] is in \"{given}\", and `T` in \"K\".* \.rename\('T'\)"
        with pytest.raises(fd.DeclarationError, match=match):
            driven().step(dict(seen=SEEN.assign_attrs(units=given), drive=DRIVE))


def test_data_of_a_field_are_known_by_their_place_too():
    pytest.importorskip("saiunit")
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=4)), units="m")
    u[...], u[0] = lambda u, c: c * u["t-1"], 1.0
    seen = xr.DataArray([40.0, 60.0, 40.0, 60.0], dims="x", attrs=dict(units="cm"))
    stream = fd.online(u, dict(c=0.5), loss=lambda state, data: jnp.sum((state["u"] - data["u"]) ** 2))
    np.testing.assert_allclose(stream.step(dict(u=seen)).loss, 0.04)
