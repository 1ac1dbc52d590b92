"""A run to be killed: heat with saves, slowed down between chunks so that there is time to kill it."""

import os
import subprocess
import sys
import time
from typing import Any

import numpy as np

import fdsolve as fd

EVERY = 5


def declare() -> fd.Field:
    """2-D heat by RK4."""
    grid = fd.Grid(t=fd.Time(0.0, 0.2, num=401), x=fd.Axis(0, 1, num=17), y=fd.Axis(0, 1, num=17))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u, kappa: kappa * fd.schemes.laplacian(u))
    u[0] = lambda x, y: x * (1 - y)
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    u[dict(y=[0, -1])] = 0.0
    return u


def wait(look: Any) -> None:
    """A pause."""
    time.sleep(0.02)


def run(folder: str, pause: bool = True) -> Any:
    """The run with checkpoints."""
    monitors = [fd.Checkpoints(folder, every=35), *([fd.monitors.Callback(wait, every=10)] if pause else [])]
    return fd.solve(declare(), kappa=0.5, save=fd.every(EVERY), monitors=monitors)


def go_on(folder: str) -> None:
    """The rest of it."""
    np.save(f"{folder}-final.npy", np.asarray(fd.resume(folder)["u"]))


def reference(folder: Any) -> np.ndarray:
    """The same without a break, in a process of its own: this one compiles otherwise."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = str(folder / "whole")
    text = (
        "import sys, jax, numpy as np; jax.config.update('jax_enable_x64', True); "
        f"sys.path.insert(0, {root!r}); from tests.running.killed import run; "
        f"np.save({path + '.npy'!r}, np.asarray(run({path!r}, False)['u']))"
    )
    subprocess.run([sys.executable, "-c", text], check=True, env={**os.environ, "XLA_FLAGS": ""}, timeout=300)
    return np.load(f"{path}.npy")
