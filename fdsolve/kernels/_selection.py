"""Selection: which kernel serves a call, and why.

Explicit, then the scoped overlay, then what was measured before (in this process, on this machine), then measuring now,
then the highest priority.
"""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from ..errors import FdsolveError, FdsolveWarning, PlanningError
from . import _cache
from ._autotune import Measured, fingerprint, measure
from ._registry import Kernel, available, describe_error, first_line, get, key_of, operations, platform_of
from ._scopes import overlaid, wants_tuning

Operands = Callable[[], Sequence[Any]]
_failures: dict[Any, str] = {}
_memory: dict[Any, Measured] = {}


@dataclass(frozen=True)
class Choice:
    """The kernel chosen for a call and the reason; which were refused, with reasons; and what each link said."""

    backend: str
    kernel: Kernel
    reason: str
    refused: tuple[tuple[str, str], ...] = ()
    chain: tuple[str, ...] = ()

    @property
    def asked_for(self) -> bool:
        """Whether it was named by the caller, rather than found."""
        return self.reason in ("explicit", "scoped overlay")

    def __call__(self, call: Any, *operands: Any) -> Any:
        return self.kernel(call, *operands)

    def __str__(self) -> str:
        refused = "; ".join(f"{name}: {why}" for name, why in self.refused)
        return f"{self.backend} ({self.reason})" + (f"; refused {refused}" if refused else "")


def select(call: Any, explicit: str | Mapping[str, str] = "auto", operands: Operands | None = None) -> Choice:
    """The kernel for a call.

    `explicit` names one, or maps operations to names; "auto" leaves the choice, "tune" measures where nothing is known.
    `operands()` gives what to measure on (default: the call's own examples). Raises DeclarationError for a name that
    the operation does not have; PlanningError where the kernel asked for does not serve the call, and where none does.
    """
    operation, chain = call.operation, list[str]()
    named, asked = _named(operation, explicit)
    for source, name in (("explicit", asked), ("scoped overlay", overlaid(operation) if asked is None else None)):
        if name is None:
            chain.append(f"{source}: none")
            continue
        kernel = get(operation, name)
        if (why := refusal_of(kernel, call)) is not None:
            raise PlanningError(
                f"The kernel `{name}` asked for ({source}) does not serve this {operation}: {why.rstrip('.')}. "
                f"{_show_others(call)}"
            )
        return Choice(name, kernel, source, candidates(call)[1], (*chain, f"{source}: {name}"))
    serving, refused = candidates(call)
    if not serving:
        raise none_left(operation, refused)
    mode = wants_tuning() or ("new" if named == "tune" else None)
    found, reason = _look_up(call, serving, mode, chain), "measured before"
    if found is None:
        found, reason = _tune(call, serving, mode, operands, chain), "measured now"
    if found is not None:
        kernel = next(k for k in serving if k.backend == found.backend)
        return Choice(found.backend, kernel, f"{reason}: {found}", (*refused, *found.refused), tuple(chain))
    best = serving[0]
    chain.append(f"heuristic: {best.backend}, the highest priority of {len(serving)} that serve")
    return Choice(best.backend, best, "highest priority", refused, tuple(chain))


def is_named(operation: str, explicit: str | Mapping[str, str]) -> bool:
    """Whether a kernel for an operation is asked for, explicitly or by a block around."""
    return _named(operation, explicit)[1] is not None or overlaid(operation) is not None


def _named(operation: str, explicit: str | Mapping[str, str]) -> tuple[str, str | None]:
    """What an option says for an operation, and the kernel that this names, if it is one."""
    named = explicit if isinstance(explicit, str) else explicit.get(operation, "auto")
    return named, None if named in ("auto", "tune") else named


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
    return kernel.refusal(call) or _failures.get((kernel, key_of(call)))


