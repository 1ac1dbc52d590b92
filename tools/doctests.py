"""An extension of griffe: examples in docstrings (`>>> ...`) become blocks of code on the API pages."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?m)^>>> .*(?:\n(?!\s*$).*)*")
"""From a prompt to the next empty line, as doctest reads it."""


class Doctests(griffe.Extension):
    """Puts fences around the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute that was read."""
        if obj.docstring is not None:
            obj.docstring.value = fence(obj.docstring.value)


def fence(docstring: str) -> str:
    """The docstring with ```pycon fences around its examples."""
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", docstring)
