"""Running in chunks: watched, written to files on the way, kept for a restart, stopped where there is a reason."""

from ._blame import explain_last_level as explain_last_level
from ._blame import explain_not_finite as explain_not_finite
from ._drive import Drive as Drive
from ._drive import Outcome as Outcome
from ._keeper import RUN as RUN
from ._keeper import Keeper as Keeper
from ._keeper import Kept as Kept
from ._keeper import read_newest as read_newest
from ._sinks import AbstractSink as AbstractSink
from ._sinks import Memory as Memory
from ._sinks import Nowhere as Nowhere
from ._sinks import Store as Store
