"""Profiles of a program whose work and time differ between contexts."""

import numpy as np

from msbgen.data.build import make_profiles

CONTEXTS = np.array([(w, f) for w in (2.0, 4.0, 6.0, 8.0, 12.0) for f in (1.0, 1.5, 2.0)])


def worked(factors, seed, clock="instructions"):
    """Measured runs in contexts of which some, by their index, do a multiple of the work."""
    rng = np.random.default_rng(seed)
    interval, runs = 0.02, 4
    factor = np.ones(len(CONTEXTS))
    factor[list(factors)] = list(factors.values())
    seconds = factor / CONTEXTS[:, 1] * (1 + 0.5 / CONTEXTS[:, 0])
    duration = seconds[:, None] * (1 + 0.005 * rng.standard_normal((len(CONTEXTS), runs)))
    counts = np.full((*duration.shape, int(duration.max() / interval) + 1, 1), np.nan)
    for place, length in np.ndenumerate(duration):
        n = int(np.ceil(length / interval))
        work = 1e9 * (length if clock == "task_clock" else factor[place[0]])
        counts[*place, :n, 0] = work / n
    return make_profiles(
        counts, duration, CONTEXTS, interval=interval,
        resources={"ways": {"units": "1"}, "clock": {"units": "GHz"}},
        counters={clock: {}}, attrs={"progress": clock, "task": "worked"},
    )  # fmt: skip
