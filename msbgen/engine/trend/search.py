"""The coordinates, length scales and nuggets that predict left-out contexts best.

Coordinate descent over grids of length scales and nuggets, per quantity, minimises the weighted
mean square error of the folds.  Then each resource in turn tries its other coordinates.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.machine import available_cores
from msbgen.engine.trend.coordinates import COORDINATES, Coordinates
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.problem import Problem, SmoothingParameters
from msbgen.engine.trend.smooth import SMOOTHERS, Smoother

Floats = NDArray[np.float64]

LENGTHS = np.array([0.15, 0.25, 0.4, 0.6, 1.0, 1.6, 2.5, 4.0, 8.0])
NUGGETS = np.array([1e-5, 1e-4, 1e-3, 1e-2, 1e-1])
# The start of the search, and the default of few contexts: 1.6, 1e-3.
_FIRST_LENGTH, _FIRST_NUGGET = 5, 2
# The least shares by which a step and a sweep must lower the error; the most sweeps.
_STEP, _SWEEP, _MOST_SWEEPS = 1e-3, 1e-2, 4
# Another coordinate must lower the held-out error by this factor.
_COORDINATE_GAIN = 0.8
# Principal components smaller than this share of the largest are left out of a search.
_FAINT = 1e-5
# Bins in a search where their noise differs.
_SOME_BINS = 40
# Contexts from which on threads are faster: below, they wait for the interpreter.
_MANY = 200


@dataclass(frozen=True)
class GridPoint:
    """A point of the grids for one quantity: its indices, and the held-out mean square there."""

    lengths: tuple[int, ...]
    nugget: int
    error: float


@dataclass(frozen=True)
class ParameterChoice:
    """Coordinates, form and parameters of a trend."""

    names: tuple[str, ...]  # coordinate of each resource
    form: str
    points: tuple[GridPoint, ...]  # one per quantity

    @property
    def parameters(self) -> SmoothingParameters:
        """Length scales and nuggets."""
        lengths = np.array([LENGTHS[list(point.lengths)] for point in self.points])
        return SmoothingParameters(
            self.form, lengths, np.array([NUGGETS[point.nugget] for point in self.points])
        )

    @property
    def error(self) -> float:
        """Held-out mean squares, summed over the quantities."""
        return float(sum(point.error for point in self.points))


def default_choice(names: tuple[str, ...], form: str, n_quantities: int) -> ParameterChoice:
    """The default point for every quantity, with infinite error."""
    point = GridPoint((_FIRST_LENGTH,) * len(names), _FIRST_NUGGET, np.inf)
    return ParameterChoice(names, form, (point,) * n_quantities)


class ParameterSearch:
    """Search on the held-out folds of one problem of contexts (n, m), in any coordinates."""

    def __init__(self, contexts: Floats, problem: Problem) -> None:
        self._contexts, self._folds = contexts, problem.folds
        self._columns = [
            _few_columns(problem.centred[..., k], problem.noise[..., k], problem.share[k])
            for k in range(problem.amounts.shape[2])
        ]

    def improve(self, start: ParameterChoice) -> ParameterChoice:
        """Better length scales and nuggets in the same coordinates and form."""
        z = Coordinates.of(start.names, self._contexts).scaled(self._contexts)
        smoother = SMOOTHERS[start.form](z)
        varies = np.ptp(z, axis=0) > 0

        def one(job: tuple[tuple[Floats, Floats], GridPoint]) -> GridPoint:
            return _descend(smoother, self._folds, *job[0], varies, job[1])

        jobs = zip(self._columns, start.points)
        if len(z) < _MANY:
            return ParameterChoice(start.names, start.form, tuple(map(one, jobs)))
        with ThreadPoolExecutor(available_cores()) as pool:  # quantities are independent
            return ParameterChoice(start.names, start.form, tuple(pool.map(one, jobs)))

    def improve_coordinates(self, start: ParameterChoice) -> ParameterChoice:
        """Other coordinates, one resource after the other, where they lower the held-out error."""
        best = start
        for r, column in enumerate(self._contexts.T):
            if len(np.unique(column)) < 3 or column.min() <= 0:
                continue  # two levels fit every coordinate, and zero has no logarithm
            for name in COORDINATES[1:]:
                names = (*best.names[:r], name, *best.names[r + 1 :])
                tried = self.improve(ParameterChoice(names, best.form, best.points))
                if tried.error < _COORDINATE_GAIN * best.error:
                    best = tried
        return best


def _few_columns(centred: Floats, noise: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Values (n, columns) and noise that represent all bins of one quantity in a search."""
    values = centred * np.sqrt(share)
    if np.all(noise == noise[:, :1]):
        # an orthogonal transform of the bins keeps the sum of squares, in few columns
        u, s, _ = np.linalg.svd(values, full_matrices=False)
        kept = s > _FAINT * max(s[0], 1e-300)
        return u[:, kept] * s[kept], noise[:, : kept.sum()]
    largest = np.argsort(-share)[:: max(1, len(share) // _SOME_BINS)]
    return values[:, largest], noise[:, largest]


def _descend(
    smoother: Smoother,
    folds: Folds,
    values: Floats,
    noise: Floats,
    varies: NDArray[np.bool_],
    start: GridPoint,
) -> GridPoint:
    """Coordinate descent over the grids on the held-out error of one quantity."""
    if values.shape[1] == 0 or not np.any(values):
        return GridPoint(start.lengths, start.nugget, 0.0)
    evaluated: dict[tuple[int, ...], GridPoint] = {}

    def at(lengths: tuple[int, ...], nugget: int) -> GridPoint:
        key = (*lengths, nugget)
        if key not in evaluated:
            errors = smoother.left_out(
                values, noise, LENGTHS[list(lengths)], float(NUGGETS[nugget]), folds
            )
            square = float(folds.weight @ (errors**2).sum(axis=1))
            evaluated[key] = GridPoint(lengths, nugget, square)
        return evaluated[key]

    def step(point: GridPoint, axis: int, by: int) -> GridPoint | None:
        """The neighbour along one axis, the nugget last; None beyond the grid."""
        if axis == len(point.lengths):
            nugget = point.nugget + by
            return at(point.lengths, nugget) if 0 <= nugget < len(NUGGETS) else None
        length = point.lengths[axis] + by
        if not 0 <= length < len(LENGTHS):
            return None
        return at((*point.lengths[:axis], length, *point.lengths[axis + 1 :]), point.nugget)

    best = at(start.lengths, start.nugget)
    axes = [*np.flatnonzero(varies).tolist(), len(varies)]
    for _ in range(_MOST_SWEEPS):
        before = best.error
        for axis in axes:
            for by in (1, -1):
                while (tried := step(best, axis, by)) and tried.error < best.error * (1 - _STEP):
                    best = tried
        if best.error > before * (1 - _SWEEP):
            break
    return best
