"""Gradient, Laplacian, curl and biharmonic operator on straight and curvilinear axes."""

from typing import Any

from ..errors import DeclarationError
from ..grid import scaling_axes
from ..views import AbstractView, move
from ._common import check_order, to_view
from ._derivative import derivative
from ._divergence import laplacian_of, to_components
from ._measured import Measured, scaled


def laplacian(view: Any, *, order: Any = 2, at: Any = None) -> AbstractView:
    """∇²u of even `order`: on straight axes the sum of the second derivatives.

    On curvilinear axes 1/J Σ ∂(J/hᵢ² ∂u): for order 2 the balance of fluxes through the faces of exact cells, which
    conserves; for higher orders the expanded form, u″ + u′/r in polar coordinates. Poles need no condition.
    `laplacian(u)` is of the level the rule defines (in a rate: of the stage); `laplacian(u, at="t-1")` of an older one.
    Leading error h²/12 ∂⁴u for order 2. Units: those of u over length². Good values: order 2 to 8, as `derivative`.
    """
    view = to_view(view, "laplacian")
    check_order(view, order, f"laplacian({view}, order={order!r})")
    return laplacian_of(move(view, at), order)


def biharmonic(view: Any, *, order: Any = 2, at: Any = None) -> AbstractView:
    """∇⁴u = ∇²(∇²u), of even `order`: thirteen points in two dimensions for order 2.

    It reads two points (order 2) beyond each wall, and wants two conditions there: on clamped plates `u[wall] = 0.0`
    and, after it, `u[wall] = Neumann(0.0)`; on simply supported ones `u[wall] = Dirichlet(0.0)` alone. Leading error
    h²/6 ∂⁶u for order 2 in one dimension. Units: those of u over length⁴. Good values: order 2; explicit steps are
    limited to h⁴/8 and less.
    """
    view = to_view(view, "biharmonic")
    return laplacian(laplacian(view, order=order, at=at), order=order)


def gradient(view: Any, *, order: Any = 2, at: Any = None) -> tuple[AbstractView, ...]:
    """The first derivatives along the space axes, in grid order; each can be read at points or at faces.

    On curvilinear axes these are the physical components, 1/hᵢ ∂u/∂qᵢ. Leading error h²/6 ∂³u between points, h²/24
    ∂³u from faces to points, for order 2. Good values: as `derivative`.
    """
    view = to_view(view, "gradient")
    return tuple(
        scaled(derivative(view, axis, order=order, at=at), axis, "inverse scale") for axis in view.context.grid.space
    )


def curl(field: Any, *, order: Any = 2, at: Any = None) -> Any:
    """∇ × v, of even `order`, each component wherever it is read (on Yee's grid by half steps).

    In two dimensions `curl((v, w))` is the scalar ∂w/∂x − ∂v/∂y, and `curl(psi)` the vector (∂ψ/∂y, −∂ψ/∂x) of a
    stream function or an out-of-plane component; in three dimensions `curl((u, v, w))` is a vector. Components are in
    grid order and physical ones on curvilinear axes, 1/(hᵢhⱼ) [∂ᵢ(hⱼvⱼ) − ∂ⱼ(hᵢvᵢ)], which want (r, θ, z) or (r, θ, φ)
    in this order. Good values: order 2 on staggered grids (Yee), 4 for long propagation. Raises: DeclarationError.
    """
    if isinstance(field, AbstractView):
        return _of_scalar(move(field, at), order)
    components = {axis: move(part, at) for axis, part in to_components(field, "curl").items()}
    axes = tuple(components)
    if len(axes) == 2:
        return _rotation(components, *axes, order)
    if len(axes) != 3:
        raise DeclarationError(f"curl takes a vector in two or three dimensions, got {len(axes)}.")
    first, second, third = axes
    return (
        _rotation(components, second, third, order),
        _rotation(components, third, first, order),
        _rotation(components, first, second, order),
    )


def _of_scalar(view: AbstractView, order: Any) -> tuple[AbstractView, AbstractView]:
    grid = view.context.grid
    metrics = {grid.space_axis(axis).metric for axis in grid.space}
    if len(grid.space) != 2 or not metrics <= {None, "radius", "angle"} or metrics == {None, "radius"}:
        raise DeclarationError(
            f"{view.context.what}: curl of a scalar, {view}, wants a plane of two straight or two polar axes; the axes "
            f"are {', '.join(grid.space)}. Give it a vector."
        )
    first, second = grid.space
    return (
        scaled(derivative(view, second, order=order), second, "inverse scale"),
        -scaled(derivative(view, first, order=order), first, "inverse scale"),
    )


def _rotation(components: dict[str, AbstractView], first: str, second: str, order: Any) -> AbstractView:
    return _part(components[second], second, first, order) - _part(components[first], first, second, order)


def _part(component: AbstractView, own: str, along: str, order: Any) -> AbstractView:
    """1/(h_own h_along) ∂(h_own v_own)/∂along; what of h_own does not depend on `along` cancels.

    For order 2 a circulation around a face: what scales one side of it by the other is divided out with its exact area.
    """
    grid = component.context.grid
    if along in scaling_axes(grid.axes, own):
        component = Measured(component, along, "scale")
    found = derivative(component, along, order=order)
    divided = scaling_axes(grid.axes, along) + ((along,) if along in scaling_axes(grid.axes, own) else ())
    for other in divided:
        # Of two sides that a radius or colatitude scales by itself alone: the face's area is that of whole cells.
        whole = order == 2 and other in (own, along) and grid.space_axis(other).metric in ("radius", "colatitude")
        found = Measured(found, other, "transverse 1" if whole else "inverse scale")
    return found
