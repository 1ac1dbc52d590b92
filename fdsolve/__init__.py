"""fdsolve: finite-difference solutions of partial differential equations, region by region, on JAX."""

from . import boundary as boundary
from . import kernels as kernels
from . import schemes as schemes
from . import solvers as solvers
from ._solve import plan as plan
from ._solve import solve as solve
from .analysis import Analysis as Analysis
from .analysis import Manufactured as Manufactured
from .analysis import analyse as analyse
from .analysis import manufactured as manufactured
from .errors import DeclarationError as DeclarationError
from .errors import FdsolveError as FdsolveError
from .errors import FdsolveWarning as FdsolveWarning
from .errors import PlanningError as PlanningError
from .errors import RunError as RunError
from .field import Field as Field
from .field import along as along
from .field import interpolate as interpolate
from .field import point as point
from .field import rate as rate
from .field import residual as residual
from .field import together as together
from .field import whole as whole
from .grid import Axis as Axis
from .grid import Grid as Grid
from .grid import Time as Time
from .planning import Plan as Plan
from .planning import at as at
from .planning import every as every
from .planning import final as final
from .planning import receivers as receivers
from .region import Sinc as Sinc
from .region import region as region
from .region import where as where
from .schemes import CFL as CFL
from .solution import Solution as Solution
from .views import apply as apply
from .views import coordinate as coordinate
from .views import reduce as reduce
from .views import stored as stored
from .windows import kmap as kmap
from .windows import kscan as kscan
from .windows import smap as smap
from .windows import sscan as sscan

__version__ = "0.1.0"
