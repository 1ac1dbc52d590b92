"""Checkpoints of a run on disk: whole or not there at all."""

import os
import pickle
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import RunError
from ..files import need, replace_file, sync, sync_tree
from ..stepping import Carry

PROBLEM, PREFIX, KEPT = "problem.pickle", "level-", 2


@dataclass(frozen=True, eq=False)
class Kept:
    """A checkpoint: the level, the leaves of the state, how many levels were saved, what monitors kept."""

    level: int
    leaves: tuple[np.ndarray, ...]
    num_saved: int
    watched: Any

    def carry(self, like: Carry) -> Carry:
        """The state, in the form of another of the same problem. Raises RunError where it is that of no such."""
        leaves, form = jax.tree.flatten(like)
        mine = [(one.shape, one.dtype) for one in self.leaves]
        if mine != [(one.shape, one.dtype) for one in leaves]:
            raise RunError("The checkpoint holds the state of another problem: grid, fields or stepper have changed.")
        return form.unflatten([jnp.asarray(one) for one in self.leaves])


class Keeper:
    """Writes checkpoints of a run into a folder."""

    def __init__(self, path: str, every: int):
        self.path, self.every = Path(path), every

    @property
    def store(self) -> str:
        """Where saved levels go."""
        return str(self.path / "saved.zarr")

    def begin(self, problem: Mapping[str, Any]) -> None:
        """A new run: what it is, so that `resume` needs nothing but the folder; what lay there of another goes."""
        cloudpickle = need("cloudpickle", "io")
        if self.path.exists() and not (self.path / PROBLEM).exists() and any(self.path.iterdir()):
            raise RunError(f"{self.path} holds something else than checkpoints; give fd.Checkpoints a new folder.")
        for old in [*self.path.glob(f"{PREFIX}*"), self.path / "saved.zarr"]:
            shutil.rmtree(old, ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self.path / PROBLEM, cloudpickle.dumps(dict(problem)), True)

    def next_level(self, level: int) -> int:
        """The next level at which a checkpoint is due."""
        return (level // self.every + 1) * self.every

    def write(self, level: int, carry: Carry, num_saved: int, watched: Any) -> None:
        """Writes a checkpoint beside the others and gives it its name when it is on disk; the last two stay."""
        zarr = need("zarr", "io")
        beside, name = self.path / f".writing-{level}", self.path / f"{PREFIX}{level:012d}"
        shutil.rmtree(beside, ignore_errors=True)
        leaves = jax.tree.leaves(carry)
        group = zarr.open_group(str(beside), mode="w")
        for number, leaf in enumerate(leaves):
            array = np.asarray(leaf)
            group.create_array(f"leaf-{number}", data=array, chunks=array.shape if array.size else "auto")
        group.attrs.update({"level": level, "num_saved": num_saved, "num_leaves": len(leaves)})
        (beside / "watched.pickle").write_bytes(pickle.dumps(watched))
        sync_tree(beside)
        shutil.rmtree(name, ignore_errors=True)
        os.rename(beside, name)
        sync(self.path)
        for old in sorted(self.path.glob(f"{PREFIX}*"))[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def read_newest(path: Any) -> tuple[Mapping[str, Any], Kept | None]:
    """The problem of a folder of checkpoints, and the newest that can be read; None where none was written yet.

    Raises RunError where there are no checkpoints, or none that can be read.
    """
    folder, zarr = Path(path), need("zarr", "io")
    if not (folder / PROBLEM).is_file():
        raise RunError(f"{folder} holds no checkpoints; write some with monitors=[fd.Checkpoints({str(path)!r})].")
    problem = pickle.loads((folder / PROBLEM).read_bytes())
    written = sorted(folder.glob(f"{PREFIX}*"), reverse=True)
    for name in written:
        try:
            group = zarr.open_group(str(name), mode="r")
            leaves = tuple(np.asarray(group[f"leaf-{k}"][...]) for k in range(group.attrs["num_leaves"]))
            watched = pickle.loads((name / "watched.pickle").read_bytes())
            return problem, Kept(int(group.attrs["level"]), leaves, int(group.attrs["num_saved"]), watched)
        except (OSError, KeyError, ValueError, EOFError, pickle.UnpicklingError):  # half gone: the one before
            continue
    if written:
        raise RunError(
            f"None of the {len(written)} checkpoints in {folder} can be read. To begin anew, solve the problem again "
            f"and give another folder to fd.Checkpoints (and another store to fd.stream)."
        )
    return problem, None
