"""Which coordinates, length scales and nuggets predict held-out contexts best.

Coordinate descent, quantity by quantity, over grids of length scales and nuggets, on the weighted
mean square of what the folds leave over; and one resource after the other over its coordinate.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.machine import available_cores
from msbgen.trend.coordinates import COORDINATES, Coordinates
from msbgen.trend.folds import Folds
from msbgen.trend.problem import Parameters, Problem
from msbgen.trend.smooth import SMOOTHERS, Smoother

Floats = NDArray[np.float64]

LENGTHS = np.array([0.15, 0.25, 0.4, 0.6, 1.0, 1.6, 2.5, 4.0, 8.0])
NUGGETS = np.array([1e-5, 1e-4, 1e-3, 1e-2, 1e-1])
# Where the search starts, and what stands where there is too little to choose from: 1.6, 1e-3.
_FIRST_LENGTH, _FIRST_NUGGET = 5, 2
# A step has to lower the error by this share, a sweep by that, for the search to go on.
_STEP, _SWEEP, _MOST_SWEEPS = 1e-3, 1e-2, 4
# Another coordinate has to lower the held-out error by this factor.
_COORDINATE_GAIN = 0.8
# Directions that hold less of a quantity than this are left out of a search.
_FAINT = 1e-5
# Bins that stand for all in a search where their noise differs.
_SOME_BINS = 40


@dataclass(frozen=True)
class Place:
    """A point of the grids for one quantity: indices, and the held-out mean square there."""

    lengths: tuple[int, ...]
    nugget: int
    error: float


@dataclass(frozen=True)
class Choice:
    """What was chosen.

    Attributes
    ----------
    names : tuple of str
        Coordinate of each resource.
    form : str
    places : tuple of Place
        One a quantity.
    """

    names: tuple[str, ...]
    form: str
    places: tuple[Place, ...]

    @property
    def parameters(self) -> Parameters:
        """Length scales and nuggets."""
        lengths = np.array([LENGTHS[list(place.lengths)] for place in self.places])
        return Parameters(
            self.form, lengths, np.array([NUGGETS[place.nugget] for place in self.places])
        )

    @property
    def error(self) -> float:
        """Held-out mean squares, summed over the quantities."""
        return float(sum(place.error for place in self.places))


def default_choice(names: tuple[str, ...], form: str, n_quantities: int) -> Choice:
    """The same for every quantity, its error unknown, that is infinite."""
    place = Place((_FIRST_LENGTH,) * len(names), _FIRST_NUGGET, np.inf)
    return Choice(names, form, (place,) * n_quantities)


class Search:
    """Chooses on the held-out folds of one problem.

    Parameters
    ----------
    contexts : ndarray, (n, m)
    problem : Problem
        Of these contexts, in any coordinates.
    """

    def __init__(self, contexts: Floats, problem: Problem) -> None:
        self._contexts, self._folds = contexts, problem.folds
        self._columns = [
            _few_columns(problem.centred[..., k], problem.noise[..., k], problem.share[k])
            for k in range(problem.amounts.shape[2])
        ]

    def improve(self, start: Choice) -> Choice:
        """Better length scales and nuggets in the same coordinates and form."""
        z = Coordinates.of(start.names, self._contexts).scaled(self._contexts)
        smoother = SMOOTHERS[start.form](z)
        varies = np.ptp(z, axis=0) > 0

        def one(job: tuple[tuple[Floats, Floats], Place]) -> Place:
            return _descend(smoother, self._folds, *job[0], varies, job[1])

        jobs = zip(self._columns, start.places)
        with ThreadPoolExecutor(available_cores()) as pool:  # quantities are independent
            return Choice(start.names, start.form, tuple(pool.map(one, jobs)))

    def improve_coordinates(self, start: Choice) -> Choice:
        """Another coordinate of one resource after the other where held-out contexts gain."""
        best = start
        for r, column in enumerate(self._contexts.T):
            if len(np.unique(column)) < 3 or column.min() <= 0:
                continue  # two levels fit any coordinate, and zero has no logarithm
            for name in COORDINATES[1:]:
                names = (*best.names[:r], name, *best.names[r + 1 :])
                tried = self.improve(Choice(names, best.form, best.places))
                if tried.error < _COORDINATE_GAIN * best.error:
                    best = tried
        return best


def _few_columns(centred: Floats, noise: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Values of one quantity (n, columns) and their noise that stand for all bins in a search."""
    values = centred * np.sqrt(share)
    if np.all(noise == noise[:, :1]):
        # an orthogonal change of the bins keeps the sum of squares and leaves few columns
        u, s, _ = np.linalg.svd(values, full_matrices=False)
        kept = s > _FAINT * max(s[0], 1e-300)
        return u[:, kept] * s[kept], noise[:, : kept.sum()]
    some = np.argsort(-share)[:: max(1, len(share) // _SOME_BINS)]
    return values[:, some], noise[:, some]


def _descend(
    smoother: Smoother,
    folds: Folds,
    values: Floats,
    noise: Floats,
    varies: NDArray[np.bool_],
    start: Place,
) -> Place:
    """Coordinate descent over the grids on the held-out error of one quantity."""
    if values.shape[1] == 0 or not np.any(values):
        return Place(start.lengths, start.nugget, 0.0)
    seen: dict[tuple[int, ...], Place] = {}

    def at(lengths: tuple[int, ...], nugget: int) -> Place:
        place = (*lengths, nugget)
        if place not in seen:
            errors = smoother.left_out(
                values, noise, LENGTHS[list(lengths)], float(NUGGETS[nugget]), folds
            )
            square = float(folds.weight @ (errors**2).sum(axis=1))
            seen[place] = Place(lengths, nugget, square)
        return seen[place]

    def step(place: Place, axis: int, by: int) -> Place | None:
        """The neighbour along one axis, the nugget last; None beyond the grid."""
        if axis == len(place.lengths):
            nugget = place.nugget + by
            return at(place.lengths, nugget) if 0 <= nugget < len(NUGGETS) else None
        length = place.lengths[axis] + by
        if not 0 <= length < len(LENGTHS):
            return None
        return at((*place.lengths[:axis], length, *place.lengths[axis + 1 :]), place.nugget)

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
