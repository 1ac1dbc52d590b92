"""The same problems for fdsolve and for what else runs them fast: numba, OpenMP C, Devito; and the process of each."""

from ._cases import BARS as BARS
from ._cases import COMPARED as COMPARED
from ._cases import DTYPES as DTYPES
from ._cases import PROBLEMS as PROBLEMS
from ._cases import Case as Case
from ._cases import find_cases as find_cases
from ._team import Missing as Missing
from ._team import Worker as Worker
