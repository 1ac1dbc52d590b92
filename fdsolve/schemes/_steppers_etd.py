"""Exponential time differencing: the stiff linear part exactly, in Fourier space."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DeclarationError, PlanningError
from ..transforms import along, complex_of
from ._steppers import AbstractStepper, AbstractSystem, Modes, Outline, Part, Values

DEGREE = 18
"""Of Taylor's polynomial: what is left of exp at norm 1 is below the rounding of double precision."""
SQUARINGS = 40


class _Weights(NamedTuple):
    """e^{Z}, e^{Z/2} and the weights of the four slopes, as matrices (*waves, fields, fields); Q, f₁, f₂, f₃ in Δt."""

    whole: Any
    half: Any
    q: Any
    first: Any
    middle: Any
    last: Any


@dataclass(frozen=True)
class ETDRK4(AbstractStepper):
    """The exponential Runge–Kutta method of order 4 for ∂u/∂t = Lu + N(u, t), L diagonalised by the FFT.

    L is the rates marked `fd.rate(f, implicit=True)`, else those that are affine with constant coefficients; N all
    others and the sources. Wants uniform periodic axes, across whose ends all fields repeat with the same sign, and
    rates at every point; several fields may be coupled through L. The φ-functions are means over `num_nodes` points of
    a circle of radius 1 about each eigenvalue of LΔt; for several fields they come from the exponential of an augmented
    matrix. Sources: Cox & Matthews, J. Comput. Phys. 176 (2002) 430, equations 26–29; Kassam & Trefethen, SIAM J. Sci.
    Comput. 26 (2005) 1214, section 3; Sidje, ACM Trans. Math. Softw. 24 (1998) 130, theorem 1. Good values: num_nodes =
    32.
    """

    num_nodes: int = 32

    def __post_init__(self) -> None:
        count = self.num_nodes
        if isinstance(count, bool) or not isinstance(count, int) or count < 8:
            raise DeclarationError(f"ETDRK4: num_nodes= is a whole number of at least 8, got {count!r}.")

    @property
    def order(self) -> int:
        return 4

    @property
    def evaluations(self) -> int:
        return 4

    def bind(self, outline: Outline) -> "ETDRK4":
        if outline.not_periodic:
            raise PlanningError(
                f"ETDRK4 diagonalises the linear part by the FFT, and {outline.not_periodic}. It wants uniform axes "
                f"with periodic=True and rates at every point; else take fd.schemes.ARK3() or another implicit stepper."
            )
        marked = [one for one in outline.rates if one.implicit]
        for one in marked:
            if one.why_not:
                raise PlanningError(
                    f"ETDRK4 takes {one.label}, marked implicit=True, as its linear part, and that {one.why_not}. Mark "
                    f"rates that are linear with constant coefficients; assign the rest with `+=`."
                )
        if not marked and all(one.why_not for one in outline.rates):
            shown = "; ".join(f"{one.label} {one.why_not}" for one in outline.rates)
            raise PlanningError(
                f"ETDRK4 finds no rate that is affine with constant coefficients: {shown}. Assign the linear part by "
                f"itself, u[...] = fd.rate(linear), u[...] += fd.rate(rest)."
            )
        return self

    def prepare(self, system: AbstractSystem) -> _Weights:
        symbol = system.symbol()
        return _weights(symbol * system.step.astype(symbol.dtype), self.num_nodes)

    def step(self, system: AbstractSystem, memory: Any, prepared: Any) -> tuple[Values, Any]:
        names, start = tuple(system.start), _to_modes(system.start, system.signs)
        w, step = prepared, system.step

        def slope(modes: Any, fraction: float, at_start: bool = False) -> Any:
            values = system.start if at_start else _to_values(modes, system.start, system.signs)
            rest = system.rates(values, fraction, None, Part(linear=False))
            constant = system.constant_rates(fraction)
            zero = {name: tuple(jnp.zeros_like(b) for b in system.start[name]) for name in names}
            both = {name: (rest.get(name, zero[name])[0] + constant.get(name, zero[name])[0],) for name in names}
            modes = _to_modes(both, system.signs)
            return modes * step.astype(modes.dtype)

        n1 = slope(start, 0.0, at_start=True)
        relaxed = _apply(w.half, start)
        a = relaxed + _apply(w.q, n1)
        n2 = slope(a, 0.5)
        b = relaxed + _apply(w.q, n2)
        n3 = slope(b, 0.5)
        c = _apply(w.half, a) + _apply(w.q, 2 * n3 - n1)
        n4 = slope(c, 1.0)
        new = _apply(w.whole, start) + _apply(w.first, n1) + _apply(w.middle, n2 + n3) + _apply(w.last, n4)
        return _to_values(new, system.start, system.signs), None

    def amplify(self, modes: Modes) -> np.ndarray:
        if not modes.of(Part(linear=False)).total.any():
            return np.exp(np.clip(modes.eigenvalues.real, None, 50.0) + 1j * modes.eigenvalues.imag)[..., None]
        w = _Weights(*(np.asarray(one) for one in _weights(modes.of(Part(linear=True)).total, self.num_nodes)))
        n = modes.of(Part(linear=False)).total
        one = np.eye(n.shape[-1])
        a = w.half + w.q @ n
        b = w.half + w.q @ n @ a
        c = w.half @ a + w.q @ n @ (2 * b - one)
        return np.linalg.eigvals(w.whole + w.first @ n + w.middle @ n @ (a + b) + w.last @ n @ c)


