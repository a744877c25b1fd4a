"""A small task for jobs of a whole task."""

import numpy as np

from conftest import synthetic_task

GRID = np.array([(w, f) for w in (2.0, 3.0, 4.0, 6.0, 8.0) for f in (1.0, 1.2, 1.5, 1.8, 2.0)])
BETWEEN = np.array([(w, f) for w in (2.5, 5.0, 7.0) for f in (1.1, 1.35, 1.6, 1.9)])


def small_task(contexts, n_runs=4):
    """A task of the platform of :func:`conftest.synthetic_task`, its levels without 3 ways."""
    return synthetic_task(contexts, n_runs)
