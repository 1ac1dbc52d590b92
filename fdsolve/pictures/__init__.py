"""Pictures: matplotlib figures from Datasets and plain data, and small tables for notebooks."""

from ._convergence import convergence as convergence
from ._html import Html as Html
from ._html import block as block
from ._html import code as code
from ._html import details as details
from ._html import page as page
from ._html import quiet as quiet
from ._html import table as table
from ._plot import KINDS as KINDS
from ._plot import animate as animate
from ._plot import plot as plot
from ._regions import Read as Read
from ._regions import RegionMap as RegionMap
from ._regions import Rule as Rule
from ._regions import draw_regions as draw_regions
from ._style import are_alike as are_alike
from ._style import name_with_unit as name_with_unit
from ._waves import dispersion as dispersion
