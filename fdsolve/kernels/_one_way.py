"""Values whose derivatives are taken forwards alone, which is said where they are asked for backwards."""

from typing import Any, NoReturn

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from ..errors import PlanningError

_same_p = jex.Primitive("fdsolve_forwards_alone")


def forwards_alone(message: str, tree: Any) -> Any:
    """The arrays of a tree as they are; PlanningError with the message where a cotangent comes back to them."""
    return jax.tree.map(lambda one: _same_p.bind(jnp.asarray(one), message=message), tree)


def _refuse(cotangent: Any, *inputs: Any, message: str) -> NoReturn:
    raise PlanningError(message)


_same_p.def_impl(lambda x, message: x)
_same_p.def_abstract_eval(lambda x, message: x)
ad.deflinear2(_same_p, _refuse)
batching.defvectorized(_same_p)
mlir.register_lowering(_same_p, lambda ctx, x, message: [x])
