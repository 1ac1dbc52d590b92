"""Films: a drawing that shows one level after the other, written as GIF or MP4."""

import importlib
import shutil
from numbers import Real
from pathlib import Path
from typing import Any

from ..errors import DeclarationError
from ._request import Drawn


def write_film(drawn: Drawn, levels: list[int], path: Path, fps: Any, dpi: Any) -> Path:
    """Writes a frame for each of the levels."""
    from matplotlib import pyplot as plt

    writer, settings = _writer(path, fps)
    assert drawn.update is not None
    figure = drawn.figure
    try:
        drawn.update(levels[-1])  # the longest texts, so that nothing moves from frame to frame
        figure.canvas.draw()
        figure.set_layout_engine("none")
        path.parent.mkdir(parents=True, exist_ok=True)
        with plt.rc_context(settings), writer.saving(figure, str(path), dpi):
            for level in levels:
                drawn.update(level)
                writer.grab_frame()
    finally:
        plt.close(figure)
    return path


def _writer(path: Path, fps: Any) -> tuple[Any, dict[Any, Any]]:
    """What writes a file of this ending, and the settings of matplotlib that it wants."""
    from matplotlib import animation

    if isinstance(fps, bool) or not isinstance(fps, Real) or not 0 < float(fps) <= 100:
        raise DeclarationError(f"fps= takes frames a second, a number above 0 and up to 100; got {fps!r}.")
    rate: Any = fps
    ending = path.suffix.lower()
    if ending == ".gif":
        return animation.PillowWriter(fps=rate), {}
    if ending != ".mp4":
        raise DeclarationError(f"A film ends in .gif or .mp4, got {str(path)!r}.")
    program = find_ffmpeg()
    if program is None:
        raise DeclarationError(
            f"MP4 is written by ffmpeg, which was not found on the path. Install it (https://ffmpeg.org), or write "
            f"pip install 'fdsolve[film]', which brings it, or {path.with_suffix('.gif').name!r}, which needs nothing "
            f"more."
        )
    writer = animation.FFMpegWriter(fps=rate, codec="h264", extra_args=["-pix_fmt", "yuv420p", "-vf", _EVEN])
    return writer, {"animation.ffmpeg_path": program}


def find_ffmpeg() -> str | None:
    """The program: the one matplotlib is set to (`ffmpeg` on the path), else that of imageio-ffmpeg, if installed."""
    from matplotlib import rcParams

    found = shutil.which(rcParams["animation.ffmpeg_path"])
    if found is not None:
        return found
    try:
        return str(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return None


_EVEN = "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white"
"""The codec wants even numbers of pixels."""
