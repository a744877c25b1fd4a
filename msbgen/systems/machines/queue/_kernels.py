"""Kernels of queues: the event loop, running jobs in order of their ends, trees over the queue.

All jobs of a simulation are arrays, in order of submission. Kernels are serial and release the
GIL: callers run them from threads over independent work.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from msbgen.core.compiled import cached


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    # no reordering: starts equal those of plain Python bit for bit
    options = {"nogil": True, "error_model": "numpy", "fastmath": False}
    return cached(njit, function, options)


# More nodes than any machine has; a leaf without a job has infinitely many.
MOST = np.int64(2**62)

GIVEN, ROUND_ROBIN, GREEDY, COMPLETION, AWARE = 0, 1, 2, 3, 4

# ------------------------------------------------------------------ trees over the queue

# Jobs are numbered in order of submission.  `trees` (columns, 2 size, 3) holds a binary tree a
# column: the children of node i are 2 i and 2 i + 1, job j is leaf size + j.  A node holds the
# fewest nodes and the shortest estimate of the queued jobs below it, and their estimated work.
# A column stands for a machine, or, where machines are chosen when jobs start, for a machine and
# those jobs that may run on the same machines.

FEWEST, SHORTEST, WORK = 0, 1, 2


@_kernel
def put(tree, job, nodes, estimate):
    """Add a job to a tree."""
    i = tree.shape[0] // 2 + job
    tree[i, FEWEST] = nodes
    tree[i, SHORTEST] = estimate
    tree[i, WORK] = nodes * estimate
    _update(tree, i)


@_kernel
def take(tree, job):
    """Remove a job from a tree."""
    i = tree.shape[0] // 2 + job
    tree[i, FEWEST] = np.inf
    tree[i, SHORTEST] = np.inf
    tree[i, WORK] = 0.0
    _update(tree, i)


@_kernel
def _update(tree, i):
    i >>= 1
    while i:
        tree[i, FEWEST] = min(tree[2 * i, FEWEST], tree[2 * i + 1, FEWEST])
        tree[i, SHORTEST] = min(tree[2 * i, SHORTEST], tree[2 * i + 1, SHORTEST])
        tree[i, WORK] = tree[2 * i, WORK] + tree[2 * i + 1, WORK]
        i >>= 1


@_kernel
def next_job(tree, first, free, extra, now, until):
    """First queued job from `first` on that may start, or the number of leaves if none may.

    It has at most `free` nodes, and is over `until`, or has at most `extra` nodes.  A subtree is
    searched where one of its jobs could have both its fewest nodes and its shortest estimate.
    """
    size = tree.shape[0] // 2
    if first >= size:
        return size
    i = size + first
    while i:
        # invariant: no job from `first` to before the subtree of i may start
        fewest = tree[i, FEWEST]
        if fewest <= free and (fewest <= extra or now + tree[i, SHORTEST] <= until):
            if i >= size:
                return i - size
            i *= 2
        else:
            while i & 1:
                i >>= 1
            i += i > 0
    return size


# ------------------------------------------------------------------ running jobs


class Running(NamedTuple):
    """State of the machines: free nodes, and running jobs by estimated end, then by number.

    ``free`` and ``counts`` (machines,), ``ends`` and ``jobs`` (machines, most at a time).
    """

    free: Any
    counts: Any
    ends: Any
    jobs: Any


@_kernel
def _place_among(ends, jobs, count, end, job):
    """Position of a job among those that run on a machine, whether it is there or not."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if ends[middle] < end or (ends[middle] == end and jobs[middle] < job):
            low = middle + 1
        else:
            high = middle
    return low


@_kernel
def _run(running, machine, job, nodes, end):
    ends, jobs = running.ends[machine], running.jobs[machine]
    at = _place_among(ends, jobs, running.counts[machine], end, job)
    for i in range(running.counts[machine], at, -1):
        ends[i] = ends[i - 1]
        jobs[i] = jobs[i - 1]
    ends[at] = end
    jobs[at] = job
    running.counts[machine] += 1
    running.free[machine] -= nodes


