"""What fdsolve raises: one family, so that a program can catch all of it with ``except FdsolveError``."""


class FdsolveError(Exception):
    """Any error that fdsolve raises on purpose.

    >>> issubclass(DeclarationError, FdsolveError) and issubclass(DeclarationError, ValueError)
    True
    """


class DeclarationError(FdsolveError, ValueError):
    """Something was declared that cannot be: a grid, field, region, rule or parameter."""


class PlanningError(FdsolveError, ValueError):
    """A declaration has no plan: a cycle, a point without a rule, a read outside the grid."""


class RunError(FdsolveError, RuntimeError):
    """A plan could not be carried through: a value became NaN, memory does not suffice."""


class FdsolveWarning(UserWarning):
    """Something that works but is probably not what was meant."""


class UnstableWarning(FdsolveWarning):
    """A step was declared that amplifies some waves without bound."""


class NotFiniteWarning(FdsolveWarning):
    """A run came to its end with nan or infinity in its last level."""
