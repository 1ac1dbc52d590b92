"""The custom call for arrays to be filled, made known to XLA."""

from llvmlite import ir

from ._code import text_of
from ._handler import write_page_handler
from ._objects import register_target


def register_pages() -> str:
    """The name of the call."""
    module = ir.Module("fdsolve_pages")
    name = write_page_handler(module)
    return register_target(text_of(module), name)
