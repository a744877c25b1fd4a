"""Global EDF: beside a slow simulator, beside SimSo, and what no schedule may break."""

import contextlib
import io
import signal
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scheduling
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.store import save_netcdf
from msbgen.systems.realtime.allocate import Allocator
from msbgen.systems.realtime.edf import (
    MOST_JOBS,
    JobReleases,
    meets_deadlines,
    simulate_decisions,
    simulate_edf,
)
from msbgen.systems.realtime.simulate import simulate_task_set, timeline
from msbgen.systems.realtime.tasksets import Task, TaskSet
from platforms import make_table, make_truth, rising_speeds

LEVELS = {"ways": [1.0, 2.0, 3.0, 4.0], "clock": [1.0, 2.0]}
CAPACITY = {"ways": 8.0}


@st.composite
def systems(draw):
    """A task set, tables, and a truth of other phases than theirs: overload and light load."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cores = draw(st.integers(1, 3))
    load = draw(st.floats(0.2, 1.6))
    tables, seconds = {}, {}
    for name, ends in (("a", [0.3, 1.0]), ("b", [0.2, 0.6, 1.0])):
        tables[name] = make_table(rising_speeds(rng, len(ends), LEVELS), ends, LEVELS, name)
        speed = 4 + rising_speeds(rng, 8, LEVELS).reshape(8, -1).T
        seconds[name] = np.float32(0.125 / speed * (0.8 + 0.4 * rng.random((2, 1, 8))))
    n = draw(st.integers(1, 5))
    names = [draw(st.sampled_from(["a", "b"])) for _ in range(n)]
    shares = rng.random(n) + 0.1
    periods = 0.15 / (shares / shares.sum() * load * cores)
    tasks = tuple(Task(f"t{i}", p, float(t)) for i, (p, t) in enumerate(zip(names, periods)))
    capacity = {"ways": cores + draw(st.integers(0, 5))}
    return TaskSet(cores, capacity, tasks), tables, make_truth(seconds, LEVELS)


@given(systems(), st.sampled_from(["equal", "dna", "optimum"]), st.sampled_from([0.005, 0.03]))
@settings(max_examples=25)
def test_a_slow_simulator_gives_the_same_completions_and_decisions(system, method, timer):
    task_set, tables, truth = system
    horizon = 1.5
    allocator = Allocator(tables, task_set.capacity, task_set.cores, method=method, slack=0.1)
    settled = {"horizon": horizon, "timer": timer, "rng": 3}
    outcome, kept = simulate_decisions(task_set, allocator, truth, **settled)
    jobs = outcome.jobs
    profile = [task.profile for task in task_set.tasks]
    number = {tuple(c): k for k, c in enumerate(truth.grid.contexts.tolist())}

    def decide(running):
        names, progress = [profile[i] for i, _ in running], [p for _, p in running]
        return [
            number[tuple(c)] for c in allocator.decide(names, progress)[: len(running)].tolist()
        ]

    def phase_of(i, progress):
        ends = tables[profile[i]]["end"].values
        return min(int(np.searchsorted(ends, progress, side="right")), len(ends) - 1)

    seconds = [truth.seconds[truth.profiles.index(name)].astype(float) for name in profile]
    runs = [[each[run] for run in jobs.run[jobs.task == i]] for i, each in enumerate(seconds)]
    done, decisions = scheduling.global_edf(
        [t.period for t in task_set.tasks], runs, task_set.cores, horizon, timer, decide, phase_of
    )
    wanted = [done[i, k] for i in range(len(profile)) for k in range(len(runs[i]))]
    np.testing.assert_allclose(outcome.completion, wanted, rtol=1e-9)
    assert outcome.decisions == len(decisions)
    np.testing.assert_allclose(kept.time, [d[0] for d in decisions], atol=1e-9)
    for (_, running, contexts), job, context in zip(decisions, kept.job, kept.context):
        names = [jobs.first[i] + k for i, k in running]
        assert np.all(job[len(names) :] == -1)
        assert dict(zip(job[: len(names)], context)) == dict(zip(names, contexts))


def test_an_isolated_job_in_a_fixed_context_takes_its_runs_duration(small):
    _levels, tables, truth = small
    capacity = {"ways": 4.0, "bandwidth": 210.0}
    task_set = TaskSet(1, capacity, (Task("only", "a", 2.0),))
    allocator = Allocator(tables, capacity, 1, method="equal")
    outcome = simulate_edf(task_set, allocator, truth, horizon=20.0)
    assert len(outcome.completion) == 10
    response = outcome.completion - outcome.jobs.release
    largest = truth.durations("a")[outcome.jobs.run, -1]
    np.testing.assert_allclose(response, largest, rtol=1e-12)
    assert len(set(outcome.jobs.run)) == 3
    np.testing.assert_allclose(outcome.energy, largest.sum(), rtol=1e-9)


@pytest.fixture
def second():
    """A table and the truth of a task of 1 s in the one context that there is."""
    levels = {"ways": [1.0], "clock": [1.0]}
    truth = make_truth({"a": np.full((1, 1, 4), 0.25)}, levels)
    return {"a": make_table([[[1.0]]], [1.0], levels)}, truth


def test_a_response_of_exactly_the_period_is_in_time(second):
    tables, truth = second
    allocator = Allocator(tables, {"ways": 1.0}, 1)
    task_set = TaskSet(1, {"ways": 1.0}, (Task("a", "a", 1.0),))
    assert meets_deadlines(task_set, allocator, truth, horizon=10.0)
    assert simulate_edf(task_set, allocator, truth, horizon=10.0).ratio.max() == pytest.approx(1.0)
    late = TaskSet(1, {"ways": 1.0}, (Task("a", "a", 0.5),))
    assert not meets_deadlines(late, allocator, truth, horizon=0.5)


def test_jobs_draw_the_same_runs_whatever_the_periods_are():
    tasks = tuple(Task(f"t{i}", "a", 0.1 + 0.05 * i) for i in range(3))
    short = JobReleases.of(TaskSet(2, CAPACITY, tasks), 5.0, 10, 4)
    longer = tuple(Task(t.name, "a", 2 * t.period) for t in tasks)
    few = JobReleases.of(TaskSet(2, CAPACITY, longer), 5.0, 10, 4)
    for i in range(3):
        drawn, again = short.run[short.task == i], few.run[few.task == i]
        np.testing.assert_array_equal(drawn[: len(again)], again)
    assert set(short.run) == set(range(10))
    assert np.all(short.release < 5.0)
    # a period that divides the horizon releases nothing at its end
    assert len(JobReleases.of(TaskSet(1, CAPACITY, (Task("a", "a", 0.1),)), 60.0, 2, 0).task) == 600


def test_simso_gives_the_same_response_times_for_constant_execution_times():
    model = pytest.importorskip("simso.core", reason="install msbgen[test]").Model
    from simso.configuration import Configuration

    levels = {"ways": [1.0], "clock": [1.0]}
    rng = np.random.default_rng(2)
    compared, cycles = 0, 2**30
    while compared < 20:
        cores, n = int(rng.integers(2, 5)), int(rng.integers(4, 10))
        # multiples of 2⁻³⁰ s, SimSo's cycles (its "ms" are seconds here): exact in both
        units = rng.integers(8, 400, n)
        utilisation = rng.dirichlet(np.ones(n)) * cores * rng.uniform(0.5, 0.97)
        utilisation = np.minimum(utilisation, 0.9)
        wcet = units / 1024.0
        period = np.round(wcet / utilisation * cycles) / cycles
        truth = make_truth({f"p{i}": np.full((1, 1, 8), w / 8) for i, w in enumerate(wcet)}, levels)
        tables = {f"p{i}": make_table([[[1.0]]], [1.0], levels, f"p{i}") for i in range(n)}
        tasks = tuple(Task(f"t{i}", f"p{i}", float(t)) for i, t in enumerate(period))
        task_set = TaskSet(cores, {"ways": float(cores)}, tasks)
        horizon = 2.0
        allocator = Allocator(tables, task_set.capacity, cores)
        outcome = simulate_edf(task_set, allocator, truth, horizon=horizon)
        setup = Configuration()
        setup.cycles_per_ms = cycles
        setup.duration = int(1.5 * horizon * cycles)
        setup.scheduler_info.clas = "simso.schedulers.EDF"
        for i in range(n):
            setup.add_task(
                name=f"t{i}", identifier=i, period=period[i], deadline=period[i], wcet=wcet[i],
                activation_date=0, abort_on_miss=False,
            )  # fmt: skip
        for i in range(cores):
            setup.add_processor(name=f"c{i}", identifier=i)
        setup.check_all()
        simulated = model(setup)
        with contextlib.redirect_stdout(io.StringIO()):
            simulated.run_model()
        of_task = {int(r.task.identifier): r.jobs for r in simulated.results.tasks.values()}
        if not np.all(outcome.ratio <= 1):
            continue  # SimSo lets a late job and the next one run at once
        response = outcome.completion - outcome.jobs.release
        for i in range(n):
            # SimSo goes on releasing jobs, which may overtake those with a later deadline
            of_this = (outcome.jobs.task == i) & (outcome.jobs.deadline <= horizon)
            mine = response[of_this]
            theirs = [job.response_time / cycles for job in of_task[i][: len(mine)]]
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-13)
        compared += 1


def test_arguments_out_of_range_are_refused(small):
    levels, tables, truth = small
    capacity = {"ways": 8.0, "bandwidth": 420.0}
    allocator = Allocator(tables, capacity, 2)
    task_set = TaskSet(2, capacity, (Task("x", "a", 1.0),))
    with pytest.raises(ArgumentError, match="horizon is 0"):
        simulate_edf(task_set, allocator, truth, horizon=0.0)
    with pytest.raises(ArgumentError, match="timer is nan"):
        simulate_edf(task_set, allocator, truth, timer=float("nan"))
    with pytest.raises(ArgumentError, match="cores are 3 of the task set, 2 of the allocator"):
        simulate_edf(TaskSet(3, capacity, task_set.tasks), allocator, truth)
    unknown = TaskSet(2, capacity, (Task("y", "c", 1.0),))
    with pytest.raises(ArgumentError, match="task 'y' runs 'c', of which there is no phase table"):
        simulate_edf(unknown, allocator, truth)
    only_b = make_truth({"b": np.ones((1, 24, 2))}, levels)
    with pytest.raises(ArgumentError, match="task 'x' runs 'a', of which there is no truth"):
        simulate_edf(task_set, allocator, only_b)
    other = make_truth({"a": np.ones((1, 2, 2))}, {"ways": [1.0], "clock": [1.0, 2.0]})
    with pytest.raises(ProfileError, match="its resources are ways, clock"):
        simulate_edf(task_set, allocator, other)


@pytest.mark.parametrize(("period", "horizon"), [(1e-9, 60.0), (5e-324, 60.0), (0.1, 1e300)])
def test_more_jobs_than_memory_could_hold_are_refused(period, horizon):
    task_set = TaskSet(1, CAPACITY, (Task("slow", "a", 1.0), Task("quick", "a", period)))
    with pytest.raises(ArgumentError, match=f"'quick' .*at most {MOST_JOBS} are wanted"):
        JobReleases.of(task_set, horizon, 1, 0)


def test_every_task_releases_a_job_however_short_the_horizon_is():
    task_set = TaskSet(1, CAPACITY, (Task("a", "a", 1e300), Task("b", "a", 1.0)))
    np.testing.assert_array_equal(JobReleases.of(task_set, 1e-300, 1, 0).task, [0, 1])


def test_a_simulation_ends_when_it_is_interrupted(small):
    _, tables, truth = small
    capacity = {"ways": 8.0, "bandwidth": 420.0}
    allocator = Allocator(tables, capacity, 2)
    task_set = TaskSet(2, capacity, (Task("x", "a", 1.0),))
    simulate_edf(task_set, allocator, truth)  # compiled from here on

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    started = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            simulate_edf(task_set, allocator, truth, timer=1e-8)  # 10⁹ events
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - started < 5


SHARED = {"ways": 6.0, "bandwidth": 420.0}


@pytest.fixture
def task_set():
    tasks = [Task("x", "a", 0.12), Task("y", "b", 0.4), Task("z", "a", 0.33)]
    return TaskSet(2, SHARED, tuple(tasks), {"ways": 2.0})


def test_the_result_is_that_of_the_arrays(small, task_set, tmp_path):
    _, tables, truth = small
    result = simulate_task_set(task_set, tables, truth, allocator="dna", horizon=3.0, rng=1)
    allocator = Allocator(tables, SHARED, 2, method="dna", minima={"ways": 2.0})
    outcome = simulate_edf(task_set, allocator, truth, horizon=3.0, rng=1)
    np.testing.assert_array_equal(result["completion"], outcome.completion)
    np.testing.assert_array_equal(result["energy"], outcome.energy)
    assert result.attrs["decisions"] == outcome.decisions
    late = result["completion"] > result["deadline"] * (1 + 1e-9)
    np.testing.assert_array_equal(result["late"], late)
    assert late.any()
    per_task = [int(late[result["task_number"] == i].sum()) for i in range(3)]
    assert result["misses"].values.tolist() == per_task
    assert result["task"].values.tolist() == ["x", "y", "z"]
    response = result["completion"] - result["release"]
    np.testing.assert_array_equal(result["response_time"], response)
    save_netcdf(result, tmp_path / "result.nc")


def test_draws_are_the_same_for_every_allocator_and_others_for_other_seeds(small, task_set):
    _, tables, truth = small

    def runs(**settings):
        return simulate_task_set(task_set, tables, truth, horizon=3.0, **settings)["run"].values

    equal, dna, optimum = (runs(allocator=name).tolist() for name in ("equal", "dna", "optimum"))
    assert equal == dna == optimum
    assert runs(rng=1).tolist() != optimum


def test_the_timeline_gives_every_decision_within_the_capacities(small, task_set):
    _, tables, truth = small
    result = simulate_task_set(task_set, tables, truth, horizon=3.0)
    kept = timeline(task_set, tables, truth, horizon=3.0)
    assert kept.sizes["decision"] == result.attrs["decisions"]
    assert kept["ways"].sum("core").max() <= 6
    assert kept["ways"].min() >= 2
    assert kept["bandwidth"].sum("core").max() <= 420
    jobs = kept["job"].values[np.isfinite(kept["job"])]
    assert set(jobs) <= set(range(result.sizes["job"]))
    assert np.all(np.diff(kept["time"]) >= 0)


def test_a_long_simulation_of_an_overloaded_set_is_refused_before_any_work(small):
    _, tables, truth = small
    capacity = {"ways": 8.0, "bandwidth": 420.0}
    allocator = Allocator(tables, capacity, 2)
    name = next(iter(tables))
    task_set = TaskSet(2, capacity, (Task("a", name, 1e-6),))
    with pytest.raises(
        ArgumentError, match=r"jobs take .* or longer on 2 cores, .* times the time"
    ):
        simulate_edf(task_set, allocator, truth, horizon=3.0)
