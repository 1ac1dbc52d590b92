"""Why a bar of the kernels is missed, by problem, points along an axis and precision: shown beside the row."""

NOTES: dict[tuple[str, int, str], str] = {}
