"""Plans: a declaration compiled into an ordered program of pieces."""

from ._order import Parallel as Parallel
from ._order import Stage as Stage
from ._order import Sweep as Sweep
from ._order import make_schedule as make_schedule
from ._order import make_sweep as make_sweep
from ._pieces import Piece as Piece
from ._plan import Plan as Plan
from ._plan import make_plan as make_plan
from ._plan import show_bytes as show_bytes
from ._plan import show_option as show_option
from ._save import AbstractSave as AbstractSave
from ._save import SavePlan as SavePlan
from ._save import at as at
from ._save import every as every
from ._save import final as final
from ._store import Extent as Extent
from ._structure import Array as Array
from ._structure import PhaseStructure as PhaseStructure
from ._structure import Segment as Segment
from ._structure import Structure as Structure
