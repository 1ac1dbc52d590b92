"""Complex systems whose derivative is linear over the real numbers only: how it is told, and what is solved instead."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from ..errors import PlanningError
from ..solvers import Parts, Side, SystemOutline
from ..stencil import AFFINE, CONSTANT, Operand, Traced, output_degrees

Marks = Callable[[Operand], bool]


def derivative_of(rule: Traced, moving: Sequence[bool]) -> tuple[jex.ClosedJaxpr, int]:
    """The derivative of a rule along its operands marked, (operands, directions) ↦ change, and how many directions."""
    function = rule.function(rule.consts)

    def derivative(values: Sequence[Any], tangents: Sequence[Any]) -> Any:
        def of_reads(*reads: Any) -> Any:
            given = iter(reads)
            return function(*(next(given) if m else v for m, v in zip(moving, values, strict=True)))

        return jax.jvp(of_reads, [v for m, v in zip(moving, values, strict=True) if m], list(tangents))[1]

    specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in rule.jaxpr.invars]
    directions = [spec for m, spec in zip(moving, specs, strict=True) if m]
    return jax.make_jaxpr(derivative)(specs, directions), len(directions)


def is_holomorphic(rule: Traced, inner: Marks) -> bool:
    """Whether the derivative of a rule along the operands marked is linear over the complex numbers."""
    dtypes = [v.aval.dtype for v in rule.jaxpr.invars]
    moving = [inner(o) and jnp.issubdtype(of, jnp.inexact) for o, of in zip(rule.operands, dtypes, strict=True)]
    if not any(moving):
        return True
    closed, count = derivative_of(rule, moving)
    known = len(closed.jaxpr.constvars) + len(moving)
    return output_degrees(closed.jaxpr, [CONSTANT] * known + [AFFINE] * count)[0] <= AFFINE


def find_parts(fields: Sequence[str], dtypes: Sequence[str], holomorphic: bool) -> Parts | None:
    """What a system is solved for instead of complex fields: their parts, where it is not holomorphic or has real
    fields too; None where it is solved as it is."""
    are_complex = [np.issubdtype(np.dtype(one), np.complexfloating) for one in dtypes]
    if not any(are_complex) or (all(are_complex) and holomorphic):
        return None
    return Parts(tuple(fields), tuple(dtypes))


def outline_of_parts(outline: SystemOutline, parts: Parts) -> SystemOutline:
    """What is known of the system of the parts."""
    wall = Side("other", True)
    return replace(
        outline,
        layout=None if outline.layout is None else parts.layout(outline.layout),
        constant=False,
        sides=tuple(pair if pair[0].kind == "periodic" else (wall, wall) for pair in outline.sides),
        complex=False,
        varies=(True,) * len(outline.axes),
        parts=parts,
    )


def say_parts(outline: SystemOutline) -> tuple[str, ...]:
    """Why a system is one of parts."""
    if outline.parts is None:
        return ()
    names = ", ".join(outline.parts.fields)
    return (
        f"real and imaginary parts of {names} are unknown: complex numbers do not carry the derivative of conj, abs, "
        f"real or imag, or of real fields",
    )


def check_precision(fields: Sequence[str], dtypes: Sequence[str]) -> None:
    """Refuses fields that are solved for together in two precisions."""
    first, *others = dtypes
    for name, dtype in zip(fields[1:], others, strict=True):
        if jnp.finfo(np.dtype(dtype)).dtype != jnp.finfo(np.dtype(first)).dtype:
            raise PlanningError(
                f"Fields that are solved for together are of one precision: `{fields[0]}` has dtype "
                f"{np.dtype(first)} and `{name}` {np.dtype(dtype)}. Declare them with dtypes of one precision, such as "
                f"dtype=float and dtype=complex; in a march, an explicit stepper such as fd.schemes.RK4() takes them "
                f"as they are."
            )
