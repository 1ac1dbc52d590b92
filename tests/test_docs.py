"""The documentation: its code runs as it stands, API pages have every public name, the gallery every example."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

from tools.gallery import MOST_BYTES, PICTURES, Entry, Example, index_of, is_fresh, list_examples, page_of, read_record

from .blocks import python_blocks

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GUIDES = sorted((DOCS / "guides").glob("*.md"))
PAGES = [DOCS / "index.md", DOCS / "getting-started.md", *GUIDES]
MAX_LINES = 120
QUICK = {"XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"}
"""Most of the time of small problems is compilation, over half of which this saves."""


def run(command, folder, **environment):
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": python_path, "MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu"} | environment
    command = [sys.executable, "-W", "error::UserWarning", *map(str, command)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def test_getting_started_runs_from_top_to_bottom(tmp_path):
    script = tmp_path / "first.py"
    blocks = python_blocks((DOCS / "getting-started.md").read_text(encoding="utf-8"))
    script.write_text("\n".join(blocks), encoding="utf-8")
    ended = run([script], tmp_path, **QUICK)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / "first.png").exists()


@pytest.mark.parametrize("half", [0, 1], ids=["first", "second"])
def test_the_blocks_of_the_guides_run(half, tmp_path):
    pages = [DOCS / "index.md", *GUIDES][half::2]
    ended = run([ROOT / "tests" / "blocks.py", *pages], tmp_path, **QUICK)
    assert ended.returncode == 0, f"{ended.returncode} blocks failed\n{ended.stdout}\n{ended.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_are_short_and_their_blocks_assert(page):
    text = page.read_text(encoding="utf-8")
    blocks = python_blocks(text)
    if page.name == "getting-started.md":  # one script
        blocks = ["\n".join(blocks)]
    else:
        assert len(text.splitlines()) < MAX_LINES
    assert all("assert" in block for block in blocks), f"a block of {page.name} asserts nothing"


def public_packages():
    """The packages that `fdsolve/__init__.py` re-exports, by their dotted names, and fdsolve itself."""
    tree = ast.parse((ROOT / "fdsolve" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module is None]
    return ["fdsolve", *sorted(f"fdsolve.{alias.name}" for node in imports for alias in node.names)]


def described():
    """The dotted names that the API pages describe."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    return re.findall(r"^::: (\S+)$", pages, flags=re.MULTILINE)


@pytest.mark.parametrize("package", public_packages())
def test_every_public_name_stands_on_an_api_page(package):
    module = resolve_name(package)
    names = [name for name, value in vars(module).items() if not name.startswith("_") and not inspect.ismodule(value)]
    full = {f"{package}.{name}" for name in names}
    # What has the name of the package that it comes from, as `fd.online`, is described there.
    full = {f"{name}.{name.rpartition('.')[2]}" if inspect.ismodule(resolve_name(name)) else name for name in full}
    missing = sorted(full - set(described()))
    assert not missing, f"add `::: {missing[0]}` and so on to a page of docs/api"


def test_what_api_pages_describe_exists_and_stands_there_once():
    names = described()
    assert len(names) == len(set(names))
    assert all(resolve_name(name) is not None for name in names)


def test_the_gallery_has_a_picture_of_every_example_and_no_other():
    examples = {example.name for example in list_examples()}
    pictures = {path.stem for path in PICTURES.glob("*.png")}
    assert pictures == examples == set(read_record()), "`make gallery` runs what has no picture yet"
    too_large = [path.name for path in PICTURES.glob("*.png") if path.stat().st_size > MOST_BYTES]
    assert not too_large


def test_pages_of_the_gallery_show_title_words_picture_and_source():
    source = '"""Waves <in> a box: they bounce.\n\nu_tt = c² u_xx.\n"""\n\nprint(1)\n'
    example = Example("waves", source)
    assert (example.title, example.subtitle) == ("Waves <in> a box", "they bounce")
    page = page_of(example, "1")
    assert (
        "# Waves &lt;in&gt; a box\n\n<p>They bounce.</p>" in page
        and "pictures/waves.png" in page
        and "u_tt = c² u_xx." in page
    )
    assert f"```python\n{source.strip()}\n```" in page
    assert 'href="waves.html"' in index_of([example]) and "Waves &lt;in&gt; a box" in index_of([example])


def test_an_example_is_run_again_only_where_its_source_has_changed():
    demo = next(example for example in list_examples() if example.name == "demo")
    assert is_fresh(demo, {"demo": Entry(demo.digest, "")})
    assert not is_fresh(Example("demo", demo.source + "\n"), {"demo": Entry(demo.digest, "")})
    assert not is_fresh(demo, {})


def test_links_written_as_html_lead_somewhere():
    examples = {f"gallery/{example.name}.html" for example in list_examples()}
    for page in DOCS.rglob("*.md"):
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8")):
            assert link in examples or (page.parent / link).exists(), f"{page.name}: {link}"
