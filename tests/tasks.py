"""Tasks of two phases as arrays, whose parts vary by a known noise."""

import numpy as np

from msbgen.data.build import make_profiles
from msbgen.engine.generate.measurements import Measurements
from msbgen.engine.generate.progress_distribution import ProgressDistribution, ProgressSettings
from msbgen.engine.generate.runs import Runs

INTERVAL = 0.01
GRID = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 1.5, 2.0)])
COUNTERS = 2
TIME, INSTRUCTIONS = 0, 1  # clocks
SMALL = ProgressSettings(bins=50, segments=10)


def task(contexts, n_runs, *, seed=1, noise=0.02, interval=INTERVAL, rare=False):
    """Runs of two phases: counts (contexts, runs, time, 2) and durations.

    Duration and misses of each run vary by `noise`; misses fall with the ways, time with the
    clock.
    """
    rng = np.random.default_rng(seed)
    work = np.full(50, 2e5)
    requests = work * np.where(np.arange(50) < 25, 0.002, 0.02)
    if rare:  # misses in one burst
        requests = np.where(np.arange(50) == 30, requests, 0.0)
    runs = []
    for ways, frequency in np.repeat(contexts, n_runs, axis=0):
        slowness, luck = np.exp(noise * rng.standard_normal(2))
        misses = requests * 0.8 * luck * ways**-0.7
        seconds = 50e-9 * slowness * (work / frequency + 60 * misses)
        ends = np.append(np.arange(interval, seconds.sum(), interval), seconds.sum())
        edges = np.append(0.0, seconds.cumsum())
        reached = [
            np.interp(ends, edges, np.append(0.0, amount.cumsum())) for amount in (work, misses)
        ]
        runs.append((np.diff(reached, axis=1, prepend=0.0).T, seconds.sum()))
    counts = np.full((len(runs), max(len(c) for c, _ in runs), COUNTERS), np.nan)
    for row, (own, _) in zip(counts, runs):
        row[: len(own)] = own
    shape = (len(contexts), n_runs)
    return counts.reshape(*shape, *counts.shape[1:]), np.array([d for _, d in runs]).reshape(shape)


def fit_distribution(
    counts, duration, contexts=GRID, *, clock=INSTRUCTIONS, interval=INTERVAL, settings=SMALL,
    progress=None,
):  # fmt: skip
    """The default distribution of such runs."""
    measurements = Measurements(counts, duration, contexts, interval, clock)
    return ProgressDistribution.fit(measurements, settings, progress=progress)


def runs_of(counts, duration, contexts, interval, bins, *, clock=INSTRUCTIONS, **known):
    """Such runs by progress."""
    return Runs.of(Measurements(counts, duration, contexts, interval, clock, **known), bins)


def without(counts, measured, context, run):
    """The same with a run missing."""
    counts, measured = counts.copy(), measured.copy()
    counts[context, run] = measured[context, run] = np.nan
    return counts, measured


def labelled(counts, measured, contexts, interval=INTERVAL):
    """The same as a profile dataset."""
    return make_profiles(
        counts, measured, contexts, interval=interval,
        resources={"ways": {"units": "1"}, "frequency": {"units": "GHz"}},
        counters={"instructions": {}, "misses": {}},
    )  # fmt: skip


def answer(distribution, query, kind, n_samples=1, seed=0):
    """Profiles and durations that a distribution gives, samples as of known contexts."""
    given = {"n_samples": n_samples, "as_known": True, "rng": seed}
    return distribution.profiles(np.asarray(query), kind, **given)


def kernel_weights(known, query):
    """Gaussian kernel in logarithms: 0.8 of Scott's rule, or of 0.7 spacings."""
    logs = (np.log(known) - np.log(known).min(axis=0)) / np.ptp(np.log(known), axis=0)
    there = (np.log(query) - np.log(known).min(axis=0)) / np.ptp(np.log(known), axis=0)
    scott = logs.std(axis=0) * len(known) ** (-1 / 6)
    width = 0.8 * np.maximum(scott, 0.7 / max(np.sqrt(len(known)) - 1, 1))
    return np.exp(-0.5 * (((logs - there) / width) ** 2).sum(axis=1))


def padded(profiles, length):
    """Profiles that count zero after their end, cut or drawn out to one length."""
    missing = length - profiles.shape[-2]
    widths = [(0, 0)] * (profiles.ndim - 2) + [(0, missing), (0, 0)]
    return np.pad(np.nan_to_num(profiles), widths)
