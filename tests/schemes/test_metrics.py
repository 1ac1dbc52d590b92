"""Curvilinear axes: volumes, the divergence theorem, closed forms with poles and walls, vector calculus, messages."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import eval_legendre, j0, j1, jv

import fdsolve as fd
from fdsolve.schemes import curl, derivative, divergence, gradient, laplacian

PI = float(np.pi)


def radius(n, lower=0.0, **options):
    return fd.Axis(lower, 1.0, n, cells=True, metric="radius", **options)


def angle(n):
    return fd.Axis(0.0, 2 * PI, n, periodic=True, metric="angle")


def ball(n, m=None, lower=0.0):
    axes = dict(r=fd.Axis(lower, 1.0, n, cells=True, metric="spherical radius"))
    axes["q"] = fd.Axis(0.0, PI, n, cells=True, metric="colatitude")
    if m:
        axes["f"] = fd.Axis(0.0, 2 * PI, m, cells=True, periodic=True, metric="azimuth")
    return axes


GRIDS = {
    "disc": lambda: dict(r=radius(7), q=angle(8)),
    "ring": lambda: dict(r=radius(7, 0.3), q=angle(7)),
    "axisymmetric cylinder": lambda: dict(r=radius(6), z=fd.Axis(0.0, 2.0, 5, cells=True)),
    "cylinder": lambda: dict(r=radius(4), q=angle(6), z=fd.Axis(0.0, 2.0, 3, cells=True)),
    "ball of shells": lambda: dict(r=fd.Axis(0.0, 1.0, 6, cells=True, metric="spherical radius")),
    "ball of rings": lambda: ball(5),
    "ball": lambda: ball(4, 6),
    "sphere": lambda: {name: axis for name, axis in ball(6, 8).items() if name != "r"},
}
VOLUMES = {
    "disc": PI,
    "ring": PI * (1 - 0.09),
    "axisymmetric cylinder": 0.5 * 2.0,
    "cylinder": 2 * PI,
    "ball of shells": 1 / 3,
    "ball of rings": 2 / 3,
    "ball": 4 * PI / 3,
    "sphere": 4 * PI,
}


@pytest.mark.parametrize("kind", GRIDS)
def test_volumes_add_up_to_that_of_the_domain(kind):
    assert fd.Grid(**GRIDS[kind]()).volumes().sum() == pytest.approx(VOLUMES[kind], rel=1e-13)


def test_a_node_on_a_wall_has_half_a_cell():
    grid = fd.Grid(x=fd.Axis(0.0, 1.0, 5), r=fd.Axis(0.0, 2.0, 9, metric="radius"))
    np.testing.assert_allclose(grid.volumes().sum(axis=1), np.array([0.125, 0.25, 0.25, 0.25, 0.125]) * 2.0)


def walls(u, grid, condition):
    """Conditions on every wall that is no pole."""
    for axis in grid.space:
        owner = grid.space_axis(axis)
        if owner.periodic or owner.metric == "colatitude":
            continue
        for end, place in ((0, owner.lower), (-1, owner.upper)):
            if owner.metric is None or place > 0:
                u[{axis: end}] = condition


@pytest.mark.parametrize("kind", GRIDS)
def test_the_divergence_theorem_holds_to_rounding(kind):
    """Σ V ∇·(k ∇u) is the flux through the walls: none where they are insulated, whatever the poles."""
    grid = fd.Grid(**GRIDS[kind]())
    random = np.random.default_rng(1)
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = random.normal(size=grid.shape)
    d[...] = lambda u, k: divergence(k, u) + laplacian(u)
    for one in (u, d):  # on d for the coefficient, which is mirrored with it
        walls(one, grid, fd.boundary.Neumann(0.0))
    got = np.asarray(fd.solve([u, d], k=random.uniform(1, 2, grid.shape))["d"]) * grid.volumes()
    assert abs(got.sum()) < 1e-13 * np.abs(got).sum()


def test_the_divergence_of_a_vector_is_the_flux_through_the_rim():
    grid = fd.Grid(r=radius(5), q=angle(6))
    random = np.random.default_rng(2)
    v, w = fd.Field("v", grid, at=dict(r="face")), fd.Field("w", grid, at=dict(q="face"))
    d = fd.Field("d", grid)
    values = random.normal(size=(6, 6))
    v[...], w[...] = values, random.normal(size=(5, 6))
    d[...] = lambda v, w: divergence((v, w))
    total = (np.asarray(fd.solve([v, w, d])["d"]) * grid.volumes()).sum()
    assert total == pytest.approx(values[-1].sum() * 2 * PI / 6, rel=1e-12)


def decay(axes, initial, rate, condition=None, order=2, time=0.05, steps=60):
    """The largest error of u_t = ∇²u for u = initial(...)·e^(−rate t)."""
    grid = fd.Grid(t=fd.Time(0.0, time, num=steps + 1), **axes)
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: laplacian(u, order=order))
    places = np.meshgrid(*(grid.space_axis(axis).points for axis in grid.space), indexing="ij")
    start = initial(*places)
    u[0] = start
    if condition is not None:
        u[{grid.space[0]: -1}] = condition
    final = fd.solve(u, save=fd.final(), stepper=fd.schemes.RK4()).final["u"]
    return float(np.abs(np.asarray(final) - start * np.exp(-rate * time)).max())


def order_between(sizes, error):
    coarse, fine = (error(n) for n in sizes)
    return np.log(coarse / fine) / np.log(sizes[1] / sizes[0])


K0, K1 = 2.404825557695773, 3.8317059702075125


@pytest.mark.parametrize("cells", [True, False])
def test_axisymmetric_modes_of_the_disc(cells):
    def error(n):
        axis = fd.Axis(0.0, 1.0, n + (not cells), cells=cells, metric="radius")
        return decay(dict(r=axis), lambda r: j0(K0 * r), K0**2, fd.boundary.Dirichlet(0.0))

    assert order_between((8, 16), error) > 1.9


def test_a_mode_of_the_disc_that_passes_through_the_pole():
    def error(n):
        axes = dict(r=radius(n), q=angle(2 * n))
        return decay(axes, lambda r, q: j1(K1 * r) * np.cos(q - 0.3), K1**2, fd.boundary.Dirichlet(0.0), steps=400)

    assert order_between((5, 10), error) > 1.9


def test_a_disc_that_loses_heat_at_its_rim():
    """a u + b ∂u/∂r = 0 with a = k J₁(k), b = J₀(k), so that J₀(kr) is a mode."""
    k = 1.5
    condition = fd.boundary.Robin(float(k * j1(k)), float(j0(k)), 0.0)
    for cells in (True, False):

        def error(n, cells=cells):
            axis = fd.Axis(0.0, 1.0, n + (not cells), cells=cells, metric="radius")
            return decay(dict(r=axis), lambda r: j0(k * r), k**2, condition)

        assert order_between((8, 16), error) > 1.9


def test_the_spherical_wave_sin_kr_over_r():
    def error(n):
        axis = fd.Axis(0.0, 1.0, n, cells=True, metric="spherical radius")
        return decay(dict(r=axis), lambda r: np.sinc(r), PI**2, fd.boundary.Dirichlet(0.0))

    assert order_between((8, 16), error) > 1.9


def test_legendre_functions_on_the_sphere():
    """P₂(cos θ) decays as e^(−6t)."""

    def error(n):
        return decay(dict(q=ball(n)["q"]), lambda q: eval_legendre(2, np.cos(q)), 6.0)

    assert order_between((8, 16), error) > 1.9


def resolvent_error(axes, mode, eigenvalue):
    """The largest error of (∇² − 1) u = (λ − 1) u for a mode u: steady, as explicit steps would be tiny at poles."""
    grid = fd.Grid(**axes)
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = lambda p: p
    if "r" in axes:
        u[dict(r=-1)] = fd.boundary.Dirichlet(0.0)
    d[...] = lambda u: laplacian(u) - u
    size = int(np.prod(grid.shape))
    of = lambda p: fd.solve([u, d], p=p.reshape(grid.shape))["d"].ravel()  # noqa: E731
    operator = np.asarray(jax.jacobian(of)(jnp.zeros(size)))
    exact = mode(*np.meshgrid(*(axis.points for axis in axes.values()), indexing="ij")).ravel()
    return np.abs(np.linalg.solve(operator, (eigenvalue - 1) * exact) - exact).max()


def test_a_mode_of_the_sphere_that_passes_through_its_poles():
    """P₂¹(cos θ) cos φ = sin θ cos θ cos φ, ∇²u = −6u."""

    def error(n):
        axes = {name: axis for name, axis in ball(n, 2 * n).items() if name != "r"}
        return resolvent_error(axes, lambda q, f: np.sin(q) * np.cos(q) * np.cos(f), -6.0)

    assert order_between((8, 16), error) > 1.9


def test_a_mode_of_the_ball_that_passes_through_its_centre():
    """j₁(kr) sin θ cos φ, k the first zero of j₁."""
    k = 4.493409457909064

    def error(n):
        mode = lambda r, q, f: jv(1.5, k * r) / np.sqrt(k * r) * np.sin(q) * np.cos(f)  # noqa: E731
        return resolvent_error(ball(n, 2 * n), mode, -(k**2))

    assert order_between((6, 9), error) > 1.75  # 1.92 between 8 and 12 shells


@pytest.mark.parametrize("order", [4, 6])
def test_higher_orders_on_the_disc(order):
    def error(n):
        axis = fd.Axis(0.0, 1.0, n, cells=True, metric="radius")
        grid = fd.Grid(r=axis)
        u, d = fd.Field("u", grid), fd.Field("d", grid)
        u[...] = j0(5.0 * axis.points)
        d[...] = 0.0
        d[: -(order // 2)] = lambda u: laplacian(u, order=order)
        got = np.asarray(fd.solve([u, d])["d"])[: -(order // 2)]
        return np.abs(got + 25.0 * j0(5.0 * axis.points)[: -(order // 2)]).max()

    assert order_between((16, 32), error) > order - 0.2


def taken(grid, rule, at=None, **fields):
    """The values of a rule of some fields given as functions of the coordinates."""
    made = []
    for name, (function, place) in fields.items():
        made.append(fd.Field(name, grid, at=place))
        made[-1][...] = function
    d = fd.Field("d", grid, at=at)
    d[...] = 0.0
    d[{axis: slice(1, -1) for axis in grid.space if not grid.space_axis(axis).periodic}] = rule
    return np.asarray(fd.solve([*made, d])["d"])


def test_gradient_and_curl_in_polar_coordinates():
    grid = fd.Grid(r=radius(12, 0.2), q=angle(16))
    rotation = taken(grid, lambda v, w: curl((v, w)), v=(lambda r: 0.0 * r, None), w=(lambda r: 1.5 * r, None))
    np.testing.assert_allclose(rotation[1:-1], 3.0, rtol=1e-12)
    slope = taken(grid, lambda u: gradient(u)[1], u=(lambda r, q: r * jnp.sin(q), None))
    factor = np.sin(2 * PI / 16) / (2 * PI / 16)
    np.testing.assert_allclose(slope[1:-1], np.broadcast_to(factor * np.cos(grid.q.points), (10, 16)), atol=1e-13)
    stream = taken(grid, lambda u: curl(u)[0], u=(lambda r, q: r * jnp.sin(q), None))
    np.testing.assert_allclose(stream, slope, atol=1e-13)
    plain = taken(grid, lambda u: derivative(u, "q"), u=(lambda r, q: r * jnp.sin(q), None))
    np.testing.assert_allclose(plain[1:-1], slope[1:-1] * grid.r.points[1:-1, None], atol=1e-13)


def test_the_divergence_of_a_curl_vanishes_on_a_cylindrical_staggered_grid():
    """Yee's places: components of A on edges, of the curl on faces, the divergence in the cells: zero to rounding."""

    def largest(n):
        grid = fd.Grid(r=radius(n, 0.3), q=angle(2 * n), z=fd.Axis(0.0, 1.0, n, cells=True))
        edges = {name: dict.fromkeys(set("rqz") - {axis}, "face") for name, axis in zip("abc", "rqz", strict=True)}
        faces = {name: {axis: "face"} for name, axis in zip("uvw", "rqz", strict=True)}
        potentials = {
            "a": lambda r, q, z: jnp.sin(r + z) * jnp.cos(q),
            "b": lambda r, q, z: r * jnp.cos(z) * jnp.sin(q),
            "c": lambda r, q, z: r * r * jnp.cos(q) * z,
        }
        fields = {name: fd.Field(name, grid, at=place) for name, place in (edges | faces).items()}
        for name, function in potentials.items():
            fields[name][...] = function
        for index, name in enumerate("uvw"):
            fields[name][...] = lambda a, b, c, index=index: curl((a, b, c))[index]
        d = fd.Field("d", grid)
        d[...] = lambda u, v, w: divergence((u, v, w))
        return np.abs(np.asarray(fd.solve([*fields.values(), d])["d"])).max()

    assert largest(5) < 1e-12


