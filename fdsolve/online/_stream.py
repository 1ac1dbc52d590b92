"""The streaming driver: state, loss and gradient after every step, in memory that does not grow."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._losses import takes
from ..adjoint import check_window, forward_derivatives, make_method, warn_if_inexact
from ..adjoint.traces import Followed, Follower, follow
from ..errors import DeclarationError, PlanningError, RunError
from ..stencil import AS_KEYWORD, depends_on
from ..units import plain
from ._arguments import check_names, to_array, to_real
from ._data import Places, plain_data
from ._declared import Declared, declare
from ._describe import describe_grid, describe_rules
from ._kept import RULES, read, write
from ._labels import Labels, plain_array
from ._units import StreamUnits


class Step(NamedTuple):
    """What a step gives: the fields by name, the loss there, and by parameter the gradient of all losses so far."""

    state: dict[str, Any]
    loss: Any
    gradient: dict[str, Any]


class Report(tuple[Followed, ...]):
    """How each parameter is followed; one row each."""

    def __str__(self) -> str:
        return "\n".join(str(row) for row in self)

    __repr__ = __str__


class Stream:
    """A run that goes on as data arrive; made by `fd.online`.

    `step(data)` takes one step. `loss` and `gradient` are those of all steps so far, or since `forget()`; `update(...)`
    changes parameters while running, the traces stay. `report` says how each parameter is followed. `copy.copy(stream)`
    goes on by itself from where the stream is; `save(path)` and `restore(path)` go on after a break. Where the
    declaration has quantities, fields and losses are such, and gradients are in [loss]/[parameter].
    """

    def __init__(
        self,
        declared: Declared,
        follower: Follower,
        inputs: Mapping[str, Any],
        params: Mapping[str, Any],
        method: str,
    ):
        self._declared, self._follower, self._inputs, self._method = declared, follower, inputs, method
        self._params, self._held, self._number = dict(params), None, 0
        self._form: str | None = None
        self._places: Places = {}
        self._advance = jax.jit(self._run)

    def __copy__(self) -> "Stream":
        """A stream that goes on from here by itself; what is compiled serves both."""
        made = object.__new__(Stream)
        made.__dict__.update(self.__dict__, _params=dict(self._params))
        return made

    def __deepcopy__(self, memo: Any) -> "Stream":
        return self.__copy__()

    @property
    def report(self) -> Report:
        """For each parameter the operation it enters, its trace, the structure of D, and whether it is exact."""
        return Report(self._follower.following.report)

    @property
    def level(self) -> int:
        """How many steps were taken."""
        return self._number

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters now."""
        return self._declared.units.attach(self._params)

    @property
    def state(self) -> dict[str, Any]:
        """The fields now, by name."""
        if self._held is None:
            return self._declared.look(self._declared.carry)
        packing = self._declared.update.packing
        return self._declared.look(packing.unpack(self._held["state"], self._held["aside"]))

    @property
    def loss(self) -> Any:
        """The sum of the losses so far."""
        found = self._held["loss"] if self._held else jnp.zeros((), self._declared.update.packing.dtype)
        return self._declared.units.loss(found)

    @property
    def gradient(self) -> dict[str, Any]:
        """The gradient of that sum, by parameter: [loss]/[parameter]."""
        if self._held is None:
            found = {name: jnp.zeros_like(value) for name, value in self._params.items()}
        else:
            found = self._declared.update.by_name(self._held["gradient"])
        return self._declared.units.gradient(found)

    @property
    def bytes(self) -> int:
        """What is carried from step to step: state, traces, sums; the same after every step."""
        return sum(np.size(x) * jnp.result_type(x).itemsize for x in jax.tree.leaves(self._held))

    def step(self, data: Any = None) -> Step:
        """One step on. `data` goes to the loss; a dict may hold values of `inputs` by name, which go to the rules.
        Entries of DataArrays are found by their coordinates, along parts of axes by those of the first step.

        Raises DeclarationError for data of another form or at other places than before, and for a loss that does not
        depend on the fields; RunError at the end of the time axis, and where nan in the data get into the loss or its
        gradient; then the step counts as not taken.
        """
        data, places = self._plain(data)
        form, given = self._check(data)
        if self._number >= self._declared.last:
            raise RunError(
                f"The time axis ends at level {self._declared.last}. Declare it longer: fd.Time(..., num=...); only "
                f"its points take memory."
            )
        number = jnp.asarray(self._number + 1, jnp.int32)
        with _derivatives():
            before = self._held
            if before is None:
                before = self._start(given, data)
                self._check_loss(before, data)
            held, found = self._advance(before, number, given, data)
        self._check_missing(found, data)
        self._held, self._places, self._form = held, self._places or places, form
        self._number += 1
        units = self._declared.units
        return Step(found.state, units.loss(found.loss), units.gradient(found.gradient))

    def update(self, **params: Any) -> None:
        """Changes parameters from the next step on; the traces stay."""
        update, new = self._declared.update, dict(self._params)
        for name, value in params.items():
            if name not in new:
                raise DeclarationError(f"update: `{name}` is not followed; the parameters are {', '.join(new)}.")
            known = new[name]
            value = self._declared.labels.take(name, value, "update")
            array = to_real(name, self._declared.units.detach(name, value, "update")).astype(known.dtype)
            if array.shape != known.shape:
                raise DeclarationError(f"update: `{name}` has shape {known.shape}, got {array.shape}.")
            new[name] = array
        if self._held is not None:
            if self._follower.window > 1 and int(self._held["entry"]["count"]):
                raise RunError(
                    f"update: parameters change between windows only, and {int(self._held['entry']['count'])} of "
                    f"{self._follower.window} steps of this one are done. Update after a full window, or window=1."
                )
            self._held = {**self._held, "theta": update.join(new)}
        self._params = new

    def forget(self) -> None:
        """Starts the sums of loss and gradient anew; state and traces stay."""
        if self._held is None:
            return
        if self._follower.window > 1 and int(self._held["entry"]["count"]):
            raise RunError("forget: sums start anew between windows only. Call it after a full window, or window=1.")
        zero = jnp.zeros_like(self._held["gradient"])
        self._held = {**self._held, "gradient": zero, "loss": jnp.zeros_like(self._held["loss"])}
        if "entry" in self._held:
            self._held["entry"] = {**self._held["entry"], "gradient": zero}

    def save(self, path: Any) -> Path:
        """Writes all that is carried to a file, whole at any moment. A stream that is declared like this one goes on
        from here: `fd.online(...)` as before, and `restore(path)`. Raises RunError in a traced run, and where nothing
        can be written."""
        content = dict(number=self._number, params=self._params, held=self._held, form=self._form)
        return write(path, self._kind, {**content, "places": self._places, "loss": self._declared.units.of_loss})

    def restore(self, path: Any) -> None:
        """Goes on where the stream was that `save` wrote; on the same machine and versions bit for bit. The time axis
        may be longer (Δt is (stop − start)/(num − 1), whose last digit may differ then). Restore only files you trust:
        they are pickles.

        Raises RunError for what is no such file, DeclarationError for that of a stream of other parameters, fields,
        rules, methods or windows, or one that is beyond the end of the time axis.
        """
        found = read(path, self._kind)
        if found["number"] > self._declared.last:
            raise DeclarationError(
                f"restore: the stream is at level {found['number']}, and the time axis ends at level "
                f"{self._declared.last}. Declare it longer: fd.Time(..., num=...)."
            )
        self._number, self._held = found["number"], found["held"]
        self._params = {name: found["params"][name] for name in self._params}
        self._form, self._places = found["form"], found["places"]
        self._declared.units.know_loss(found["loss"])

    @property
    def _kind(self) -> dict[str, str]:
        """What a file must be of to be gone on with, in words."""
        declared = self._declared
        return {
            "list of parameters": declared.units.describe(self.parameters),
            "list of fields": declared.units.describe(declared.look(declared.carry)),
            "grid": describe_grid(declared.plan.problem.scope.grid),
            RULES: describe_rules(declared.plan.structure),
            "state": f"{declared.update.num_states} numbers, {declared.update.packing.dtype}",
            "method": self._method,
            "window": str(self._follower.window),
            "report": str(self.report),
        }

    def _start(self, given: Any, data: Any) -> dict[str, Any]:
        update = self._declared.update

        def start(params: Any, given: Any, data: Any) -> dict[str, Any]:
            carry = self._declared.carry if update.first is None else None
            theta = update.join(params)
            state, aside = update.packing.pack(self._declared.carry if carry is None else carry)
            state = state if update.first is None else update.first(theta, None)
            inputs = (None, (jnp.asarray(1, jnp.int32), given))
            return self._follower.start(theta, state, aside, inputs, data)

        return jax.jit(start)(self._params, given, data)

    def _run(self, held: dict[str, Any], number: Any, given: Any, data: Any) -> tuple[dict[str, Any], Step]:
        held, loss = self._follower.advance(held, (None, (number, given)), data)
        update = self._declared.update
        fields = self._declared.look(update.packing.unpack(held["state"], held["aside"]))
        return held, Step(fields, loss, update.by_name(held["gradient"]))

    def _check_loss(self, held: Mapping[str, Any], data: Any) -> None:
        """Refuses a loss on which the fields have no influence, whose gradient would be zero for ever."""
        measure = self._follower.measure
        traced = jax.make_jaxpr(lambda state, values: measure(state, held["aside"], values))(held["state"], data)
        count, inner = len(jax.tree.leaves(held["state"])), traced.jaxpr
        marks = [False] * len(inner.constvars) + [k < count for k in range(len(inner.invars))]
        if not depends_on(inner, marks)[0]:
            raise DeclarationError(
                "fd.online: the loss does not depend on the fields, and no gradient comes of it. Write it by "
                'state["..."], as in loss=lambda state, data: jnp.sum((state["u"] - data) ** 2).'
            )

    def _check_missing(self, found: Step, data: Any) -> None:
        """Refuses data whose nan get into the loss; looked at only where there are any, and nothing is traced."""
        if any(isinstance(one, Tracer) for one in jax.tree.leaves((data, found.loss, found.gradient))):
            return
        missing = [
            jax.tree_util.keystr(path)
            for path, leaf in jax.tree_util.tree_leaves_with_path(data)
            if jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
            and bool((jnp if isinstance(leaf, jax.Array) else np).isnan(leaf).any())
        ]
        if not missing or all(np.isfinite(np.asarray(one)).all() for one in (found.loss, *found.gradient.values())):
            return
        where = "the data" if missing == [""] else f"data{missing[0]}"
        raise RunError(
            f"step: {where} hold nan, and they get into the loss or its gradient at level {self._number + 1}; the step "
            f"is not taken. Leave out what is missing before it is used: known = jnp.where(jnp.isnan(data), 0, data), "
            f"and in the loss jnp.where(jnp.isnan(data), 0, u - known)."
        )

    def _plain(self, data: Any) -> tuple[Any, Places]:
        """The data without labels, in the grid's order, and inputs in that, and the units, of their examples: other
        units of one kind are of another form. And where labelled data lie."""
        own: dict[str, Any] = {}
        if isinstance(data, Mapping):
            given = {name: data[name] for name in self._inputs if name in data}
            given = {name: self._declared.labels.take(name, value, "step") for name, value in given.items()}
            units = self._declared.units
            own = units.attach({name: units.detach(name, value, "step") for name, value in given.items()})
            data = {name: value for name, value in data.items() if name not in own}
        problem = self._declared.plan.problem
        known = {one.name: str(one.units) for one in problem.fields if one.units is not None}
        data, places = plain_data(data, problem.scope.grid, self._places, known, problem.units is not None)
        return {**data, **own} if own else data, places

    def _check(self, data: Any) -> tuple[str, dict[str, Any]]:
        """The form of the data in words, and the inputs among them."""
        for path, leaf in jax.tree_util.tree_leaves_with_path(data):
            if not isinstance(leaf, jax.Array | np.ndarray):
                to_array(f"step: data{jax.tree_util.keystr(path)}", leaf)
        each = ", ".join(f"{jnp.result_type(x)}{list(np.shape(x))}" for x in jax.tree.leaves(data))
        form = f"{jax.tree.structure(data)} of {each or 'nothing'}"
        if self._form is not None and form != self._form:
            raise DeclarationError(
                f"step: data have the form {_shown(self._form)} at every step, got {_shown(form)}. Data of another "
                f"form would be compiled anew; mark what is missing by nan, and mask it in the loss."
            )
        if self._inputs and not (isinstance(data, Mapping) and set(self._inputs) <= set(data)):
            raise DeclarationError(
                f"step: rules take {', '.join(self._inputs)} at every step; give them in a dict, "
                f"step(dict({next(iter(self._inputs))}=...))."
            )
        given = {}
        for name, known in self._inputs.items():
            array = jnp.asarray(self._declared.units.detach(name, data[name], "step"))
            given[name] = array if array.dtype == known.dtype else array.astype(known.dtype)  # keys have no `astype`
            if given[name].shape != known.shape:
                raise DeclarationError(f"step: the input `{name}` has shape {known.shape}, got {given[name].shape}.")
        return form, given


