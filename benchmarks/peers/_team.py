"""Contestants in processes of their own: numba's pool, OpenMP's and XLA's would disturb one another in one."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ._cases import Case

SINGLE = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Missing(Exception):
    """A contestant that cannot run here; its message says why."""


class Worker:
    """One process with one or several contestants, which wait for requests."""

    def __init__(self, name: str, case: Case, threads: int, kernels: tuple[str, ...] = ()) -> None:
        environment = {**os.environ, **dict.fromkeys(SINGLE, str(threads)), "DEVITO_LOGGING": "ERROR"}
        command = [sys.executable, "-m", "benchmarks.peers", name, json.dumps(asdict(case)), json.dumps(list(kernels))]
        self.name = name
        self._process = subprocess.Popen(
            _on_cores(command, threads),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.labels: list[str] = []
        self.refused: dict[str, str] = {}

    def wait(self) -> None:
        """Waits until the contestants are made. Raises Missing where a package is not there."""
        reply = self._reply()
        if "missing" in reply:
            self.close()
            raise Missing(f"{self.name}: {reply['missing']}")
        self.labels, self.refused = reply["labels"], reply["refused"]

    def run(self, label: str) -> float:
        """Seconds of one run."""
        self._ask("run", label)
        return self._reply()["seconds"]

    def memory(self, label: str) -> tuple[int, int]:
        """Bytes by which a run lets the process grow, and those that XLA says its program holds (0: not XLA's)."""
        self._ask("memory", label)
        reply = self._reply()
        return reply["taken"], reply["temporary"]

    def answer(self, label: str, folder: Path) -> np.ndarray:
        """The last level of all fields, from the initial state: (field, *space)."""
        path = folder / f"{self.name}.npy"
        self._ask("answer", label, str(path))
        self._reply()
        found = np.load(path)
        path.unlink()
        return found

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, *request: str) -> None:
        assert self._process.stdin is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"The process of {self.name} ended; standard error says why.")
        return json.loads(line)


def _on_cores(command: list[str], threads: int) -> list[str]:
    """The command bound to as many cores as it may use, where there are more."""
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) <= threads:
        return command
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    return ["taskset", "-c", cores, *command]
