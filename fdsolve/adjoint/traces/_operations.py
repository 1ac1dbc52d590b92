"""The operations that are known from the start: pointwise ones, values put in place, products, stencils."""

from abc import abstractmethod
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._registry import AbstractOperation, Site, find, names, register


@dataclass(frozen=True)
class Pointwise(AbstractOperation):
    """y_i = f(raw_i, others_i): one entry of the parameter for each of y. `linear`: by which operand y is scaled."""

    linear: tuple[int, ...] = ()

    def scales(self, site: Site) -> bool:
        return site.place in self.linear

    def adjacency(self, site: Site) -> Any:
        return np.ones((1, *site.raw.shape))

    def solve(self, site: Site, delta: Any, trace: Any) -> Any:
        return _summed(delta * trace[0], site.raw.shape)


@dataclass(frozen=True)
class Placed(AbstractOperation):
    """y = raw: a bias, a source, a boundary value; the state beside it goes its own way.

    `is_spread`: y has the shape of the result, over whose axes of length one the parameter is repeated.
    """

    is_spread: bool = False

    @property
    def places(self) -> bool:
        return True

    def scales(self, site: Site) -> bool:
        return True

    def adjacency(self, site: Site) -> Any:
        return np.ones((1, *site.raw.shape))

    def solve(self, site: Site, delta: Any, trace: Any) -> Any:
        return _summed(delta * trace[0], site.raw.shape)


class AbstractKernel(AbstractOperation):
    """A bilinear operation of a kernel, some of whose axes are axes of the result: y[…, k, …] takes kernel[k, …] only.

    The trace keeps the position in y: ε[s, k, c, v] gathers D_f[s, k] · patch[s, c, v], and Σ_s δ[s, k] ε[s, k, ·] is
    the gradient; summing over positions first would give (Σδ)(Σpatch).
    """

    @abstractmethod
    def axes(self, site: Site) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The kernel's axes that the result has too, and which axes of the result these are."""

    def scales(self, site: Site) -> bool:
        return True

    def adjacency(self, site: Site) -> Any:
        shared, shape = self.axes(site)[0], site.raw.shape
        others = [axis for axis in range(len(shape)) if axis not in shared]
        count = prod(shape[axis] for axis in others)
        combs = np.zeros((count, *shape))
        for colour, index in enumerate(np.ndindex(*(shape[axis] for axis in others))):
            place: list[Any] = [slice(None)] * len(shape)
            for axis, i in zip(others, index, strict=True):
                place[axis] = i
            combs[(colour, *place)] = 1
        return combs

    def solve(self, site: Site, delta: Any, trace: Any) -> Any:
        shared, where = self.axes(site)
        shape = site.raw.shape
        others = [axis for axis in range(len(shape)) if axis not in shared]
        rest = tuple(a + 1 for a in range(delta.ndim) if a not in where)
        summed = jnp.sum(delta * trace, axis=rest)  # (colours, shared axes in the order of the result)
        order = sorted(range(len(where)), key=lambda k: where[k])
        summed = jnp.transpose(summed, (0, *(1 + order.index(k) for k in range(len(where)))))
        whole = summed.reshape(*(shape[axis] for axis in others), *(shape[axis] for axis in shared))
        return jnp.moveaxis(whole, range(len(shape)), (*others, *shared))


@dataclass(frozen=True)
class Product(AbstractKernel):
    """`lax.dot_general` with a matrix of parameters."""

    def axes(self, site: Site) -> tuple[tuple[int, ...], tuple[int, ...]]:
        contracted, batch = site.params["dimension_numbers"]
        mine, theirs = site.place, 1 - site.place
        free = [a for a in range(len(site.raw.shape)) if a not in (*contracted[mine], *batch[mine])]
        shared = (*batch[mine], *free)
        other_free = len(site.out.shape) - len(shared)
        low = len(batch[mine]) + (other_free if theirs == 0 else 0)
        return shared, (*range(len(batch[mine])), *range(low, low + len(free)))


@dataclass(frozen=True)
class Convolution(AbstractKernel):
    """A convolution with a kernel of parameters, in every layout, with strides, dilations and groups."""

    def axes(self, site: Site) -> tuple[tuple[int, ...], tuple[int, ...]]:
        numbers = site.params.get("dimension_numbers")
        if numbers is None:  # the project's own: (groups, batch, in, *axes) and (groups, out, in, *window) make
            return (0, 1), (0, 2 if site.place == 1 else 1)  # (groups, batch, out, *axes)
        if site.place == 1:
            return (numbers.rhs_spec[0],), (numbers.out_spec[1],)
        if site.params["batch_group_count"] > 1:
            return (), ()
        return (numbers.lhs_spec[0],), (numbers.out_spec[0],)


@dataclass(frozen=True, eq=False)
class Stencil(AbstractOperation):
    """Any way into the step that reaches few points, as it was found: y is the whole state.

    `owners` (colours, N) says which entry of the parameter each number of the state knows by each colour (the number
    of entries: none). Fluxes take two colours, a band of w points to either side 2w + 1.
    """

    owners: np.ndarray = field(repr=False)

    def adjacency(self, site: Site) -> Any:
        size = prod(site.raw.shape)
        combs = np.zeros((len(self.owners), size))
        for comb, owner in zip(combs, self.owners, strict=True):
            comb[np.unique(owner[owner < size])] = 1
        return combs.reshape(-1, *site.raw.shape)

    def solve(self, site: Site, delta: Any, trace: Any) -> Any:
        size = prod(site.raw.shape)
        flat = jax.ops.segment_sum((delta * trace).ravel(), jnp.asarray(self.owners.ravel()), size + 1)
        return flat[:size].reshape(site.raw.shape)


def _summed(values: Any, shape: tuple[int, ...]) -> Any:
    """Values of y summed to the entries of a parameter that JAX spread over it."""
    extra = values.ndim - len(shape)
    values = jnp.sum(values, axis=tuple(range(extra)))
    thin = tuple(a for a, n in enumerate(shape) if n == 1 and values.shape[a] != 1)
    return jnp.sum(values, axis=thin, keepdims=True) if thin else values


PLACED = Placed()
register("mul", Pointwise((0, 1)))
register("div", Pointwise((1,)))
for _name in ("pow", "max", "min", "atan2", "rem", "nextafter", "hypot"):
    register(_name, Pointwise())
for _name in ("add", "sub", "add_any"):
    register(_name, Placed(is_spread=True))
for _name in ("select_n", "concatenate", "pad", "dynamic_update_slice", "scatter-add", "scatter"):
    register(_name, PLACED)
register("dot_general", Product())
register("conv_general_dilated", Convolution())
register("fdsolve_conv", Convolution())

STANDARD = {_name: find(_name) for _name in names()}
"""What is known from the start, by name."""
