"""Limiters: the slope that keeps the total variation from growing, from two neighbouring differences.

A limiter is a function of the differences a and b on both sides of a point, symmetric and homogeneous; as a function
of r = b/a it is φ(r) = limiter(1, r) (Sweby, SIAM J. Numer. Anal. 21 (1984) 995). Zero where a and b differ in sign.
All have finite derivatives everywhere: at equal neighbours, at extrema and on constant fields.
"""

from typing import Any

from ._values import choose


def minmod(a: Any, b: Any) -> Any:
    """The smaller of two differences in size, φ(r) = max(0, min(1, r)); the most diffusive (Roe 1986).

    >>> float(minmod(1.0, 3.0)), float(minmod(2.0, -3.0))
    (1.0, 0.0)
    """
    return choose(a * b > 0, choose(abs(a) < abs(b), a, b), 0 * a)


def superbee(a: Any, b: Any) -> Any:
    """φ(r) = max(0, min(2r, 1), min(r, 2)); the sharpest at jumps, squares smooth waves (Roe 1986).

    >>> float(superbee(1.0, 3.0)), float(superbee(1.0, 0.75))
    (2.0, 1.0)
    """
    one, other = minmod(2 * a, b), minmod(a, 2 * b)
    return choose(abs(one) > abs(other), one, other)


def van_leer(a: Any, b: Any) -> Any:
    """The harmonic mean, φ(r) = (r + |r|)/(1 + |r|); smooth (van Leer 1974). Good for everyday use.

    >>> float(van_leer(1.0, 3.0))
    1.5
    """
    same = a * b > 0
    total = choose(same, a + b, 1 + 0 * a)
    return choose(same, 2 * a * (b / total), 0 * a)


def mc(a: Any, b: Any) -> Any:
    """The monotonised central difference, φ(r) = max(0, min(2r, (1 + r)/2, 2)) (van Leer 1977). Clawpack's choice.

    >>> float(mc(1.0, 2.0)), float(mc(1.0, 9.0))
    (1.5, 2.0)
    """
    return minmod(minmod(2 * a, 2 * b), (a + b) / 2)
