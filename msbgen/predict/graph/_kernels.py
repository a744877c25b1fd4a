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


# Columns of `nodes` and `amounts`, of what a context totals, and of a trace.
FIRST, WAITING, KIND = 0, 1, 2
WORK, RANK = 0, 1
TIME, BUSY = 0, 1
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
def list_schedules(
    nodes, successors, amounts, ranked, pace, joules, dispatch, contexts, totals, trace
):
    """Schedule a graph greedily in each of several contexts.

    Whenever a core is free and a task ready, the task that became ready first, or of the lowest
    rank, starts where its pace is best.  Paces are constant between two events (a start, the end of
    a task) and looked up anew at each.

    Parameters
    ----------
    nodes : ndarray of int, (n + 1, 3)
        Where a task's successors begin in `successors`, how many tasks it waits for, its kind; the
        last row ends the successors.
    successors : ndarray of int, (n_edges,)
    amounts : ndarray, (n, 2)
        Work and rank of each task; the lowest rank first.
    ranked : bool
        Whether ready tasks are taken by rank, or in the order in which they became ready.
    pace : ndarray, (n_gifts, n_clusters, n_clocks, own + 1, all + 1, n_kinds)
        Seconds that a unit of work of a kind takes, with one of several gifts of cache and
        bandwidth, on a cluster at a clock, with so many tasks running on the cluster and on all.
    joules : ndarray, as `pace`
        What the unit takes beside what flows whatever runs [J].
    dispatch : ndarray, (n_clusters, n_clocks)
        Time that a core spends before each task [s].
    contexts : ndarray of int, (m, 1 + 2 n_clusters)
        Gift; cores that may be used and index of the clock, of each cluster.
    totals : ndarray, (m, 1 + 2 n_clusters)
        Written: time, busy core-seconds of each cluster, joules of each cluster.
    trace : ndarray, (m or 0, n, 3)
        Written unless it is empty: start, end and cluster of each task.

    Notes
    -----
    Invariant: `ready` tasks wait for nothing and `running` ones fill the first slots, at most as
    many on a cluster as it has cores; time only advances while something runs.
    """
    n, n_clusters, m = len(amounts), pace.shape[1], len(contexts)
    heap = np.empty(n, np.int32)
    waiting = np.empty(n, np.int32)
    keys = np.empty(n)
    most = 0
    for k in range(m):
        most = max(most, contexts[k, 1::2].sum())
    slot_task = np.empty(most, np.int32)
    slot_cluster = np.empty(most, np.int32)
    slot_left = np.empty(most)  # work
    slot_wait = np.empty(most)  # of its dispatch [s]
    own = np.empty(n_clusters, np.int64)
    for k in range(m):
        totals[k] = 0.0
        size, running, done, came = 0, 0, 0, 0
        now = 0.0
        own[:] = 0
        gift, cores = contexts[k, 0], contexts[k, 1::2].sum()
        for v in range(n):
            waiting[v] = nodes[v, WAITING]
            keys[v] = amounts[v, RANK]
            if waiting[v] == 0:
                if not ranked:
                    keys[v] = came
                    came += 1
                size = _push(heap, keys, size, v)
        while done < n:
            while size > 0 and running < cores:
                size = _pop(heap, keys, size)
                v = heap[size]
                best, lowest = -1, np.inf
                for c in range(n_clusters):
                    if own[c] < contexts[k, 1 + 2 * c]:
                        clock = contexts[k, 2 + 2 * c]
                        p = pace[gift, c, clock, own[c] + 1, running + 1, nodes[v, KIND]]
                        if p < lowest:
                            best, lowest = c, p
                slot_task[running] = v
                slot_cluster[running] = best
                slot_left[running] = amounts[v, WORK]
                slot_wait[running] = dispatch[best, contexts[k, 2 + 2 * best]]
                running += 1
                own[best] += 1
                if len(trace) > 0:
                    trace[k, v, START] = now
                    trace[k, v, CLUSTER] = best
            if running == 0:  # a cycle, or no core: callers look before
                now = np.nan
                break
            step = np.inf
            for s in range(running):
                c = slot_cluster[s]
                kind = nodes[slot_task[s], KIND]
                p = pace[gift, c, contexts[k, 2 + 2 * c], own[c], running, kind]
                step = min(step, slot_wait[s] + slot_left[s] * p)
            now += step
            for c in range(n_clusters):
                totals[k, BUSY + c] += step * own[c]
            # paces are those that held during the step, whatever ends at its end
            beside, kept = running, 0
            for s in range(running):
                c = slot_cluster[s]
                v = slot_task[s]
                clock, kind = contexts[k, 2 + 2 * c], nodes[v, KIND]
                p = pace[gift, c, clock, own[c], beside, kind]
                worked = step - slot_wait[s]
                if worked >= 0.0:
                    slot_wait[s] = 0.0
                    slot_left[s] -= worked / p
                    per_work = joules[gift, c, clock, own[c], beside, kind]
                    totals[k, BUSY + n_clusters + c] += worked / p * per_work
                else:
                    slot_wait[s] -= step
                if slot_wait[s] + slot_left[s] * p > _DONE * now:
                    slot_task[kept] = v
                    slot_cluster[kept] = c
                    slot_left[kept] = slot_left[s]
                    slot_wait[kept] = slot_wait[s]
                    kept += 1
                else:
                    done += 1
                    if len(trace) > 0:
                        trace[k, v, END] = now
                    for e in range(nodes[v, FIRST], nodes[v + 1, FIRST]):
                        w = successors[e]
                        waiting[w] -= 1
                        if waiting[w] == 0:
                            if not ranked:
                                keys[w] = came
                                came += 1
                            size = _push(heap, keys, size, w)
            running = kept
            own[:] = 0
            for s in range(running):
                own[slot_cluster[s]] += 1
        totals[k, TIME] = now
