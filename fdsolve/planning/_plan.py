"""The plan: from a declaration to the structure of a run and the arrays it runs on."""

import inspect
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import DeclarationError, FdsolveWarning, UnstableWarning
from ..grid import note_grid
from ..pictures import draw_regions
from ..region import Box, Points
from ..schemes import RK4, AbstractStepper
from ..solvers import AbstractLinearSolver, AbstractNonlinearSolver, Continuation
from ..stencil import ProfileRead
from ._assembly import AbstractAssembly
from ._bind import bind_stepper, describe_plain, trace_speeds
from ._boundaries import show_boundaries
from ._compile import Compiled, PhasePieces, compile_phases
from ._derived import bytes_of, plan_showing, weights_of
from ._html import plan_html
from ._masks import identity
from ._order import Parallel, Solve, Stage, make_schedule
from ._phases import Phase, make_phases
from ._pictured import map_regions
from ._pieces import Piece
from ._points_order import order_points
from ._problem import Problem, check_all_used, take_snapshot
from ._receivers import Receivers, plan_receivers, split_saves
from ._report import describe, show_memory
from ._save import AbstractSave, Derived, Every, Final, SavePlan, Stream, plan_saves
from ._stability import Skipped, Stability, analyse
from ._store import Extent
from ._structure import Array, PhaseStructure, Segment, Structure
from ._systems import choose_solver, gather_facts, outline_solve
from ._unit_check import check_units

MAX_SEGMENTS = 8


@dataclass(frozen=True, eq=False)
class Plan:
    """What a solve will run and why. `print(plan)` shows it; `structure` is static, `operands` the arrays."""

    problem: Problem
    structure: Structure
    operands: dict[str, Any] = field(repr=False)
    save: SavePlan
    holes: dict[str, Points]
    notes: tuple[str, ...]
    parameters: dict[str, Any] = field(repr=False)
    receivers: Receivers | None = field(default=None, repr=False)
    boundaries: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    served: Mapping[Piece, str] = field(default_factory=dict, repr=False)
    assembly: AbstractAssembly | None = field(default=None, repr=False)
    stream: Stream | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.structure == other.structure and self.save == other.save

    def __hash__(self) -> int:
        return hash((self.structure, self.save))

    def matrix(self, format: Any = "csr", *, at: Any = None) -> Any:
        """A = ∂r/∂u of all residuals r by the unknown values u (rates, where the declaration has some), sparse.

        `format`: "csr" for a scipy.sparse.csr_array, "bcoo" for JAX. Rows and columns are the unknown points, in the
        order that `plan.unknowns()` tells. Rules that are not affine want a state, `at=dict(u=solution.final["u"])`.
        """
        assert self.assembly is not None
        return self.assembly.matrix(self, format, at)

    def unknowns(self) -> Any:
        """The rows of `matrix`: by `fields`, `indices` and `coordinates`; `take` and `put` turn arrays by field into
        vectors and back."""
        assert self.assembly is not None
        return self.assembly.unknowns(self)

    @property
    def bytes_saved(self) -> int:
        """Bytes of the saved history."""
        return bytes_of(self.structure.showing, self.structure.declared) * len(self.structure.saved_levels)

    @property
    def bytes_held(self) -> int:
        """Bytes of the levels kept while marching, the new one included."""
        return sum(
            prod(one.padded_shape) * np.dtype(one.dtype).itemsize * (one.kept + 1) for one in self.structure.arrays
        )

    @property
    def stability(self) -> Stability | Skipped:
        """Von Neumann stability of the declared step, or why it cannot be told."""
        grid, wholes = self.problem.scope.grid, self.operands["wholes"]
        consts = [c for rule in self.structure.rules for c in rule.consts]
        if any(isinstance(value, Tracer) for value in (*wholes.values(), *consts)):
            return Skipped("parameters are traced")
        layouts = self.problem.scope.layouts
        shifts = {name: tuple(layouts[name].shift(axis) for axis in grid.space) for name in layouts}
        return analyse(self.structure, wholes, shifts, grid.time.step if grid.time is not None else 0.0)

    def warn_if_unstable(self) -> None:
        """Warns where the declared step is unstable, naming it and the largest stable one."""
        found = self.stability
        if isinstance(found, Skipped) or found.stable:
            return
        largest = "no step is stable" if not found.largest else f"the largest stable step is {found.largest:.6g}"
        if found.largest is None:
            largest = "the rules do not read the time step"
        part = ", by the rates marked implicit alone" * found.alone
        warnings.warn(
            f"The declared step {found.step:.6g} is unstable{part}: a mode grows by {found.factor:.6g} a step; "
            f"{largest}.",
            UnstableWarning,
            stacklevel=4,
        )

    def plot(self, fields: Any = None, *, level: Any = -1, at: Any = None, ax: Any = None) -> Any:
        """Regions of each field by colour of their rule, and what each rule reads; returns the matplotlib Figure.

        Arguments: `fields`, a name or several (default all); `level`, the number of the time level (default the last);
        `at=dict(z=0.5)`, where to cut axes beyond the second (default in the middle); `ax`, Axes for the regions alone.
        """
        return draw_regions(map_regions(self.problem, self.structure, self.holes, fields, level, at), ax)

    def _repr_html_(self) -> str:
        return plan_html(self)

    def __str__(self) -> str:
        return describe(
            self.structure,
            self.problem.scope.grid,
            {one.name: one.units for one in self.problem.fields},
            self.notes,
            self.stability,
            show_memory(self),
            self.boundaries,
            self.kernels,
            self.served,
        )

    __repr__ = __str__


