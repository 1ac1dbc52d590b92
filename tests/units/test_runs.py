"""Runs with quantities: the same programs and numbers as without, and units on results and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import saiunit as u

import fdsolve as fd
from fdsolve.planning import in_magnitudes, make_plan

from .declarations import ALL, PLAIN, UNITS, K, M, S, diffuse, grid

SIZES = {"T0": 2.0 * K, "L": 1.0 * M}


def rod(units=True):
    T = fd.Field("T", grid(units), units=K if units else "K")
    T[...] = fd.rate(diffuse)
    T[0] = lambda x, T0, L: T0 * jnp.sin(jnp.pi * x / L)
    T[dict(x=[0, -1])] = fd.boundary.Dirichlet(0.0)
    return T


def arrays(plan):
    return jax.tree.leaves(plan.operands)


@pytest.mark.parametrize("declare", ALL.values(), ids=ALL)
def test_the_plan_is_that_of_the_plain_run(declare):
    (fields, parameters), (plain, numbers) = declare(UNITS), declare(PLAIN)
    made, bare = make_plan(fields, parameters, None, None), make_plan(plain, numbers, None, None)
    assert made.structure == bare.structure and bare.problem.units is None
    assert [str(rule.jaxpr) for rule in made.structure.rules] == [str(rule.jaxpr) for rule in bare.structure.rules]
    assert len(arrays(made)) == len(arrays(bare))
    for one, other in zip(arrays(made), arrays(bare), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    assert [note for note in made.notes if note not in bare.notes] == [
        f"units checked through {made_count(made)} rules"
    ]


def test_one_over_a_unit_is_a_unit():
    assert fd.Field("T", grid(True), units=1 / u.meter).units == "1/m"
    with pytest.raises(fd.DeclarationError, match="takes a string"):
        fd.Field("T", grid(True), units=2 / u.meter)


def test_layers_are_followed_under_steppers_that_recur():
    made = make_plan(*ALL["rates in layers"](UNITS), fd.schemes.StormerVerlet(), None)
    assert f"units checked through {made_count(made)} rules" in made.notes


def made_count(plan):
    note = next(note for note in plan.notes if note.startswith("units checked through"))
    return int(note.split()[3])


def test_a_declaration_goes_back_to_magnitudes():
    made = make_plan(rod(), {"kappa": 0.01 * M**2 / S, **SIZES}, None, None)
    fields, parameters = in_magnitudes(made.problem)
    again = make_plan(fields, parameters, None, None)
    assert again.problem.units is None and again.structure == made.structure
    assert parameters == {"kappa": 0.01, "T0": 2.0, "L": 1.0} and fields[0].units == "K"


def test_results_carry_the_units_of_their_fields():
    solution = fd.solve(rod(), kappa=0.01 * M**2 / S, save=fd.final(), **SIZES)
    bare = fd.solve(rod(units=False), kappa=0.01, save=fd.final(), T0=2.0, L=1.0)
    assert solution["T"].unit == K and solution.final["T"].unit == K
    assert isinstance(bare["T"], jax.Array)
    np.testing.assert_array_equal(solution["T"].mantissa, bare["T"])
    dataset = solution.to_xarray()
    assert dataset["T"].attrs["units"] == "K" and dataset["x"].attrs["units"] == "m"
    assert dataset.attrs["kappa"] == 0.01 and dataset.attrs["kappa_units"] == "m^2/s"
    np.testing.assert_array_equal(dataset["T"].values, bare["T"])


def test_integrals_have_the_units_of_their_axes():
    kept = fd.final().integral("x")
    solution = fd.solve(rod(), kappa=0.01 * M**2 / S, save=kept, **SIZES)
    assert solution["T"].unit == K * M and solution.final["T"].unit == K


def test_gradients_are_loss_over_parameter():
    T, bare = rod(), rod(units=False)

    def loss(kappa):
        return (fd.solve(T, kappa=kappa, save=fd.final(), **SIZES).final["T"] ** 2).sum()

    def plain(kappa):
        return (fd.solve(bare, kappa=kappa, save=fd.final(), T0=2.0, L=1.0).final["T"] ** 2).sum()

    found = u.autograd.grad(loss)(0.01 * M**2 / S)
    assert found.unit.has_same_dim(K**2 / (M**2 / S)) and found.unit.magnitude == 1.0
    expected = jax.grad(plain)(0.01)
    np.testing.assert_allclose(found.mantissa, expected, rtol=1e-12)
    of_magnitude = jax.grad(lambda number: loss(number * M**2 / S).mantissa)(0.01)
    np.testing.assert_array_equal(of_magnitude, expected)


def test_quantities_go_through_jit_and_vmap():
    T = rod()

    @jax.jit
    def run(kappa):
        return fd.solve(T, kappa=kappa, save=fd.final(), **SIZES).final["T"]

    several = u.Quantity(jnp.array([0.01, 0.02]), unit=M**2 / S)
    found = jax.vmap(run)(several)
    alone = fd.solve(rod(units=False), kappa=0.02, save=fd.final(), T0=2.0, L=1.0).final["T"]
    assert found.unit == K and found.shape == (2, 12)
    np.testing.assert_allclose(found[1].mantissa, alone, rtol=1e-13)


def test_other_sizes_of_the_same_unit_are_converted():
    T = fd.Field(
        "T",
        fd.Grid(t=fd.Time(0.0, 1.0, num=3, units="d"), x=fd.Axis(0.0 * u.kmeter, 2.0 * u.kmeter, num=5)),
        units="K",
    )
    T[...] = fd.rate(lambda T, kappa, warm: kappa * fd.schemes.laplacian(T) + warm)
    T[0] = 3000 * u.mkelvin
    T[dict(x=[0, -1])] = fd.boundary.Neumann(1 * K / M)
    made = make_plan(T, {"kappa": 2.0 * M**2 / S, "warm": 1.0 * K / u.hour}, None, None)
    wholes = made.operands["wholes"]
    np.testing.assert_allclose(wholes["parameter kappa"], 2.0 * 86400 / 1e6, rtol=1e-15)
    np.testing.assert_allclose(wholes["parameter warm"], 24.0, rtol=1e-15)
    assert "`3.0` on T[0]" in str(made) and "Neumann(1000.0)" in str(made)


def test_axes_and_times_of_quantities():
    assert fd.Axis(0 * M, 100 * u.cmeter, num=3) == fd.Axis(0.0, 100.0, num=3, units="cm")
    assert fd.Axis(0 * M, 100 * u.cmeter, num=3, units="m") == fd.Axis(0.0, 1.0, num=3, units="m")
    assert fd.Axis.from_points(np.array([0.0, 1.0, 3.0]) * M).units == "m"
    assert fd.Time(0, 1 * u.minute, step=20 * S, units=S).num == 4
    with pytest.raises(fd.DeclarationError, match=r"are in m, got 3\.* s"):
        fd.Axis(0 * M, 3.0 * S, num=3, units="m")
    with pytest.raises(fd.DeclarationError, match=r"got 1\.0 without a unit"):
        fd.Axis(1.0, 3.0 * M, num=3)
    with pytest.raises(fd.DeclarationError, match="does not know the unit 'furlong'"):
        fd.Axis(0.0, 3.0 * M, num=3, units="furlong")