@_kernel
def _finish(running, machine, job, nodes, end):
    ends, jobs = running.ends[machine], running.jobs[machine]
    at = _place_among(ends, jobs, running.counts[machine], end, job)
    running.counts[machine] -= 1
    for i in range(at, running.counts[machine]):
        ends[i] = ends[i + 1]
        jobs[i] = jobs[i + 1]
    running.free[machine] += nodes


@_kernel
def _reservation(running, machine, needed, nodes, now):
    """Earliest time at which enough nodes are free by the estimates, and how many more are then.

    A job that has outlived its estimate counts as ending now.
    """
    available = running.free[machine]
    at = now
    for i in range(running.counts[machine]):
        end = max(running.ends[machine, i], now)
        if available >= needed and end > at:
            break
        at = end
        available += nodes[running.jobs[machine, i]]
    return at, available - needed


# ------------------------------------------------------------------ true ends


class Heap(NamedTuple):
    """True ends of running jobs as a binary heap: (jobs,) each, the first ``count[0]`` of them."""

    times: Any
    jobs: Any
    count: Any


@_kernel
def _push(heap, time, job):
    """Put an end into the heap."""
    times, jobs = heap.times, heap.jobs
    i = heap.count[0]
    heap.count[0] += 1
    while i:
        up = (i - 1) // 2
        if times[up] <= time:
            break
        times[i] = times[up]
        jobs[i] = jobs[up]
        i = up
    times[i] = time
    jobs[i] = job


@_kernel
def _pop(heap):
    """Job of the first end, which is taken out of the heap."""
    times, jobs = heap.times, heap.jobs
    heap.count[0] -= 1
    count = heap.count[0]
    first, time, job = jobs[0], times[count], jobs[count]
    i = 0
    while True:
        below = 2 * i + 1
        if below >= count:
            break
        if below + 1 < count and times[below + 1] < times[below]:
            below += 1
        if time <= times[below]:
            break
        times[i] = times[below]
        jobs[i] = jobs[below]
        i = below
    times[i] = time
    jobs[i] = job
    return first


# ------------------------------------------------------------------ placement


class JobArrays(NamedTuple):
    """Jobs in order of submission; the latter two (jobs, machines)."""

    submission: Any
    nodes: Any
    runtime: Any
    estimate: Any


class MachineSets(NamedTuple):
    """Machines that jobs may use: the set of each job, and where each set begins in `machines`."""

    set_of_job: Any
    first: Any
    machines: Any


class TreeColumns(NamedTuple):
    """Columns of trees: where those of each kind of jobs begin, and the machine of each.

    The kinds are the machines, with one column each. Where machines are chosen when jobs start
    (`placed_at_start`), the kinds are the sets of machines.
    """

    first: Any
    machine: Any


class JobResults(NamedTuple):
    """Start and estimated end of each job, NaN before it starts; its machine, -1 before."""

    start: Any
    end: Any
    machine: Any


class QueueState(NamedTuple):
    """State of a simulation and its inputs.

    ``sizes`` (machines,): nodes of each; ``queued`` (columns,): nodes of queued jobs; ``turns``
    (sets,): number of turns taken in round robin.
    """

    jobs: Any
    sets: Any
    columns: Any
    sizes: Any
    placement: Any
    placed_at_start: Any
    out: Any
    running: Any
    heap: Any
    trees: Any
    queued: Any
    turns: Any


@_kernel
def _turn(state, kind):
    """Next machine of a set in round robin."""
    first, after = state.sets.first[kind], state.sets.first[kind + 1]
    return state.sets.machines[first + state.turns[kind] % (after - first)]


@_kernel
def _take_turn(state, job):
    kind = state.sets.set_of_job[job]
    machine = _turn(state, kind)
    state.turns[kind] += 1
    return machine


