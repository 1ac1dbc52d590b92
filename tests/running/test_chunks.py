"""Runs in chunks: the same numbers as in one piece, whatever is done between the chunks."""

import signal
import threading
import time
from dataclasses import dataclass
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve import kernels


def heat(num=17, steps=60, stop=0.05, dtype=None):
    grid = fd.Grid(t=fd.Time(0.0, stop, num=steps + 1), x=fd.Axis(0, 1, num=num))
    u = fd.Field("u", grid, dtype=dtype)
    u[...] = fd.rate(lambda u, kappa: kappa * fd.schemes.laplacian(u))
    u[0] = lambda x: 1.0 + jnp.cos(np.pi * x)
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    return u


def wave(num=40, steps=75):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=steps + 1), x=fd.Axis(0, 1, num=num), y=fd.Axis(0, 1, num=num))
    p = fd.Field("p", grid)
    p[...] = lambda p, c, dt, dx, dy: (
        2 * p["t-1"]
        - p["t-2"]
        + (c * dt / dx) ** 2 * (p["t-1", "x-1"] + p["t-1", "x+1"] + p["t-1", "y-1"] + p["t-1", "y+1"] - 4 * p["t-1"])
    )
    p[0:2] = lambda x, y: jnp.exp(-80 * ((x - 0.4) ** 2 + (y - 0.5) ** 2))
    p[dict(x=[0, -1])] = p[dict(y=[0, -1])] = 0.0
    return p


