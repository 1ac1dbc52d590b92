"""Derivatives while data arrive: a declaration's step followed by traces."""

from ._stream import Report as Report
from ._stream import Step as Step
from ._stream import Stream as Stream
from ._stream import online as online
