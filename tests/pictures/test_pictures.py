"""Pictures show what is in the data: values, labels, limits, holes; and leave matplotlib as they found it."""

import sys

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba
from PIL import Image

from fdsolve import pictures
from fdsolve.errors import DeclarationError
from fdsolve.pictures._mesh import edges_of

T, X, Y, Z = np.linspace(0.0, 2.0, 11), np.linspace(0.0, 1.0, 8), np.linspace(0.0, 0.5, 5), np.linspace(0.0, 1.0, 4)


@pytest.fixture(autouse=True)
def close_figures():
    """Figures go with the test that made them."""
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


def axis(name, values, **attributes):
    return xr.DataArray(values, dims=name, name=name, attrs=attributes)


def coordinates(*names):
    every = {
        "t": axis("t", T, units="s"),
        "x": axis("x", X, units="m"),
        "y": axis("y", Y, units="m"),
        "z": axis("z", Z),
    }
    return {name: every[name] for name in names}


def random(*names, seed=0, **variables):
    shape = [c.size for c in coordinates(*names).values()]
    draw = np.random.default_rng(seed)
    data = {name: (names, draw.standard_normal(shape), {"units": unit}) for name, unit in variables.items()}
    return xr.Dataset(data, coordinates(*names))


def mesh_of(figure, panel=0):
    return figure.axes[panel].collections[0]


def test_lines_have_the_values_times_and_units():
    data = random("t", "x", u="m/s")
    figure = pictures.plot(data, "u", time=[0.0, 1.02], kind="lines")
    (ax,) = figure.axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x (m)", "u (m/s)")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["t = 0 s", "t = 1 s"]
    for line, index in zip(ax.lines, (0, 5), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), data.u[index])


def test_many_times_of_one_dimension_are_a_space_time_diagram():
    data = random("t", "x", u="m/s")
    figure = pictures.plot(data)
    np.testing.assert_allclose(mesh_of(figure).get_array().reshape(11, 8), data.u)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("x (m)", "t (s)")
    assert figure.axes[1].get_ylabel() == "u (m/s)"


def test_signed_values_have_symmetric_colours_and_others_do_not():
    data = random("t", "x", "y", u="m")
    mesh = mesh_of(pictures.plot(data, time=2.0))
    assert mesh.norm.vmin == -mesh.norm.vmax < 0
    assert mesh.norm.vmax == np.abs(data.u[-1]).max()
    assert mesh.cmap.name == "RdBu_r"
    positive = mesh_of(pictures.plot(data**2, time=2.0))
    assert positive.norm.vmin == (data.u[-1] ** 2).min() and positive.cmap.name == "viridis"


def test_holes_are_grey_and_times_share_their_colours():
    data = random("t", "x", "y", u="m")
    data.u[:, 2, 3] = np.nan
    figure = pictures.plot(data)
    meshes = [ax.collections[0] for ax in figure.axes[:6]]
    assert {(m.norm.vmin, m.norm.vmax) for m in meshes} == {(meshes[0].norm.vmin, meshes[0].norm.vmax)}
    assert meshes[0].get_array().mask.reshape(5, 8)[3, 2] and meshes[0].get_array().mask.sum() == 1
    assert meshes[0].cmap.get_bad().tolist() == list(to_rgba("0.78"))
    assert [ax.get_title() for ax in figure.axes[:6]] == [f"t = {t:g} s" for t in T[::2]]


def test_the_aspect_is_equal_where_both_axes_have_one_unit():
    same = random("x", "y", u="K")
    assert pictures.plot(same).axes[0].get_aspect() == 1.0
    other = random("x", "z", u="K")
    assert pictures.plot(other).axes[0].get_aspect() == "auto"


def test_a_disc_is_drawn_round():
    angle, radius = axis("a", np.arange(12) * np.pi / 6, metric="angle"), axis("r", X[:5], metric="radius")
    data = xr.Dataset({"w": (("r", "a"), np.random.default_rng(1).standard_normal((5, 12)))}, {"r": radius, "a": angle})
    corners = mesh_of(pictures.plot(data)).get_coordinates()
    assert np.hypot(*corners.reshape(-1, 2).T).max() == pytest.approx(edges_of(X[:5])[-1])
    np.testing.assert_allclose(corners[0], corners[-1], atol=1e-12)  # the ring is closed


def test_depth_points_down():
    data = xr.Dataset({"T": (("depth", "x"), np.ones((4, 8)))}, {"depth": Z, "x": X})
    (ax, _) = pictures.plot(data).axes
    assert ax.yaxis_inverted() and ax.get_ylabel() == "depth"


