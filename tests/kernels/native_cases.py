"""Marches by generated machine code against the portable kernel, and the problems they are tried on."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.kernels import Arrays, get
from fdsolve.kernels._march_call import MarchCall
from fdsolve.kernels.native._derivative import march
from fdsolve.kernels.native._tiling import Tiling
from fdsolve.stepping._level import make_level
from fdsolve.stepping._march import _empty_state

GROWN = 1e3


class Case:
    """The last run of levels of a plan: its call, its arrays, and the levels before it."""

    def __init__(self, plan: Any, steps: int | None = None):
        self.structure, self.axes = plan.structure, plan.problem.scope.grid.space
        self.arrays = Arrays(**plan.operands)
        *_, last = self.structure.segments
        self.start = last.start
        count: int = steps or last.stop - last.start
        self.call = MarchCall(self.structure, self.structure.phases[last.phases[0]], self.axes, count, "cpu")

    def begin(self, arrays: Arrays) -> dict[str, Any]:
        """The levels kept before the run."""
        state = _empty_state(self.structure)
        for segment in self.structure.segments[:-1]:
            for n in range(segment.start, segment.stop):
                phase = segment.phases[0] if len(segment.phases) == 1 else segment.phases[n - segment.start]
                state = make_level(self.structure, self.structure.phases[phase], arrays, state, n, self.axes)
        return dict(state.levels)

    def expected(self, arrays: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
        """The levels kept before the run, and those after it by the portable kernel."""
        levels = self.begin(arrays)
        return levels, get("march", "slices").function(self.call, arrays, levels, self.start)

    def agrees(self, tilings: Sequence[Tiling | None], tolerance: float | None = None) -> None:
        """Runs all tilings, and compares the points of all levels kept with those of the portable kernel."""
        levels, wanted = jax.jit(self.expected)(self.arrays)
        grown = [float(jnp.max(jnp.abs(array))) for held in wanted.values() for array in held]
        assert all(one < GROWN for one in grown), "the rules grew: they would not tell an error"
        for tiling in tilings:
            found = jax.jit(lambda held, tiling=tiling: march(self.call, self.arrays, held, self.start, tiling))(levels)
            for one in self.structure.carried:
                for behind, (array, other) in enumerate(zip(found[one.name], wanted[one.name], strict=True)):
                    self.compare(f"{one.name} {behind} back, {tiling}", one, array, other, tolerance)

    def compare(self, what: str, one: Any, found: Any, wanted: Any, tolerance: float | None) -> None:
        """The points of one array, to some units in the last place of the largest, for each level."""
        inside = tuple(slice(max(a, 0), a + n) for a, n in zip(one.lower, one.shape, strict=True))
        found, wanted = np.asarray(found)[inside], np.asarray(wanted)[inside]
        finite = wanted[np.isfinite(wanted)]
        scale = max(1.0, float(np.max(np.abs(finite), initial=0.0)))
        limit = tolerance or 8 * float(np.finfo(wanted.dtype).eps) * (self.call.steps + 4)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=limit * scale, err_msg=what)


def case_of(fields: Any, steps: int | None = None, stepper: Any = None, **parameters: Any) -> Case:
    """The case of some fields."""
    return Case(fd.plan(fields, stepper=stepper, save=fd.final(), kernel="slices", **parameters), steps)


def forbid_portable(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
    """Makes derivatives by the portable kernel an error where these modules ask for them."""

    def refuse(*given: Any) -> Any:
        raise AssertionError("the portable kernel was asked for a derivative")

    for module in modules:
        monkeypatch.setattr(module, "portable", refuse)
