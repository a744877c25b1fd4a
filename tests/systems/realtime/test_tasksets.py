"""Task sets: drawn as in the paper, the same after their file, refused with a sentence."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import synthetic_task
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.realtime.tasksets import (
    Task,
    TaskSet,
    draw_task_set,
    read_task_set,
    reference_wcet,
)
from strategies import texts

CAPACITY = {"cache_ways": 20.0, "bandwidth": 1400.0}
WCET = {"gzip": 0.3, "zstd": 0.4, "python": 0.6}


@given(st.floats(0.01, 4.0) | st.sampled_from([1e-10, 1e-300]), st.integers(0, 1000))
def test_utilisations_add_up_and_lie_in_their_range(utilisation, seed):
    drawn = draw_task_set(WCET, utilisation, cores=4, capacity=CAPACITY, rng=seed)
    assert drawn.utilisation == pytest.approx(utilisation)
    single = [task.utilisation for task in drawn.tasks]
    assert all(0.1 <= u <= 0.4 for u in single[:-1])
    assert 0 < single[-1] <= 0.4
    assert all(task.wcet == WCET[task.profile] for task in drawn.tasks)
    assert drawn == draw_task_set(WCET, utilisation, cores=4, capacity=CAPACITY, rng=seed)


def test_draws_are_even():
    sets = [draw_task_set(WCET, 4.0, cores=4, capacity={}, rng=i) for i in range(200)]
    many = [task for drawn in sets for task in drawn.tasks]
    share = [sum(t.profile == name for t in many) / len(many) for name in WCET]
    assert np.abs(np.array(share) - 1 / 3).max() < 0.05
    utilisations = np.array([t.utilisation for t in many])
    assert abs(np.mean(utilisations[utilisations > 0.1]) - 0.25) < 0.01


def test_scaling_keeps_the_shape():
    drawn = draw_task_set(WCET, 3.0, cores=4, capacity=CAPACITY)
    scaled = drawn.scaled(1.5)
    assert scaled.utilisation == pytest.approx(1.5)
    for before, after in zip(drawn.tasks, scaled.tasks):
        assert after.period == pytest.approx(2 * before.period)


names = texts(min_size=1, max_size=8)
sizes = st.floats(1e-6, 1e9)


@given(
    st.lists(st.tuples(names, names, sizes, st.none() | sizes), min_size=1, max_size=4),
    st.dictionaries(names, sizes, max_size=3),
    st.integers(1, 64),
)
@settings(max_examples=15)
def test_a_set_is_the_same_after_its_file(tmp_path_factory, rows, amounts, cores):
    tasks = tuple(Task(f"{i}{n}", p, t, w) for i, (n, p, t, w) in enumerate(rows))
    written = TaskSet(cores, amounts, tasks, dict(list(amounts.items())[:1]))
    path = tmp_path_factory.mktemp("set") / "set.toml"
    written.write(path)
    assert read_task_set(path) == written


GOOD = """cores = 4
[capacity]
cache_ways = 20
[[task]]
profile = "gzip"
period = 0.5
"""


def test_names_wcets_and_minima_are_optional(tmp_path):
    path = tmp_path / "set.toml"
    path.write_text(GOOD)
    assert read_task_set(path) == TaskSet(4, {"cache_ways": 20.0}, (Task("gzip-0", "gzip", 0.5),))
    with pytest.raises(ArgumentError, match="wcet of task 'gzip-0' is not given"):
        _ = read_task_set(path).utilisation


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cores = 4", "core = 4", "'core' is no known key"),
        ("cores = 4", "cores = 0", "'cores' is 0"),
        ("cores = 4", f"cores = {'[' * 50_000}", "cannot be read as TOML"),
        ("cache_ways = 20", "cache_ways = inf", "'capacity' of 'cache_ways' is inf"),
        ("period = 0.5", f"period = 1{'0' * 400}", "task 'gzip-0': 'period' is 1000"),
        ("period = 0.5", 'period = 0.5\nname = ""', "task '': 'name' is ''"),
        ("period = 0.5", "period = 0", "task 'gzip-0': 'period' is 0"),
        ("period = 0.5", "period = 0.5\nwcet = 0", "task 'gzip-0': 'wcet' is 0"),
        ('"gzip"', "3", "'profile' is 3"),
        ("[[task]]", "[task]", "'task' is .*; an array of tables"),
    ],
)
def test_a_bad_file_is_refused_with_its_name(tmp_path, old, new, message):
    path = tmp_path / "set.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(ProfileError, match=rf"^set\.toml.*{message}"):
        read_task_set(path)


@pytest.mark.parametrize("utilisation", [0.0, -1.0, 4.1, math.nan, math.inf])
def test_utilisations_out_of_range_are_refused(utilisation):
    with pytest.raises(
        ArgumentError, match=r"a (positive number|number above 0, up to the 4 cores)"
    ):
        draw_task_set(WCET, utilisation, cores=4, capacity=CAPACITY)


def test_a_utilisation_that_makes_periods_infinite_is_refused():
    with pytest.raises(ArgumentError, match="period is inf; a positive number"):
        draw_task_set(WCET, 5e-324, cores=4, capacity=CAPACITY)


def test_invalid_sets_are_refused():
    with pytest.raises(ArgumentError, match="profiles are none"):
        draw_task_set({}, 1.0, cores=4, capacity=CAPACITY)
    task = Task("a", "gzip", 1.0)
    with pytest.raises(ArgumentError, match="name 'a' is given to two tasks"):
        TaskSet(4, CAPACITY, (task, task))
    with pytest.raises(ArgumentError, match=r"tasks is \(\); a list of one or more tables"):
        TaskSet(4, CAPACITY, ())
    with pytest.raises(ArgumentError, match="utilisation is nan"):
        TaskSet(4, CAPACITY, (Task("a", "gzip", 1.0, 0.5),)).scaled(math.nan)
    for cores in (math.nan, "4", 9999, 2.5):
        with pytest.raises(ArgumentError, match=f"cores is {cores!r}"):
            TaskSet(cores, CAPACITY, (task,))
    with pytest.raises(ArgumentError, match="cores is None"):
        draw_task_set(WCET, 1.0, cores=None, capacity=CAPACITY)
    for amount in (math.nan, math.inf, -1, "20"):
        with pytest.raises(ArgumentError, match=f"capacity of 'cache_ways' is {amount!r}"):
            TaskSet(4, {"cache_ways": amount}, (task,))
    for period in ("1", -1.0, math.nan, math.inf):
        with pytest.raises(ArgumentError, match=f"period is {period!r}; a positive"):
            Task("a", "gzip", period)
    with pytest.raises(ArgumentError, match="wcet of 'gzip' is -1; a positive number"):
        draw_task_set({"gzip": -1}, 1.0, cores=4, capacity=CAPACITY)


def test_the_reference_is_the_longest_run_in_the_largest_context():
    contexts = np.array([(2.0, 1.0), (8.0, 2.0), (8.0, 1.0)])
    profiles = synthetic_task(contexts)
    assert reference_wcet(profiles) == float(profiles["duration"].values[1].max())
    with pytest.raises(ProfileError, match="no context has the highest level of every resource"):
        reference_wcet(synthetic_task(np.array([(2.0, 2.0), (8.0, 1.0)])))


def test_the_largest_context_is_found_among_small_levels():
    context = np.array([(w, f) for w in (2.0, 8.0) for f in (1.0, 2.0)])
    profiles = synthetic_task(context)
    attrs = {**profiles["frequency"].attrs, "levels": [1e-9, 2e-9]}
    small = ("context", profiles["frequency"].values * 1e-9, attrs)
    assert reference_wcet(profiles.assign_coords(frequency=small)) == reference_wcet(profiles)
    without = profiles.assign_coords(frequency=small).isel(context=[0, 1, 2])
    with pytest.raises(ProfileError, match="no context has the highest level"):
        reference_wcet(without)
