"""Groups of rates: the first assigned with `=`, each `+=` another."""

from collections.abc import Sequence

from ..field import Assignment, Rate


def rate_group(assignments: Sequence[Assignment], index: int) -> tuple[int, bool]:
    """The group of a field's assignment among its rates, and whether it is marked implicit."""
    rule = assignments[index].rule
    if not isinstance(rule, Rate):
        return 0, False
    added = [one for one in assignments[: index + 1] if one.adds and isinstance(one.rule, Rate)]
    return (len(added) if assignments[index].adds else 0), rule.implicit
