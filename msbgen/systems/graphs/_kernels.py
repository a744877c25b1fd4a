"""Kernels of task graphs: the simulator, the list schedule of the predictor, and their cooling.

The kernels are serial and release the GIL: callers run them from threads over independent work.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from msbgen.core.compiled import cached


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile on the first call; cache on disk where a cache folder can be written."""
    # no fast mathematics: schedules of equal graphs must not depend on the numbers of tasks
    return cached(njit, function, {"nogil": True, "error_model": "numpy", "fastmath": False})


def _contracted(function: Callable[..., Any]) -> Any:
    """As :func:`_kernel`, with fused multiply-add, which keeps inf and NaN."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    return cached(njit, function, options)


# Columns of `results`: seconds, joules, highest and last °C, seconds with clocks stepped down.
MAKESPAN, ENERGY, PEAK, LAST, THROTTLED = range(5)
N_RESULTS = 5
# Columns of `log` before those of the clusters: instant, °C, steps down, watts of the device.
LOG_TIME, LOG_TEMPERATURE, LOG_DOWN, LOG_BASE = range(4)
_DISPATCHING = -1
# Columns of a schedule's `nodes` and `amounts`, and rows of `clusters`.
FIRST, WAITING, KIND = 0, 1, 2
WORK, RANK = 0, 1
SPEED, DISPATCH, ON, IDLE = 0, 1, 2, 3
# Columns of `totals` and `trace`.
TOTAL_TIME, TOTAL_LAST, TOTAL_SPREAD, TOTAL_PEAK, TOTAL_ON, TOTAL_IDLE, TOTAL_TASKS = range(7)
START, END, CLUSTER = 0, 1, 2

# How running tasks share cache and bandwidth, as `SHARES` of a device: among the tasks that run
# now, among as many as ran when the task started, or among as many as the context has cores.
_RENEWED, _FIXED, _PARTITIONED = 0, 1, 2

# A task counts as done when this share of the time until then is left of it.
_DONE = 1e-12


@_kernel
def _thermal_step(temperature, power, step, down, lowest, cooling):
    """Length of the next interval, change of the clocks at its end, temperature at its end.

    The temperature [°C] approaches ``ambient + resistance · power`` exponentially over at most the
    time to the next event, `step` [s].  The interval ends early where it reaches the cap (clocks
    step down: 1), or the cap less the hysteresis while clocks are `down` levels lower (clocks step
    up: -1).  `lowest`: all clocks in use are at their lowest level.  `cooling` (6,): base power
    [W], ambient [°C], resistance [K/W], time constant [s], cap [°C], hysteresis [K].
    """
    _, ambient, resistance, time_constant, cap, hysteresis = cooling
    goal, turn = ambient + resistance * power, 0
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
    after = goal + (temperature - goal) * np.exp(-step / time_constant)
    # rounding must not leave it just short of the threshold, or clocks would change again at once
    if turn > 0:
        after = max(after, cap)
    elif turn < 0:
        after = min(after, cap - hysteresis)
    return step, turn, after


# ------------------------------------------------------------------------------------ simulator


@_contracted
def push(key, number, size, new_key, new_number):
    """Add to a binary heap of (key, number), the least on top; returns the new size."""
    i = size
    while i > 0:
        up = (i - 1) // 2
        if key[up] < new_key or (key[up] == new_key and number[up] < new_number):
            break
        key[i], number[i] = key[up], number[up]
        i = up
    key[i], number[i] = new_key, new_number
    return size + 1


@_contracted
def pop(key, number, size):
    """Remove the least number from the heap and return it; the size becomes one less."""
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


@_contracted
def upward_ranks(graph, phases, rates, settings, cores, levels, ranks):
    """Minus the time from the start of each task to the end of the graph along the longest path.

    Writes ``ranks`` (contexts, tasks), the upward ranks of HEFT without communication (Topcuoglu et
    al., 2002).  The time of a task is the mean of its kind over the allocated cores, all busy.
    """
    _, first_after, after, kind, size = graph
    first_phase, share = phases
    n_clusters = cores.shape[1]
    mean = np.empty(first_phase.size - 1)
    for s in range(settings.size):
        n_cores = 0
        for c in range(n_clusters):
            n_cores += cores[s, c]
        for k in range(mean.size):
            mean[k] = 0.0
            for c in range(n_clusters):
                if cores[s, c] > 0:
                    row = rates[settings[s], c, levels[s, c], n_cores - 1, cores[s, c] - 1]
                    for p in range(first_phase[k], first_phase[k + 1]):
                        mean[k] += cores[s, c] * share[p] / row[p]
            mean[k] /= n_cores
        for t in range(kind.size - 1, -1, -1):
            # invariant: tasks are in topological order, so the ranks of all tasks after t are final
            longest = 0.0
            for e in range(first_after[t], first_after[t + 1]):
                longest = max(longest, -ranks[s, after[e]])
            ranks[s, t] = -(longest + size[t] * mean[kind[t]])


@_contracted
def simulate(graph, phases, tables, clusters, cooling, contexts, queue, outputs):
    """Simulate the graph in every context, once for each row of the noise.

    Parameters
    ----------
    graph : tuple of arrays
        Number of predecessors (n,), first successor (n + 1,), successors (m,), kind (n,) and work
        (n,) [runs of the kind].  Tasks are in topological order.
    phases : tuple of arrays
        First phase of each kind (kinds + 1,), share of the progress (phases,).
    tables : tuple of arrays
        Rates [1/s] and watts [W]: (settings, clusters, levels, running, running here, phases); and
        a number that says among how many tasks cache and bandwidth are shared.
    clusters : tuple of arrays
        Speed, dispatch [s], watts of a dispatch, of the cluster, of an idle core: (clusters,
        levels) each.  First core (clusters,).
    cooling : ndarray, (6,)
        See :func:`_thermal_step`.
    contexts : tuple of arrays
        Setting (s,), cores (s, clusters), level (s, clusters), start temperature (s,) [°C].
    queue : tuple
        Whether tasks start in the order in which they become ready.  Otherwise their keys (1 or
        s, n): the lowest starts first.  Noise (s, runs, n): factors of the work.
    outputs : tuple of arrays
        Results (s, runs, N_RESULTS).  Tasks (s, runs, n, 3): start, end, core; may be empty.
        Log (rows, 4 + 2 clusters) of the last run; may be empty.

    Returns
    -------
    int
        Number of rows that a complete log has.
    """
    in_turn, keys, noise = queue
    results, tasks, log = outputs
    setting, cores, level, temperature = contexts
    n, n_clusters, most = graph[3].size, cores.shape[1], tables[0].shape[3]
    scratch = (
        np.empty(
            (3, n_clusters), dtype=np.int64
        ),  # of each cluster: level, running, running when rates were set
        np.empty(n, dtype=np.int64),  # unfinished predecessors of each task
        np.empty(n),  # heap of ready tasks: keys
        np.empty(n, dtype=np.int64),  # heap of ready tasks: numbers
        np.empty((5, most)),  # of each core: see _play
        np.empty((7, most), dtype=np.int64),
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


@_contracted
def _play(graph, phases, tables, clusters, cooling, context, queue, outputs):
    """One run; see :func:`simulate`."""
    waits, first_after, after, kind, size = graph
    first_phase, share = phases
    rates, watts, sharing = tables
    speed, dispatch, dispatch_watts, on_watts, idle_watts, first_core = clusters
    base = cooling[0]
    setting, cores, level, temperature = context
    in_turn, keys, noise, (of_cluster, left, heap_key, heap, of_core, place) = queue
    result, tasks, log = outputs
    here, busy, rated = of_cluster
    until, rate, watt, began, amount = of_core
    task, phase, cluster, number, stale, sharers, sharers_here = place
    n, n_clusters = kind.size, cores.size
    n_cores = 0
    for c in range(n_clusters):
        here[c], busy[c], rated[c] = level[c], 0, 0
        for i in range(cores[c]):
            task[n_cores], cluster[n_cores], number[n_cores] = -1, c, first_core[c] + i
            n_cores += 1
    now, energy, throttled, peak = 0.0, 0.0, 0.0, temperature
    running, down, done, wave, rows = 0, 0, 0, 0, 0
    ready = np.int64(0)  # a literal would have a type of its own, and compile the heap twice
    stepped = False
    for t in range(n):
        left[t] = waits[t]
        if waits[t] == 0:
            ready = push(heap_key, heap, ready, 0.0 if in_turn else keys[t], t)
    while done < n:
        # invariant: energy and temperature are those at `now`; a running core ends its phase at
        # `until` if nothing changes, or it is stale and `amount` of its phase is left
        while ready > 0 and running < n_cores:
            best = -1
            for i in range(n_cores):
                if task[i] < 0:
                    now_speed = speed[cluster[i], here[cluster[i]]]
                    if best < 0 or now_speed > speed[cluster[best], here[cluster[best]]]:
                        best = i
            task[best] = pop(heap_key, heap, ready)
            ready -= 1
            phase[best], stale[best], amount[best], began[best] = _DISPATCHING, 1, 1.0, now
            sharers[best] = 0  # not known until all tasks of this instant are started
            running += 1
            busy[cluster[best]] += 1
        shares_changed = stepped
        for c in range(n_clusters):
            shares_changed = shares_changed or busy[c] != rated[c]
            rated[c] = busy[c]
        stepped = False
        for i in range(n_cores):
            if task[i] >= 0 and (shares_changed or stale[i] == 1):
                c, p = cluster[i], phase[i]
                if stale[i] == 0:
                    amount[i] = (until[i] - now) * rate[i]
                stale[i] = 0
                if sharing == _PARTITIONED:
                    sharers[i], sharers_here[i] = n_cores, cores[c]
                elif sharing == _RENEWED or sharers[i] == 0:
                    sharers[i], sharers_here[i] = running, busy[c]
                if p == _DISPATCHING:
                    cost = dispatch[c, here[c]]
                    rate[i] = 1.0 / cost if cost > 0.0 else 1.0
                    watt[i] = dispatch_watts[c, here[c]]
                    amount[i] = amount[i] if cost > 0.0 else 0.0
                else:
                    rate[i] = rates[setting, c, here[c], sharers[i] - 1, sharers_here[i] - 1, p]
                    watt[i] = watts[setting, c, here[c], sharers[i] - 1, sharers_here[i] - 1, p]
                until[i] = now + amount[i] / rate[i]
        upcoming, power, lowest = np.inf, base, True
        for i in range(n_cores):
            if task[i] >= 0:
                upcoming = min(upcoming, until[i])
                power += watt[i]
        for c in range(n_clusters):
            if cores[c] > 0:
                power += on_watts[c, here[c]] + (cores[c] - busy[c]) * idle_watts[c, here[c]]
                lowest = lowest and here[c] == 0
        if rows < log.shape[0]:
            log[rows, LOG_TIME], log[rows, LOG_TEMPERATURE], log[rows, LOG_DOWN] = (
                now,
                temperature,
                down,
            )
            log[rows, LOG_BASE] = base
            for c in range(n_clusters):
                log[rows, LOG_BASE + 1 + n_clusters + c] = busy[c]
                log[rows, LOG_BASE + 1 + c] = 0.0
                if cores[c] > 0:
                    waiting = (cores[c] - busy[c]) * idle_watts[c, here[c]]
                    log[rows, LOG_BASE + 1 + c] = on_watts[c, here[c]] + waiting
            for i in range(n_cores):
                if task[i] >= 0:
                    log[rows, LOG_BASE + 1 + cluster[i]] += watt[i]
        rows += 1
        step, turn, after_step = _thermal_step(
            temperature, power, upcoming - now, down, lowest, cooling
        )
        if step > 0.0:
            energy += power * step
            throttled += step if down > 0 else 0.0
            temperature = after_step
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
        for i in range(n_cores):
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
                    ready = push(heap_key, heap, ready, key, after[e])
    if rows < log.shape[0]:
        log[rows] = 0.0
        log[rows, LOG_TIME], log[rows, LOG_TEMPERATURE], log[rows, LOG_DOWN] = (
            now,
            temperature,
            down,
        )
    result[MAKESPAN], result[ENERGY], result[PEAK] = now, energy, peak
    result[LAST], result[THROTTLED] = temperature, throttled
    return rows + 1


# ------------------------------------------------------------------- schedules of the predictor


@_kernel
def _push_task(heap, keys, size, task):
    """Add a task to the heap of ready tasks, smallest key on top; returns the new size."""
    i = size
    heap[i] = task
    while i > 0:
        above = (i - 1) // 2
        if keys[heap[above]] <= keys[heap[i]]:
            break
        heap[above], heap[i] = heap[i], heap[above]
        i = above
    return size + 1


@_kernel
def _pop_task(heap, keys, size):
    """Move the task on top behind the end of the heap; returns the new size."""
    size -= 1
    heap[0], heap[size] = heap[size], heap[0]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and keys[heap[child + 1]] < keys[heap[child]]:
            child += 1
        if keys[heap[i]] <= keys[heap[child]]:
            break
        heap[child], heap[i] = heap[i], heap[child]
        i = child
    return size


@_kernel
def _append_task(line, first, size, task):
    """Append a task to the queue of ready tasks; returns the new size."""
    line[first + size] = task
    return size + 1


@_kernel
def _play_order(graph, ranked, board, context, scratch, totals, trace):
    """Time of one order in one context; adds joules and temperatures to the totals.

    Invariant: tasks in `ready` (a heap by rank, or a queue) have no unfinished predecessor.
    Running tasks fill the first slots, at most one per core.  Time advances only while a task runs.
    """
    nodes, successors, amounts = graph
    seconds, joules, clusters, cooling, sharing = board
    row, start = context
    base = cooling[0]
    ready, waiting, slot_places, slots, busy, clock = scratch
    slot_task, slot_cluster, slot_sharers, slot_here = slot_places
    slot_left, slot_wait, slot_seconds, slot_power = slots
    n, n_clusters, ranks = len(amounts), len(busy), amounts[:, RANK]
    # literals would have types of their own, and compile the functions called with them twice
    first, size = np.int64(0), np.int64(0)
    running, done, down = 0, 0, 0
    now, temperature = 0.0, start
    busy[:] = 0
    allocation, cores = row[0], row[1::2].sum()
    for c in range(n_clusters):
        clock[c] = row[2 + 2 * c]
    for v in range(n):
        waiting[v] = nodes[v, WAITING]
        if waiting[v] == 0:
            size = (
                _push_task(ready, ranks, size, v) if ranked else _append_task(ready, first, size, v)
            )
    while done < n:
        while size > 0 and running < cores:
            if ranked:
                size = _pop_task(ready, ranks, size)
                v = ready[size]
            else:
                v = ready[first]
                first, size = first + 1, size - 1
            best, fastest = -1, -np.inf
            for c in range(n_clusters):
                speed = clusters[SPEED, c, clock[c]]
                if busy[c] < row[1 + 2 * c] and speed > fastest:
                    best, fastest = c, speed
            slot_task[running] = v
            slot_cluster[running] = best
            slot_left[running] = amounts[v, WORK]
            slot_wait[running] = clusters[DISPATCH, best, clock[best]]
            slot_sharers[running] = 0  # not known until all tasks of this instant are started
            running += 1
            busy[best] += 1
            if len(trace) > 0:
                trace[v, START] = now
                trace[v, CLUSTER] = best
        if running == 0:  # a cycle, or no core; callers check both
            now = np.nan
            break
        step = np.inf
        power, on, idle, lowest = base, 0.0, 0.0, True
        for s in range(running):
            c, kind = slot_cluster[s], nodes[slot_task[s], KIND]
            if sharing == _PARTITIONED:
                slot_sharers[s], slot_here[s] = cores, row[1 + 2 * c]
            elif sharing == _RENEWED or slot_sharers[s] == 0:
                slot_sharers[s], slot_here[s] = running, busy[c]
            here, among = slot_here[s], slot_sharers[s]
            slot_seconds[s] = seconds[allocation, c, clock[c], here, among, kind]
            slot_power[s] = joules[allocation, c, clock[c], here, among, kind] / slot_seconds[s]
            step = min(step, slot_wait[s] + slot_left[s] * slot_seconds[s])
            power += slot_power[s]
        for c in range(n_clusters):
            if row[1 + 2 * c] > 0:
                on += clusters[ON, c, clock[c]]
                idle += (row[1 + 2 * c] - busy[c]) * clusters[IDLE, c, clock[c]]
                lowest = lowest and clock[c] == 0
        power += on + idle
        step, turn, temperature = _thermal_step(temperature, power, step, down, lowest, cooling)
        now += step
        totals[TOTAL_PEAK] = max(totals[TOTAL_PEAK], temperature)
        totals[TOTAL_ON] += on * step
        totals[TOTAL_IDLE] += idle * step
        kept = 0
        for s in range(running):
            c, v = slot_cluster[s], slot_task[s]
            # while a task is being started, its core draws the power of the task
            totals[TOTAL_TASKS + c] += step * slot_power[s]
            slot_left[s] -= max(step - slot_wait[s], 0.0) / slot_seconds[s]
            slot_wait[s] = max(slot_wait[s] - step, 0.0)
            if turn != 0 or slot_wait[s] + slot_left[s] * slot_seconds[s] > _DONE * now:
                slot_task[kept] = v
                slot_cluster[kept] = c
                slot_sharers[kept], slot_here[kept] = slot_sharers[s], slot_here[s]
                slot_left[kept] = max(slot_left[s], 0.0)
                slot_wait[kept] = slot_wait[s]
                kept += 1
            else:
                done += 1
                if len(trace) > 0:
                    trace[v, END] = now
                for e in range(nodes[v, FIRST], nodes[v + 1, FIRST]):
                    w = np.int64(successors[e])
                    waiting[w] -= 1
                    if waiting[w] == 0:
                        size = (
                            _push_task(ready, ranks, size, w)
                            if ranked
                            else _append_task(ready, first, size, w)
                        )
        running = kept
        down += turn
        busy[:] = 0
        for s in range(running):
            busy[slot_cluster[s]] += 1
        for c in range(n_clusters):
            clock[c] = max(row[2 + 2 * c] - down, 0)
    totals[TOTAL_LAST] += temperature
    return now


@_kernel
def list_schedules(graph, ranked, board, contexts, totals, trace):
    """List schedules of a graph in several contexts, averaged over several orders of its tasks.

    Whenever a core is free and a task is ready, the task that became ready first (or the one with
    the lowest rank) starts on the fastest free core.  Times and powers of running tasks are
    constant between two events: a start, the end of a task, a step of the clocks.

    Parameters
    ----------
    graph : tuple of arrays
        The tasks in each of several orders; of tasks that become ready together, the first in the
        order starts first.  ``nodes`` (n_orders, n + 1, 3): first successor in ``successors``,
        number of predecessors, kind; the last row ends the successors.  ``successors``
        (n_orders, n_edges).  ``amounts`` (n_orders, n, 2): work and rank.
    ranked : bool
        Whether ready tasks start by rank, or in the order in which they became ready.
    board : tuple of arrays
        ``seconds`` and ``joules`` (n_allocations, n_clusters, n_clocks, tasks on the cluster + 1,
        tasks + 1, n_kinds): of a unit of work of a kind, by the allocation of cache and bandwidth,
        the cluster, its clock, and the numbers of running tasks.  ``clusters`` (4, n_clusters,
        n_clocks): speed, time to start a task [s], power of the cluster and of an idle core [W].
        ``cooling`` (6,): see :func:`_thermal_step`.  A number that says among how many tasks cache
        and bandwidth are shared.
    contexts : tuple of arrays
        ``rows`` (m, 1 + 2 n_clusters): allocation; cores and index of the clock of each cluster.
        ``temperature`` (m,): at the start [°C].
    totals : ndarray, (m, 6 + n_clusters)
        Output, means over the orders: time [s], last temperature [°C], standard deviation of the
        time, highest temperature in any order, then joules: of clusters, of idle cores, and of the
        tasks on each cluster.
    trace : ndarray, (m or 0, n, 3)
        Output unless it is empty: start, end and cluster of each task, in the first order.
    """
    all_nodes, all_successors, all_amounts = graph
    rows, temperature = contexts
    n_orders, n, n_clusters = len(all_nodes), all_amounts.shape[1], board[0].shape[1]
    most = 0
    for k in range(len(rows)):
        most = max(most, rows[k, 1::2].sum())
    scratch = (
        np.empty(n, np.int32),  # ready tasks
        np.empty(n, np.int32),  # unfinished predecessors of each task
        # task of each slot, its cluster, and sharers: on the device, on the cluster
        (
            np.empty(most, np.int32),
            np.empty(most, np.int32),
            np.empty(most, np.int32),
            np.empty(most, np.int32),
        ),
        # its work left, dispatch left [s], seconds per unit of work, power [W]
        (np.empty(most), np.empty(most), np.empty(most), np.empty(most)),
        np.empty(n_clusters, np.int64),  # running tasks on each cluster
        np.empty(n_clusters, np.int64),  # its clock
    )
    nothing = np.empty((0, 3))
    for k in range(len(rows)):
        totals[k] = 0.0
        totals[k, TOTAL_PEAK] = -np.inf
        for o in range(n_orders):
            now = _play_order(
                (all_nodes[o], all_successors[o], all_amounts[o]),
                ranked,
                board,
                (rows[k], temperature[k]),
                scratch,
                totals[k],
                trace[k] if o == 0 and len(trace) > 0 else nothing,
            )
            totals[k, TOTAL_TIME] += now
            totals[k, TOTAL_SPREAD] += now**2
        peak = totals[k, TOTAL_PEAK]
        for i in range(totals.shape[1]):  # a division of rows takes a second to compile
            totals[k, i] /= n_orders
        totals[k, TOTAL_PEAK] = peak
        totals[k, TOTAL_SPREAD] = np.sqrt(
            max(totals[k, TOTAL_SPREAD] - totals[k, TOTAL_TIME] ** 2, 0.0)
        )
