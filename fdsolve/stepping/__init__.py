"""Stepping: levels, stages and the march along time."""

from ._march import run as run
from ._march import run_initial as run_initial