def online(
    fields: Any,
    /,
    params: Any,
    *,
    loss: Callable[[dict[str, Any], Any], Any],
    method: Any = "forward",
    inputs: Any = None,
    parameters: Any = None,
    stepper: Any = None,
    solver: Any = None,
    window: Any = 1,
    otherwise: Any = None,
    **options: Any,
) -> Stream:
    """A run whose gradient with respect to `params` is known after every step, while data arrive.

    Arguments: `fields`, a declaration; `params`, the real parameters to follow, by name; `loss(state, data)`, a real
    number for the fields by name after a step and the step's data; `method` and its options as for
    `fd.adjoint.Online` ("forward", exact, unless told otherwise; a dict gives each parameter its own); `inputs`,
    examples of the parameters that come with the data of every step (and what a first state that reads one takes);
    `parameters`, those that stay. `window`: within so many steps derivatives are taken by reversal.
    `otherwise="forward"` follows exactly what the method cannot. Parameters, inputs and data may be quantities, as
    in `fd.solve`. Parameters and inputs may be labelled, by `fd.along` or as DataArrays on the whole axes of the
    grid; gradients are in their order of axes. DataArrays among the data come to the loss in the grid's, entries
    too; those at other places along an axis are refused.

    Memory is that of the state and the traces (see `stream.report`), whatever the number of steps; one step is compiled
    once. Raises DeclarationError and PlanningError for what does not fit together. Warns once where a method is not
    exact.
    """
    check_names(params, inputs, parameters)
    if not callable(loss):
        raise DeclarationError(f"fd.online: loss= takes a function of (state, data), got {loss!r}.")
    if not takes(loss, 2):
        raise DeclarationError(
            "fd.online: loss= takes two arguments, the fields after a step and its data: def loss(state, data)."
        )
    try:
        chosen = make_method(method, options, "fd.online")
    except DeclarationError as error:
        if not options:
            raise
        raise DeclarationError(f"{error} Parameters of rules that stay go into parameters=dict(...).") from None
    rest = None if otherwise is None else make_method(otherwise, {}, "fd.online, otherwise=")
    if isinstance(rest, dict):
        raise DeclarationError("fd.online: otherwise= takes one method.")
    labels, bare = Labels(params, inputs or {}), plain_array
    units = StreamUnits({name: bare(value) for name, value in {**params, **(inputs or {})}.items()})
    own = {name: to_real(name, plain(bare(value))) for name, value in params.items()}
    given = {name: to_array(f"fd.online: the input `{name}`", plain(bare(v))) for name, v in (inputs or {}).items()}
    try:
        declared = declare(fields, own, parameters or {}, given, stepper, solver, units, labels)
    except PlanningError as error:
        what, remedy, _ = str(error).partition(AS_KEYWORD)
        if not remedy:
            raise
        raise PlanningError(
            f"{what}Give it in params= (to be followed), inputs= (an example of what comes with every step) or "
            f"parameters= (what stays)."
        ) from None
    own = {name: value.astype(declared.update.packing.dtype) for name, value in own.items()}
    with _derivatives():
        following = follow(declared.update, chosen, rest)
    warn_if_inexact(following)
    measure = units.measure(lambda carry, data: _read(loss, declared.look(carry), data))
    follower = Follower(following, measure, check_window(window, "fd.online"))
    shown = dict(sorted(chosen.items())) if isinstance(chosen, dict) else chosen
    return Stream(declared, follower, given, own, f"{shown}, otherwise {rest}")


def _derivatives() -> AbstractContextManager[None]:
    return forward_derivatives("fd.online", "fd.solve with adjoint=fd.adjoint.Checkpointed()")


def _shown(form: str) -> str:
    """A form without the word for a tree."""
    return form.replace("PyTreeDef(", "", 1).replace(") of ", " of ", 1)


def _read(loss: Callable[[Any, Any], Any], state: Mapping[str, Any], data: Any) -> Any:
    """The loss of a state and data. Raises DeclarationError for names that neither has."""
    try:
        found = loss(state, data)
        if found is None:
            raise DeclarationError("fd.online: the loss gives None. Write `return` before the number that it computes.")
        return found
    except KeyError as error:
        has = f", the data {', '.join(map(str, data)) or 'nothing'}" if isinstance(data, Mapping) else ""
        raise DeclarationError(
            f"fd.online: the loss reads {error.args[0]!r}; the state has {', '.join(state)}{has}."
        ) from error
