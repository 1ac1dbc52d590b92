"""Kept states outside of the device's memory: in that of the host, or on disk."""

import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from ..errors import DeclarationError, RunError
from ._storage import LARGEST, AbstractStorage, Room, Rounded, State, known_types

_numbers = count(1)
_lock = Lock()


class AbstractOutside(AbstractStorage):
    """States outside of the program. The room is (its number, a stamp): every call takes the stamp of the one before.

    So calls happen in their order whatever XLA does with them, and none is left out or done twice. The room exists
    from the start of a reversal to its end.
    """

    dtype: str | None

    @property
    def traced(self) -> bool:
        return False

    def rounded(self) -> AbstractStorage:
        return self if self.dtype is None else Rounded(self.dtype, self)

    def _check_dtype(self) -> None:
        if self.dtype is not None and self.dtype not in LARGEST:
            raise DeclarationError(
                f"{type(self).__name__}: dtype= takes {known_types()}, or None for states as they are, got "
                f"{self.dtype!r}."
            )

    @abstractmethod
    def _open(self) -> Any:
        """A new room, of the host."""

    @abstractmethod
    def _write(self, held: Any, place: int, arrays: Sequence[np.ndarray]) -> None:
        """Puts a state into a room."""

    @abstractmethod
    def _read(self, held: Any, place: int) -> Sequence[np.ndarray]:
        """A state of a room."""

    @abstractmethod
    def _remove(self, held: Any) -> None:
        """Removes a room."""

    def open(self, state: State, places: int, beside: Any = ()) -> Room:
        def make(*witnesses: Any) -> Any:
            with _lock:
                number = next(_numbers)
                _rooms[number] = self._open()
            return np.int32(number)

        # An entry of all that states depend on goes along, so that under vmap every element opens a room of its own.
        witnesses = [jnp.ravel(x)[:1] for x in jax.tree.leaves((state, beside))]
        return io_callback(make, _STAMP, *witnesses), jnp.zeros((), jnp.int32)

    def put(self, room: Room, place: Any, state: State) -> Room:
        def write(number: Any, stamp: Any, place: Any, *arrays: Any) -> Any:
            self._write(_rooms[int(number)], int(place), [np.array(x) for x in arrays])
            return np.int32(int(stamp) + 1)

        return room[0], io_callback(write, _STAMP, *room, jnp.asarray(place, jnp.int32), *jax.tree.leaves(state))

    def get(self, room: Room, place: Any, like: State) -> tuple[Room, State]:
        leaves, form = jax.tree.flatten(like)
        shapes = [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in leaves]

        def read(number: Any, stamp: Any, place: Any) -> Any:
            return np.int32(int(stamp) + 1), list(self._read(_rooms[int(number)], int(place)))

        stamp, found = io_callback(read, (_STAMP, shapes), *room, jnp.asarray(place, jnp.int32))
        return (room[0], stamp), form.unflatten(found)

    def close(self, room: Room) -> None:
        def remove(number: Any, stamp: Any) -> Any:
            self._remove(_rooms.pop(int(number)))
            return np.int32(0)

        io_callback(remove, _STAMP, *room)


_STAMP = jax.ShapeDtypeStruct((), np.int32)
_rooms: dict[int, Any] = {}


def rooms_open() -> int:
    """How many rooms there are; none but while something is reversed."""
    return len(_rooms)


@dataclass(frozen=True)
class Host(AbstractOutside):
    """Kept states in the memory of the host, and one more forward run for each gradient.

    Exact; `dtype` "bfloat16", "float16" or "int8": rounded as by `Checkpointed(storage=dtype)`. Raises DeclarationError
    for another.
    """

    dtype: str | None = None

    def __post_init__(self) -> None:
        self._check_dtype()

    def _open(self) -> dict[int, Sequence[np.ndarray]]:
        return {}

    def _write(self, held: dict[int, Sequence[np.ndarray]], place: int, arrays: Sequence[np.ndarray]) -> None:
        held[place] = arrays

    def _read(self, held: dict[int, Sequence[np.ndarray]], place: int) -> Sequence[np.ndarray]:
        return held[place]

    def _remove(self, held: dict[int, Sequence[np.ndarray]]) -> None:
        held.clear()

    def remark(self, between: int) -> str:
        return f"; the {between} bytes between blocks are in the host's memory"


@dataclass(frozen=True)
class Disk(AbstractOutside):
    """Kept states in files under a folder, removed when the gradient is there; one more forward run for each.

    `path` is a folder, made at once where there is none. Exact; `dtype` "bfloat16", "float16" or "int8": rounded as by
    `Checkpointed(storage=dtype)`. Raises DeclarationError for something else, and for a folder that cannot be made or
    written to.
    """

    path: str | PathLike[str]
    dtype: str | None = None

    def __post_init__(self) -> None:
        self._check_dtype()
        if not isinstance(self.path, str | PathLike) or not str(self.path):
            raise DeclarationError(f"Disk takes the path of a folder, got {self.path!r}.")
        folder = Path(self.path)
        if folder.exists() and not folder.is_dir():
            raise DeclarationError(f"Disk takes the path of a folder, and {str(folder)!r} is a file.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise DeclarationError(
                f"Disk({str(folder)!r}): {error.strerror or error}. Give a folder that can be made and written to, as "
                f"Disk({tempfile.gettempdir()!r})."
            ) from error
        object.__setattr__(self, "path", str(folder))

    def _open(self) -> "_Folder":
        Path(self.path).mkdir(parents=True, exist_ok=True)
        return _Folder(tempfile.TemporaryDirectory(prefix="states-", dir=self.path))

    def _write(self, held: "_Folder", place: int, arrays: Sequence[np.ndarray]) -> None:
        need, free = sum(x.nbytes for x in arrays), shutil.disk_usage(held.path).free
        if need > free:
            raise RunError(
                f"Disk({self.path!r}): a state takes {need} bytes, and {free} are free there. Keep fewer states with "
                f"snapshots=, or give a folder with more room."
            )
        held.forms[:] = [(x.shape, x.dtype) for x in arrays]
        for k, array in enumerate(arrays):
            array.tofile(held.path / f"{place}-{k}")

    def _read(self, held: "_Folder", place: int) -> Sequence[np.ndarray]:
        return [
            np.fromfile(held.path / f"{place}-{k}", dtype).reshape(shape) for k, (shape, dtype) in enumerate(held.forms)
        ]

    def _remove(self, held: "_Folder") -> None:
        held.folder.cleanup()

    def remark(self, between: int) -> str:
        return f"; the {between} bytes between blocks are in {self.path}"


@dataclass(frozen=True, eq=False)
class _Folder:
    """A folder of states, removed at exit at the latest, and the shapes and dtypes of a state's arrays."""

    folder: tempfile.TemporaryDirectory[str]
    forms: list[tuple[tuple[int, ...], Any]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return Path(self.folder.name)
