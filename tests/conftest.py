"""For every test: no window opens, 64-bit floats, strict dtypes, checked shapes, repeatable random input."""

import os

os.environ["MPLBACKEND"] = "Agg"  # also for the subprocesses that tests start

# Most of the time of these tests is compilation: half of it is saved by compiling without optimisation. The flag is
# taken back once read, so that scripts which tests start (examples, the README) run as users run them.
given_flags = os.environ.get("XLA_FLAGS")
os.environ["XLA_FLAGS"] = f"{given_flags or ''} --xla_backend_optimization_level=0".strip()

import hypothesis
import jax
import jaxtyping

jax.devices()
if given_flags is None:
    del os.environ["XLA_FLAGS"]
else:
    os.environ["XLA_FLAGS"] = given_flags

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Must come before the first import of fdsolve: only modules imported after this line are checked.
jaxtyping.install_import_hook("fdsolve", "beartype.beartype")

hypothesis.settings.register_profile("fdsolve", deadline=None, derandomize=True, max_examples=25, print_blob=True)
hypothesis.settings.load_profile("fdsolve")
