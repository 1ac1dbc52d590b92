"""`fdsolve info`: versions, devices, kernels and extras, for a report of a fault or a look around."""

import platform
import re
import sys
from argparse import Namespace
from importlib import metadata

import jax

from .. import kernels

_EXTRAS = {
    "native": ("llvmlite",),
    "adaptive": ("diffrax",),
    "io": ("netCDF4", "h5netcdf", "zarr"),
    "progress": ("tqdm",),
    "implicit": ("scipy",),
    "inversion": ("optax", "optimistix", "lineax"),
    "units": ("saiunit",),
}
"""What each extra brings; asked of the installed package where it is installed."""


def info(options: Namespace) -> int:
    """Prints what runs here."""
    versions = {name: _version(name) or "not installed" for name in ("fdsolve", "jax", "jaxlib", "numpy", "xarray")}
    print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()} ({sys.executable})")
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print(f"64-bit floats: {'on' if jax.config.read('jax_enable_x64') else 'off (--double, or jax_enable_x64)'}")
    print("\nDevices")
    for device in jax.devices():
        print(f"  {device.id}  {device.platform}, {device.device_kind}")
    here = kernels.detect_platform()
    print(f"\nKernels for {here}, the preferred ones first")
    for operation in kernels.operations():
        names = [one.backend for one in kernels.available(operation) if here in one.platforms]
        print(f"  {operation:<22} {', '.join(names) or '–'}")
    print("\nExtras: pip install 'fdsolve[NAME]'")
    for extra, libraries in extras().items():
        found = {name: _version(name) for name in libraries}
        missing = [name for name, version in found.items() if version is None]
        state = "installed" if not missing else "missing" if len(missing) == len(found) else "in part"
        shown = ", ".join(f"{name} {version or '(missing)'}" for name, version in found.items())
        print(f"  {extra:<10} {state:<10} {shown}")
    return 0


def extras() -> dict[str, tuple[str, ...]]:
    """The libraries of each extra that adds to what fdsolve can do."""
    try:
        wanted = metadata.requires("fdsolve") or []
    except metadata.PackageNotFoundError:
        return _EXTRAS
    found: dict[str, list[str]] = {}
    for line in wanted:
        name, extra = re.match(r"[\w.-]+", line), re.search(r"extra\s*==\s*['\"](\w+)['\"]", line)
        if name and extra and extra[1] in _EXTRAS:
            found.setdefault(extra[1], []).append(name[0])
    return {extra: tuple(names) for extra, names in found.items()} or _EXTRAS


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        module = sys.modules.get(name)
        return getattr(module, "__version__", None)