def decay(steps=40):
    """u' = -k u with a jump of the rule at t = 0.5: two segments."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=steps + 1), x=fd.Axis(0, 1, num=8))
    u = fd.Field("u", grid)
    u[...] = lambda u, k, dt: u["t-1"] * (1 - k * dt)
    u.loc[dict(t=slice(0.5, 1.0))] = lambda u, k, dt: u["t-1"] * (1 - 2 * k * dt)
    u[0] = lambda x: 1.0 + x
    return u


SAVES = [None, fd.every(1), fd.every(7), fd.at([0.011, 0.02, 0.0433]), fd.final()]


@pytest.mark.parametrize("save", SAVES, ids=repr)
def test_the_same_numbers_as_in_one_piece(save):
    plain = fd.solve(heat(), kappa=0.3, save=save)
    chunked = fd.solve(heat(), kappa=0.3, save=save, monitors=[fd.monitors.Nan(every=11)])
    np.testing.assert_array_equal(plain["u"], chunked["u"])
    np.testing.assert_array_equal(plain.final["u"], chunked.final["u"])
    np.testing.assert_array_equal(plain.times, chunked.times)


@pytest.mark.parametrize(("declare", "given"), [(wave, dict(c=0.4)), (decay, dict(k=1.0))], ids=["wave", "segments"])
def test_two_levels_kept_and_changing_structure(declare, given):
    field = declare()
    plain = fd.solve(field, **given)
    chunked = fd.solve(field, **given, monitors=[fd.monitors.Nan(every=9)])
    name = field.name
    np.testing.assert_allclose(plain[name], chunked[name], rtol=0, atol=1e-15)


def test_receivers_and_multistep_steppers():
    places = fd.receivers(dict(x=[0.21, 0.77]), every=3)
    given = dict(kappa=0.2, stepper=fd.schemes.AdamsBashforth(3), save=[fd.every(5), places])
    plain = fd.solve(heat(), **given)
    chunked = fd.solve(heat(), **given, monitors=[fd.monitors.Nan(every=13)])
    np.testing.assert_allclose(plain["u"], chunked["u"], rtol=0, atol=1e-15)
    np.testing.assert_allclose(plain.receivers["u"], chunked.receivers["u"], rtol=0, atol=1e-15)


def test_what_monitors_keep():
    seen = []
    monitors = [
        fd.monitors.Conservation(tolerance=1e-12, every=20),
        fd.monitors.Conservation(density=lambda u: u**2, every=20),
        fd.monitors.Residual(every=20),
        fd.monitors.CFL(lambda u: 0.1 + 0 * u, every=30),
        fd.monitors.Probe(x=0.4, every=30),
        fd.monitors.Callback(lambda look: seen.append(look.level) or {"twice": 2.0 * look.level}, every=25),
    ]
    solution = fd.solve(heat(), kappa=0.3, monitors=monitors)
    u, kept = np.asarray(solution["u"]), solution.monitors
    grid = solution.plan.problem.scope.grid
    volumes = grid.volumes()
    np.testing.assert_allclose(kept["Conservation"].total_u, [np.sum(u[k] * volumes) for k in (0, 20, 40, 60)])
    np.testing.assert_allclose(
        kept["Conservation 2"].total_density, [np.sum(u[k] ** 2 * volumes) for k in (0, 20, 40, 60)]
    )
    rates = [np.max(np.abs(u[k] - u[k - 20])) / (20 * grid.t.step) for k in (20, 40, 60)]
    np.testing.assert_allclose(kept["Residual"].rate_u[1:], rates)
    np.testing.assert_allclose(kept["CFL"].courant, 0.1 * grid.t.step / grid.x.step)
    np.testing.assert_allclose(kept["Probe(x=0.4)"].u, [np.interp(0.4, grid.x.points, u[k]) for k in (0, 30, 60)])
    assert seen == [0, 25, 50, 60]
    np.testing.assert_array_equal(kept["Callback"].twice, [0, 50, 100, 120])
    np.testing.assert_array_equal(kept["Callback"].t, grid.t.points[[0, 25, 50, 60]])


@pytest.mark.parametrize("x", [0.0, 0.03, 0.3, 0.97, 1.0])
def test_a_probe_beside_the_middle_of_the_last_cell_goes_on_linearly(x):
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=10, cells=True)))
    u[0] = lambda x: 1 + x
    u[1:] = lambda u: 2 * u["t-1"]
    (kept,) = fd.solve(u, monitors=[fd.monitors.Probe(x=x, every=1)]).monitors.values()
    np.testing.assert_allclose(kept.u, (1 + x) * 2.0 ** np.arange(3), rtol=1e-12)


def test_a_run_waits_only_for_monitors_that_can_stop_it_and_keeps_the_same_of_all():
    @dataclass(frozen=True)
    class Largest(fd.monitors.AbstractMonitor):
        every: int = 7

        def measure(self, watched, look):
            return {"largest": jnp.max(look.fields["u"]), "level": look.level, "t": look.time}

    @dataclass(frozen=True)
    class Judging(Largest):
        def judge(self, first, now):
            assert isinstance(now["largest"], np.ndarray) and now["level"] % 7 in (0, 60 % 7)

    free, bound = fd.monitors.Conservation(), fd.monitors.Conservation(tolerance=1.0)
    assert [one.may_stop for one in (Largest(), Judging(), free, bound)] == [False, True, False, True]
    assert [one.may_stop for one in (fd.monitors.CFL(1.0), fd.monitors.CFL(1.0, limit=1.0))] == [False, True]
    assert fd.monitors.Steady(1.0).may_stop and fd.monitors.Callback(print).may_stop
    assert not fd.monitors.Nan().may_stop and not fd.monitors.Residual().may_stop
    alone = fd.solve(heat(), kappa=0.3, monitors=[Largest()]).monitors["Largest"]
    beside = fd.solve(heat(), kappa=0.3, monitors=[Largest(), Judging()]).monitors
    np.testing.assert_array_equal(alone.level, [*range(0, 60, 7), 60])
    for title in ("Largest", "Judging"):
        np.testing.assert_array_equal(beside[title].largest, alone.largest)
        np.testing.assert_array_equal(beside[title].level, alone.level)


def test_a_monitor_that_listens_is_given_its_last_look():
    heard = []

    @dataclass(frozen=True)
    class Listener(fd.monitors.AbstractMonitor):
        every: int = 20

        @property
        def looks_back(self):
            return True

        def measure(self, watched, look):
            return {}

        def listen(self, look):
            before = None if look.before is None else np.asarray(look.before["u"])
            heard.append((look.level, np.asarray(look.fields["u"]), before, look.elapsed))

    fd.solve(heat(), kappa=0.3, monitors=[Listener()])
    assert [level for level, *_ in heard] == [0, 20, 40, 60] and heard[0][2] is None
    for (_, fields, *_), (_, _, before, elapsed) in pairwise(heard):
        np.testing.assert_array_equal(before, fields)
        assert elapsed == pytest.approx(0.05 / 3)


def test_a_steady_state_stops_the_run_and_what_was_saved_is_given():
    solution = fd.solve(heat(steps=4000, stop=4.0), kappa=1.0, save=fd.every(10), monitors=[fd.monitors.Steady(1e-3)])
    assert "steady" in solution.stopped and "steady" in repr(solution)
    assert 0.5 < solution.times[-1] < 2.0
    assert solution["u"].shape == (len(solution.times), 17)
    np.testing.assert_allclose(solution["u"][-1], 1.0, atol=1e-3)
    assert solution.to_xarray().t[-1] == solution.times[-1]


def test_a_total_that_is_not_kept_stops_the_run():
    u = heat()
    u[dict(x=-1)] = 0.0
    solution = fd.solve(
        u, kappa=0.3, save=fd.final(), monitors=[fd.monitors.Conservation("u", tolerance=1e-3, every=5)]
    )
    assert "the total of `u` moved" in solution.stopped
    assert solution.times[-1] < 0.05 and solution["u"].shape == (1, 17)


def explode(num=16):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=201), x=fd.Axis(0, 1, num=num))
    u = fd.Field("u", grid)
    u[...] = lambda u, dt: u["t-1"] + dt * u["t-1"]
    u[0, :] = 0.01
    u[1:, 5:7] = lambda u, dt: u["t-1"] + dt * (0.1 + jnp.sqrt(0.3 - u["t-1"]))
    return u


def test_values_that_are_not_finite_are_traced_to_step_point_and_rule():
    u = explode()
    reference, level = np.full(16, 0.01), 0
    with np.errstate(invalid="ignore"):
        while np.isfinite(reference).all():
            level += 1
            reference[5:7] += 0.005 * (0.1 + np.sqrt(0.3 - reference[5:7]))
    with pytest.raises(fd.RunError) as caught:
        fd.solve(u, monitors=[fd.monitors.Nan()], save=fd.every(2))
    text = str(caught.value)
    assert f"at level {level}," in text and "x=5" in text and "u[1:, 5:7]" in text, text
    saved = caught.value.solution
    assert len(saved.times) == (level - 1) // 2 + 1
    assert np.isfinite(np.asarray(saved["u"])).all()
    # A run that nobody watches has the same to tell at its end, but for the step.
    with pytest.warns(fd.FdsolveWarning) as told:
        plain = fd.solve(u, save=fd.every(2))
    (text,) = (str(one.message) for one in told)
    wrong = 2 * -(-level // 2)
    before, after = (f"{plain.times[index]:.6g}" for index in (wrong // 2 - 1, wrong // 2))
    assert "`u` is not finite at 2 of 16 points, first at x=5 (0.333333)" in text and "u[1:, 5:7]" in text, text
    assert f"finite up to t = {before} (max |u| = " in text and f"no longer at t = {after} (level {wrong})" in text, (
        text
    )
    assert "monitors=[fd.monitors.Nan()]" in text


@pytest.mark.parametrize(("read", "blamed"), [(False, "u"), (True, "w")])
def test_a_rate_is_blamed_before_what_is_only_made_of_its_field(read, blamed):
    """`w` stands beside a rate of `u`: a rate that reads it comes after it, one that does not before it."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=41), x=fd.Axis(0, 1, num=5))
    u, w = fd.Field("u", grid), fd.Field("w", grid)
    u[...] = fd.rate((lambda w: -4 * w[...]) if read else (lambda u: 40 * u[...] ** 3))
    w[...] = lambda u, r: jnp.sqrt(u[...] - r)
    u[0] = 1.0
    with pytest.raises(fd.RunError, match=rf"`{blamed}` became (nan|inf) .* by `.*` on {blamed}\["):
        fd.solve([w, u], r=0.5 if read else 0.0, monitors=[fd.monitors.Nan()])


