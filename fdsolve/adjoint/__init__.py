"""Adjoints: how the derivative of a march is computed, and what it costs."""

from ._base import AbstractAdjoint as AbstractAdjoint
from ._base import Step as Step
from ._checkpointed import Checkpointed as Checkpointed
from ._full import Full as Full
from ._reversible import AbstractWayBack as AbstractWayBack
from ._reversible import Reversible as Reversible
