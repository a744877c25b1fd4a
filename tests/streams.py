"""Small streams of requests for the virtual platform."""

import numpy as np

from msbgen.sources.platform.stream import make_stream


def stream_of(lines, intervals=40, cycles=20_000.0):
    """A program that asks for lines, spread evenly over intervals of equal work."""
    counts = np.full(intervals, len(lines) // intervals)
    summaries = {
        "instructions": np.full(intervals, 20_000),
        "core_cycles": np.full(intervals, cycles),
        "fixed_time": np.zeros(intervals),
        "requests": counts,
    }
    requests = 2 * np.asarray(lines[: counts.sum()], dtype=np.uint64)
    return make_stream(summaries, requests, {"program": "p"})


def random_lines(mebibytes, size=300_000, seed=0):
    """Lines drawn at random from a working set."""
    return np.random.default_rng(seed).integers(0, mebibytes << 14, size)


def random_stream(seed):
    """Random reads in 4 MiB, some of them prefetched, at a few hundred thousand requests."""
    stream = stream_of(random_lines(4, seed=seed), 400)
    drawn = np.random.default_rng(seed).random(stream.sizes["request"]) < 0.3
    return stream.assign(prefetched=stream["prefetched"] + drawn.astype(np.uint8))
