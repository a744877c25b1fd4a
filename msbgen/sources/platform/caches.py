"""The last-level cache of the virtual platform: misses for every number of ways in one pass.

A cache of W ways with least-recently-used replacement holds the W lines that a set used last.  So a
request hits if its line is among the first W of the set's stack, and one histogram of stack
distances gives the misses for every W (Mattson et al., 1970).
"""

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.sources.platform._kernels import stack_distances

# 20 MiB: 16,384 sets of 64 B lines, 20 ways. A page has 64 lines, so its colour determines the
# upper 8 of the 14 bits of the set.
_LINES_PER_PAGE, _COLOURS, _WAYS = 64, 256, 20
# Sets of the last level.
CACHE_SETS = _LINES_PER_PAGE * _COLOURS
_CHUNK = 1 << 20


def stack_histogram(
    requests: NDArray[np.uint64], counts: NDArray[np.int64], keys: NDArray[np.uint64]
) -> NDArray[np.uint32]:
    """Histogram of LRU stack distances in a last-level cache of 16,384 sets and 20 ways.

    `requests` (n_requests,) are twice the virtual line number (address / 64), plus one for a
    prefetched line, in order; `counts` (n_intervals,) those in each interval.  `keys`
    (n_colourings,) assign a random colour to every page.  The result, (21, n_intervals,
    n_colourings, 2), counts requests by stack distance, interval, colouring and stream (demand,
    prefetched).
    """
    if counts.min(initial=0) < 0 or counts.sum() != len(requests):
        raise ArgumentError(
            f"counts have a sum of {counts.sum()}; the number of requests, {len(requests)}, is "
            f"wanted, and no count below 0."
        )
    histogram = np.zeros((len(keys), _WAYS + 1, len(counts), 2), dtype=np.uint32)
    ends = np.cumsum(counts)
    for c, key in enumerate(keys):
        stacks = np.full((CACHE_SETS, _WAYS), -1, dtype=np.int64)
        for start in range(0, len(requests), _CHUNK):
            chunk = np.asarray(requests[start : start + _CHUNK])
            stack_distances(
                (chunk // 2).astype(np.int64),
                cache_sets(chunk // 2, key).astype(np.int64),
                np.searchsorted(ends, np.arange(start, start + len(chunk)), side="right"),
                (chunk % 2).astype(np.int64),
                stacks,
                histogram[c],
            )
    return histogram.transpose(1, 2, 0, 3)


def cache_sets(lines: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Set of each line, from its position in its page and the page's random colour."""
    # the finaliser of splitmix64 (Steele et al., 2014)
    z = np.bitwise_xor(lines // _LINES_PER_PAGE, key)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    colours = (z ^ (z >> np.uint64(31))) % np.uint64(_COLOURS)
    return lines % _LINES_PER_PAGE + _LINES_PER_PAGE * colours
