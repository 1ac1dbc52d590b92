"""The messages are those that users see: the same without the type checks that the test session installs."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import fdsolve as fd

from . import (
    test_messages_arrays,
    test_messages_calls,
    test_messages_problems,
    test_messages_regions,
    test_messages_rules,
)

CATALOGUES = (
    test_messages_regions,
    test_messages_rules,
    test_messages_arrays,
    test_messages_problems,
    test_messages_calls,
)

ALONE = """
import jax
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
from tests.test_messages import CATALOGUES
for catalogue in CATALOGUES:
    for name, case in catalogue.CASES.items():
        try:
            case.check()
        except BaseException as error:
            raise SystemExit(f"{catalogue.__name__}, {name}: {type(error).__name__}: {error}")
print("all the same")
"""


def test_the_messages_do_not_depend_on_type_checks() -> None:
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE], cwd=root, env=environment, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout.strip()) == (0, "all the same"), run.stderr[-2000:]


def test_names_that_messages_and_docstrings_tell_exist() -> None:
    unknown = []
    for path in sorted(Path(fd.__file__).parent.rglob("*.py")):
        for name in re.findall(r"\bfd((?:\.[A-Za-z_]\w*)+)", path.read_text()):
            found: Any = fd
            for part in name.split(".")[1:]:
                if isinstance(found, type):  # a field of one of its instances
                    break
                found = getattr(found, part, None)
            if found is None:
                unknown.append(f"{path.name}: fd{name}")
    assert not unknown
