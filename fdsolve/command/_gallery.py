"""`fdsolve gallery` and `fdsolve bench`: what lies beside the package, run in a process of its own."""

import ast
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from ._mistakes import FailedError, UsageError

PACKAGE = Path(__file__).resolve().parents[1]
SOURCE = PACKAGE.parent


def examples() -> dict[str, Path]:
    """The examples by name: in the wheel they lie in the package, in the source beside it."""
    for folder in (PACKAGE / "examples", SOURCE / "examples"):
        if (folder / "demo.py").is_file():
            return {path.stem: path for path in sorted(folder.glob("*.py"))}
    raise UsageError(
        f"No examples were found, neither in {PACKAGE} nor beside it. They come with the wheel and with the source: "
        f"install again, pip install --force-reinstall fdsolve."
    )


def title_of(path: Path) -> str:
    """The first line of a script's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0].rstrip(".")


def gallery(options: Namespace) -> int:
    """Lists the examples, or runs one."""
    found = examples()
    if options.run is None:
        width = max(map(len, found))
        for name, path in found.items():
            print(f"{name:<{width}}  {title_of(path)}")
        print(
            f"\n{len(found)} examples in {next(iter(found.values())).parent}; run one with: fdsolve gallery --run demo"
        )
        return 0
    if options.run not in found:
        near = [name for name in found if options.run in name]
        raise UsageError(
            f"There is no example {options.run!r}. "
            + (f"Did you mean {', '.join(near)}?" if near else "List them with: fdsolve gallery")
        )
    return _run_apart([str(found[options.run])], Path.cwd(), f"the example {options.run}")


def bench(options: Namespace) -> int:
    """Runs the benchmarks, which come with the source."""
    if not (SOURCE / "benchmarks" / "__main__.py").is_file():
        raise UsageError(
            f"The benchmarks come with the source of fdsolve, not with the wheel, and there are none beside {PACKAGE}. "
            f"Get the source, and run in its folder: make bench"
        )
    return _run_apart(["-m", "benchmarks", *options.arguments], SOURCE, "the benchmarks")


def _run_apart(arguments: list[str], folder: Path, what: str) -> int:
    """Runs Python on arguments; pictures go to files unless the user's settings say otherwise."""
    env = os.environ | {"MPLBACKEND": os.environ.get("MPLBACKEND", "Agg")}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    ended = subprocess.run([sys.executable, *arguments], cwd=folder, env=env).returncode
    if ended == 2:
        raise UsageError(f"{what} could not take the arguments; what was said stands above.")
    if ended:
        raise FailedError(f"{what} ended with {ended}; what it printed stands above.")
    return 0
