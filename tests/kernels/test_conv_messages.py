"""What `fd.kernels.conv` and its kin say to wrong arguments."""

import jax.numpy as jnp
import pytest

import fdsolve as fd

LINE, WINDOW = jnp.ones((1, 4, 8), jnp.float32), jnp.ones((2, 4, 3), jnp.float32)
PLAIN = (LINE, WINDOW, (1,), "VALID")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window_strides": (0,)}, "window_strides= takes 1 integers of at least 1"),
        ({"window_strides": (1, 1)}, "window_strides= takes 1 integers"),
        ({"rhs_dilation": (0,)}, "rhs_dilation= takes 1 integers of at least 1"),
        ({"lhs_dilation": (-1,)}, "lhs_dilation= takes 1 integers of at least 1"),
        ({"padding": "around"}, "padding= takes"),
        ({"padding": [(1, 1), (1, 1)]}, "padding= takes an entry for each of 1 axes, got 2"),
        ({"padding": [(-6, -6)]}, "cuts more points off axis 0 than the 8 it has"),
        ({"dimension_numbers": ("NCX", "OIX", "NCY")}, "name the same spatial axes"),
        ({"dimension_numbers": ("NXX", "OIX", "NCX")}, "names each of 3 axes by a letter of its own"),
        ({"dimension_numbers": 3}, "dimension_numbers= takes None, three strings"),
        ({"feature_group_count": 2}, "Give rhs 2 input features, or change feature_group_count"),
        ({"feature_group_count": 0}, "are at least 1"),
        ({"feature_group_count": 4, "batch_group_count": 2}, "at most one of them is more"),
        ({"batch_group_count": 2}, "divides the batch of lhs, which is 1"),
        ({"precision": "sharp"}, "precision= takes None, a jax.lax.Precision, a string"),
        ({"preferred_element_type": jnp.int32}, "Convert the result instead"),
    ],
)
def test_wrong_arguments_are_named_with_a_remedy(options, words):
    given = dict(zip(("lhs", "rhs", "window_strides", "padding"), PLAIN, strict=True)) | options
    with pytest.raises(fd.errors.DeclarationError) as error:
        fd.kernels.conv(given.pop("lhs"), given.pop("rhs"), given.pop("window_strides"), given.pop("padding"), **given)
    assert words in str(error.value)


def test_operands_that_do_not_fit_together():
    with pytest.raises(fd.errors.DeclarationError, match=r"Add axes of one point: lhs\[None, None\]"):
        fd.kernels.conv(jnp.ones(8), WINDOW, (1,), "VALID")
    with pytest.raises(fd.errors.DeclarationError, match=r"Convert one: rhs.astype\(lhs.dtype\)"):
        fd.kernels.conv(LINE, WINDOW.astype(jnp.float64), (1,), "VALID")


def test_a_transpose_of_many_axes_wants_its_layout():
    with pytest.raises(fd.errors.DeclarationError, match="Give dimension_numbers="):
        fd.kernels.conv_transpose(jnp.ones((1, 1, 2, 2, 2, 2)), jnp.ones((1, 1, 2, 2, 2, 2)), (1,) * 4, "VALID")
