"""Adjoints: how the derivative of a march is computed, and what it costs."""

from ._base import AbstractAdjoint as AbstractAdjoint
from ._checkpointed import Checkpointed as Checkpointed
from ._full import Full as Full
