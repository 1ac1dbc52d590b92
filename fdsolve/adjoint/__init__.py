"""Adjoints: how the derivative of a march is computed, and what it costs."""

from . import traces as traces
from ._base import AbstractAdjoint as AbstractAdjoint
from ._base import AbstractRepeated as AbstractRepeated
from ._base import Quick as Quick
from ._base import Rooms as Rooms
from ._base import Step as Step
from ._base import show_jump as show_jump
from ._base import show_needs as show_needs
from ._checkpointed import Checkpointed as Checkpointed
from ._fitted import fit_adjoint as fit_adjoint
from ._forward import Forward as Forward
from ._full import Full as Full
from ._online import Online as Online
from ._online import check_window as check_window
from ._online import make_method as make_method
from ._online import warn_if_inexact as warn_if_inexact
from ._outside import Disk as Disk
from ._outside import Host as Host
from ._peak import count_bytes as count_bytes
from ._reversible import AbstractWayBack as AbstractWayBack
from ._reversible import Reversible as Reversible
from ._storage import AbstractStorage as AbstractStorage
from ._whole import AbstractWhole as AbstractWhole
from ._whole import Run as Run
from ._whole import forward_derivatives as forward_derivatives
from ._whole import pairing as pairing
