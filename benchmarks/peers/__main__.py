"""The process of one contestant: `python -m benchmarks.peers NAME CASE`, driven over its pipes by `_team.Worker`.

Each line of input is a JSON list, `["answer", label, path]`, `["run", label]` or `["memory", label]`; each line of
output a JSON object.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ._cases import Case
from ._memory import bytes_taken

Maker = Callable[[Case, list[str], dict[str, str]], list[Any]]


def _fdsolve(case: Case, kernels: list[str], refused: dict[str, str]) -> list[Any]:
    import jax

    jax.config.update("jax_enable_x64", case.dtype == "float64")
    from fdsolve.errors import FdsolveError

    from ._ours import Ours

    found = []
    for kernel in kernels:
        try:
            alone = not found
            found.append(Ours(case, kernel, jitted=True))
            if alone:
                found.append(Ours(case, kernel, jitted=False))
        except FdsolveError as error:
            refused[kernel] = str(error)
    return found


def _numba(case: Case, *_: Any) -> list[Any]:
    from ._numba import Numba

    return [Numba(case)]


def _openmp(case: Case, *_: Any) -> list[Any]:
    from ._openmp import OpenMP

    return [OpenMP(case)]


def _devito(case: Case, *_: Any) -> list[Any]:
    from ._devito import Devito

    return [Devito(case)]


def _gradient(case: Case, adjoints: list[str], *_: Any) -> list[Any]:
    from ._gradients import make_ours

    return [make_ours(case, adjoint) for adjoint in adjoints]


def _gradient_by_hand(case: Case, *_: Any) -> list[Any]:
    from ._gradients import make_by_hand

    return [make_by_hand(case)]


def _gradient_devito(case: Case, *_: Any) -> list[Any]:
    from ._devito_gradient import DevitoGradient

    return [DevitoGradient(case)]


def _other(package: str) -> Maker:
    def make(case: Case, *_: Any) -> list[Any]:
        from ._others import make_other

        return [make_other(package, case)]

    return make


def _stream(case: Case, *_: Any) -> list[Any]:
    from .._stream import Copy

    del case
    return [Copy()]


MAKERS: dict[str, Maker] = {
    "fdsolve": _fdsolve,
    "numba": _numba,
    "openmp": _openmp,
    "devito": _devito,
    "kernex": _other("kernex"),
    "py-pde": _other("pde"),
    "findiff": _other("findiff"),
    "stream": _stream,
    "gradient": _gradient,
    "gradient by hand": _gradient_by_hand,
    "gradient devito": _gradient_devito,
}


def main() -> None:
    """Makes the contestants and serves requests until the input ends."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to standard error

    def reply(**what: Any) -> None:
        print(json.dumps(what), file=replies, flush=True)

    name, given, kernels = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    refused: dict[str, str] = {}
    start = time.perf_counter()
    try:
        contestants = {one.label: one for one in MAKERS[name](Case(**given), kernels, refused)}
    except ImportError as error:
        reply(missing=str(error))
        return
    reply(labels=list(contestants), refused=refused, seconds=time.perf_counter() - start)
    for line in sys.stdin:
        request, label, *rest = json.loads(line)
        start = time.perf_counter()
        if request == "run":
            contestants[label].run()
            reply(seconds=time.perf_counter() - start)
        elif request == "memory":
            taken = bytes_taken(contestants[label].run)
            reply(taken=taken, temporary=contestants[label].temporary)
        else:
            np.save(rest[0], np.stack([np.asarray(array) for array in contestants[label].answer()]))
            reply(seconds=time.perf_counter() - start)


if __name__ == "__main__":
    main()