@_kernel
def _fastest(state, job):
    """Fastest machine with enough free nodes for the job, or the fastest of all if none has."""
    estimate, kind = state.jobs.estimate[job], state.sets.set_of_job[job]
    best, best_free = -1, -1
    for k in range(state.sets.first[kind], state.sets.first[kind + 1]):
        m = state.sets.machines[k]
        if best < 0 or estimate[m] < estimate[best]:
            best = m
        fits = state.running.free[m] >= state.jobs.nodes[job]
        if fits and (best_free < 0 or estimate[m] < estimate[best_free]):
            best_free = m
    return best if best_free < 0 else best_free


@_kernel
def _soonest(state, job, now):
    """Machine of the earliest completion, or of the least (wait + time) √time."""
    kind = state.sets.set_of_job[job]
    best, least = -1, np.inf
    for k in range(state.sets.first[kind], state.sets.first[kind + 1]):
        m = state.sets.machines[k]
        time = state.jobs.estimate[job, m]
        score = time + _wait(state, m, job, now)
        if state.placement == AWARE:
            score *= np.sqrt(time)
        if best < 0 or score < least:
            best, least = m, score
    return best


@_kernel
def _wait(state, machine, job, now):
    """Estimated wait of a job on a machine, without backfilling.

    The wait ends when enough nodes are free for the jobs queued ahead and for the job. It is at
    most the remaining work divided by the number of nodes.
    """
    running, nodes = state.running, state.jobs.nodes
    needed = state.queued[machine] + nodes[job]
    available = running.free[machine]
    if available >= needed:
        return 0.0
    wait = np.inf
    work = state.trees[machine, 1, WORK]
    for i in range(running.counts[machine]):
        left = max(running.ends[machine, i], now) - now
        available += nodes[running.jobs[machine, i]]
        if available >= needed and left < wait:
            wait = left
        work += nodes[running.jobs[machine, i]] * left
    return min(wait, work / state.sizes[machine])


# ------------------------------------------------------------------ the event loop


@_kernel
def simulate_queues(state, one, touched):
    """Simulate all jobs from a new state; `one` is whether all machines share one queue.

    `touched` (machines,) is overwritten.  It and the state are made by the caller: code that
    makes arrays takes a quarter of the time of the compilation.
    """
    jobs, out, placement = state.jobs, state.out, state.placement
    n = len(jobs.submission)
    # typed numbers: a literal would have a function compiled once more for its own type
    arrived, head = np.int64(0), np.int64(0)
    while arrived < n or state.heap.count[0]:
        # invariant: all ends and submissions before `now` have been processed
        for machine in range(len(touched)):
            touched[machine] = False
        ends = state.heap.times[0] if state.heap.count[0] else np.inf
        if arrived == n or ends <= jobs.submission[arrived]:
            now = ends
            _end_all(state, now, touched)
        else:
            now = jobs.submission[arrived]
            if not state.placed_at_start:
                if placement == ROUND_ROBIN:
                    out.machine[arrived] = _take_turn(state, arrived)
                elif placement == GREEDY:
                    out.machine[arrived] = _fastest(state, arrived)
                elif placement != GIVEN:
                    out.machine[arrived] = _soonest(state, arrived, now)
                touched[out.machine[arrived]] = True
            _join(state, arrived)
            arrived += 1
        if one:
            head = _serve_all(state, head, arrived, now)
            continue
        for machine in range(len(touched)):
            if touched[machine]:
                _serve(state, machine, now)


@_kernel
def _kind(state, job):
    """Kind of a queued job, which says in which columns it is."""
    return state.sets.set_of_job[job] if state.placed_at_start else state.out.machine[job]


@_kernel
def _join(state, job):
    """Add a job to the trees of its columns."""
    kind = _kind(state, job)
    for k in range(state.columns.first[kind], state.columns.first[kind + 1]):
        machine = state.columns.machine[k]
        put(state.trees[k], job, state.jobs.nodes[job], state.jobs.estimate[job, machine])
        state.queued[k] += state.jobs.nodes[job]