def make_plan(fields: Any, parameters: Mapping[str, Any], stepper: Any, save: Any, solver: Any = None) -> Plan:
    """Snapshots a declaration, traces its rules, orders them, and gathers the arrays they need."""
    _check_options(stepper, save, solver)
    save, listening = split_saves(save)
    streamed, save = (save, save.save) if isinstance(save, Stream) else (None, save)
    problem = _snapshot(fields, parameters, solver)
    note_grid(problem.scope.grid)
    phases, of_level = make_phases(problem)
    compiled = compile_phases(problem, phases, of_level, staged=stepper is not None and stepper.at_levels)
    rated = list(dict.fromkeys(piece.field for pieces in compiled.phases for piece in pieces.rates))
    speeds = trace_speeds(problem, compiled.book, stepper, rated) if stepper is not None else {}
    check_all_used(problem)
    if problem.units is not None:
        compiled.notes += check_units(problem, compiled, speeds, stepper)
    grid = problem.scope.grid
    showing = plan_showing(save, problem.scope, problem.names)
    save = save.save if isinstance(save, Derived) else save
    recording, places = plan_receivers(problem, listening, compiled.book.signs)
    save_plan = _plan_levels(problem, save, listening is not None, streamed is not None)
    structure = Structure(
        arrays=_arrays(problem, compiled),
        rules=tuple(compiled.book.rules),
        phases=tuple(
            _phase_structure(problem, compiled, pieces, phase, solver)
            for pieces, phase in zip(compiled.phases, phases, strict=True)
        ),
        segments=_segments(of_level),
        extents=(),
        saved_levels=save_plan.levels,
        stepper=None,
        time_axis=grid.time_name,
        recording=recording,
        facts=gather_facts(problem, phases[-1], tuple(compiled.book.memories.by_name)),
        asked=solver,
        showing=showing,
        signs=tuple((name, compiled.book.signs[name]) for name in problem.names),
    )
    if rated:
        structure = bind_stepper(problem, structure, of_level, stepper or RK4(), speeds)
    elif stepper is not None:
        compiled.notes.append(describe_plain(structure, stepper))
    problem.store.wholes.update(places)
    holes = {name: _static_holes(phases, name) for name in problem.names}
    weights = weights_of(showing, grid, problem.scope.layouts, holes, problem.scope.real)
    problem.store.wholes.update({key: jnp.asarray(array) for key, array in weights.items()})
    _measure_profiles(problem, compiled, structure)
    structure = replace(structure, extents=_extents(problem))
    return Plan(
        problem,
        structure,
        _operands(problem, compiled),
        save_plan,
        holes,
        tuple(compiled.notes),
        dict(parameters),
        listening,
        show_boundaries(problem, phases[-1]),
        stream=streamed,
    )


def _plan_levels(problem: Problem, save: Any, records: bool, streams: bool) -> SavePlan:
    """The levels that are kept; none where receivers alone are asked for."""
    time = problem.scope.grid.time
    if time is None:
        if save is not None and not isinstance(save, Final):
            raise DeclarationError("save= chooses among time levels, and the grid has no time axis; leave it out.")
        return SavePlan((0,), (0,), (0,), (0.0,), (0.0,))
    found = SavePlan((), (), (), (), ()) if save is None and records else plan_saves(save or Every(1), time)
    if isinstance(save, Every) and time.num > 1 and save.n >= time.num:
        warnings.warn(
            f"save=fd.every({save.n}) keeps level 0 alone of {time.num} levels. Take fd.final() for the last one, or "
            f"fd.every({time.num - 1}) for both.",
            FdsolveWarning,
            stacklevel=5,
        )
    exact = [one.name for one in problem.fields if not jnp.issubdtype(problem.scope.dtypes[one.name], jnp.inexact)]
    if streams and not found.follows_levels:
        raise DeclarationError(
            "fd.stream writes levels as they are computed: give times of levels to fd.at(...), ascending, each once."
        )
    if found.interpolates and exact:
        raise DeclarationError(
            f"save=fd.at(...) interpolates between levels, and `{exact[0]}` has dtype "
            f"{problem.scope.dtypes[exact[0]]}. Give times of levels."
        )
    return found


