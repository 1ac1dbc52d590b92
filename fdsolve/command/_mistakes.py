"""Mistakes that a user can mend: told in a few lines, without a traceback."""

import traceback
from pathlib import Path


class UsageError(Exception):
    """Wrong arguments, or a problem file that does not fit: the command ends with 2."""


class FailedError(Exception):
    """A run that failed: the command ends with 1."""


def where_in(path: Path, error: BaseException) -> str:
    """ "heat.py, line 12: u[...] = heat", the last line of a file that led to an error; the file alone if none did."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{path.name}, line {error.lineno}: {(error.text or '').strip()}"
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == str(path)]
    if not frames:
        return path.name
    return f"{path.name}, line {frames[-1].lineno}: {frames[-1].line}"


def told(error: BaseException) -> str:
    """The kind of an error and its message; of ours, the message alone."""
    kind = type(error).__name__
    message = getattr(error, "msg", None) or str(error)
    return f"{kind}: {message}" if message else kind
