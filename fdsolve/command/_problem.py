"""Problem files: Python that declares what to solve."""

import ast
import inspect
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._solve import plan, solve
from ..errors import DeclarationError, PlanningError
from ..field import Field
from ._mistakes import UsageError, told, where_in

PARTS = ("fields", "parameters", "options")
_EXAMPLE = """    fields = u                       # a Field, or a list of coupled ones
    parameters = dict(kappa=0.1)     # what rules read, optional
    options = dict(save=fd.every(10))  # keywords of fd.solve, optional"""


@dataclass(frozen=True)
class ProblemFile:
    """What a problem file declares: fields, parameters of the rules, and options of `solve`."""

    path: Path
    fields: Any
    parameters: dict[str, Any]
    options: dict[str, Any]

    def plan(self) -> Any:
        """The plan of the problem."""
        return self._call(plan)

    def solve(self, **more: Any) -> Any:
        """The solution of the problem; `more` are options beside those of the file."""
        return self._call(solve, **more)

    def _call(self, function: Any, **more: Any) -> Any:
        try:
            return function(self.fields, parameters=self.parameters, **(self.options | more))
        except (DeclarationError, PlanningError) as error:
            raise UsageError(f"{self.path.name}: {error}{self._words()}") from error

    def _words(self) -> str:
        """The parameters that are text: a number may have been meant."""
        found = [f"`{name}` is the text {value!r}" for name, value in self.parameters.items() if isinstance(value, str)]
        return f" {' and '.join(found)}, not a number." if found else ""


def read_problem(path: Any, settings: Mapping[str, Any]) -> ProblemFile:
    """Runs a problem file. It defines `fields`, `parameters` and `options`, or `problem(**settings)` that returns them.

    `settings` replace parameters of the first, and are the arguments of the second.
    """
    place = Path(path).resolve()
    if place.is_dir():
        raise UsageError(f"{str(path)!r} is a folder; name a problem file." + _near(place / "problem.py"))
    if not place.is_file():
        raise UsageError(f"There is no problem file {str(path)!r}." + _near(place))
    # Errors of any kind may come from the file: all of them are told with the line they came from.
    sys.path.insert(0, str(place.parent))
    try:
        names = runpy.run_path(str(place), run_name=place.stem)
        if callable(names.get("problem")):
            return _from_function(place, names["problem"], settings)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{where_in(place, error)}\n  {told(error)}") from error
    finally:
        sys.path.remove(str(place.parent))
    if "fields" not in names:
        raise UsageError(
            f"{place.name} declares neither `fields` nor a function `problem`. Write at its end, for example:\n"
            f"{_EXAMPLE}"
        )
    declared = {name: names[name] for name in PARTS if name in names}
    found = _checked(place, declared)
    return ProblemFile(place, found.fields, {**found.parameters, **settings}, found.options)


def _from_function(place: Path, function: Any, settings: Mapping[str, Any]) -> ProblemFile:
    """The problem that a file's function makes of the settings."""
    known = inspect.signature(function).parameters
    open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
    unknown = [name for name in settings if name not in known and not open_ended]
    if unknown:
        raise UsageError(
            f"--set {unknown[0]}=…: the function `problem` of {place.name} has no such argument; it has "
            f"{', '.join(known) or 'none'}."
        )
    missing = [
        name
        for name, one in known.items()
        if one.default is one.empty
        and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        and name not in settings
    ]
    if missing:
        raise UsageError(f"The function `problem` of {place.name} wants `{missing[0]}`: add --set {missing[0]}=…")
    made = function(**settings)
    if isinstance(made, Field) or (isinstance(made, Sequence) and all(isinstance(one, Field) for one in made)):
        made = {"fields": made}
    if not isinstance(made, Mapping) or "fields" not in made:
        raise UsageError(
            f"The function `problem` of {place.name} returns {type(made).__name__}; it should return a dict, such as "
            f"dict(fields=u, parameters=dict(kappa=0.1), options=dict(save=fd.every(10)))."
        )
    return _checked(place, made)


def _checked(place: Path, made: Mapping[str, Any]) -> ProblemFile:
    fields = made["fields"]
    given = list(fields) if isinstance(fields, list | tuple) else [fields]
    if not given or not all(isinstance(one, Field) for one in given):
        raise UsageError(f"{place.name}: `fields` is a Field or a list of them, got {type(fields).__name__}.")
    unknown = [name for name in made if name not in PARTS]
    if unknown:
        raise UsageError(f"{place.name}: a problem has {', '.join(PARTS)}; got {unknown[0]!r} as well.")
    for name in PARTS[1:]:
        if not isinstance(made.get(name, {}), Mapping):
            raise UsageError(f"{place.name}: `{name}` is a dict by name, got {type(made[name]).__name__}.")
    options = dict(made.get("options", {}))
    known = [name for name in inspect.signature(solve).parameters if name not in ("fields", "keywords", "parameters")]
    wrong = [name for name in options if name not in known]
    if wrong:
        raise UsageError(
            f"{place.name}: fd.solve has no option {wrong[0]!r}; `options` may hold {', '.join(known)}. What rules "
            f"read belongs into `parameters`."
        )
    return ProblemFile(place, fields, dict(made.get("parameters", {})), options)


def _near(place: Path) -> str:
    """Problem files that could have been meant."""
    folder = place.parent
    if not folder.is_dir():
        return f" There is no folder {str(folder)!r} either."
    found = sorted(one.name for one in folder.glob("*.py"))[:6]
    return f" In {str(folder)!r} there are: {', '.join(found)}." if found else ""


def read_setting(text: str) -> tuple[str, Any]:
    """A name and a value from `name=value`: a number, a list, or else a string."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise UsageError(f"--set takes name=value, as in --set kappa=0.1; got {text!r}.")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError):
        return name.strip(), value.strip()