@_kernel
def _start(state, job, machine, now):
    """Start a job that is queued."""
    kind = _kind(state, job)
    for k in range(state.columns.first[kind], state.columns.first[kind + 1]):
        take(state.trees[k], job)
        state.queued[k] -= state.jobs.nodes[job]
    end = now + state.jobs.estimate[job, machine]
    state.out.start[job], state.out.end[job], state.out.machine[job] = now, end, machine
    _run(state.running, machine, job, state.jobs.nodes[job], end)
    _push(state.heap, now + state.jobs.runtime[job, machine], job)


@_kernel
def _end_all(state, now, touched):
    """Remove all jobs that end now, and mark their machines in `touched`."""
    while state.heap.count[0] and state.heap.times[0] == now:
        job = _pop(state.heap)
        machine = state.out.machine[job]
        _finish(state.running, machine, job, state.jobs.nodes[job], state.out.end[job])
        touched[machine] = True


@_kernel
def _serve(state, machine, now):
    """Start jobs from the queue of a machine: first come first served with backfilling.

    A head that cannot start gets a reservation: the earliest time at which it can, by the
    estimates. Other jobs start if they end before it, or leave the head enough nodes.
    """
    nodes, free, tree = state.jobs.nodes, state.running.free, state.trees[machine]
    leaves = tree.shape[0] // 2
    while True:
        head = next_job(tree, np.int64(0), MOST, MOST, now, np.inf)
        if head == leaves:
            return
        if nodes[head] > free[machine]:
            break
        _start(state, head, machine, now)
    until, extra = _reservation(state.running, machine, nodes[head], nodes, now)
    job = head
    while free[machine] > 0:
        job = next_job(tree, job + 1, free[machine], extra, now, until)
        if job == leaves:
            return
        _start(state, job, machine, now)
        if state.out.end[job] > until:
            extra -= nodes[job]


@_kernel
def _serve_all(state, head, arrived, now):
    """Head of the shared queue after all jobs that may start have been started.

    A job takes its turn when it starts or gets a reservation, and keeps the reserved machine.
    """
    nodes, free, out = state.jobs.nodes, state.running.free, state.out
    while True:
        while head < arrived and not np.isnan(out.start[head]):
            head += 1
        if head == arrived:
            return head
        if state.placement == GREEDY:
            out.machine[head] = _fastest(state, head)
        elif out.machine[head] < 0:
            out.machine[head] = _take_turn(state, head)
        kept = out.machine[head]
        if nodes[head] > free[kept]:
            break
        _start(state, head, kept, now)
    until, extra = _reservation(state.running, kept, nodes[head], nodes, now)
    job = head
    while True:
        job, machine = _next_of_all(state, job + 1, kept, extra, now, until)
        if machine < 0:
            return head
        if state.placement == ROUND_ROBIN:
            _take_turn(state, job)
        _start(state, job, machine, now)
        if machine == kept and out.end[job] > until:
            extra -= nodes[job]


@_kernel
def _next_of_all(state, first, kept, extra, now, until):
    """First job that may start now without delaying the head, and its fastest such machine.

    The head has a reservation on machine `kept`.
    """
    free, estimate = state.running.free, state.jobs.estimate
    nearest, chosen = state.trees.shape[1] // 2, -1
    for kind in range(len(state.columns.first) - 1):
        for k in range(state.columns.first[kind], state.columns.first[kind + 1]):
            m = state.columns.machine[k]
            if free[m] == 0 or (state.placement == ROUND_ROBIN and m != _turn(state, kind)):
                continue
            if m == kept:
                job = next_job(state.trees[k], first, free[m], extra, now, until)
            else:
                job = next_job(state.trees[k], first, free[m], MOST, now, np.inf)
            if job < nearest:
                nearest, chosen = job, m
            elif job == nearest and chosen >= 0 and estimate[job, m] < estimate[job, chosen]:
                chosen = m
    return nearest, chosen
