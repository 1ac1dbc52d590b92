"""Solutions: saved states, as arrays and as xarray."""

from ._history import holes_of as holes_of
from ._history import make_histories as make_histories
from ._history import mark_holes as mark_holes
from ._history import mark_shown as mark_shown
from ._logs import Solved as Solved
from ._logs import check_logs as check_logs
from ._names import time_coordinate as time_coordinate
from ._records import Records as Records
from ._sgrid import TOPOLOGY as TOPOLOGY
from ._solution import LastLevel as LastLevel
from ._solution import Solution as Solution
from ._solution import StoredHistory as StoredHistory
