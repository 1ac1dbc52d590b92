"""What holds within a block of code: which kernel is used, and whether unknown calls are measured."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..errors import DeclarationError
from ._registry import available, get, operations

_overlays: ContextVar[tuple[dict[str, str], ...]] = ContextVar("fdsolve_kernel_overlays", default=())
_tuning: ContextVar[str | None] = ContextVar("fdsolve_kernel_tuning", default=None)


@contextmanager
def use(kernel: Any) -> Iterator[None]:
    """Within the block: this kernel for every call of the operations that have it, or a mapping {operation: name}.

    The innermost block counts, an explicit `kernel=` before it; "auto" lifts the blocks around. A block holds for its
    own thread, and ends however it is left.
    """
    named = dict.fromkeys(operations(), "auto") if isinstance(kernel, str) and kernel == "auto" else resolve(kernel)
    token = _overlays.set((*_overlays.get(), named))
    try:
        yield
    finally:
        _overlays.reset(token)


def overlaid(operation: str) -> str | None:
    """The kernel that the innermost block names for an operation."""
    for overlay in reversed(_overlays.get()):
        if (name := overlay.get(operation)) is not None:
            return None if name == "auto" else name
    return None


@contextmanager
def tuning(*, again: bool = False) -> Iterator[None]:
    """Within the block: calls not measured yet are, and the fastest kernel that gives the right answer is kept.

    `again` measures those too that were measured before.
    """
    token = _tuning.set("again" if again else "new")
    try:
        yield
    finally:
        _tuning.reset(token)


def wants_tuning() -> str | None:
    """Whether calls are measured: "new" ones, all of them "again", or None."""
    return _tuning.get()


def resolve(kernel: Any) -> dict[str, str]:
    """The kernel by operation that an option names, {} for "auto" and "tune".

    Raises DeclarationError for what names no kernel.
    """
    if isinstance(kernel, str):
        if kernel in ("auto", "tune"):
            return {}
        found = {one.operation: kernel for one in available() if one.backend == kernel}
        if not found:
            raise DeclarationError(f"{show_known()}, got {kernel!r}.")
        return found
    if not isinstance(kernel, Mapping):
        raise DeclarationError(f"{show_known()}, got {kernel!r}.")
    for operation, name in kernel.items():
        if not isinstance(operation, str) or not isinstance(name, str):
            raise DeclarationError(f"{show_known()}, got the entry {operation!r}: {name!r}.")
        if name != "auto":
            get(operation, name)
    return dict(kernel)


def show_known() -> str:
    """What kernel= takes, in words."""
    known = ", ".join(f'"{name}"' for name in sorted({one.backend for one in available()}))
    return f'kernel= takes "auto", "tune", a kernel\'s name ({known}) or a dict of names by operation'
