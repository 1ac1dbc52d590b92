"""`python -m benchmarks.gpu [--write]`: marches on a GPU, the generated kernel against XLA's fused slices.

Whole marches with their walls, answers compared first; billions of points a second, and the share of the memory bound,
for which a copy on the device is timed beside each problem. `--interpret` tries everything out on a CPU, on tiny grids;
its times mean nothing.
"""

import argparse
import datetime
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fdsolve as fd
from fdsolve.kernels import Arrays, MarchCall, pallas

from ._table import heading
from ._timing import interleave

WEIGHTS = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)


@dataclass(frozen=True)
class Problem:
    """A problem: its name, fields and parameters by points an axis and dtype, and what is asked of it on an H200.

    `transfers` counts the entries of arrays that a point must read or write at each level; `bars` are billions of
    points a second, by dtype; `levels` those that are tried a launch.
    """

    name: str
    make: Callable[[int, Any], tuple[Any, dict[str, Any]]]
    rank: int
    num: int
    transfers: int
    bars: dict[str, float]
    levels: tuple[int, ...]


def _heat(rank: int) -> Callable[[int, Any], tuple[Any, dict[str, Any]]]:
    def make(num: int, dtype: Any) -> tuple[Any, dict[str, Any]]:
        names = "xyz"[:rank]
        grid = fd.Grid(t=fd.Time(0.0, 1.0, num=1025), **{name: fd.Axis(0.0, 1.0, num=num) for name in names})
        u = fd.Field("u", grid, dtype=dtype)

        def diffuse(u: Any, k: Any) -> Any:
            around = sum((u["t-1", f"{a}-1"] + u["t-1", f"{a}+1"] for a in names), -2 * rank * u["t-1"])
            return u["t-1"] + k * around

        u[...] = diffuse
        u[0] = 1.0
        u[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.5)
        u[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
        if rank == 3:
            u[dict(z=[0, -1])] = fd.boundary.Dirichlet(0.0)
        return u, dict(k=dtype(0.1))

    return make


def _acoustic(rank: int) -> Callable[[int, Any], tuple[Any, dict[str, Any]]]:
    def make(num: int, dtype: Any) -> tuple[Any, dict[str, Any]]:
        names = "xyz"[:rank]
        grid = fd.Grid(t=fd.Time(0.0, 1.0, num=1025), **{name: fd.Axis(0.0, 1.0, num=num) for name in names})
        u = fd.Field("u", grid, dtype=dtype)

        def ring(u: Any, c: Any) -> Any:
            total = rank * WEIGHTS[0] * u["t-1"]
            for m, weight in enumerate(WEIGHTS[1:], 1):
                for a in names:
                    total = total + weight * (u["t-1", f"{a}-{m}"] + u["t-1", f"{a}+{m}"])
            return 2 * u["t-1"] - u["t-2"] + c * total

        u[...] = 0.0
        u[(slice(None), *(slice(4, -4),) * rank)] = ring
        u[0] = u[1] = 1.0
        return u, dict(c=dtype(0.1))

    return make


PROBLEMS = (
    Problem("heat, 2-D", _heat(2), 2, 8192, 2, {"float32": 350, "float64": 180}, (1, 2, 3)),
    Problem("heat, 3-D", _heat(3), 3, 512, 2, {"float32": 350, "float64": 180}, (1, 2)),
    Problem("acoustic, order 8, 2-D", _acoustic(2), 2, 8192, 3, {}, (1,)),
    Problem("acoustic, order 8, 3-D", _acoustic(3), 3, 512, 3, {"float32": 110}, (1,)),
)
TINY = {2: (16, (8, 16)), 3: (10, (4, 4, 8))}
GAIN = 1.5
"""By how much several levels a launch must be faster than one, in two dimensions."""


@dataclass(frozen=True)
class Case:
    """A problem on one grid in one precision, made ready: the march, its arrays, and levels to start from."""

    call: MarchCall
    arrays: Arrays
    levels: dict[str, tuple[jax.Array, ...]]
    start: int

    def compiled(self, march: Callable[..., Any]) -> tuple[Callable[[], Any], str]:
        """The march as a compiled call without arguments, and the program XLA made of it."""
        leaves, tree = jax.tree.flatten((self.arrays, self.levels))
        run = jax.jit(lambda *given: march(self.call, *tree.unflatten(given), self.start))
        ready = run.lower(*leaves).compile()
        return lambda: ready(*leaves), ready.as_text()


def prepare(problem: Problem, num: int, dtype: Any, steps: int) -> Case:
    """Plans a problem; what its levels hold at first is random."""
    fields, parameters = problem.make(num, dtype)
    made = fd.plan(fields, save=fd.final(), **parameters)
    structure, last = made.structure, made.structure.segments[-1]
    keys = iter(jax.random.split(jax.random.key(0), 16))
    levels = {
        one.name: tuple(jax.random.uniform(next(keys), one.padded_shape, one.dtype) for _ in range(max(one.kept, 1)))
        for one in structure.carried
    }
    axes = made.problem.scope.grid.space
    call = MarchCall(structure, structure.phases[last.phases[-1]], axes, steps, "gpu")
    return Case(call, Arrays(**made.operands), levels, last.start)


def difference(found: Any, wanted: Any) -> float:
    """The largest difference of two states, as a share of the largest value."""
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True))
    size = max(float(jnp.abs(b).max()) for _, b in pairs)
    return max(float(jnp.abs(a - b).max()) for a, b in pairs) / size


