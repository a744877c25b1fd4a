"""Contexts of a made-up machine, what a task takes there, and faults put into profiles."""

from itertools import product

import numpy as np

from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles


def machine(levels=(3, 3, 3)):
    """Ways, bandwidth [MB/s] and clock [GHz] of a grid, (n, 3)."""
    axes = [
        np.linspace(2, 20, levels[0]),
        np.geomspace(70, 1400, levels[1]),
        np.linspace(1.2, 2.3, levels[2]),
    ]
    return np.array(list(product(*axes)))


def task(contexts, noise=0.01, seed=0):
    """Time [s] (n,) and requests and misses (n, 2) at contexts, by a function that no fit knows."""
    rng = np.random.default_rng(seed)
    ways, bandwidth, clock = contexts.T
    requests = np.full(len(contexts), 5e6)
    misses = 4e6 * np.exp(-ways / 7.0) + 2e5
    time = 0.9 / clock + 5e-8 * misses + 40.0 * misses / (bandwidth * 1e6) * 3.0
    counts = np.column_stack([requests, misses])
    counts *= np.exp(0.1 * noise * rng.standard_normal(counts.shape))
    return time * np.exp(noise * rng.standard_normal(len(time))), counts


def slower(counts, duration, interval, factor, begin=0.0, end=1.0):
    """A run (times, k) slowed down between two shares of its time, sampled as before."""
    counts = counts[np.isfinite(counts).all(axis=1)]
    edges = np.append(interval * np.arange(len(counts)), duration)
    reached = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
    times = np.union1d(edges, duration * np.array([begin, end]))
    spent = duration * (np.clip(times / duration, begin, end) - begin)
    later = times + (factor - 1.0) * spent
    ends = np.append(np.arange(interval, later[-1] - 1e-9, interval), later[-1])
    out = [np.interp(ends, later, np.interp(times, edges, column)) for column in reached.T]
    return np.diff(np.column_stack(out), axis=0, prepend=0.0), later[-1]


def spoilt(dataset, slow=(), exchanged=(), stretched=(), absurd=()):
    """Profiles with faults in them.

    `slow` are (context, factor), `exchanged` pairs of contexts, `stretched` (context, run, factor,
    begin, end), `absurd` (context, run, interval, counter).
    """
    profiles = Profiles.of(dataset)
    counts, duration, interval = profiles.counts, profiles.duration.copy(), profiles.interval
    runs = [[own[np.isfinite(own).all(axis=1)] for own in row] for row in counts]
    for i, factor in slow:
        for r, own in enumerate(runs[i]):
            runs[i][r], duration[i, r] = slower(own, duration[i, r], interval, factor)
    for i, r, *how in stretched:
        runs[i][r], duration[i, r] = slower(runs[i][r], duration[i, r], interval, *how)
    for i, j in exchanged:
        runs[i], runs[j] = runs[j], runs[i]
        duration[[i, j]] = duration[[j, i]]
    longest = max(len(own) for row in runs for own in row)
    out = np.full((*duration.shape, longest, counts.shape[3]), np.nan)
    for i, r in np.ndindex(*duration.shape):
        out[i, r, : len(runs[i][r])] = runs[i][r]
    for place in absurd:
        out[place] = 2.0**48
    return make_profiles(
        out, duration, profiles.contexts, interval=interval,
        resources=profiles.resources, counters=profiles.counter_attrs, attrs=dataset.attrs,
    )  # fmt: skip


# Of a task of twenty contexts or more, three runs each.
EVERY_FAULT = {
    "slow": [(9, 2.2)],
    "exchanged": [(2, 16)],
    "stretched": [(5, 1, 2.5, 0.4, 0.6)],
    "absurd": [(12, 0, 3, 1)],
}
