"""Files: Datasets come back bit for bit from NetCDF and Zarr, lazily, complex numbers among them."""

import builtins
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import fdsolve as fd
from fdsolve.files import _atomic, time_units

WRITERS = {
    "netcdf4": lambda data, path: fd.to_netcdf(data, path, engine="netcdf4"),
    "h5netcdf": lambda data, path: fd.to_netcdf(data, path, engine="h5netcdf"),
    "compressed": lambda data, path: fd.to_netcdf(data, path, compression=4),
    "zarr": fd.to_zarr,
}


def mixed():
    """Numbers of every kind, with what is lost easily: signs of zeros, infinities in halves, nan, nanoseconds."""
    random = np.random.default_rng(0)
    whole = random.normal(size=(3, 4)) + 1j * random.normal(size=(3, 4))
    whole[0] = complex(-0.0, np.inf), complex(np.inf, -0.0), complex(np.nan, 1.0), complex(0.0, -0.0)
    real = random.normal(size=(3, 4))
    real[0], real[1, 1] = -0.0, np.nan
    times = np.datetime64("2016-06-01T00:00:00.5", "ns") + np.arange(3) * np.timedelta64(333_333_333, "ns")
    fields = {
        "w": (("t", "x"), whole, {"units": "Pa", "standard_name": "air_pressure", "long_name": "pressure"}),
        "single": (("t", "x"), whole.astype(np.complex64)),
        "u": (("t", "x"), real),
        "f": ("x", np.float32([1.1, -0.0, np.inf, np.nan])),
        "n": ("x", np.array([-(2**62), 0, 1, 2**62])),
        "b": ("x", np.array([True, False, True, True])),
        "zeros": (("t", "x"), np.full((3, 4), -0.0)),
        "grid": ((), np.int32(0), {"cf_role": "grid_topology"}),
    }
    edges = np.stack([np.arange(4.0) - 0.5, np.arange(4.0) + 0.5], 1)
    coords = {
        "t": ("t", times, {"standard_name": "time", "axis": "T"}),
        "x": ("x", np.arange(4.0), {"units": "days", "bounds": "x_bnds"}),
        "x_bnds": (("x", "bnds"), edges),
        "place": ("x", np.array([0.0, 0.1, 0.2, np.nan])),
    }
    return xr.Dataset(fields, coords, attrs={"title": "ü – Δx", "k": np.arange(3.0), "c": 2.0, "n": 3})


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_written_comes_back(tmp_path, writer):
    data = mixed()
    path = WRITERS[writer](data, tmp_path / "data")
    with fd.open_dataset(path) as found:
        assert list(found.coords) == list(data.coords) or set(found.coords) == set(data.coords)
        for name, one in data.variables.items():
            back = found.variables[name]
            assert back.dims == one.dims and back.dtype == one.dtype and back.attrs == one.attrs
            assert back.values.tobytes() == one.values.tobytes() or one.dtype.kind in "f"
            np.testing.assert_array_equal(np.signbit(back.values.real), np.signbit(one.values.real)) if (
                one.dtype.kind in "fc"
            ) else None
        xr.testing.assert_identical(found, data)
        lazy = found.w.isel(t=[2, 0], x=slice(None, None, -1))
        assert lazy.values.tobytes() == data.w.isel(t=[2, 0], x=slice(None, None, -1)).values.tobytes()
    assert [one.name for one in tmp_path.iterdir()] == ["data"]


def test_values_are_read_when_they_are_looked_at(tmp_path):
    path = fd.to_netcdf(mixed(), tmp_path / "data.nc")
    found = fd.open_dataset(path)
    assert not found.w.variable._in_memory and not found.u.variable._in_memory
    assert found.w[1, 2].item() == mixed().w[1, 2].item()
    found.close()


def test_any_reader_finds_the_pairs(tmp_path):
    data = mixed()
    with xr.open_dataset(fd.to_netcdf(data, tmp_path / "data.nc")) as plain:
        np.testing.assert_array_equal(plain.w_real, data.w.values.real)
        np.testing.assert_array_equal(plain.w_imag, data.w.values.imag)
        assert plain.w_imag.attrs["units"] == "Pa" and plain.w_imag.attrs["long_name"] == "pressure, imaginary part"
        assert "_FillValue" not in plain.x.encoding and "_FillValue" not in plain.x_bnds.encoding
        np.testing.assert_array_equal(plain.t, data.t)


def test_files_replace_files_and_nothing_else(tmp_path, monkeypatch):
    one, other = xr.Dataset({"u": ("x", [1.0, 2.0])}), xr.Dataset({"u": ("x", [3.0])})
    for write, name in ((fd.to_netcdf, "a.nc"), (fd.to_zarr, "a.zarr")):
        path = tmp_path / name
        write(one, path)
        write(other, path)
        with fd.open_dataset(path) as found:
            np.testing.assert_array_equal(found.u, [3.0])
        monkeypatch.setattr(xr.Dataset, "to_netcdf", _full)
        monkeypatch.setattr(xr.Dataset, "to_zarr", _full)
        with pytest.raises(fd.RunError, match=f"Writing {path} failed, what was there stays: OSError: No space left"):
            write(one, path)
        monkeypatch.undo()
        with fd.open_dataset(path) as found:  # what was there stays where the new one could not be written
            np.testing.assert_array_equal(found.u, [3.0])
    assert {one.name for one in tmp_path.iterdir()} == {"a.nc", "a.zarr"}
    with pytest.raises(fd.RunError, match="is a folder"):
        fd.to_netcdf(one, tmp_path / "a.zarr")
    with pytest.raises(fd.RunError, match="something else than a Zarr store"):
        fd.to_zarr(one, tmp_path / "a.nc")


