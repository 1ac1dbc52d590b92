"""A stream in a file, to go on after a break."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError, RunError
from ..files import replace_file

FORMAT = 2
RULES = "list of rules"
"""What versions of JAX write each in their own way; files of others are not asked for it."""


@dataclass(frozen=True)
class _Array:
    """An array of JAX as numbers; `key`: the implementation of a key of jax.random."""

    numbers: np.ndarray
    key: str | None = None

    @classmethod
    def of(cls, leaf: Any) -> Any:
        """An array of JAX; anything else as it is."""
        if not isinstance(leaf, jax.Array):
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return cls(np.asarray(jax.random.key_data(leaf)), str(jax.random.key_impl(leaf)))
        return cls(np.asarray(leaf))

    def back(self) -> jax.Array:
        """The array again."""
        numbers = jnp.asarray(self.numbers)
        return numbers if self.key is None else jax.random.wrap_key_data(numbers, impl=self.key)


def write(path: Any, kind: Mapping[str, str], content: Mapping[str, Any]) -> Path:
    """Writes what a stream carries in one step, so that a file is whole at any moment; `kind` says what it is of."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(content)):
        raise RunError("save: the stream is traced by jax.jit or the like, and has no numbers yet. Save it outside.")
    place = _place(path, "save")
    held = dict(format=FORMAT, jax=jax.__version__, kind=dict(kind), content=jax.tree.map(_Array.of, dict(content)))
    try:
        replace_file(place, pickle.dumps(held), on_disk=True)
    except OSError as error:
        raise RunError(f"save: {str(place)!r} cannot be written: {error.strerror or error}.") from error
    return place


def read(path: Any, kind: Mapping[str, str]) -> dict[str, Any]:
    """What `write` wrote. Raises RunError for what is no such file, DeclarationError for that of another stream."""
    place = _place(path, "restore")
    try:
        found = pickle.loads(place.read_bytes())
    except FileNotFoundError:
        raise RunError(f"restore: there is no file {str(place)!r}. stream.save(path) writes one.") from None
    except Exception as error:  # whatever the bytes make of pickle
        raise RunError(f"restore: {str(place)!r} cannot be read as a stream: {error}.") from error
    if (
        not isinstance(found, dict)
        or found.get("format") != FORMAT
        or set(found) != {"format", "jax", "kind", "content"}
    ):
        raise RunError(
            f"restore: {str(place)!r} holds no stream that this version reads. stream.save(path) writes one."
        )
    asked = [name for name in kind if name != RULES or found["jax"] == jax.__version__]
    other = [name for name in asked if found["kind"].get(name) != kind[name]]
    if other:
        raise DeclarationError(
            f"restore: {str(place)!r} is of another stream: its {other[0]} is {found['kind'].get(other[0])}, and here "
            f"it is {kind[other[0]]}. Declare the stream as it was saved."
        )
    is_array = lambda leaf: isinstance(leaf, _Array)  # noqa: E731
    return jax.tree.map(lambda leaf: leaf.back() if is_array(leaf) else leaf, found["content"], is_leaf=is_array)


def _place(path: Any, what: str) -> Path:
    """Where a file is. Raises DeclarationError for what names none."""
    if not isinstance(path, str | PathLike) or not str(path):
        raise DeclarationError(f"{what}: a stream goes into a file, whose name is wanted; got {path!r}.")
    place = Path(path)
    if place.is_dir():
        raise DeclarationError(f"{what}: {str(place)!r} is a folder. Give the name of a file in it.")
    return place
