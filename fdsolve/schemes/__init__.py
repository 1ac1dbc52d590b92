"""Schemes: operators on views, finite-difference weights, and steppers for rates."""

from ._operators import derivative as derivative
from ._operators import divergence as divergence
from ._operators import gradient as gradient
from ._operators import laplacian as laplacian
from ._tableau import RK4 as RK4
from ._tableau import AbstractStepper as AbstractStepper
from ._tableau import Euler as Euler
from ._tableau import Heun as Heun
from ._tableau import Tableau as Tableau
from ._weights import weights as weights
