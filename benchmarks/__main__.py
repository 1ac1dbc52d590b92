"""`python -m benchmarks [--quick] [--write] [--only maps,…]`: prints the table, and keeps it with --write."""

import argparse
import datetime
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import jax

from . import (
    acoustic,
    compile_time,
    convection,
    elliptic,
    euler,
    gradients,
    kernels,
    maps,
    marching,
    monitors,
    selection,
    sequences,
    streaming,
)
from ._compare import Choice, Settings
from ._table import Row, heading, section

GROUPS: dict[str, Callable[[Settings], list[tuple[str, list[Row]]]]] = {
    "maps": maps.sections,
    "convection": convection.sections,
    "sequences": sequences.sections,
    "gradients": gradients.sections,
    "compile_time": compile_time.sections,
    "marching": marching.sections,
    "euler": euler.sections,
    "acoustic": acoustic.sections,
    "kernels": kernels.sections,
    "selection": selection.sections,
    "elliptic": elliptic.sections,
    "monitors": monitors.sections,
    "streaming": streaming.sections,
}


def main() -> None:
    """Runs the groups asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller cases of kernex: under a minute")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/results/")
    parser.add_argument("--only", default=",".join(GROUPS), help="groups to run, by commas: " + ", ".join(GROUPS))
    parser.add_argument("--case", default="", help="problems of the kernels' groups, by commas (all)")
    parser.add_argument("--dtype", default="", help="their precisions, by commas (float32,float64)")
    parser.add_argument("--size", default="", help="their points along an axis, by commas (those of each problem)")
    parser.add_argument("--kernel", default="native,auto", help="kernels to compare with others, by commas")
    parser.add_argument("--threads", default=2, type=int, help="threads of all contestants")
    options = parser.parse_args()
    wanted = options.only.split(",")
    for name in wanted:
        if name not in GROUPS:
            parser.error(f"there is no group {name!r}; groups: {', '.join(GROUPS)}")
    settings = Settings(budget=0.25 if options.quick else 3.0, quick=options.quick, choice=_choice(options))
    date = datetime.date.today().isoformat()
    lines: list[str] = []

    def put(more: list[str]) -> None:
        lines.extend(more)
        print("\n".join(more), flush=True)

    put(heading(shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]), date))
    rows: list[Row] = []
    for name in wanted:
        for title, found in GROUPS[name](settings):
            rows.extend(found)
            put(section(title, found))
    judged = [row.met for row in rows if row.met is not None]
    put([f"Bars met: {sum(judged)} of {len(judged)}."])
    if options.write:
        path = Path(__file__).parent / "results" / f"{date}-{jax.default_backend()}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        print(f"\nWritten to {path}")


def _choice(options: argparse.Namespace) -> Choice:
    """The kernels' cases asked for."""
    problems, dtypes, sizes, kernels = (
        tuple(part for part in text.split(",") if part)
        for text in (options.case, options.dtype, options.size, options.kernel)
    )
    return Choice(problems, dtypes, tuple(map(int, sizes)), kernels, options.threads)


if __name__ == "__main__":
    main()
