"""Stepping: levels, stages and the march along time."""

from ._logs import Log as Log
from ._logs import solves_of as solves_of
from ._march import Carry as Carry
from ._march import begin as begin
from ._march import finish as finish
from ._march import interiors as interiors
