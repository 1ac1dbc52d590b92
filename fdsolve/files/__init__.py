"""Files: Datasets written to NetCDF and Zarr and read again, streams that are written while a run goes on."""

from ._atomic import replace_file as replace_file
from ._atomic import sync as sync
from ._atomic import sync_tree as sync_tree
from ._atomic import to_path as to_path
from ._encoding import time_units as time_units
from ._need import need as need
from ._open import open_dataset as open_dataset
from ._stream import GROWS as GROWS
from ._stream import RUN as RUN
from ._stream import ZarrStream as ZarrStream
from ._stream import check_place as check_place
from ._stream import run_of as run_of
from ._write import to_netcdf as to_netcdf
from ._write import to_zarr as to_zarr
