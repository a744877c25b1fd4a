"""A small platform for every test of decisions."""

import numpy as np
import pytest

from platforms import make_table, make_truth, rising_speeds


@pytest.fixture
def small():
    """Two tasks, two shared resources and a clock: levels, tables, truth with three runs."""
    rng = np.random.default_rng(5)
    levels = {"ways": [1.0, 2.0, 3.0, 4.0], "bandwidth": [70.0, 140.0, 210.0], "clock": [1.0, 2.0]}
    tables, seconds = {}, {}
    for name, ends in (("a", [0.25, 0.75, 1.0]), ("b", [0.5, 1.0])):
        speed = 2 + rising_speeds(rng, len(ends), levels)
        tables[name] = make_table(speed, ends, levels, name)
        phase = np.searchsorted(ends, (np.arange(16) + 0.5) / 16)
        pace = (1 / speed).reshape(len(ends), -1)[phase].T / 16  # (contexts, stretches)
        seconds[name] = pace * (1 + 0.05 * rng.random((3, 1, 16)))
    return levels, tables, make_truth(seconds, levels)
