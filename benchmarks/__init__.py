"""Benchmarks: fdsolve against the same computations written by hand, and against kernex where it is installed."""