def copies(text: str) -> str:
    """How many copies and concatenations of arrays a compiled program holds."""
    found = {name: len(re.findall(rf" {name}(?:-start)?\(", text)) for name in ("copy", "concatenate")}
    return ", ".join(f"{number} × `{name}`" for name, number in found.items())


def copy_call(entries: int) -> tuple[Callable[[], Any], int]:
    """A copy on the device, and the bytes it moves."""
    repeats, array = 16, jnp.ones(entries, jnp.float32)
    scale = jax.jit(lambda x: jax.lax.fori_loop(0, repeats, lambda _, y: y * jnp.float32(1.0001), x))
    return lambda: scale(array), 2 * repeats * array.nbytes


def contestants(problem: Problem, options: argparse.Namespace) -> dict[str, Callable[..., Any]]:
    """The marches to compare, the slices first."""
    found: dict[str, Callable[..., Any]] = {"slices (XLA)": fd.kernels.get("march", "slices")}
    tiles = [TINY[problem.rank][1]] if options.interpret else [None, *_tiles(options.tiles, problem.rank)]
    for road in options.roads.split(","):
        for levels in problem.levels:
            for tile in tiles:
                for scattered in (True,) if options.interpret else (True, False):
                    made = pallas.Options(levels, tile, 4, options.interpret, road, scattered)
                    name = f"pallas/{road}, {levels} a launch" + (f", tile {tile}" if tile else "")
                    name += "" if scattered else ", aligned loads"
                    found[name] = lambda *a, made=made: pallas.march(*a, options=made)
    return found


def _tiles(text: str, rank: int) -> list[tuple[int, ...]]:
    tiles = [tuple(int(n) for n in tile.split("x")) for tile in text.split(",") if tile]
    return [tile for tile in tiles if len(tile) == rank]


