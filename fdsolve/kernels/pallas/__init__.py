"""The march on NVIDIA GPUs: one generated kernel advances every field by one or several levels a launch."""

from ._launch import Options as Options
from ._march import march as march
from ._march import refusal as refusal
