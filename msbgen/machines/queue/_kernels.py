"""Kernels of queues: the event loop, running jobs in order of their ends, trees over the queue.

They are serial and release the GIL: callers run them from threads over independent work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    # no freedom at all: starts are equal, bit for bit, to those of plain Python
    options = {"nogil": True, "error_model": "numpy", "fastmath": False}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # "no locator available": a read-only install without a cache folder
        return njit(**options)(function)


# More nodes than there are; a leaf that holds no job has infinitely many.
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
    """Queue a job."""
    i = tree.shape[0] // 2 + job
    tree[i, FEWEST] = nodes
    tree[i, SHORTEST] = estimate
    tree[i, WORK] = nodes * estimate
    _update(tree, i)


@_kernel
def take(tree, job):
    """Take a job from the queue."""
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
    """What machines do: free nodes, jobs that run, and those by estimated end, then by number.

    ``free`` and ``counts`` (machines,), ``ends`` and ``jobs`` (machines, most at a time).
    """

    free: Any
    counts: Any
    ends: Any
    jobs: Any


@_kernel
def _place_among(ends, jobs, count, end, job):
    """Where a job is, or would be, among those that run on a machine."""
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
def _promise(running, machine, wanted, nodes, now):
    """When so many nodes are free by the estimates, and how many more are then.

    Estimates that ran out count as ending now.
    """
    there = running.free[machine]
    at = now
    for i in range(running.counts[machine]):
        end = max(running.ends[machine, i], now)
        if there >= wanted and end > at:
            break
        at = end
        there += nodes[running.jobs[machine, i]]
    return at, there - wanted


# ------------------------------------------------------------------ what ends next


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
    """Take the first end out of the heap; returns its job."""
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


# ------------------------------------------------------------------ where a job goes


class Jobs(NamedTuple):
    """Jobs in order of submission; the latter two (jobs, machines)."""

    submission: Any
    nodes: Any
    runtime: Any
    estimate: Any


class Sets(NamedTuple):
    """Where jobs may run: the set of each, where each set begins in the row of their machines."""

    of: Any
    first: Any
    machines: Any


class Columns(NamedTuple):
    """Columns of trees: where those of each kind of jobs begin, and the machine of each.

    The kinds are the machines, a column each; where machines are chosen `late`, when jobs start,
    they are the sets.
    """

    first: Any
    machine: Any


class Out(NamedTuple):
    """What became of jobs: start, and end by the estimate, NaN before; machine, -1 before."""

    start: Any
    end: Any
    machine: Any


class Play(NamedTuple):
    """All of it: what is given, how to place, and what is the case now.

    ``sizes`` (machines,) are their nodes, ``queued`` (columns,) the nodes that are queued,
    ``turns`` (sets,) how many were taken.
    """

    jobs: Any
    sets: Any
    columns: Any
    sizes: Any
    placement: Any
    late: Any
    out: Any
    running: Any
    heap: Any
    trees: Any
    queued: Any
    turns: Any


@_kernel
def _turn(play, kind):
    """Machine whose turn it is among those of a set."""
    first, after = play.sets.first[kind], play.sets.first[kind + 1]
    return play.sets.machines[first + play.turns[kind] % (after - first)]


@_kernel
def _take_turn(play, job):
    kind = play.sets.of[job]
    machine = _turn(play, kind)
    play.turns[kind] += 1
    return machine


@_kernel
def _fastest(play, job):
    """Fastest machine with as many nodes free as the job needs, the fastest of all if none has."""
    estimate, kind = play.jobs.estimate[job], play.sets.of[job]
    best, roomy = -1, -1
    for k in range(play.sets.first[kind], play.sets.first[kind + 1]):
        m = play.sets.machines[k]
        if best < 0 or estimate[m] < estimate[best]:
            best = m
        has_room = play.running.free[m] >= play.jobs.nodes[job]
        if has_room and (roomy < 0 or estimate[m] < estimate[roomy]):
            roomy = m
    return best if roomy < 0 else roomy


@_kernel
def _soonest(play, job, now):
    """Machine of the earliest completion, or of the least (wait + time) √time."""
    kind = play.sets.of[job]
    best, least = -1, np.inf
    for k in range(play.sets.first[kind], play.sets.first[kind + 1]):
        m = play.sets.machines[k]
        time = play.jobs.estimate[job, m]
        worth = time + _wait(play, m, job, now)
        if play.placement == AWARE:
            worth *= np.sqrt(time)
        if best < 0 or worth < least:
            best, least = m, worth
    return best


@_kernel
def _wait(play, machine, job, now):
    """How long a job would wait on a machine by the estimates, without backfilling.

    Until as many nodes are free as are queued ahead plus its own, at most the mean over nodes of
    the work that remains.
    """
    running, nodes = play.running, play.jobs.nodes
    wanted = play.queued[machine] + nodes[job]
    there = running.free[machine]
    if there >= wanted:
        return 0.0
    wait = np.inf
    work = play.trees[machine, 1, WORK]
    for i in range(running.counts[machine]):
        left = max(running.ends[machine, i], now) - now
        there += nodes[running.jobs[machine, i]]
        if there >= wanted and left < wait:
            wait = left
        work += nodes[running.jobs[machine, i]] * left
    return min(wait, work / play.sizes[machine])


# ------------------------------------------------------------------ the event loop


@_kernel
def play_queues(jobs, sets, columns, sizes, how, out):
    """Play all jobs; ``how`` is (placement, whether there is one queue, not one a machine)."""
    placement, one = how
    n = len(jobs.submission)
    play = _new_play(jobs, sets, columns, sizes, how, out)
    touched = np.zeros(len(sizes), dtype=np.bool_)
    # no literals: what they are handed to would be compiled for them, and again for others
    arrived, head = np.int64(0), np.int64(0)
    while arrived < n or play.heap.count[0]:
        # invariant: what ends and what is submitted before `now` has been seen
        touched[:] = False
        ends = play.heap.times[0] if play.heap.count[0] else np.inf
        if arrived == n or ends <= jobs.submission[arrived]:
            now = ends
            _end_all(play, now, touched)
        else:
            now = jobs.submission[arrived]
            if not play.late:
                if placement == ROUND_ROBIN:
                    out.machine[arrived] = _take_turn(play, arrived)
                elif placement == GREEDY:
                    out.machine[arrived] = _fastest(play, arrived)
                elif placement != GIVEN:
                    out.machine[arrived] = _soonest(play, arrived, now)
                touched[out.machine[arrived]] = True
            _join(play, arrived)
            arrived += 1
        if one:
            head = _serve_all(play, head, arrived, now)
            continue
        for machine in range(len(sizes)):
            if touched[machine]:
                _serve(play, machine, now)


@_kernel
def _new_play(jobs, sets, columns, sizes, how, out):
    n, m = jobs.estimate.shape
    most = min(np.max(sizes), n)
    running = Running(
        sizes.copy(),
        np.zeros(m, dtype=np.int64),
        np.empty((m, most)),
        np.empty((m, most), dtype=np.int64),
    )
    heap = Heap(np.empty(n), np.empty(n, dtype=np.int64), np.zeros(1, dtype=np.int64))
    leaves = 1
    while leaves < n:
        leaves *= 2
    trees = np.full((len(columns.machine), 2 * leaves, 3), np.inf)
    trees[:, :, WORK] = 0.0
    queued = np.zeros(len(columns.machine), dtype=np.int64)
    turns = np.zeros(len(sets.first) - 1, dtype=np.int64)
    placement, one = how
    late = one and placement in (ROUND_ROBIN, GREEDY)
    return Play(
        jobs, sets, columns, sizes, placement, late, out, running, heap, trees, queued, turns
    )


@_kernel
def _kind(play, job):
    """Whose columns a queued job is in."""
    return play.sets.of[job] if play.late else play.out.machine[job]


@_kernel
def _join(play, job):
    """Queue a job in its columns."""
    kind = _kind(play, job)
    for k in range(play.columns.first[kind], play.columns.first[kind + 1]):
        machine = play.columns.machine[k]
        put(play.trees[k], job, play.jobs.nodes[job], play.jobs.estimate[job, machine])
        play.queued[k] += play.jobs.nodes[job]


@_kernel
def _start(play, job, machine, now):
    """Start a job that is queued."""
    kind = _kind(play, job)
    for k in range(play.columns.first[kind], play.columns.first[kind + 1]):
        take(play.trees[k], job)
        play.queued[k] -= play.jobs.nodes[job]
    end = now + play.jobs.estimate[job, machine]
    play.out.start[job], play.out.end[job], play.out.machine[job] = now, end, machine
    _run(play.running, machine, job, play.jobs.nodes[job], end)
    _push(play.heap, now + play.jobs.runtime[job, machine], job)


@_kernel
def _end_all(play, now, touched):
    """Let all jobs go that end now; says on which machines."""
    while play.heap.count[0] and play.heap.times[0] == now:
        job = _pop(play.heap)
        machine = play.out.machine[job]
        _finish(play.running, machine, job, play.jobs.nodes[job], play.out.end[job])
        touched[machine] = True


@_kernel
def _serve(play, machine, now):
    """Start what may start from the queue of a machine: first come first served, and backfilling.

    The head that cannot start is promised the first moment at which it can by the estimates;
    others start if they are over by then, or leave it enough nodes.
    """
    nodes, free, tree = play.jobs.nodes, play.running.free, play.trees[machine]
    leaves = tree.shape[0] // 2
    while True:
        head = next_job(tree, np.int64(0), MOST, MOST, now, np.inf)
        if head == leaves:
            return
        if nodes[head] > free[machine]:
            break
        _start(play, head, machine, now)
    until, extra = _promise(play.running, machine, nodes[head], nodes, now)
    job = head
    while free[machine] > 0:
        job = next_job(tree, job + 1, free[machine], extra, now, until)
        if job == leaves:
            return
        _start(play, job, machine, now)
        if play.out.end[job] > until:
            extra -= nodes[job]


@_kernel
def _serve_all(play, head, arrived, now):
    """Start what may start from the one queue; returns its head.

    A job takes its turn when it starts or is promised a machine, and keeps what it was promised.
    """
    nodes, free, out = play.jobs.nodes, play.running.free, play.out
    while True:
        while head < arrived and not np.isnan(out.start[head]):
            head += 1
        if head == arrived:
            return head
        if play.placement == GREEDY:
            out.machine[head] = _fastest(play, head)
        elif out.machine[head] < 0:
            out.machine[head] = _take_turn(play, head)
        kept = out.machine[head]
        if nodes[head] > free[kept]:
            break
        _start(play, head, kept, now)
    until, extra = _promise(play.running, kept, nodes[head], nodes, now)
    job = head
    while True:
        job, machine = _next_of_all(play, job + 1, kept, extra, now, until)
        if machine < 0:
            return head
        if play.placement == ROUND_ROBIN:
            _take_turn(play, job)
        _start(play, job, machine, now)
        if machine == kept and out.end[job] > until:
            extra -= nodes[job]


@_kernel
def _next_of_all(play, first, kept, extra, now, until):
    """First job that may start now without delaying the head, and its fastest such machine.

    The head is promised machine `kept`.
    """
    free, estimate = play.running.free, play.jobs.estimate
    nearest, chosen = play.trees.shape[1] // 2, -1
    for kind in range(len(play.columns.first) - 1):
        for k in range(play.columns.first[kind], play.columns.first[kind + 1]):
            m = play.columns.machine[k]
            if free[m] == 0 or (play.placement == ROUND_ROBIN and m != _turn(play, kind)):
                continue
            if m == kept:
                job = next_job(play.trees[k], first, free[m], extra, now, until)
            else:
                job = next_job(play.trees[k], first, free[m], MOST, now, np.inf)
            if job < nearest:
                nearest, chosen = job, m
            elif job == nearest and chosen >= 0 and estimate[job, m] < estimate[job, chosen]:
                chosen = m
    return nearest, chosen
