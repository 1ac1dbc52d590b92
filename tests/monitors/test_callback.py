"""What a Callback gives: reasons to stop, and records."""

import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd


def decay(name="u", num=51):
    u = fd.Field(name, fd.Grid(t=fd.Time(0.0, 1.0, num=num), x=fd.Axis(0.0, 1.0, num=4)))
    u[...] = 1.0
    u[0] = lambda x: x
    return u


def watched(answer, every=10, name="u"):
    watch = fd.monitors.Callback(lambda look: answer(look.level), every=every)
    return fd.solve(decay(name), save=fd.final(), monitors=[watch])


@pytest.mark.parametrize("make", [bool, np.bool_, np.asarray, jnp.asarray])
def test_true_stops_and_false_goes_on(make):
    assert watched(lambda level: make(level > 100)).stopped is None
    stopped = watched(lambda level: make(level >= 30))
    assert stopped.stopped == "Callback said so"
    np.testing.assert_allclose(stopped.times, [0.6])


@pytest.mark.parametrize("answer", [0.0, 1, [], np.zeros(2, bool), np.float64(0.0)], ids=repr)
def test_other_answers_are_refused(answer):
    with pytest.raises(fd.RunError, match="at level 0; give None or False to go on"):
        watched(lambda level: answer)


@pytest.mark.parametrize("told", [dict(a="large"), {1: 2.0}, dict(a=None)], ids=repr)
def test_what_is_no_number_is_refused(told):
    with pytest.raises(fd.RunError, match="numbers or arrays of numbers by names"):
        watched(lambda level: told)


@pytest.mark.parametrize("last", [20, 30], ids=["in between", "at the end"])
def test_numbers_of_some_looks_are_nan_at_the_others(last):
    def answer(level):
        rare = dict(rare=level, row=np.arange(3, dtype=np.float32)) if level == last else {}
        return dict(peak=1.0 * level) | rare

    kept = watched(answer).monitors["Callback"]
    there = kept.level.values == last
    assert there.sum() == 1 and kept.row.dtype == np.float32
    np.testing.assert_array_equal(kept.peak, kept.level)
    np.testing.assert_array_equal(np.isnan(kept.rare), ~there)
    assert kept.rare.values[there] == last
    np.testing.assert_array_equal(kept.row[there], [[0, 1, 2]])
    assert np.isnan(kept.row[~there]).all()


def test_arrays_of_changing_shape_are_told():
    with pytest.raises(fd.RunError, match=r"Callback: `row` has the shapes \(1,\) and \(2,\)"):
        watched(lambda level: dict(row=np.zeros(1 + (level > 20)))).monitors["Callback"]


def test_numbers_with_the_names_of_coordinates_are_kept():
    kept = watched(lambda level: dict(level=7.0, t=2.0 * level)).monitors["Callback"]
    np.testing.assert_array_equal(kept.measured_level, 7.0)
    np.testing.assert_array_equal(kept.measured_t, 2 * kept.level)
    probe = fd.monitors.Probe(x=1.0, every=25)
    (kept,) = fd.solve(decay("level"), save=fd.final(), monitors=[probe]).monitors.values()
    np.testing.assert_array_equal(kept.measured_level, [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(kept.level, [0, 25, 50])
