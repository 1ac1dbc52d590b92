"""(d) What a gradient costs by each adjoint: time over the forward solve, and memory, for more and more steps."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import fdsolve as fd

from ._compare import Settings, check_agreement
from ._table import Row, show_seconds
from ._timing import interleave

NUM = 128
STEPS = (100, 1000, 10000)
FORWARD_BAR, HAND_BAR = 8.0, 1.2
TOLERANCE = 2e-2
"""float32 over 10⁴ steps: a sum of terms of both signs."""
NOTE = "Against the hand-written checkpointed scan: nested jax.checkpoint over √T scans of √T steps."


def _courant() -> jax.Array:
    """(cΔt/Δx)² on the grid: two layers and an anomaly."""
    x = np.linspace(0.0, 1.0, NUM)
    c = np.where(x[:, None] < 0.5, 0.3, 0.45) + 0.05 * np.exp(-40 * ((x[:, None] - 0.6) ** 2 + (x[None] - 0.4) ** 2))
    return jnp.asarray(c**2, jnp.float32)


def _start() -> jax.Array:
    x = np.linspace(0.0, 1.0, NUM)
    return jnp.asarray(np.exp(-200 * ((x[:, None] - 0.5) ** 2 + (x[None] - 0.3) ** 2)), jnp.float32)


def _ours(steps: int, adjoint: Any) -> Callable[..., Any]:
    """c² ↦ the mean square of the last level."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=steps + 1), x=fd.Axis(0.0, 1.0, num=NUM), y=fd.Axis(0.0, 1.0, num=NUM))
    p = fd.Field("p", grid)
    p[...] = lambda p, m: (
        2 * p["t-1"]
        - p["t-2"]
        + m * (p["t-1", "x-1"] + p["t-1", "x+1"] + p["t-1", "y-1"] + p["t-1", "y+1"] - 4 * p["t-1"])
    )
    p[0:2] = _start()
    p[dict(x=[0, -1])] = p[dict(y=[0, -1])] = 0.0

    def run(m: Any) -> Any:
        return jnp.mean(jnp.square(fd.solve(p, m=m, save=fd.final(), adjoint=adjoint).final["p"]))

    return run


def _by_hand(steps: int) -> Callable[..., Any]:
    """The same with two arrays and nested checkpoints."""
    inner = int(np.sqrt(steps))
    outer, rest = divmod(steps - 1, inner)

    def run(m: Any) -> Any:
        def step(both: Any, _: Any) -> Any:
            old, now = both
            total = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * now[1:-1, 1:-1]
            new = 2 * now[1:-1, 1:-1] - old[1:-1, 1:-1] + m[1:-1, 1:-1] * total
            return (now, jnp.zeros_like(now).at[1:-1, 1:-1].set(new)), None

        @jax.checkpoint
        def block(both: Any, _: Any) -> Any:
            return lax.scan(step, both, None, length=inner)[0], None

        both = _walls(_start()), _walls(_start())
        both = lax.scan(block, both, None, length=outer)[0]
        both = lax.scan(step, both, None, length=rest)[0]
        return jnp.mean(jnp.square(both[1]))

    return run


def _walls(array: jax.Array) -> jax.Array:
    return jnp.zeros_like(array).at[1:-1, 1:-1].set(array[1:-1, 1:-1])


def _adjoints() -> list[tuple[str, Any]]:
    return [
        ("default", None),
        ("Full", fd.adjoint.Full()),
        ("Checkpointed", fd.adjoint.Checkpointed()),
        ("Reversible", fd.adjoint.Reversible()),
    ]


def sections(settings: Settings) -> list[tuple[str, list[Row]]]:
    """For each number of steps, each adjoint against the forward solve and the hand-written scan."""
    found = []
    for steps in STEPS[: 2 if settings.quick else 3]:
        found.append((f"Gradient by c² of a 2-D wave, {NUM}², {steps} steps", _rows(settings, steps)))
    return found


def _rows(settings: Settings, steps: int) -> list[Row]:
    given = [_courant()]
    size = NUM * NUM * 4
    hand = jax.jit(jax.grad(_by_hand(steps))).lower(*given).compile()
    expected = hand(*given)
    forward = jax.jit(_ours(steps, None)).lower(*given).compile()
    names, programs = [], []
    for name, adjoint in _adjoints():
        if name == "Full" and steps * size > 2**31:
            continue
        program = jax.jit(jax.grad(_ours(steps, adjoint))).lower(*given).compile()
        inside = np.s_[1:-1, 1:-1]
        check_agreement(name, np.asarray(program(*given))[inside], np.asarray(expected)[inside], TOLERANCE)
        names.append(name)
        programs.append(program)
    samples = interleave(
        [partial(f, *given) for f in (*programs, hand, forward)], budget=settings.budget, least=3, most=15
    )
    rows = []
    for place, (name, program) in enumerate(zip(names, programs, strict=True)):
        ratio, low, high = samples.ratio(place, len(programs))
        times, held = samples.ratio(place, len(programs) + 1)[0], program.memory_analysis().temp_size_in_bytes
        what = f"{name}: {times:.2f} × forward, {held / size:.4g} arrays"
        other = f"{show_seconds(samples.median(len(programs)))} (by hand)"
        bar = HAND_BAR if name in ("default", "Checkpointed") else None
        rows.append(Row(what, show_seconds(samples.median(place)), other, ratio, (low, high), bar, note=NOTE))
    held = hand.memory_analysis().temp_size_in_bytes / size
    times = samples.ratio(len(programs), len(programs) + 1)[0]
    rows.append(
        Row(f"by hand: {times:.2f} × fdsolve's forward, {held:.4g} arrays", "–", show_seconds(samples.median(-2)))
    )
    return rows
