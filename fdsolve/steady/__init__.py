"""Steady states: smoothing towards them, modes about them, and their stability."""

from ._modes import Modes as Modes
from ._modes import modes as modes
from ._modes import stability as stability
from ._relax import relax as relax