def _snapshot(fields: Any, parameters: Mapping[str, Any], solver: Any) -> Problem:
    """The problem; a parameter that will be varied is made a real number: whole ones are part of the structure."""
    if not isinstance(solver, Continuation):
        return take_snapshot(fields, parameters)
    value = parameters.get(solver.parameter)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        parameters = {**parameters, solver.parameter: float(int(value))}
    problem = take_snapshot(fields, parameters)
    solver.key(problem.store.wholes)
    return problem


def show_option(name: str, value: Any) -> str:
    """A wrong value of an option, and where a parameter goes that has the option's name."""
    return f"{value!r}. A parameter called `{name}` goes into parameters=dict({name}=...)."


def show_wrong(name: str, value: Any) -> str:
    """The same of an option that takes an object: a class was to be called."""
    if isinstance(value, type):
        return f"the class {value.__name__}; write it with parentheses, {value.__name__}()."
    return show_option(name, value)


def _check_options(stepper: Any, save: Any, solver: Any) -> None:
    if solver is not None and not isinstance(solver, AbstractLinearSolver | AbstractNonlinearSolver):
        got = show_wrong("solver", solver)
        raise DeclarationError(
            f"solver= takes a solver such as fd.solvers.Multigrid() or fd.solvers.Newton(), got {got}"
        )
    if stepper is not None and not isinstance(stepper, AbstractStepper):
        got = show_wrong("stepper", stepper)
        raise DeclarationError(f"stepper= takes a stepper such as fd.schemes.RK4(), got {got}")
    for one in save if isinstance(save, list | tuple) else [] if save is None else [save]:
        if not isinstance(one, AbstractSave):
            got = f"the function {one.__name__}; call it." if inspect.isfunction(one) else show_option("save", one)
            raise DeclarationError(f"save= takes fd.every(n), fd.at(times), fd.final() or fd.receivers(...), got {got}")


def _arrays(problem: Problem, compiled: Compiled) -> tuple[Array, ...]:
    kept = dict.fromkeys([*problem.names, *compiled.hidden], 0)
    for phase in compiled.phases:
        for piece in (*phase.values, *phase.rates):
            for read in compiled.book.rules[piece.rule].reads:
                behind = max(-read.level, 1 if piece.role == "rate" and read.field not in compiled.views else 0)
                kept[read.field] = max(kept[read.field], behind)
            if piece.role == "rate":
                kept[piece.field] = max(kept[piece.field], 1)
    return tuple(
        Array(
            name,
            problem.scope.layouts[name].space_shape,
            *compiled.halos[name],
            np.dtype(problem.scope.dtypes[name]).str,
            kept[name],
        )
        for name in problem.names
    ) + tuple(_hidden_array(problem, name, box, kept[name]) for name, box in compiled.hidden.items())


def _hidden_array(problem: Problem, name: str, box: Box, kept: int) -> Array:
    shape = problem.scope.layouts[name].space_shape
    lower = tuple(-start for start in box.start)
    upper = tuple(stop - size for stop, size in zip(box.stop, shape, strict=True))
    return Array(name, shape, lower, upper, np.dtype(problem.scope.dtypes[name]).str, kept, hidden=True)


def _phase_structure(
    problem: Problem, compiled: Compiled, pieces: PhasePieces, phase: Phase, solver: Any
) -> PhaseStructure:
    rules, axes = compiled.book.rules, problem.scope.grid.space

    def scheduled(of_views: bool) -> Iterator[Stage]:
        own = [piece for piece in pieces.values if (piece.field in compiled.views) == of_views]
        found = make_schedule(own, rules, axes, problem.store.masks)
        return (_with_sequence(problem, compiled, stage, axes) for stage in found)

    stages = tuple(
        choose_solver(outline_solve(problem, phase, stage, rules, pieces.guesses), solver)
        if isinstance(stage, Solve)
        else stage
        for stage in scheduled(of_views=False)
    )
    parts = {name: points.parts for name, points in pieces.given.items() if not points.empty}
    given = tuple((name, tuple(part.box for part in own)) for name, own in parts.items())
    points = tuple((name, identity(*own)) for name, own in parts.items())
    views_of_rates = tuple(scheduled(of_views=True)) if pieces.rates else ()
    return PhaseStructure(stages, tuple(pieces.rates), given, points=points, views=views_of_rates)


