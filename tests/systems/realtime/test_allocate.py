"""Allocators: the optimum is that of an exhaustive search; what is promised to every core holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scheduling
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.systems.realtime.allocate import Allocator
from msbgen.systems.realtime.clocks import STEP, reference_slack, simulated_slack
from msbgen.systems.realtime.edf import simulate_edf
from msbgen.systems.realtime.tasksets import Task, TaskSet
from platforms import make_table, make_truth, rising_speeds

METHODS = ("equal", "dna", "optimum")


@st.composite
def platforms(draw, max_cores=3):
    """Levels, tables of two tasks, capacity and cores; steps of levels need not be equal."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ways = sorted(draw(st.sets(st.integers(1, 7), min_size=1, max_size=4)))
    bandwidth = [70.0 * x for x in sorted(draw(st.sets(st.integers(1, 5), min_size=1, max_size=3)))]
    levels = {"ways": [float(w) for w in ways], "bandwidth": bandwidth, "clock": [1.0, 2.0]}
    if draw(st.booleans()):
        del levels["bandwidth"]
    cores = draw(st.integers(1, max_cores))
    tables = {
        name: make_table(rising_speeds(rng, len(ends), levels), ends, levels, name)
        for name, ends in (("a", [0.3, 1.0]), ("b", [1.0]))
    }
    capacity = {
        name: cores * values[0] + draw(st.floats(0.0, 1.2)) * cores * (values[-1] - values[0])
        for name, values in levels.items()
        if name != "clock"
    }
    tasks = [draw(st.sampled_from(["a", "b"])) for _ in range(draw(st.integers(0, cores)))]
    progress = [draw(st.floats(0.0, 1.0)) for _ in tasks]
    return levels, tables, capacity, cores, tasks, progress


def values_of(tables, tasks, progress, objective="instructions"):
    """Values over the levels of the shared resources at the highest clock, one array a core."""
    values = []
    for name, done in zip(tasks, progress):
        table = tables[name]
        ends = table["end"].values
        phase = min(int(np.searchsorted(ends, done, side="right")), len(ends) - 1)
        speed = table["speed"].values[phase].astype(float)
        scale = 1 / speed.flat[-1] if objective == "progress" else 1.0
        values.append(speed[..., -1] * scale)
    return values


def place(levels, context):
    return tuple(list(values).index(x) for values, x in zip(levels.values(), context))


@given(platforms(), st.sampled_from(["instructions", "progress"]))
@settings(max_examples=20)
def test_the_optimum_is_that_of_an_exhaustive_search(platform, objective):
    levels, tables, capacity, cores, tasks, progress = platform
    allocator = Allocator(tables, capacity, cores, objective=objective)
    contexts = allocator.decide(tasks, progress)
    if not tasks:
        return
    values = values_of(tables, tasks, progress, objective)
    shared = [levels[name] for name in capacity]
    # an idle core keeps its minimum
    idle = cores - len(tasks)
    left = [capacity[name] - idle * levels[name][0] for name in capacity]
    best = scheduling.exhaustive(values, shared, left)
    got = sum(v[place(levels, c)[:-1]] for v, c in zip(values, contexts))
    assert got == pytest.approx(best, rel=1e-5)


@given(platforms(max_cores=5), st.sampled_from(METHODS))
def test_capacities_and_minima_hold_and_idle_cores_have_the_least(platform, method):
    levels, tables, capacity, cores, tasks, progress = platform
    contexts = Allocator(tables, capacity, cores, method=method).decide(tasks, progress)
    assert contexts.shape == (cores, len(levels))
    for d, (name, values) in enumerate(levels.items()):
        assert set(contexts[:, d]) <= set(values)
        if name in capacity:
            assert contexts[:, d].sum() <= capacity[name] * (1 + 1e-9)
            assert np.all(contexts[len(tasks) :, d] == values[0])
        else:
            assert np.all(contexts[: len(tasks), d] == values[-1])


