"""The course of a task: in which order its units can be done, and what stands in the way."""

import pytest

from msbgen.batch.execute import Found, Step
from msbgen.batch.job import Job
from msbgen.batch.manifest import DONE, FAILED, unit_record
from msbgen.batch.state import Course
from msbgen.batch.tasks import Settings, Task

FACTS = {"contexts": 10, "blocks": {"mean": 4, "sample": 10}, "within": {"mean": 99, "sample": 99}}
STEPS = {"bound": Step(lambda job: Found([])), "report": Step(lambda job: Found([]), last=True)}


@pytest.fixture
def course(tmp_path):
    task = Task("a", tmp_path / "a.nc", settings=Settings(kinds=("mean", "sample")))
    return Course(Job(task, tmp_path / "out"), STEPS)


def names(course):
    return [unit.name for unit in course.next_units()]


def end(course, *units, outcome=DONE, **facts):
    for unit in units:
        record = unit_record(course.job.task, unit, outcome, {"facts": facts, "seconds": 1.0})
        course.end(record)


def test_the_fit_comes_first_and_the_report_last(course):
    assert names(course) == ["fit"]
    course.running.add("fit")
    assert names(course) == []
    assert not course.is_over
    end(course, "fit", **FACTS)
    blocks = ["generate/mean/0", "generate/mean/4", "generate/mean/8", "generate/sample/0"]
    assert names(course) == [*blocks, "bound"]
    stops = [unit.stop for unit in course.next_units()]
    assert stops == [4, 8, 10, 10, 0]
    end(course, *blocks[:2], "bound", rows=3)
    assert names(course) == blocks[2:]
    end(course, blocks[2], rows=7)
    join, rest = list(course.next_units())
    assert (join.name, join.rows, rest.name) == ("join/mean", 7, "generate/sample/0")
    end(course, "join/mean", "generate/sample/0", rows=1)
    end(course, "join/sample")
    assert names(course) == ["report"]
    end(course, "report")
    assert course.is_over
    assert course.is_complete
    assert course.seconds == 9.0


def test_a_block_that_fails_fails_its_file_only(course):
    end(course, "fit", **FACTS)
    end(course, "generate/sample/0", outcome=FAILED)
    assert "join/sample" not in names(course)
    end(course, "generate/mean/0", "generate/mean/4", "generate/mean/8", "bound", rows=1)
    end(course, "join/mean")
    assert names(course) == ["report"]  # of what there is
    end(course, "report")
    assert course.is_over
    assert not course.is_complete
    assert [r["unit"] for r in course.failures] == ["generate/sample/0"]


def test_nothing_comes_of_a_task_without_a_fit(course):
    end(course, "fit", outcome=FAILED)
    assert names(course) == []
    assert course.is_over
    assert not course.is_complete
    assert [r["unit"] for r in course.failures] == ["fit"]
