"""Contexts of a made-up machine, and what a task counts and takes there."""

from itertools import product

import numpy as np


def machine(levels=(3, 3, 3)):
    """Ways, bandwidth [MB/s] and clock [GHz] of a grid, (n, 3)."""
    axes = [
        np.linspace(2, 20, levels[0]),
        np.geomspace(70, 1400, levels[1]),
        np.linspace(1.2, 2.3, levels[2]),
    ]
    return np.array(list(product(*axes)))


def task(contexts, noise=0.01, seed=0):
    """Time [s] (n,) and requests and misses (n, 2) at contexts, by a law that no fit knows."""
    rng = np.random.default_rng(seed)
    ways, bandwidth, clock = contexts.T
    requests = np.full(len(contexts), 5e6)
    misses = 4e6 * np.exp(-ways / 7.0) + 2e5
    time = 0.9 / clock + 5e-8 * misses + 40.0 * misses / (bandwidth * 1e6) * 3.0
    counts = np.column_stack([requests, misses])
    counts *= np.exp(0.1 * noise * rng.standard_normal(counts.shape))
    return time * np.exp(noise * rng.standard_normal(len(time))), counts
