"""The registry: what may be registered, what is found, and a kernel's own rules of differentiation."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve import kernels


@dataclass(frozen=True)
class Doubling:
    """A call of the tests' own operation."""

    operation: ClassVar[str] = "tests.double"
    size: int
    platform: str = "cpu"


@pytest.fixture(autouse=True)
def clean():
    yield
    for kernel in kernels.available():
        if kernel.operation.startswith("tests.") or kernel.backend.startswith("tests."):
            kernels.withdraw(kernel.operation, kernel.backend)
    kernels.forget()


def plain(call, x):
    """Twice as much."""
    return x + x


def test_a_kernel_is_found_by_operation_and_name_and_called():
    kernels.register("tests.double", backend="plain", priority=3)(plain)
    kernel = kernels.get("tests.double", "plain")
    assert kernels.available("tests.double") == (kernel,) and "tests.double" in kernels.operations()
    assert kernel(Doubling(2), jnp.ones(2)).tolist() == [2.0, 2.0]
    assert repr(kernel) == "Kernel(tests.double: plain, any, priority 3)"
    assert "| tests.double | `plain` | any | 3 | Twice as much. |" in kernels.support_table()


def test_the_decorator_gives_the_function_back():
    assert kernels.register("tests.double", backend="plain")(plain) is plain


@pytest.mark.parametrize(
    "names, served", [("any", ("cpu", "gpu")), ("gpu", ("gpu",)), (("cpu", "gpu"), ("cpu", "gpu"))]
)
def test_platforms(names, served):
    kernels.register("tests.double", backend="plain", platform=names)(plain)
    kernel = kernels.get("tests.double", "plain")
    assert tuple(p for p in ("cpu", "gpu") if kernel.refusal(Doubling(1, p)) is None) == served


@pytest.mark.parametrize(
    "answer, refusal",
    [
        (None, None),
        (True, None),
        (False, "does not serve this call"),
        ("numba is not installed", "numba is not installed"),
    ],
)
def test_what_a_kernel_serves(answer, refusal):
    kernels.register("tests.double", backend="plain", serves=lambda call: answer)(plain)
    assert kernels.get("tests.double", "plain").refusal(Doubling(1)) == refusal


def test_a_kernel_that_is_not_there():
    with pytest.raises(
        fd.DeclarationError, match=r"No kernel serves an operation `tests.none`; the operations are .*`stencil`"
    ):
        kernels.get("tests.none", "plain")
    with pytest.raises(fd.DeclarationError, match=r"`stencil` has no kernel called `nothing`; it has `slices`"):
        kernels.get("stencil", "nothing")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(operation="", backend="b"), "operation= names it"),
        (dict(operation="tests.double", backend="auto"), "other than 'auto' and 'tune'; got 'auto'"),
        (dict(operation="tests.double", backend="b", platform="tpu"), 'platform= takes "any", "cpu", "gpu"'),
        (dict(operation="tests.double", backend="b", priority=True), "priority= takes an integer"),
    ],
)
def test_what_cannot_be_registered(arguments, message):
    with pytest.raises(fd.DeclarationError, match=message):
        kernels.register(**arguments)


def test_only_functions_are_kernels():
    with pytest.raises(fd.DeclarationError, match=r"decorates a function f\(call, \*operands\), got 3"):
        kernels.register("tests.double", backend="b")(3)  # type: ignore[arg-type]


def test_a_name_belongs_to_one_function_until_it_is_withdrawn():
    kernels.register("tests.double", backend="plain")(plain)
    with pytest.raises(fd.DeclarationError, match=r"has a kernel called `plain` already, .*plain\. Choose another"):
        kernels.register("tests.double", backend="plain")(lambda call, x: x)
    kernels.withdraw("tests.double", "plain")
    kernels.register("tests.double", backend="plain")(lambda call, x: x)
    with pytest.raises(fd.DeclarationError, match="No kernel serves"):
        kernels.withdraw("tests.nothing", "plain")


def test_a_function_defined_again_replaces_its_older_self():
    def define(factor):
        def scale(call, x):
            return factor * x

        kernels.register("tests.double", backend="scale")(scale)

    define(2.0)
    define(3.0)
    assert kernels.get("tests.double", "scale")(Doubling(1), jnp.ones(1)).tolist() == [3.0]


