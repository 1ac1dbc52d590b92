"""The gallery of the documentation: `python tools/gallery.py [NAME ...]` runs examples and keeps their pictures.

Pictures are kept under docs/gallery/pictures, at most 120 kB each, beside `record.json`, which holds the digest of the
source that made each one and what it printed. Examples whose source has not changed are not run again; named ones are.
The pages themselves are made from examples/ whenever the site is built (tools/site_hooks.py).
"""

import argparse
import ast
import hashlib
import html
import io
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "gallery" / "pictures"
RECORD = PICTURES / "record.json"
MOST_BYTES = 120_000
SIZES = ((1120, 256), (960, 256), (820, 256), (820, 128), (700, 128), (600, 128), (480, 64))
"""Width in pixels and number of colours, tried until a picture is small enough; with few colours, maps have steps."""
WIDE = "---\nhide:\n  - navigation\n  - toc\n---"
"""What leaves a page the whole width: cards, and lines of code as long as they are."""


@dataclass(frozen=True)
class Example:
    """A script of examples/: its name, source, and docstring as a title and paragraphs."""

    name: str
    source: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]

    @property
    def docstring(self) -> str:
        return ast.get_docstring(ast.parse(self.source)) or self.name

    @property
    def title(self) -> str:
        """The first sentence, up to a colon."""
        return self.docstring.partition("\n")[0].partition(":")[0].rstrip(".")

    @property
    def subtitle(self) -> str:
        """What follows the colon of the first line."""
        return self.docstring.partition("\n")[0].partition(":")[2].strip().rstrip(".")

    @property
    def paragraphs(self) -> list[str]:
        """The rest of the docstring."""
        return [part.strip() for part in self.docstring.partition("\n")[2].split("\n\n") if part.strip()]


@dataclass(frozen=True)
class Entry:
    """What is kept of a run: the digest of the source, and what was printed."""

    digest: str
    printed: str


def list_examples(folder: Path = ROOT / "examples") -> list[Example]:
    """The examples: the demonstration first, the others by name."""
    found = [Example(path.stem, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.py"))]
    return sorted(found, key=lambda example: (example.name != "demo", example.name))


def read_record() -> dict[str, Entry]:
    """What is known of earlier runs, by the name of the example."""
    if not RECORD.exists():
        return {}
    return {name: Entry(**entry) for name, entry in json.loads(RECORD.read_text(encoding="utf-8")).items()}


def write_record(record: dict[str, Entry]) -> None:
    """Writes the record anew, sorted, so that changes are easy to read."""
    text = json.dumps({name: asdict(record[name]) for name in sorted(record)}, indent=1, ensure_ascii=False)
    RECORD.write_text(text + "\n", encoding="utf-8")


def is_fresh(example: Example, record: dict[str, Entry]) -> bool:
    """Whether the picture that is kept was made by this very source."""
    entry = record.get(example.name)
    return entry is not None and entry.digest == example.digest and picture_of(example).exists()


def picture_of(example: Example) -> Path:
    """Where the picture of an example is kept."""
    return PICTURES / f"{example.name}.png"


def run(example: Example) -> tuple[bytes, str]:
    """The picture that an example leaves, as it is, and what it prints; RuntimeError where it fails or leaves none."""
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": python_path, "MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "examples" / f"{example.name}.py")]
        ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        if ended.returncode != 0:
            raise RuntimeError(f"examples/{example.name}.py ended with {ended.returncode}\n{ended.stderr}")
        pictures = sorted(Path(folder).rglob("*.png"), key=lambda path: (path.stem != example.name, path.name))
        if not pictures:
            raise RuntimeError(f"examples/{example.name}.py left no picture")
        here = (f"{Path(folder).resolve()}{os.sep}", f"{folder}{os.sep}")
        return pictures[0].read_bytes(), ended.stdout.replace(here[0], "").replace(here[1], "").strip()


def shrink(picture: bytes) -> bytes:
    """The picture as a PNG of few colours, at most `MOST_BYTES` long."""
    from PIL import Image  # comes with matplotlib

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    for width, colours in SIZES:
        size = (min(width, image.width), round(image.height * min(1.0, width / image.width)))
        small = image.resize(size, Image.Resampling.LANCZOS).quantize(colours, kmeans=2, dither=Image.Dither.NONE)
        target = io.BytesIO()
        small.save(target, "PNG", optimize=True)
        if len(target.getvalue()) <= MOST_BYTES:
            break
    return target.getvalue()


def page_of(example: Example, printed: str) -> str:
    """The page of an example: its docstring, its picture, its source, and what it prints."""
    subtitle = [f"{example.subtitle[0].upper()}{example.subtitle[1:]}."] if example.subtitle else []
    told = [f"<p>{html.escape(text)}</p>" for text in (*subtitle, *example.paragraphs)]
    shown = [f"![{html.escape(example.title)}](pictures/{example.name}.png)"]
    said = ["It prints:", f"```text\n{printed}\n```"] if printed else []
    source = [f"```bash\npython examples/{example.name}.py\n```", f"```python\n{example.source.rstrip()}\n```"]
    return (
        "\n\n".join([WIDE, f"# {html.escape(example.title, quote=False)}", *told, *shown, *said, "## Source", *source])
        + "\n"
    )


def card_of(example: Example) -> str:
    """The example in the list of all: a picture and a title, which lead to its page."""
    return (
        f'<a class="example" href="{example.name}.html"><img src="pictures/{example.name}.png" loading="lazy" alt="">'
        f"<strong>{html.escape(example.title)}</strong><span>{html.escape(example.subtitle)}</span></a>"
    )


def index_of(examples: list[Example]) -> str:
    """The list of all examples: those of CFD Python by themselves."""
    lessons = [example for example in examples if example.name.startswith("cfd_")]
    others = [example for example in examples if example not in lessons]
    parts = [
        WIDE,
        "# Gallery",
        "Each example is a script of under 80 lines that asserts its own result against a published or closed-form "
        "value. A picture leads to its source.",
    ]
    for title, group in (("Problems", others), ("CFD Python, lesson by lesson", lessons)):
        cards = "\n".join(map(card_of, group))
        parts += [f"## {title}", f'<div class="examples">\n{cards}\n</div>']
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Runs the examples that are named, or all whose source has changed; the number that failed."""
    parser = argparse.ArgumentParser(description="Runs examples and keeps their pictures for the documentation.")
    parser.add_argument("names", nargs="*", help="examples to run whether they changed or not")
    names = parser.parse_args(arguments).names
    examples, record, failed = list_examples(), read_record(), 0
    unknown = sorted(set(names) - {example.name for example in examples})
    if unknown:
        parser.error(f"no example {', '.join(unknown)}; there are {', '.join(example.name for example in examples)}")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for example in examples:
        if example.name not in names if names else is_fresh(example, record):
            continue
        try:
            picture, printed = run(example)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            failed += 1
            continue
        picture_of(example).write_bytes(shrink(picture))
        record[example.name] = Entry(example.digest, printed)
        write_record(record)
        print(f"{example.name}: {picture_of(example).stat().st_size / 1000:.0f} kB", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
