"""`fdsolve run` and `fdsolve plan`."""

import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import DeclarationError, FdsolveError, NotFiniteWarning
from ..field import Field
from ..files import to_netcdf, to_zarr
from ._mistakes import FailedError, UsageError, told, where_in
from ._problem import ProblemFile, read_problem, read_setting

WRITERS: dict[str, Callable[[Any, Path], Any]] = {".nc": to_netcdf, ".zarr": to_zarr}
PICTURES = (".png", ".pdf", ".svg", ".jpg")
FILMS = (".gif", ".mp4")


def run(options: Namespace) -> int:
    """Solves a problem file, and writes what was asked for; what there is, too, where the run failed or was ended.

    Raises FailedError, after all was written, for a run that did not come to a good end.
    """
    places = [
        ("--save", options.save, tuple(WRITERS)),
        ("--plot", options.plot, PICTURES),
        ("--animate", options.animate, FILMS),
    ]
    for name, path, endings in places:  # before the run, which may take long
        _check_place(name, path, endings)
    _need_matplotlib_file_backend()
    problem = _read(options)
    field = options.field.split(",") if options.field else None
    _check_fields(problem, field or [])
    solution, fault = _solve(problem, options.progress)
    print(solution)
    try:
        _write_all(options, solution, field)
    except (UsageError, FailedError) as error:
        if fault is None:
            raise
        print(f"fdsolve: {error}", file=sys.stderr)
    if fault is not None:
        raise fault
    return 0


def _write_all(options: Namespace, solution: Any, field: list[str] | None) -> None:
    chosen = field[0] if field and len(field) == 1 else field
    shown = {"kind": options.kind}
    if options.save:
        _write(options.save, lambda path: WRITERS[path.suffix](solution, path))
    if options.plot:
        time = options.time if options.time is None else [_number(text) for text in options.time.split(",")]
        _write(options.plot, lambda path: solution.plot(chosen, time=time, **shown).savefig(path, dpi=150))
    if options.animate:
        _write(options.animate, lambda path: solution.animate(path, chosen, fps=options.fps, **shown))


def plan(options: Namespace) -> int:
    """Prints the plan of a problem file, and draws its regions if asked to."""
    _check_place("--plot", options.plot, PICTURES)
    _need_matplotlib_file_backend()
    found = _read(options).plan()
    print(found)
    if options.plot:
        _write(options.plot, lambda path: found.plot().savefig(path, dpi=150))
    return 0


def _read(options: Namespace) -> ProblemFile:
    if options.double:
        import jax

        jax.config.update("jax_enable_x64", True)
    return read_problem(options.problem, dict(read_setting(text) for text in options.set))


def _solve(problem: ProblemFile, progress: bool) -> tuple[Any, FailedError | None]:
    """The solution, and what is wrong with it: it is not finite at its end, or stops where it should not.

    What fails on the way is told with the line of the problem file it came from.
    """
    name, faults = problem.path.name, []
    try:
        with _taking(NotFiniteWarning, faults):
            solution = problem.solve(**({"progress": True} if progress else {}))
    except FdsolveError as error:
        fault = FailedError(f"{name}: {error}")
        if getattr(error, "solution", None) is None:
            raise fault from error
        fault.__cause__ = error
        return error.solution, fault  # type: ignore[attr-defined]
    except (UsageError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise FailedError(f"{where_in(problem.path, error)}\n  {told(error)}") from error
    if not faults and (solution.stopped or "").startswith("interrupted"):
        where = f" at t = {float(solution.times[-1]):.6g}" if solution.times.size else " before anything was saved"
        faults.append(f"{solution.stopped}{where}.")
    return solution, FailedError(f"{name}: {faults[0]}") if faults else None


@contextmanager
def _taking(category: type[Warning], found: list[str]) -> Iterator[None]:
    """Keeps the texts of warnings of a category instead of telling them."""
    before = warnings.showwarning

    def show(message: Any, kind: Any, *rest: Any, **more: Any) -> None:
        if issubclass(kind, category):
            found.append(str(message))
        else:
            before(message, kind, *rest, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", category)
        warnings.showwarning = show
        yield


def _check_place(name: str, path: Path | None, endings: Sequence[str]) -> None:
    if path is None:
        return
    if path.suffix not in endings:
        raise UsageError(f"{name} writes files that end in {', '.join(endings)}; got {str(path)!r}.")
    if not path.parent.is_dir():
        raise UsageError(f"{name}: there is no folder {str(path.parent)!r}; make it first.")


def _check_fields(problem: ProblemFile, wanted: Sequence[str]) -> None:
    """Before the run, which may take long."""
    given = problem.fields if isinstance(problem.fields, Sequence) else [problem.fields]
    known = [one.name for one in given if isinstance(one, Field)]
    unknown = [name for name in wanted if name not in known]
    if known and unknown:
        there = ", ".join(f"`{name}`" for name in known)
        raise UsageError(f"There is no field {unknown[0]!r} to draw; there are {there}.")


def _write(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file and says so; a wrong field, time or kind is the user's to mend."""
    try:
        write(path)
    except DeclarationError as error:
        raise UsageError(str(error)) from error
    except (FdsolveError, OSError) as error:
        raise FailedError(f"{path}: {error}") from error
    print(f"written {path}")


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _need_matplotlib_file_backend() -> None:
    """Pictures go to files: no window is opened, no display needed."""
    import matplotlib

    matplotlib.use("Agg")
