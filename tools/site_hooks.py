"""Hooks of mkdocs: the pages of the gallery are made from examples/ and the pictures that are kept of them."""

import logging
from typing import Any

from gallery import index_of, is_fresh, list_examples, page_of, picture_of, read_record  # beside this file
from mkdocs.structure.files import File

log = logging.getLogger("mkdocs.plugins.gallery")


def on_files(files: Any, *, config: Any) -> Any:
    """Adds a page for each example and the list of all; a warning, which ends a strict build, where a picture lacks."""
    examples, record = list_examples(), read_record()
    for example in examples:
        if not picture_of(example).exists():
            log.warning("examples/%s.py has no picture: `make gallery` runs it", example.name)
        elif not is_fresh(example, record):
            log.info("examples/%s.py was changed since its picture was made: `make gallery`", example.name)
        printed = record[example.name].printed if example.name in record else ""
        files.append(File.generated(config, f"gallery/{example.name}.md", content=page_of(example, printed)))
    files.append(File.generated(config, "gallery/index.md", content=index_of(examples)))
    return files