def test_a_step_that_an_implicit_method_could_not_take_is_told_as_such():
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 2.0, num=21), x=fd.Axis(0.0, 1.0, num=5)))
    u[...] = fd.rate(lambda u: 3 * u[...] ** 2)
    u[0] = 0.5  # backward Euler has no solution once 4 · 0.3 u > 1
    with pytest.raises(fd.RunError, match=r"`u` became nan at level 4, .*BackwardEuler.* could not reach level 4"):
        fd.solve(u, stepper=fd.schemes.BackwardEuler(), monitors=[fd.monitors.Nan()])


def test_rules_around_a_hole_are_blamed_where_they_hold():
    """Their mask is held from the first point on that the rules reach."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=2), x=fd.Axis(0, 1, num=8), y=fd.Axis(0, 1, num=6)))
    u[...] = fd.rate(lambda u, x: jnp.where(x > 0.8, jnp.nan, 0.1) * fd.schemes.laplacian(u))
    u[0] = 0.0
    u[dict(x=0)] = u[dict(y=[0, -1])] = 0.0
    u[dict(x=-1)] = fd.boundary.Neumann(0.0)
    hole = np.zeros((8, 6), bool)
    hole[3:5, 2:4] = hole[5, 2] = True
    u[hole] = fd.boundary.Neumann(0.0)
    with pytest.warns(fd.FdsolveWarning, match=r"not finite at .*, first at x=6 \(0.857143\), y=1 \(0.2\) by "):
        fd.solve(u, stepper=fd.schemes.Euler())


def test_a_robin_condition_without_a_derivative_is_looked_at():
    """Its b is known only when it runs."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.1, num=5), x=fd.Axis(0.0, 1.0, num=6)))
    u[...] = lambda u, dt: u["t-1"] + 0.1 * dt * fd.schemes.laplacian(u, at="t-1")
    u[0] = 1.0
    u[dict(x=[0, -1])] = fd.boundary.Robin(1.0, lambda b: b, 0.3)
    with pytest.warns(fd.FdsolveWarning, match=r"Look at .*Robin\(1.0, lambda, 0.3\), which divides by b \(where"):
        fd.solve(u, b=0.0)


