"""Where kept states are: on the device, as they are or rounded."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..errors import DeclarationError
from ..kernels import fresh_arrays

State = Any
WORKING = 2
"""States' worth of arrays that lie beside kept states while they are computed."""
Room = Any
"""What stands for the places of the states in a program: arrays, or numbers that order the calls of the host."""


class AbstractStorage(ABC):
    """Places for states. Calls take the room and give it back, so that they happen in their order."""

    @property
    def traced(self) -> bool:
        """Whether the states are arrays of the program itself; then a run can hand the room to its reversal."""
        return True

    @abstractmethod
    def open(self, state: State, places: int, beside: Any = ()) -> Room:
        """Room for so many states such as this one; what is to come depends on arrays `beside` it too.

        What is in it means nothing until it is put there.
        """

    @abstractmethod
    def put(self, room: Room, place: Any, state: State) -> Room:
        """The room with a state put into a place."""

    @abstractmethod
    def get(self, room: Room, place: Any, like: State) -> tuple[Room, State]:
        """The state in a place; `like` says its form."""

    @abstractmethod
    def close(self, room: Room) -> None:
        """Gives the room up."""

    def remark(self, between: int) -> str:
        """What the plan says of it; `between` are the bytes of the states between blocks, as they are."""
        return ""

    def rounded(self) -> "AbstractStorage":
        """The same, of states that are rounded first where that was asked for."""
        return self


def make_room(state: State, places: int, beside: Any = (), around: int = 0) -> Room:
    """Arrays for so many states, made after an array of the state or `beside` it is there; memory for as many states
    `around` them is asked for too. Two rooms alike in all of this are one to XLA, which copies it."""
    leaves, form = jax.tree.flatten(state)
    like = [jax.ShapeDtypeStruct((places, *jnp.shape(x)), jnp.result_type(x)) for x in leaves]
    size = sum(one.size * one.dtype.itemsize for one in like) // places
    after = next((x for x in jax.tree.leaves((state, beside)) if isinstance(x, jax.Array)), 0)
    return form.unflatten(fresh_arrays(like, after, beside=around * size))


@dataclass(frozen=True)
class Device(AbstractStorage):
    """States as they are, on the device: the default, exact."""

    def open(self, state: State, places: int, beside: Any = ()) -> Room:
        return make_room(state, places, beside, WORKING)

    def put(self, room: Room, place: Any, state: State) -> Room:
        return jax.tree.map(lambda held, one: lax.dynamic_update_index_in_dim(held, one, place, 0), room, state)

    def get(self, room: Room, place: Any, like: State) -> tuple[Room, State]:
        return room, jax.tree.map(lambda held: lax.dynamic_index_in_dim(held, place, 0, keepdims=False), room)

    def close(self, room: Room) -> None:
        """Nothing is to be done."""


LARGEST = {"bfloat16": 1.0, "float16": 1.0, "int8": 127.0}
"""What the largest value of an array becomes when it is stored."""


@dataclass(frozen=True)
class Rounded(AbstractStorage):
    """States in a smaller type, every array of every state with a scale of its own, wherever they are.

    A value is stored as itself over the array's largest, so that none overflows. Integers and logical values stay
    as they are.
    """

    dtype: str
    inside: AbstractStorage = field(default_factory=Device)

    @property
    def traced(self) -> bool:
        return self.inside.traced

    def open(self, state: State, places: int, beside: Any = ()) -> Room:
        return self.inside.open(self._packed(state), places, beside)

    def put(self, room: Room, place: Any, state: State) -> Room:
        return self.inside.put(room, place, self._packed(state))

    def get(self, room: Room, place: Any, like: State) -> tuple[Room, State]:
        leaves, form = jax.tree.flatten(like)
        room, taken = self.inside.get(room, place, self._packed(like))
        return room, form.unflatten([self._unpack(x, one) for x, one in zip(taken, leaves, strict=True)])

    def close(self, room: Room) -> None:
        self.inside.close(room)

    def remark(self, between: int) -> str:
        return (
            f"{self.inside.remark(between)}; the {between} bytes between blocks are less, rounded to {self.dtype}: the "
            f"gradient is not exact"
        )

    def _packed(self, state: State) -> list[tuple[Any, ...]]:
        return [self._pack(x) for x in jax.tree.leaves(state)]

    def _pack(self, array: Any) -> tuple[Any, ...]:
        if not jnp.issubdtype(jnp.result_type(array), jnp.inexact):
            return (jnp.asarray(array),)
        parts = (array.real, array.imag) if jnp.iscomplexobj(array) else (array,)
        return tuple(entry for part in parts for entry in self._reduce(part))

    def _reduce(self, array: Any) -> tuple[Any, Any]:
        largest = lax.stop_gradient(jnp.max(jnp.abs(array), initial=0))
        scale = jnp.where(largest > 0, largest, jnp.ones_like(largest)) / LARGEST[self.dtype]
        over = array / scale
        return (jnp.round(over) if self.dtype == "int8" else over).astype(self.dtype), scale

    def _unpack(self, entries: tuple[Any, ...], like: Any) -> Any:
        if len(entries) == 1:
            return entries[0]
        parts = [small.astype(scale.dtype) * scale for small, scale in zip(entries[::2], entries[1::2], strict=True)]
        return lax.complex(*parts) if len(parts) == 2 else parts[0]


def to_storage(option: Any) -> AbstractStorage:
    """The storage that storage= names. Raises DeclarationError for what is none."""
    if option is None:
        return Device()
    if isinstance(option, AbstractStorage):
        return option.rounded()
    if isinstance(option, str) and option in LARGEST:
        return Rounded(option)
    raise DeclarationError(
        f"Checkpointed: storage= takes {known_types()}, fd.adjoint.Host() or fd.adjoint.Disk(path), got {option!r}."
    )


def known_types() -> str:
    """The types that states are rounded to, as they are written."""
    return ", ".join(f'"{name}"' for name in LARGEST)
