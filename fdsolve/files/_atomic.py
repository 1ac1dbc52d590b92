"""Files that are there whole or not at all."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def beside(path: Path) -> Path:
    """A name in the same folder that nothing has, and that tells what it is left from."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.partial")


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A place to write to, which takes the name `path` when all is written; a failure leaves what was there.

    A folder cannot take the place of another in one step: the old one is moved aside first, and goes last.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = beside(path)
    try:
        yield partial
        if path.is_dir() or (partial.is_dir() and path.exists()):
            old = beside(path)
            path.rename(old)
            partial.rename(path)
            remove(old)
        else:
            partial.replace(path)
    finally:
        remove(partial)


def replace_text(path: Path, text: bytes) -> None:
    """Writes a small file in one step: a reader finds the old text or the new one."""
    partial = beside(path)
    partial.write_bytes(text)
    os.replace(partial, path)


def remove(path: Path) -> None:
    """Removes a file or folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
