"""Stepping: levels, stages and the march along time."""

from ._assembly import ASSEMBLY as ASSEMBLY
from ._assembly import Unknowns as Unknowns
from ._assembly import check_dense as check_dense
from ._assembly import list_unknowns as list_unknowns
from ._assembly import prepare_operator as prepare_operator
from ._assembly import read_start as read_start
from ._assembly import read_state as read_state
from ._logs import Log as Log
from ._logs import solves_of as solves_of
from ._march import Carry as Carry
from ._march import begin as begin
from ._march import finish as finish
from ._march import hidden_points as hidden_points
from ._march import interiors as interiors
from ._operator import Operator as Operator
from ._operator import as_vectors as as_vectors
from ._operator import find_change as find_change
from ._operator import find_images as find_images
from ._operator import find_matrix as find_matrix
from ._relax import relax_for as relax_for
from ._relax import relax_until as relax_until
