"""Boundary conditions: values on the wall, or ghost values for the rule below."""

from ._conditions import Dirichlet as Dirichlet
from ._conditions import Neumann as Neumann
from ._conditions import Robin as Robin
