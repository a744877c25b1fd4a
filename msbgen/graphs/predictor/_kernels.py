"""Kernel of graphs: a list schedule of tasks whose pace changes with what runs beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    # no freedom: schedules of graphs numbered otherwise are to be the same
    options = {"nogil": True, "error_model": "numpy", "fastmath": False}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # "no locator available": a read-only install without a cache folder
        return njit(**options)(function)


# Columns of a graph's `nodes` and `amounts`, rows of `clusters`, columns of totals and of a trace.
FIRST, WAITING, KIND = 0, 1, 2
WORK, RANK = 0, 1
SWIFTNESS, DISPATCH, ON, IDLE = 0, 1, 2, 3
TIME, LAST, SPREAD, PEAK, ON_JOULES, IDLE_JOULES, JOULES = range(7)
START, END, CLUSTER = 0, 1, 2

# What is left of a task when it counts as done, as a share of the time until then.
_DONE = 1e-12


@_kernel
def _push(heap, keys, size, task):
    """Put a task into the heap of those that are ready, smallest key on top."""
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
def _pop(heap, keys, size):
    """Take the task on top; returns the new size, the task then lies behind the end."""
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
def _line_up(line, first, size, task):
    """Put a task behind those that became ready before it."""
    line[first + size] = task
    return size + 1


@_kernel
def _play(graph, ranked, board, context, scratch, totals, trace):
    """Time of one order in one context; joules and temperatures are added to the totals.

    Invariant: `ready` tasks, a heap by rank or a line, wait for nothing and those that run fill the
    first slots, at most as many on a cluster as it has cores; time only advances while one runs.
    """
    nodes, successors, amounts = graph
    pace, joules, clusters, cooling = board
    row, start = context
    base, ambient, resistance, constant, cap, hysteresis = cooling
    ready, waiting, slot_task, slot_cluster, slots, own, clock = scratch
    slot_left, slot_wait, slot_pace, slot_power = slots
    n, n_clusters, ranks = len(amounts), len(own), amounts[:, RANK]
    # no literals: what they are handed to would be compiled for them, and again for others
    first, size = np.int64(0), np.int64(0)
    running, done, down = 0, 0, 0
    now, heat = 0.0, start
    own[:] = 0
    gift, cores = row[0], row[1::2].sum()
    for c in range(n_clusters):
        clock[c] = row[2 + 2 * c]
    for v in range(n):
        waiting[v] = nodes[v, WAITING]
        if waiting[v] == 0:
            size = _push(ready, ranks, size, v) if ranked else _line_up(ready, first, size, v)
    while done < n:
        while size > 0 and running < cores:
            if ranked:
                size = _pop(ready, ranks, size)
                v = ready[size]
            else:
                v = ready[first]
                first, size = first + 1, size - 1
            best, most_swift = -1, -np.inf
            for c in range(n_clusters):
                swift = clusters[SWIFTNESS, c, clock[c]]
                if own[c] < row[1 + 2 * c] and swift > most_swift:
                    best, most_swift = c, swift
            slot_task[running] = v
            slot_cluster[running] = best
            slot_left[running] = amounts[v, WORK]
            slot_wait[running] = clusters[DISPATCH, best, clock[best]]
            running += 1
            own[best] += 1
            if len(trace) > 0:
                trace[v, START] = now
                trace[v, CLUSTER] = best
        if running == 0:  # a cycle, or no core: callers look before
            now = np.nan
            break
        step = np.inf
        power, on, idle, lowest = base, 0.0, 0.0, True
        for s in range(running):
            c, kind = slot_cluster[s], nodes[slot_task[s], KIND]
            slot_pace[s] = pace[gift, c, clock[c], own[c], running, kind]
            slot_power[s] = joules[gift, c, clock[c], own[c], running, kind] / slot_pace[s]
            step = min(step, slot_wait[s] + slot_left[s] * slot_pace[s])
            power += slot_power[s]
        for c in range(n_clusters):
            if row[1 + 2 * c] > 0:
                on += clusters[ON, c, clock[c]]
                idle += (row[1 + 2 * c] - own[c]) * clusters[IDLE, c, clock[c]]
                lowest = lowest and clock[c] == 0
        power += on + idle
        # clocks step when the temperature, on its way to `goal`, meets a threshold
        goal, turn = ambient + resistance * power, 0
        if goal > cap and not lowest:
            wait = 0.0
            if heat < cap:
                wait = constant * np.log((goal - heat) / (goal - cap))
            if wait < step:
                step, turn = wait, 1
        elif down > 0 and goal < cap - hysteresis:
            wait = 0.0
            if heat > cap - hysteresis:
                wait = constant * np.log((heat - goal) / (cap - hysteresis - goal))
            if wait < step:
                step, turn = wait, -1
        now += step
        heat = goal + (heat - goal) * np.exp(-step / constant)
        totals[PEAK] = max(totals[PEAK], heat)
        totals[ON_JOULES] += on * step
        totals[IDLE_JOULES] += idle * step
        kept = 0
        for s in range(running):
            c, v = slot_cluster[s], slot_task[s]
            # to start a task is work, too, and draws what the task does
            totals[JOULES + c] += step * slot_power[s]
            slot_left[s] -= max(step - slot_wait[s], 0.0) / slot_pace[s]
            slot_wait[s] = max(slot_wait[s] - step, 0.0)
            if turn != 0 or slot_wait[s] + slot_left[s] * slot_pace[s] > _DONE * now:
                slot_task[kept] = v
                slot_cluster[kept] = c
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
                            _push(ready, ranks, size, w)
                            if ranked
                            else _line_up(ready, first, size, w)
                        )
        running = kept
        if turn != 0:
            # rounding must not leave it a hair short, or it would turn again at once
            heat = max(heat, cap) if turn > 0 else min(heat, cap - hysteresis)
            down += turn
        own[:] = 0
        for s in range(running):
            own[slot_cluster[s]] += 1
        for c in range(n_clusters):
            clock[c] = max(row[2 + 2 * c] - down, 0)
    totals[LAST] += heat
    return now


@_kernel
def list_schedules(graph, ranked, board, contexts, totals, trace):
    """Schedule a graph greedily in each of several contexts, on average over several orders.

    Whenever a core is free and a task ready, the task that became ready first, or of the lowest
    rank, starts on the swiftest free core.  Paces are constant between two events (a start, the end
    of a task, a step of the clocks) and looked up anew at each.

    Parameters
    ----------
    graph : tuple of arrays
        The tasks in each of several orders, which settle who is first of those that get ready
        together.  ``nodes`` (n_orders, n + 1, 3): where a task's successors begin in
        ``successors``, how many tasks it waits for, its kind; the last row ends the successors.
        ``successors`` (n_orders, n_edges).  ``amounts`` (n_orders, n, 2): work and rank of each
        task, the lowest rank first.
    ranked : bool
        Whether ready tasks are taken by rank, or in the order in which they became ready.
    board : tuple of arrays
        ``pace`` (n_gifts, n_clusters, n_clocks, own + 1, all + 1, n_kinds): seconds that a unit of
        work of a kind takes, with one of several gifts of cache and bandwidth, on a cluster at a
        clock, with so many tasks running on the cluster and on all.  ``joules``: what the unit
        takes beside what flows whatever runs.  ``clusters`` (4, n_clusters, n_clocks): swiftness,
        time before each task [s], power of the cluster and of a core that waits [W].  ``cooling``
        (6,): base power [W], ambient [°C], resistance [K/W], time constant [s], cap [°C] where
        clocks are stepped down, and so many K below it up again.
    contexts : tuple of arrays
        ``rows`` (m, 1 + 2 n_clusters): gift; cores that may be used and index of the clock, of each
        cluster.  ``temperature`` (m,) at the start [°C].
    totals : ndarray, (m, 6 + n_clusters)
        Written, means over the orders: time, the last temperature, the standard deviation of the
        time, the highest temperature at any event after the start, in any order, then joules: of
        clusters, of waiting cores, and of the tasks on each cluster.
    trace : ndarray, (m or 0, n, 3)
        Written unless it is empty: start, end and cluster of each task, in the first order.
    """
    all_nodes, all_successors, all_amounts = graph
    rows, temperature = contexts
    n_orders, n, n_clusters = len(all_nodes), all_amounts.shape[1], board[0].shape[1]
    most = 0
    for k in range(len(rows)):
        most = max(most, rows[k, 1::2].sum())
    scratch = (
        np.empty(n, np.int32),  # tasks that are ready
        np.empty(n, np.int32),  # tasks that each waits for
        np.empty(most, np.int32),  # task of each slot
        np.empty(most, np.int32),  # its cluster
        # its work left, dispatch left [s], pace, power [W]
        (np.empty(most), np.empty(most), np.empty(most), np.empty(most)),
        np.empty(n_clusters, np.int64),  # tasks that run on each cluster
        np.empty(n_clusters, np.int64),  # its clock
    )
    nothing = np.empty((0, 3))
    for k in range(len(rows)):
        totals[k] = 0.0
        totals[k, PEAK] = -np.inf
        for o in range(n_orders):
            now = _play(
                (all_nodes[o], all_successors[o], all_amounts[o]),
                ranked,
                board,
                (rows[k], temperature[k]),
                scratch,
                totals[k],
                trace[k] if o == 0 and len(trace) > 0 else nothing,
            )
            totals[k, TIME] += now
            totals[k, SPREAD] += now**2
        peak = totals[k, PEAK]
        for i in range(totals.shape[1]):  # to divide a row takes a second of compilation
            totals[k, i] /= n_orders
        totals[k, PEAK] = peak
        totals[k, SPREAD] = np.sqrt(max(totals[k, SPREAD] - totals[k, TIME] ** 2, 0.0))
