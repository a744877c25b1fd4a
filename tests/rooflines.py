"""A task whose misses a bandwidth caps: four phases on a grid of contexts."""

import numpy as np

from msbgen.engine.trend.caps import throttled

BANDWIDTH = np.array([1.0, 2.0, 4.0, 8.0, 16.0])


def grid(*levels):
    return np.stack([a.ravel() for a in np.meshgrid(*levels, indexing="ij")], axis=1)


KNOWN = grid(BANDWIDTH, [1.0, 1.5, 2.0])


def roofline(contexts, rate=300.0, *, width=0.0, bins=24):
    """Four phases, computing and missing in turn; misses at most `rate` × bandwidth per second.

    Resources are bandwidth [level] and clock.  The free time is a / clock + b · misses; the knee is
    sharp, or rounded by a width.
    """
    level, clock = contexts[:, :1], contexts[:, 1:]
    phase = np.repeat(np.arange(4), bins // 4)
    misses = np.array([20.0, 400.0, 5.0, 1500.0])[phase] * np.ones((len(contexts), 1))
    free = (np.array([1.0, 0.6, 1.5, 0.5])[phase] / clock) + 2e-4 * misses
    least = misses / (rate * level)
    time = throttled(free, least, width)[0] if width else np.maximum(free, least)
    return np.stack([time, misses], axis=2)


def noisy(states, seed=0, scale=0.002):
    return states * np.exp(scale * np.random.default_rng(seed).standard_normal(states.shape))