def test_slices_go_through_the_middle_and_cuts_lower_the_rank():
    data = random("x", "y", "z", q="K")
    figure = pictures.plot(data)
    np.testing.assert_array_equal(mesh_of(figure).get_array().reshape(5, 8), data.q[:, :, 2].T)
    assert [ax.get_title() for ax in figure.axes[:3]] == ["z = 0.6667", "y = 0.25 m", "x = 0.5714 m"]
    cut = pictures.plot(data, at=dict(z=0.3))
    np.testing.assert_array_equal(mesh_of(cut).get_array().reshape(5, 8), data.q[:, :, 1].T)
    assert cut.axes[0].get_title() == "z = 0.3333"


def test_a_cut_along_all_space_is_a_trace():
    data = random("t", "x", u="m")
    (ax,) = pictures.plot(data, at=dict(x=1.0)).axes
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), data.u[:, -1])
    assert ax.get_title() == "x = 1 m" and ax.get_xlabel() == "t (s)"


def test_receivers_are_lines_and_many_of_them_a_seismogram():
    values = np.random.default_rng(2).standard_normal((11, 20))
    few = xr.Dataset({"p": (("t", "receiver"), values[:, :3])}, coordinates("t"))
    assert len(pictures.plot(few).axes[0].lines) == 3
    many = xr.Dataset({"p": (("t", "receiver"), values)}, coordinates("t"))
    assert pictures.plot(many).axes[0].yaxis_inverted()


def test_arrows_of_staggered_components_meet_at_the_centres():
    faces, centres = np.arange(5.0), np.arange(4) + 0.5
    data = xr.Dataset(
        {
            "u": (("x_face", "y"), np.broadcast_to(3 * faces[:, None], (5, 4)), {"units": "m/s"}),
            "v": (("x", "y_face"), np.broadcast_to(-faces, (4, 5)), {"units": "m/s"}),
        },
        {"x": centres, "y": centres, "x_face": faces, "y_face": faces},
    )
    figure = pictures.plot(data, ("u", "v"), kind="quiver")
    speed, arrows = figure.axes[0].collections
    u, v = 3 * centres, -centres
    np.testing.assert_allclose(arrows.U.reshape(4, 4), np.broadcast_to(u, (4, 4)))
    np.testing.assert_allclose(arrows.V.reshape(4, 4), np.broadcast_to(v[:, None], (4, 4)))
    np.testing.assert_allclose(speed.get_array().reshape(4, 4), np.hypot(u, v[:, None]))
    assert figure.axes[1].get_ylabel() == "|(u, v)| (m/s)"


def test_complex_fields_show_the_part_asked_for():
    data = xr.Dataset({"psi": ("x", np.exp(5j * X))}, {"x": X})
    for part, values, label in (
        (None, np.cos(5 * X), "Re psi"),
        ("imag", np.sin(5 * X), "Im psi"),
        ("abs", X**0, "|psi|"),
    ):
        (ax,) = pictures.plot(data, part=part).axes
        np.testing.assert_allclose(ax.lines[0].get_ydata(), values)
        assert ax.get_ylabel() == label


def test_calendars_give_dates():
    days = np.datetime64("2016-06-01", "ns") + np.arange(3) * np.timedelta64(1, "D")
    data = xr.Dataset({"T": (("time", "x"), np.ones((3, 8)))}, {"time": days, "x": X})
    (ax,) = pictures.plot(data, time="2016-06-02").axes
    assert ax.get_title() == "2016-06-02"


@pytest.mark.parametrize(
    ("times", "titles"),
    [
        (np.datetime64("2016-06-01T00:00", "ns") + np.arange(3) * np.timedelta64(250, "ms"), ["00:00:00.500", ".250"]),
        (np.datetime64("2016-06-01T12:30", "ns") + np.arange(3) * np.timedelta64(20, "s"), ["12:30:40", ":20"]),
        (np.datetime64("2016-06-01T12:30", "ns") + np.arange(3) * np.timedelta64(7, "m"), ["12:44", ":37"]),
        (1000 + 0.1 * np.arange(3), ["t = 1000.2", "1000.1"]),
        (np.arange(3.0) / 3, ["t = 0.6667", "0.3333"]),
    ],
    ids=["quarters of a second", "seconds", "minutes", "numbers", "thirds"],
)
def test_titles_tell_one_time_from_another(times, titles):
    data = xr.Dataset({"T": (("t", "x", "y"), np.random.default_rng(0).random((3, 8, 5)))}, {"t": times, "x": X})
    shown = [ax.get_title() for ax in pictures.plot(data).axes if ax.get_title()]
    assert len(set(shown)) == 3 and shown[2].endswith(titles[0]) and shown[1].endswith(titles[1]), shown


