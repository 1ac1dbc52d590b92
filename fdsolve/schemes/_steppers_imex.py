"""IMEX Runge–Kutta methods: the rates marked `implicit=True` implicitly, the others explicitly, at the same stages."""

from dataclasses import dataclass
from typing import Any

from ._additive import AbstractAdditive, AdditiveTableau, check_solver
from ._steppers_implicit import GAMMA_2, GAMMA_3, weights_of_gamma


@dataclass(frozen=True)
class IMEXEuler(AbstractAdditive):
    """uⁿ⁺¹ = uⁿ + Δt f(uⁿ, tⁿ) + Δt g(uⁿ⁺¹, tⁿ⁺¹), order 1; g are the rates marked `fd.rate(g, implicit=True)`.

    L-stable in g, stable in f as Euler is. Source: Ascher, Ruuth & Spiteri, Appl. Numer. Math. 25 (1997) 151,
    section 2.1.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def tableau(self) -> AdditiveTableau:
        return AdditiveTableau(((0.0,), (0.0, 1.0)), 1, ((), (1.0,)), (1.0, 0.0))


@dataclass(frozen=True)
class ARS222(AbstractAdditive):
    """Two implicit stages, L-stable, beside two explicit ones, order 2.

    g are the rates marked `fd.rate(g, implicit=True)`. Source: Ascher, Ruuth & Spiteri, Appl. Numer. Math. 25 (1997)
    151, section 2.6. Good values: diffusion beside mild reactions; for advection without diffusion ARS343.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def tableau(self) -> AdditiveTableau:
        g, d = GAMMA_2, 1 - 1 / (2 * GAMMA_2)
        return AdditiveTableau(((0.0,), (0.0, g), (0.0, 1 - g, g)), 2, ((), (g,), (d, 1 - d)), (d, 1 - d, 0.0))


@dataclass(frozen=True)
class ARS343(AbstractAdditive):
    """Three implicit stages, L-stable, beside four explicit ones, order 3; stable explicitly to about λΔt = ±1.6i.

    g are the rates marked `fd.rate(g, implicit=True)`. The free coefficients â₄₂ = â₄₃ are those of the source, â₃₂
    follows from the condition Σ b̂Âc = 1/6. Source: Ascher, Ruuth & Spiteri, Appl. Numer. Math. 25 (1997) 151, section
    2.7. Good values: advection with stiff diffusion.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def tableau(self) -> AdditiveTableau:
        g, free = GAMMA_3, 0.5529291479
        first, second = weights_of_gamma(g)
        middle = (1 + g) / 2
        a32 = (1 / 6 - g * free * (g + middle)) / (second * g)
        return AdditiveTableau(
            ((0.0,), (0.0, g), (0.0, (1 - g) / 2, g), (0.0, first, second, g)),
            3,
            ((), (g,), (middle - a32, a32), (1 - 2 * free, free, free)),
            (0.0, first, second, g),
        )


@dataclass(frozen=True)
class ARK3(AbstractAdditive):
    """ARK3(2)4L[2]SA: three implicit stages after an explicit one, L-stable, of stage order 2; order 3.

    g are the rates marked `fd.rate(g, implicit=True)`. Source: Kennedy & Carpenter, Appl. Numer. Math. 44 (2003) 139,
    appendix C. Good values: the first choice among IMEX methods.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def tableau(self) -> AdditiveTableau:
        g = 1767732205903 / 4055673282236
        weights = (
            1471266399579 / 7840856788654,
            -4482444167858 / 7529755066697,
            11266239266428 / 11593286722821,
            g,
        )
        return AdditiveTableau(
            ((0.0,), (g, g), (2746238789719 / 10658868560708, -640167445237 / 6845629431997, g), weights),
            3,
            (
                (),
                (1767732205903 / 2027836641118,),
                (5535828885825 / 10492691773637, 788022342437 / 10882634858940),
                (6485989280629 / 16251701735622, -4246266847089 / 9704473918619, 10755448449292 / 10357097424841),
            ),
            weights,
        )


@dataclass(frozen=True)
class ARK4(AbstractAdditive):
    """ARK4(3)6L[2]SA: five implicit stages after an explicit one, L-stable, of stage order 2; order 4.

    g are the rates marked `fd.rate(g, implicit=True)`. Source: Kennedy & Carpenter, Appl. Numer. Math. 44 (2003) 139,
    appendix C. Good values: where errors below 1e-6 are wanted.
    """

    solver: Any = None

    def __post_init__(self) -> None:
        check_solver(self)

    @property
    def tableau(self) -> AdditiveTableau:
        g = 0.25
        weights = (82889 / 524892, 0.0, 15625 / 83664, 69875 / 102672, -2260 / 8211, g)
        implicit = (
            (0.0,),
            (g, g),
            (8611 / 62500, -1743 / 31250, g),
            (5012029 / 34652500, -654441 / 2922500, 174375 / 388108, g),
            (15267082809 / 155376265600, -71443401 / 120774400, 730878875 / 902184768, 2285395 / 8070912, g),
            weights,
        )
        explicit = (
            (),
            (1 / 2,),
            (13861 / 62500, 6889 / 62500),
            (
                -116923316275 / 2393684061468,
                -2731218467317 / 15368042101831,
                9408046702089 / 11113171139209,
            ),
            (
                -451086348788 / 2902428689909,
                -2682348792572 / 7519795681897,
                12662868775082 / 11960479115383,
                3355817975965 / 11060851509271,
            ),
            (
                647845179188 / 3216320057751,
                73281519250 / 8382639484533,
                552539513391 / 3454668386233,
                3354512671639 / 8306763924573,
                4040 / 17871,
            ),
        )
        return AdditiveTableau(implicit, 4, explicit, weights)
