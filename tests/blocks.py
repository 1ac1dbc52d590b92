"""The ```python blocks of a page, and running each as a script of its own: `python tests/blocks.py PAGE ...`."""

import sys
import traceback
from pathlib import Path


def python_blocks(markdown: str) -> list[str]:
    """Each ```python block, with empty lines before it so that line numbers stay those of the page."""
    blocks, inside, lines = [], False, []
    for number, line in enumerate(markdown.splitlines(), start=1):
        if line.startswith("```"):
            if inside:
                blocks.append("\n".join(lines) + "\n")
            inside = not inside and line.strip() == "```python"
            lines = [""] * number
        elif inside:
            lines.append(line)
    return blocks


def run_page(path: Path) -> int:
    """Runs every block in a namespace of its own, with JAX as a new process finds it; the number that failed."""
    import jax
    from matplotlib import pyplot

    failed = 0
    for block in python_blocks(path.read_text(encoding="utf-8")):
        jax.config.update("jax_enable_x64", False)
        try:
            exec(compile(block, str(path), "exec"), {"__name__": "__main__"})
        except Exception:
            traceback.print_exc()
            failed += 1
        pyplot.close("all")
    return failed


if __name__ == "__main__":
    sys.exit(sum(run_page(Path(page)) for page in sys.argv[1:]))
