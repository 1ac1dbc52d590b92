"""Solutions: saved states, as arrays and as xarray."""

from ._records import Records as Records
from ._solution import LastLevel as LastLevel
from ._solution import Solution as Solution
