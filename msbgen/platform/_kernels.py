"""Kernels of the virtual platform: noise, the replay of a run, stack distances."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from msbgen.core.compiled import cached


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    # contraction (fused multiply-add) is a freedom of fast mathematics that keeps inf and NaN
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    return cached(njit, function, options)


@_kernel
def correlated_noise(draws, steps, sigma, rho, noise):
    """Mean of a stationary AR(1) over consecutive groups of steps, into `noise`.

    ``draws`` (sum of `steps`,) are standard normal; group i takes the next ``steps[i]`` of them.
    """
    innovation = np.sqrt(1.0 - rho * rho)
    state = 0.0
    d = 0
    for i in range(steps.size):
        # invariant: `state` is the process after draw d - 1, with unit variance
        total = 0.0
        for _ in range(steps[i]):
            state = draws[d] if d == 0 else rho * state + innovation * draws[d]
            total += state
            d += 1
        noise[i] = sigma * total / steps[i]


@_kernel
def replay_run(lengths, events, regulator, ticks, preemptions, start, interval, readings):
    """Simulate a run under the bandwidth regulator, the interrupts and the sampler.

    ``lengths`` (n,) are the times of the intervals without stops [s]; ``events`` (n, 3) are their
    instructions, hits and misses, spread evenly over that time.
    ``regulator`` is (period, end of the first period, misses per period), ``ticks`` (period,
    first, cost), ``preemptions`` (m, 2) arrival and length, ``start`` the start of the program.

    ``readings`` (capacity, 4) holds in column 0 the instants at which the counters are read;
    columns 1 to 3 receive the instructions, requests and misses since the reading before.

    Returns the execution time and the number of readings.  The number is -1 if `readings` or
    `preemptions` end before the run: call again with more of them.
    """
    period, period_end, grant = regulator[0], regulator[1], regulator[2]
    tick = ticks[1]
    capacity = readings.shape[0]
    t = 0.0
    blocked = start
    budget = grant
    periods = 0
    n_ticks = 0
    p = 0
    k = 0
    instructions = 0.0
    hits = 0.0
    misses = 0.0
    for i in range(lengths.size):
        length = lengths[i]
        left = length
        rate = events[i, 2] / length
        # invariant at the head of the loop: the events of all intervals before i and the share
        # (length - left) / length of those of i have happened by t; no event is earlier than t;
        # budget >= 0 misses remain in the current period, which ends at period_end
        while left > 0.0:
            running = t >= blocked
            end = t + left
            spent = end + 1.0
            until = blocked
            if running:
                until = end
                if rate > 0.0:
                    spent = t + budget / rate
                    until = min(end, spent)
            now = min(until, period_end, tick, preemptions[p, 0], readings[k, 0])
            if running:
                if now == end:
                    left = 0.0
                else:
                    left -= now - t
                budget = 0.0 if now == spent else max(0.0, budget - rate * (now - t))
            t = now
            if t == readings[k, 0]:
                share = (length - left) / length
                # hits and misses are rounded each, so that no reading has misses > requests
                readings[k, 1] = np.floor(instructions + share * events[i, 0])
                readings[k, 3] = np.floor(misses + share * events[i, 2])
                readings[k, 2] = np.floor(hits + share * events[i, 1]) + readings[k, 3]
                k += 1
                if k == capacity:
                    return t, -1
            if t == period_end:
                budget = grant
                periods += 1
                period_end = regulator[1] + periods * period
            if t == tick:
                blocked = max(blocked, t + ticks[2])
                n_ticks += 1
                tick = ticks[1] + n_ticks * ticks[0]
            if t == preemptions[p, 0]:
                blocked = max(blocked, t + preemptions[p, 1])
                p += 1
                if p == preemptions.shape[0]:
                    return t, -1
            if running and t == spent and budget == 0.0:
                blocked = max(blocked, period_end)
        instructions += events[i, 0]
        hits += events[i, 1]
        misses += events[i, 2]
    # The run has ceil(t / interval) readings, the last at its end. With jitter, the loop may have
    # made one too many or too few.
    n = max(1, int(np.ceil(t / interval)))
    if n > capacity:
        return t, -1
    for j in range(min(k, n - 1), n):
        readings[j, 1] = instructions
        readings[j, 2] = hits + misses
        readings[j, 3] = misses
    for j in range(n - 1, 0, -1):
        for c in range(1, 4):
            readings[j, c] -= readings[j - 1, c]
    return t, n


@_kernel
def stack_distances(lines, sets, intervals, streams, stacks, histogram):
    """Count requests by LRU stack distance; `stacks` keeps the caches between calls.

    ``stacks`` (n_sets, n_ways) holds the lines of each set, most recent first, negative where
    empty; ``histogram`` (n_ways + 1, n_intervals, 2) gains one request at (depth, interval,
    stream) for each of ``lines`` (n,), at the last depth where its line is in no stack.
    """
    n_ways = stacks.shape[1]
    for i in range(lines.size):
        # invariant: for every w, the first w lines of a stack are what w LRU ways would hold
        line = lines[i]
        stack = stacks[sets[i]]
        depth = 0
        while depth < n_ways and stack[depth] != line:
            depth += 1
        for d in range(min(depth, n_ways - 1), 0, -1):
            stack[d] = stack[d - 1]
        stack[0] = line
        histogram[depth, intervals[i], streams[i]] += 1
