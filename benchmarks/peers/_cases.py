"""The cases: an equation at a size and a precision, its initial state and coefficients, and the bars on its ratios."""

from dataclasses import dataclass

import numpy as np

from ._equations import AbstractEquation, Acoustic, Burgers, GrayScott, Heat, VariableHeat

DTYPES = ("float32", "float64")
PROBLEMS: dict[str, tuple[AbstractEquation, tuple[int, ...]]] = {
    "heat2d": (Heat(2), (1024, 4096, 8192)),
    "heat2d_variable": (VariableHeat(), (4096,)),
    "acoustic2d_2": (Acoustic(2, 2), (4096,)),
    "acoustic2d_4": (Acoustic(2, 4), (4096,)),
    "acoustic2d_8": (Acoustic(2, 8), (4096,)),
    "burgers2d": (Burgers(), (4096,)),
    "gray_scott": (GrayScott(), (4096,)),
    "heat3d": (Heat(3), (256,)),
    "acoustic3d_2": (Acoustic(3, 2), (256,)),
    "acoustic3d_4": (Acoustic(3, 4), (256,)),
    "acoustic3d_8": (Acoustic(3, 8), (256,)),
    "heat1d": (Heat(1), (2**12, 2**22)),
}
"""Equation and points along each axis, by name."""
COMPARED = tuple(name for name, (equation, _) in PROBLEMS.items() if equation.rank > 1)
"""What is compared with peers, whose loops are parallel over rows."""

BARS = {
    ("heat2d", 4096): 2.0,
    ("burgers2d", 4096): 1.5,
    ("gray_scott", 4096): 1.5,
    ("acoustic2d_2", 4096): 1.3,
    ("acoustic2d_4", 4096): 1.3,
    ("acoustic2d_8", 4096): 1.3,
    ("heat3d", 256): 1.2,
}
"""How many times faster than the best peer, by problem and points along an axis; 1 where nothing is named."""
UPDATES = 2**30
MAX_STEPS = 1024


@dataclass(frozen=True)
class Case:
    """A problem to be solved by all: `steps` levels from the same initial state, the last level wanted."""

    problem: str
    num: int
    dtype: str
    updates: int = UPDATES
    most_steps: int = MAX_STEPS

    def __post_init__(self) -> None:
        if self.problem not in PROBLEMS:
            raise ValueError(f"there is no problem {self.problem!r}; problems: {', '.join(PROBLEMS)}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if self.num <= 2 * self.equation.reach:
            raise ValueError(f"{self.num} points leave no room inside a frame of {self.equation.reach}")

    @property
    def equation(self) -> AbstractEquation:
        """What is solved."""
        return PROBLEMS[self.problem][0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis."""
        return (self.num,) * self.equation.rank

    @property
    def points(self) -> int:
        """Points in all."""
        return self.num**self.equation.rank

    @property
    def steps(self) -> int:
        """An even number of steps, about `updates` point updates in all."""
        return 2 * max(1, min(self.most_steps, self.updates // self.points) // 2)

    @property
    def bytes_a_point(self) -> int:
        """Bytes that one step must move for a point."""
        return self.equation.words * np.dtype(self.dtype).itemsize

    @property
    def bar(self) -> float:
        """Times faster than the best peer."""
        return BARS.get((self.problem, self.num), 1.0)

    @property
    def title(self) -> str:
        """Problem, size and precision in words."""
        return f"{self.problem} {self.num}{('', '²', '³')[self.equation.rank - 1]} {self.dtype}, {self.steps} steps"

    @property
    def tolerance(self) -> float:
        """Largest difference of two answers over the largest value."""
        return 1e-4 if self.dtype == "float32" else 1e-11

    def initial(self) -> list[np.ndarray]:
        """Each field at its first level: smooth noise inside, its edge value on the frame."""
        generator, equation = np.random.default_rng(3), self.equation
        inner = (slice(equation.reach, -equation.reach),) * equation.rank
        found = []
        for edge in equation.edges:
            array = aligned(self.shape, self.dtype, edge)
            size = array[inner].shape
            array[inner] = 0.25 + 0.5 * generator.random(size, np.float32)
            found.append(array)
        return found

    def coefficients(self) -> list[np.ndarray]:
        """The coefficients at every point, within the bounds of stability."""
        generator, found = np.random.default_rng(4), []
        for _ in range(self.equation.num_coefficients):
            array = aligned(self.shape, self.dtype)
            array[...] = 0.02 + 0.04 * generator.random(self.shape, np.float32)
            found.append(array)
        return found


def aligned(shape: tuple[int, ...], dtype: str, value: float = 0.0) -> np.ndarray:
    """A filled array that begins on a line of the cache."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    array = memory[start : start + size].view(dtype).reshape(shape)
    array[...] = value
    return array


def find_cases(
    problems: tuple[str, ...], dtypes: tuple[str, ...], sizes: tuple[int, ...], updates: int, least_steps: int = 2
) -> list[Case]:
    """The cases of these problems (all that are compared, by default), at these sizes or at their own.

    `updates` are those of a problem that moves two numbers a point; one that moves more gets fewer.
    """
    found = []
    for problem in problems or COMPARED:
        equation, own = PROBLEMS[problem]
        for num in sizes or own:
            enough = max(2 * updates // equation.words, least_steps * num**equation.rank)
            found += [Case(problem, num, dtype, enough) for dtype in dtypes or DTYPES]
    return found
