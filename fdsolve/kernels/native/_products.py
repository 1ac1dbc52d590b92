"""Which operations of a program share the product that their derivatives by reads are of (see _weights)."""

from collections.abc import Hashable
from math import prod

from ...stencil import StateRead
from ._given import Given
from ._program import Program
from ._weights import Weights


def product_name(number: int) -> str:
    """The array of the product that derivatives of an operation share."""
    return f"product {number}"


class Products:
    """The products of operations whose gifts are not written down; `read` are the first operations of those that are
    read."""

    def __init__(self, program: Program, weights: Weights, given: Given):
        self.read: dict[int, None] = {}
        groups: dict[tuple[str, Hashable], list[int]] = {}
        for number, (operation, rule) in enumerate(zip(program.operations, weights.rules, strict=True)):
            if number in given.by_operation:
                continue
            for place, read in enumerate(rule.operands):
                if isinstance(read, StateRead):
                    weights.pull(rule, place)
            if weights.has_product(rule):
                product = weights.product(rule)
                now = any(isinstance(one, StateRead) and one.level == 0 for one in rule.operands)
                apart = number if now else None  # products of those that read each other would go round in a circle
                groups.setdefault((operation.array, (product.key, product.operands, apart)), []).append(number)
        self._first: dict[int, int] = {}
        for (array, _), numbers in groups.items():
            size = sum(program.operations[k].box.size for k in numbers)
            if 4 * size >= prod(program.array(array).shape):
                self._first |= dict.fromkeys(numbers, numbers[0])

    def first(self, number: int) -> int | None:
        """The first operation that shares the product of one; None where they do not do much of their array: what is
        done beside walls alone is not worth one of its own."""
        return self._first.get(number)

    def alike(self, first: int) -> list[int]:
        """The operations that share the product of one, the first of them."""
        return [number for number, one in self._first.items() if one == first]
