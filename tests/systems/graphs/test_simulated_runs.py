"""The simulated SoC against a slow one, closed forms, and invariants of every graph."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import soc
from graphs import small_graphs
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.graphs import _kernels as kernels
from msbgen.systems.graphs.dataset import make as make_graph
from msbgen.systems.graphs.devices import SHARES, shipped_device
from msbgen.systems.graphs.simulator import Rates, Simulator

TX2 = shipped_device("tx2")
TABLE = soc.toy_table(((0.4, 0.5, 0.1, 4.0), (0.6, 0.3, 0.6, 9.0)))
TABLES = {
    "a": TABLE,
    "b": soc.toy_table(((1.0, 0.8, 0.3, 1.0),)),
    "c": soc.toy_table(((0.1, 0.2, 0.0, 1.0), (0.2, 0.1, 1.4, 5.0), (0.7, 0.9, 0.2, 3.0))),
}
SHARED = [*product(("cluster", "device"), SHARES)]  # by what, and how


@cache
def quick_to_heat(by, shares):
    """A computer that heats within a run, so that clocks are stepped down and up again."""
    device = replace(TX2, time_constant=0.7, shared_by=by, shares=shares)
    return Simulator(device, TABLES)


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


@given(
    programs(),
    contexts(),
    st.sampled_from([25.0, 45.0, 49.9, 55.0]),
    st.sampled_from(SHARED),
)
@settings(max_examples=25)
def test_the_slow_simulator_finds_the_same(graph, context, start, shared):
    simulator = quick_to_heat(*shared)
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
@settings(max_examples=25)
def test_energy_is_the_integral_of_power_and_heat_follows_it(graph, context, start):
    simulator = quick_to_heat("cluster", "renewed")
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


def test_the_heap_gives_the_least_first():
    rng = np.random.default_rng(0)
    for _ in range(50):
        pairs = [(float(rng.integers(4)), int(i)) for i in rng.permutation(12)]
        key, number, size = np.empty(12), np.empty(12, dtype=np.int64), 0
        for pair in pairs:
            size = kernels.push(key, number, size, *pair)
        popped = []
        while size:
            popped.append(int(kernels.pop(key, number, size)))
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


def test_rates_and_watts_are_those_of_a_slow_look_up():
    rates = Rates.of(TX2, {"a": TABLE})
    slow = soc.rates_of(TABLE, TX2)
    rng = np.random.default_rng(0)
    for _ in range(60):
        g, c, level = rng.integers(9), rng.integers(2), rng.integers(1, 12)
        here = rng.integers(1, TX2.clusters[c].cores + 1)
        running = rng.integers(here, 7)
        phase = rng.integers(2)
        ways, flow = rates.settings[g]
        cluster = TX2.clusters[c]
        wanted = slow(phase, cluster, cluster.clocks[level], ways / here, flow / running)
        at = g, c, level, running - 1, here - 1, phase
        assert (rates.rates[at], rates.watts[at]) == pytest.approx(wanted, rel=1e-6)


def test_clocks_beyond_the_profiles_go_on_with_their_slope_and_are_told():
    narrow = TABLE.isel(frequency=slice(2, 4))  # 1.2 and 2.4 GHz; the law is a / f + b
    whole, part = Rates.of(TX2, {"a": TABLE}), Rates.of(TX2, {"a": narrow})
    assert not whole.stretched[0].any()
    np.testing.assert_array_equal(part.stretched[0], np.array(TX2.clusters[0].clocks) < 1.2)
    np.testing.assert_allclose(part.rates, whole.rates, rtol=1e-5)
    # never more than with the clock, however steep measured slopes are
    noisy = narrow.copy(deep=True)
    noisy["speed"][{"frequency": 1}] *= 3
    pace = 1 / Rates.of(TX2, {"a": noisy}).rates[0, 0, :, 0, 0, 0]
    below = np.array(TX2.clusters[0].clocks) < 1.2
    at_end = 1 / soc.rates_of(TABLE, TX2)(0, TX2.clusters[0], 1.2, 8.0, 1050.0)[0]
    stretched = pace[below] * np.array(TX2.clusters[0].clocks)[below] / 1.2
    np.testing.assert_allclose(stretched, at_end, rtol=1e-5)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.isel(cache_ways=0, drop=True), "have no 'cache_ways'"),
        (lambda t: t.isel(frequency=0, drop=True), "have no clock in GHz"),
        (lambda t: t.isel(frequency=[0]), "are of one clock"),
        (lambda t: t.drop_vars("cache_misses"), "has no counter 'cache_misses'"),
        (lambda t: t.isel(cache_ways=slice(2, 4)), "begin at 8 of 'cache_ways'"),
        (lambda t: t.assign(speed=-t["speed"]), "'speed' is -0."),
        (
            lambda t: t.expand_dims(voltage=[1.0, 2.0]).assign_coords(
                voltage=("voltage", [1.0, 2.0], {"role": "resource", "units": "V"})
            ),
            "have the resource 'voltage', which no sheet has",
        ),
    ],
)
def test_what_does_not_fit_the_device_is_refused(spoil, message):
    with pytest.raises(ProfileError) as caught:
        Rates.of(TX2, {"a": spoil(TABLE)})
    assert message in str(caught.value)


def test_one_level_of_what_is_shared_is_enough():
    one = TABLE.isel(bandwidth=[0])
    rates = Rates.of(replace(TX2, bandwidth=(1000.0,)), {"a": one}).rates
    assert np.nanmin(rates) > 0
    with pytest.raises(ArgumentError, match="profiles are none"):
        Rates.of(TX2, {})


def test_profiles_become_tables_on_the_way(measured):
    with pytest.raises(ProfileError, match="have no 'bandwidth'"):
        Rates.of(TX2, {"a": measured})
