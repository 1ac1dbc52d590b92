"""Regions: which points of which levels a rule is assigned to."""

from ._box import Box as Box
from ._box import merge_boxes as merge_boxes
from ._interpolation import AbstractInterpolation as AbstractInterpolation
from ._interpolation import Linear as Linear
from ._interpolation import Sinc as Sinc
from ._interpolation import check_coordinate as check_coordinate
from ._interpolation import check_inside as check_inside
from ._interpolation import place_window as place_window
from ._interpolation import to_interpolation as to_interpolation
from ._keys import Selection as Selection
from ._layout import Layout as Layout
from ._points import Part as Part
from ._points import Points as Points
from ._points import tighten as tighten
from ._region import AbstractRegion as AbstractRegion
from ._region import Coordinates as Coordinates
from ._region import Index as Index
from ._region import Mask as Mask
from ._region import Place as Place
from ._region import region as region
from ._region import to_region as to_region
from ._region import where as where
from ._signature import signature_of as signature_of
from ._terms import Predicate as Predicate
from ._terms import Term as Term
from ._terms import Terms as Terms
