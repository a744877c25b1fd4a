"""Units: they answer whatever happens, and know in a worker how often they were begun."""

import os

import pytest

import batching
from batching import SETTINGS, contexts_of, make_tasks
from forks import forked, status_of
from msbgen.core.errors import MeasurementError, ProfileError
from msbgen.core.machine import limit_cores
from msbgen.output.batch.execute import (
    BatchStep,
    ExecutionConfig,
    StepResult,
    Unit,
    attempts,
    clear_attempts,
    execute,
    timed_out,
)
from msbgen.output.batch.job import Job
from msbgen.output.batch.tasks import BatchTask


@pytest.fixture
def job(tmp_path):
    source = make_tasks(tmp_path / "in", 1)
    return Job(BatchTask("t0", source / "t0.nc", settings=SETTINGS), tmp_path / "out")


@pytest.fixture(autouse=True)
def all_cores():
    yield
    limit_cores(None)


def raising(error):
    def step(job):
        raise error

    return step


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MeasurementError("too few runs."), "too few runs."),
        (ProfileError("a: is b.", "c: is d."), "a: is b. c: is d."),
        (OSError(28, "No space left on device", "x.nc"), "x.nc: no space left on device."),
        (OSError("x.nc: cannot be written."), "x.nc: cannot be written."),
        (MemoryError(), "took more memory than there is."),
        (KeyError("x"), "internal error, KeyError: 'x'"),
        (ValueError("y" * 10_000 + "; end."), "internal error, ValueError: y"),
    ],
)
def test_what_went_wrong_is_said_in_a_sentence(job, error, message):
    answer = execute(
        Unit(job, "step"), ExecutionConfig(contexts_of, {"step": BatchStep(raising(error))})
    )
    assert answer["outcome"] == "failed"
    if len(str(error)) < 600:
        assert answer["error"] == message
    else:  # cut, but for its end
        assert answer["error"].startswith(message)
        assert answer["error"].endswith("; end.")
        assert len(answer["error"]) == 600
    traced = message.startswith("internal")
    assert ("trace" in answer.get("facts", {})) == traced


def test_figures_that_are_none_are_left_out(job):
    step = BatchStep(lambda job: StepResult([], {"good": 1, "bad": float("inf")}))
    answer = execute(Unit(job, "step"), ExecutionConfig(contexts_of, {"step": step}))
    assert answer["facts"] == {"figures": {"good": 1.0}}
    assert answer["bytes"] == 0


def test_a_worker_that_dies_is_counted_until_it_was_too_often(job):
    """Each in a process of its own, as workers are."""
    config = ExecutionConfig(contexts_of, {"die": BatchStep(batching.die)}, retries=1, worker=True)
    unit = Unit(job, "die")
    job.out.mkdir()
    for nth in (1, 2):
        assert status_of(forked(lambda: execute(unit, config) and 7)) == -9
        assert attempts(unit) == nth
    answer = execute(unit, config)
    assert (answer["outcome"], answer["attempt"]) == ("lost", 2)
    assert "lost in attempt 2 of 2" in answer["error"]
    assert (job.out / "deaths").read_text() == ".."
    assert attempts(unit) == 0
    (job.out / "go on").touch()
    assert execute(unit, config)["outcome"] == "done"


def test_a_worker_that_takes_too_long_ends_and_the_next_one_says_so(job):
    config = ExecutionConfig(
        contexts_of, {"hang": BatchStep(batching.hang)}, timeout=0.3, worker=True
    )
    unit = Unit(job, "hang")
    assert status_of(forked(lambda: execute(unit, config) and 7)) == 1
    assert timed_out(unit)
    answer = execute(unit, config)
    assert answer["error"] == "took longer than 0.3 s (--timeout)."
    assert not timed_out(unit)
    job.scratch.mkdir(parents=True, exist_ok=True)
    unit.mark("late").touch()
    clear_attempts(unit)
    (job.out / "go on").touch()
    assert execute(unit, config)["outcome"] == "done"
    assert os.listdir(job.scratch) == []
