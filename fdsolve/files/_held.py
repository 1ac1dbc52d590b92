"""A Zarr store on disk whose metadata are held back until they are published."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ._atomic import replace_file
from ._need import need

METADATA = "zarr.json"


def read_documents(path: Path) -> dict[str, bytes]:
    """The metadata of the group at `path` and of its arrays, by key, as they stand on disk."""
    root = json.loads((path / METADATA).read_bytes())
    inline = root.pop("consolidated_metadata", None) or {"metadata": {}}
    found = {f"{name}/{METADATA}": json.dumps(one).encode() for name, one in inline["metadata"].items()}
    if not found:
        found = {f"{one.parent.name}/{METADATA}": one.read_bytes() for one in sorted(path.glob(f"*/{METADATA}"))}
    return {METADATA: json.dumps(root).encode(), **found}


def publish(path: Path, documents: dict[str, bytes], on_disk: bool = False, last: str = "") -> None:
    """Writes all metadata; those of the group come last, in one step, and hold those of every array.

    Readers of consolidated metadata (xarray) so find lengths that fit together, whatever moment they come at. Those who
    read the metadata of arrays one by one may come in between: the array `last` is written after the others.
    `on_disk`: they are on disk when this returns.
    """
    arrays = {key: text for key, text in documents.items() if key != METADATA}
    for key in sorted(arrays, key=lambda key: key == f"{last}/{METADATA}"):
        replace_file(path / key, arrays[key], on_disk)
    inline = {key.removesuffix(f"/{METADATA}"): json.loads(text) for key, text in arrays.items()}
    root = json.loads(documents[METADATA])
    root["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": inline}
    replace_file(path / METADATA, json.dumps(root).encode(), on_disk)


def open_held(path: Path, documents: dict[str, bytes], on_disk: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """The arrays at `path` with their metadata in `documents`: chunks go to files, metadata to `documents` alone.

    Where `on_disk()`, a chunk is on disk before it takes the place of the one that was there.
    """
    zarr, storage = need("zarr", "io"), need("zarr.storage", "io")

    class Held(storage.WrapperStore):
        """Serves metadata from memory; made here, where Zarr is known to be installed."""

        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            if key in documents and byte_range is None:
                return prototype.buffer.from_bytes(documents[key])
            return await self._store.get(key, prototype, byte_range)

        async def set(self, key: str, value: Any) -> None:
            if key in documents:
                documents[key] = value.to_bytes()
            elif on_disk():
                await asyncio.to_thread(replace_file, path / key, value.to_bytes(), True)
            else:
                await self._store.set(key, value)

    store = Held(storage.LocalStore(path))
    names = [key.removesuffix(f"/{METADATA}") for key in documents if key != METADATA]
    # A chunk of zeros is a chunk like others: one that is left out would come back without the signs of its zeros.
    config = {"write_empty_chunks": True}
    return {name: zarr.open_array(store, path=name, mode="r+", config=config, zarr_format=3) for name in names}


def shorten(documents: dict[str, bytes], names: dict[str, Any], count: int) -> None:
    """Sets the length of the first dimension of the arrays `names` in their metadata."""
    for name in names:
        document = json.loads(documents[f"{name}/{METADATA}"])
        document["shape"][0] = count
        documents[f"{name}/{METADATA}"] = json.dumps(document).encode()


def dimension_of(array: Any) -> str | None:
    """The name of an array's first dimension."""
    names = array.metadata.dimension_names
    return str(names[0]) if names else None


def split_space(shape: tuple[int, ...], itemsize: int, largest: int) -> tuple[int, ...]:
    """The chunk of one save of `shape`: halved along its longest side until it holds at most `largest` bytes.

    >>> split_space((1024, 1024), 8, 2**20)
    (512, 256)
    """
    chunk = [max(size, 1) for size in shape]
    while chunk and np.prod(chunk, dtype=float) * itemsize > largest and max(chunk) > 1:
        longest = len(chunk) - 1 - int(np.argmax(chunk[::-1]))
        chunk[longest] = -(-chunk[longest] // 2)
    return tuple(chunk)
