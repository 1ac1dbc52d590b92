"""What steppers refuse, and what they say."""

import builtins
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve.schemes import (
    ETDRK4,
    RK4,
    AdamsBashforth,
    BackwardEuler,
    Diffrax,
    Leapfrog,
    Lie,
    StormerVerlet,
    Strang,
    laplacian,
)


def ring(**kinds: Any) -> tuple[fd.Field, ...]:
    """Fields on a periodic axis, zero at first; `kinds` gives their rates."""
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis(0.0, 1.0, 8, periodic=True))
    fields = []
    for name, rules in kinds.items():
        field = fd.Field(name, grid)
        first, *others = rules if isinstance(rules, tuple) else (rules,)
        field[...] = first
        for other in others:
            field[...] += other
        field[0] = 0.0
        fields.append(field)
    return tuple(fields)


def refused(fields: Any, stepper: Any, message: str) -> None:
    with pytest.raises(fd.PlanningError, match=message):
        fd.plan(fields, stepper=stepper)


def test_verlet_wants_two_groups() -> None:
    v = fd.rate(lambda v: v[...])
    message = r"gives the rate of `v` and reads `v` itself.*u\[...\] = fd.rate\(v\).*PML for a sponge, or another"
    refused(ring(u=v, v=v), StormerVerlet(), message)
    ahead, behind = fd.rate(lambda v: v[...]), fd.rate(lambda w: w[...])
    refused(ring(u=ahead, v=behind, w=fd.rate(lambda u: u[...])), StormerVerlet(), "of the same group")
    refused(ring(u=fd.rate(1.0)), StormerVerlet(), "two coupled groups of rates; those of u read no field")


def test_verlet_looks_through_plain_rules() -> None:
    fields = ring(u=fd.rate(lambda v: v[...]), v=fd.rate(lambda p: p[...]), p=lambda u, v: u[...] + v[...])
    refused(fields, StormerVerlet(), "gives the rate of `v` and reads `v` itself")
    fields = ring(u=fd.rate(lambda v: v[...]), v=fd.rate(lambda p: p[...]), p=lambda u: 2 * u[...])
    assert "drifting=('u',), kicked=('v',)" in str(fd.plan(fields, stepper=StormerVerlet()))


def test_splitting_wants_one_stepper_a_group() -> None:
    one, two = fd.rate(1.0), fd.rate(lambda u: -u[...])
    refused(ring(u=one), Lie(), r"there is one group. Add the others with `\+=`")
    refused(ring(u=(one, two)), Strang(RK4(), RK4(), RK4()), "3 steppers for 2 groups of rates .0: .*; 1: ")


def test_exponential_steps_want_a_linear_part_that_diagonalises() -> None:
    square = fd.rate(lambda u: u[...] ** 2)
    refused(ring(u=square), ETDRK4(), r"no rate that is affine with constant coefficients: .* is not affine")
    varying = fd.rate(lambda u, x: x * u[...], implicit=True)
    refused(ring(u=(varying, square)), ETDRK4(), "marked implicit=True.* coefficients that vary in space or time")
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=11), x=fd.Axis(0.0, 1.0, 8))
    u = fd.Field("u", grid)
    u[...] = fd.rate(lambda u: laplacian(u))
    u[:, 0] = u[:, -1] = 0.0
    u[0] = 0.0
    refused(u, ETDRK4(), "axis `x` is not periodic")
    (w,) = ring(u=fd.rate(lambda u: laplacian(u)))
    w[:, 2] = 0.0
    w[0] = 0.0
    refused(w, ETDRK4(), "`u` has points without a rate")


@pytest.mark.parametrize("stepper", [AdamsBashforth(2), Leapfrog()], ids=repr)
def test_memories_want_the_same_points_at_every_level(stepper: Any) -> None:
    (u,) = ring(u=fd.rate(lambda u: -u[...]))
    u[5] = 1.0
    refused(u, stepper, r"those points change at level 5. Take a one-step stepper such as fd.schemes.RK4\(\)")


@pytest.mark.parametrize("stepper", [AdamsBashforth(2), Leapfrog()], ids=repr)
def test_memories_want_the_same_points_in_the_same_boxes_too(stepper: Any) -> None:
    """One more point is taken away later, within the box of those that are always."""
    (u,) = ring(u=fd.rate(lambda u: -u[...]))
    mask = np.zeros((11, 8), bool)
    mask[:, [1, 5]] = mask[5:, 3] = True
    u[mask] = 1.0
    u[0] = 0.0
    refused(u, stepper, "those points change at level 5")


def test_diffrax_refuses_older_levels() -> None:
    fields = ring(u=fd.rate(lambda p: p[...]), p=lambda u: u["t-1"])
    refused(fields, Diffrax(diffrax.Tsit5()), "reads an older level, and diffrax takes steps that do not end on levels")


def decaying(k: Any, **options: Any) -> Any:
    """The sum of the last level of u' = −k u."""
    (u,) = ring(u=fd.rate(lambda u, k: -k * u[...]))
    u[0] = 1.0
    return jnp.sum(fd.solve(u, k=k, save=fd.final(), **options)["u"])


ONE_WAY = (
    r"forward in time, and Diffrax.* has them in reverse alone.*Diffrax\(\.\.\., adjoint=diffrax\.ForwardMode\(\)\)"
)


