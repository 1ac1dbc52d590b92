"""The registry: kernels by operation and name, what each serves, and where."""

import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Any, Protocol, runtime_checkable

import jax

from ..errors import DeclarationError, FdsolveError, FdsolveWarning
from ._linear_map import linear_map

PLATFORMS = ("cpu", "gpu")
_GPU_NAMES = ("gpu", "cuda", "rocm")


@runtime_checkable
class Call(Protocol):
    """The work that a kernel is asked to do, without arrays: hashable, and named by its operation.

    It may have `platform` (else that of JAX's default device counts); `cache_key()`, what a measured choice is filed
    under (shape class, dtype, structure), for choices that outlive the process; and `examples()`, operands to
    measure on.
    """

    @property
    def operation(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Kernel:
    """A way to carry out an operation. Calling it, `kernel(call, *operands)`, gives the result.

    `priority` ranks it among those that serve a call (the highest first), as a number or a function of the call.
    `jumps`: a march costs it the same however many levels there are. `blocks`: the derivative of its march can keep
    the state before each block of levels alone.
    """

    operation: str
    backend: str
    platforms: tuple[str, ...]
    priority: int | Callable[[Any], int]
    function: Callable[..., Any]
    serves: Callable[[Any], str | bool | None] | None = None
    tangent: Callable[..., Any] | None = None
    transpose: Callable[..., Any] | None = None
    jumps: bool = False
    blocks: bool = False

    def __call__(self, call: Any, *operands: Any) -> Any:
        own = self.tangent is not None or self.transpose is not None
        try:
            return _with_rules(self, call)(*operands) if own else self.function(call, *operands)
        except Exception as error:
            error.add_note(f"In {self.title}.")
            raise

    def rank(self, call: Any) -> int:
        """Its priority for a call."""
        return self.priority(call) if callable(self.priority) else self.priority

    def refusal(self, call: Any) -> str | None:
        """Why it does not serve a call; None if it does."""
        here = platform_of(call)
        if here not in self.platforms:
            return f"runs on {' and '.join(self.platforms)}, and this is {here}"
        try:
            answer = self.serves(call) if self.serves is not None else None
            if answer is None or answer is True:
                self.rank(call)
                return None
        except FdsolveError:
            raise
        except Exception as error:  # a fault of one kernel takes no other with it
            answer = f"its serves= or priority= raised {describe_error(error)}"
            warnings.warn(f"T{self.title[1:]} is passed over: {answer}", FdsolveWarning, stacklevel=2)
        return answer if isinstance(answer, str) else "does not serve this call"

    @property
    def title(self) -> str:
        """What it is called in messages."""
        return f"the kernel `{self.backend}` for `{self.operation}`"

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        lines = (self.function.__doc__ or "").strip().splitlines()
        return lines[0].strip() if lines else "–"

    def __repr__(self) -> str:
        rank = "by call" if callable(self.priority) else self.priority
        return f"Kernel({self.operation}: {self.backend}, {show_platforms(self)}, priority {rank})"


_table: dict[tuple[str, str], Kernel] = {}
_seen: dict[tuple[str, str], Callable[..., Any]] = {}
_lock = RLock()


def register(
    operation: str,
    *,
    platform: str | tuple[str, ...] = "any",
    backend: str,
    priority: int | Callable[[Any], int] = 0,
    serves: Callable[[Any], str | bool | None] | None = None,
    tangent: Callable[..., Any] | None = None,
    transpose: Callable[..., Any] | None = None,
    jumps: bool = False,
    blocks: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the decorated function `f(call, *operands)` as a kernel called `backend` for `operation`.

    `platform` is "cpu", "gpu", a tuple of them, or "any". `serves(call)` gives None or True where the kernel serves the
    call, else the reason as a string (or False). `priority` ranks it, a number or a function of the call. `jumps`: a
    march costs it the same however many levels there are, so that it is asked for as many at once as can be. `blocks`:
    where a march call says `block`, its derivative keeps the state before each block of so many levels, and no more.

    Where JAX cannot differentiate the function: `tangent(call, operands, tangents)` gives the tangent of the
    result, linear in the tangents; `transpose(call, operands, cotangent)` one cotangent for each operand. One of them
    suffices; `tangent` alone must be of JAX operations, `transpose` alone leaves out forward mode.

    Raises DeclarationError for a name that another function has; a function defined again replaces its older self.
    """
    for name, value in (("operation", operation), ("backend", backend)):
        if not isinstance(value, str) or not value or value in ("auto", "tune"):
            raise DeclarationError(f"{name}= names it, a string other than 'auto' and 'tune'; got {value!r}.")
    names = (platform,) if isinstance(platform, str) else tuple(platform)
    if not names or not set(names) <= {*PLATFORMS, "any"}:
        raise DeclarationError(f'platform= takes "any", "cpu", "gpu" or a tuple of them, got {platform!r}.')
    if isinstance(priority, bool) or not (isinstance(priority, int) or callable(priority)):
        raise DeclarationError(f"priority= takes an integer or a function of the call, got {priority!r}.")

    def decorate(function: Any) -> Any:
        if not callable(function):
            raise DeclarationError(f"register decorates a function f(call, *operands), got {function!r}.")
        platforms = PLATFORMS if "any" in names else names
        kernel = Kernel(operation, backend, platforms, priority, function, serves, tangent, transpose, jumps, blocks)
        _add(kernel)
        return function

    return decorate


def _add(kernel: Kernel) -> None:
    key = kernel.operation, kernel.backend
    with _lock:
        other = _table.get(key)
        if other is not None and _identity(other.function) != _identity(kernel.function):
            raise DeclarationError(
                f"The operation `{key[0]}` has a kernel called `{key[1]}` already, {_identity(other.function)}. Choose "
                f'another backend=, or take that one out first: fd.kernels.withdraw("{key[0]}", "{key[1]}").'
            )
        if key in _seen and _seen[key] is not kernel.function:
            jax.clear_caches()  # programs compiled with the older function know it by the same name
        _seen[key] = kernel.function
        _table[key] = kernel


def _identity(function: Any) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def withdraw(operation: str, backend: str) -> None:
    """Takes a kernel out of the registry."""
    get(operation, backend)
    with _lock:
        _table.pop((operation, backend), None)


def get(operation: str, backend: str) -> Kernel:
    """The kernel of a name; raises DeclarationError that lists those there are."""
    if (found := _table.get((operation, backend))) is not None:
        return found
    names = [kernel.backend for kernel in available(operation)]
    if not names:
        known = ", ".join(f"`{name}`" for name in operations()) or "none"
        raise DeclarationError(f"No kernel serves an operation `{operation}`; the operations are {known}.")
    known = ", ".join(f"`{name}`" for name in names)
    raise DeclarationError(f"The operation `{operation}` has no kernel called `{backend}`; it has {known}.")


def operations() -> tuple[str, ...]:
    """The operations that have kernels, by name."""
    return tuple(sorted({operation for operation, _ in list(_table)}))


def available(operation: str | None = None) -> tuple[Kernel, ...]:
    """The kernels of an operation (of all of them, by default), those of the highest fixed priority first."""
    found = [kernel for kernel in list(_table.values()) if operation in (None, kernel.operation)]
    rank = {id(k): 0 if callable(k.priority) else -k.priority for k in found}
    return tuple(sorted(found, key=lambda k: (k.operation, k.backend == "reference", rank[id(k)], k.backend)))


def support_table() -> str:
    """All kernels as a table in Markdown: operation, name, platforms, priority, and what it is."""
    lines = ["| operation | kernel | platforms | priority | what it is |", "|---|---|---|---|---|"]
    for one in available():
        rank = "by call" if callable(one.priority) else one.priority
        lines.append(f"| {one.operation} | `{one.backend}` | {show_platforms(one)} | {rank} | {one.summary} |")
    return "\n".join(lines)


def show_platforms(kernel: Kernel) -> str:
    """Where a kernel runs, in words."""
    return "any" if set(kernel.platforms) == set(PLATFORMS) else ", ".join(kernel.platforms)


def detect_platform() -> str:
    """The platform of JAX's default device: "cpu", "gpu", or JAX's name of another one."""
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    name = getattr(chosen, "platform", chosen) or jax.default_backend()
    return "gpu" if name in _GPU_NAMES else str(name)


def platform_of(call: Any) -> str:
    """The platform a call runs on."""
    return getattr(call, "platform", None) or detect_platform()


def key_of(call: Any) -> Hashable:
    """What a call is remembered by within a process."""
    return platform_of(call), call


def _with_rules(kernel: Kernel, call: Any) -> Callable[..., Any]:
    """The kernel's function with its own derivative rules, which know the call."""
    forward, tangent, transpose = partial(kernel.function, call), kernel.tangent, kernel.transpose
    if tangent is None:
        assert transpose is not None
        backward = partial(transpose, call)
        run = jax.custom_vjp(lambda *operands: forward(*operands))
        run.defvjp(lambda *operands: (run(*operands), operands), lambda kept, ct: tuple(backward(kept, ct)))
        return run
    push = partial(tangent, call)
    run = jax.custom_jvp(lambda *operands: forward(*operands))

    def rule(operands: Any, tangents: Any) -> tuple[Any, Any]:
        result = run(*operands)  # not `forward`: derivatives of derivatives need the rules too
        if transpose is None:
            return result, push(operands, tangents)
        leaves, tree = jax.tree.flatten(operands)
        shape = jax.tree.structure(result)

        def forwards(kept: Any, moving: Any) -> Any:
            return jax.tree.leaves(push(tree.unflatten(kept), tree.unflatten(moving)))

        def backwards(kept: Any, cotangents: Any) -> Any:
            assert transpose is not None
            return jax.tree.leaves(tuple(transpose(call, tree.unflatten(kept), shape.unflatten(cotangents))))

        moved = linear_map(forwards, backwards, leaves, jax.tree.leaves(tangents))
        return result, shape.unflatten(moved)

    run.defjvp(rule)
    return run


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else ""


def describe_error(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {first_line(error)}"
