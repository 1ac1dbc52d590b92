"""Solutions: saved states, as arrays and as xarray."""

from ._solution import Solution as Solution
