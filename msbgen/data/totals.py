"""Figures of contexts, and what makes one of them outlying."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A figure beyond both is outlying: multiples of the median distance, and a share of the median.
APART, FAR, NORMAL = 5.0, 0.1, 1.4826
# Of fewer figures, none is outlying.
FEW = 5


def by_context(reduce: Callable[..., Any], values: Floats) -> Floats:
    """A figure of the runs of each context, NaN where there is none."""
    if values.size and np.isfinite(values).all():
        return np.asarray(reduce(values, axis=1))
    rows = [row[np.isfinite(row)] for row in values]
    return np.array([reduce(row) if len(row) else np.nan for row in rows])