def _with_sequence(problem: Problem, compiled: Compiled, stage: Stage, axes: tuple[str, ...]) -> Stage:
    if isinstance(stage, Solve):
        return replace(stage, inner=tuple(_with_sequence(problem, compiled, one, axes) for one in stage.inner))
    if isinstance(stage, Parallel) or stage.method != "points":
        return stage
    masks = [_concrete_mask(problem, piece) for piece in stage.pieces]
    table = order_points(stage.pieces, masks, compiled.book.rules, axes)
    key = f"sequence {len(problem.store.wholes)}"
    problem.store.wholes[key] = jnp.asarray(table)
    return replace(stage, sequence=key)


def _concrete_mask(problem: Problem, piece: Piece) -> np.ndarray | None:
    with jax.ensure_compile_time_eval():  # masks are numbers where parameters are traced, too
        mask = problem.store.profiles[piece.mask].build(piece.box.start, piece.box.stop) if piece.mask else None
    return None if mask is None else np.asarray(mask)


def _segments(of_level: list[int]) -> tuple[Segment, ...]:
    """Runs of levels with the same phase; where there are many, one segment with a phase a level."""
    cuts = [0, *(n for n in range(1, len(of_level)) if of_level[n] != of_level[n - 1]), len(of_level)]
    runs = [Segment(a, b, (of_level[a],)) for a, b in pairwise(cuts)]
    if len(runs) <= MAX_SEGMENTS:
        return tuple(runs)
    first = runs[0]
    return (first, Segment(first.stop, len(of_level), tuple(of_level[first.stop :])))


def _measure_profiles(problem: Problem, compiled: Compiled, structure: Structure) -> None:
    """Tells every profile which of its entries are read."""
    axes = problem.scope.grid.space
    for phase in structure.phases:
        for piece in (*phase.values, *phase.rates, *phase.speeds):
            _need(problem, compiled, piece, axes)


def _need(problem: Problem, compiled: Compiled, piece: Piece, axes: tuple[str, ...]) -> None:
    reads = [o for o in compiled.book.rules[piece.rule].operands if isinstance(o, ProfileRead)]
    if piece.predicate is not None:
        reads += [o for o in compiled.book.rules[piece.predicate].operands if isinstance(o, ProfileRead)]
    if piece.mask is not None:
        reads.append(ProfileRead(piece.mask, axes, (0,) * len(axes)))
    time = problem.scope.grid.time
    for read in reads:
        ranges = {a: (s, e) for a, s, e in zip(axes, piece.box.start, piece.box.stop, strict=True)}
        start, stop = [], []
        for axis, offset in zip(read.axes, read.offset, strict=True):
            if time is not None and axis == problem.scope.grid.time_name:
                start.append(0)
                stop.append(time.num)
            else:
                start.append(ranges[axis][0] + offset)
                stop.append(ranges[axis][1] + offset)
        problem.store.find(read).need(tuple(start), tuple(stop))


def _extents(problem: Problem) -> tuple[Extent, ...]:
    return tuple(
        Extent(name, profile.axes, tuple(profile.start))
        for name, profile in sorted(problem.store.profiles.items())
        if profile.start is not None
    )


def _operands(problem: Problem, compiled: Compiled) -> dict[str, Any]:
    grid, real = problem.scope.grid, problem.scope.real
    profiles = {
        name: profile.build(tuple(profile.start), tuple(profile.stop))
        for name, profile in sorted(problem.store.profiles.items())
        if profile.start is not None and profile.stop is not None
    }
    wholes = {name: jnp.asarray(value) for name, value in problem.store.wholes.items()}
    if grid.time is not None:
        wholes["times"] = jnp.asarray(grid.time.points, real)
        wholes["dt"] = jnp.asarray(grid.time.step, real)
    return {"profiles": profiles, "wholes": wholes, "consts": [rule.consts for rule in compiled.book.rules]}


def _static_holes(phases: list[Phase], name: str) -> Points:
    found = Points()
    for hole in phases[-1].fields[name].holes:
        if hole.predicate is None:
            found = found.union(hole.points)
    return found
