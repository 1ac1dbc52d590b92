"""Wrong programs and what is said of them: what the catalogues in `test_messages_*.py` share."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest

import fdsolve as fd

SOLVE = "fdsolve._solve"


@dataclass(frozen=True)
class Wrong:
    """A wrong program, the kind of error it ends in, and its message; `…` stands for any text."""

    program: Callable[[], Any]
    message: str
    error: type[fd.FdsolveError] = fd.DeclarationError

    def check(self) -> None:
        """Runs the program: it must end in the message, on one line, before anything ran."""
        refuse = mock.Mock(side_effect=AssertionError("the run had begun"))
        with mock.patch(f"{SOLVE}.finish", refuse), pytest.raises(fd.FdsolveError) as caught:
            self.program()
        pattern = re.escape(self.message).replace("…", ".*")
        assert re.fullmatch(pattern, str(caught.value)), str(caught.value)
        assert type(caught.value) is self.error


def undeclared(message: str, program: Callable[[], Any]) -> Wrong:
    """A program that is refused for what it declares."""
    return Wrong(program, message, fd.DeclarationError)


def unplanned(message: str, program: Callable[[], Any]) -> Wrong:
    """A program that is refused for want of a plan."""
    return Wrong(program, message, fd.PlanningError)


def nodes(**axis: Any) -> fd.Grid:
    """Five levels, six points."""
    return fd.Grid(t=fd.Time(0.0, 1.0, num=5), x=fd.Axis(0.0, 1.0, num=6, **axis))


def steady() -> fd.Grid:
    """Six points, no time."""
    return fd.Grid(x=fd.Axis(0.0, 1.0, num=6))


def field(grid: fd.Grid | None = None, name: str = "u", **options: Any) -> fd.Field:
    """A field without rules."""
    return fd.Field(name, grid or nodes(), **options)


def assign(key: Any, rule: Any = 0.0, **options: Any) -> Callable[[], None]:
    """`u[key] = rule`, to be called."""

    def program() -> None:
        field(**options)[key] = rule

    return program


def declare(rule: Any, initial: Any = 0.0, grid: fd.Grid | None = None, **options: Any) -> fd.Field:
    """A field with one rule and an initial state."""
    u = field(grid, **options)
    u[...] = rule
    u[0] = initial
    return u


def ruled(rule: Any, **options: Any) -> Callable[[], Any]:
    """Solving with one rule, to be called; options that are no parameters of `declare` go to `solve`."""
    own = {name: options.pop(name) for name in ("initial", "grid", "dtype") if name in options}
    return lambda: fd.solve(declare(rule, **own), **options)


def rated(rule: Any, **options: Any) -> Any:
    """Solving with one rate on a periodic axis, to be called."""
    return ruled(fd.rate(rule), **{"grid": nodes(periodic=True), **options})


def keep(u: Any) -> Any:
    """The rule of a field that stays as it is."""
    return u["t-1"]


def with_line(key: Any, line: Any, rule: Any = keep, **options: Any) -> Callable[[], Any]:
    """Solving with one rule and one more assignment after it, to be called."""

    def program() -> Any:
        u = declare(rule, **options)
        u[key] = line
        return fd.solve(u)

    return program


def with_sum(key: Any, line: Any, rule: Any = keep, **options: Any) -> Callable[[], Any]:
    """Solving with one rule and one `+=` after it, to be called."""

    def program() -> Any:
        u = declare(rule, **options)
        u[key] += line
        return fd.solve(u)

    return program


def lines(*assignments: tuple[Any, Any], **options: Any) -> Any:
    """Solving a field with these assignments alone, to be called."""

    def program() -> Any:
        u = field(**options)
        for key, rule in assignments:
            u[key] = rule
        return fd.solve(u)

    return program


def pair(grid: fd.Grid | None = None) -> tuple[fd.Field, fd.Field]:
    """Two fields without rules, `u` and `v`."""
    grid = grid or nodes()
    return field(grid), field(grid, "v")