def test_it_draws_on_the_axes_given():
    data = random("t", "x", "y", u="m")
    figure, ax = plt.subplots()
    assert pictures.plot(data, ax=ax) is figure
    assert ax.get_title() == "t = 2 s"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(field="w"), "There is no field 'w' to draw; there are `u`"),
        (dict(kind="bars"), "kind= takes one of 'lines'"),
        (dict(kind="slices"), "is not for 2 dimensions, as u \\(m\\) has; its kinds are 'map', 'quiver'"),
        (dict(time=9.0), "time= is 9.0; what was saved runs from 0.0 to 2.0"),
        (dict(at=dict(q=1.0)), "at= names the axis 'q'"),
        (dict(part="abs"), "part= is for complex fields"),
        (dict(cmap="sunset"), "cmap= takes the name of a colour map"),
        (dict(limits=(1, 0)), "limits= takes the least and the greatest"),
        (dict(ax=3), "ax= takes the Axes of matplotlib"),
        (dict(kind="quiver"), "draws a pair of components"),
    ],
)
def test_mistakes_are_told(options, message):
    with pytest.raises(DeclarationError, match=message):
        pictures.plot(random("t", "x", "y", u="m"), **options)


def test_a_film_has_a_frame_a_time_and_they_differ(tmp_path):
    path = pictures.animate(random("t", "x", u="m").isel(t=slice(0, 3)), tmp_path / "f.gif", fps=5, dpi=40)
    with Image.open(path) as film:
        assert film.n_frames == 3 and film.info["duration"] == 200
        frames = [np.asarray(film.convert("RGB")) for index in range(3) if film.seek(index) is None]
    assert (frames[0] != frames[1]).any() and (frames[1] != frames[2]).any()


def test_an_mp4_has_a_frame_a_time(tmp_path):
    path = pictures.animate(random("t", "x", u="m").isel(t=slice(0, 5)), tmp_path / "f.mp4", fps=5, dpi=20)
    content = path.read_bytes()
    assert content[4:8] == b"ftyp" and b"avc1" in content
    sizes = content.index(b"stsz")  # the table of the frames' sizes: version, size of all, how many
    assert int.from_bytes(content[sizes + 12 : sizes + 16], "big") == 5


def test_the_ffmpeg_on_the_path_comes_first(tmp_path, monkeypatch):
    brought = pictures._film.find_ffmpeg()
    program = tmp_path / "ffmpeg"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pictures._film.find_ffmpeg() == str(program) != brought
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert pictures._film.find_ffmpeg() is None


def test_films_of_maps_and_slices_end_with_the_last_level():
    for names in (("t", "x", "y"), ("t", "x", "y", "z")):
        data = random(*names, u="m")
        kind = "map" if len(names) == 3 else "slices"
        _, request = pictures._plot._request(data, None, None, kind, None, None, None, None, None, moving=True)
        drawn = pictures.KINDS[kind].draw(request)
        drawn.update(10)
        last = data.u[-1] if kind == "map" else data.u[-1, :, :, 2]
        np.testing.assert_array_equal(mesh_of(drawn.figure).get_array().reshape(5, 8), last.T)
        assert mesh_of(drawn.figure).norm.vmax == np.abs(data.u).max()  # of all times


def test_films_that_cannot_be_say_why(tmp_path, monkeypatch):
    data = random("t", "x", u="m")
    monkeypatch.setattr("fdsolve.pictures._film.find_ffmpeg", lambda: None)
    for path, message in (("f.mp4", "ffmpeg, which was not found"), ("f.avi", r"ends in \.gif or \.mp4")):
        with pytest.raises(DeclarationError, match=message):
            pictures.animate(data, tmp_path / path)
    with pytest.raises(DeclarationError, match="several saved times, and there is one"):
        pictures.animate(data.isel(t=[0]), tmp_path / "f.gif")
    for most in (0, 1, -1, 2.5, True):
        with pytest.raises(DeclarationError, match=f"most= is a whole number of frames of at least 2, got {most}"):
            pictures.animate(data, tmp_path / "f.gif", most=most)
    with pytest.raises(DeclarationError, match=r"animate takes a path such as .*got 3"):
        pictures.animate(data, 3)


def test_convergence_tells_the_order_and_draws_the_slope():
    steps = np.array([0.1, 0.05, 0.025])
    (ax,) = pictures.convergence(steps, {"max": 3 * steps**2}, order=[2]).axes
    assert ax.get_legend().get_texts()[0].get_text() == "max (order 2.00)"
    x, y = ax.lines[1].get_data()
    np.testing.assert_allclose(np.diff(np.log(y)) / np.diff(np.log(x)), 2.0)
    with pytest.raises(DeclarationError, match="3 steps and 2 errors"):
        pictures.convergence(steps, [1.0, 2.0])