def test_a_kernel_defined_again_is_not_served_from_an_older_program():
    grid = fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=4, periodic=True))
    u = fd.Field("u", grid)
    u[...] = lambda u: 0.5 * (u["t-1", "x-1"] + u["t-1", "x+1"])
    u[0] = 1.0

    def solve(factor):
        def scaled(call, values, weights):
            return factor * kernels.get("stencil", "slices")(call, values, weights)

        kernels.register("stencil", backend="tests.scaled", priority=-50)(scaled)
        found = fd.solve(u, kernel="tests.scaled").final["u"]
        kernels.withdraw("stencil", "tests.scaled")
        return np.unique(found)

    assert solve(1.0) == 1.0
    assert solve(3.0) == 9.0


def test_priority_may_depend_on_the_call():
    kernels.register("tests.double", backend="small", priority=lambda call: 10 if call.size < 5 else 0)(plain)
    kernels.register("tests.double", backend="large", priority=5)(lambda call, x: 2 * x)
    assert [kernels.select(Doubling(n)).backend for n in (4, 5)] == ["small", "large"]
    assert "by call" in repr(kernels.get("tests.double", "small"))


def test_the_platform_of_a_call_is_its_own_or_that_of_the_default_device():
    assert kernels.platform_of(Doubling(1, "gpu")) == "gpu"
    assert kernels.platform_of(kernels.StencilCall((1,), "f4", ((0,),))) == kernels.detect_platform() == "cpu"


def square(call, x):
    return jax.pure_callback(
        lambda a: np.asarray(a) ** 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential"
    )


def square_tangent(call, operands, tangents):
    return 2 * operands[0] * tangents[0]


def square_transpose(call, operands, cotangent):
    return (2 * operands[0] * cotangent,)


def opaque_tangent(call, operands, tangents):
    """The tangent behind a callback, which JAX cannot transpose."""
    shape = jax.ShapeDtypeStruct(operands[0].shape, operands[0].dtype)
    product = lambda a, b: 2 * np.asarray(a) * np.asarray(b)  # noqa: E731
    return jax.pure_callback(product, shape, operands[0], tangents[0], vmap_method="sequential")


X, V = jnp.asarray([1.5, -2.0]), jnp.asarray([0.25, 4.0])


def register_square(**rules):
    kernels.register("tests.double", backend="square", **rules)(square)
    return lambda x: kernels.get("tests.double", "square")(Doubling(2), x).sum()


@pytest.mark.parametrize("jit", [False, True])
def test_a_kernel_with_its_own_tangent_and_transpose_is_differentiated_by_them(jit):
    f = register_square(tangent=opaque_tangent, transpose=square_transpose)
    wrap = jax.jit if jit else lambda g: g
    assert wrap(jax.grad(f))(X).tolist() == [3.0, -4.0]
    assert wrap(lambda x, v: jax.jvp(f, (x,), (v,)))(X, V)[1] == 2 * 1.5 * 0.25 - 2 * 2 * 4
    many = jnp.stack([X, 2 * X, 3 * X])
    assert wrap(jax.vmap(jax.grad(f)))(many).tolist() == (2 * many).tolist()
    moved = wrap(jax.vmap(lambda x, v: jax.jvp(f, (x,), (v,))[1], in_axes=(0, None)))(many, V)
    np.testing.assert_allclose(moved, (2 * many * V).sum(axis=1), rtol=1e-15)


def test_a_tangent_of_jax_operations_suffices_for_every_order():
    f = register_square(tangent=square_tangent)
    assert jax.grad(f)(X).tolist() == [3.0, -4.0]
    assert jax.hessian(f)(X).tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_both_rules_of_jax_operations_serve_second_derivatives():
    f = register_square(tangent=square_tangent, transpose=square_transpose)
    assert jax.jacfwd(jax.grad(f))(X).tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert jax.jacrev(jax.grad(f))(X).tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_a_transpose_alone_serves_reverse_mode():
    f = register_square(transpose=square_transpose)
    assert jax.grad(f)(X).tolist() == [3.0, -4.0]
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(f, (X,), (V,))


def test_the_catalogue_has_the_table_of_all_kernels():
    """To write it anew: `python -c "import fdsolve; print(fdsolve.kernels.support_table())"`."""
    page = Path(__file__).resolve().parents[2] / "docs" / "catalogue" / "kernels.md"
    assert (
        page.read_text(encoding="utf-8").split("## What there is\n")[1].split("\n\n", 1)[1].strip()
        == kernels.support_table()
    )
