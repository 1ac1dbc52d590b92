"""Exact coefficients of polynomials through a row of points: face values, smoothness, all as rational numbers."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

Row = tuple[float, ...]


@dataclass(frozen=True)
class Stencils:
    """What a WENO scheme of order 2r − 1 needs, for the r sub-stencils of r points about the face at +1/2.

    `faces[k]` gives the value at the face from the points k − r + 1 … k (in steps from the point upwind of the face),
    `ideal[k]` its share in the value of order 2r − 1, `squares[k]` the smoothness indicator β as factors and
    differences, β = Σ factor·(Σ differences·u)².
    """

    faces: tuple[Row, ...]
    ideal: Row
    squares: tuple[tuple[tuple[float, Row], ...], ...]


@cache
def face_weights(first: int, count: int, averages: bool) -> Row:
    """Weights of the points first … first + count − 1 for the value at +1/2 of the polynomial through them.

    `averages`: through their cell averages, so that differences of faces are derivatives (Shu & Osher 1988); else
    through the values themselves (interpolation).

    >>> [round(6 * w) for w in face_weights(-1, 3, True)], [8 * w for w in face_weights(-1, 3, False)]
    ([-1, 5, 2], [-1.0, 6.0, 3.0])
    """
    return tuple(map(float, _face(first, count, averages)))


@cache
def correction_weights(reach: int) -> Row:
    """Weights of point values about a face that turn the flux at it into one whose differences are of order 2·reach.

    The flux is then F̂ = F(+1/2) + Σ w f, the conservative central flux less interpolation: −f″h²/24 + 7f⁗h⁴/5760 − …
    Source: Jiang, Shu & Zhang, SIAM J. Sci. Comput. 35 (2013) A1137, equation 2.9. The first is −reach + 1.

    >>> [round(48 * w, 12) for w in correction_weights(2)]
    [-1.0, 1.0, 1.0, -1.0]
    """
    averages, values = (_face(1 - reach, 2 * reach, kind) for kind in (True, False))
    return tuple(float(a - v) for a, v in zip(averages, values, strict=True))


@cache
def stencils(reach: int, averages: bool) -> Stencils:
    """The sub-stencils of a WENO scheme with sub-stencils of `reach` points; see `Stencils`."""
    firsts = [k - reach + 1 for k in range(reach)]
    faces = [_face(first, reach, averages) for first in firsts]
    rest = list(_face(1 - reach, 2 * reach - 1, averages))
    ideal = []
    for k, face in enumerate(faces):
        share = rest[k] / face[0]
        ideal.append(share)
        for j, weight in enumerate(face):
            rest[k + j] -= share * weight
    assert not any(rest)
    squares = [_squares(first, reach, averages) for first in firsts]
    return Stencils(
        tuple(tuple(map(float, face)) for face in faces),
        tuple(map(float, ideal)),
        tuple(tuple((float(f), tuple(map(float, row))) for f, row in one) for one in squares),
    )


def _moment(power: int, at: Fraction, averages: bool) -> Fraction:
    """The value, or the average over the unit cell, of x^power at a point."""
    if not averages:
        return at**power
    half = Fraction(1, 2)
    return ((at + half) ** (power + 1) - (at - half) ** (power + 1)) / (power + 1)


@cache
def _face(first: int, count: int, averages: bool) -> tuple[Fraction, ...]:
    points = [Fraction(first + j) for j in range(count)]
    matrix = [[_moment(power, x, averages) for x in points] for power in range(count)]
    return tuple(_solve(matrix, [Fraction(1, 2) ** power for power in range(count)]))


def _coefficients(first: int, count: int, averages: bool) -> list[list[Fraction]]:
    """Row m: the weights of the points for the coefficient of x^m of the polynomial about the point upwind."""
    points = [Fraction(first + j) for j in range(count)]
    matrix = [[_moment(power, x, averages) for x in points] for power in range(count)]
    return [_solve(matrix, [Fraction(int(power == m)) for power in range(count)]) for m in range(count)]


def _squares(first: int, count: int, averages: bool) -> list[tuple[Fraction, list[Fraction]]]:
    """β = Σ_l ∫ (dˡp/dxˡ)² over the cell upwind of the face (Jiang & Shu 1996, equation 3.1), as a sum of squares.

    As squares it is not negative, and zero on constants, whatever the rounding.
    """
    rows, degree = _coefficients(first, count, averages), count - 1
    form = [[Fraction(0)] * count for _ in range(count)]
    for order in range(1, degree + 1):
        for a in range(order, degree + 1):
            for b in range(order, degree + 1):
                form[a][b] += _falling(a, order) * _falling(b, order) * _moment(a + b - 2 * order, Fraction(0), True)
    found = []
    for a in range(1, degree + 1):  # Lagrange's reduction of the form, one square at a time
        factor = form[a][a]
        mixed = [form[a][b] / factor for b in range(count)]
        found.append((factor, [sum(mixed[b] * rows[b][j] for b in range(a, count)) for j in range(count)]))
        for b in range(a, count):
            for c in range(a, count):
                form[b][c] -= factor * mixed[b] * mixed[c]
    return found


def _falling(power: int, order: int) -> int:
    """The factor that `order` derivatives of x^power bring down."""
    result = 1
    for k in range(order):
        result *= power - k
    return result


def _solve(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Gauss–Jordan elimination in rational numbers."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(j for j in range(i, len(rows)) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(len(rows)):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]
