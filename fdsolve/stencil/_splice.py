"""Rules put together from others, equation by equation: sooner done than tracing them again."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np

from ._operands import Operand
from ._trace import Traced, make_traced


class Splice:
    """A rule of some operands that is being put together; `known` are their values.

    Values are what stands for them in the rule: what operands, calls and operations give, and numbers.
    """

    def __init__(self, dtypes: Mapping[Operand, Any]):
        self._empty = _traced(_first, (np.dtype(np.float32),))
        inputs = {one: jex.Var(_aval(np.dtype(dtype))) for one, dtype in dtypes.items()}
        self.known: dict[Operand, Any] = dict(inputs)
        self._operands, self._inputs = tuple(inputs), list(inputs.values())
        self._constants: dict[jex.Var, Any] = {}
        self._equations: list[jex.JaxprEqn] = []

    def number(self, value: Any, dtype: Any) -> Any:
        """A number as a value."""
        return jex.Literal(np.asarray(value, dtype)[()], _aval(np.dtype(dtype)))

    def call(self, rule: Traced, *values: Any) -> Any:
        """What a rule gives of values of its operands."""
        return self._insert(rule.jaxpr, rule.consts, values)

    def apply(self, function: Callable[..., Any], *values: Any) -> Any:
        """What a function of scalars, which has one result and holds no arrays, gives of values."""
        return self._insert(_traced(function, tuple(np.dtype(one.aval.dtype) for one in values)), (), values)

    def made(self, result: Any, dtype: Any) -> Traced:
        """The rule that gives a value."""
        info = self._empty.debug_info._replace(arg_names=None, result_paths=None)
        jaxpr = self._empty.replace(
            constvars=[*self._constants], invars=self._inputs, outvars=[result], eqns=self._equations, debug_info=info
        )
        return make_traced(jex.ClosedJaxpr(jaxpr, [*self._constants.values()]), self._operands, dtype)

    def _insert(self, jaxpr: jex.Jaxpr, consts: Any, values: Any) -> Any:
        known: dict[Any, Any] = dict(zip(jaxpr.invars, values, strict=True))
        for variable, const in zip(jaxpr.constvars, consts, strict=True):
            known[variable] = new = jex.Var(variable.aval)
            self._constants[new] = const

        def there(atom: Any) -> Any:
            return atom if isinstance(atom, jex.Literal) else known[atom]

        for equation in jaxpr.eqns:
            known.update((one, jex.Var(one.aval)) for one in equation.outvars)
            invars, outvars = [there(one) for one in equation.invars], [known[one] for one in equation.outvars]
            self._equations.append(equation.replace(invars=invars, outvars=outvars))
        (result,) = jaxpr.outvars
        return there(result)


def _first(value: Any) -> Any:
    return value


@lru_cache(maxsize=1024)
def _traced(function: Callable[..., Any], dtypes: tuple[np.dtype, ...]) -> jex.Jaxpr:
    return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct((), one) for one in dtypes)).jaxpr


@lru_cache(maxsize=64)
def _aval(dtype: np.dtype) -> Any:
    return _traced(_first, (dtype,)).invars[0].aval
