"""Every example is short, has a title, and runs to its end in a process of its own."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MAX_LINES = 80


def test_there_are_examples():
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_titled(path):
    source = path.read_text(encoding="utf-8")
    title = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    assert title.strip(), f"{path.name} has no title docstring"
    assert len(source.splitlines()) < MAX_LINES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": python_path, "MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, f"{path.name} ended with {run.returncode}\n{run.stdout}\n{run.stderr}"
