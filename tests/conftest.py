"""For every test: no window opens, 64-bit floats, strict dtypes, checked shapes, repeatable random input."""

import os

os.environ["MPLBACKEND"] = "Agg"  # also for the subprocesses that tests start

import hypothesis
import jax
import jaxtyping

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Must come before the first import of fdsolve: only modules imported after this line are checked.
jaxtyping.install_import_hook("fdsolve", "beartype.beartype")

hypothesis.settings.register_profile(
    "fdsolve", deadline=None, derandomize=True, max_examples=25, print_blob=True
)
hypothesis.settings.load_profile("fdsolve")
