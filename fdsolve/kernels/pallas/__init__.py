"""The march on NVIDIA GPUs: one generated kernel advances every field by one or several levels a launch."""

from ._launch import ROADS as ROADS
from ._launch import Options as Options
from ._march import march as march
from ._march import march_on_gpu as march_on_gpu
from ._march import march_portably as march_portably
from ._march import why_not as why_not
