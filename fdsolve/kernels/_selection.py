"""Selection: which kernel serves a call, and why.

Explicit, then the scoped overlay, then what was measured before (in this process, on this machine), then measuring now,
then the highest priority.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ..errors import DeclarationError, FdsolveError, FdsolveWarning, PlanningError
from ._registry import Kernel, available, get, key_of, operations

_overlays: ContextVar[tuple[tuple[tuple[str, str], ...], ...]] = ContextVar("fdsolve_kernel_overlays", default=())
_failures: dict[Any, str] = {}


@dataclass(frozen=True)
class Choice:
    """The kernel chosen for a call and the reason; which were refused, with reasons; and what each link said."""

    backend: str
    kernel: Kernel
    reason: str
    refused: tuple[tuple[str, str], ...] = ()
    chain: tuple[str, ...] = ()

    def __call__(self, call: Any, *operands: Any) -> Any:
        return self.kernel(call, *operands)

    def __str__(self) -> str:
        refused = "; ".join(f"{name}: {why}" for name, why in self.refused)
        return f"{self.backend} ({self.reason})" + (f"; refused {refused}" if refused else "")


def select(call: Any, explicit: str | Mapping[str, str] = "auto") -> Choice:
    """The kernel for a call.

    `explicit` names one, or maps operations to names, or is "auto". Raises DeclarationError for a name that the
    operation does not have; PlanningError where the kernel asked for does not serve the call, and where none does.
    """
    operation = call.operation
    named = explicit if isinstance(explicit, str) else explicit.get(operation, "auto")
    chain: list[str] = []
    for source, name in (("explicit", named), ("scoped overlay", overlaid(operation))):
        if name in ("auto", None):
            chain.append(f"{source}: none")
            continue
        kernel = get(operation, name)
        if (why := refusal_of(kernel, call)) is not None:
            raise PlanningError(
                f"The kernel `{name}` asked for ({source}) does not serve this {operation}: {why}. {_show_others(call)}"
            )
        return Choice(name, kernel, source, (), (*chain, f"{source}: {name}"))
    serving, refused = candidates(call)
    if not serving:
        raise none_left(operation, refused)
    chain.append(f"heuristic: {serving[0].backend}, the highest priority of {len(serving)} that serve")
    return Choice(serving[0].backend, serving[0], "heuristic", refused, tuple(chain))


def candidates(call: Any) -> tuple[list[Kernel], tuple[tuple[str, str], ...]]:
    """The kernels that serve a call, best first (the reference last), and why the others do not."""
    serving, refused = [], []
    for kernel in available(call.operation):
        why = refusal_of(kernel, call)
        if why is None:
            serving.append(kernel)
        else:
            refused.append((kernel.backend, why))
    serving.sort(key=lambda kernel: (kernel.backend == "reference", -kernel.rank(call)))
    return serving, tuple(refused)


def refusal_of(kernel: Kernel, call: Any) -> str | None:
    """Why a kernel does not serve a call, or failed to; None if it does."""
    return kernel.refusal(call) or _failures.get((kernel.operation, kernel.backend, key_of(call)))


def none_left(operation: str, refused: tuple[tuple[str, str], ...]) -> PlanningError:
    """The error for a call that no kernel serves."""
    if not refused:
        known = ", ".join(f"`{name}`" for name in operations()) or "none"
        return PlanningError(f"No kernel serves an operation `{operation}`; the operations are {known}.")
    reasons = "; ".join(f"{name}: {why}" for name, why in refused)
    return PlanningError(f"No kernel serves this {operation}. {reasons}.")


def _show_others(call: Any) -> str:
    serving = [kernel.backend for kernel in candidates(call)[0]]
    return f'Those that do: {", ".join(serving)}; or leave it to "auto".' if serving else "No other one does either."


def dispatch(call: Any, *operands: Any, explicit: str | Mapping[str, str] = "auto") -> Any:
    """Chooses a kernel and runs it. Where the best fails to build, the next is used, with one warning."""
    while True:
        choice = select(call, explicit)
        try:
            return choice.kernel(call, *operands)
        except (FdsolveError, FloatingPointError):
            raise
        except Exception as error:
            if choice.reason in ("explicit", "scoped overlay"):
                raise failed(choice.kernel, error) from error
            note_failure(choice.kernel, call, error)


def failed(kernel: Kernel, error: Exception) -> PlanningError:
    """The error for a kernel that was asked for and does not build."""
    return PlanningError(
        f"The kernel `{kernel.backend}` for `{kernel.operation}` was asked for and failed to build: "
        f'{describe_error(error)} Leave the choice to kernel="auto", or mend it.'
    )


def note_failure(kernel: Kernel, call: Any, error: Exception) -> None:
    """Remembers that a kernel failed to build for a call, and warns."""
    _failures[(kernel.operation, kernel.backend, key_of(call))] = f"failed to build: {describe_error(error)}"
    warnings.warn(
        f"The kernel `{kernel.backend}` for `{kernel.operation}` failed to build, the next one is used: "
        f"{describe_error(error)}",
        FdsolveWarning,
        stacklevel=3,
    )


def describe_error(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def overlaid(operation: str) -> str | None:
    """The kernel that the innermost overlay names for an operation."""
    for overlay in reversed(_overlays.get()):
        if (name := dict(overlay).get(operation)) is not None:
            return name
    return None


@contextmanager
def use(kernel: str | Mapping[str, str]) -> Iterator[None]:
    """Within the block: this kernel for every call of the operations that have it, or a mapping {operation: name}.

    The innermost block counts, an explicit `kernel=` before it; "auto" lifts the blocks around. A block holds for its
    own thread.
    """
    token = _overlays.set((*_overlays.get(), tuple(sorted(resolve(kernel, lift=True).items()))))
    try:
        yield
    finally:
        _overlays.reset(token)


def resolve(kernel: Any, lift: bool = False) -> dict[str, str]:
    """The kernel by operation that an option names; {} for "auto", or "auto" for each operation with `lift`."""
    if isinstance(kernel, str):
        if kernel == "auto":
            return dict.fromkeys(operations(), "auto") if lift else {}
        found = {one.operation: kernel for one in available() if one.backend == kernel}
        if not found:
            known = ", ".join(f'"{name}"' for name in sorted({one.backend for one in available()}))
            raise DeclarationError(f'kernel= takes "auto", {known} or a dict {{operation: kernel}}, got {kernel!r}.')
        return found
    if not isinstance(kernel, Mapping):
        raise DeclarationError(
            f'kernel= takes "auto", a kernel\'s name or a dict {{operation: kernel}}, got {kernel!r}.'
        )
    for operation, name in kernel.items():
        if not isinstance(operation, str) or not isinstance(name, str):
            raise DeclarationError(
                f"kernel= takes a dict of names, {{operation: kernel}}; got {operation!r}: {name!r}."
            )
        if name != "auto":
            get(operation, name)
    return dict(kernel)


def explain(call: Any, explicit: str | Mapping[str, str] = "auto") -> str:
    """Which kernel a call gets and why, in a few lines: each link of the chain, and what was refused."""
    try:
        choice = select(call, explicit)
    except PlanningError as error:
        return str(error)
    lines = [f"{call.operation}: {choice.backend} ({choice.reason})", *(f"  {line}" for line in choice.chain)]
    refused = choice.refused or candidates(call)[1]
    lines += [f"  refused {name}: {why}" for name, why in refused]
    return "\n".join(lines)
