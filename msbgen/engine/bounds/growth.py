"""Growth of errors with the gap: levels that are left out, alone and with the level beside.

Without two neighbouring levels, the gap around each is wider than without one.  The ratio of the
errors of the same contexts shows how errors grow with the gap, so that the errors in the narrower
gaps between measured levels can be estimated.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import are_many, inner_levels
from msbgen.engine.bounds.left_out import LeftOut, in_segments
from msbgen.engine.trend.deviations import level_gaps
from msbgen.engine.trend.folds import Folds

Floats = NDArray[np.float64]

# Least ratio of squared gaps from which growth is computed.
_LEAST_RATIO = 1.5
_TINY = 1e-300


@dataclass(frozen=True)
class Growth:
    """Ratios at levels of a resource that are left out with the level beside, over alone."""

    errors: float  # of the mean square errors of a quantity
    gaps: float  # of the mean squared gaps

    @property
    def constant(self) -> float:
        """Share c of the error alone that does not depend on the gap, from 0 to 1.

        By c + (1 − c) · gaps = errors.
        """
        gaps = max(self.gaps, _LEAST_RATIO)
        return float(np.clip((gaps - self.errors) / (gaps - 1.0), 0.0, 1.0))


def level_growth(left_out: LeftOut) -> list[dict[int, Growth]]:
    """Growth of the errors of each quantity by resource, for resources with four levels or more.

    Errors are those of the trend in each segment, in closed form.  Of many contexts, levels are
    close, and there is none.
    """
    trend, segments = left_out.trend, left_out.segments
    known, n_quantities = trend.contexts, left_out.predicted.shape[2]
    found: list[dict[int, Growth]] = [{} for _ in range(n_quantities)]
    levels = [] if are_many(known) else inner_levels(known)
    pairs = [
        (r, np.concatenate([rows, beside]))
        for (r, rows), (other, beside) in pairwise(levels)
        if r == other
    ]
    if not pairs:
        return found
    groups = [*levels, *pairs]
    folds = Folds.of_levels(groups)
    members = folds.members
    amounts = left_out.centre.known_states()[members], trend.left_out(folds)
    measured, predicted = (np.log(in_segments(a, segments) + left_out.floor) for a in amounts)
    square = ((measured - predicted) ** 2).mean(axis=1)
    gap = np.concatenate([_squared_gaps(left_out, r, rows) for r, rows in groups])
    resource = np.repeat([r for r, _ in groups], [len(rows) for _, rows in groups])
    is_pair = np.arange(len(members)) >= folds.ends[len(levels) - 1]
    for r in {r for r, _ in pairs}:
        together, alone = (np.flatnonzero((resource == r) & (is_pair == own)) for own in (1, 0))
        order = np.argsort(members[alone])
        place = np.searchsorted(members[alone], members[together], sorter=order)
        alone = alone[order[place]]  # rows of the same contexts
        gaps = gap[together].mean() / max(gap[alone].mean(), _TINY)
        errors = square[together].mean(axis=0) / np.maximum(square[alone].mean(axis=0), _TINY)
        for quantity, ratio in enumerate(errors):
            found[quantity][int(r)] = Growth(float(ratio), float(gaps))
    return found


def _squared_gaps(left_out: LeftOut, resource: int, rows: NDArray[np.intp]) -> Floats:
    """Squared gaps of known contexts at levels that are left out, (rows,)."""
    z = left_out.known
    new = np.zeros((len(rows), z.shape[1]), dtype=bool)
    new[:, resource] = True
    kept = np.delete(z, rows, axis=0)
    return level_gaps(new, z[rows], kept, left_out.trend.lengths[0])[:, resource] ** 2
