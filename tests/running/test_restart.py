"""Stores that are written while a run goes on, and runs that go on after a break."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr

import fdsolve as fd
from fdsolve.running import Keeper

from .killed import EVERY, reference

PROGRAM = """
import sys
import jax
jax.config.update("jax_enable_x64", True)
sys.path.insert(0, {root!r})
from tests.running.killed import {name}
{name}({folder!r})
"""


def decay(steps=60, dtype=None, holes=False):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=steps + 1), x=fd.Axis(0, 1, num=9), y=fd.Axis(0, 1, num=5))
    u = fd.Field("u", grid, dtype=dtype)
    u[...] = lambda u, k, dt: u["t-1"] * (1 - k * dt)
    u[0] = lambda x, y: 1.0 + x - y
    if holes:
        u[dict(x=slice(3, 5), y=slice(1, 3))] = fd.boundary.Neumann(0.0)
    return u


@pytest.mark.parametrize("save", [fd.every(1), fd.every(7), fd.at([0.5, 1.0]), fd.final()], ids=repr)
def test_a_streamed_run_has_the_same_numbers(save, tmp_path):
    u = decay(holes=True)
    plain = fd.solve(u, k=0.7, save=save)
    streamed = fd.solve(u, k=0.7, save=fd.stream(tmp_path / "run.zarr", save))
    np.testing.assert_array_equal(plain["u"], streamed["u"])
    np.testing.assert_array_equal(plain.final["u"], streamed.final["u"])
    found = xr.open_zarr(tmp_path / "run.zarr", consolidated=False)
    np.testing.assert_array_equal(found.u.values, plain["u"])
    np.testing.assert_allclose(found.t.values, plain.times, rtol=1e-15)
    assert "run.zarr" in repr(streamed)
    xr.testing.assert_equal(streamed.to_xarray().u.load(), plain.to_xarray().u)


def test_a_store_that_is_there_is_not_written_over_unasked(tmp_path):
    path, u = tmp_path / "run.zarr", decay(20)
    fd.solve(u, k=0.7, save=fd.stream(path))
    with pytest.raises(fd.FdsolveError, match="There is a Zarr store"):
        fd.solve(u, k=0.7, save=fd.stream(path))
    again = fd.solve(u, k=0.1, save=fd.stream(path, overwrite=True))
    np.testing.assert_allclose(again["u"][-1], np.asarray(again["u"][0]) * (1 - 0.1 / 20) ** 20)


def test_what_was_streamed_stays_when_values_are_not_finite(tmp_path):
    u = decay(200)
    u[150] = np.nan
    with pytest.raises(fd.RunError, match="at level 150") as caught:
        fd.solve(u, k=0.7, save=fd.stream(tmp_path / "run.zarr", fd.every(10)))
    assert caught.value.solution.times[-1] == pytest.approx(0.7)
    assert xr.open_zarr(tmp_path / "run.zarr", consolidated=False).sizes["t"] == 15


def test_going_on_from_a_checkpoint_is_exact(tmp_path):
    u = decay(90)
    monitors = [
        fd.Checkpoints(tmp_path / "run", every=40),
        fd.monitors.Residual(every=15),
        fd.monitors.Probe(x=0.3, y=0.2),
    ]
    whole = fd.solve(u, k=0.7, save=[fd.every(4), fd.receivers(dict(x=[0.5], y=[0.5]))], monitors=monitors)
    newest = sorted((tmp_path / "run").glob("level-*"))
    assert [one.name for one in newest] == ["level-000000000080", "level-000000000090"]
    os.rename(newest[1], tmp_path / "gone")
    again = fd.resume(tmp_path / "run")
    np.testing.assert_array_equal(whole["u"], again["u"])
    np.testing.assert_array_equal(whole.receivers["u"], again.receivers["u"])
    for title, kept in whole.monitors.items():
        xr.testing.assert_identical(kept, again.monitors[title])


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside receivers"])
def test_a_run_that_broke_off_before_its_first_checkpoint_begins_anew(tmp_path, beside):
    def save(overwrite=False):
        store = fd.stream(tmp_path / "run.zarr", fd.every(4), overwrite=overwrite)
        return [store, fd.receivers(dict(x=[0.5], y=[0.5]))] if beside else store

    whole = fd.solve(decay(90), k=0.7, save=save(), monitors=[fd.Checkpoints(tmp_path / "run", every=40)])
    expected = np.asarray(whole["u"])
    for one in (tmp_path / "run").glob("level-*"):
        shutil.rmtree(one)
    np.testing.assert_array_equal(fd.resume(tmp_path / "run")["u"], expected)


def test_checkpoints_that_cannot_be_read_are_told_and_nothing_is_written_over(tmp_path):
    monitors = [fd.Checkpoints(tmp_path / "run", every=40)]
    fd.solve(decay(90), k=0.7, save=fd.stream(tmp_path / "run.zarr", fd.every(4)), monitors=monitors)
    before = xr.open_zarr(tmp_path / "run.zarr", consolidated=False).u.values
    for one in (tmp_path / "run").glob("level-*"):
        shutil.rmtree(one / "leaf-0")
    with pytest.raises(fd.RunError, match="None of the 2 checkpoints"):
        fd.resume(tmp_path / "run")
    np.testing.assert_array_equal(xr.open_zarr(tmp_path / "run.zarr", consolidated=False).u, before)


def test_a_refused_store_is_never_taken_for_the_run_s_own(tmp_path):
    fd.solve(decay(20), k=0.7, save=fd.stream(tmp_path / "mine.zarr"))
    before = xr.open_zarr(tmp_path / "mine.zarr", consolidated=False).u.values
    with pytest.raises(fd.RunError, match="already"):
        fd.solve(decay(90), k=0.1, save=fd.stream(tmp_path / "mine.zarr"), monitors=[fd.Checkpoints(tmp_path / "run")])
    with pytest.raises(fd.RunError, match="holds no checkpoints"):
        fd.resume(tmp_path / "run")
    np.testing.assert_array_equal(xr.open_zarr(tmp_path / "mine.zarr", consolidated=False).u, before)


def test_folders_that_hold_something_else_are_refused(tmp_path):
    with pytest.raises(fd.RunError, match="holds no checkpoints"):
        fd.resume(tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(fd.RunError, match="holds something else"):
        fd.solve(decay(20), k=0.7, monitors=[fd.Checkpoints(tmp_path)])
    with pytest.raises(fd.RunError, match="serves a run"):
        fd.solve(decay(20), k=0.7, monitors=[fd.Checkpoints(tmp_path / "a"), fd.Checkpoints(tmp_path / "b")])


def broken_off(folder, at, k=0.7, save=None, every=20, **options):
    """A run that breaks off at a level; the folder of its checkpoints."""
    gone = folder / "broken-off"

    def stop(look):
        if look.level == at and not gone.exists():
            gone.touch()
            raise SystemExit

    monitors = [fd.Checkpoints(folder / "run", every, **options), fd.monitors.Callback(stop, every=1)]
    with pytest.raises(SystemExit):
        fd.solve(decay(90), k=k, save=fd.every(5) if save is None else save, monitors=monitors)
    return folder / "run"


@pytest.mark.parametrize("at", [57, 10], ids=["", "before the first checkpoint"])
def test_a_store_that_another_run_has_taken_is_left_alone(tmp_path, at):
    path = tmp_path / "run.zarr"
    folder = broken_off(tmp_path, at, save=fd.stream(path, fd.every(5)))
    shutil.rmtree(path)
    another = np.asarray(fd.solve(decay(90), k=0.1, save=fd.stream(path, fd.every(5)))["u"])
    with pytest.raises(fd.RunError, match="was written by another run" if at == 57 else "a Zarr store at .* already"):
        fd.resume(folder)
    np.testing.assert_array_equal(fd.open_dataset(path).u, another)


@pytest.mark.parametrize("save", [fd.every(5), fd.receivers(dict(x=[0.5], y=[0.5]))], ids=["levels", "receivers"])
def test_checkpoints_of_a_run_that_was_broken_off_are_kept_unless_told(tmp_path, save):
    whole = fd.solve(decay(90), k=0.7, save=save)
    folder = broken_off(tmp_path, 57, save=save)
    with pytest.raises(fd.RunError, match=r"has not ended. Go on with it by fd.resume\(.*overwrite=True"):
        fd.solve(decay(90), k=0.1, save=save, monitors=[fd.Checkpoints(folder)])
    again = fd.resume(folder)
    np.testing.assert_allclose(again["u"], whole["u"], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(again.times, whole.times)
    # It has ended now: another may take the folder.
    fd.solve(decay(90), k=0.1, save=save, monitors=[fd.Checkpoints(folder)])
    (tmp_path / "broken-off").unlink()
    broken_off(tmp_path, 57)
    fd.solve(decay(90), k=0.1, save=save, monitors=[fd.Checkpoints(folder, overwrite=True)])


def test_a_run_that_goes_on_has_not_ended(tmp_path):
    folder = broken_off(tmp_path, 85)
    fd.resume(folder)
    (tmp_path / "broken-off").unlink()
    shutil.rmtree(sorted(folder.glob("level-*"))[-1])
    with pytest.raises(SystemExit):
        fd.resume(folder)
    with pytest.raises(fd.RunError, match="has not ended"):
        fd.solve(decay(90), k=0.1, monitors=[fd.Checkpoints(folder)])


def test_a_folder_without_a_checkpoint_may_be_given_again(tmp_path):
    folder = broken_off(tmp_path, 10)
    assert fd.solve(decay(90), k=0.7, monitors=[fd.Checkpoints(folder)]).stopped is None


def test_a_store_holds_the_times_that_were_asked_for(tmp_path):
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=101), x=fd.Axis(0.0, 1.0, num=8))
    u = fd.Field("u", grid)
    u[...] = lambda u: 0.9 * u["t-1"]
    u[0] = lambda x: x
    save = fd.at([0.1, 0.35, 1.0])
    stored = fd.solve(u, save=fd.stream(tmp_path / "run.zarr", save))
    np.testing.assert_array_equal(stored.to_xarray().t, [0.1, 0.35, 1.0])
    np.testing.assert_array_equal(stored.to_xarray().t, stored.times)
    for wrong in ([0.352, 0.9], [0.9, 0.5], [0.5, 0.5]):  # a store grows by levels: the solution's times would differ
        with pytest.raises(fd.DeclarationError, match=r"give times of levels to .*, ascending, each once"):
            fd.solve(u, save=fd.stream(tmp_path / "wrong.zarr", fd.at(wrong)))
    assert not (tmp_path / "wrong.zarr").exists()
    between = fd.at([0.352, 0.9])
    kept = fd.solve(u, save=between, monitors=[fd.Checkpoints(tmp_path / "run")])
    np.testing.assert_array_equal(kept["u"], fd.solve(u, save=between)["u"])
    with fd.open_dataset(tmp_path / "run" / "saved.zarr") as levels:
        np.testing.assert_array_equal(levels.t, grid.t.points[[35, 36, 90]])


def test_a_disk_that_is_full_is_told_with_what_is_left(tmp_path, monkeypatch):
    write = Keeper._write

    def full(keeper, beside, level, *state):
        write(keeper, beside, level, *state)
        if level == 40:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Keeper, "_write", full)
    with pytest.raises(fd.RunError, match=r"checkpoint of level 40 could not be written to .*run: OSError.*fd.resume"):
        fd.solve(decay(90), k=0.7, monitors=[fd.Checkpoints(tmp_path / "run", 20)])
    assert sorted(os.listdir(tmp_path / "run")) == ["level-000000000020", "problem.pickle", "saved.zarr"]
    monkeypatch.undo()
    np.testing.assert_array_equal(fd.resume(tmp_path / "run")["u"], fd.solve(decay(90), k=0.7)["u"])


def test_what_cannot_be_read_or_is_no_folder_is_told(tmp_path):
    fd.solve(decay(20), k=0.7, monitors=[fd.Checkpoints(tmp_path / "run", 10)])
    problem = tmp_path / "run" / "problem.pickle"
    problem.write_bytes(problem.read_bytes()[:100])
    with pytest.raises(fd.RunError, match=r"declaration in .*problem.pickle cannot be read: .* To begin anew"):
        fd.resume(tmp_path / "run")
    with pytest.raises(fd.RunError, match=r"is a file; give fd.Checkpoints the path of a folder"):
        fd.solve(decay(20), k=0.7, monitors=[fd.Checkpoints(problem)])


def test_killed_at_a_random_moment_nothing_saved_is_lost(tmp_path):
    seed = random.SystemRandom().randrange(10**6)
    folder, wait = str(tmp_path / "run"), random.Random(seed).uniform(0.0, 1.0)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    text, rest = (PROGRAM.format(root=root, folder=folder, name=name) for name in ("run", "go_on"))
    work = subprocess.Popen([sys.executable, "-c", text], env={**os.environ, "XLA_FLAGS": ""})
    deadline = time.monotonic() + 240
    while not list((tmp_path / "run").glob("level-*")) and time.monotonic() < deadline and work.poll() is None:
        time.sleep(0.01)
    time.sleep(wait)
    work.send_signal(signal.SIGKILL)
    work.wait()
    newest = max(int(one.name.split("-")[1]) for one in (tmp_path / "run").glob("level-*"))
    # As xarray reads by itself: the metadata of the whole store, which change in one step; array by array they do not.
    stored = xr.open_zarr(tmp_path / "run" / "saved.zarr")
    kept = stored.sizes["t"]
    assert kept >= newest // EVERY + 1, (seed, kept, newest)
    before = stored.u.values
    finished = subprocess.run(
        [sys.executable, "-c", rest],
        env={**os.environ, "XLA_FLAGS": ""},
        capture_output=True,
        timeout=300,
    )
    assert finished.returncode == 0, (seed, finished.stderr[-2000:])
    found, expected = np.load(f"{folder}-final.npy"), reference(tmp_path)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(before, expected[:kept])