def _look_up(call: Any, serving: list[Kernel], mode: str | None, chain: list[str]) -> Measured | None:
    """What was measured of a call before, if the kernel found then still serves."""
    if mode == "again":
        chain += ["memory cache: passed over", "persistent cache: passed over"]
        return None
    found = _memory.get(_memory_key(call, serving))
    chain.append(f"memory cache: {f'{found.backend} ({found})' if found else 'nothing measured'}")
    if found is not None:
        return found
    key = persistent_key(call, serving)
    record = None if key is None else _cache.read(key)
    found = None if record is None else _parse(record, [kernel.backend for kernel in serving])
    kept = "this call has no key" if key is None else "nothing measured"
    chain.append(f"persistent cache: {f'{found.backend} ({found})' if found else kept}")
    if found is not None:
        _memory[_memory_key(call, serving)] = found
    return found


def _tune(
    call: Any, serving: list[Kernel], mode: str | None, operands: Operands | None, chain: list[str]
) -> Measured | None:
    """Measures a call where that is wanted, and keeps what is found."""
    examples = operands or getattr(call, "examples", None)
    if mode is None or examples is None:
        chain.append(f"autotune: {'off' if mode is None else 'the call has nothing to measure on'}")
        return None
    try:
        found = measure(call, serving, examples)
    except PlanningError as error:
        chain.append(f"autotune: {first_line(error)}")
        return None
    key = persistent_key(call, serving)
    record = {"backend": found.backend, "times": [*map(list, found.times)], "refused": [*map(list, found.refused)]}
    problem = "this call has no key" if key is None else _cache.write(key, record)
    _memory[_memory_key(call, serving)] = found
    chain.append(f"autotune: {found.backend} ({found})" + (f"; not kept: {problem}" if problem else ""))
    return found


def _parse(record: dict[str, Any], names: Sequence[str]) -> Measured | None:
    """A record of the persistent cache, if it is one and names a kernel that serves."""
    try:
        times = tuple((str(name), float(seconds)) for name, seconds in record["times"])
        refused = tuple((str(name), str(why)) for name, why in record["refused"])
        backend = record["backend"]
    except (KeyError, TypeError, ValueError):
        return None
    return Measured(backend, times, refused) if backend in names else None


def _memory_key(call: Any, serving: Sequence[Kernel]) -> Any:
    return key_of(call), frozenset(serving)


def persistent_key(call: Any, serving: Sequence[Kernel]) -> str | None:
    """What a choice is filed under on disk; None for calls that cannot say."""
    describe = getattr(call, "cache_key", None)
    work = describe() if describe is not None else None
    if work is None:
        return None
    return _cache.make_key(_device_kind(platform_of(call)), call.operation, work, fingerprint(serving))


def _device_kind(where: str) -> str:
    """The device that a platform's work runs on: its kind; for processors their name and how many threads they run."""
    if where == "cpu":
        return f"cpu {_cache.processor()}, {os.cpu_count()} threads"
    return f"{where} {jax.devices()[0].device_kind}"


def forget() -> None:
    """Forgets what this process measured, and which kernels failed to build; files stay."""
    _memory.clear()
    _failures.clear()


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
            if choice.asked_for:
                raise failed(choice.kernel, error) from error
            note_failure(choice.kernel, call, error)


def failed(kernel: Kernel, error: Exception) -> PlanningError:
    """The error for a kernel that was asked for and does not build."""
    return PlanningError(
        f"T{kernel.title[1:]} was asked for and failed to build: "
        f'{describe_error(error)} Leave the choice to kernel="auto", or mend it.'
    )


def note_failure(kernel: Kernel, call: Any, error: Exception) -> None:
    """Remembers that a kernel failed to build for a call, and warns."""
    _failures[(kernel, key_of(call))] = f"failed to build: {describe_error(error)}"
    warnings.warn(
        f"T{kernel.title[1:]} failed to build, the next one is used: {describe_error(error)}",
        FdsolveWarning,
        stacklevel=3,
    )


def explain(call: Any, explicit: str | Mapping[str, str] = "auto") -> str:
    """Which kernel a call gets and why, in a few lines: each link of the chain, and what was refused."""
    try:
        choice = select(call, explicit)
    except PlanningError as error:
        return str(error)
    lines = [f"{call.operation}: {choice.backend} ({choice.reason})", *(f"  {line}" for line in choice.chain)]
    lines += [f"  refused {name}: {why}" for name, why in choice.refused]
    return "\n".join(lines)
