"""Streams: what readers find while a store is written, after a kill, after it was cut and gone on with."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import fdsolve as fd
from fdsolve.files import ZarrStream, open_dataset
from fdsolve.files import _held as held
from fdsolve.files import _stream as module

ROOT = Path(__file__).parents[2]


def template(dtype=float, **attrs):
    fields = {"u": (("t", "x"), np.empty((0, 4), dtype)), "v": (("t", "x"), np.empty((0, 4)))}
    coords = {"t": ("t", np.empty(0), {"units": "s"}), "x": ("x", np.arange(4.0), {"units": "m", "axis": "X"})}
    return xr.Dataset({**fields, "map": ("x", np.arange(4))}, coords, attrs=attrs)


def saves(count, seed=0, dtype=float):
    random = np.random.default_rng(seed)
    u = random.normal(size=(count, 4)).astype(dtype)
    if u.dtype.kind == "c":
        u = (u + 1j * random.normal(size=(count, 4))).astype(dtype)
    v = random.normal(size=(count, 4))
    v[0], v[1, 2] = -0.0, np.nan
    return np.arange(float(count)), {"u": u, "v": v}


def part(arrays, start, stop):
    return {name: array[start:stop] for name, array in arrays.items()}


def check(path, times, arrays):
    with open_dataset(path) as found:
        np.testing.assert_array_equal(found.t, times)
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            assert found[name].values.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [float, np.complex64, np.float32])
def test_blocks_of_any_length_come_back_bit_for_bit(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(module, "MOST_SAVES", 5)
    times, arrays = saves(23, dtype=dtype)
    with ZarrStream(tmp_path / "run.zarr", template(dtype, title="a run"), 23) as stream:
        for start, stop in ((0, 1), (1, 1), (1, 8), (8, 10), (10, 23)):
            stream.append(times[start:stop], part(arrays, start, stop))
        assert stream.num_saved == 23
    check(tmp_path / "run.zarr", times, arrays)
    with xr.open_zarr(tmp_path / "run.zarr", chunks=None) as plain:
        assert plain.attrs["title"] == "a run" and plain.x.attrs == {"units": "m", "axis": "X"}
        np.testing.assert_array_equal(plain["map"], np.arange(4))
    assert [one.name for one in tmp_path.iterdir()] == ["run.zarr"]  # nothing is left of the writing beside


def test_flush_shows_everything_and_before_it_whole_saves_alone(tmp_path):
    times, arrays = saves(12)
    stream = ZarrStream(tmp_path / "run.zarr", template(), 100)
    for start in range(0, 12, 3):
        stream.append(times[start : start + 3], part(arrays, start, start + 3))
        stream.flush()
        assert stream.num_shown == stream.num_saved == start + 3
        check(tmp_path / "run.zarr", times[: start + 3], part(arrays, 0, start + 3))
    stream.close()


def test_what_was_flushed_is_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_SAVES", 5)
    synced = {}

    def note(number):
        state = os.fstat(number)
        synced[state.st_ino] = state.st_mtime_ns

    monkeypatch.setattr(os, "fsync", note)
    times, arrays = saves(17)
    path = tmp_path / "run.zarr"
    stream = ZarrStream(path, template())
    for start, stop in ((0, 3), (3, 4), (4, 17)):  # the second rewrites a chunk, the third ends it and makes more
        stream.append(times[start:stop], part(arrays, start, stop))
        stream.flush()
        everything = [path, *path.rglob("*")]
        late = [one for one in everything if synced.get(one.stat().st_ino) != one.stat().st_mtime_ns]
        assert not late and len(everything) > 10
        check(path, times[:stop], part(arrays, 0, stop))
    stream.close()


def test_a_reader_beside_the_writer_finds_lengths_that_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_SAVES", 8)
    path, done, lengths, wrong = tmp_path / "run.zarr", threading.Event(), [], []
    stream = ZarrStream(path, template(), None)

    def watch():
        while True:
            last = done.is_set()
            with open_dataset(path) as found:
                count = found.sizes["t"]
                good = found.u.shape == found.v.shape == (count, 4)
                same = np.array_equal(found.u, np.broadcast_to(found.t.values[:, None], (count, 4)))
                lengths.append(count)
                if not (good and same and np.array_equal(found.v, -found.u)):
                    wrong.append(count)
            if last:
                return

    reader = threading.Thread(target=watch)
    reader.start()
    for number in range(30):
        block = np.full((2, 4), 0.0) + np.array([[2.0 * number], [2.0 * number + 1]])
        stream.append(block[:, 0], {"u": block, "v": -block})
    stream.close()
    done.set()
    reader.join()
    assert not wrong
    assert lengths == sorted(lengths) and lengths[-1] == 60


def test_between_two_writes_of_metadata_the_group_fits_and_no_array_is_shorter_than_the_times(tmp_path, monkeypatch):
    path, write, seen = tmp_path / "run.zarr", held.replace_file, []

    def lengths():
        return {name: zarr.open_array(path / name, mode="r").shape[0] for name in "tuv"}

    def spy(place, content, on_disk=False):
        write(place, content, on_disk)
        if place.name == "zarr.json" and place.is_relative_to(path):
            alone = lengths()
            with xr.open_zarr(path, chunks=None) as found:
                assert found.u.shape == found.v.shape == (found.sizes["t"], 4)
            assert alone["t"] <= min(alone["u"], alone["v"])
            seen.append(alone["u"] == alone["t"])

    with ZarrStream(path, template(), 16) as stream:
        for module_of in (held, module):
            monkeypatch.setattr(module_of, "replace_file", spy)
        times, arrays = saves(12)
        for start in (0, 4):
            stream.append(times[start : start + 4], part(arrays, start, start + 4))
            stream.flush()
    with ZarrStream.reopen(path, 3) as stream:
        stream.append(times[3:], part(arrays, 3, 12))
    assert not all(seen)  # one who reads them alone can come in between
    monkeypatch.undo()
    check(path, times, arrays)


def test_a_killed_writer_leaves_a_readable_store_to_go_on_with(tmp_path):
    path = tmp_path / "run.zarr"
    command = [sys.executable, str(Path(__file__).with_name("endless.py")), str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        shown = [int(writer.stdout.readline()) for _ in range(4)][-1]
        writer.send_signal(signal.SIGKILL)
    with open_dataset(path) as found:
        count = found.sizes["t"]
        assert count >= shown
        np.testing.assert_array_equal(found.t, np.arange(count))
        np.testing.assert_array_equal(found.u, np.broadcast_to(np.arange(count)[:, None], (count, 64)))
        np.testing.assert_array_equal(found.v, -found.u)
    with ZarrStream.reopen(path, shown - 2) as stream:
        stream.append([99.0], {"u": np.full((1, 64), 99.0), "v": np.zeros((1, 64))})
    with open_dataset(path) as found:
        np.testing.assert_array_equal(found.t, [*range(shown - 2), 99])
        np.testing.assert_array_equal(found.u[:, 3], [*range(shown - 2), 99])


@pytest.mark.parametrize("kept", [0, 3, 5, 12])
def test_reopening_cuts_and_goes_on(tmp_path, monkeypatch, kept):
    monkeypatch.setattr(module, "MOST_SAVES", 5)
    (times, arrays), (_, others) = saves(13), saves(13, seed=1)
    with ZarrStream(tmp_path / "run.zarr", template()) as stream:
        stream.append(times, arrays)
    with ZarrStream.reopen(tmp_path / "run.zarr", kept, 13) as stream:
        check(tmp_path / "run.zarr", times[:kept], part(arrays, 0, kept))
        assert sum(1 for _ in (tmp_path / "run.zarr" / "u").rglob("c/*/*")) == -(-kept // 5)
        stream.append(times[kept:], part(others, kept, 13))
    both = {name: np.concatenate([arrays[name][:kept], others[name][kept:]]) for name in arrays}
    check(tmp_path / "run.zarr", times, both)
    assert ZarrStream.reopen(tmp_path / "run.zarr", 13).read()["u"].tobytes() == both["u"].tobytes()


def test_datetimes_are_kept_to_the_nanosecond(tmp_path):
    origin = np.datetime64("2016-06-01T00:00:00.000000001", "ns")
    times = origin + np.arange(4) * np.timedelta64(1_500_000_003, "ns")
    start = template().drop_vars("t").assign_coords(t=("t", np.empty(0, "datetime64[ns]")))
    _, arrays = saves(4)
    with ZarrStream(tmp_path / "run.zarr", start) as stream:
        stream.append(times, arrays)
        with pytest.raises(fd.DeclarationError, match="holds datetimes"):
            stream.append([0.0], part(arrays, 0, 1))
    check(tmp_path / "run.zarr", times, arrays)


def test_large_saves_are_split_and_small_ones_gathered():
    chunks = module._chunks
    big = xr.Dataset({"u": (("t", "x", "y", "z"), np.empty((0, 512, 512, 512), np.float32))}, {"t": np.empty(0)})
    assert chunks(big, "t", 100)["u"] == (1, 256, 256, 256)
    middle = xr.Dataset({"u": (("t", "x", "y"), np.empty((0, 1024, 1024)))}, {"t": np.empty(0)})
    assert chunks(middle, "t", None)["u"] == (4, 1024, 1024)
    assert chunks(middle, "t", 3)["u"] == (3, 1024, 1024)
    small = xr.Dataset({"u": (("t", "x"), np.empty((0, 10)))}, {"t": np.empty(0)})
    assert chunks(small, "t", None)["u"] == (module.MOST_SAVES, 10)


def test_errors_of_the_thread_reach_the_caller(tmp_path, monkeypatch):
    times, arrays = saves(3)
    stream = ZarrStream(tmp_path / "run.zarr", template())
    stream.append(times[:2], part(arrays, 0, 2))
    stream.flush()

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(module, "publish", full)
    stream.append(times[2:], part(arrays, 2, 3))
    with pytest.raises(fd.RunError, match=r"failed after 2 saves, which can be read: OSError: No space left"):
        stream.flush()
    with pytest.raises(fd.RunError, match="No space left"):
        stream.append(times[2:], part(arrays, 2, 3))
    with pytest.raises(fd.RunError, match="No space left"):
        stream.close()
    check(tmp_path / "run.zarr", times[:2], part(arrays, 0, 2))


def test_what_does_not_fit_is_refused(tmp_path):
    path = tmp_path / "run.zarr"
    times, arrays = saves(2)
    with ZarrStream(path, template()) as stream:
        for wrong, words in (
            ({"u": arrays["u"]}, "takes u, v with every save, got u"),
            ({**arrays, "u": arrays["u"][:1]}, r"`u` of 2 saves has the shape \(2, 4\)"),
            ({**arrays, "u": arrays["u"].astype(np.float32)}, "dtype float64, got .* float32"),
        ):
            with pytest.raises(fd.DeclarationError, match=words):
                stream.append(times, wrong)
    with pytest.raises(fd.RunError, match="is closed"):
        stream.append(times, arrays)
    with pytest.raises(fd.RunError, match=r"a Zarr store at .* already"):
        ZarrStream(path, template())
    with pytest.raises(fd.RunError, match="holds 0 saves; it cannot be cut to 3"):
        ZarrStream.reopen(path, 3)
    with pytest.raises(fd.RunError, match="no Zarr store"):
        ZarrStream.reopen(tmp_path / "nothing.zarr", 0)
    with pytest.raises(fd.DeclarationError, match="one dimension of length 0"):
        ZarrStream(tmp_path / "other.zarr", template().isel(x=slice(0)))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("keep me")
    with pytest.raises(fd.RunError, match="something else"):
        ZarrStream(tmp_path / "notes", template(), overwrite=True)
    ZarrStream(path, template(title="new"), overwrite=True).close()
    with open_dataset(path) as found:
        assert found.attrs == {"title": "new"} and found.sizes["t"] == 0
