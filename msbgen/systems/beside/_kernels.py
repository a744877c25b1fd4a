"""The course of programs that share caches and memory bandwidth, in steps between events."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from msbgen.core.compiled import cached

# Entries of an overflow table for each way of lines.
PER_WAY = 20.0
# Windows of a cache that are followed at most, and shares of the youngest one's age that are added.
_MOST_WINDOWS = 400
_YOUNGER = 4
# Bisections of what is queued, to 1e-7 of the range, and rounds in which rates settle: each halves
# what a rate is off.
_BISECTIONS, _SETTLING = 24, 8
# Rounds until the grants of a regulator add up to its misses, to 1e-8.
_GRANTING = 6
# Runs of a program alone that differ by less than this share last equally long.  Of more than so
# many before another program starts, the rest is not played: the windows that the other one meets
# differ by what is thinned out.
_EQUAL_RUNS, _MANY_RUNS = 1e-9, 100
# Windows nearer to each other than this part of their lines, and these ways, are thinned out.
_NEAR, _NEAR_WAYS = 0.05, 0.03


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    # contraction (fused multiply-add) is a freedom of fast mathematics that keeps inf and NaN
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    return cached(njit, function, options)


@_kernel
def _grow(lines, amount, k, tail, distances, sets):
    """Footprint [ways] after a share `amount` of a segment, from `lines`, and its bin of distances.

    A footprint grows by the requests whose reuse distance is larger: ``tail[k]`` per segment.
    """
    while distances[k] <= lines:
        k += 1
    while amount > 0.0 and tail[k] > 0.0:
        rate = tail[k] / sets
        if lines + rate * amount < distances[k]:
            lines += rate * amount
            break
        amount -= (distances[k] - lines) / rate
        lines = distances[k]
        k += 1
    return lines, k


@_kernel
def _interpolated(row, place):
    """Linear interpolation in a row at a place counted in its elements."""
    left = min(np.int64(place), row.size - 2)
    share = min(place - left, 1.0)
    return row[left] * (1.0 - share) + row[left + 1] * share


@_kernel
def _seconds(table, ways, per_miss, slowness, missed):
    """Time of a segment with ways and with `per_miss` seconds of the channel for each miss.

    `slowness` (b,) are those of the table's columns, ascending; beyond the last one, the time
    grows once the transfers take longer than all else.
    """
    b = 0
    while b < slowness.size - 2 and slowness[b + 1] < per_miss:
        b += 1
    left = min(np.int64(ways), table.shape[0] - 2)
    share = min(ways - left, 1.0)
    first = table[left, b] * (1.0 - share) + table[left + 1, b] * share
    if slowness.size == 1 or per_miss <= slowness[0]:
        return first + missed * max(per_miss - slowness[0], 0.0) * (slowness.size == 1)
    second = table[left, b + 1] * (1.0 - share) + table[left + 1, b + 1] * share
    if per_miss >= slowness[b + 1]:
        unlimited = table[left, 0] * (1.0 - share) + table[left + 1, 0] * share
        floor = max(unlimited, missed * slowness[b + 1])
        return second + max(missed * per_miss - floor, 0.0)
    part = (per_miss - slowness[b]) / (slowness[b + 1] - slowness[b])
    return first * (1.0 - part) + second * part


@_kernel
def _missed(i, reuse, windows, n_windows, mates, distances, overflow):
    """Requests of a segment of program i that miss, by what its mates used since each was used."""
    total = 0.0
    last = windows.shape[0] - n_windows
    j = last  # windows from `last` on, the youngest first
    used, others = 0.0, 0.0  # of the window before j
    top = overflow.shape[0] - 1
    for k in range(distances.size - 1):
        x = distances[k]
        if reuse[k] == 0.0:
            continue
        while j < windows.shape[0] and windows[j, i] <= x:
            used, others = windows[j, i], 0.0
            for m in range(mates.size):
                if mates[m] and m != i:
                    others += windows[j, m]
            j += 1
        beside = others
        if j < windows.shape[0]:
            after = 0.0
            for m in range(mates.size):
                if mates[m] and m != i:
                    after += windows[j, m]
            beside += (after - others) * (x - used) / (windows[j, i] - used)
        place = min((x + beside) * PER_WAY, top - 1.0)
        at = np.int64(place)
        total += reuse[k] * (overflow[at] * (1.0 - place + at) + overflow[at + 1] * (place - at))
    return total + reuse[distances.size - 1]


@_kernel
def _waits(mine, service, lookahead, think, demanded, rate, wait):
    """Waits of misses for a channel that serves one after another [s], into `wait`.

    Of each program of the channel (`mine`), ``think`` is the time from a miss to the next one
    without waits [s], inf without misses, and ``demanded`` the share of its misses that no
    prefetcher made early; ``rate`` receives the misses per second.  A miss waits for half of a
    service by others, and for what is queued: so long that the channel serves all misses.
    """
    n = think.size
    for m in range(n):
        rate[m] = 1.0 / max(think[m], service) if mine[m] else 0.0
    for _ in range(_SETTLING):
        busy = 0.0
        for m in range(n):
            busy += service * rate[m]
        low, high = 0.0, n * (service + lookahead)
        for turn in range(_BISECTIONS):
            queued = 0.5 * (low + high) if turn > 0 else 0.0
            total = 0.0
            for m in range(n):
                if mine[m]:
                    one = queued + 0.5 * service * min(max(busy - service * rate[m], 0.0), 1.0)
                    late = max(one - lookahead, 0.0)
                    wait[m] = demanded[m] * one + (1.0 - demanded[m]) * late
                    total += 1.0 / (think[m] + wait[m])
            if total * service > 1.0:
                low = queued
            else:
                high = queued
                if turn == 0:
                    break
        for m in range(n):
            if mine[m]:
                rate[m] = 0.5 * rate[m] + 0.5 / (think[m] + wait[m])


@_kernel
def _grants(pool, memory, per_miss, demand, each, granted):
    """Share of its demand that each program of a regulated pool is granted, into `granted`.

    All run until the period's misses are used up, and each then until its next ones: these come
    in clusters, ``demand * each`` a period.  The misses of all are those of the pool.
    """
    wanted = 0.0
    for m in range(memory.size):
        if memory[m] == pool:
            granted[m] = 1.0
            wanted += demand[m]
    if wanted * per_miss <= 1.0:
        return
    together = 1.0 / (wanted * per_miss)
    for _ in range(_GRANTING):
        total = 0.0
        for m in range(memory.size):
            if memory[m] == pool:
                clusters = demand[m] * each
                granted[m] = together
                if clusters > 0.0 and demand[m] < wanted:
                    granted[m] -= np.expm1(-clusters * (1.0 - together)) / clusters
                total += demand[m] * granted[m]
        together /= total * per_miss


@_kernel
def _held(windows, n_windows, mates, ways, lines):
    """Lines of each program in the cache, into `lines`: those of the window that fills it."""
    before = 0.0
    first = windows.shape[0] - n_windows
    for j in range(first, windows.shape[0]):
        total = 0.0
        for m in range(mates.size):
            if mates[m]:
                total += windows[j, m]
        if total >= ways or j == windows.shape[0] - 1:
            share = 1.0 if total <= ways else (ways - before) / (total - before)
            for m in range(mates.size):
                if mates[m]:
                    less = windows[j - 1, m] if j > first else 0.0
                    lines[m] = less + share * (windows[j, m] - less)
            return
        before = total


@_kernel
def play_programs(programs, places, resources, law, interval, readings, segment_time, ends):
    """Play programs that share caches and pools of bandwidth.

    ``programs`` is (instructions, requests, misses, early, seconds, reuse, mixed): (n, s) the
    instructions and requests of each segment; (n, s, w) misses with 0 to w - 1 ways, and those
    that were prefetched; (n, s, w, b) the time; (n, s, k) requests by reuse distance, and
    (n, s, w) the misses that these give.  ``places`` is (cache, memory, starts, loop): the cache
    and the pool of each program, its start [s], and whether it starts again.  ``resources`` is
    (ways, overflow, pools, slowness): (c,) ways of each cache; (c, x) probability that its sets
    overflow, over lines [1 / PER_WAY ways]; (p,) seconds per miss of each pool; (b,) those of the
    columns of the table.  ``law`` is (distances, sets, step, period, cluster, queue, lookahead):
    distances [ways], lines of a way, the longest step [s], the regulator's period [s], misses that
    come together, 1.0 where a channel serves misses one after another, and the time by which
    prefetches are ahead [s].

    ``readings`` (n, capacity, 5) receives instructions, requests, misses, prefetched misses since
    the start, and the ways held, at the end of each `interval` [s]; ``segment_time`` (n, s) the
    time of each segment of the first run, and ``ends`` (n,) their ends.  Returns the number of
    readings, or -1 where they are more than the capacity.
    """
    instructions, requests, misses, early, seconds, reuse, mixed = programs
    cache, memory, starts, loop = places
    ways, overflow, pools, slowness = resources
    distances, sets, longest, period, cluster, queue, lookahead = law
    n, n_segments = requests.shape
    n_ways = misses.shape[2]
    tails = np.empty(reuse.shape)
    for i in range(n):
        for s in range(n_segments):
            total = 0.0
            for k in range(distances.size - 1, -1, -1):
                total += reuse[i, s, k]
                tails[i, s, k] = total
    # windows of each cache, the youngest first, at the end of the array
    windows = np.zeros((ways.size, _MOST_WINDOWS + _YOUNGER, n))
    n_windows = np.zeros(ways.size, np.int64)
    ages = np.zeros(ways.size)
    mates = np.zeros((ways.size, n), np.bool_)
    for i in range(n):
        mates[cache[i], i] = True
    now = 0.0
    segment = np.zeros(n, np.int64)
    left = np.ones(n)  # of the current segment
    lasts = np.zeros(n)  # seconds of a segment at the present speed
    count = np.zeros((n, 4))
    missed, demand, place = np.zeros(n), np.zeros(n), np.zeros(n)
    unlimited, rate, wait, granted = np.zeros(n), np.zeros(n), np.zeros(n), np.ones(n)
    think, demanded, mine = np.zeros(n), np.zeros(n), np.zeros(n, np.bool_)
    held = np.zeros(n)
    live = np.zeros(n, np.bool_)
    ended = np.zeros(n, np.bool_)
    n_readings = 0
    running = n
    # begin of the present run of a program that runs alone, and what its last one took
    began, took = 0.0, 0.0
    for i in range(n):
        lasts[i] = seconds[i, 0, n_ways - 1, 0]
    while running > 0:
        # invariant: `windows` hold the footprints of windows that end now
        step = longest
        for i in range(n):
            live[i] = starts[i] <= now and (loop or not ended[i])
            if starts[i] > now:
                step = min(step, starts[i] - now)
        for i in range(n):
            if not live[i]:
                demand[i] = 0.0
                continue
            s, c = segment[i], cache[i]
            table = windows[c]
            first = table.shape[0] - n_windows[c]
            many = n_windows[c]
            if many > 0:
                # younger windows than the youngest one
                age = ages[c]
                for j in range(_YOUNGER):
                    age *= 0.5
                    for m in range(n):
                        if mates[c, m]:
                            table[first - 1 - j, m] = 0.0
                            if live[m]:
                                table[first - 1 - j, m], _ = _grow(
                                    0.0, age / lasts[m], 0, tails[m, segment[m]], distances, sets
                                )
                many += _YOUNGER
            found = _missed(i, reuse[i, s], table, many, mates[c], distances, overflow[c])
            # ways with which the program alone misses as often
            low, high = 0, n_ways - 1
            if found <= mixed[i, s, high]:
                place[i] = float(high)
            else:
                while high - low > 1:
                    middle = (low + high) // 2
                    if mixed[i, s, middle] >= found:
                        low = middle
                    else:
                        high = middle
                fall = mixed[i, s, low] - mixed[i, s, high]
                place[i] = low + ((mixed[i, s, low] - found) / fall if fall > 0.0 else 0.0)
                place[i] = min(max(place[i], 0.0), n_ways - 1.0)
            missed[i] = _interpolated(misses[i, s], place[i])
            unlimited[i] = _seconds(seconds[i, s], place[i], slowness[0], slowness, missed[i])
            demand[i] = missed[i] / unlimited[i]
        if queue == 0.0:
            for p in range(pools.size):
                if pools[p] > 0.0:
                    _grants(p, memory, pools[p], demand, period / cluster, granted)
        for i in range(n):
            if not live[i]:
                continue
            s, p = segment[i], memory[i]
            lasts[i] = unlimited[i]
            if pools[p] > 0.0 and queue > 0.0:
                if missed[i] > 0.0:
                    for m in range(n):
                        mine[m] = live[m] and memory[m] == p and missed[m] > 0.0
                        if mine[m]:
                            think[m] = unlimited[m] / missed[m]
                            soon = _interpolated(early[m, segment[m]], place[m])
                            demanded[m] = 1.0 - min(soon / missed[m], 1.0)
                    _waits(mine, pools[p], lookahead, think, demanded, rate, wait)
                    alone = _seconds(seconds[i, s], place[i], pools[p], slowness, missed[i])
                    lasts[i] = max(unlimited[i] + missed[i] * wait[i], alone)
            elif pools[p] > 0.0 and missed[i] > 0.0:
                remaining = 1.0 / pools[p]
                for m in range(n):
                    if memory[m] == p and m != i:
                        remaining -= demand[m] * granted[m]
                lasts[i] = _seconds(seconds[i, s], place[i], 1.0 / remaining, slowness, missed[i])
                lasts[i] = max(lasts[i], unlimited[i])
            step = min(step, max(left[i] * lasts[i], 1e-9))
        reading = (n_readings + 1) * interval
        step = min(step, max(reading - now, 1e-9))
        for c in range(ways.size):
            table = windows[c]
            table_first = table.shape[0] - n_windows[c]
            # a window that begins now
            table[table_first - 1] = 0.0
            n_windows[c] += 1
            table_first -= 1
            ages[c] = step
            for m in range(n):
                if mates[c, m] and live[m]:
                    k = 0
                    for j in range(table_first, table.shape[0]):
                        table[j, m], k = _grow(
                            table[j, m], step / lasts[m], k, tails[m, segment[m]], distances, sets
                        )
            n_windows[c] = _thinned(table, n_windows[c], mates[c], 2.0 * ways[c] + 12.0)
        now += step
        for i in range(n):
            if live[i]:
                s = segment[i]
                share = min(step / lasts[i], left[i])
                left[i] -= share
                if not ended[i]:
                    count[i, 0] += share * instructions[i, s]
                    count[i, 1] += share * requests[i, s]
                    count[i, 2] += share * missed[i]
                    count[i, 3] += share * _interpolated(early[i, s], place[i])
                    segment_time[i, s] += step
                if left[i] <= 1e-9:
                    left[i] = 1.0
                    segment[i] += 1
                    if segment[i] == n_segments:
                        segment[i] = 0
                        if not ended[i]:
                            ended[i] = True
                            ends[i] = now
                            running -= 1
                        if loop and np.isinf(interval) and live.sum() == 1:
                            lasted = now - began
                            now = _later_run(now, lasted, took, starts)
                            began, took = now, lasted
        if now >= reading - 1e-12 or running == 0:
            if n_readings == readings.shape[1]:
                return -1
            for c in range(ways.size):
                _held(windows[c], n_windows[c], mates[c], ways[c], held)
            for i in range(n):
                for c in range(4):  # compiles faster than an assignment of the row
                    readings[i, n_readings, c] = count[i, c]
                readings[i, n_readings, 4] = held[i]
            n_readings += 1
    return n_readings


@_kernel
def _later_run(now, lasted, before, starts):
    """End of the last run of a program that runs alone before another one starts [s].

    Where a run lasted as long as the one before, so do all others until then; a few are played.
    """
    if before == 0.0 or abs(lasted - before) > _EQUAL_RUNS * lasted:
        return now
    until = np.inf
    for start in starts:
        if start > now:
            until = min(until, start)
    if until == np.inf:
        return now
    more = np.floor((until - now) / lasted) - 1.0
    return now + more * lasted if more > _MANY_RUNS else now


@_kernel
def _thinned(windows, n_windows, mates, most):
    """Number of windows kept, at the end of the array: not too many, too old or too near."""
    size = windows.shape[0]
    first = size - n_windows
    total = np.empty(n_windows)
    for j in range(n_windows):
        total[j] = 0.0
        for m in range(mates.size):
            if mates[m]:
                total[j] += windows[first + j, m]
    kept = 0
    wide = 1.0 if n_windows < _MOST_WINDOWS // 2 else 4.0
    order = np.empty(n_windows, np.int64)
    for j in range(n_windows):
        if j > 0 and j < n_windows - 1 and kept > 0:
            gap = total[j + 1] - total[order[kept - 1]]
            if gap < wide * (_NEAR_WAYS + _NEAR * total[j]):
                continue
        order[kept] = j
        kept += 1
        if total[j] > most:
            break
    for j in range(kept - 1, -1, -1):
        for m in range(mates.size):
            windows[size - kept + j, m] = windows[first + order[j], m]
    return kept