def _weights(z: Any, num_nodes: int) -> _Weights:
    """The weights of a step for matrices Z = LΔt, shape (*waves, fields, fields)."""
    if z.shape[-1] > 1:
        return _matrix_weights(jnp.asarray(z))
    scalar = _scalar_weights(jnp.asarray(z)[..., 0, 0], num_nodes)
    return _Weights(*(one[..., None, None] for one in scalar))


def _scalar_weights(z: Any, num_nodes: int) -> _Weights:
    """Means of the weights over a circle about each z, which do not cancel where z is small (Kassam & Trefethen)."""
    angles = 2 * np.pi * (np.arange(num_nodes) + 0.5) / num_nodes
    nodes = z[..., None] + jnp.asarray(np.exp(1j * angles), z.dtype)
    e, h, cube = jnp.exp(nodes), jnp.exp(nodes / 2), nodes**3
    means = (
        (h - 1) / nodes,
        (-4 - nodes + e * (4 - 3 * nodes + nodes**2)) / cube,
        2 * (2 + nodes + e * (nodes - 2)) / cube,
        (-4 - 3 * nodes - nodes**2 + e * (4 - nodes)) / cube,
    )
    return _Weights(jnp.exp(z), jnp.exp(z / 2), *(jnp.mean(one, axis=-1) for one in means))


def _matrix_weights(z: Any) -> _Weights:
    """The same from φ₁, φ₂, φ₃ of matrices: the first blocks of exp of Z beside a shift of identities (Sidje)."""
    whole, one, two, three = _phi_functions(z)
    half, half_one, *_ = _phi_functions(z / 2)
    return _Weights(whole, half, half_one / 2, one - 3 * two + 4 * three, 2 * two - 4 * three, 4 * three - two)


def _phi_functions(z: Any) -> list[Any]:
    fields = z.shape[-1]
    shift = np.kron(np.eye(4, k=1), np.eye(fields))
    above = jnp.zeros((*z.shape[:-2], 4 * fields, 4 * fields), z.dtype) + jnp.asarray(shift, z.dtype)
    result = _exponential(above.at[..., :fields, :fields].add(z))
    return [result[..., :fields, k * fields : (k + 1) * fields] for k in range(4)]


def _exponential(matrix: Any) -> Any:
    """exp of matrices, (..., n, n), by Taylor's polynomial and squaring: of products alone, since two batches of LAPACK
    in one program wait for each other's threads without end (jaxlib 0.10, on few processors)."""
    product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    length = jnp.abs(jax.lax.stop_gradient(matrix)).sum(axis=-2).max(axis=-1)[..., None, None]
    count = jnp.clip(jnp.ceil(jnp.log2(length)), 0, SQUARINGS)
    small, one = matrix * jnp.exp2(-count).astype(matrix.dtype), jnp.eye(matrix.shape[-1], dtype=matrix.dtype)
    result = one
    for k in range(DEGREE, 0, -1):
        result = one + product(small, result) / k

    def square(result: Any, k: Any) -> tuple[Any, None]:
        base = jnp.where(k < count, result, one)  # where it is done already, squares could overflow
        return jnp.where(k < count, product(base, base), result), None

    return jax.lax.scan(square, result, jnp.arange(SQUARINGS, dtype=count.dtype))[0]


def _apply(matrix: Any, modes: Any) -> Any:
    return jnp.sum(matrix * modes[..., None, :], axis=-1)


def _to_modes(values: Values, signs: tuple[int, ...]) -> Any:
    """Fourier coefficients, shape (*waves, fields)."""
    return jnp.stack([jnp.fft.fftn(_turned(box, signs, -1)) for (box,) in values.values()], axis=-1)


def _to_values(modes: Any, like: Values, signs: tuple[int, ...]) -> Values:
    result = {}
    for number, (name, (box,)) in enumerate(like.items()):
        value = _turned(jnp.fft.ifftn(modes[..., number]), signs, 1)
        result[name] = ((value if jnp.iscomplexobj(box) else value.real).astype(box.dtype),)
    return result


def _turned(values: Any, signs: tuple[int, ...], sense: int) -> Any:
    """The values times e^{±iπx/L} along the axes across whose ends they change their sign: those of a periodic field,
    and back."""
    for axis, (sign, size) in enumerate(zip(signs, values.shape, strict=True)):
        if sign == -1:
            turn = along(np.exp(sense * 1j * np.pi * np.arange(size) / size), axis, values.ndim)
            values = values.astype(complex_of(values.dtype)) * jnp.asarray(turn, complex_of(values.dtype))
    return values
