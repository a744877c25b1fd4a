"""The state of a task: in which order its units can be done, and what stands in the way."""

import pytest

from msbgen.output.batch.execute import BatchStep, StepResult
from msbgen.output.batch.job import Job
from msbgen.output.batch.manifest import DONE, FAILED, unit_record
from msbgen.output.batch.state import TaskState
from msbgen.output.batch.tasks import BatchTask, TaskSettings

FACTS = {"contexts": 10, "blocks": {"mean": 4, "sample": 10}, "within": {"mean": 99, "sample": 99}}
STEPS = {
    "bound": BatchStep(lambda job: StepResult([])),
    "report": BatchStep(lambda job: StepResult([]), last=True),
}


@pytest.fixture
def state(tmp_path):
    task = BatchTask("a", tmp_path / "a.nc", settings=TaskSettings(kinds=("mean", "sample")))
    return TaskState(Job(task, tmp_path / "out"), STEPS)


def names(state):
    return [unit.name for unit in state.next_units()]


def end(state, *units, outcome=DONE, **facts):
    for unit in units:
        record = unit_record(state.job.task, unit, outcome, {"facts": facts, "seconds": 1.0})
        state.end(record)


def test_the_fit_comes_first_and_the_report_last(state):
    assert names(state) == ["fit"]
    state.running.add("fit")
    assert names(state) == []
    assert not state.is_over
    end(state, "fit", **FACTS)
    blocks = ["generate/mean/0", "generate/mean/4", "generate/mean/8", "generate/sample/0"]
    assert names(state) == [*blocks, "bound"]
    stops = [unit.stop for unit in state.next_units()]
    assert stops == [4, 8, 10, 10, 0]
    end(state, *blocks[:2], "bound", rows=3)
    assert names(state) == blocks[2:]
    end(state, blocks[2], rows=7)
    join, rest = list(state.next_units())
    assert (join.name, join.rows, rest.name) == ("join/mean", 7, "generate/sample/0")
    end(state, "join/mean", "generate/sample/0", rows=1)
    end(state, "join/sample")
    assert names(state) == ["report"]
    end(state, "report")
    assert state.is_over
    assert state.is_complete
    assert state.seconds == 9.0


def test_a_block_that_fails_fails_its_file_only(state):
    end(state, "fit", **FACTS)
    end(state, "generate/sample/0", outcome=FAILED)
    assert "join/sample" not in names(state)
    end(state, "generate/mean/0", "generate/mean/4", "generate/mean/8", "bound", rows=1)
    end(state, "join/mean")
    assert names(state) == ["report"]  # of what there is
    end(state, "report")
    assert state.is_over
    assert not state.is_complete
    assert [r["unit"] for r in state.failures] == ["generate/sample/0"]
