"""The kernels of a run: chosen once, when it is planned, for each operation that a solve is made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError, PlanningError
from ..planning import Piece, Segment, Structure
from ._affine_pieces import stencil_calls
from ._level import Arrays
from ._march_call import MarchCall
from ._registry import available, detect_platform, get
from ._scopes import resolve, show_known
from ._selection import Choice, failed, is_named, note_failure, refusal_of, select

OPERATIONS = ("march", "stencil")
"""What a solve is made of: many levels at once, and the sums over neighbours within a level."""


@dataclass(frozen=True)
class Chosen:
    """The choice for an operation of a run, the call that decided, the pieces it runs, and a remark for the plan."""

    operation: str
    choice: Choice
    call: Any
    pieces: tuple[Piece, ...]
    remark: str

    @property
    def lines(self) -> tuple[str, ...]:
        """What runs and why; what was refused and why; what each link of the chain said."""
        choice = self.choice
        first = f"Kernel for {self.operation}: {choice.backend} ({choice.reason}){self.remark}"
        refused = [f"  refused {name}: {why}" for name, why in choice.refused]
        return (first, *refused, f"  {' → '.join(choice.chain)}")


def choose_kernels(
    structure: Structure, axes: tuple[str, ...], option: Any, operands: Mapping[str, Any]
) -> tuple[Chosen, ...]:
    """The kernel of each operation of a run; `option` is what kernel= was given.

    Raises DeclarationError for an option that names no kernel of a solve, PlanningError for a kernel asked for that
    does not serve this one.
    """
    named = resolve(option)
    asked = {operation: name for operation, name in named.items() if operation in OPERATIONS}
    if named and not asked:
        raise DeclarationError(
            f"{show_known()}; a solve has the operations {' and '.join(OPERATIONS)}, and {option!r} names a kernel of "
            f"{', '.join(sorted(named))}."
        )
    explicit = "tune" if option == "tune" else asked
    stencil = _choose_stencil(structure, explicit)
    march = _choose_march(structure, axes, explicit, operands, stencil)
    chosen = tuple(one for one in (march, stencil) if one is not None)
    wanted = {operation: name for operation, name in asked.items() if name not in ("auto", "slices")}
    if wanted and not any(one.operation in wanted for one in chosen):
        raise PlanningError(
            f"The kernel `{next(iter(wanted.values()))}` has nothing to do in this solve. "
            f"{' '.join(_why_absent(structure, operation) for operation in wanted)} "
            f'Leave the choice to kernel="auto".'
        )
    return chosen


def _why_absent(structure: Structure, operation: str) -> str:
    """Why a solve does not have an operation."""
    if operation == "march":
        return "A march takes two levels or more of one structure, and there are none."
    reasons = "; ".join(f"{label} {why}" for label, why in stencil_calls(structure)[1].items())
    return f"Stencils are rules that are affine with constant weights, and none is: {reasons}."


def kernels_of(chosen: Sequence[Chosen]) -> dict[Piece, str]:
    """The kernel that runs a piece, where it is not `slices`."""
    given = [one for one in chosen[::-1] if one.choice.backend != "slices"]
    return {piece: one.choice.backend for one in given for piece in one.pieces}


def names_of(chosen: Sequence[Chosen]) -> tuple[tuple[str, str], ...]:
    """The kernels by operation, as a structure holds them."""
    return tuple((one.operation, one.choice.backend) for one in chosen if one.choice.backend != "slices")


def give_up(chosen: Sequence[Chosen], error: Exception) -> None:
    """Takes note that a run failed to build, so that choosing again gives the next kernels; raises if there is none.

    Blamed is the kernel that the error's notes name, else the first that was not asked for.
    """
    own = [one for one in chosen if one.choice.backend != "slices"]
    notes = "\n".join(getattr(error, "__notes__", ()))
    named = [one for one in own if one.choice.kernel.title in notes]
    blamed = next((one for one in named or own if named or not one.choice.asked_for), None)
    if blamed is None and not own:
        raise error
    blamed = blamed or own[0]
    if blamed.choice.asked_for:
        raise failed(blamed.choice.kernel, error) from error
    note_failure(blamed.choice.kernel, blamed.call, error)


def _choose_stencil(structure: Structure, explicit: Any) -> Chosen | None:
    calls, others = stencil_calls(structure)
    if not calls:
        return None
    ranked = sorted(calls, key=lambda call: -int(np.prod(call.shape)))
    choice = select(ranked[0], explicit)
    left = {call: why for call in ranked if (why := refusal_of(choice.kernel, call)) is not None}
    served = tuple(dict.fromkeys(piece for call in ranked if call not in left for piece in calls[call]))
    rest = [f"{label} {why}" for label, why in others.items()]
    rest += [f"{piece.label}: {why}" for call, why in left.items() for piece in calls[call]]
    remark = f"; by slices: {_show_few(rest)}" if rest and choice.backend != "slices" else ""
    return Chosen("stencil", choice, ranked[0], served, remark)


def _show_few(entries: Sequence[str], most: int = 3) -> str:
    more = f" and {len(entries) - most} more" if len(entries) > most else ""
    return "; ".join(entries[:most]) + more


def _choose_march(
    structure: Structure,
    axes: tuple[str, ...],
    explicit: str | Mapping[str, str],
    operands: Mapping[str, Any],
    stencil: Chosen | None,
) -> Chosen | None:
    """The kernel of the longest run of levels of one phase, where marches have the portable kernel to fall back on.

    Where a kernel for stencils was asked for and none for marches, it is the portable one, which runs it.
    """
    runs = [segment for segment in structure.segments if len(segment.phases) == 1 and segment.stop - segment.start > 1]
    if not runs or not any(kernel.backend == "slices" for kernel in available("march")):
        return None
    longest = max(runs, key=lambda segment: segment.stop - segment.start)
    steps = steps_between(structure, longest)
    phase = structure.phases[longest.phases[0]]
    call = MarchCall(structure, phase, axes, steps, detect_platform())
    if stencil is not None and stencil.choice.asked_for and not is_named("march", explicit):
        reason = f"it runs stencils by {stencil.choice.backend}"
        choice = Choice("slices", get("march", "slices"), reason, (), (f"stencil: {stencil.choice.backend}",))
    else:
        choice = select(call, explicit, _march_examples(call, operands, longest.start))
    return Chosen("march", choice, call, (*phase.rates, *phase.values), f"; up to {steps} levels at a time")


def steps_between(structure: Structure, segment: Segment) -> int:
    """The most levels of a segment that are marched through without one being saved or recorded on the way."""
    if structure.recording is not None:
        return 1
    wanted = [level for level in structure.saved_levels if segment.start <= level < segment.stop]
    return max(b - a for a, b in pairwise([segment.start - 1, *wanted, segment.stop]))


def _march_examples(call: MarchCall, operands: Mapping[str, Any], start: int) -> Callable[[], tuple[Any, ...]] | None:
    """The run's own arrays and made-up levels of order one; None under jit, where arrays have no values."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(dict(operands))):
        return None

    def make() -> tuple[Any, ...]:
        random = np.random.default_rng(11)
        levels = {
            one.name: tuple(
                jnp.asarray(random.uniform(0.5, 1.0, one.padded_shape).astype(one.dtype))
                for _ in range(max(one.kept, 1))
            )
            for one in call.structure.carried
        }
        return Arrays(**operands), levels, jnp.asarray(start)

    return make
