"""Monitors of runs under jit, grad, jvp and vmap: they do not watch, and that is told."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import fdsolve as fd

WATCH = [fd.monitors.Probe(x=0.33, every=5), fd.monitors.Conservation("u", tolerance=1e-3)]
NOTE = (
    "Note: Not watched by Probe(x=0.33), Conservation: a run under jit, grad, jvp or vmap is one program, without "
    "chunks between which they could look. Record by save=fd.receivers(...), which is differentiable, or solve outside."
)


def heat() -> fd.Field:
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.05, num=11), x=fd.Axis(0.0, 1.0, num=9)))
    u[...] = fd.rate(lambda u, k: k * fd.schemes.laplacian(u))
    u[0] = lambda x: 1.0 + jnp.cos(jnp.pi * x)
    u[dict(x=[0, -1])] = fd.boundary.Neumann(0.0)
    return u


TRANSFORMS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "jit": lambda run: jax.jit(run)(0.3),
    "grad": lambda run: jax.grad(run)(0.3),
    "jvp": lambda run: jax.jvp(run, (0.3,), (1.0,)),
    "vmap": lambda run: jax.vmap(run)(jnp.array([0.2, 0.3])),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_traced_run_says_that_nobody_watched_it(transform: str) -> None:
    seen: list[fd.Solution] = []

    def run(k: Any) -> Any:
        seen.append(fd.solve(heat(), k=k, monitors=WATCH))
        assert NOTE in str(fd.plan(heat(), k=k, monitors=WATCH))
        return jnp.sum(seen[0]["u"])

    TRANSFORMS[transform](run)
    solution = seen[0]
    assert NOTE in str(solution.plan)
    for title in ("Probe(x=0.33)", "Conservation"):
        with pytest.raises(fd.RunError, match=r"no records of '.*': a run under jit.*fd\.receivers\(\.\.\.\)"):
            solution.monitors[title]
    assert "Conservation" not in solution.monitors
    assert dict(solution.monitors) == {}
    assert repr(solution.monitors) == "Unwatched(Probe(x=0.33), Conservation)"


def test_bars_are_told_and_what_is_not_traced_has_no_note() -> None:
    def shown(k: Any, **options: Any) -> str:
        return str(fd.plan(heat(), k=k, **options))

    texts: list[str] = []
    jax.jit(lambda k: texts.append(shown(k, progress=True)) or k).lower(0.3)
    assert "Note: Not watched by the bar of progress=True: a run under jit" in texts[0]
    jax.jit(lambda k: texts.append(shown(k)) or k).lower(0.3)
    assert "Not watched" not in texts[1]
    assert "Not watched" not in shown(0.3, monitors=WATCH, progress=True)
    solution = fd.solve(heat(), k=0.3, monitors=WATCH)
    assert "Not watched" not in str(solution.plan)
    assert list(solution.monitors) == ["Probe(x=0.33)", "Conservation"]
