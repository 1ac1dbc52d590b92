"""Small tables for notebooks: escaped, foldable, without scripts, in the colours of the page around them."""

from collections.abc import Iterable, Sequence
from html import escape

_WRAP = "font-family: ui-sans-serif, system-ui, sans-serif; font-size: 0.92em; line-height: 1.45; color: inherit;"
_CELL = "padding: 0.15em 0.9em 0.15em 0; text-align: left; vertical-align: top; border: none; color: inherit;"
_HEAD = _CELL + " font-weight: 600; border-bottom: 1px solid rgba(128, 128, 128, 0.5);"
_CODE = "font-family: ui-monospace, monospace; font-size: 0.92em; background: none; color: inherit;"
_QUIET = "opacity: 0.7;"


class Html(str):
    """Markup that is finished: what is not of this type is escaped."""

    __slots__ = ()


def text(value: object) -> Html:
    """A value as text in HTML."""
    return value if isinstance(value, Html) else Html(escape(str(value), quote=True))


def code(value: object) -> Html:
    """A value in a fixed-width face."""
    return Html(f'<code style="{_CODE}">{text(value)}</code>')


def quiet(value: object) -> Html:
    """A value that stands back."""
    return Html(f'<span style="{_QUIET}">{text(value)}</span>')


def table(rows: Iterable[Sequence[object]], head: Sequence[object] | None = None) -> Html:
    """Rows of cells, with a head or without; no cell is wider than the page."""
    parts = []
    if head is not None:
        cells = "".join(f'<th style="{_HEAD}">{text(cell)}</th>' for cell in head)
        parts.append(f'<tr style="background: none;">{cells}</tr>')
    for row in rows:
        cells = "".join(f'<td style="{_CELL}{_whole(cell)}">{text(cell)}</td>' for cell in row)
        parts.append(f'<tr style="background: none;">{cells}</tr>')
    style = "border-collapse: collapse; border: none; margin: 0.2em 0 0.4em 0; font: inherit; color: inherit;"
    style += " background: none;"
    return Html(f'<div style="overflow-x: auto;"><table style="{style}">{"".join(parts)}</table></div>')


def _whole(cell: object) -> str:
    """Keeps short texts, such as ranges and shapes, on one line."""
    return " white-space: nowrap;" if not isinstance(cell, Html) and len(str(cell)) < 24 else ""


def details(summary: object, body: object, *, is_open: bool = False) -> Html:
    """A line that unfolds into more."""
    opened = " open" if is_open else ""
    return Html(
        f'<details{opened} style="margin: 0.1em 0;"><summary style="cursor: pointer;">{text(summary)}</summary>'
        f'<div style="margin: 0.2em 0 0.4em 1.2em;">{text(body)}</div></details>'
    )


def block(value: object) -> Html:
    """Text of several lines, as it stands."""
    style = _CODE + " white-space: pre; overflow-x: auto; margin: 0; padding: 0; border: none;"
    return Html(f'<pre style="{style}">{text(value)}</pre>')


def page(title: object, *parts: object) -> Html:
    """What an object shows of itself: a title and what belongs to it."""
    body = "".join(text(part) for part in parts)
    return Html(f'<div style="{_WRAP}"><div style="font-weight: 600;">{text(title)}</div>{body}</div>')
