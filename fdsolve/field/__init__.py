"""Fields and the rules assigned to their regions."""

from ._checks import check_coefficient as check_coefficient
from ._conditions import AbstractBoundary as AbstractBoundary
from ._conditions import AbstractCondition as AbstractCondition
from ._conditions import AbstractEvolving as AbstractEvolving
from ._conditions import AbstractLayer as AbstractLayer
from ._conditions import AbstractOrdered as AbstractOrdered
from ._conditions import AbstractPeriodic as AbstractPeriodic
from ._conditions import AbstractWall as AbstractWall
from ._conditions import Normal as Normal
from ._conditions import Use as Use
from ._conditions import normal as normal
from ._field import Assignment as Assignment
from ._field import Field as Field
from ._field import Together as Together
from ._field import point as point
from ._field import together as together
from ._rules import Along as Along
from ._rules import Interpolate as Interpolate
from ._rules import Rate as Rate
from ._rules import Whole as Whole
from ._rules import along as along
from ._rules import describe_rule as describe_rule
from ._rules import interpolate as interpolate
from ._rules import own as own
from ._rules import rate as rate
from ._rules import whole as whole
