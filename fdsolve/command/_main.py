"""`fdsolve`: the arguments of each command, and how a command ends."""

import argparse
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import FdsolveWarning
from ..pictures import KINDS
from ._gallery import bench, gallery
from ._info import info
from ._mistakes import FailedError, UsageError
from ._run import plan, run

_PROBLEM = """A problem file is Python that declares fields and names them at its end:

    fields = u                           # a Field, or a list of coupled ones
    parameters = dict(kappa=0.1)         # what rules read; optional, --set replaces them
    options = dict(save=fd.every(10))    # keywords of fd.solve; optional

or a function problem(kappa=0.1, num=65) that returns a dict of these; --set then gives its arguments.
"""
_RUN = (
    _PROBLEM
    + """
examples:
  fdsolve run heat.py --set kappa=0.1 --save heat.nc --plot heat.png
  fdsolve run heat.py --plot heat.pdf --field T --time 0,0.5,1 --kind lines
  fdsolve run heat.py --animate heat.gif --fps 10 --progress

It ends with 0 if all went well; with 1 if the run failed, was interrupted, or its last level is not finite: what there
is is written all the same, and the last line on the error stream says what happened, where, and what to try; with 2 if
what was asked for cannot be.
"""
)
_PLAN = (
    _PROBLEM
    + """
examples:
  fdsolve plan heat.py
  fdsolve plan heat.py --plot regions.png
"""
)
_TOP = """examples:
  fdsolve run heat.py --set kappa=0.1 --save heat.nc --plot heat.png
  fdsolve plan heat.py --plot regions.png
  fdsolve gallery --run demo
  fdsolve info

It ends with 0 if all went well, 1 if a run failed, 2 if what was asked for cannot be.
"""


class Once(argparse.Action):
    """An option that is given once: the value of a second one would take the place of the first without a word."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "it is given twice; give it once")
        setattr(namespace, self.dest, values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns 0, 1 (a run failed) or 2 (wrong arguments, or a problem file that does not fit)."""
    try:
        parser = make_parser()
        options, rest = parser.parse_known_args(arguments)
        if options.command is bench:
            options.arguments = rest
        elif rest:
            parser.error(f"unrecognized arguments: {' '.join(rest)}; fdsolve COMMAND --help lists those there are")
    except SystemExit as ended:  # of argparse: after --help, or with a message on what it could not read
        return ended.code if isinstance(ended.code, int) else 2
    try:
        with _plain_warnings():
            return options.command(options)
    except (UsageError, FailedError) as error:
        if getattr(options, "traceback", False):
            traceback.print_exception(error)
        print(f"fdsolve: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        print("fdsolve: interrupted", file=sys.stderr)
        return 1
    except BrokenPipeError:  # what reads our output has closed it, as `head` does
        return 0


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Our warnings are told without the line of our code that they come from."""
    before = warnings.formatwarning

    def tell(message: Any, category: Any, *rest: Any, **more: Any) -> str:
        own = issubclass(category, FdsolveWarning)
        return f"fdsolve: warning: {message}\n" if own else before(message, category, *rest, **more)

    warnings.formatwarning = tell
    try:
        yield
    finally:
        warnings.formatwarning = before


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="fdsolve",
        description="Finite-difference solutions of partial differential equations.",
        epilog=_TOP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    one = _add(commands, "run", run, "solve a problem file; save it, draw it", _RUN)
    _add_problem(one)
    path: Any = dict(metavar="PATH", type=Path, action=Once)
    one.add_argument("--save", **path, help="write all saved states: .nc or .zarr")
    one.add_argument("--plot", **path, help="draw a picture: .png, .pdf, .svg or .jpg")
    one.add_argument("--animate", **path, help="make a film: .gif, or .mp4 where ffmpeg is installed")
    one.add_argument("--field", metavar="NAME,…", action=Once, help="the field to draw, or several (default: all)")
    one.add_argument("--time", metavar="T,…", action=Once, help="the times to draw (default: a choice)")
    one.add_argument("--kind", choices=list(KINDS), help="the kind of picture (default: by the number of dimensions)")
    one.add_argument("--fps", type=_rate, default=12.0, help="frames of the film a second (12)")
    one.add_argument("--progress", action="store_true", help="show a bar while it runs")
    one = _add(commands, "plan", plan, "print what a problem file would run, and why", _PLAN)
    _add_problem(one)
    one.add_argument("--plot", metavar="PATH", type=Path, help="draw regions and stencils: .png, .pdf, .svg or .jpg")
    one = _add(
        commands, "gallery", gallery, "list the examples, or run one", "example:\n  fdsolve gallery --run demo\n"
    )
    one.add_argument("--run", metavar="NAME", help="run this example; it says where its picture is")
    text = "example:\n  fdsolve bench --quick --only maps,kernels\n"
    _add(commands, "bench", bench, "run the benchmarks that come with the source", text, add_help=False)
    _add(commands, "info", info, "versions, devices, kernels and extras", "example:\n  fdsolve info\n")
    return parser


def _add(commands: Any, name: str, function: Any, summary: str, epilog: str, **options: Any) -> argparse.ArgumentParser:
    one = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **options,
    )
    one.set_defaults(command=function)
    return one


def _rate(text: str) -> float:
    """Frames a second; checked before the run, which may take long."""
    if not 0 < float(text) <= 100:
        raise argparse.ArgumentTypeError(f"frames a second are a number above 0 and up to 100; got {text}")
    return float(text)


def _add_problem(one: argparse.ArgumentParser) -> None:
    """The arguments of commands that read a problem file."""
    one.add_argument("problem", metavar="problem.py", help="the problem file")
    one.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a parameter; may be repeated")
    one.add_argument("--double", action="store_true", help="64-bit floats")
    one.add_argument("--traceback", action="store_true", help="show where an error came from in full")