@pytest.mark.parametrize("every", [5, 40, 1000])
def test_what_was_dispatched_after_a_fault_leaves_no_trace(every):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=101), x=fd.Axis(0.0, 1.0, num=9))
    u = fd.Field("u", grid)
    u[...] = lambda u, dt: u["t-1"] - dt * u["t-1"] ** 0.5 * 3
    u[0, :] = 1.0
    watch = [fd.monitors.Residual(every=every), fd.monitors.Conservation(every=every)]
    with pytest.raises(fd.RunError, match="at level 65") as caught:
        fd.solve(u, monitors=watch, save=fd.every(10))
    saved = caught.value.solution
    np.testing.assert_array_equal(saved.monitors["Conservation"].level, range(0, 65, every))
    assert np.all(np.isfinite(saved["u"])) and len(saved["u"]) == 7
    np.testing.assert_allclose(saved.monitors["Conservation"].total_u[0], 1.0)


def test_large_complex_numbers_are_finite_and_nan_among_them_is_found():
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=21), x=fd.Axis(0.0, 1.0, num=4))
    z = fd.Field("z", grid, dtype=jnp.complex64)
    z[...] = lambda z: z["t-1"]
    z[0] = lambda x: 3e38 * (1 + 1j) + 0 * x  # its size is infinite in this precision, its parts are not
    assert np.all(np.isfinite(fd.solve(z, monitors=[fd.monitors.Probe(x=0.4, every=5)])["z"]))
    z.loc[dict(t=slice(0.5, 1.0))] = lambda z: z["t-1"] + jnp.nan
    with pytest.raises(fd.RunError, match="at level 10"):
        fd.solve(z, monitors=[fd.monitors.Residual(every=5)])


