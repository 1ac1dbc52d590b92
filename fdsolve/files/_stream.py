"""Datasets written to a Zarr store while the run that makes them goes on."""

import json
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import xarray as xr

from ..errors import DeclarationError, RunError
from ._atomic import remove, replace_file, sync_tree, to_path, written_beside
from ._encoding import encode_times, encoding_of
from ._held import METADATA, dimension_of, open_held, publish, read_documents, shorten, split_space
from ._need import need

CHUNK = 32 * 2**20
"""Bytes of a chunk, where one save has less."""
MOST_SAVES = 1024
"""Saves in a chunk at most, so that a run of small fields shows its progress."""
GROWS = "grows_along"
"""The attribute of a store that names the dimension it grows along."""
RUN = "fdsolve_run"
"""The attribute of a store that says which run writes it."""
WAITING = 2
"""How many appended blocks may wait for the disk before `append` waits too."""


@final
class ZarrStream:
    """A Zarr store (format 3) that grows along one dimension, written by a thread of its own.

    `append` hands saves over and returns; the store can be read at any time (`xarray.open_zarr`, `fd.open_dataset`) and
    shows whole saves only: chunks are written first, then the metadata of all variables in one step. A process that is
    killed leaves a readable store, without what was not flushed; what was flushed outlives a loss of power. A chunk
    that is not full yet is written anew each time the number of its saves has doubled, and at `flush`.

    Arguments:
        path: the folder of the store; its parent is made where it is missing.
        template: the Dataset to come, with no entries along the growing dimension: variables, dtypes, coordinates and
            attributes are taken from it.
        total: how many saves are expected; None where that is not known. It only bounds the chunks.
        dim: the growing dimension; default the one dimension of length 0.
        overwrite: whether a Zarr store that is at `path` goes; what else is there never does.
        run: a text that says which run writes the store, if `reopen` is to know.

    Raises: DeclarationError for a template that does not fit; RunError where something is at `path` already.
    """

    def __init__(
        self,
        path: Any,
        template: Any,
        total: int | None = None,
        *,
        dim: str | None = None,
        overwrite: bool = False,
        run: str | None = None,
    ) -> None:
        need("zarr", "io")
        place, dim = to_path(path, "A stream"), _growing(template, dim)
        check_place(place, overwrite)
        encoding = encoding_of(template)
        for name, chunk in _chunks(template, dim, total).items():
            encoding[name]["chunks"] = chunk
        with written_beside(place) as partial:
            marked = template.assign_attrs({GROWS: dim, **({RUN: run} if run else {})})
            marked.to_zarr(
                partial, mode="w", zarr_format=3, consolidated=False, encoding=encoding, write_empty_chunks=True
            )
            publish(partial, read_documents(partial))
        self._start(place, dim)

    @classmethod
    def reopen(cls, path: Any, num_saved: int, total: int | None = None, *, run: str | None = None) -> "ZarrStream":
        """The store at `path`, cut to its first `num_saved` saves, to append to; its chunks stay as they are, whatever
        the `total`. `run`: the one that must have written it.

        Raises: RunError where there is no such store, or fewer saves in it.
        """
        need("zarr", "io")
        place = to_path(path, "A stream")
        if not (place / METADATA).is_file():
            raise RunError(f"There is no Zarr store at {place} to go on with. Start the run anew.")
        documents = read_documents(place)
        dim = json.loads(documents[METADATA]).get("attributes", {}).get(GROWS)
        if run is not None and run_of(place) != run:
            raise RunError(
                f"The Zarr store at {place} was written by another run since. Move it away; what the run to go on with "
                f"had saved is gone: start it anew."
            )
        if dim is None:
            raise RunError(f"The Zarr store at {place} was not written by a stream: none of its dimensions grows.")
        arrays = open_held(place, documents)
        growing = {name: one for name, one in arrays.items() if dimension_of(one) == dim}
        stored = arrays[dim].shape[0]
        if not 0 <= num_saved <= stored:
            raise RunError(f"The Zarr store at {place} holds {stored} saves; it cannot be cut to {num_saved}.")
        shorten(documents, growing, num_saved)
        replace_file(place / dim / METADATA, documents[f"{dim}/{METADATA}"], True)  # never longer than the others
        publish(place, documents, True)
        for name, one in growing.items():
            _drop_chunks(place / name / "c", -(-num_saved // one.chunks[0]))
        made = cls.__new__(cls)
        made._start(place, dim, lasting=True)
        return made

    def _start(self, path: Path, dim: str, lasting: bool = False) -> None:
        self.path, self.dim = path, dim
        # Whether something in the store was flushed: from then on nothing takes its place that is not on disk.
        self._lasting = lasting
        self._documents = read_documents(path)
        arrays = open_held(path, self._documents, lambda: self._lasting)
        self._axis = arrays[dim]
        self._arrays = {n: one for n, one in arrays.items() if n != dim and dimension_of(one) == dim}
        saved = self._axis.shape[0]
        self._chunk = next((one.chunks[0] for one in self._arrays.values()), MOST_SAVES)
        self._first = saved - saved % self._chunk
        self._filled = self._shown = saved - self._first
        self._times = np.asarray(self._axis[:])
        self._block = {n: np.empty((self._chunk, *one.shape[1:]), one.dtype) for n, one in self._arrays.items()}
        for name, one in self._arrays.items():
            self._block[name][: self._filled] = one[self._first :]
        self._saved = self._accepted = saved
        self._error: BaseException | None = None
        self._closed = False
        self._queue: queue.Queue[Any] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._work, name=f"fdsolve stream {path.name}", daemon=True)
        self._thread.start()

    @property
    def num_saved(self) -> int:
        """How many saves were appended; after `flush` and `close` all of them are in the store."""
        return self._accepted

    @property
    def num_shown(self) -> int:
        """How many saves a reader finds in the store."""
        return self._saved

    def append(self, times: Any, arrays: Mapping[str, Any]) -> None:
        """Adds saves: their times, (k,), numbers or datetimes, and for every variable an array (k, *space).

        Waits only where the disk is behind by two such blocks. Arrays that can be written to are copied.

        Raises: DeclarationError where names or shapes differ from the template's; RunError for what went wrong in
        writing, also of earlier blocks.
        """
        self._check()
        moments = np.atleast_1d(np.asarray(times))
        blocks = self._checked(moments, arrays)
        if not moments.size:
            return
        self._queue.put((encode_times(moments, self._axis.attrs, self._axis.dtype), blocks))
        self._accepted += moments.size

    def flush(self) -> None:
        """Returns when all that was appended is in the store and on disk: it outlives a loss of power.

        From then on every chunk is on disk before it takes the place of an older one.

        Raises: RunError for what went wrong in writing.
        """
        self._check()
        done = threading.Event()
        self._queue.put(done)
        done.wait()
        self._check()

    def close(self) -> None:
        """Writes what is left and ends the thread; raises what went wrong in writing as RunError."""
        if not self._closed:
            self._queue.put(None)
            self._thread.join()
            self._closed = True
            self._block = {}
        self._raise()

    def read(self) -> dict[str, np.ndarray]:
        """What is in the store, by variable, (saves, *space); the times are not among it."""
        documents = read_documents(self.path)
        arrays = open_held(self.path, documents)
        return {name: np.asarray(arrays[name][...]) for name in self._arrays}

    def __enter__(self) -> "ZarrStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ZarrStream({str(self.path)!r}, {self._saved} saves of {', '.join(self._arrays)})"

    def _check(self) -> None:
        self._raise()
        if self._closed:
            raise RunError(
                f"The stream to {self.path} is closed. To go on with it write ZarrStream.reopen(path, count)."
            )

    def _raise(self) -> None:
        if self._error is not None:
            raise RunError(
                f"Writing to {self.path} failed after {self._saved} saves, which can be read: "
                f"{type(self._error).__name__}: {self._error}."
            ) from self._error

    def _checked(self, times: np.ndarray, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
        if set(arrays) != set(self._arrays):
            raise DeclarationError(
                f"The stream to {self.path} takes {', '.join(self._arrays)} with every save, got "
                f"{', '.join(arrays) or 'nothing'}."
            )
        blocks = {}
        for name, array in arrays.items():
            block, wanted = np.asarray(array), self._arrays[name]
            if block.shape != (times.size, *wanted.shape[1:]) or block.dtype != wanted.dtype:
                raise DeclarationError(
                    f"The stream to {self.path}: `{name}` of {times.size} saves has the shape "
                    f"{(times.size, *wanted.shape[1:])} and dtype {wanted.dtype}, got {block.shape}, {block.dtype}."
                )
            blocks[name] = block.copy() if block.flags.writeable else block
        return blocks

    def _work(self) -> None:
        """The thread: takes blocks in turn; after an error it only empties the queue, so that nobody waits for ever."""
        while True:
            item = self._queue.get()
            try:
                if self._error is None:
                    self._settle() if item is None or isinstance(item, threading.Event) else self._take(*item)
            except BaseException as error:
                self._error = error
            if isinstance(item, threading.Event):
                item.set()
            if item is None:
                return

    def _take(self, times: np.ndarray, blocks: dict[str, np.ndarray]) -> None:
        self._times = np.concatenate([self._times, times])
        done = 0
        while done < times.size:
            count = min(self._chunk - self._filled, times.size - done)
            for name, block in blocks.items():
                self._block[name][self._filled : self._filled + count] = block[done : done + count]
            done, self._filled = done + count, self._filled + count
            if self._filled == self._chunk:
                self._show()
        if self._filled >= 2 * self._shown:
            self._show()

    def _settle(self) -> None:
        """Writes what is left, and returns when the store is on disk."""
        self._show()
        if not self._lasting:
            sync_tree(self.path)
            self._lasting = True

    def _show(self) -> None:
        """Writes the chunk at hand, then the metadata that tell of it."""
        count = self._first + self._filled
        if self._filled == self._shown:
            return
        for name, array in self._arrays.items():
            array.resize((count, *array.shape[1:]))
            array[self._first : count] = self._block[name][: self._filled]
        self._axis.resize((count,))
        self._axis[self._saved : count] = self._times[self._saved : count]
        publish(self.path, self._documents, self._lasting, self.dim)
        self._saved, self._shown = count, self._filled
        if self._filled == self._chunk:
            self._first, self._filled, self._shown = count, 0, 0


def run_of(place: Path) -> str | None:
    """Which run wrote the store at a place; None where none says so, or there is no store."""
    if not (place / METADATA).is_file():
        return None
    return json.loads((place / METADATA).read_bytes()).get("attributes", {}).get(RUN)


def _growing(template: Any, dim: str | None) -> str:
    if not isinstance(template, xr.Dataset):
        raise DeclarationError(f"A stream takes an xarray.Dataset as template, got {type(template).__name__}.")
    empty = [str(name) for name, size in template.sizes.items() if size == 0]
    if dim is None and len(empty) != 1:
        raise DeclarationError(
            f"The template of a stream has one dimension of length 0, the one that grows; got {empty or 'none'}. Take "
            f"template.isel(t=slice(0)), and name the dimension: dim=..."
        )
    chosen = empty[0] if dim is None else dim
    if chosen not in template.coords or template.sizes.get(chosen) != 0:
        raise DeclarationError(
            f"The template of a stream has a coordinate `{chosen}` of length 0, the dimension that grows. Take "
            f"template.isel({chosen}=slice(0))."
        )
    wrong = [str(n) for n, one in template.variables.items() if chosen in one.dims and one.dims[0] != chosen]
    if wrong:
        raise DeclarationError(f"The template of a stream: `{chosen}` comes first among the dimensions of {wrong[0]}.")
    return chosen


def check_place(place: Path, overwrite: bool) -> None:
    """Refuses a place for a store where something is; a store may go if it may be written over."""
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()
    store = (place / METADATA).is_file()
    if place.exists() and not (store and overwrite):
        found = "a Zarr store" if store else "something else than a Zarr store"
        allowed = ", or write overwrite=True" if store else ""
        raise RunError(f"There is {found} at {place} already. Remove it, choose another path{allowed}.")


def _chunks(template: xr.Dataset, dim: str, total: int | None) -> dict[str, tuple[int, ...]]:
    """Chunks by variable: as many saves for all as make up `CHUNK` bytes of the largest, or parts of one save."""
    growing = {str(name): one for name, one in template.variables.items() if dim in one.dims and name != dim}
    sizes = [int(np.prod(one.shape[1:])) * one.dtype.itemsize for one in growing.values()]
    saves = max(1, min(CHUNK // max([*sizes, 1]), MOST_SAVES if total is None else min(total, MOST_SAVES)))
    chunks = {n: (saves, *split_space(one.shape[1:], one.dtype.itemsize, 2 * CHUNK)) for n, one in growing.items()}
    return {**chunks, dim: (MOST_SAVES,)}


def _drop_chunks(folder: Path, first: int) -> None:
    """Removes the chunks from number `first` on of the first dimension."""
    for one in folder.iterdir() if folder.is_dir() else ():
        if one.name.isdigit() and int(one.name) >= first:
            remove(one)
