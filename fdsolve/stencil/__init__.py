"""Stencils: rules traced into scalar functions of what they read, their affinity and weights."""

from ._context import FieldResolver as FieldResolver
from ._context import Near as Near
from ._context import Reader as Reader
from ._context import RuleContext as RuleContext
from ._context import describe_result as describe_result
from ._context import pick_component as pick_component
from ._context import take_value as take_value
from ._key import jaxpr_key as jaxpr_key
from ._linearity import AFFINE as AFFINE
from ._linearity import CONSTANT as CONSTANT
from ._linearity import NONLINEAR as NONLINEAR
from ._linearity import depends_on as depends_on
from ._linearity import linear_weights as linear_weights
from ._operands import Operand as Operand
from ._operands import ProfileRead as ProfileRead
from ._operands import StateRead as StateRead
from ._operands import WholeRead as WholeRead
from ._scope import Labelled as Labelled
from ._scope import Scope as Scope
from ._scope import Static as Static
from ._scope import WholeArray as WholeArray
from ._trace import Traced as Traced
from ._trace import constant_rule as constant_rule
from ._trace import make_traced as make_traced
from ._trace import trace as trace
from ._trace import trace_window as trace_window
