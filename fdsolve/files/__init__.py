"""Files: Datasets written to NetCDF and Zarr and read again, streams that are written while a run goes on."""

from ._need import need as need

ZarrStream = open_dataset = None
