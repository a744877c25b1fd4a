"""The simulated SoC against a slow one, closed forms, and invariants of every graph."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import soc
from graphs import longest_path, small_graphs
from msbgen.graphs import _kernels as kernels
from msbgen.graphs.dataset import edges_of
from msbgen.graphs.dataset import make as make_graph
from msbgen.graphs.devices import Device, shipped_device
from msbgen.graphs.simulator import Simulator

TX2 = shipped_device("tx2")
TABLES = {
    "a": soc.toy_table(((0.4, 0.5, 0.1, 4.0), (0.6, 0.3, 0.6, 9.0))),
    "b": soc.toy_table(((1.0, 0.8, 0.3, 1.0),)),
    "c": soc.toy_table(((0.1, 0.2, 0.0, 1.0), (0.2, 0.1, 1.4, 5.0), (0.7, 0.9, 0.2, 3.0))),
}
SIMULATOR = Simulator(TX2, TABLES)
CONTEXT = TX2.largest
# computers that heat within a run, so that clocks are stepped down and up again
QUICK_TO_HEAT = {
    shared: Simulator(
        replace(TX2, time_constant=0.7, shared_by="device" if shared else "cluster"), TABLES
    )
    for shared in (False, True)
}


def simple(cores=2, **given) -> Device:
    """One cluster of one clock, on which a flat task of work w takes w seconds."""
    cluster = replace(
        TX2.clusters[0], name="c", cores=cores, clocks=(1.0,), speed=1.0, dispatch=0.0
    )
    given = {"cache_ways": (16.0,), "bandwidth": (2700.0,), "resistance": 1e-6, **given}
    return replace(TX2, clusters=(cluster,), **given)


def makespan(graph, device, context=None, **given):
    simulator = Simulator(device, {"flat": soc.flat_table()})
    outcome = simulator.run(
        graph, device.largest if context is None else context, noise=False, **given
    )
    return float(outcome.makespan[0, 0])


@pytest.mark.parametrize("dispatch", [0.0, 0.01])
def test_a_chain_takes_the_sum_of_its_works_and_dispatches(dispatch):
    device = simple()
    cluster = replace(device.clusters[0], dispatch=dispatch)
    graph = make_graph(["flat"] * 6, [0.1, 0.2, 0.3, 0.1, 0.5, 0.2], [(i, i + 1) for i in range(5)])
    wanted = 1.4 + 6 * dispatch
    assert makespan(graph, replace(device, clusters=(cluster,))) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(("n", "cores"), [(1, 1), (5, 2), (8, 4), (9, 4), (3, 7)])
def test_independent_equal_tasks_run_in_rounds(n, cores):
    graph = make_graph(["flat"] * n, [0.25] * n, [])
    assert makespan(graph, simple(cores)) == pytest.approx(0.25 * -(-n // cores), rel=1e-6)


def test_fork_and_join():
    n, cores = 10, 4
    edges = [(0, i) for i in range(1, n + 1)] + [(i, n + 1) for i in range(1, n + 1)]
    graph = make_graph(["flat"] * (n + 2), [0.5] + [0.2] * n + [0.3], edges)
    assert makespan(graph, simple(cores)) == pytest.approx(0.5 + 3 * 0.2 + 0.3, rel=1e-6)


def test_keys_decide_which_task_starts_first():
    # on one core; only what hangs on the long one may wait
    graph = make_graph(["flat"] * 4, [1.0, 0.1, 0.1, 1.0], [(2, 3)])
    assert makespan(graph, simple(2), order=[1, 2, 0, 0]) == pytest.approx(1.1, rel=1e-6)
    assert makespan(graph, simple(2), order=[0, 1, 2, 3]) == pytest.approx(1.2, rel=1e-6)
    assert makespan(graph, simple(2), order="heft") == pytest.approx(1.1, rel=1e-6)


@st.composite
def programs(draw):
    n, edges, works = draw(small_graphs(most=8))
    kinds = draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))
    # no two works alike, so that no two tasks ever end together by chance or by symmetry
    works = [w * (1 + 0.013 * i) for i, w in enumerate(works)]
    return make_graph(kinds, works, edges)


@st.composite
def contexts(draw):
    cores = [draw(st.integers(0, 2)), draw(st.integers(0, 4))]
    cores[1] += sum(cores) == 0
    clocks = [draw(st.sampled_from(c.clocks[2:])) for c in TX2.clusters]
    ways, flow = draw(st.sampled_from(TX2.cache_ways)), draw(st.sampled_from(TX2.bandwidth))
    return np.array([cores[0], clocks[0], cores[1], clocks[1], ways, flow])


@given(programs(), contexts(), st.sampled_from([25.0, 45.0, 49.9, 55.0]), st.booleans())
def test_the_slow_simulator_finds_the_same(graph, context, start, shared):
    simulator = QUICK_TO_HEAT[shared]
    device = simulator.device
    rank = np.arange(graph.sizes["task"], dtype=float)[::-1]
    given_ = {"order": rank, "temperature": start, "noise": False}
    fast = simulator.run(graph, context, **given_)
    slow = soc.play(graph, device, TABLES, context, keys=rank, start=start)
    assert fast.makespan[0, 0] == pytest.approx(slow[0], rel=1e-6)
    assert fast.energy[0, 0] == pytest.approx(slow[1], rel=1e-6)
    assert fast.peak[0, 0] == pytest.approx(slow[2], rel=1e-6)
    assert fast.last[0, 0] == pytest.approx(slow[3], rel=1e-6)
    tasks = simulator.tasks(graph, context, **given_)
    for i, (began, ended, core) in slow[4].items():
        assert float(tasks["start"][i]) == pytest.approx(began, rel=1e-6, abs=1e-9)
        assert float(tasks["end"][i]) == pytest.approx(ended, rel=1e-6)
        assert int(tasks["core"][i]) == core


@given(programs(), contexts())
def test_what_bounds_every_schedule(graph, context):
    tasks = SIMULATOR.tasks(graph, context, noise=False)
    start, end = tasks["start"].values, tasks["end"].values
    core = tasks["core"].values
    # no task starts before its predecessors have ended
    for s, t in edges_of(graph):
        assert start[t] >= end[s]
    # no core runs two at once, nor one that was not given
    given_cores = [*range(int(context[0])), *range(2, 2 + int(context[2]))]
    assert set(core.tolist()) <= set(given_cores)
    for c in given_cores:
        own = sorted(zip(start[core == c], end[core == c]))
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(own))
    # the critical path and work over capacity bound the time
    n, total = graph.sizes["task"], float(end.max())
    level = [list(c.clocks).index(context[2 * i + 1]) for i, c in enumerate(TX2.clusters)]
    setting = SIMULATOR._places(context[None])[0][0]
    best = np.min(
        [
            soc.durations(SIMULATOR.rates, setting, c, level[c], 0, 0)
            for c in range(2)
            if context[2 * c] > 0
        ],
        axis=0,
    )
    kind = ["abc".index(k) for k in graph["kind"].values]
    least = graph["work"].values * best[kind]
    path = longest_path(n, [tuple(e) for e in edges_of(graph).tolist()], least)
    assert total >= path * (1 - 1e-9)
    assert total >= least.sum() / len(given_cores) * (1 - 1e-9)
    # list scheduling: while somebody waits whose predecessors have ended, every core is busy
    for i in range(n):
        ready = max([end[s] for s, t in edges_of(graph) if t == i], default=0.0)
        if start[i] > ready + 1e-12:
            middle = (ready + start[i]) / 2
            assert ((start <= middle) & (middle < end)).sum() == len(given_cores)


@given(programs(), contexts(), st.sampled_from([28.0, 48.0]))
def test_energy_is_the_integral_of_power_and_heat_follows_it(graph, context, start):
    simulator = QUICK_TO_HEAT[False]
    device = simulator.device
    line = simulator.timeline(graph, context, temperature=start, rng=3)
    outcome = simulator.run(graph, context, temperature=start, rng=3)
    step = np.diff(line["time"].values)
    power = (line["base_power"] + line["power"].sum("cluster")).values[:-1]
    assert outcome.makespan[0, 0] == line["time"].values[-1]
    assert outcome.energy[0, 0] == pytest.approx((power * step).sum(), rel=1e-12)
    heat = line["temperature"].values
    goal = device.ambient + device.resistance * power
    wanted = goal + (heat[:-1] - goal) * np.exp(-step / device.time_constant)
    np.testing.assert_allclose(heat[1:], wanted, rtol=1e-9)
    assert outcome.peak[0, 0] == pytest.approx(heat.max(), rel=1e-12)
    throttled = step[line["steps_down"].values[:-1] > 0].sum()
    assert outcome.throttled[0, 0] == pytest.approx(throttled)
    # never more running than given
    assert np.all(line["running"].values <= [context[0], context[2]])


def test_clocks_step_down_at_the_cap_and_up_again_below_it():
    device = replace(TX2, time_constant=2.0, resistance=3.0)
    simulator = Simulator(device, TABLES)
    n = 40
    burst = make_graph(["b"] * (n + 6), [0.5] * n + [0.3] * 6, [
        *((i, n) for i in range(n)), *((n + i, n + i + 1) for i in range(5))
    ])  # fmt: skip
    line = simulator.timeline(burst, CONTEXT, noise=False)
    down, heat = line["steps_down"].values, line["temperature"].values
    power = (line["base_power"] + line["power"].sum("cluster")).values
    changes = np.flatnonzero(np.diff(down)) + 1
    assert set(np.diff(down)[changes - 1]) == {-1.0, 1.0}
    for i in changes:
        up = down[i] < down[i - 1]
        assert heat[i] == pytest.approx(device.cap - device.hysteresis * up)
        # less power after a step down, more after one up
        assert (power[i] > power[i - 1]) == up
    assert heat.max() == pytest.approx(device.cap)
    cold = simulator.run(burst, CONTEXT, noise=False).makespan
    free = Simulator(replace(device, cap=200.0), TABLES).run(burst, CONTEXT, noise=False)
    assert cold > free.makespan
    assert free.throttled == 0
    assert free.peak > 52


def test_at_the_lowest_clocks_the_cap_can_only_be_exceeded():
    device = replace(TX2, time_constant=0.2, resistance=30.0)
    graph = make_graph(["b"] * 12, [1.0] * 12, [])
    outcome = Simulator(device, TABLES).run(graph, CONTEXT, noise=False)
    line = Simulator(device, TABLES).timeline(graph, CONTEXT, noise=False)
    assert outcome.peak > device.cap
    assert line["steps_down"].values.max() == 11


def test_the_heap_gives_the_least_first():
    rng = np.random.default_rng(0)
    for _ in range(50):
        pairs = [(float(rng.integers(4)), int(i)) for i in rng.permutation(12)]
        key, number, size = np.empty(12), np.empty(12, dtype=np.int64), 0
        for pair in pairs:
            size = kernels._push(key, number, size, *pair)
        popped = []
        while size:
            popped.append(int(kernels._pop(key, number, size)))
            size -= 1
        assert popped == [i for _, i in sorted(pairs)]


def test_ranks_are_means_over_cores_not_over_clusters():
    """One core twice as fast and three slow ones: what a task takes is nearer to the slow ones."""
    fast, slow = (
        replace(TX2.clusters[0], name=name, cores=cores, clocks=(1.0,), speed=speed, dispatch=0.0)
        for name, cores, speed in (("fast", 1, 2.0), ("slow", 3, 1.0))
    )
    device = replace(TX2, clusters=(fast, slow), cache_ways=(16.0,), bandwidth=(2700.0,))
    simulator = Simulator(device, {"flat": soc.flat_table()})
    program = simulator.program(make_graph(["flat"] * 2, [1.0, 3.0], [(0, 1)]))
    setting, cores, level = simulator._places(np.array([device.largest]))
    _, ranks = simulator._keys(program, "heft", setting, cores, level)
    mean = (0.5 + 3 * 1.0) / 4
    np.testing.assert_allclose(ranks[0], [-4.0 * mean, -3.0 * mean], rtol=1e-5)