@given(platforms())
@settings(max_examples=25)
def test_dna_takes_the_steps_of_a_greedy_search(platform):
    levels, _, _, cores, tasks, progress = platform
    levels = {name: [10.0 * (k + 1) for k in range(len(v))] for name, v in levels.items()}
    rng = np.random.default_rng(len(tasks))
    tables = {
        name: make_table(rising_speeds(rng, 1, levels), [1.0], levels, name) for name in ("a", "b")
    }
    spare = {name: 2 + len(values) for name, values in levels.items() if name != "clock"}
    capacity = {name: 10.0 * (cores + n) for name, n in spare.items()}
    contexts = Allocator(tables, capacity, cores, method="dna").decide(tasks, progress)
    if tasks:
        held = scheduling.greedy(values_of(tables, tasks, progress), list(spare.values()))
        np.testing.assert_array_equal(contexts[: len(tasks), :-1] / 10 - 1, held)


def test_equal_gives_every_core_the_same_share():
    levels = {"ways": [2.0, 3.0, 4.0, 5.0, 6.0], "clock": [1.0, 2.0]}
    table = make_table(rising_speeds(np.random.default_rng(0), 1, levels), [1.0], levels)
    allocator = Allocator({"task": table}, {"ways": 20}, 4, method="equal")
    for busy in range(5):
        contexts = allocator.decide(["task"] * busy, [0.5] * busy)
        np.testing.assert_array_equal(contexts[:busy, 0], 5.0)
        np.testing.assert_array_equal(contexts[busy:, 0], 2.0)


@pytest.mark.parametrize("method", ["dna", "optimum"])
def test_units_without_a_gain_go_to_the_core_with_the_fewest(method):
    levels = {"ways": np.arange(2.0, 21.0), "bandwidth": 70.0 * np.arange(1, 21)}
    flat = make_table(np.ones((1, 19, 20)), [1.0], levels)
    allocator = Allocator({"task": flat}, {"ways": 20, "bandwidth": 1400}, 4, method=method)
    contexts = allocator.decide(["task"] * 4, [0.5] * 4)
    np.testing.assert_array_equal(contexts, np.tile([5.0, 350.0], (4, 1)))
    # a table that rises only at its last way has no use for others
    late = flat.copy(deep=True)
    late["speed"].values[:, -1] = 2.0
    both = Allocator({"flat": flat, "late": late}, {"ways": 24, "bandwidth": 140}, 2, method=method)
    contexts = both.decide(["flat", "late"], [0.5, 0.5])
    assert contexts[:, 0].sum() == 24
    assert contexts[1, 0] == (20 if method == "optimum" else 12)


def test_tables_that_fall_are_taken_as_the_nearest_that_do_not():
    levels = {"ways": [1.0, 2.0, 3.0], "clock": [1.0, 2.0]}
    speed = np.array([[1.0, 3.0, 2.0]])[..., None] * [1.0, 1.5]
    rising = np.array([[1.0, 2.0, 3.5]])[..., None] * [1.0, 1.5]
    tables = {"a": make_table(speed, [1.0], levels), "b": make_table(rising, [1.0], levels)}
    contexts = Allocator(tables, {"ways": 5}, 2).decide(["a", "b"], [0.0, 0.0])
    np.testing.assert_array_equal(contexts[:, 0], [2.0, 3.0])


def test_clocks_are_the_lowest_that_keep_the_rate():
    levels = {"ways": [1.0, 2.0], "clock": [1.0, 1.5, 2.0]}
    speed = np.array([[[0.85, 0.95, 1.0], [0.98, 0.7, 2.0]]])
    tables = {"a": make_table(speed, [1.0], levels)}
    clock = {}
    for slack in (None, 0.0, 0.06, 0.2):
        allocator = Allocator(tables, {"ways": 1}, 1, slack=slack)
        clock[slack] = allocator.decide(["a"], [0.5])[0, 1]
    assert clock == {None: 2.0, 0.0: 2.0, 0.06: 1.5, 0.2: 1.0}
    # a lower clock that is fast again below one that is not is luck of the measurement
    lucky = Allocator(tables, {"ways": 2}, 1, slack=0.6).decide(["a"], [0.5])
    assert lucky[0].tolist() == [2.0, 2.0]
    idle = Allocator(tables, {"ways": 2}, 1, slack=0.0).decide([], [])
    assert idle[0].tolist() == [1.0, 1.0]


