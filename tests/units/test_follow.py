"""Units by themselves: names read, systems of units, and what operations do to units."""

import copy
import pickle
import re
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import saiunit as u
from jax import lax

import fdsolve as fd
from fdsolve.units import (
    ONE,
    Follower,
    System,
    UnitName,
    UnitsDiffer,
    UnitsNotTaken,
    Worth,
    measure_of,
    to_unit,
)

LENGTH, TIME, WARMTH = (measure_of(unit) for unit in (u.meter, u.second, u.kelvin))
SPEED = LENGTH / TIME


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("K", u.kelvin),
        ("W/(m K)", u.watt / (u.meter * u.kelvin)),
        ("W m-1 K-1", u.watt / (u.meter * u.kelvin)),
        ("W/m/K", u.watt / (u.meter * u.kelvin)),
        ("m**2/s", u.meter**2 / u.second),
        ("m²·s⁻¹", u.meter**2 / u.second),
        ("J/(kg·K)", u.joule / u.kgram / u.kelvin),
        ("1/s", 1 / u.second),
        ("m^(1/2)", u.meter**0.5),
        ("days", u.day),
        ("1", u.UNITLESS),
        ("hPa", u.hpascal),
    ],
)
def test_names_of_units_are_read(text, unit):
    assert measure_of(to_unit(text)).is_like(measure_of(unit))


@pytest.mark.parametrize(
    "text", ["degC", "°C", "degree F", "J/°C", "furlong", "", "(m", "m)", "2 m", "m^", "/", "m//s", None]
)
def test_other_names_are_none(text):
    assert to_unit(text) is None


def test_a_name_keeps_its_unit_through_copies():
    name = UnitName("m/s", u.meter / u.second)
    for one in (copy.deepcopy(name), pickle.loads(pickle.dumps(name))):
        assert one == "m/s" and to_unit(one) == u.meter / u.second


def test_systems_of_units():
    system = System.of([("km", measure_of(u.kmeter)), ("d", measure_of(u.day)), ("hPa", measure_of(u.hpascal))])
    assert system.coherent and system.show(measure_of(u.kelvin / (u.kmeter * u.day))) == "K/(km d)"
    assert system.factor(measure_of(u.meter / u.second)) == pytest.approx(86.4, rel=1e-15)
    assert system.factor(measure_of(u.hpascal)) == 1.0
    assert not System.of([("km", measure_of(u.kmeter)), ("m", LENGTH)]).coherent
    assert System().show(ONE) == "no unit" and System().show(ONE / TIME**2) == "1/s^2"


def follow(function, *measures, shapes=None):
    shapes = shapes or [()] * len(measures)
    closed = jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(shape, float) for shape in shapes))
    inputs = [Worth(measure, sources=frozenset({str(i)})) for i, measure in enumerate(measures)]
    (result,) = Follower(()).follow([closed.jaxpr], [closed.consts], inputs)
    return result


OPERATIONS = {
    "sums": (lambda v, w: 2 * v - jnp.maximum(v, w), (SPEED, SPEED), SPEED),
    "numbers written out": (lambda v: jnp.where(v > 3.0, v, 0.0) + 1.0, (SPEED,), SPEED),
    "quotients": (lambda x, t: x / t, (LENGTH, TIME), SPEED),
    "roots": (lambda x, y: jnp.sqrt(x**2 + y * y), (LENGTH, LENGTH), LENGTH),
    "powers": (lambda x: x**1.5 / jnp.cbrt(x), (LENGTH,), LENGTH ** Fraction(7, 6)),
    "functions of pure numbers": (lambda x, y: jnp.exp(-x / y) * jnp.tanh(x / y), (LENGTH, LENGTH), ONE),
    "angles": (jnp.arctan2, (LENGTH, LENGTH), ONE),
    "inner functions": (jax.jit(lambda x, t: jax.nn.relu(x) / t), (LENGTH, TIME), SPEED),
    "branches": (lambda x: lax.cond(x > 1.0, lambda y: 2 * y, lambda y: y, x), (LENGTH,), LENGTH),
    "loops": (lambda x: lax.fori_loop(0, 3, lambda _, y: y + x, 0.0), (LENGTH,), LENGTH),
    "loops over arrays": (
        lambda x, t: lax.scan(lambda y, z: (y + z * x, y), 0.0 * x, jnp.ones(3) / t)[0],
        (LENGTH, TIME),
        SPEED,
    ),
    "loops that stop": (
        lambda x: lax.while_loop(lambda y: y[0] < 3, lambda y: (y[0] + 1, y[1] + x), (0, 0.0))[1],
        (LENGTH,),
        LENGTH,
    ),
    "zero times anything": (lambda x, t: 0.0 * x + t, (LENGTH, TIME), TIME),
}


@pytest.mark.parametrize(("function", "given", "expected"), OPERATIONS.values(), ids=OPERATIONS)
def test_units_follow_operations(function, given, expected):
    found = follow(function, *given)
    assert found.known and found.measure is not None and found.measure.is_like(expected)


def test_units_follow_operations_on_arrays():
    def function(a, b):
        return jnp.sum(jnp.concatenate([a, jnp.zeros(2)])[1:] * 2.0) * (a @ b) + jnp.sort(a)[0] ** 2 * b[0]

    found = follow(function, LENGTH, SPEED, shapes=[(3,), (3,)])
    assert found.measure is not None and found.measure.is_like(LENGTH**2 * SPEED)


@pytest.mark.parametrize(
    "function",
    [lambda x, t: x + t, lambda x, t: jnp.where(x > 0, x, t), lambda x, t: x < t, lambda x, t: jnp.hypot(x, t)],
    ids=["sum", "choice", "comparison", "root"],
)
def test_terms_in_different_units_are_found(function):
    with pytest.raises(UnitsDiffer) as raised:
        follow(function, LENGTH, TIME)
    assert raised.value.first.sources | raised.value.second.sources == {"0", "1"}


@pytest.mark.parametrize("function", [jnp.exp, jnp.sin, lambda x: 2.0**x, lambda x: jnp.floor(x)])
def test_functions_of_pure_numbers_take_no_units(function):
    with pytest.raises(UnitsNotTaken):
        follow(function, LENGTH)


def test_what_has_no_rule_is_not_known():
    found = follow(lambda a: jnp.linalg.eigvalsh(a)[0], LENGTH, shapes=[(2, 2)])
    assert not found.known
    assert follow(lambda a: jnp.linalg.eigvalsh(a)[0], ONE, shapes=[(2, 2)]).known


def test_numbers_that_change_with_lengths_are_powers_of_a_length():
    follower = Follower((LENGTH,))
    assert follower.number([1.0, 1 / 16]).measure == LENGTH ** Fraction(-2)
    assert follower.number([np.array([0.0, 2.0]), np.array([0.0, 4.0])]).measure == LENGTH ** Fraction(1, 2)
    assert follower.number([3.0, 3.0]).measure is None and follower.number([0.0, 0.0]).is_zero
    assert not follower.number([1.0, 3.0]).known and not follower.number([np.ones(2), np.array([1.0, 4.0])]).known


def test_saiunit_is_not_loaded_by_the_package():
    sources = [path.read_text(encoding="utf-8") for path in Path(fd.__file__).parent.rglob("*.py")]
    assert sources and not [text for text in sources if re.search(r"^\s*(import|from) saiunit", text, re.MULTILINE)]
