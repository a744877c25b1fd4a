"""What hypothesis draws: clouds, weights, snapshots."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays


def clouds(min_rows=1, max_rows=8, columns=None, largest=1e3):
    """Finite points, rows × columns."""
    width = st.integers(1, 3) if columns is None else st.just(columns)
    values = st.floats(-largest, largest, allow_nan=False, width=32)
    return st.tuples(st.integers(min_rows, max_rows), width).flatmap(
        lambda shape: arrays(np.float64, shape, elements=values)
    )
