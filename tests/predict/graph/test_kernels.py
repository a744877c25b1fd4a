"""The kernel beside closed forms and a list schedule written as its definition reads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.predict.graph._kernels import BUSY, CLUSTER, END, START, TIME, list_schedules


def packed(n, edges, kinds=None):
    """Nodes and successors, as the kernel wants them."""
    edges = sorted(edges)
    first = np.searchsorted([u for u, _ in edges], np.arange(n + 1))
    waiting = np.bincount([v for _, v in edges], minlength=n + 1)
    kind = [*(kinds if kinds is not None else [0] * n), 0]
    nodes = np.column_stack([first, waiting, kind]).astype(np.int32)
    return nodes, np.array([v for _, v in edges], dtype=np.int32)


def schedule(n, edges, work, pace, cores, dispatch=0.0, rank=None, kinds=None):
    nodes, successors = packed(n, edges, kinds)
    amounts = np.column_stack([work, np.zeros(n) if rank is None else rank]).astype(float)
    contexts = np.array([[0, *(x for c in cores for x in (c, 0))]])
    totals, trace = np.empty((1, 1 + 2 * len(cores))), np.empty((1, n, 3))
    wait = np.full((len(cores), 1), float(dispatch))
    ranked, joules = rank is not None, 2.0 * pace
    list_schedules(nodes, successors, amounts, ranked, pace, joules, wait, contexts, totals, trace)
    return totals[0], trace[0]


def constant(*seconds, most=9):
    """The same pace on a cluster whatever runs beside."""
    return np.broadcast_to(
        np.array(seconds, dtype=float)[None, :, None, None, None, None],
        (1, len(seconds), 1, most, most, 1),
    ).copy()


def by_definition(n, edges, work, speed, cores, dispatch):
    """Greedy, first come first served; the fastest free core takes each task."""
    waiting = {v: {u for u, w in edges if w == v} for v in range(n)}
    free = [(p, c) for c, p in enumerate(speed) for _ in range(cores[c])]
    ready = [v for v in range(n) if not waiting[v]]
    running, now, ends = [], 0.0, {}
    while len(ends) < n:
        while ready and free:
            core = min(free)
            free.remove(core)
            v = ready.pop(0)
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


@given(graphs, st.integers(1, 3), st.integers(0, 2), st.sampled_from([0.0, 0.3]))
@settings(deadline=None, max_examples=60)
def test_schedules_are_those_of_the_definition(graph, big, little, dispatch):
    n, edges, seed = graph
    work = np.random.default_rng(seed).random(n) + 0.01  # no two ends at one time
    totals, trace = schedule(n, edges, work, constant(1.0, 2.5), (big, little), dispatch)
    wanted = by_definition(n, edges, work, (1.0, 2.5), (big, little), dispatch)
    assert totals[TIME] == pytest.approx(wanted, rel=1e-6)
    for u, v in edges:
        assert trace[u, END] <= trace[v, START] + 1e-9
    # no more run on a cluster at a time than it has cores, and what is busy is what ran
    for c, cores in enumerate((big, little)):
        mine = trace[trace[:, CLUSTER] == c]
        for start in mine[:, START]:
            there = (mine[:, START] <= start) & (mine[:, END] > start + 1e-9)
            assert there.sum() <= cores
        lasting = (mine[:, END] - mine[:, START]).sum()
        assert totals[BUSY + c] == pytest.approx(lasting, abs=1e-6)
    # bounds of time: the critical path on the fastest cores, work over capacity
    longest = np.zeros(n)
    for v in range(n):
        before = [longest[u] for u, w in edges if w == v]
        longest[v] = work[v] + dispatch + max(before, default=0.0)
    assert totals[TIME] >= longest.max() * (1 - 1e-9)
    assert totals[TIME] * (big + little / 2.5) >= work.sum() * (1 - 1e-9)


def test_a_chain_takes_the_sum_and_a_dispatch_for_each():
    totals, _ = schedule(4, {(0, 1), (1, 2), (2, 3)}, [1, 2, 3, 4], constant(2.0), (3,), 0.5)
    assert totals[TIME] == pytest.approx(2 * 10 + 4 * 0.5)


def test_independent_tasks_fill_the_cores():
    totals, _ = schedule(7, set(), np.ones(7), constant(3.0), (3,))
    assert totals[TIME] == pytest.approx(3.0 * 3)
    assert totals[BUSY] == pytest.approx(3.0 * 7)


def test_a_fork_and_join_takes_its_ends_and_its_longest_share():
    edges = {(0, v) for v in range(1, 9)} | {(v, 9) for v in range(1, 9)}
    totals, _ = schedule(10, edges, np.ones(10), constant(1.0), (4,), 0.25)
    assert totals[TIME] == pytest.approx((1 + 2 + 1) * 1.25)


def test_pace_follows_what_runs_beside():
    """Two tasks share bandwidth until the shorter ends: 1 s at half pace, then alone."""
    pace = constant(1.0)
    pace[:, :, :, 2, 2] = 2.0
    totals, trace = schedule(2, set(), [0.5, 2.0], pace, (2,))
    assert trace[0, END] == pytest.approx(1.0)
    assert totals[TIME] == pytest.approx(1.0 + 1.5)


def test_the_lowest_rank_goes_first_where_ranks_are_given():
    work = [1.0, 1.0, 5.0]
    late, _ = schedule(3, set(), work, constant(1.0), (2,))
    early, _ = schedule(3, set(), work, constant(1.0), (2,), rank=[1, 2, 0])
    assert (late[TIME], early[TIME]) == (pytest.approx(6.0), pytest.approx(5.0))


def test_each_kind_has_a_pace_and_joules_of_its_own():
    pace = np.broadcast_to(np.array([1.0, 4.0]), (1, 1, 1, 3, 3, 2)).copy()
    totals, trace = schedule(2, {(0, 1)}, [1.0, 0.5], pace, (2,), 0.25, kinds=[0, 1])
    assert trace[:, END].tolist() == pytest.approx([1.25, 3.5])
    # joules are of work, twice its seconds, not of dispatch
    assert totals.tolist() == pytest.approx([3.5, 3.5, 2 * 3.0])


def test_a_cycle_ends_without_an_answer():
    totals, _ = schedule(2, {(0, 1), (1, 0)}, [1.0, 1.0], constant(1.0), (1,))
    assert np.isnan(totals[TIME])
