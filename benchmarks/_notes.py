"""Why a bar of the kernels is missed, by problem, points along an axis and precision: shown beside the row."""

_CACHE = "In the cache all march as fast as they compute; a solve also makes its first level and hands over the last."
_LEAPFROG = "32 steps do not hide the making of two levels of 64 MiB and a coefficient, nor the handing over of one."
_PLANES = (
    "Few steps do not hide the making of the first levels. Planes are cut along their second axis up to order 4;"
    " at order 8 blocks gained too little."
)

NOTES: dict[tuple[str, int, str], str] = {
    ("heat2d", 1024, "float32"): _CACHE,
    **{(f"acoustic2d_{order}", 4096, dtype): _LEAPFROG for order in (2, 4, 8) for dtype in ("float32", "float64")},
    **{
        (name, 256, dtype): _PLANES
        for name in ("heat3d", "acoustic3d_2", "acoustic3d_4", "acoustic3d_8")
        for dtype in ("float32", "float64")
    },
}
