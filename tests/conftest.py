"""For every test: no window opens, 64-bit floats, strict dtypes, checked shapes, repeatable random input."""

import gc
import os
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"  # also for the subprocesses that tests start

# Most of the time of these tests is compilation: half of it is saved by compiling without optimisation, up to a third
# of the rest by generating the code of a program in one piece instead of up to 32, and in jaxlib 0.10 a quarter of what
# is left by its older emitters (newer ones stop at the flag). The flags are taken back once read, so that scripts which
# tests start (examples, the README) run as users run them.
given_flags = os.environ.get("XLA_FLAGS")
flags = [given_flags or "", "--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
if version("jaxlib").startswith("0.10."):
    flags.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join(flags).strip()

# Measured choices and machine code of tests are kept among themselves.
os.environ.setdefault("FDSOLVE_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"fdsolve-tests-{os.getuid()}"))

import beartype
import beartype.claw
import hypothesis
import jax
import jaxtyping
import pytest

jax.devices()
if given_flags is None:
    del os.environ["XLA_FLAGS"]
else:
    os.environ["XLA_FLAGS"] = given_flags

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Must come before the first import of fdsolve: only modules imported after these lines are checked. jaxtyping binds the
# arguments of every call anew, which takes several times what planning and tracing take by themselves: it checks where
# its annotations stand, and beartype alone checks the rest. Innermost, so that `defjvp` and the like stay within reach.
SHAPED = ("fdsolve.grid", "fdsolve.schemes._sbp", "fdsolve.schemes._weights")
beartype.claw.beartype_package(
    "fdsolve",
    conf=beartype.BeartypeConf(claw_is_pep526=False, claw_decor_place_func=beartype.BeartypeDecorPlace.FIRST),
)
jaxtyping.install_import_hook(SHAPED, "beartype.beartype")

hypothesis.settings.register_profile("fdsolve", deadline=None, derandomize=True, max_examples=25, print_blob=True)
hypothesis.settings.load_profile("fdsolve")

SLOW = (
    "tests/adjoint/",
    "tests/analysis/",
    "tests/boundary/",
    "tests/inverse/",
    "tests/kernels/test_conv",
    "tests/kernels/test_domains",
    "tests/kernels/test_fft.py",
    "tests/kernels/test_gemm.py",
    "tests/kernels/test_native_abreast.py",
    "tests/kernels/test_native_absorbing.py",
    "tests/kernels/test_native_adjoints.py",
    "tests/kernels/test_native_fold.py",
    "tests/kernels/test_native_layers.py",
    "tests/kernels/test_native_nested.py",
    "tests/kernels/test_native_shots.py",
    "tests/kernels/test_native_single.py",
    "tests/kernels/test_native_transforms.py",
    "tests/kernels/test_pallas",
    "tests/kernels/test_powers.py",
    "tests/kernels/test_skew.py",
    "tests/kernels/test_stencil_kernels.py",
    "tests/online/",
    "tests/orders/",
    "tests/residuals/",
    "tests/schemes/",
    "tests/solvers/",
    "tests/stepping/test_implicit",
    "tests/stepping/test_receivers",
    "tests/stepping/test_steppers",
    "tests/test_benchmark_peers.py",
    "tests/test_docs.py",
    "tests/test_properties",
    "tests/units/",
    "tests/windows/test_windows_property.py",
)
"""Where long measurements are, or parts that examples and the catalogue run too: `-m "not slow"` leaves them out."""


@pytest.fixture(autouse=True, scope="module")
def forget_programs() -> Iterator[None]:
    """Compiled programs go with the module that made them.

    Each takes some memory mappings; a process may hold only so many (65530 on Linux), and crashes beyond.
    """
    yield
    jax.clear_caches()
    gc.collect()


def pytest_collection_finish() -> None:
    """What is imported by now stays: looking through it for garbage again and again takes a twelfth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the long measurements."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
