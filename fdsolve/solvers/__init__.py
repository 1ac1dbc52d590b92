"""Solvers: linear systems whose rows are stencils, and the nonlinear ones around them."""

from ._base import AbstractLinearSolver as AbstractLinearSolver
from ._base import LinearSystem as LinearSystem
from ._base import Report as Report
from ._base import Side as Side
from ._base import SystemOutline as SystemOutline
from ._matrix import MatrixLayout as MatrixLayout
from ._matrix import StencilMatrix as StencilMatrix
from ._matrix import Vector as Vector
from ._matrix import probe as probe
