"""What goes wrong inside a rule, told in the terms of the rule."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import extract_tb

import jax

from ..errors import DeclarationError, FdsolveError
from ._one_point import AT_A_POINT

_VIEW_NAMES = (
    "fdsolve.views",
    "FieldView",
    "ParameterView",
    "CoordinateView",
    "Pointwise",
    "Derivative",
    "FluxDivergence",
    "Moved",
)
_FIELD_NAMES = ("'Field'", "'Target'", "fdsolve.field._field.")
_WANTS_AXES = re.compile(
    r"1-dimensional|one dimensional|dimension 0|0-dimensional|0-d array|unsized|number of dimensions|\bndim\b"
    r"|shape \(\)"
)
_TEXT = re.compile(r"Only integer scalar arrays can be converted|concatenate str|'str'|'bytes'|can't concat")
_LABELLED_NAMES = ("'Along'", "'Interpolate'", "'Whole'")
_NOT_CONCRETE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Errors from the evaluation of a rule, with the rule named and the usual causes said; `what` names it."""
    try:
        yield
    except FdsolveError as error:
        if what in str(error):
            raise
        raise type(error)(f"{what}: {error}") from error
    except jax.errors.UnexpectedTracerError as error:
        raise DeclarationError(
            f"{what} uses a view or a value that was kept from another rule; it is no longer known. Read what the rule "
            f"needs through its own arguments."
        ) from error
    except _NOT_CONCRETE as error:
        raise DeclarationError(
            f"{what} needs to know the number of a value that has none before the run: it was used in `if`, `and`, "
            f"`or`, "
            f"`max`, `float`, or a function of `math` or `np`. Use jnp.where(condition, a, b) for `if`, `&` and `|` "
            f"for "
            f"`and` and `or`, and functions and arrays of `jnp`."
        ) from error
    except (TypeError, AttributeError, ValueError, IndexError, ArithmeticError) as error:
        raise DeclarationError(f"{what} {_explanation(error)}") from error
    except Exception as error:
        error.add_note(f"{what} raised this when it was traced.")
        raise


def _explanation(error: Exception) -> str:
    text = str(error)
    short = re.sub(r"<function (\S+) at 0x\w+>", r"`\1`", " ".join(text.split("\n")[0].split()))
    if any(name in text for name in _VIEW_NAMES):
        return (
            f"hands a field to a function that takes values, or treats it as an array. Write `u[...]` for its value at "
            f"the point, or `fd.apply(function, u)` for a quantity that can be differenced. ({short})"
        )
    if any(name in text for name in _FIELD_NAMES):
        return (
            f"uses a Field itself, from outside the rule. Take it by its name as an argument of the rule, lambda v: "
            f'v["t-1"], and give all fields to solve. ({short})'
        )
    if any(name in text for name in _LABELLED_NAMES):
        return (
            f"uses a labelled array from outside the rule. Name it among the rule's arguments, read it there, k[...], "
            f'and give it to solve: k=fd.along(array, "x"). ({short})'
        )
    if "string indexing" in text:
        return (
            f"reads a plain value at an offset; only fields and parameters with axes have neighbours. Label an array "
            f"by "
            f'its axes, fd.along(array, "x"); read a field at all offsets at once, u["t-1", "x-1"]. ({short})'
        )
    failed = f"failed when it was traced: {type(error).__name__}: {short}"
    if _WANTS_AXES.search(text) or (isinstance(error, IndexError) and ".shape" in _last_line(error)):
        return f"{failed.rstrip('.')}. {AT_A_POINT}"
    if isinstance(error, TypeError) and _TEXT.search(text):
        return f'{failed.rstrip(".")}. Text and lists are no numbers: give k=1.0 for k="1", and jnp.array of a list.'
    return failed


def _last_line(error: Exception) -> str:
    """The line of the program that failed."""
    lines = extract_tb(error.__traceback__)
    return (lines[-1].line or "") if lines else ""
