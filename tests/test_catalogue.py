"""The catalogue: the example of every entry runs as it stands, and no public scheme or condition is missing."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fdsolve as fd

from .blocks import python_blocks

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs" / "catalogue").glob("*.md"))


@pytest.mark.parametrize("page", [p for p in PAGES if p.stem != "README"], ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page, tmp_path):
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    assert blocks, f"{page.name} has no example"
    assert all("assert" in block for block in blocks), f"an example of {page.name} asserts nothing"
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": python_path, "MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error::UserWarning", str(ROOT / "tests" / "blocks.py"), str(page)]
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, f"{run.returncode} examples of {page.name} failed\n{run.stdout}\n{run.stderr}"


def public_names(module):
    return [name for name, value in vars(module).items() if not name.startswith("_") and not inspect.ismodule(value)]


def code_of(page):
    """What stands in code spans and blocks of a page."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", page.read_text(encoding="utf-8"), flags=re.DOTALL))


@pytest.mark.parametrize("module", [fd.schemes, fd.boundary], ids=["schemes", "boundary"])
def test_every_public_name_is_in_the_catalogue(module):
    pages = "\n".join(map(code_of, PAGES))
    missing = [name for name in public_names(module) if not re.search(rf"\b{re.escape(name)}\b", pages)]
    assert not missing


def test_blocks_keep_the_line_numbers_of_the_page():
    page = "text\n```python\na = 1\n```\n```bash\nmake\n```\n```python\nb = 2\n```\n"
    assert python_blocks(page) == ["\n\na = 1\n", "\n" * 8 + "b = 2\n"]


def test_the_list_of_pages_names_them_all():
    listed = (ROOT / "docs" / "catalogue" / "README.md").read_text(encoding="utf-8")
    assert not [page.name for page in PAGES if page.stem != "README" and f"({page.name})" not in listed]
