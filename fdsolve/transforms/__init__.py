"""Transforms along one axis, periodic or between mirrors: the modes that constant stencils multiply by a number."""

from ._lines import AbstractLine as AbstractLine
from ._lines import Mirror as Mirror
from ._lines import Mirrored as Mirrored
from ._lines import Ring as Ring
from ._lines import Still as Still
from ._lines import along as along
from ._lines import complex_of as complex_of