@pytest.mark.parametrize("adjoint", [fd.adjoint.Forward(), fd.adjoint.Online(), fd.adjoint.Online("uoro")], ids=repr)
@pytest.mark.parametrize("own", [None, diffrax.RecursiveCheckpointAdjoint()], ids=repr)
def test_diffrax_in_reverse_is_not_carried_forward(adjoint: Any, own: Any) -> None:
    (u,) = ring(u=fd.rate(lambda u: -u[...]))
    stepper = Diffrax(diffrax.Tsit5(), adjoint=own)
    with pytest.raises(fd.PlanningError, match=ONE_WAY):
        fd.plan(u, stepper=stepper, adjoint=adjoint)
    with pytest.raises(fd.PlanningError, match=ONE_WAY):
        jax.grad(lambda k: decaying(k, stepper=stepper, adjoint=adjoint))(1.0)


def test_diffrax_in_reverse_says_so_to_streams_and_jvp() -> None:
    (u,) = ring(u=fd.rate(lambda u, k: -k * u[...]))
    u[0] = 1.0
    stepper = Diffrax(diffrax.Tsit5())
    with pytest.raises(fd.PlanningError, match=r"fd\.online takes derivatives " + ONE_WAY):
        fd.online(u, dict(k=1.0), loss=lambda state, data: jnp.sum(state["u"]), stepper=stepper)
    with pytest.raises(fd.PlanningError, match=r"jax\.jvp takes derivatives " + ONE_WAY):
        jax.jvp(lambda k: decaying(k, stepper=stepper), (1.0,), (1.0,))


@pytest.mark.parametrize("around", [lambda f: f, jax.jit], ids=["alone", "jit"])
def test_diffrax_forward_says_that_gradients_go_back(around: Any) -> None:
    stepper = Diffrax(diffrax.Tsit5(), adjoint=diffrax.ForwardMode())
    for adjoint in (None, fd.adjoint.Checkpointed(snapshots=1)):
        of = lambda k, a=adjoint: decaying(k, stepper=stepper, adjoint=a)  # noqa: E731
        with pytest.raises(fd.PlanningError, match=r"forward in time alone, and gradients .*Leave its adjoint= out"):
            around(jax.grad(of))(1.0)
        assert around(jax.jacfwd(of))(1.0) < 0


def test_diffrax_forward_is_carried_forward() -> None:
    found = []
    for own, adjoint in ((None, None), (diffrax.ForwardMode(), fd.adjoint.Forward())):
        stepper = Diffrax(diffrax.Tsit5(), adjoint=own)
        found.append(float(jax.grad(lambda k, s=stepper, a=adjoint: decaying(k, stepper=s, adjoint=a))(1.0)))
    assert found[1] == pytest.approx(found[0], rel=1e-12)
    assert abs(found[0]) > 1e-3


def test_diffrax_refuses_derivatives_by_what_rates_do_not_give() -> None:
    for own in (diffrax.BacksolveAdjoint(), diffrax.ImplicitAdjoint()):
        with pytest.raises(fd.DeclarationError, match=r"by the `args` of a vector field.*ForwardMode\(\) or DirectAdj"):
            Diffrax(diffrax.Tsit5(), adjoint=own)


def test_diffrax_that_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name == "diffrax":
            raise ImportError(name)
        return keep(name, *rest, **more)

    solver = diffrax.Tsit5()
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(fd.DeclarationError, match=r"pip install 'fdsolve\[adaptive\]'"):
        Diffrax(solver)


def test_diffrax_solvers_that_do_not_fit_are_refused() -> None:
    for solver, message in (
        (diffrax.KenCarp4(), r"KenCarp4 takes several\. .*fd\.schemes\.ARK3\(\)"),
        (diffrax.SemiImplicitEuler(), "SemiImplicitEuler takes several"),
        (diffrax.Euler(), r"Euler does not estimate it\. .*HalfSolver"),
    ):
        with pytest.raises(fd.DeclarationError, match=message):
            Diffrax(solver)
    Diffrax(diffrax.HalfSolver(diffrax.Euler()))


def test_implicit_rates_with_a_custom_vjp_are_refused() -> None:
    @jax.custom_vjp
    def cube(v: Any) -> Any:
        return v**3

    cube.defvjp(lambda v: (v**3, v), lambda v, along: (3 * v * v * along,))

    def branch(v: Any) -> Any:
        return jax.lax.cond(v > 0, cube, lambda v: v, v)

    for function in (cube, jax.jit(cube), branch):
        u = ring(u=fd.rate(lambda u, function=function: laplacian(u) - function(u[...])))
        with pytest.raises(fd.PlanningError, match=r"lambda.*BackwardEuler\(.*\) solves for u.*jax.custom_jvp.*RK4"):
            fd.solve(*u, stepper=BackwardEuler())
        assert np.all(fd.solve(*u, stepper=RK4())["u"] == 0)


def test_rates_are_marked_by_true_or_false() -> None:
    with pytest.raises(fd.DeclarationError, match="implicit= takes True or False, got 'yes'"):
        fd.rate(1.0, implicit="yes")


def test_stability_that_is_not_known_says_why() -> None:
    (u,) = ring(u=fd.rate(lambda u: -u[...]))
    assert "diffrax controls the error" in str(fd.plan(u, stepper=Diffrax(diffrax.Tsit5())))
    assert "by a speed of the state" in str(fd.plan(u, stepper=fd.CFL(0.5, speed=lambda u: jnp.abs(u[...]))))


def test_a_speed_that_does_not_show_in_what_rates_read_is_asked_for() -> None:
    (u,) = ring(u=fd.rate(lambda u: -fd.schemes.derivative(fd.stored(u * u / 2), "x")[...]))
    with pytest.raises(fd.PlanningError, match=r"reads what an operation computed beforehand.*Give the speed"):
        fd.plan(u, stepper=fd.CFL(0.5))
    assert "CFL(number=0.5" in str(fd.plan(u, stepper=fd.CFL(0.5, speed=lambda u: jnp.abs(u[...]))))