def refused(message, error=ArgumentError, **changes):
    levels = {"ways": [2.0, 3.0, 4.0], "clock": [1.0, 2.0]}
    speed = rising_speeds(np.random.default_rng(0), 1, levels)
    tables = {"a": make_table(speed, [1.0], levels, "a")}
    with pytest.raises(error, match=message):
        Allocator(**{"tables": tables, "capacity": {"ways": 8}, "cores": 4, **changes})


def test_a_minimum_is_a_level_but_for_rounding():
    levels = {"ways": [2.0, 4.0], "clock": [1.0]}
    table = make_table(rising_speeds(np.random.default_rng(0), 1, levels), [1.0], levels, "a")
    allocator = Allocator({"a": table}, {"ways": 8}, 2, minima={"ways": 4 * (1 + 1e-7)})
    assert allocator.minima == {"ways": 4.0}


def test_what_cannot_be_allocated_is_refused():
    refused(r"capacity of 'ways' is 7; at least 8", capacity={"ways": 7})
    refused("capacity of 'ways' is nan", capacity={"ways": float("nan")})
    refused(r"capacity is empty", capacity={})
    refused(r"'cache' is no resource of the tables; ways, clock are", capacity={"cache": 8})
    refused(r"capacity of 'ways' is '8'; a number", capacity={"ways": "8"})
    for cores in (0, float("nan"), "x", 10**12):
        refused(rf"cores is {cores!r}", capacity={"ways": 2e13}, cores=cores)
    refused(r"minima of 'ways' is '3'; a number", minima={"ways": "3"})
    refused(r"slack is '0.1'", slack="0.1")
    refused(r"minimum of 'ways' is 2.5; one of its levels, 2, 3, 4", minima={"ways": 2.5})
    refused(r"'clock' has a minimum but no capacity", minima={"clock": 1.0})
    refused(r"tables are none", tables={})
    refused(r"method is 'best'", method="best")
    refused(r"objective is 'speed'", objective="speed")
    refused(r"slack is 1", slack=1.0)


def test_tables_of_different_platforms_are_refused():
    levels = {"ways": [2.0, 3.0], "clock": [1.0, 2.0]}
    other = {"ways": [2.0, 4.0], "clock": [1.0, 2.0]}
    tables = {
        name: make_table(rising_speeds(np.random.default_rng(0), 1, ls), [1.0], ls, name)
        for name, ls in (("a", levels), ("b", other))
    }
    refused(r"table of 'b': 'ways' has 2 levels from 2 to 4", ProfileError, tables=tables)
    timed = {"a": tables["a"].assign_attrs(progress="time")}
    refused(r"the objective 'progress' is wanted", ProfileError, tables=timed)


@pytest.mark.parametrize(
    ("tasks", "progress", "message"),
    [
        (["c"], [0.5], "task 'c' has no table; one of a, b is wanted"),
        (["a"], [1.5], "progress of 'a' is 1.5"),
        (["a"], [float("nan")], "progress of 'a' is nan"),
        (["a", "b", "a"], [0, 0, 0], "tasks are 3 with 3"),
        (["a", "b"], [0], "tasks are 2 with 1"),
    ],
)
def test_unknown_tasks_and_progress_are_refused(small, tasks, progress, message):
    _, tables, _ = small
    with pytest.raises(ArgumentError, match=message):
        Allocator(tables, {"ways": 6, "bandwidth": 420}, 2).decide(tasks, progress)


def test_a_slack_where_no_core_has_a_clock_of_its_own_is_refused():
    message = "slack is 0.1, but no core has a clock of its own"
    refused(message, capacity={"ways": 8, "clock": 6}, slack=0.1)
    refused(message, tables={"a": make_table([[1.0, 2.0]], [1.0], {"ways": [2.0, 3.0]})}, slack=0.1)


def test_instructions_and_other_events_are_not_added_up():
    levels = {"ways": [2.0, 3.0], "clock": [1.0]}
    table = make_table(np.ones((1, 2, 1)), [1.0], levels)
    tables = {"a": table, "b": table.assign_attrs(progress="requests")}
    refused("table of 'b': progress is counted in 'requests'", ProfileError, tables=tables)
    assert Allocator(tables, {"ways": 8}, 4, objective="progress").tasks == ("a", "b")


