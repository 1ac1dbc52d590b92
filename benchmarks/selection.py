"""(j) What the choice of a kernel is worth: the heuristic against every kernel there is, first calls, gradients."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import fdsolve as fd

from ._compare import Settings, compare, gradient
from ._marches import heat_arguments, heat_ours
from ._table import Row, show_seconds
from .kernels import OURS, measure
from .peers import Case

TITLE = "Selection: the kernel chosen unasked against the fastest one, whole solves under `jit`"
FIRST_TITLE = 'First calls in a new process: `fd.solve` with `kernel="native"`, heat 1024²'
GRADIENT_TITLE = "Gradient of 64 heat steps at 1024² by the initial state"
MOST_LOST = 1.25
FIRST_NOTE = "The rules made into a program, generated, compiled or loaded, and registered: without planning and XLA."
UPDATES = 2**28
FAR = 3.0
"""Times slower than the fastest at which a kernel is not timed further."""
CASES: dict[str, tuple[int, ...]] = {
    "heat2d": (64, 256, 1024, 4096, 8192),
    "burgers2d": (64, 256, 1024, 4096, 8192),
    "acoustic2d_4": (64, 256, 1024, 4096, 8192),
    "heat1d": (2**12, 2**17, 2**22),
    "heat3d": (32, 128, 256),
}
FIRST_CALL = """
import json, sys, time
import numpy, numba, llvmlite.binding
import jax, jax.numpy as jnp
import fdsolve as fd
from benchmarks.peers._cases import Case
from benchmarks.peers._ours import solve
jax.block_until_ready(jnp.ones(3) + 1)
from fdsolve.kernels.native import _march

own = []


def timed(function):
    def call(*args):
        start, busy = time.perf_counter(), time.process_time()
        found = function(*args)
        own.append((time.perf_counter() - start, time.process_time() - busy))
        return found

    return call


_march.layout_of, _march.generate = timed(_march.layout_of), timed(_march.generate)
seconds = []
for kernel in ("slices", "native", "native"):
    call, arrays = solve(Case("heat2d", 1024, "float32", 2**26), kernel)
    start = time.perf_counter()
    try:
        jax.block_until_ready(call(*arrays))
    except fd.FdsolveError as error:
        sys.exit(print(json.dumps(str(error))))
    seconds.append(time.perf_counter() - start)
print(json.dumps([*seconds, *map(sum, zip(*own))]))
"""
"""`slices` goes first, so that what any first call pays is paid; `own` is what `native` takes wherever it happens."""


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """The group's tables."""
    return [(TITLE, _choices(settings)), (FIRST_TITLE, _first_calls()), (GRADIENT_TITLE, _gradients(settings))]


def _choices(settings: Settings) -> list[Row]:
    """A row a case: the time of what "auto" takes over that of the fastest kernel."""
    choice, rows = settings.choice, []
    for problem in choice.problems or CASES:
        sizes = choice.sizes or (CASES[problem][:3] if settings.quick else CASES[problem])
        rows += [
            _choice(settings, Case(problem, num, dtype, UPDATES))
            for num in sizes
            for dtype in choice.dtypes or ("float32", "float64")
        ]
    return rows


def _choice(settings: Settings, case: Case) -> Row:
    names = tuple(sorted({one.backend for op in ("march", "stencil") for one in fd.kernels.available(op)}))
    kernels = ("auto", *(name for name in names if name != "reference"))
    measured = measure(settings, case, (OURS,), kernels, far=FAR, keep=f"{OURS} auto")
    auto = measured.labels.index(f"{OURS} auto")
    others = [i for i, label in enumerate(measured.labels) if i != auto and not label.endswith("eager")]
    best = min(others, key=measured.samples.median)
    ratio, low, high = measured.samples.ratio(auto, best)
    ranked = sorted(others, key=measured.samples.median)
    shown = ", ".join(
        f"{measured.labels[i][len(OURS) + 1 :]} {show_seconds(measured.samples.median(i))}" for i in ranked
    )
    return Row(case.title, show_seconds(measured.samples.median(auto)), shown, ratio, (low, high), MOST_LOST)


def _first_calls() -> list[Row]:
    """From an empty cache, and in another process from what the first one left."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FDSOLVE_CACHE_DIR": folder}
        cold, warm = _first(environment), _first(environment)
    rows = []
    for what, found, bar, own_bar in (("empty cache", cold, 3.0, None), ("from the cache", warm, None, 0.1)):
        if isinstance(found, str):
            return [Row(what, "–", found)]
        slices, native, again, own, busy = found
        others = f"{show_seconds(slices)} with `slices`, {show_seconds(again)} the second time"
        rows.append(Row(f"{what}: whole first call", f"{show_seconds(native)} ({others})", "–", native, None, bar))
        shown = f"{show_seconds(own)} ({show_seconds(busy)} of all cores)"
        rows.append(Row(f"{what}: the kernel's own part", shown, "–", own, None, own_bar, note=FIRST_NOTE))
    return rows


def _first(environment: dict[str, str]) -> Any:
    """Seconds of a call by `slices`, of the first by `native`, of a second, of its own part; or why there are none."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALL], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def heat_frozen(num: int, steps: int) -> Callable[..., Any]:
    """By hand: two arrays in turn and a `lax.scan`, walls at zero from the second level on."""
    assert steps % 2 == 0 and steps > 2

    def inner(v: jax.Array, k: Any) -> jax.Array:
        around = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:]
        return v[1:-1, 1:-1] + k * (around - 4 * v[1:-1, 1:-1])

    def solve(start: jax.Array, k: Any) -> jax.Array:
        def twice(pair: Any, _: None) -> tuple[Any, None]:
            v, w = pair
            w = lax.dynamic_update_slice(w, inner(v, k), (1, 1))
            v = lax.dynamic_update_slice(v, inner(w, k), (1, 1))
            return (v, w), None

        cold = jnp.zeros((num, num), start.dtype)
        first = lax.dynamic_update_slice(cold, inner(start, k), (1, 1))
        second = lax.dynamic_update_slice(cold, inner(first, k), (1, 1))
        return lax.scan(twice, (second, first), None, length=steps // 2 - 1)[0][0]

    return jax.jit(solve)


def _gradients(settings: Settings) -> list[Row]:
    num, steps = 1024, 64
    given = heat_arguments(num)
    hand = gradient(heat_frozen(num, steps))
    rows = []
    for kernel in settings.choice.kernels:
        try:
            ours = gradient(heat_ours(num, steps, kernel))
            edges = [np.asarray(f(*given))[[0, -1]] for f in (ours, hand)]
        except fd.FdsolveError as error:
            rows.append(Row(f"kernel {kernel}", "–", str(error)))
            continue
        apart = float(np.abs(edges[0] - edges[1]).max() / np.abs(edges[1]).max())
        what = f"kernel {kernel}; at the edges apart by {apart:.1e} of the largest"
        rows.append(compare(settings, what, ours, hand, given, against="`lax.scan` by hand", bar=3.0, wants_more=True))
    return rows
