"""Machine code of generated modules: compiled once for each source, processor and version, and kept on disk."""

import contextlib
import ctypes
import hashlib
import os
import tempfile
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jax
import llvmlite
from llvmlite import binding

from .._cache import cache_folder

_FORM = "2"
"""Changes when what stands in the files does."""
SPEED = 3
"""How much LLVM optimises: 0 to 3."""
_SLOWED = ("skylake-avx512", "cascadelake", "cooperlake", "cannonlake")
"""Processors whose clock slows down while they compute with vectors of 512 bits."""
_engines: list[Any] = []


@lru_cache(maxsize=1)
def _machine() -> Any:
    """The processor as LLVM's target."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    cpu, features = processor()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=3, jit=True)


@cache
def processor() -> tuple[str, str]:
    """The processor's name and features. Those that have vectors of 512 bits use them: LLVM would not on Intel's, for
    the sake of the first ones."""
    name, features = binding.get_host_cpu_name(), binding.get_host_cpu_features()
    wide = features.get("avx512f", False) and name not in _SLOWED
    return name, features.flatten() + ",-prefer-256-bit" * wide


def object_key(source: str) -> str:
    """What tells a module's machine code from others: its text, the processor and the compiler's version."""
    about = (_FORM, str(SPEED), llvmlite.__version__, *processor())
    return hashlib.sha256("\0".join((*about, source)).encode()).hexdigest()


def load_function(source: str, name: str, key: str | None = None) -> int:
    """The address of a function of a module, for as long as the process lives."""
    folder = cache_folder()
    path = None if folder is None else folder / "native" / f"{key or object_key(source)}.o"
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        stored = path.read_bytes() if path is not None else b""
        digest, code = stored[:32], stored[32:]
        if hashlib.sha256(code).digest() == digest:
            return _link(code, name)
    code = _compile(source)
    if path is not None:
        _keep(path, hashlib.sha256(code).digest() + code)
    return _link(code, name)


@cache
def register_target(source: str, name: str) -> str:
    """Compiles or loads a module's function, and makes it known to XLA as a custom call; the call's name."""
    key = object_key(source)
    target = f"fdsolve_{key[:32]}"
    capsule = jax.ffi.pycapsule(ctypes.c_void_p(load_function(source, name, key)))
    jax.ffi.register_ffi_target(target, capsule, platform="cpu")
    return target


def _compile(source: str) -> bytes:
    machine = _machine()
    module = binding.parse_assembly(source)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=SPEED)
    options.loop_vectorization = options.slp_vectorization = SPEED > 1
    options.loop_interleaving = options.loop_unrolling = SPEED > 1
    builder = binding.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    return machine.emit_object(module)


def _link(code: bytes, name: str) -> int:
    machine = _machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(name)
    if not address:
        raise RuntimeError(f"machine code without {name}")
    _engines.append(engine)
    return address


def _keep(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all; a folder that cannot be written is no reason to stop."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
