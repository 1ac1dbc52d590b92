"""The persistent cache: corrupt files, several writers at once, and writers that are killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fdsolve.kernels import _cache

WRITER = Path(__file__).with_name("cache_writer.py")
RECORD = {"backend": "slices", "times": [["slices", 1e-3]], "refused": []}


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv(_cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def start_writer(name, count):
    return subprocess.Popen([sys.executable, str(WRITER), name, str(count)], stdout=subprocess.PIPE, text=True)


def test_what_is_written_is_read(folder):
    assert _cache.read("key") is None
    assert _cache.write("key", RECORD) is None
    assert _cache.read("key") == RECORD and _cache.read("other key") is None
    assert _cache.write("key", {**RECORD, "backend": "conv"}) is None
    assert _cache.read("key") == {**RECORD, "backend": "conv"}
    assert len(list(folder.iterdir())) == 1


def whole():
    return json.dumps({"key": "key", "record": RECORD, "digest": _cache._digest(RECORD)})


CORRUPT = {
    "empty": b"",
    "half": whole().encode()[: len(whole()) // 2],
    "no text": bytes(range(128, 256)),
    "another key": whole().replace('"key": "key"', '"key": "other"').encode(),
    "another record": whole().replace("slices", "conv").encode(),
    "a list": b"[1, 2]",
    "no record": b'{"key": "key"}',
    "record of another kind": b'{"key": "key", "record": 3, "digest": 4}',
    "nested without end": b"[" * 200_000,
}


@pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT.keys())
def test_a_corrupt_file_counts_as_absent_and_is_written_over(folder, content):
    _cache.write("key", RECORD)
    _cache.path_of("key").write_bytes(content)
    assert _cache.read("key") is None
    assert _cache.write("key", RECORD) is None and _cache.read("key") == RECORD


def test_a_folder_in_place_of_the_file_counts_as_absent(folder):
    _cache.path_of("key").mkdir(parents=True)
    assert _cache.read("key") is None
    assert _cache.write("key", RECORD) is not None


def test_a_folder_that_cannot_be_made_is_said_and_nothing_else(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(_cache.VARIABLE, str(tmp_path / "file" / "cache"))
    assert _cache.read("key") is None
    assert "Not a directory" in _cache.write("key", RECORD)


def test_where_measurements_are_kept(monkeypatch, folder):
    assert _cache.cache_folder() == folder
    monkeypatch.setenv(_cache.VARIABLE, "")
    assert _cache.cache_folder() is None and _cache.read("key") is None
    assert _cache.write("key", RECORD) == "FDSOLVE_CACHE_DIR is empty"
    monkeypatch.delenv(_cache.VARIABLE)
    for system, variable in (("linux", "XDG_CACHE_HOME"), ("win32", "LOCALAPPDATA")):
        monkeypatch.setattr(sys, "platform", system)
        monkeypatch.setenv(variable, str(folder))
        assert _cache.cache_folder() == folder / "fdsolve"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert _cache.cache_folder() == Path.home() / "Library" / "Caches" / "fdsolve"


def test_a_user_without_a_folder_keeps_nothing(monkeypatch):
    """A container may run under a number that no list of users has, without HOME."""

    def unknown():
        raise RuntimeError("Could not determine home directory.")

    for variable in (_cache.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(Path, "home", unknown)
    assert _cache.cache_folder() is None and _cache.read("key") is None
    assert "no folder" in _cache.write("key", RECORD)


def test_the_key_tells_device_versions_operation_and_work():
    key = _cache.make_key("cpu of a kind", "stencil", "shape 4", "slices abc")
    assert key.splitlines()[0] == "cpu of a kind" and "jaxlib " in key and "python " in key
    assert key.splitlines()[2:] == ["stencil", "shape 4", "slices abc"]


def test_leftovers_of_writers_that_died_are_swept_when_old(folder):
    folder.mkdir()
    old, new = folder / "writing-old.tmp", folder / "writing-new.tmp"
    for one in (old, new):
        one.write_text("{")
    os.utime(old, (1, 1))
    _cache.write("key", RECORD)
    assert not old.exists() and new.exists() and _cache.read("key") == RECORD


def test_four_writers_at_once_and_one_killed_leave_whole_files():
    """Whatever is read while four processes write the same files is whole; a fifth is killed in the midst of it."""
    doomed = start_writer("doomed", 0)
    writers = [start_writer(f"writer {n}", 40) for n in range(4)]
    try:
        assert all(one.stdout.readline() == "writing\n" for one in (doomed, *writers))
        seen = []
        while any(one.poll() is None for one in writers):
            found = [_cache.read(f"key {n}") for n in range(3)]
            for record in filter(None, found):
                assert len(record["text"]) == 20_000
                seen.append(record["backend"])
            doomed.kill()  # SIGKILL: at some point of a write
        assert [one.wait(60) for one in writers] == [0] * 4 and doomed.wait(60) == -9
        last = [_cache.read(f"key {n}") for n in range(3)]
        assert all(record is not None and record["backend"].startswith("writer") for record in last)
    finally:
        for one in (doomed, *writers):
            one.kill()
            one.wait()
            one.stdout.close()
    assert _cache.write("key 0", RECORD) is None and _cache.read("key 0") == RECORD


@pytest.mark.parametrize("cut", [0.2, 0.9, None], ids=["early", "late", "written, not moved"])
def test_a_writer_killed_at_a_known_place_leaves_the_record_before(folder, cut):
    """A process that kills itself while its file is written aside: at a part of it, or before it is moved."""
    _cache.write("key", RECORD)
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(WRITER.parent)!r})
from cache_writer import load_cache
_cache = load_cache()
cut = {cut}
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
if cut is None:
    os.replace = die
else:
    real = _cache.json.dumps
    def half(made, **options):
        text = real(made, **options)
        if "record" in made:
            os.fsync = die
            return text[:int(len(text) * cut)]
        return text
    _cache.json.dumps = half
_cache.write("key", dict(backend="conv", times=[], refused=[]))
"""
    run = subprocess.run([sys.executable, "-c", script], timeout=120)
    assert run.returncode == -9
    assert _cache.read("key") == RECORD
    assert len(list(folder.glob("writing-*.tmp"))) == 1
    assert _cache.write("key", {**RECORD, "backend": "conv"}) is None and _cache.read("key")["backend"] == "conv"
