"""Checkpoints of a run on disk: whole or not there at all."""

import os
import pickle
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import RunError
from ..files import need, replace_file, sync, sync_tree, to_path
from ..stepping import Carry

PROBLEM, ENDED, PREFIX, KEPT = "problem.pickle", "ended", "level-", 2
RUN = "run"
"""The entry of the pickled problem that says which run it is."""


@dataclass(frozen=True, eq=False)
class Kept:
    """A checkpoint: the level, the leaves of the state, how many levels were saved, what monitors kept; of which run,
    as stores are marked (None where they are not)."""

    level: int
    leaves: tuple[np.ndarray, ...]
    num_saved: int
    watched: Any
    run: str | None

    def carry(self, like: Carry) -> Carry:
        """The state, in the form of another of the same problem. Raises RunError where it is that of no such."""
        leaves, form = jax.tree.flatten(like)
        mine = [(one.shape, one.dtype) for one in self.leaves]
        if mine != [(one.shape, one.dtype) for one in leaves]:
            raise RunError("The checkpoint holds the state of another problem: grid, fields or stepper have changed.")
        return form.unflatten([jnp.asarray(one) for one in self.leaves])


class Keeper:
    """Writes checkpoints of a run into a folder; `run` marks what is written of it elsewhere."""

    def __init__(self, path: str, every: int, overwrite: bool = False):
        self.path, self.every, self.overwrite, self.run = Path(path), every, overwrite, uuid.uuid4().hex

    @property
    def store(self) -> str:
        """Where saved levels go."""
        return str(self.path / "saved.zarr")

    def check(self) -> None:
        """Refuses a folder of something else, or of a run that has not ended."""
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; give fd.Checkpoints the path of a folder.")
        if self.path.exists() and not (self.path / PROBLEM).exists() and any(self.path.iterdir()):
            raise RunError(f"{self.path} holds something else than checkpoints; give fd.Checkpoints a new folder.")
        begun = any(self.path.glob(f"{PREFIX}*")) and not (self.path / ENDED).exists()
        if begun and not self.overwrite:
            raise RunError(
                f"{self.path} holds checkpoints of a run that has not ended. Go on with it by "
                f"fd.resume({str(self.path)!r}), give fd.Checkpoints another folder, or write overwrite=True, which "
                f"drops what it saved there."
            )

    def begin(self, problem: Mapping[str, Any]) -> None:
        """A new run: what it is, so that `resume` needs nothing but the folder; what lay there of another goes."""
        cloudpickle = need("cloudpickle", "io")
        for old in [*self.path.glob(f"{PREFIX}*"), self.path / "saved.zarr"]:
            shutil.rmtree(old, ignore_errors=True)
        with self._writing("The declaration"):
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / ENDED).unlink(missing_ok=True)
            replace_file(self.path / PROBLEM, cloudpickle.dumps({**problem, RUN: self.run}), True)

    def go_on(self) -> None:
        """The run that was kept goes on."""
        (self.path / ENDED).unlink(missing_ok=True)

    def end(self) -> None:
        """The run has ended: another may take the folder."""
        with self._writing("The end"):
            replace_file(self.path / ENDED, b"", True)

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        """Tells what the file system refuses as RunError."""
        try:
            yield
        except OSError as error:
            raise RunError(
                f"{what} could not be written to {self.path}: {type(error).__name__}: {error}. Make room on the disk; "
                f"fd.resume goes on from the newest checkpoint there, if there is one."
            ) from error

    def next_level(self, level: int) -> int:
        """The next level at which a checkpoint is due."""
        return (level // self.every + 1) * self.every

    def write(self, level: int, carry: Carry, num_saved: int, watched: Any) -> None:
        """Writes a checkpoint beside the others and gives it its name when it is on disk; the last two stay."""
        beside, name = self.path / f".writing-{level}", self.path / f"{PREFIX}{level:012d}"
        try:
            with self._writing(f"The checkpoint of level {level}"):
                self._write(beside, level, carry, num_saved, watched)
                shutil.rmtree(name, ignore_errors=True)
                os.rename(beside, name)
                sync(self.path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        for old in sorted(self.path.glob(f"{PREFIX}*"))[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def _write(self, beside: Path, level: int, carry: Carry, num_saved: int, watched: Any) -> None:
        """A checkpoint at a place where nobody looks for one."""
        zarr = need("zarr", "io")
        shutil.rmtree(beside, ignore_errors=True)
        leaves = jax.tree.leaves(carry)
        group = zarr.open_group(str(beside), mode="w")
        for number, leaf in enumerate(leaves):
            array = np.asarray(leaf)
            group.create_array(f"leaf-{number}", data=array, chunks=array.shape if array.size else "auto")
        group.attrs.update({"level": level, "num_saved": num_saved, "num_leaves": len(leaves)})
        (beside / "watched.pickle").write_bytes(pickle.dumps(watched))
        sync_tree(beside)


def _read_problem(path: Path) -> Mapping[str, Any]:
    """The declaration of a run. Raises RunError where it cannot be read."""
    try:
        return dict(pickle.loads(path.read_bytes()))
    except Exception as error:  # a pickle that is cut short or refers to modules that are gone raises anything
        raise RunError(
            f"The declaration in {path} cannot be read: {type(error).__name__}: {error}. Modules that it was written "
            f"with must be there. To begin anew, solve the problem again with another folder for fd.Checkpoints."
        ) from error


def read_newest(path: Any) -> tuple[Mapping[str, Any], Kept | None]:
    """The problem of a folder of checkpoints, and the newest that can be read; None where none was written yet.

    Raises RunError where there are no checkpoints, or none that can be read.
    """
    folder, zarr = to_path(path, "fd.resume"), need("zarr", "io")
    if not (folder / PROBLEM).is_file():
        raise RunError(f"{folder} holds no checkpoints; write some with monitors=[fd.Checkpoints({str(path)!r})].")
    problem = _read_problem(folder / PROBLEM)
    written = sorted(folder.glob(f"{PREFIX}*"), reverse=True)
    for name in written:
        try:
            group = zarr.open_group(str(name), mode="r")
            leaves = tuple(np.asarray(group[f"leaf-{k}"][...]) for k in range(group.attrs["num_leaves"]))
            watched = pickle.loads((name / "watched.pickle").read_bytes())
            level, num_saved = int(group.attrs["level"]), int(group.attrs["num_saved"])
            return problem, Kept(level, leaves, num_saved, watched, problem.get(RUN))
        except (OSError, KeyError, ValueError, EOFError, pickle.UnpicklingError):  # half gone: the one before
            continue
    if written:
        raise RunError(
            f"None of the {len(written)} checkpoints in {folder} can be read. To begin anew, solve the problem again "
            f"and give another folder to fd.Checkpoints (and another store to fd.stream)."
        )
    return problem, None
