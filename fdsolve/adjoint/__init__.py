"""Adjoints: how the derivative of a march is computed, and what it costs."""

from ._base import AbstractAdjoint as AbstractAdjoint
from ._base import Step as Step
from ._checkpointed import Checkpointed as Checkpointed
from ._full import Full as Full
from ._reversible import AbstractWayBack as AbstractWayBack
from ._reversible import Reversible as Reversible
from ._forward import Forward as Forward
from ._whole import AbstractWhole as AbstractWhole
from ._whole import Run as Run
from ._whole import pairing as pairing
