"""The step of a declaration as an update that traces can follow."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp

from ..adjoint.traces import Update, make_update
from ..errors import DeclarationError
from ..kernels import Arrays
from ..planning import Plan, final, make_plan
from ..stepping import Carry, first_carry, interiors, make_settled, make_step, usual_level
from ._labels import Labels
from ._units import StreamUnits


@dataclass(frozen=True, eq=False)
class Declared:
    """A declaration as a step: its plan, the update, and the carry at the first level."""

    plan: Plan
    update: Update
    carry: Carry
    units: StreamUnits
    labels: Labels

    def look(self, carry: Carry) -> dict[str, Any]:
        """The fields at the last level, by name; as quantities where the declaration has such."""
        return self.units.fields(self.plan, interiors(self.plan.structure, carry[0]))

    @property
    def last(self) -> int:
        """The number of the last level."""
        return self.plan.structure.segments[-1].stop - 1


def declare(
    fields: Any,
    params: Mapping[str, Any],
    fixed: Mapping[str, Any],
    inputs: Mapping[str, Any],
    stepper: Any,
    solver: Any,
    units: StreamUnits,
    labels: Labels,
) -> Declared:
    """The step of a declaration; `inputs` are examples of parameters that differ from step to step. Parameters and
    inputs are magnitudes in their `units`, along the axes that their `labels` say.

    Raises DeclarationError for a grid without time, and what planning raises.
    """

    def plan(own: Mapping[str, Any], given: Mapping[str, Any]) -> Plan:
        moving = labels.attach(units.attach({**given, **own}))
        return make_plan(fields, {**fixed, **moving}, stepper, final(), solver)

    made = plan(params, inputs)
    if made.problem.scope.grid.time is None:
        raise DeclarationError(
            "fd.online follows steps in time, and the grid has no time axis. Declare t=fd.Time(...)."
        )
    inputs = labels.on(made.problem.scope.grid, inputs)
    structure, axes = replace(made.structure, kernels=()), made.problem.scope.grid.space
    form = jax.tree.structure(Arrays(**made.operands))
    closed = jax.make_jaxpr(lambda own, given: jax.tree.leaves(Arrays(**plan(own, given).operands)))(
        dict(params), dict(inputs)
    )
    gather = jex.jaxpr_as_fun(closed)

    def operands(own: Any, given: Any) -> Arrays:
        return form.unflatten([jnp.asarray(one) for one in gather(*jax.tree.leaves((dict(own), dict(given))))])

    onward = make_step(structure, axes)

    def step(own: Any, carry: Any, given: Any, constants: Any) -> Any:
        number, data = given
        return onward(operands(own, data), carry, number)

    again = make_settled(structure, axes)

    def settled(own: Any, carry: Any, given: Any, constants: Any) -> Any:
        number, data = given
        return again(operands(own, data), carry, number - 1)

    def first(own: Any, constants: Any) -> Any:
        return first_carry(structure, axes, operands(own, inputs))

    carry = jax.jit(first)(dict(params), None)
    update = make_update(
        step,
        params,
        carry,
        (jnp.asarray(usual_level(structure), jnp.int32), dict(inputs)),
        first=first,
        look=lambda held: interiors(structure, held[0]),
        is_deep=any(len(levels) > 1 for levels in carry[0].levels.values()),
        settled=settled,
    )
    return Declared(made, update, carry, units, labels)
