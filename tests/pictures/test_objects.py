"""Grids, fields, plans and solutions in notebooks and as pictures."""

from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

import fdsolve as fd
from fdsolve.planning._pictured import map_regions

VOID = {"br", "hr", "img"}


class Checked(HTMLParser):
    """Checks that tags are closed in order, and gathers them and the text."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.words = [], set(), []
        self.feed(source)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def solution():
    grid = fd.Grid(t=fd.Time(0.0, 0.1, num=3, units="s"), x=fd.Axis(0, 1, num=7, units="m"), y=fd.Axis(0, 1, num=6))
    u = fd.Field("u", grid, units="<K>")
    u[...] = lambda u, c: u["t-1"] + c * (u["t-1", "x-1"] - u["t-1"])
    u[0] = lambda x, y: x + y
    u[dict(x=0)] = fd.boundary.Dirichlet(0.0)
    u[dict(y=-1)] = 2.0
    return fd.solve(u, c=0.5)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_html_is_well_formed_escaped_and_without_scripts(solution):
    field = solution.plan.problem.fields[0]
    for one in (field.grid, field, solution.plan, solution):
        found = Checked(one._repr_html_())
        assert found.tags <= {"div", "table", "tr", "th", "td", "details", "summary", "code", "pre", "span"}
        assert "<K>" not in one._repr_html_()
    assert "Field u (<K>)" in Checked(field._repr_html_()).words  # as it reads


def test_html_tells_what_there_is(solution):
    words = Checked(solution._repr_html_()).words
    assert {"3 from 0 to 0.1 s", "0.5", "Plan", "Levels 1 to 2 (3 regions)"} <= set(words)
    assert f"{float(solution.final['u'].max()):.4g}" in words
    assert "background" not in solution._repr_html_().replace("background: none", "")  # the page's own, dark or light


def test_the_map_of_regions_says_which_rule_holds(solution):
    plan = solution.plan
    (found,) = map_regions(plan.problem, plan.structure, plan.holes, None, -1, None)
    names = np.array([rule.label for rule in found.rules])[found.numbers]
    assert found.numbers.shape == (7, 6)
    assert (names[1:, :-1] == "lambda on u[...]").all()
    assert (names[:, -1] == "2.0 on u[dict(y=-1)]").all()
    assert (names[0, :-1] == "Dirichlet(0.0) on u[dict(x=0)]").all()
    reads = {(read.level, read.offset) for read in found.rules[found.numbers[3, 3]].reads}
    assert reads == {(-1, (0.0, 0.0)), (-1, (-1.0, 0.0))}
    (first,) = map_regions(plan.problem, plan.structure, plan.holes, "u", 0, dict(y=0.0))
    assert first.numbers.shape == (7,) and [rule.label for rule in first.rules] == ["lambda on u[0]"]


def test_ghost_points_and_holes_are_on_the_map():
    cells = {name: fd.Axis(0, 1, num=8, cells=True) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.01, num=3), **cells))
    u[...] = fd.rate(lambda u: fd.schemes.laplacian(u))
    u[0] = 0.0
    for name in cells:
        u[{name: [0, -1]}] = fd.boundary.Neumann(0.0)
    u[fd.where(lambda x, y: (x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.05)] = fd.boundary.Neumann(0.0)
    plan = fd.plan(u)
    (found,) = map_regions(plan.problem, plan.structure, plan.holes, None, -1, None)
    ghosts = np.array([rule.ghost for rule in found.rules])[found.numbers]
    holes = np.array([rule.hole for rule in found.rules])[found.numbers]
    assert found.numbers.shape == (10, 10) and found.points[0][0] == pytest.approx(-1 / 16)
    assert ghosts[0, 1:-1].all() and ghosts[1:-1, 0].all() and not ghosts[1:-1, 1:-1].any()
    x = (np.arange(8) + 0.5) / 8 - 0.5
    np.testing.assert_array_equal(holes[1:-1, 1:-1], x[:, None] ** 2 + x**2 < 0.05)
    assert len(plan.plot().axes) >= 2


def test_three_dimensions_are_cut():
    u = fd.Field("u", fd.Grid(**{name: fd.Axis(0, 1, num=5) for name in "xyz"}))
    u[...] = 0.0
    u[dict(z=0)] = 1.0
    plan = fd.plan(u)
    (middle,) = map_regions(plan.problem, plan.structure, plan.holes, "u", -1, None)
    (lowest,) = map_regions(plan.problem, plan.structure, plan.holes, "u", -1, dict(z=0.1))
    assert middle.title == "rules of u (z at 2)" and middle.numbers.shape == (5, 5)
    assert [rule.label for rule in middle.rules] == ["0.0 on u[...]"]
    assert [rule.label for rule in lowest.rules] == ["1.0 on u[dict(z=0)]"]


def test_plots_come_from_the_objects(solution, tmp_path):
    before = dict(mpl.rcParams)
    figure = solution.plot(time=0.1)
    np.testing.assert_allclose(figure.axes[0].collections[0].get_array().reshape(6, 7), solution.final["u"].T)
    assert figure.axes[0].get_xlabel() == "x (m)"
    assert solution.plan.plot().axes[0].get_title() == "rules of u, levels 1 to 2"
    path = solution.animate(tmp_path / "new" / "u.gif", dpi=30)
    assert path.stat().st_size > 0
    assert dict(mpl.rcParams) == before
    with pytest.raises(fd.DeclarationError, match="The plan has no field 'w'"):
        solution.plan.plot("w")
    with pytest.raises(fd.DeclarationError, match="level= takes the number of a level, from 0 to 2"):
        solution.plan.plot(level=3)


def test_dispersion_draws_what_the_analysis_holds():
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=21), x=fd.Axis(0.0, 1.0, num=11, periodic=True))
    u = fd.Field("u", grid)
    u[...] = lambda u, c, dt, dx: u["t-1"] - c * dt / dx * (u["t-1"] - u["t-1", "x-1"])
    u[0] = 0.0
    found = fd.analyse(u, c=1.0)
    left, right = found.plot().axes
    theta = found.theta_x.values
    size = np.abs(1 - 0.55 * (1 - np.exp(-1j * theta)))
    np.testing.assert_allclose(left.lines[1].get_ydata(), size, atol=1e-9)
    np.testing.assert_allclose(right.lines[0].get_ydata(), found.phase_error[0])


def test_long_legends_stay_on_the_paper():
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis(0, 3, 13, units="km"), y=fd.Axis(0, 1, 9, units="km"))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: fd.schemes.laplacian(u))
    u[0] = 0.0
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    u[dict(y=[0, -1])] = fd.boundary.Robin(1.0, 0.5, 0.0)
    for place in (2, 4, 6, 8):
        u[dict(t=slice(1, None), x=[place, place + 1], y=[2, 4, 6])] = fd.rate(lambda u: -u[...])
    figure = fd.plan(u).plot()
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    legends = [legend for part in figure.subfigs for left in part.subfigs for legend in left.legends]
    assert len(legends) == 1 and len(legends[0].get_texts()) >= 7
    box = legends[0].get_window_extent()
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