def test_more_units_than_can_be_searched_are_refused():
    levels = {"ways": np.arange(100.0), "bandwidth": 70.0 * np.arange(100), "clock": [1.0, 2.0]}
    levels["clock"] = np.arange(1.0, 11.0)
    table = make_table(np.ones((1, 100, 100, 10)), [1.0], levels)
    capacity = {"ways": 900.0, "bandwidth": 63000.0, "clock": 99.0}
    with pytest.raises(ArgumentError, match=r"units to share are .*900 of 'ways'.* too many"):
        Allocator({"a": table}, capacity, 10)
    levels["ways"] = 1e-9 * np.arange(100.0)  # gigahertz for hertz
    table = make_table(np.ones((1, 100, 100, 10)), [1.0], levels)
    with pytest.raises(MeasurementError, match="levels of 'ways' differ by next to nothing"):
        Allocator({"a": table}, capacity, 10)


LEVELS = {"ways": [1.0], "clock": [0.25, 0.5, 0.6, 0.75, 0.9, 1.0]}
CAPACITY = {"ways": 4.0}


def task_set(utilisations, cores=2):
    tasks = [Task(f"t{i}", "a", 0.1 / u, 0.1) for i, u in enumerate(utilisations)]
    return TaskSet(cores, {"ways": float(cores)}, tuple(tasks))


@pytest.mark.parametrize("utilisations", [[0.1], [0.2, 0.2, 0.4, 0.1], [0.05] * 8])
def test_the_reference_slack_is_where_the_test_for_global_edf_turns(utilisations):
    chosen = task_set(utilisations, cores=4)
    slack = reference_slack(chosen)

    def passes(delta):
        stretched = np.array(utilisations) / (1 - delta)
        return stretched.sum() <= 4 - 3 * stretched.max()

    assert passes(slack - 1e-9)
    assert not passes(slack + 1e-9)


def test_a_set_that_fails_the_test_has_no_slack():
    assert reference_slack(task_set([0.4] * 9, cores=4)) == 0.0
    with pytest.raises(ArgumentError, match="is 1e-30; a larger one is wanted: correct 'wcet'"):
        reference_slack(task_set([1e-30], cores=4))
    with pytest.raises(ArgumentError, match="wcet of task 'x' is not given"):
        reference_slack(TaskSet(4, CAPACITY, (Task("x", "a", 1.0),)))


@pytest.fixture
def linear():
    """A task as fast as its clock: 0.1 s at the highest."""
    clock = np.array(LEVELS["clock"])
    table = make_table((10 * clock)[None, None], [1.0], LEVELS)
    truth = make_truth({"a": (0.1 / clock)[None, :, None] * np.ones(4) / 4}, LEVELS)
    return table, truth


def test_the_simulated_slack_is_the_largest_that_keeps_responses_below_the_share(linear):
    table, truth = linear

    def allocator(slack):
        return Allocator({"a": table}, {"ways": 1.0}, 1, slack=slack)

    one = task_set([0.5], cores=1)  # response/deadline is 0.5 over the clock
    slack = simulated_slack(one, allocator, truth, horizon=1.0)
    # 0.5/0.6 < 0.9 and 0.5/0.5 > 0.9: any slack that allows 0.6 but not 0.5
    assert 0.4 <= slack < 0.5
    worst = simulate_edf(one, allocator(slack), truth, horizon=1.0).ratio.max()
    assert worst == pytest.approx(0.5 / 0.6)
    assert simulate_edf(one, allocator(slack + STEP), truth, horizon=1.0).ratio.max() > 0.9
    assert simulated_slack(task_set([0.95], cores=1), allocator, truth, horizon=1.0) == 0.0
    assert simulated_slack(one, allocator, truth, share=0.6, horizon=1.0) < slack
    with pytest.raises(ArgumentError, match=r"share is 1\.5"):
        simulated_slack(one, allocator, truth, share=1.5)
