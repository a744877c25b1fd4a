"""The kernel beside closed forms and a list schedule written as its definition reads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.systems.graphs._kernels import (
    CLUSTER,
    END,
    START,
    TOTAL_IDLE,
    TOTAL_LAST,
    TOTAL_ON,
    TOTAL_PEAK,
    TOTAL_TASKS,
    TOTAL_TIME,
    list_schedules,
)


def packed(n, edges):
    """Nodes and successors, as the kernel wants them."""
    edges = sorted(edges)
    first = np.searchsorted([u for u, _ in edges], np.arange(n + 1))
    waiting = np.bincount([v for _, v in edges], minlength=n + 1)
    nodes = np.column_stack([first, waiting, np.zeros(n + 1)]).astype(np.int32)
    return nodes, np.array([v for _, v in edges], dtype=np.int32)


# Base power 0, ambient 20 °C, 1 K/W, 10 s, never too hot.
COLD = (0.0, 20.0, 1.0, 10.0, 1e9, 1.0)


def schedule(edges, work, seconds, cores, dispatch=0.0, joules=None, **given):
    """Totals and trace of orders of works (or of one) on so many cores of each cluster."""
    work = np.atleast_2d(np.asarray(work, dtype=float))
    orders, n = work.shape
    nodes, successors = packed(n, edges)
    rows = np.array([[0, *(x for c in cores for x in (c, given.get("clock", 0)))]])
    totals, trace = np.empty((1, TOTAL_TASKS + len(cores))), np.empty((1, n, 3))
    clusters = np.empty((4, *seconds.shape[1:3]))
    clusters[0] = 1.0 / seconds[0, :, :, 1, 1, 0]  # swift where the seconds are short
    waits = given.get("on", 0.0), given.get("idle", 0.0)
    clusters[1:] = np.array([dispatch, *waits])[:, None, None]
    spent = 2.0 * seconds if joules is None else joules
    board = seconds, spent, clusters, np.array(given.get("cooling", COLD)), 0
    contexts = rows, np.array([given.get("start", 20.0)])
    graph = np.stack([nodes] * orders), np.stack([successors] * orders)
    rank = given.get("rank")
    ranks = np.broadcast_to(0.0 if rank is None else rank, work.shape)
    amounts = np.stack([work, ranks], axis=2)
    list_schedules((*graph, amounts), rank is not None, board, contexts, totals, trace)
    return totals[0], trace[0]


def constant(*seconds, most=9):
    """The same seconds on a cluster for every number of running tasks."""
    return np.broadcast_to(
        np.array(seconds, dtype=float)[None, :, None, None, None, None],
        (1, len(seconds), 1, most, most, 1),
    ).copy()


def by_definition(n, edges, work, speed, cores, dispatch, rank):
    """Greedy, by rank or first come first served; the fastest free core takes each task."""
    waiting = {v: {u for u, w in edges if w == v} for v in range(n)}
    free = [(p, c) for c, p in enumerate(speed) for _ in range(cores[c])]
    ready = [v for v in range(n) if not waiting[v]]
    running, now, ends = [], 0.0, {}
    while len(ends) < n:
        while ready and free:
            core = min(free)
            free.remove(core)
            v = ready[0] if rank is None else min(ready, key=rank.__getitem__)
            ready.remove(v)
            running.append((now + dispatch + work[v] * core[0], v, core))
        now = min(end for end, *_ in running)
        over = [r for r in running if r[0] <= now + 1e-9]
        for r in over:
            running.remove(r)
            free.append(r[2])
            ends[r[1]] = r[0]
            for w in sorted(w for u, w in edges if u == r[1]):
                waiting[w].discard(r[1])
                if not waiting[w]:
                    ready.append(w)
    return now


graphs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.sets(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] < e[1])
        ),
        st.integers(0, 10**6),
    )
)


@given(graphs, st.integers(1, 3), st.integers(0, 2), st.sampled_from([0.0, 0.3]), st.booleans())
@settings(deadline=None, max_examples=60)
def test_schedules_are_those_of_the_definition(graph, big, little, dispatch, ranked):
    n, edges, seed = graph
    rng = np.random.default_rng(seed)
    work = rng.random(n) + 0.01  # no two ends at one time
    rank = rng.permutation(n) if ranked else None
    cores = big, little
    totals, trace = schedule(edges, work, constant(1.0, 2.5), cores, dispatch, rank=rank)
    wanted = by_definition(n, edges, work, (1.0, 2.5), cores, dispatch, rank)
    assert totals[TOTAL_TIME] == pytest.approx(wanted, rel=1e-6)
    for u, v in edges:
        assert trace[u, END] <= trace[v, START] + 1e-9
    # no more run on a cluster at a time than it has cores, and what is busy is what ran
    for c, most in enumerate(cores):
        mine = trace[trace[:, CLUSTER] == c]
        for start in mine[:, START]:
            there = (mine[:, START] <= start) & (mine[:, END] > start + 1e-9)
            assert there.sum() <= most
        lasting = (mine[:, END] - mine[:, START]).sum()
        assert totals[TOTAL_TASKS + c] == pytest.approx(2.0 * lasting, abs=1e-6)


def test_joules_flow_whatever_runs_and_warm_the_device():
    """One task of 3 s on two cores: 5 W of the cluster, 1 W of the core that waits, 2 W of work."""
    totals, _ = schedule(set(), [1.0], constant(3.0), (2,), on=5.0, idle=1.0)
    assert totals[[TOTAL_ON, TOTAL_IDLE, TOTAL_TASKS]].tolist() == pytest.approx([15, 3, 6])
    assert totals[TOTAL_LAST] == pytest.approx(20 + 8 * (1 - np.exp(-0.3)))


def test_clocks_step_down_at_the_cap_and_up_again_below_it():
    """At 10 W the goal is 30 °C and the cap 25: after 10 ln 2 s clocks halve, power with them."""
    seconds = constant(1.0)
    seconds = np.concatenate([2.0 * seconds, seconds], axis=2)  # two clocks, the first half as fast
    hot = {"cooling": (0.0, 20.0, 1.0, 10.0, 25.0, 1e3), "clock": 1}
    slow, _ = schedule(set(), [20.0], seconds, (1,), joules=10.0 * seconds, **hot)
    # joules of a unit: at half the clock 10 W still, at the lowest clock
    first = 10 * np.log(2.0)
    assert slow[TOTAL_TIME] == pytest.approx(first + 2 * (20.0 - first))
    never, _ = schedule(set(), [20.0], seconds, (1,), joules=4.0 * seconds, **hot)
    assert never[TOTAL_TIME] == pytest.approx(20.0)
    # halved clocks that take next to nothing: down at 25 °C, up again at 24
    hot["cooling"] = (0.0, 20.0, 1.0, 10.0, 25.0, 1.0)
    spent = np.ones_like(seconds) * np.array([0.0, 10.0])[None, None, :, None, None, None]
    again, _ = schedule(set(), [20.0], seconds, (1,), joules=spent, **hot)
    down_for, up_for = 10 * np.log(5 / 4), 10 * np.log(6 / 5)
    work, now, fast = 20.0, 0.0, first
    while True:
        if work <= fast:
            now += work
            break
        work, now = work - fast, now + fast
        if work <= down_for / 2:
            now += 2 * work
            break
        work, now, fast = work - down_for / 2, now + down_for, up_for
    assert again[TOTAL_TIME] == pytest.approx(now)


def test_the_peak_is_that_of_the_hottest_part_and_not_of_the_start():
    """Four tasks at once, 8 W, then one, 2 W: hottest when the four end."""
    edges = {(v, 4) for v in range(4)}
    totals, _ = schedule(edges, [20.0] * 4 + [30.0], constant(1.0), (4,))
    fork = 20 + 8 * (1 - np.exp(-2.0))
    assert totals[TOTAL_PEAK] == pytest.approx(fork)
    assert totals[TOTAL_LAST] == pytest.approx(22 + (fork - 22) * np.exp(-3.0), abs=1e-6)
    cools, _ = schedule(set(), [5.0], constant(1.0), (1,), start=40.0)
    assert cools[TOTAL_PEAK] == cools[TOTAL_LAST] < 40.0


def test_traces_are_those_of_the_first_order():
    totals, trace = schedule(set(), [[1.0, 2.0], [4.0, 5.0]], constant(1.0), (1,))
    assert totals[TOTAL_TIME] == pytest.approx((3.0 + 9.0) / 2)
    assert trace[:, END].tolist() == pytest.approx([1.0, 3.0])
