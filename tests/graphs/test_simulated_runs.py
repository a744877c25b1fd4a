"""The simulated SoC against a slow one, closed forms, and invariants of every graph."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import soc
from graphs import small_graphs
from msbgen.graphs.dataset import make as make_graph
from msbgen.graphs.devices import shipped_device
from msbgen.graphs.simulator import Simulator

TX2 = shipped_device("tx2")
TABLES = {
    "a": soc.toy_table(((0.4, 0.5, 0.1, 4.0), (0.6, 0.3, 0.6, 9.0))),
    "b": soc.toy_table(((1.0, 0.8, 0.3, 1.0),)),
    "c": soc.toy_table(((0.1, 0.2, 0.0, 1.0), (0.2, 0.1, 1.4, 5.0), (0.7, 0.9, 0.2, 3.0))),
}
# computers that heat within a run, so that clocks are stepped down and up again
QUICK_TO_HEAT = {
    shared: Simulator(
        replace(TX2, time_constant=0.7, shared_by="device" if shared else "cluster"), TABLES
    )
    for shared in (False, True)
}


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
