"""Runs of graphs with labels: the same for the same seed, noise of the right size."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import soc
from graphs import small_graphs
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.shipped import shipped_file
from msbgen.data.store import read_profiles
from msbgen.data.tables import read_lines
from msbgen.systems.graphs import simulator
from msbgen.systems.graphs.dataset import edges_of
from msbgen.systems.graphs.dataset import make as make_graph
from msbgen.systems.graphs.devices import device_contexts, shipped_device
from msbgen.systems.graphs.families.catalogue import FAMILIES, family_graph
from msbgen.systems.graphs.runs import validate_runs as validate_graph_runs
from msbgen.systems.graphs.simulator import Program, Simulator, label_runs, simulate_graph

TX2 = shipped_device("tx2")
TABLES = {
    "a": soc.toy_table(((0.4, 0.5, 0.1, 4.0), (0.6, 0.3, 0.6, 9.0))),
    "b": soc.toy_table(((1.0, 0.8, 0.3, 1.0),)),
}
SIMULATOR = Simulator(TX2, TABLES)
CONTEXTS = device_contexts(TX2, cores={"denver": [0, 2], "a57": [1, 4]}, clocks=2)


def of_toy_kinds(graph):
    kinds = ["ab"[hash_ % 2] for hash_ in range(graph.sizes["task"])]
    return graph.assign(kind=("task", np.array(kinds)))


GRAPH = of_toy_kinds(family_graph("cholesky", 5))


def test_equal_seeds_give_equal_runs_and_more_runs_the_same_means():
    one = simulate_graph(GRAPH, TX2, TABLES, CONTEXTS, runs=2, rng=4)
    same = simulate_graph(GRAPH, TX2, TABLES, CONTEXTS, runs=2, rng=np.random.default_rng(4))
    xr.testing.assert_identical(one, same)
    other = simulate_graph(GRAPH, TX2, TABLES, CONTEXTS, runs=2, rng=5)
    assert not np.array_equal(one["makespan"], other["makespan"])
    validate_graph_runs(one, TX2)
    assert one.sizes["run"] == 2 * len(CONTEXTS)
    assert one["family"].values[0] == "cholesky"


def test_repeats_of_a_graph_spread_by_three_per_cent():
    spread = []
    for name in ("cholesky", "wavefront", "map-reduce", "jacobi", "genome"):
        graph = of_toy_kinds(family_graph(name))
        spread.append(np.log(SIMULATOR.run(graph, TX2.largest, runs=400).makespan).std())
    assert 0.024 < np.mean(spread) < 0.036
    quiet = SIMULATOR.run(GRAPH, TX2.largest, runs=3, noise=False)
    assert np.ptp(quiet.makespan) == 0


def test_long_simulations_are_played_in_parts_that_change_nothing(monkeypatch):
    contexts = device_contexts(TX2)[::150]
    start = np.linspace(28, 45, len(contexts))
    given = {"temperature": start, "runs": 2, "rng": 3}
    whole = label_runs(GRAPH, Simulator(TX2, TABLES), contexts, **given)
    monkeypatch.setattr(simulator, "_AT_ONCE", 3)
    result = []
    parts = label_runs(
        GRAPH, Simulator(TX2, TABLES), contexts, progress=lambda *at: result.append(at), **given
    )
    assert whole.identical(parts)
    monkeypatch.setattr(simulator, "_DRAWN_AT_ONCE", 5 * (GRAPH.sizes["task"] + 1))  # two contexts
    assert whole.identical(label_runs(GRAPH, Simulator(TX2, TABLES), contexts, **given))
    assert result[-1] == (len(contexts), len(contexts))
    assert len(result) == -(-len(contexts) // 3) > 2


def test_more_runs_than_memory_holds_are_refused_before_they_are_drawn(monkeypatch):
    with pytest.raises(ArgumentError, match=r"1000000000 runs in 13 contexts take about .* GB"):
        label_runs(GRAPH, SIMULATOR, CONTEXTS[:13], runs=10**9)
    monkeypatch.setattr(simulator, "physical_memory", lambda: 2000 * GRAPH.sizes["task"])
    with pytest.raises(ArgumentError, match=r"100 runs in 1 context take .* fewer runs or cont"):
        SIMULATOR.run(GRAPH, CONTEXTS[:1], runs=100)


def test_orders_are_names_or_keys():
    keys = -np.arange(GRAPH.sizes["task"], dtype=float)
    arrival, heft, own = (
        SIMULATOR.run(GRAPH, CONTEXTS, order=o, noise=False) for o in ("arrival", "heft", keys)
    )
    assert heft.makespan.mean() < arrival.makespan.mean()
    assert not np.array_equal(own.makespan, arrival.makespan)
    with pytest.raises(ArgumentError, match="order is 'hft'; arrival, heft or keys"):
        SIMULATOR.run(GRAPH, CONTEXTS, order="hft")
    with pytest.raises(ArgumentError, match="order has shape"):
        SIMULATOR.run(GRAPH, CONTEXTS, order=[1.0])


def test_a_hot_start_is_hot_and_ends_where_the_next_begins():
    hot = SIMULATOR.run(GRAPH, CONTEXTS, temperature=45.0, noise=False)
    cold = SIMULATOR.run(GRAPH, CONTEXTS, noise=False)
    each = SIMULATOR.run(GRAPH, CONTEXTS, temperature=np.full(len(CONTEXTS), 45.0), noise=False)
    np.testing.assert_array_equal(hot.last, each.last)
    assert np.all(hot.last > cold.last)
    assert np.all(hot.peak >= 45.0)
    with pytest.raises(ArgumentError, match="temperature is"):
        SIMULATOR.run(GRAPH, CONTEXTS, temperature=[1.0, 2.0])
    with pytest.raises(ArgumentError, match="runs are 0"):
        SIMULATOR.run(GRAPH, CONTEXTS, runs=0)


def test_tasks_and_timeline_are_those_of_the_first_run():
    outcome = SIMULATOR.run(GRAPH, CONTEXTS[5], rng=9)
    tasks = SIMULATOR.tasks(GRAPH, CONTEXTS[5], rng=9)
    line = SIMULATOR.timeline(GRAPH, CONTEXTS[5], rng=9)
    assert tasks["end"].max() == outcome.makespan[0, 0] == line["time"].values[-1]
    assert tasks["task"].values.tolist() == GRAPH["task"].values.tolist()
    with pytest.raises(ArgumentError, match="'runs' is no argument"):
        SIMULATOR.tasks(GRAPH, CONTEXTS[5], runs=3)
    with pytest.raises(ArgumentError, match="contexts are 2"):
        SIMULATOR.tasks(GRAPH, CONTEXTS[:2])


def test_kinds_without_profile_and_times_in_milliseconds_are_refused():
    with pytest.raises(ProfileError, match=r"task 't1' is of kind 'c', which has no profile"):
        SIMULATOR.run(make_graph(["a", "c"], [1, 1], []), CONTEXTS)
    slow = make_graph(["a", "a"], [1.0, 1.0], [], time=[1000.0, 1100.0])
    with pytest.raises(ProfileError, match=r"'time' of task 't0' is 1000 s"):
        SIMULATOR.run(slow, CONTEXTS)
    with pytest.raises(ProfileError, match=r"take up to .*; at most 2\.6e\+06 s"):
        SIMULATOR.run(make_graph(["a"], [1e9], []), CONTEXTS)


def test_clocks_of_a_cluster_without_cores_stretch_nothing():
    narrow = {kind: table.isel(frequency=slice(2, 4)) for kind, table in TABLES.items()}
    simulator = Simulator(TX2, narrow)
    low, high = TX2.clusters[0].clocks[0], TX2.clusters[1].clocks[-1]
    given = [[0, low, 4, high, 16, 4200], [1, low, 4, high, 16, 4200]]
    assert simulator.stretched(given).tolist() == [False, True]


def test_powers_of_the_tx2_are_those_that_were_measured():
    """Means over programs for every number of cores, and their range."""
    header, *rows = read_lines(shipped_file("devices/tx2.toml").parent / "tx2-power.csv")
    assert header[1][1:3] == ["cores_denver", "cores_a57"]
    measured: dict[tuple[int, int], list[float]] = {}
    for _, (program, denver, a57, _, power) in rows:
        if program != "pf":
            measured.setdefault((int(denver), int(a57)), []).append(float(power))
    kinds = ("bzip2", "ffmpeg", "gzip", "openssl", "python", "zstd")
    profiles = {kind: read_profiles(shipped_file(f"{kind}.nc")) for kind in kinds}
    simulator = Simulator(TX2, profiles)
    assert len(measured) == 10
    every = []
    for (denver, a57), powers in measured.items():
        context = [denver, 2.0352, a57, 2.0352, 16, 4200]
        found = []
        for kind in kinds:
            many = make_graph([kind] * 240, [0.01] * 240, [])
            outcome = simulator.run(many, context, noise=False)
            found.append(float((outcome.energy / outcome.makespan)[0, 0]))
        assert np.mean(found) == pytest.approx(np.mean(powers), rel=0.04)
        every += found
    assert min(every) >= 5.4
    assert max(every) <= 14.3


def permuted(graph, seed, rename=False):
    """The same graph with its tasks and edges in another order."""
    rng = np.random.default_rng(seed)
    n = graph.sizes["task"]
    order = rng.permutation(n)
    place = np.argsort(order)
    edges = rng.permutation(place[edges_of(graph)]) if graph.sizes["edge"] else []
    names = graph["task"].values.astype(str)[order]
    if rename:
        names = [f"x{i}" for i in rng.permutation(n)]
    return make_graph(
        graph["kind"].values[order],
        graph["work"].values[order],
        [tuple(e) for e in np.asarray(edges).tolist()],
        names=names,
    )


def same(a, b):
    return all(
        np.array_equal(getattr(a, x), getattr(b, x))
        for x in ("kind", "work", "waits", "first_after", "after")
    )


def test_tasks_stand_behind_what_they_wait_for():
    for name in FAMILIES:
        graph = family_graph(name)
        program = Program.of(graph)
        assert sorted(program.order.tolist()) == list(range(graph.sizes["task"]))
        waits = np.zeros(len(program.work), dtype=int)
        for i in range(len(waits)):
            below = program.after[program.first_after[i] : program.first_after[i + 1]]
            assert np.all(below > i)
            waits[below] += 1
        np.testing.assert_array_equal(waits, program.waits)
        np.testing.assert_array_equal(program.work, graph["work"].values[program.order])


@given(small_graphs(), st.integers(0, 99))
@settings(max_examples=25)
def test_the_order_in_a_file_changes_nothing(drawn, seed):
    n, edges, works = drawn
    graph = make_graph(["ab"[i % 2] for i in range(n)], works, edges)
    assert same(Program.of(graph), Program.of(permuted(graph, seed)))


def test_nor_do_names_in_any_family():
    for name in FAMILIES:
        graph = family_graph(name, FAMILIES[name].sizes[0], rng=1)
        for seed in (5, 6):
            assert same(Program.of(graph), Program.of(permuted(graph, seed, rename=True))), name


def test_symmetric_tasks_differ_by_their_neighbours():
    # two equal pairs: names decide which source is first, edges which target is
    one, other = (
        make_graph(["a"] * 4, [1.0] * 4, edges) for edges in ([(0, 3), (1, 2)], [(0, 2), (1, 3)])
    )
    assert same(Program.of(one), Program.of(other))
