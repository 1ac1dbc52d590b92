"""Derivatives are exact whatever is combined: rules × regions × walls × steppers × kernels × adjoints × saves, drawn.

Each problem is a function of all its parameters (initial state, a coefficient at every point, a scalar in rules, one in
walls): ⟨Jv, w⟩ = ⟨v, Jᵀw⟩, and the remainder of the first-order expansion is of order two.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import Parameter, Signature
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve import boundary
from fdsolve.schemes import derivative, divergence, laplacian

STEPS = 6
SEEDS = (3, 4, 7)
"""Few, since each is compiled: a sweep, machine code forwards in time, waves taken back by machine code."""
BITS = 1e-13
KERNELS = ("native", "slices", "gemm", "auto", "native", "fft", "powers")
FORMS: dict[str, tuple[Any, ...]] = {
    "update": (None,),
    "wave": (None,),
    "rate": (fd.schemes.Euler(), fd.schemes.RK4(), fd.schemes.SSPRK3(), fd.schemes.AdamsBashforth(2)),
    "sweep": (None,),
    "pair": (fd.schemes.StormerVerlet(), fd.schemes.Leapfrog(), fd.schemes.RK4()),
}
"""What a rule gives, with the steppers that take it."""
RULES: dict[str, tuple[str, Callable[..., Any]]] = {
    "plain": ("", lambda u, t: 0.2 * laplacian(u, at=t)),
    "scaled": ("c", lambda u, t, c: c * laplacian(u, at=t, order=4) - 0.2 * u[t]),
    "variable": ("kc", lambda u, t, k, c: k[...] * laplacian(u, at=t) + c),
    "flux": ("k", lambda u, t, k: divergence(k, u, at=t)),
    "advected": ("c", lambda u, t, c: -c * u[t] * derivative(u, "x", at=t)),
    "curved": ("kc", lambda u, t, k, c: jnp.tanh(u[t, "x+1"] - u[t]) * k[...] - c * u[t] ** 3),
}
"""Spatial parts of rules, of a field at level `t`, the coefficients k and the scalar c; the grid's spacings are 1."""
WALLS: dict[str, Callable[[], Any]] = {
    "value": lambda: boundary.Dirichlet(lambda b, t: b * t),
    "slope": lambda: boundary.Neumann(lambda b: b),
    "both": lambda: boundary.Robin(1.0, 0.5, lambda b, t: 0.3 * b + 0.1 * t),
    "mirror": lambda: boundary.Symmetric(),
    "out": lambda: boundary.Outflow(speed=0.5),
    "plain": lambda: lambda b, t: b * t,
}
REGIONS = ("none", "hole", "mask", "box", "point", "late")
SAVES: tuple[Callable[[], Any], ...] = (fd.final, lambda: fd.every(2), lambda: fd.every(1))


