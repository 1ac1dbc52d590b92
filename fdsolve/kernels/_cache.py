"""What was measured, kept between processes: one small file for each key, in the user's cache folder.

Files are written aside and moved into place, so that readers see a whole file or none, whoever writes at the same time
and whenever a writer dies. A file that cannot be read, or does not hold what it should, counts as absent. This module
needs nothing but Python.
"""

import contextlib
import hashlib
import json
import os
import platform
import sys
import tempfile
import time
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

VARIABLE = "FDSOLVE_CACHE_DIR"
_LEFTOVER_SECONDS = 3600.0
_PACKAGES = ("fdsolve", "jax", "jaxlib", "numba", "llvmlite")


def cache_folder() -> Path | None:
    """Where measurements are kept: `FDSOLVE_CACHE_DIR`, else the user's cache folder; None where that is empty.

    None too where nobody knows the user's folder, as in containers run under any number.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given) if given else None
    try:
        if sys.platform == "win32":
            base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(base) / "fdsolve"


@cache
def versions() -> str:
    """The versions of what makes and runs kernels."""
    found = [f"python {platform.python_version()}"]
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{package} {metadata.version(package)}")
    return ", ".join(found)


@cache
def processor() -> str:
    """The processor's name: as the system tells it, else its family."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(("model name", "Model", "CPU part")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def make_key(device: str, operation: str, work: str, contestants: str) -> str:
    """The full key of a measurement: device, versions, operation, the work's class, and who took part."""
    return "\n".join([device, versions(), operation, work, contestants])


def read(key: str) -> dict[str, Any] | None:
    """The record kept under a key; None where there is none that is whole."""
    path = path_of(key)
    if path is None:
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("key") != key or not isinstance(found.get("record"), dict):
        return None
    return found["record"] if found.get("digest") == _digest(found["record"]) else None


def write(key: str, record: dict[str, Any]) -> str | None:
    """Keeps a record under a key; gives the reason where that is not possible, which no work depends on."""
    path = path_of(key)
    if path is None:
        return f"{VARIABLE} is empty" if VARIABLE in os.environ else "the user has no folder"
    text = json.dumps({"key": key, "record": record, "digest": _digest(record)})
    aside = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent)
        handle, aside = tempfile.mkstemp(prefix="writing-", suffix=".tmp", dir=path.parent)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        if aside is not None:
            with contextlib.suppress(OSError):
                os.unlink(aside)
        return str(error)
    return None


def path_of(key: str) -> Path | None:
    """The file of a key."""
    folder = cache_folder()
    return None if folder is None else folder / f"choice-{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _digest(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _sweep(folder: Path) -> None:
    """Removes what writers that died left behind."""
    for left in folder.glob("writing-*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFTOVER_SECONDS:
                left.unlink()
