"""Fields and the rules assigned to their regions."""

from ._checks import check_coefficient as check_coefficient
from ._field import Assignment as Assignment
from ._field import Field as Field
from ._field import Together as Together
from ._field import point as point
from ._field import together as together
from ._rules import AbstractCondition as AbstractCondition
from ._rules import AbstractWall as AbstractWall
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
