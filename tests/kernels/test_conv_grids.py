"""What convolutions are on grids: restriction, prolongation, wide stencils, fields, ensembles, adjoints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fdsolve.kernels import conv, conv_transpose

RESTRICTION = jnp.asarray([0.25, 0.5, 0.25])
PROLONGATION = jnp.asarray([0.5, 1.0, 0.5])
RANDOM = np.random.default_rng(1)
KERNELS = ["taps", "gemm"]


def restrict(fine: jax.Array, kernel: str = "auto") -> jax.Array:
    """Every second point of a periodic line, by full weighting."""
    return conv(fine[None, None], RESTRICTION[None, None], (2,), "periodic", kernel=kernel)[0, 0]


def prolong(coarse: jax.Array, kernel: str = "auto") -> jax.Array:
    """A periodic line twice as fine, interpolated linearly."""
    window = PROLONGATION[None, None]
    return conv(coarse[None, None], window, (1,), "periodic", lhs_dilation=(2,), kernel=kernel)[0, 0]


def laplace(values: jax.Array, step: float) -> jax.Array:
    """−u″ on a periodic line, to second order."""
    return conv(values[None, None], jnp.asarray([[[-1.0, 2.0, -1.0]]]) / step**2, (1,), "periodic")[0, 0]


@pytest.mark.parametrize("kernel", KERNELS)
def test_stride_is_restriction_and_dilation_prolongation(kernel: str) -> None:
    fine, coarse = jnp.asarray(RANDOM.standard_normal(12)), jnp.asarray(RANDOM.standard_normal(6))
    weighted = 0.25 * jnp.roll(fine, 1) + 0.5 * fine + 0.25 * jnp.roll(fine, -1)
    np.testing.assert_allclose(restrict(fine, kernel), weighted[::2], rtol=1e-14)
    between = jnp.stack([coarse, 0.5 * (coarse + jnp.roll(coarse, -1))], 1).ravel()
    np.testing.assert_allclose(prolong(coarse, kernel), between, rtol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_adjoint_of_restriction_is_half_of_prolongation(kernel: str) -> None:
    fine, coarse = jnp.asarray(RANDOM.standard_normal(12)), jnp.asarray(RANDOM.standard_normal(6))
    _, back = jax.vjp(lambda u: restrict(u, kernel), fine)
    np.testing.assert_allclose(back(coarse)[0], 0.5 * prolong(coarse), rtol=1e-14)


def test_the_coarse_operator_of_galerkin_is_that_of_the_coarse_grid() -> None:
    step, coarse = 0.1, jnp.asarray(RANDOM.standard_normal(8))
    np.testing.assert_allclose(restrict(laplace(prolong(coarse), step)), laplace(coarse, 2 * step), rtol=0, atol=1e-11)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_prolongation_between_walls_keeps_what_is_constant(mode: str) -> None:
    """Nodes (walls on the end points) and cells (walls between): the mirrored values continue a field of no slope."""
    flat = jnp.full((1, 1, 5), 3.0)
    fine = conv(flat, PROLONGATION[None, None], (1,), mode, lhs_dilation=(2,))
    assert fine.shape == (1, 1, 9 if mode == "reflect" else 10)
    np.testing.assert_allclose(fine, 3.0, rtol=1e-15)
    np.testing.assert_allclose(conv(flat, RESTRICTION[None, None], (2,), mode), 3.0, rtol=1e-15)


def test_right_dilation_is_a_wide_stencil() -> None:
    values = jnp.asarray(RANDOM.standard_normal((1, 1, 16)))
    window = jnp.asarray([[[1.0, -2.0, 1.0]]])
    wide = conv(values, window, (1,), "periodic", rhs_dilation=(3,))
    u = values[0, 0]
    np.testing.assert_allclose(wide[0, 0], jnp.roll(u, 3) - 2 * u + jnp.roll(u, -3), rtol=0, atol=1e-14)


def test_feature_groups_are_one_stencil_a_field() -> None:
    fields = jnp.asarray(RANDOM.standard_normal((1, 3, 6, 5)))
    stencils = jnp.asarray(RANDOM.standard_normal((3, 1, 3, 3)))
    together = conv(fields, stencils, (1, 1), "periodic", feature_group_count=3)
    for k in range(3):
        alone = conv(fields[:, k : k + 1], stencils[k : k + 1], (1, 1), "periodic")
        np.testing.assert_allclose(together[:, k : k + 1], alone, rtol=0, atol=1e-14)


def test_batch_groups_are_one_stencil_a_member() -> None:
    members = jnp.asarray(RANDOM.standard_normal((4, 1, 9)))
    stencils = jnp.asarray(RANDOM.standard_normal((4, 1, 3)))
    together = conv(members, stencils, (1,), "reflect", batch_group_count=4)
    assert together.shape == (1, 4, 9)
    for k in range(4):
        alone = conv(members[k : k + 1], stencils[k : k + 1], (1,), "reflect")
        np.testing.assert_allclose(together[0, k], alone[0, 0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_transposes_are_adjoints(kernel: str, padding: str) -> None:
    """⟨v, C u⟩ = ⟨Cᵀ v, u⟩ with Cᵀ = conv_transpose of the same weights, where the extents fit the stride."""
    numbers = ("NCH", "OIH", "NCH")
    u, window = jnp.asarray(RANDOM.standard_normal((1, 2, 13))), jnp.asarray(RANDOM.standard_normal((3, 2, 3)))
    v = conv(u, window, (2,), padding, dimension_numbers=numbers, kernel=kernel)
    _, back = jax.vjp(lambda x: conv(x, window, (2,), padding, kernel=kernel), u)
    given = jnp.asarray(RANDOM.standard_normal(v.shape))
    adjoint = conv_transpose(
        given,
        window,
        (2,),
        padding if padding == "VALID" else [(1, 1)],
        dimension_numbers=numbers,
        transpose_kernel=True,
        kernel="taps",
    )
    np.testing.assert_allclose(adjoint, back(given)[0], rtol=0, atol=1e-13)
    assert abs(float(jnp.vdot(adjoint, u) - jnp.vdot(given, v))) < 1e-12


@pytest.mark.parametrize("kernel", ["taps", "gemm"])
def test_the_adjoint_of_a_periodic_stencil_is_the_mirrored_one(kernel: str) -> None:
    u, window = jnp.asarray(RANDOM.standard_normal((1, 1, 11))), jnp.asarray(RANDOM.standard_normal((1, 1, 5)))
    _, back = jax.vjp(lambda x: conv(x, window, (1,), "periodic", kernel=kernel), u)
    np.testing.assert_allclose(back(u)[0], conv(u, window[..., ::-1], (1,), "periodic"), rtol=0, atol=1e-13)
