"""Files that are there whole or not at all, also after the power went."""

import ctypes
import os
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import DeclarationError, RunError

_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""


def to_path(path: Any, owner: str) -> Path:
    """An absolute path. Raises DeclarationError for what is none."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise DeclarationError(f'{owner} takes a path, such as "results/run", got {path!r}.')
    return Path(os.path.abspath(os.fspath(path)))


def beside(path: Path) -> Path:
    """A name in the same folder that nothing has, and that tells what it is left from."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.partial")


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A place to write to, which takes the name `path` when all is written; a failure leaves what was there.

    What was written is on disk before it takes the name. A folder changes places with an old one in one step, where
    the system can do that (Linux); elsewhere the old one is moved aside first, and goes last.

    Raises: RunError for what the file system refuses.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = beside(path)
    try:
        yield partial
        sync_tree(partial)
        if path.is_dir() or (partial.is_dir() and path.exists()):
            if not _exchange(partial, path):
                old = beside(path)
                path.rename(old)
                partial.rename(path)
                remove(old)
        else:
            partial.replace(path)
        sync(path.parent)
    except (OSError, RuntimeError) as error:  # the latter is netCDF4's for a full disk
        _sweep(partial)
        raise RunError(
            f"Writing {path} failed, what was there stays: {type(error).__name__}: {error}. Make room on the disk, or "
            f"choose another path."
        ) from error
    except BaseException:
        _sweep(partial)
        raise
    remove(partial)


def replace_file(path: Path, content: bytes, on_disk: bool = False) -> None:
    """Writes a file in one step: a reader finds the old content or the new one.

    `on_disk`: the content is on disk before it takes the name, and the name when this returns.
    """
    new = [one for one in path.parents if not one.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = beside(path)
    try:
        partial.write_bytes(content)
        if on_disk:
            sync(partial)
        os.replace(partial, path)
    finally:
        remove(partial)
    for folder in (path.parent, *(one.parent for one in new)) if on_disk else ():
        sync(folder)


def sync(path: Path) -> None:
    """Returns when a file is on disk, or the names in a folder are; Windows writes names of its own accord."""
    if path.is_dir():
        if os.name == "nt":
            return
        number = os.open(path, os.O_RDONLY)
    else:
        number = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def sync_tree(path: Path) -> None:
    """Returns when a file, or a folder with all that is in it, is on disk; names last."""
    for root, _, names in os.walk(path, topdown=False):
        for name in names:
            sync(Path(root) / name)
        sync(Path(root))
    if path.is_file():
        sync(path)


def remove(path: Path) -> None:
    """Removes a file or folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sweep(path: Path) -> None:
    """Removes what a writer left that failed: its other threads may go on for a moment."""
    for _ in range(50):
        remove(path)
        time.sleep(0.02)
        if not path.exists():
            return


def _exchange(one: Path, other: Path) -> bool:
    """Lets two names change places in one step; False where the system or its file system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0