WRONG = {
    '`metric` of an Axis must be one of "radius", "angle", "spherical radius", "colatitude", "azimuth", or None, got '
    "'polar'.": lambda: fd.Axis(0.0, 1.0, 4, metric="polar"),
    "An Axis of metric 'radius' lies between 0 and more, got -1.0 to 1.0.": lambda: fd.Axis(-1, 1, 4, metric="radius"),
    "An Axis of metric 'colatitude' lies between 0 and π, got 0.0 to 4.0.": (
        lambda: fd.Axis(0, 4, 4, metric="colatitude")
    ),
    "An Axis of metric 'radius' is not periodic; leave `periodic=True` out.": (
        lambda: fd.Axis(0, 1, 4, periodic=True, metric="radius")
    ),
    'Axis `q` has the metric "angle", which goes with an axis of metric "radius"; the Grid has none. Add one, or leave '
    "`metric` of `q` out.": lambda: fd.Grid(q=angle(4)),
    'Two axes of a Grid have the metric "radius"; axis `a` is one of them.': lambda: fd.Grid(a=radius(4), b=radius(4)),
    "A Grid has one system of coordinates, got polar and spherical axes together.": (
        lambda: fd.Grid(a=radius(4), b=fd.Axis(0, 1, 4, metric="colatitude"))
    ),
    "Axis `z` of a spherical Grid has no metric. Give it one, or use polar axes, which take straight ones beside "
    "them.": (lambda: fd.Grid(z=fd.Axis(0, 1, 4), r=fd.Axis(0, 1, 4, metric="spherical radius"))),
    "Axis `r` has a node at r = 0, which is one point for all values of `q`. Declare it with cells=True, or start "
    "beside that point.": lambda: fd.Grid(r=fd.Axis(0, 1, 4, metric="radius"), q=angle(4)),
    "Axis `q` goes around the pole of `r`, where each point needs the one opposite: give it an even number of points, "
    "got 5.": lambda: fd.Grid(r=radius(4), q=angle(5)),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_axes_are_refused(message):
    with pytest.raises(fd.DeclarationError, match="^" + re.escape(message) + "$"):
        WRONG[message]()


def test_a_sector_has_a_wall_at_the_pole():
    """Without the point at θ + π there is nothing to read beyond r = 0: a condition is wanted, and has no weight."""
    grid = fd.Grid(r=radius(6), q=fd.Axis(0.0, 1.0, 5, cells=True, metric="angle"))
    u, d = fd.Field("u", grid), fd.Field("d", grid)
    u[...] = lambda r: r**2
    d[...] = lambda u: laplacian(u)
    u[dict(q=[0, -1])] = fd.boundary.Neumann(0.0)
    u[dict(r=-1)] = fd.boundary.Neumann(2.0)
    with pytest.raises(fd.PlanningError, match="outside the lower end of axis `r`"):
        fd.plan([u, d])
    u[dict(r=0)] = fd.boundary.Neumann(7.0)
    np.testing.assert_allclose(np.asarray(fd.solve([u, d])["d"]), 4.0, rtol=1e-12)


def test_a_condition_at_a_pole_takes_its_place():
    grid = fd.Grid(r=radius(6))
    v, d = fd.Field("v", grid), fd.Field("d", grid)
    v[...] = lambda r: r**3
    d[...] = 0.0
    d[:-2] = lambda v: derivative(v, "r", order=4)
    even = np.asarray(fd.solve([v, d])["d"])
    v[dict(r=0)] = fd.boundary.Antisymmetric()
    odd = np.asarray(fd.solve([v, d])["d"])
    exact = 3 * grid.r.points**2
    np.testing.assert_allclose(odd[:-2], exact[:-2], atol=1e-12)
    assert np.abs(even - exact)[0] > 0.01