def measure(problem: Problem, dtype: Any, options: argparse.Namespace) -> list[str]:
    """The table of one problem in one precision."""
    num = TINY[problem.rank][0] if options.interpret else problem.num
    steps = 6 if options.interpret else 48
    case = prepare(problem, num, dtype, steps)
    ready: dict[str, Callable[[], Any]] = {}
    failed: dict[str, str] = {}
    held: list[str] = []
    wanted = None
    for name, march in contestants(problem, options).items():
        try:
            call, text = case.compiled(march)
            held.append(copies(text))
            found = jax.block_until_ready(call())
        except Exception as error:  # one that does not compile is a line of the table
            failed[name] = f"does not run: {type(error).__name__}: {str(error).splitlines()[0][:160]}"
            continue
        wanted = found if wanted is None else wanted
        off = difference(found, wanted)
        if off > steps * 16 * np.finfo(dtype).eps:
            failed[name] = f"wrong by {off:.1e} of the largest value: not timed"
        else:
            ready[name] = call
    copy, moved = copy_call(2**12 if options.interpret else 2**28)
    samples = interleave([copy, *ready.values()], budget=0.02 if options.interpret else 4.0, least=3)
    rates = {name: num**problem.rank * steps / samples.median(i) / 1e9 for i, name in enumerate(ready, 1)}
    speed = moved / samples.median(0) / 1e9
    bound = speed / problem.transfers / np.dtype(dtype).itemsize
    return _show(problem, np.dtype(dtype).name, num, rates, failed, bound, speed, held[0])


def _show(
    problem: Problem,
    dtype: str,
    num: int,
    rates: dict[str, float],
    failed: dict[str, str],
    bound: float,
    speed: float,
    held: str,
) -> list[str]:
    lines = [
        f"## {problem.name}, {num}{'²³'[problem.rank - 2]}, {dtype}",
        "",
        f"Copy on the device {speed:.4g} GB/s: bound {bound:.4g} billion points a second for one read and one write of "
        f"each array a level. XLA's program of the slices holds {held}.",
        "",
        "| march | billion points a second | of the slices | of the bound | bar |",
        "|---|---|---|---|---|",
    ]
    slices = rates.get("slices (XLA)", float("nan"))
    single = max((rate for name, rate in rates.items() if ", 1 a launch" in name), default=float("nan"))
    for name, rate in rates.items():
        asked = problem.bars.get(dtype)
        if name.startswith("slices"):
            asked = None
        elif problem.rank == 2 and "a launch" in name and ", 1 a launch" not in name:
            asked = GAIN * single
        bar = "–" if asked is None else f"≥ {asked:.4g}: {'yes' if rate >= asked else '**no**'}"
        lines.append(f"| {name} | {rate:.4g} | {rate / slices:.3g} | {rate / bound:.3g} | {bar} |")
    lines += [f"| {name} | {why} | – | – | – |" for name, why in failed.items()]
    return [*lines, ""]


def main(arguments: list[str] | None = None) -> None:
    """Runs what is asked for and prints the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables to benchmarks/results/")
    parser.add_argument("--interpret", action="store_true", help="on any device, tiny, in interpret mode")
    parser.add_argument("--only", default="", help="problems whose name holds this")
    parser.add_argument("--dtypes", default="float32,float64", help="precisions, by commas")
    parser.add_argument("--roads", default="triton,mosaic", help="compilers to try: " + ", ".join(pallas.ROADS))
    parser.add_argument("--tiles", default="2x256,8x128,2x8x64,1x8x128", help="further tiles to try, by commas")
    options = parser.parse_args(arguments)
    if options.interpret:
        options.roads = pallas.ROADS[0]
    elif fd.kernels.detect_platform() != "gpu":
        parser.error("there is no GPU here; --interpret tries the kernel out without one")
    jax.config.update("jax_enable_x64", True)
    lines: list[str] = []
    command = shlex.join(["python", "-m", "benchmarks.gpu", *(sys.argv[1:] if arguments is None else arguments)])
    date = datetime.date.today().isoformat()
    for more in _parts(command, date, options):
        lines.extend(more)
        print("\n".join(more), flush=True)
    if options.write:
        path = Path(__file__).parent / "results" / f"{date}-gpu-kernels{'-interpreted' if options.interpret else ''}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        print(f"Written to {path}")


def _parts(command: str, date: str, options: argparse.Namespace) -> Any:
    yield [line for line in heading(command, date) if "float32. Times" not in line]
    for problem in PROBLEMS:
        if options.only in problem.name:
            for dtype in options.dtypes.split(","):
                yield measure(problem, np.dtype(dtype).type, options)


if __name__ == "__main__":
    main()