def asking(names: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of u and some parameters, as a rule that asks for these."""

    def rule(u: Any, **of: Any) -> Any:
        return function(u, **of)

    given = ["u", *names]
    rule.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in given])  # type: ignore[attr-defined]
    return rule


@dataclass(frozen=True)
class Problem:
    """What was drawn; `walls` are by axis, one name for a ring and two for two ends."""

    form: str
    stepper: Any
    rule: str
    walls: dict[str, tuple[str, ...]]
    region: str
    kernel: str
    adjoint: Any
    save: int
    sizes: tuple[int, ...]

    def fields(self) -> list[fd.Field]:
        """The declaration."""
        names = "xy"[: len(self.sizes)]
        rings = {name: len(self.walls[name]) == 1 for name in names}
        axes = {
            name: fd.Axis(0.0, float(n if rings[name] else n - 1), num=n, periodic=rings[name])
            for name, n in zip(names, self.sizes, strict=True)
        }
        u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 0.3, num=STEPS + 1), **axes))
        made = [u, fd.Field("v", u.grid)] if self.form == "pair" else [u]
        self._declare(*made)
        self._place(u)
        for name, kinds in self.walls.items():
            for side, kind in zip((0, -1), kinds if len(kinds) == 2 else (), strict=False):
                u[{name: side}] = WALLS[kind]()
        u[: 2 if self.form == "wave" else 1] = lambda f: f[...]
        return made

    def _declare(self, u: fd.Field, *others: fd.Field) -> None:
        names, part = RULES[self.rule]
        if self.form == "update":
            u[...] = asking(names, lambda u, **of: u["t-1"] + 0.3 * part(u, "t-1", **of))
        elif self.form == "wave":
            u[...] = asking(names, lambda u, **of: 2 * u["t-1"] - u["t-2"] + 0.2 * part(u, "t-1", **of))
        elif self.form == "sweep":
            u[...] = lambda u, k, c: 0.5 * u["t-1"] + 0.3 * jnp.sin(u["x-1"]) * k[...] + c * u["t-1", "x+1"]
        elif self.form == "rate":
            u[...] = fd.rate(asking(names, lambda u, **of: part(u, "t", **of)))
        else:
            (v,) = others
            u[...] = fd.rate(lambda v: v[...])
            v[...] = fd.rate(asking(names, lambda u, **of: part(u, "t", **of)))
            v[0] = lambda f: 0.3 * f[...]

    def _place(self, u: fd.Field) -> None:
        """The hole, or the rule that holds somewhere else or is added."""
        far = fd.rate if self.form in ("rate", "pair") else lambda rule: rule
        first = 2 if self.form == "wave" else 1
        if self.region == "hole":
            u[dict(x=slice(3, 5))] = boundary.Neumann(lambda b: b)
        elif self.region == "mask":
            mask = np.random.default_rng(3).random(self.sizes) < 0.3
            u[mask] = lambda c, x, t: c * jnp.sin(x) + t
        elif self.region == "box":
            u[first:, 2:4] += far(lambda c, t: c * t)
        elif self.region == "point":
            u[fd.point(**{name: 2.3 for name in "xy"[: len(self.sizes)]})] += far(lambda c, t: c**2 * jnp.cos(t))
        elif self.region == "late":
            u[4:, 2:5] = lambda u, c: c * u["t-1"]

    def run(self, parameters: dict[str, Any]) -> list[jax.Array]:
        """All that is saved, zero in holes."""
        made = self.fields()
        solution = fd.solve(made, **self.options, parameters={name: parameters[name] for name in self.used})
        return [jnp.nan_to_num(solution[one.name]) for one in made]

    @property
    def options(self) -> dict[str, Any]:
        """What `solve` is given besides."""
        stepper = {} if self.stepper is None else dict(stepper=self.stepper)
        return dict(stepper, save=SAVES[self.save](), adjoint=self.adjoint, kernel=self.kernel)

    @property
    def used(self) -> set[str]:
        """The parameters that something asks for."""
        walls = {kind for kinds in self.walls.values() for kind in kinds if len(kinds) == 2}
        by = {
            "k": self.form == "sweep" or "k" in RULES[self.rule][0],
            "c": self.form == "sweep" or "c" in RULES[self.rule][0] or self.region not in ("none", "hole"),
            "b": bool(walls & {"value", "slope", "both", "plain"}) or self.region == "hole",
        }
        return {"f"} | {name for name, here in by.items() if here}


def draw(seed: int) -> Problem:
    """A problem; successive seeds go through all forms, rules, regions, kernels and adjoints."""
    random = np.random.default_rng([11, seed])
    pick = lambda every: every[int(random.integers(len(every)))]  # noqa: E731
    forms, rules = list(FORMS), list(RULES)
    form, rule = forms[seed % len(forms)], rules[(seed + seed // 6) % len(rules)]
    kernel, region = KERNELS[seed % len(KERNELS)], REGIONS[(seed + seed // 4) % len(REGIONS)]
    rank = 1 if form == "sweep" else 1 + int(random.integers(2))
    if kernel in ("fft", "powers"):
        form, rule, region = "update", "plain", "none"
    elif kernel == "gemm":
        form, rule, region, rank = pick(["update", "rate"]), "plain", pick(["none", "point"]), 1
    elif kernel == "native":
        form = pick(["update", "wave", "rate"])
    stepper = FORMS[form][0] if kernel == "native" else pick(FORMS[form])
    if region == "late" and isinstance(stepper, fd.schemes.AdamsBashforth | fd.schemes.Leapfrog):
        region = "box"  # what keeps older values has no points whose rules change
    kinds = [one for one in WALLS if form not in ("rate", "pair") or one not in ("out", "plain")]
    kinds = [one for one in kinds if rule not in ("scaled", "curved") or one != "plain"]
    kinds = ["value", "plain"] if form == "sweep" else kinds
    ring = 0.0 if form == "sweep" else 0.3
    walls = {name: ("ring",) if random.random() < ring else (pick(kinds), pick(kinds)) for name in "xy"[:rank]}
    if kernel in ("fft", "powers"):
        walls = {name: ("ring",) for name in walls}
    adjoints = [
        None, fd.adjoint.Full(), fd.adjoint.Checkpointed(snapshots=2), fd.adjoint.Checkpointed(levels=2),
        fd.adjoint.Forward(),
    ]  # fmt: skip
    adjoint = adjoints[(seed + seed // 5) % len(adjoints)]
    if form == "wave" or isinstance(stepper, fd.schemes.StormerVerlet | fd.schemes.Leapfrog):
        adjoint = pick([fd.adjoint.Reversible(), fd.adjoint.Reversible(), adjoint])
    drawn = Problem(form, stepper, rule, walls, region, kernel, adjoint, int(random.integers(3)), (8, 7)[:rank])
    return served(drawn)


def served(problem: Problem) -> Problem:
    """The problem, with a kernel or an adjoint that takes every rule where its own is refused."""
    numbers = {"f": 0.2 * np.ones(problem.sizes), "k": 0.2 * np.ones(problem.sizes), "c": 0.2, "b": 0.1}
    try:
        fd.plan(problem.fields(), **problem.options, parameters={name: numbers[name] for name in problem.used})
    except fd.PlanningError as error:
        if "does not serve" in str(error) or "has nothing to do" in str(error):
            return served(replace(problem, kernel="slices"))
        assert "cannot be undone" in str(error), error
        return replace(problem, adjoint=fd.adjoint.Checkpointed(snapshots=3))
    return problem


def norm(tree: Any) -> float:
    return float(jnp.sqrt(inner(tree, tree)))


def inner(one: Any, other: Any) -> Any:
    return sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def plus(one: Any, other: Any, h: float) -> Any:
    return jax.tree.map(lambda a, b: a + h * b, one, other)


def errors_of(problem: Problem, seed: int) -> tuple[float, float]:
    """The difference of the two products over the norms, and the order of the remainder (2 where there is none)."""
    random = np.random.default_rng([12, seed])
    shapes = {"f": problem.sizes, "k": problem.sizes, "c": (), "b": ()}
    p = {name: jnp.asarray(0.1 + 0.3 * random.random(shapes[name])) for name in sorted(problem.used)}
    v = {name: jnp.asarray(random.normal(size=one.shape)) for name, one in p.items()}

    @jax.jit
    def every(p: Any, v: Any) -> Any:
        u, along = jax.jvp(problem.run, (p,), (v,))
        w = [jnp.sin(1.7 * jnp.arange(one.size, dtype=one.dtype).reshape(one.shape) + seed) for one in u]
        return u, along, w, jax.vjp(problem.run, p)[1](w)[0]

    u, along, w, back = every(p, v)
    assert norm(along) > 1e-3
    apart = abs(inner(along, w) - inner(v, back)) / (norm(along) * norm(w))
    first, second = (norm(plus(plus(every(plus(p, v, h), v)[0], u, -1.0), along, -h)) for h in (2e-3, 1e-3))
    linear = first < 1e-12 * norm(u)
    return float(apart), 2.0 if linear else float(np.log2(first / second))


@pytest.mark.parametrize("seed", SEEDS)
def test_derivatives_are_exact(seed: int) -> None:
    apart, order = errors_of(draw(seed), seed)
    assert apart <= BITS
    assert abs(order - 2) <= 0.05
