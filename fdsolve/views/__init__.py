"""Views: how a rule reads fields, parameters and coordinates."""

from ._derived import AbstractOperation as AbstractOperation
from ._derived import Derived as Derived
from ._derived import operate as operate
from ._derived import reduce as reduce
from ._derived import stored as stored
from ._memo import Memo as Memo
from ._moved import move as move
from ._offsets import Shift as Shift
from ._offsets import add_shifts as add_shifts
from ._offsets import parse_offsets as parse_offsets
from ._offsets import show_shift as show_shift
from ._view import AbstractContext as AbstractContext
from ._view import AbstractView as AbstractView
from ._view import CoordinateView as CoordinateView
from ._view import FieldView as FieldView
from ._view import ParameterView as ParameterView
from ._view import apply as apply
from ._view import coordinate as coordinate
from ._view import exact_part as exact_part
from ._world import AbstractWorld as AbstractWorld
from ._world import Exact as Exact