def _full(*_, **__):
    raise OSError("No space left on device")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of this kind")
@pytest.mark.parametrize(("write", "name"), [(fd.to_zarr, "a.zarr"), (fd.to_netcdf, "a.nc")])
def test_a_full_disk_leaves_nothing_behind(tmp_path, write, name):
    import resource

    data = xr.Dataset({"u": (("t", "x"), np.random.default_rng(0).normal(size=(401, 4160)).astype("f4"))})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, before[1]))
    try:
        for _ in range(5):
            with pytest.raises(fd.RunError, match=r"Make room on the disk, or choose another path\."):
                write(data, tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_what_is_no_file_of_ours_is_told(tmp_path):
    solution = fd.to_netcdf(xr.Dataset({"u": ("x", np.arange(1000.0))}), tmp_path / "whole.nc").read_bytes()
    for name, content in (("text.nc", b"hello"), ("empty.nc", b""), ("cut.nc", solution[: len(solution) // 2])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(fd.RunError, match=rf"{name} cannot be read as a NetCDF file: .* not written to its end"):
            fd.open_dataset(tmp_path / name)
    store = fd.to_zarr(xr.Dataset({"u": ("x", np.arange(9.0))}), tmp_path / "a.zarr")
    (store / "zarr.json").write_text("{")
    with pytest.raises(fd.RunError, match=r"a.zarr cannot be read as a Zarr store"):
        fd.open_dataset(store)


@pytest.mark.parametrize("path", [3, "", None, b"a.nc"], ids=repr)
def test_what_is_no_path_is_told(path):
    data = xr.Dataset({"u": ("x", [1.0])})
    for call in (fd.open_dataset, lambda path: fd.to_netcdf(data, path), lambda path: fd.to_zarr(data, path)):
        with pytest.raises(fd.DeclarationError, match="takes a path, such as"):
            call(path)


def test_wrong_arguments_are_explained(tmp_path):
    with pytest.raises(fd.DeclarationError, match=r"give array\.to_dataset"):
        fd.to_netcdf(mixed().u, tmp_path / "a.nc")
    with pytest.raises(fd.DeclarationError, match="a solution or a Dataset, got list"):
        fd.to_zarr([1.0], tmp_path / "a.zarr")
    with pytest.raises(fd.DeclarationError, match="compression= takes a whole number from 1 to 9, got 0"):
        fd.to_netcdf(mixed(), tmp_path / "a.nc", compression=0)
    with pytest.raises(fd.RunError, match="'netcdf4' or 'h5netcdf', got 'scipy'"):
        fd.to_netcdf(mixed(), tmp_path / "a.nc", engine="scipy")
    with pytest.raises(fd.DeclarationError, match="`w_real` is taken"):
        fd.to_netcdf(mixed().assign(w_real=("x", np.zeros(4))), tmp_path / "a.nc")
    with pytest.raises(fd.RunError, match="no NetCDF file and no Zarr store"):
        fd.open_dataset(tmp_path / "nothing.nc")


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_store_takes_the_place_of_another_on_disk(tmp_path, monkeypatch, exchanges):
    place, moved, synced = tmp_path / "run.zarr", [], set()
    fd.to_zarr(xr.Dataset({"u": ("x", np.zeros(3))}), place)
    rename, swap = Path.rename, _atomic._exchange
    monkeypatch.setattr(Path, "rename", lambda self, target: (moved.append(self.name), rename(self, target)))
    monkeypatch.setattr(_atomic, "_exchange", lambda *names: exchanges and swap(*names))
    monkeypatch.setattr(os, "fsync", lambda number: synced.add(os.fstat(number).st_ino))
    fd.to_zarr(xr.Dataset({"u": ("x", np.ones(3))}), place)
    assert {one.stat().st_ino for one in (tmp_path, place, *place.rglob("*"))} <= synced
    assert exchanges or moved[0] == "run.zarr"
    with fd.open_dataset(place) as found:
        np.testing.assert_array_equal(found.u, 1.0)
    assert [one.name for one in tmp_path.iterdir()] == ["run.zarr"]


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.partition(".")[0] in ("zarr", "netCDF4", "h5netcdf"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest, **more)

    monkeypatch.setattr("importlib.import_module", lambda name, *_: without(name))
    for call in (lambda: fd.to_zarr(mixed(), tmp_path / "a.zarr"), lambda: fd.to_netcdf(mixed(), tmp_path / "a.nc")):
        with pytest.raises(fd.RunError, match=r"pip install 'fdsolve\[io\]'"):
            call()


@pytest.mark.parametrize(
    ("step", "unit"), [(3600 * 10**9, "seconds"), (10**6, "milliseconds"), (10**3, "microseconds"), (1, "nanoseconds")]
)
def test_times_are_written_in_the_coarsest_exact_unit(step, unit):
    found = time_units(np.datetime64("2016-06-01"), np.timedelta64(step, "ns"))
    assert found["units"] == f"{unit} since 2016-06-01 00:00:00" and found["dtype"] == "int64"
