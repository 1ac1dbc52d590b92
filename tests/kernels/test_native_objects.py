"""Machine code on disk: found again, made again where it is damaged, done without where there is no folder."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from llvmlite import binding, ir

import fdsolve as fd
from fdsolve.kernels.native import _objects
from fdsolve.kernels.native._code import VOID, Code, text_of
from fdsolve.kernels.native._objects import load_function
from fdsolve.kernels.native._scalar import I64

SOURCE = """
define i64 @answer(i64 %x) {{
  %y = mul i64 %x, {factor}
  ret i64 %y
}}
"""
PROGRAM = """
import jax
jax.config.update("jax_platforms", "cpu")
import fdsolve as fd
grid = fd.Grid(t=fd.Time(0.0, 1.0, num=6), x=fd.Axis(0.0, 1.0, num=7), y=fd.Axis(0.0, 1.0, num=5))
u = fd.Field("u", grid)
u[...], u[0] = lambda u: 0.5 * u["t-1"], lambda x, y: x + y
print(float(fd.solve(u, save=fd.final(), kernel="native").final["u"].sum()))
"""


def answer(factor: int, of: int = 3) -> int:
    """What the generated function makes of a number."""
    address = load_function(SOURCE.format(factor=factor), "answer")
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(of)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for machine code."""
    monkeypatch.setenv("FDSOLVE_CACHE_DIR", str(tmp_path))
    return tmp_path / "native"


def test_code_is_kept_where_the_variable_says_and_found_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(7) == 21
    (kept,) = folder.iterdir()
    assert kept.suffix == ".o"

    def refuse(source: str) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr(_objects, "_compile", refuse)
    assert answer(7) == 21
    with pytest.raises(AssertionError, match="compiled again"):
        answer(8)


@pytest.mark.parametrize("damage", ["cut", "empty", "changed", "other code"])
def test_a_damaged_file_is_made_again(folder: Path, damage: str) -> None:
    assert answer(5) == 15
    (kept,) = folder.iterdir()
    whole = kept.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 0xFF
    contents = {"cut": whole[: len(whole) // 2], "empty": b"", "changed": bytes(changed), "other code": b"x" * 500}
    kept.write_bytes(contents[damage])
    assert answer(5) == 15
    assert kept.read_bytes() == whole


def test_a_loop_over_blocks_is_not_vectorised_in_place_of_the_loop_within(folder: Path) -> None:
    """What a module says of its loops counts only where it is each loop's own: gathers of strided points else."""
    module = ir.Module("loops")
    code = Code(module, "add", VOID, [I64, I64, I64], internal=False)
    kind, (out, given, size) = ir.FloatType(), code.arguments
    to, of = code.pointer(out), code.pointer(given)
    with code.loop(0, size) as block, code.loop(0, 16, vectorised=True) as j:
        at = code.add(code.mul(block, 16), j)
        before = code.builder.load(code.builder.gep(to, [at], source_etype=kind), typ=kind)
        value = code.builder.load(code.builder.gep(of, [at], source_etype=kind), typ=kind)
        code.builder.store(code.builder.fadd(before, value), code.builder.gep(to, [at], source_etype=kind))
    code.builder.ret_void()
    found = binding.parse_assembly(text_of(module))
    found.verify()
    loops = [line for line in str(found).splitlines() if "= distinct !{" in line]
    assert len(loops) == 2
    assert all(line.split(" = distinct !{")[1].split(",")[0] == line.split(" = ")[0] for line in loops)


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    for place in (str(file), ""):
        monkeypatch.setenv("FDSOLVE_CACHE_DIR", place)
        assert answer(9) == 27
    assert file.read_text() == "no folder"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_writer_that_fails_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    assert answer(11) == 33
    assert list(folder.iterdir()) == []


def test_processes_that_compile_at_once_share_one_file(tmp_path: Path) -> None:
    environment = {**os.environ, "FDSOLVE_CACHE_DIR": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    found = [one.communicate(timeout=300)[0].strip() for one in started]
    assert [one.returncode for one in started] == [0, 0]
    assert found[0] == found[1]
    assert abs(float(found[0]) - 35 / 2**5) < 1e-5
    assert [one.suffix for one in (tmp_path / "native").iterdir()] == [".o"]


def test_wide_vectors_are_used_where_they_do_not_slow_the_clock_down(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name, features in (
        ("sapphirerapids", {"avx512f": True}), ("skylake-avx512", {"avx512f": True}), ("haswell", {"avx512f": False}),
    ):  # fmt: skip
        made = binding.FeatureMap(features)
        monkeypatch.setattr(binding, "get_host_cpu_name", lambda name=name: name)
        monkeypatch.setattr(binding, "get_host_cpu_features", lambda made=made: made)
        _objects.processor.cache_clear()
        found.append("-prefer-256-bit" in _objects.processor()[1])
    monkeypatch.undo()
    _objects.processor.cache_clear()
    assert found == [True, False, False]


def test_nothing_is_said_of_loops_that_call_functions(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """LLVM warns on the error stream of a loop that it was told to vectorise and cannot."""
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=5), x=fd.Axis(0.0, 1.0, num=60)))
    u[...] = lambda u, a: 0.5 * jnp.tanh(a[...] * u["t-1"] + 0.1 * u["t-1", "x+1"])
    u[0], u[dict(x=[0, -1])] = 0.5, 0.0
    jax.grad(lambda a: jnp.sum(fd.solve(u, a=a, save=fd.final(), kernel="native").final["u"]))(jnp.ones(60))
    assert list(folder.iterdir())
    assert "vectorized" not in capfd.readouterr().err
