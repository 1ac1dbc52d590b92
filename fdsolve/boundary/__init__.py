"""Boundary conditions: values on the wall, ghost values for the rule below, layers inside the wall."""

from ..field import normal as normal
from ._conditions import Dirichlet as Dirichlet
from ._conditions import Neumann as Neumann
from ._conditions import Robin as Robin
from ._curvature import Curvature as Curvature
from ._mirrors import AntiPeriodic as AntiPeriodic
from ._mirrors import Antisymmetric as Antisymmetric
from ._mirrors import Periodic as Periodic
from ._mirrors import Symmetric as Symmetric
from ._outflow import Extrapolate as Extrapolate
from ._outflow import Orlanski as Orlanski
from ._outflow import Outflow as Outflow
from ._pml import PML as PML
from ._sponge import Sponge as Sponge
