"""The command line: `fdsolve run problem.py`, and what else a shell can ask for."""

from ._main import main as main
