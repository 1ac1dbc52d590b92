"""C with OpenMP as one writes it by hand: a sweep a step, rows in parallel, vectorised by gcc."""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._cases import Case
from ._marching import Marching
from ._text import Text

COMPILER = "gcc"
FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-fPIC", "-shared", "-std=gnu11")
NUMBERS = {"float32": "float", "float64": "double"}
BLOCK = 16
"""Rows of a plane that are swept through all planes before the next ones, in three dimensions."""

SOURCE = """
typedef {number} number;
#define real(x) ((number)(x))
#define MIN(a, b) ((a) < (b) ? (a) : (b))

static inline void row({row_parameters}) {{
    #pragma omp simd
    for (long j = {reach}; j < n{last} - {reach}; j++) {{
        const long c = {row_start} + j;
{body}
    }}
}}

void march({march_parameters}) {{
    #pragma omp parallel
    for (long s = 0; s < steps; s += 2) {{
{there}
{back}
    }}
}}
"""
SWEEPS = {
    2: """        #pragma omp for schedule(static)
        for (long i0 = {reach}; i0 < n0 - {reach}; i0++)
            row({arguments});""",
    3: """        #pragma omp for schedule(static)
        for (long b = {reach}; b < n1 - {reach}; b += {block})
            for (long i0 = {reach}; i0 < n0 - {reach}; i0++)
                for (long i1 = b; i1 < MIN(b + {block}, n1 - {reach}); i1++)
                    row({arguments});""",
}


class OpenMP(Marching):
    """The compiled march of a case."""

    label = "OpenMP C"

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._march = compile_c(make_source(case)).march
        self._march.restype = None

    def advance(self, steps: int) -> None:
        """Steps in place."""
        arrays = (*self.now, *self.other, *self.coefficients)
        sizes = (ctypes.c_long(n) for n in (steps, *self.case.shape))
        self._march(*sizes, *(ctypes.c_void_p(a.ctypes.data) for a in arrays))


def make_source(case: Case) -> str:
    """The C source of a case: `march(steps, sizes, fields, their other level, coefficients)`.

    Where an equation reads two levels, the new one is written over the older.
    """
    equation = case.equation
    rank, fields, reach = equation.rank, list(equation.fields), equation.reach
    others, coefficients = [f"{f}_other" for f in fields], [f"c{k}" for k in range(equation.num_coefficients)]
    strides = (["n1", "1"], ["n1*n2", "n2", "1"])[rank - 2]
    read = [_reader(name, strides) for name in (*fields, *(others if equation.two_levels else ()), *coefficients)]
    rules = equation.step(*read)
    body = "\n".join(f"        {o}[c] = {rule.source};" for o, rule in zip(others, rules, strict=True))
    indices, sizes = [f"i{k}" for k in range(rank - 1)], [f"n{k}" for k in range(rank)]
    constants = [f"const number *restrict {c}" for c in coefficients]
    row = [f"const long {n}" for n in (*indices, *sizes)] + [f"const number *restrict {f}" for f in fields]
    row += [f"number *restrict {o}" for o in others] + constants
    march = [f"const long {n}" for n in ("steps", *sizes)] + [f"number *{f}" for f in (*fields, *others)] + constants

    def sweep(*names: str) -> str:
        return SWEEPS[rank].format(reach=reach, block=BLOCK, arguments=", ".join((*indices, *sizes, *names)))

    return SOURCE.format(
        number=NUMBERS[case.dtype],
        row_parameters=", ".join(row),
        march_parameters=", ".join(march),
        row_start=("i0*n1", "(i0*n1 + i1)*n2")[rank - 2],
        reach=reach,
        last=rank - 1,
        body=body,
        there=sweep(*fields, *others, *coefficients),
        back=sweep(*others, *fields, *coefficients),
    )


def _reader(name: str, strides: list[str]) -> Callable[..., Text]:
    return lambda *by: Text(f"{name}[c{''.join(f'{k:+d}*{s}' for k, s in zip(by, strides, strict=True) if k)}]")


def compile_c(source: str) -> Any:
    """The shared library of a source."""
    if shutil.which(COMPILER) is None:
        raise ImportError(f"{COMPILER} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path, library = Path(folder, "source.c"), Path(folder, "source.so")
        path.write_text(source)
        subprocess.run([COMPILER, *FLAGS, str(path), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))
