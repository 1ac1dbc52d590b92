"""Monitors: what watches a run between two chunks of it, keeps records, and may stop it."""

from ._base import AbstractMonitor as AbstractMonitor
from ._base import Look as Look
from ._base import Watched as Watched
from ._callback import Callback as Callback
from ._changes import Residual as Residual
from ._changes import Steady as Steady
from ._checkpoints import Checkpoints as Checkpoints
from ._conservation import Conservation as Conservation
from ._courant import CFL as CFL
from ._nan import Nan as Nan
from ._probe import Probe as Probe
from ._progress import AbstractProgress as AbstractProgress
from ._progress import make_progress as make_progress
from ._records import Unwatched as Unwatched
from ._records import note_unwatched as note_unwatched
from ._watch import Looking as Looking
from ._watch import Watch as Watch
from ._watch import check_monitors as check_monitors