def test_looks_follow_each_other_where_some_can_stop_the_run_and_chunks_are_started_ahead():
    """Each residual is that between two looks, in whatever order chunks are dispatched and taken."""
    watch = [fd.monitors.Residual(every=3), fd.monitors.Residual(every=4), fd.monitors.Steady(1e-30, every=9)]
    solution = fd.solve(heat(), kappa=0.3, monitors=watch)
    u, step = np.asarray(solution["u"]), solution.plan.problem.scope.grid.t.step
    for title, levels in (("Residual", [*range(0, 61, 3)]), ("Residual 2", [*range(0, 61, 4)])):
        rates = [np.max(np.abs(u[b] - u[a])) / ((b - a) * step) for a, b in pairwise(levels)]
        np.testing.assert_array_equal(solution.monitors[title].level, levels)
        np.testing.assert_allclose(solution.monitors[title].rate_u[1:], rates, rtol=1e-6)


def test_an_unstable_step_is_named_with_a_stable_one():
    with pytest.warns(fd.FdsolveWarning, match="unstable"), pytest.raises(fd.RunError, match="take one below"):
        fd.solve(heat(steps=2000, stop=100.0), kappa=3.0, save=fd.final(), monitors=[fd.monitors.Nan()])


def test_control_c_gives_what_there_is():
    def interrupt(look):
        if look.level == 30:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(fd.FdsolveWarning, match="Interrupted at level 30"):
        solution = fd.solve(heat(), kappa=0.3, monitors=[fd.monitors.Callback(interrupt, every=10)])
    assert solution.times[-1] == pytest.approx(0.025) and "interrupted" in solution.stopped


def test_under_jit_monitors_and_bars_are_left_out():
    u = heat()

    def loss(kappa):
        return jnp.sum(fd.solve(u, kappa=kappa, monitors=[fd.monitors.Nan()], progress=True)["u"][-1] ** 2)

    expected = jax.grad(lambda k: jnp.sum(fd.solve(u, kappa=k)["u"][-1] ** 2))(0.3)
    np.testing.assert_allclose(jax.grad(loss)(0.3), expected)


def test_a_bar_tells_steps_and_times(capsys):
    fd.solve(heat(), kappa=0.3, save=fd.final(), progress=True)
    shown = capsys.readouterr().err
    assert "60/60" in shown and "t = 0.05" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(monitors=[3]), "monitors= takes monitors"),
        (dict(monitors=[fd.monitors.Nan]), "write it with parentheses"),
        (dict(monitors=[fd.monitors.Residual("v")]), "not solved for"),
        (dict(monitors=[fd.monitors.Probe(x=2.0)]), "outside axis `x`"),
        (dict(monitors=[fd.monitors.Probe()]), "no coordinate on axis `x`"),
        (dict(monitors=[fd.monitors.CFL(dict(y=1.0))]), "names the axis 'y'"),
        (dict(monitors=[fd.monitors.Conservation(density=lambda w: w)]), "argument `w` is unknown"),
        (dict(progress="yes"), "progress= is True or False"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_monitors_are_refused(options, message):
    with pytest.raises(fd.DeclarationError, match=message):
        fd.solve(heat(), kappa=0.3, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fd.monitors.Nan(every=0), "at least 1"),
        (lambda: fd.monitors.Steady(-1.0), "above 0"),
        (lambda: fd.monitors.Callback(3), "a function"),
        (lambda: fd.Checkpoints(""), "path of a folder"),
        (lambda: fd.stream("x.zarr", 3), "fd.every"),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(fd.DeclarationError, match=message):
        make()


def test_a_run_on_another_thread():
    found = []
    work = threading.Thread(target=lambda: found.append(fd.solve(heat(), kappa=0.3, monitors=[fd.monitors.Nan()])))
    work.start()
    deadline = time.monotonic() + 300
    while work.is_alive() and time.monotonic() < deadline:
        work.join(1.0)
    assert found[0].stopped is None


def cubic(num=65, steps=301):
    """A march that a kernel of its own serves."""
    axis = fd.Axis(0.0, 1.0, num=num)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=steps), x=axis, y=axis))
    u[...] = fd.rate(lambda u, k: -k * u**3)
    u[0] = 1.0
    return u


