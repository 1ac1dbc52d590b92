"""Units: quantities of saiunit at the door, and units followed through rules.

saiunit itself is loaded by those who use it, and where a DataArray is in another unit than the field it is for.
"""

from ._follow import SCALE as SCALE
from ._follow import Follower as Follower
from ._follow import NotFollowed as NotFollowed
from ._follow import UnitsDiffer as UnitsDiffer
from ._follow import UnitsNotTaken as UnitsNotTaken
from ._follow import Worth as Worth
from ._follow import same as same
from ._measure import ONE as ONE
from ._measure import Measure as Measure
from ._measure import System as System
from ._quantities import UnitName as UnitName
from ._quantities import in_words as in_words
from ._quantities import is_quantity as is_quantity
from ._quantities import is_unit as is_unit
from ._quantities import magnitude as magnitude
from ._quantities import measure_of as measure_of
from ._quantities import name_of as name_of
from ._quantities import plain as plain
from ._quantities import quantity as quantity
from ._quantities import scaled as scaled
from ._quantities import to_magnitudes as to_magnitudes
from ._quantities import to_name as to_name
from ._quantities import to_unit as to_unit
from ._quantities import with_unit as with_unit
from ._texts import conversion as conversion
from ._texts import measure_different_things as measure_different_things
from ._texts import rescaled as rescaled
from ._texts import same_text as same_text
from ._texts import units_of as units_of
