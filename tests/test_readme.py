"""The Python blocks of the README run, in order and in one namespace, as one script of a reader would."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"


def python_blocks(markdown: str) -> str:
    """The text with all but the ```python blocks emptied, so that line numbers stay those of the page."""
    lines, inside = [], False
    for line in markdown.splitlines():
        fence = line.startswith("```")
        lines.append(line if inside and not fence else "")
        if fence:
            inside = line.strip() == "```python"
    return "\n".join(lines) + "\n"


def test_python_blocks_keeps_only_python_and_its_line_numbers():
    page = "text\n```python\na = 1\n```\n```bash\nmake\n```\n```python\nb = a\n```\n"
    assert python_blocks(page) == "\n\na = 1\n\n\n\n\n\nb = a\n\n"


def test_readme_runs(tmp_path):
    script = tmp_path / "README.py"
    script.write_text(python_blocks(README.read_text(encoding="utf-8")), encoding="utf-8")
    assert "fdsolve" in script.read_text(encoding="utf-8")
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": python_path, "MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, script.name], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, f"README.md ended with {run.returncode}\n{run.stdout}\n{run.stderr}"
