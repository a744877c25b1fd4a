"""Kernels of the simulated SoC: tasks of a graph on clusters of cores that heat up.

They are serial and release the GIL: callers run them from threads over independent work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    # contraction (fused multiply-add) is a freedom of fast mathematics that keeps inf and NaN
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # "no locator available": a read-only install without a cache folder
        return njit(**options)(function)


# Columns of `results`: seconds, joules, °C at most and at last, seconds with clocks stepped down.
MAKESPAN, ENERGY, PEAK, LAST, THROTTLED = range(5)
N_RESULTS = 5
# Columns of `log` before the clusters': instant, °C, steps down; then watts and running cores.
TIME, HEAT, DOWN, BASE = range(4)
_DISPATCHING = -1


@_kernel
def _push(key, number, size, new_key, new_number):
    """Add to a binary heap of (key, number), the least on top; returns its size."""
    i = size
    while i > 0:
        up = (i - 1) // 2
        if key[up] < new_key or (key[up] == new_key and number[up] < new_number):
            break
        key[i], number[i] = key[up], number[up]
        i = up
    key[i], number[i] = new_key, new_number
    return size + 1


@_kernel
def _pop(key, number, size):
    """Take the least number from the heap; its size becomes one less."""
    least = number[0]
    last_key, last = key[size - 1], number[size - 1]
    size -= 1
    i = 0
    while True:
        below = 2 * i + 1
        if below >= size:
            break
        right = below + 1
        if right < size and (
            key[right] < key[below] or (key[right] == key[below] and number[right] < number[below])
        ):
            below = right
        if last_key < key[below] or (last_key == key[below] and last < number[below]):
            break
        key[i], number[i] = key[below], number[below]
        i = below
    key[i], number[i] = last_key, last
    return least


@_kernel
def upward_ranks(graph, phases, rates, settings, cores, levels, ranks):
    """Time from the start of each task to the end of the graph along the longest path, negated.

    ``ranks`` (contexts, tasks): a task takes what its kind does on average over the cores given,
    all of them running (the upward rank of HEFT without communication; Topcuoglu et al., 2002).
    """
    _, first_after, after, kind, size = graph
    first_phase, share = phases
    n_clusters = cores.shape[1]
    mean = np.empty(first_phase.size - 1)
    for s in range(settings.size):
        given = 0
        for c in range(n_clusters):
            given += cores[s, c]
        for k in range(mean.size):
            mean[k] = 0.0
            for c in range(n_clusters):
                if cores[s, c] > 0:
                    row = rates[settings[s], c, levels[s, c], given - 1, cores[s, c] - 1]
                    for p in range(first_phase[k], first_phase[k + 1]):
                        mean[k] += cores[s, c] * share[p] / row[p]
            mean[k] /= given
        for t in range(kind.size - 1, -1, -1):
            # invariant: tasks stand in topological order, so those after t have their ranks
            longest = 0.0
            for e in range(first_after[t], first_after[t + 1]):
                longest = max(longest, -ranks[s, after[e]])
            ranks[s, t] = -(longest + size[t] * mean[kind[t]])


@_kernel
def simulate(graph, phases, tables, clusters, cooling, contexts, queue, outputs):
    """Play the graph in every context, as often as there is noise.

    Parameters
    ----------
    graph : waits (n,), first after (n + 1,), after (m,), kind (n,), size (n,) [runs]; tasks in
        topological order
    phases : first phase of each kind (kinds + 1,), share of progress (phases,)
    tables : rates [1/s] and watts [W] (settings, clusters, levels, running, running here, phases)
    clusters : swiftness, dispatch [s], watts of a dispatch, of the cluster, of a waiting core,
        (clusters, levels) each; first core (clusters,)
    cooling : base power [W], ambient [°C], resistance [K/W], time constant [s], cap [°C],
        hysteresis [K]
    contexts : setting (s,), cores (s, clusters), level (s, clusters), start temperature (s,)
    queue : whether tasks start in the order in which they get ready; else keys (1 or s, n), least
        first; noise (s, runs, n), factors of their sizes
    outputs : results (s, runs, N_RESULTS); tasks (s, runs, n, 3) start, end, core, or of none;
        log (rows, 4 + 2 clusters) of the last run, or of no rows

    Returns
    -------
    int
        Rows of the log that would be needed.
    """
    in_turn, keys, noise = queue
    results, tasks, log = outputs
    setting, cores, level, temperature = contexts
    n, n_clusters, most = graph[3].size, cores.shape[1], tables[0].shape[3]
    scratch = (
        np.empty((3, n_clusters), dtype=np.int64),  # of each cluster: level, running, of the rates
        np.empty(n, dtype=np.int64),  # what a task still waits for
        np.empty(n),  # heap of those that are ready: keys
        np.empty(n, dtype=np.int64),  # and tasks
        np.empty((5, most)),  # of each core: see _play
        np.empty((5, most), dtype=np.int64),
    )
    nothing = np.empty((0, 3))
    rows = 0
    for s in range(setting.size):
        for r in range(noise.shape[1]):
            rows = _play(
                graph,
                phases,
                tables,
                clusters,
                cooling,
                (setting[s], cores[s], level[s], temperature[s]),
                (in_turn, keys[min(s, keys.shape[0] - 1)], noise[s, r], scratch),
                (results[s, r], tasks[s, r] if tasks.shape[0] > 0 else nothing, log),
            )
    return rows


@_kernel
def _play(graph, phases, tables, clusters, cooling, context, queue, outputs):
    """One run; see :func:`simulate`."""
    waits, first_after, after, kind, size = graph
    first_phase, share = phases
    rates, watts = tables
    swiftness, dispatch, dispatch_watts, on_watts, idle_watts, first_core = clusters
    base, ambient, resistance, time_constant, cap, hysteresis = cooling
    setting, cores, level, temperature = context
    in_turn, keys, noise, (of_cluster, left, heap_key, heap, of_core, place) = queue
    result, tasks, log = outputs
    here, busy, rated = of_cluster
    until, rate, watt, began, amount = of_core
    task, phase, cluster, number, stale = place
    n, n_clusters = kind.size, cores.size
    given = 0
    for c in range(n_clusters):
        here[c], busy[c], rated[c] = level[c], 0, 0
        for i in range(cores[c]):
            task[given], cluster[given], number[given] = -1, c, first_core[c] + i
            given += 1
    now, energy, throttled, peak = 0.0, 0.0, 0.0, temperature
    running, down, done, wave, rows = 0, 0, 0, 0, 0
    ready = np.int64(0)  # no literal: the heap would be compiled for it, and again for others
    stepped = False
    for t in range(n):
        left[t] = waits[t]
        if waits[t] == 0:
            ready = _push(heap_key, heap, ready, 0.0 if in_turn else keys[t], t)
    while done < n:
        # invariant: energy and temperature are those at `now`; a running core ends its phase at
        # `until` if nothing changes, or it is stale and has `amount` of a phase to go
        while ready > 0 and running < given:
            best = -1
            for i in range(given):
                if task[i] < 0:
                    pace = swiftness[cluster[i], here[cluster[i]]]
                    if best < 0 or pace > swiftness[cluster[best], here[cluster[best]]]:
                        best = i
            task[best] = _pop(heap_key, heap, ready)
            ready -= 1
            phase[best], stale[best], amount[best], began[best] = _DISPATCHING, 1, 1.0, now
            running += 1
            busy[cluster[best]] += 1
        shares_changed = stepped
        for c in range(n_clusters):
            shares_changed = shares_changed or busy[c] != rated[c]
            rated[c] = busy[c]
        stepped = False
        for i in range(given):
            if task[i] >= 0 and (shares_changed or stale[i] == 1):
                c, p = cluster[i], phase[i]
                if stale[i] == 0:
                    amount[i] = (until[i] - now) * rate[i]
                stale[i] = 0
                if p == _DISPATCHING:
                    cost = dispatch[c, here[c]]
                    rate[i] = 1.0 / cost if cost > 0.0 else 1.0
                    watt[i] = dispatch_watts[c, here[c]]
                    amount[i] = amount[i] if cost > 0.0 else 0.0
                else:
                    rate[i] = rates[setting, c, here[c], running - 1, busy[c] - 1, p]
                    watt[i] = watts[setting, c, here[c], running - 1, busy[c] - 1, p]
                until[i] = now + amount[i] / rate[i]
        upcoming, power, lowest = np.inf, base, True
        for i in range(given):
            if task[i] >= 0:
                upcoming = min(upcoming, until[i])
                power += watt[i]
        for c in range(n_clusters):
            if cores[c] > 0:
                power += on_watts[c, here[c]] + (cores[c] - busy[c]) * idle_watts[c, here[c]]
                lowest = lowest and here[c] == 0
        if rows < log.shape[0]:
            log[rows, TIME], log[rows, HEAT], log[rows, DOWN] = now, temperature, down
            log[rows, BASE] = base
            for c in range(n_clusters):
                log[rows, BASE + 1 + n_clusters + c] = busy[c]
                log[rows, BASE + 1 + c] = 0.0
                if cores[c] > 0:
                    waiting = (cores[c] - busy[c]) * idle_watts[c, here[c]]
                    log[rows, BASE + 1 + c] = on_watts[c, here[c]] + waiting
            for i in range(given):
                if task[i] >= 0:
                    log[rows, BASE + 1 + cluster[i]] += watt[i]
        rows += 1
        # the temperature goes to `goal`; where it meets a threshold on its way, clocks change
        goal = ambient + resistance * power
        step, turn = upcoming - now, 0
        if goal > cap and not lowest:
            wait = 0.0
            if temperature < cap:
                wait = time_constant * np.log((goal - temperature) / (goal - cap))
            if wait < step:
                step, turn = wait, 1
        elif down > 0 and goal < cap - hysteresis:
            wait = 0.0
            if temperature > cap - hysteresis:
                wait = time_constant * np.log((temperature - goal) / (cap - hysteresis - goal))
            if wait < step:
                step, turn = wait, -1
        if step > 0.0:
            energy += power * step
            throttled += step if down > 0 else 0.0
            temperature = goal + (temperature - goal) * np.exp(-step / time_constant)
            if turn != 0:
                temperature = cap if turn > 0 else cap - hysteresis
            peak = max(peak, temperature)
        if turn != 0:
            now += step
            down += turn
            stepped = True
            for c in range(n_clusters):
                here[c] = max(level[c] - down, 0)
            continue
        now = upcoming
        wave += 1
        for i in range(given):
            if task[i] < 0 or until[i] > now:
                continue
            t = task[i]
            phase[i] = first_phase[kind[t]] if phase[i] == _DISPATCHING else phase[i] + 1
            if phase[i] < first_phase[kind[t] + 1]:
                stale[i], amount[i] = 1, share[phase[i]] * size[t] * noise[t]
                continue
            if tasks.shape[0] > 0:
                tasks[t, 0], tasks[t, 1], tasks[t, 2] = began[i], now, number[i]
            task[i] = -1
            running -= 1
            busy[cluster[i]] -= 1
            done += 1
            for e in range(first_after[t], first_after[t + 1]):
                left[after[e]] -= 1
                if left[after[e]] == 0:
                    key = float(wave) if in_turn else keys[after[e]]
                    ready = _push(heap_key, heap, ready, key, after[e])
    if rows < log.shape[0]:
        log[rows] = 0.0
        log[rows, TIME], log[rows, HEAT], log[rows, DOWN] = now, temperature, down
    result[MAKESPAN], result[ENERGY], result[PEAK] = now, energy, peak
    result[LAST], result[THROTTLED] = temperature, throttled
    return rows + 1
