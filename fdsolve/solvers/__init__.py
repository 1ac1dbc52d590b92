"""Solvers: linear systems whose rows are stencils, and the nonlinear ones around them."""

from ._band import tridiagonal as tridiagonal
from ._banded import Banded as Banded
from ._base import HISTORY as HISTORY
from ._base import AbstractLinearSolver as AbstractLinearSolver
from ._base import LinearSystem as LinearSystem
from ._base import Report as Report
from ._base import Side as Side
from ._base import SystemOutline as SystemOutline
from ._choose import Choice as Choice
from ._choose import choose as choose
from ._dense import Dense as Dense
from ._direct import Direct as Direct
from ._matrix import MatrixLayout as MatrixLayout
from ._matrix import StencilMatrix as StencilMatrix
from ._matrix import Vector as Vector
from ._matrix import probe as probe
from ._nonlinear import AbstractNonlinearSolver as AbstractNonlinearSolver
from ._nonlinear import Newton as Newton
from ._nonlinear import Picard as Picard
from ._transform import Transform as Transform
