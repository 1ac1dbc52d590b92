"""Stepping: levels, stages and the march along time."""

from ._march import Carry as Carry
from ._march import begin as begin
from ._march import finish as finish
from ._march import interiors as interiors
