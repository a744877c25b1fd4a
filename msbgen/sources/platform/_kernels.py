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


@_kernel
def _touch(stack, n_ways, tag):
    """Make a line the most recent one of its set; returns -2 for a hit, else what it displaced.

    An empty place is -1.
    """
    depth = 0
    while depth < n_ways and stack[depth] != tag:
        depth += 1
    displaced = -2
    if depth == n_ways:
        depth = n_ways - 1
        displaced = stack[depth]
    for d in range(depth, 0, -1):
        stack[d] = stack[d - 1]
    stack[0] = tag
    return displaced


@_kernel
def replay_shared(streams, programs, pools, caches, stops, readings, ends):
    """Play requests of several programs, in the order of time, through shared caches and memory.

    ``streams`` is (line, prefetched, colour): the line and the kind of each request, (r,), of all
    programs, one after another, and the colour of each page, (restarts, pages).  ``programs`` is
    (first, steps, events, costs, begin, places): `first` (n + 1, 3) the first request, interval
    and page of each program; `steps` (i,) the time of each interval without requests [s]; `events`
    (i, 2) its instructions and requests; `costs` (n, 4) seconds of a demand hit, a prefetched one,
    a demand miss and a prefetched one; `begin` (n,) the instant of each start [s]; `places` (n, 3)
    the cache, the pool, and 1 where the program starts again at its end.

    ``pools`` (p, 5) has a regulator's misses per period, its period and phase [s], and a channel's
    time per miss and lookahead [s]; the misses are infinite without a regulator, the time is 0
    without a channel.  ``caches`` is (stacks, ways): (c, sets, most ways), most recent line first
    and -1 where empty, and (c,).  ``stops`` is (ticks, preemptions): (n, 3) the period, the first
    instant and the cost of timer interrupts, and (n, m, 2) instants and lengths.

    ``readings`` (n, capacity, 7) has the instants of readings in column 0; columns 1 to 6 receive
    instructions, demand and prefetched hits, demand and prefetched misses since the start, and the
    lines in the cache.  ``ends`` (n,) receives the end of each first run [s].  Returns the number
    of readings, (n,), -1 in the first where `readings` or preemptions end before the runs.
    """
    line, prefetched, colour = streams
    first, steps, events, costs, begin, places = programs
    stacks, ways = caches
    ticks, preemptions = stops
    n = ends.size
    now = begin.copy()
    request = first[:n, 0].copy()
    interval = first[:n, 1].copy()
    asked = np.zeros(n, np.int64)  # requests made in the current interval
    wanted = np.full(n, -1, np.int64)  # period of the regulator that a miss waits for
    restarts = np.zeros(n, np.int64)
    live = np.ones(n, np.bool_)
    held = np.zeros(n, np.int64)  # lines in the cache
    count = np.zeros((n, 5))
    n_ticks = np.zeros(n, np.int64)
    n_stops = np.zeros(n, np.int64)
    k = np.zeros(n, np.int64)
    period = np.full(pools.shape[0], -1, np.int64)
    left = np.zeros(pools.shape[0])
    free = np.zeros(pools.shape[0])
    running = n
    ends[:] = np.nan
    while running > 0:
        # invariant: requests of all programs before the earliest `now` have been played
        i = -1
        for j in range(n):
            if live[j] and (i < 0 or now[j] < now[i]):
                i = j
        at = interval[i]
        share = 1.0
        served = True
        if events[at, 1] > 0:
            share = 1.0 / events[at, 1]
            r = request[i]
            kind = np.int64(prefetched[r])
            miss = True
            if wanted[i] < 0:
                page = first[i, 2] + np.int64(line[r]) // 64
                s = 64 * np.int64(colour[restarts[i] % colour.shape[0], page])
                s += np.int64(line[r]) % 64
                tag = (i << 16 | restarts[i] & 0xFFFF) << 32 | np.int64(line[r])
                displaced = _touch(stacks[places[i, 0], s], ways[places[i, 0]], tag)
                miss = displaced != -2
                if miss:
                    held[i] += 1
                    if displaced >= 0:
                        held[displaced >> 48] -= 1
            if miss:
                pool = places[i, 1]
                grant, length, phase = pools[pool, 0], pools[pool, 1], pools[pool, 2]
                if grant < np.inf:
                    # rounding may put the end of a wait just before its period
                    this = max(np.int64(np.floor((now[i] - phase) / length)), wanted[i])
                    if this > period[pool]:
                        # what the last miss took too much is missing now
                        left[pool] = grant + min(left[pool], 0.0)
                        period[pool] = this
                    served = left[pool] > 0.0
                    if served:
                        left[pool] -= 1.0
                        wanted[i] = -1
                    else:
                        wanted[i] = this + 1
                        now[i] = phase + (this + 1) * length
                if served:
                    if pools[pool, 3] > 0.0:
                        start = max(now[i], free[pool])
                        free[pool] = start + pools[pool, 3]
                        now[i] += max(0.0, start - now[i] - kind * pools[pool, 4])
                    now[i] += costs[i, 2 + kind]
                    count[i, 3 + kind] += 1
            else:
                now[i] += costs[i, kind]
                count[i, 1 + kind] += 1
        if served:
            now[i] += share * steps[at]
            count[i, 0] += share * events[at, 0]
            asked[i] += 1
            if events[at, 1] > 0:
                request[i] += 1
            if asked[i] >= events[at, 1]:
                asked[i] = 0
                interval[i] += 1
        while now[i] >= ticks[i, 1] + n_ticks[i] * ticks[i, 0]:
            now[i] += ticks[i, 2]
            n_ticks[i] += 1
        while now[i] >= preemptions[i, n_stops[i], 0]:
            now[i] += preemptions[i, n_stops[i], 1]
            n_stops[i] += 1
            if n_stops[i] == preemptions.shape[1]:
                k[0] = -1
                return k
        ended = interval[i] == first[i + 1, 1]
        while np.isnan(ends[i]) and (ended or readings[i, k[i], 0] <= now[i]):
            for c in range(5):  # compiles faster than an assignment of the row
                readings[i, k[i], 1 + c] = count[i, c]
            readings[i, k[i], 6] = held[i]
            k[i] += 1
            if ended:
                ends[i] = now[i]
                running -= 1
            elif k[i] == readings.shape[1]:
                k[0] = -1
                return k
        if ended:
            live[i] = places[i, 2] == 1
            restarts[i] += 1
            request[i] = first[i, 0]
            interval[i] = first[i, 1]
    return k
