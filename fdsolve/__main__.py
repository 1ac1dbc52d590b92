"""`python -m fdsolve`, the same as `fdsolve`."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
