"""(d) What a gradient costs by each adjoint: time over the forward solve, and memory, for more and more steps."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import fdsolve as fd

from ._compare import Settings, check_agreement, gradient
from ._table import Row, show_seconds
from ._timing import interleave

NUM = 128
STEPS = (100, 1000, 10000)
PARAMETER_STEPS = 64
FORWARD_BAR, HAND_BAR, NATIVE_BAR = 8.0, 1.2, 5.0
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
    num = 256 if settings.quick else 1024
    found.append(
        (f"Gradient by parameters, {num}², {PARAMETER_STEPS} steps, default adjoint", _parameters(settings, num))
    )
    return found


def _burgers(num: int, kernel: str) -> Callable[..., Any]:
    """ν ↦ the mean square of the last level of two velocities carried by themselves."""
    axes = {name: fd.Axis(0.0, 1.0, num=num) for name in "xy"}
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=PARAMETER_STEPS + 1), **axes)
    u, v = fd.Field("u", grid), fd.Field("v", grid)

    def carried(w: Any, u: Any, v: Any, nu: Any) -> Any:
        along = u["t-1"] * (w["t-1"] - w["t-1", "x-1"]) + v["t-1"] * (w["t-1"] - w["t-1", "y-1"])
        around = w["t-1", "x-1"] + w["t-1", "x+1"] + w["t-1", "y-1"] + w["t-1", "y+1"]
        return w["t-1"] - 0.1 * along + nu * (around - 4 * w["t-1"])

    u[...] = lambda u, v, nu: carried(u, u, v, nu)
    v[...] = lambda u, v, nu: carried(v, u, v, nu)
    u[0] = lambda x, y: jnp.sin(3 * x) * jnp.cos(5 * y)
    v[0] = lambda x, y: jnp.cos(4 * x * y)
    for one in (u, v):
        one[dict(x=[0, -1])] = one[dict(y=[0, -1])] = 0.0
    return lambda nu: fd.solve((u, v), nu=nu, save=fd.final(), kernel=kernel).final["u"]


def _medium(num: int, kernel: str) -> Callable[..., Any]:
    """The conductivity at every point ↦ the last level of heat between insulated walls and cold ones."""
    axes = {name: fd.Axis(0.0, num - 1.0, num=num) for name in "xy"}
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, float(PARAMETER_STEPS), num=PARAMETER_STEPS + 1), **axes))
    u[...] = lambda u, m: (
        u["t-1"] + m[...] * (u["t-1", "x-1"] + u["t-1", "x+1"] + u["t-1", "y-1"] + u["t-1", "y+1"] - 4 * u["t-1"])
    )
    u[0] = lambda x, y: jnp.sin(0.1 * x) * jnp.cos(0.2 * y)
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    u[dict(y=[0, -1])] = 0.0
    return lambda m: fd.solve(u, m=m, save=fd.final(), kernel=kernel).final["u"]


def _parameters(settings: Settings, num: int) -> list[Row]:
    """What a gradient by a parameter costs where generated code runs both ways, and where the portable kernel does."""
    rows = []
    conductivity = jnp.asarray(0.1 + 0.1 * np.random.default_rng(0).uniform(size=(num, num)), jnp.float32)
    for name, make, at in (("Burgers, by ν", _burgers, jnp.float32(0.05)), ("heat, by κ(x, y)", _medium, conductivity)):
        forward = jax.jit(make(num, "native")).lower(at).compile()
        ours, other = (gradient(make(num, kernel)).lower(at).compile() for kernel in ("native", "slices"))
        check_agreement(name, ours(at), other(at), TOLERANCE)
        samples = interleave([partial(f, at) for f in (ours, forward, other)], budget=settings.budget, least=3, most=15)
        seconds = [show_seconds(samples.median(k)) for k in range(3)]
        for place, (against, bar) in ((1, ("forward", NATIVE_BAR)), (2, ("gradient by `slices`", None))):
            ratio, low, high = samples.ratio(0, place)
            what = f"{name}, against the {against}"
            rows.append(Row(what, seconds[0], f"{seconds[place]} ({against})", ratio, (low, high), bar))
    return rows


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
