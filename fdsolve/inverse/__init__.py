"""Inversion: parameters that fit observations, how well they are known, and tests of gradients."""

from ._check_gradient import GradientTable as GradientTable
from ._check_gradient import check_gradient as check_gradient
from ._inversion import Inversion as Inversion
from ._invert import Iterate as Iterate
from ._invert import invert as invert
from ._misfit import misfit as misfit
from ._regularise import AbstractTerm as AbstractTerm
from ._regularise import tikhonov as tikhonov
from ._regularise import total_variation as total_variation
from ._transforms import AbstractTransform as AbstractTransform
from ._transforms import Exponential as Exponential
from ._transforms import Identity as Identity
from ._transforms import Logistic as Logistic
from ._transforms import Softplus as Softplus
from ._transforms import Transform as Transform