@pytest.mark.parametrize("kernel", ["auto", "slices"])
def test_the_exception_of_a_callback_arrives_as_it_is_and_nothing_is_run_again(kernel):
    seen = []

    def watch(look):
        seen.append(look.level)
        if look.level == 43:
            raise OSError("my own log is full")

    with pytest.raises(OSError, match="my own log is full"):
        fd.solve(cubic(), k=0.1, save=fd.final(), kernel=kernel, monitors=[fd.monitors.Callback(watch, every=1)])
    assert seen == list(range(44))


def test_a_kernel_that_does_not_build_gives_way_before_anyone_looks_and_anything_is_written(tmp_path):
    seen = []

    @kernels.register("stencil", backend="tests.broken", priority=1000)
    def broken(call, values, weights):
        raise OSError("no compiler")

    options = dict(save=fd.stream(tmp_path / "run.zarr", fd.every(25)))
    options["monitors"] = [
        fd.Checkpoints(tmp_path / "run", 50),
        fd.monitors.Callback(lambda look: seen.append(look.level), every=25),
    ]
    try:
        with (
            kernels.use({"march": "slices"}),
            pytest.warns(fd.FdsolveWarning, match="`tests.broken` for `stencil` failed to build"),
        ):
            solution = fd.solve(wave(), c=0.4, **options)
    finally:
        kernels.withdraw("stencil", "tests.broken")
        kernels.forget()
    assert seen == [0, 25, 50, 75] and len(solution["p"]) == 4
    np.testing.assert_array_equal(fd.resume(tmp_path / "run")["p"], solution["p"])


def test_receivers_alone_give_their_records():
    places = fd.receivers(dict(x=[0.21, 0.77]), every=3)
    plain = fd.solve(heat(), kappa=0.2, save=places)
    watched = fd.solve(heat(), kappa=0.2, save=places, monitors=[fd.monitors.Nan(every=13)])
    np.testing.assert_allclose(plain["u"], watched["u"], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(plain.times, watched.times)
    assert watched.to_xarray().sizes == plain.to_xarray().sizes


@pytest.mark.parametrize("beside", [[], [fd.every(5)]], ids=["alone", "beside saves"])
def test_records_end_where_the_run_does(beside):
    save, stop = (
        [*beside, fd.receivers(dict(x=[0.21]), every=3)],
        fd.monitors.Callback(lambda look: look.level == 20, 10),
    )
    whole = fd.solve(heat(), kappa=0.2, save=save).receivers
    ended = fd.solve(heat(), kappa=0.2, save=save, monitors=[stop])
    assert ended.receivers["u"].shape == (7, 1) and ended.receivers.to_xarray().sizes["t"] == 7
    np.testing.assert_array_equal(ended.receivers.times, whole.times[:7])
    np.testing.assert_allclose(ended.receivers["u"], whole["u"][:7], rtol=0, atol=1e-15)
