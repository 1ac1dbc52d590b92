"""Why a bar of the kernels is missed, by problem, points along an axis and precision: shown beside the row."""

_CACHE = "In the cache all march as fast as they compute; a solve also makes its first level and hands over the last."
_LEAPFROG = "32 steps do not hide the making of two levels of 64 MiB and a coefficient, nor the handing over of one."
_PLANES = (
    "Wide stencils read many planes a point: cutting planes along their second axis gains a quarter at order 4, too"
    " little at order 8, which marches whole planes. A solve also makes its first levels in fresh memory."
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
