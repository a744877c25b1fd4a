"""Steps: they say what the library says."""

import json

import numpy as np
import pytest
import xarray as xr

from batching import contexts_of, make_tasks
from msbgen.answers.evaluate.scores import leave_contexts_out, score_methods, summarise
from msbgen.answers.plan.plan import plan_contexts
from msbgen.core.errors import MeasurementError
from msbgen.data.store import load_netcdf, read_profiles, write_profiles
from msbgen.engine.bounds.model import calibrate_model
from msbgen.engine.generate.fit import fit_profiles
from msbgen.output.batch import job as jobs
from msbgen.output.batch import steps
from msbgen.output.batch.job import Job
from msbgen.output.batch.tasks import BatchTask, TaskSettings
from msbgen.output.report.summary import WORDS

SETTINGS = TaskSettings(
    kinds=(), miscoverage=0.3, budget="3", methods=("bracketing", "default/mean")
)


pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    source = make_tasks(folder / "in", 1)
    truth = folder / "truth.nc"
    write_profiles(read_profiles(source / "t0.nc").isel(context=slice(1, 3)), truth)
    job = Job(BatchTask("t0", source / "t0.nc", truth, SETTINGS), folder / "out")
    jobs.fit(job, contexts_of)
    job.folder.mkdir(parents=True)
    return job


def test_bounds_are_those_of_the_calibrated_model(job):
    assert steps.bound(job).files == ["bounds.nc"]
    measured = job.measured()
    wanted = calibrate_model(fit_profiles(measured), measured).bounds(job.contexts(), 0.3)
    xr.testing.assert_identical(load_netcdf(job.folder / "bounds.nc"), wanted)


def test_few_contexts_are_bounded_at_the_rate_that_they_support(job, caplog):
    task = BatchTask("t0", job.task.measured, settings=TaskSettings(kinds=()))
    steps.bound(Job(task, job.out))
    assert load_netcdf(job.folder / "bounds.nc").attrs["miscoverage"] == 0.1429  # 1 / 7
    assert "not of 0.05, which takes 19 contexts with a complete run; there are 6" in caplog.text


@pytest.mark.parametrize(("wanted", "size"), [(None, 2), (3, 3)])
def test_scores_and_the_report_leave_as_many_contexts_out(job, monkeypatch, wanted, size):
    settings = TaskSettings(kinds=(), leave_out=wanted, miscoverage=0.2, budget="30s")
    task = BatchTask("t0", job.task.measured, settings=settings)
    requested = []

    def gathered(_, leave_out, miscoverage, budget, **__):
        requested.append(leave_out)
        assert (miscoverage, budget) == (0.2, "30s")

    monkeypatch.setattr(steps, "write_report", lambda *_, **__: [])
    monkeypatch.setattr(steps, "numbers_of", lambda _: {"summary": {"grade": "good"}})
    monkeypatch.setattr(steps, "collect_report_data", gathered)
    monkeypatch.setattr(
        steps, "leave_contexts_out", lambda _, size, *__, rng: requested.append(size)
    )
    monkeypatch.setattr(steps, "save_netcdf", lambda *_, **__: None)
    scores = {"methods": {name: {"ndtw_scaled": 0.0} for name in task.settings.methods}}
    monkeypatch.setattr(steps, "summarise", lambda _: scores)
    steps.report(Job(task, job.out))
    steps.evaluate(Job(task, job.out))
    assert requested == [size, size]


def test_a_single_context_has_no_scores_and_it_is_said_what_to_do(job, monkeypatch):
    monkeypatch.setattr(steps, "scored_contexts", lambda measured: ([0], measured))
    alone = Job(BatchTask("t0", job.task.measured, settings=SETTINGS), job.out)
    with pytest.raises(MeasurementError, match="name a 'truth', or 'steps' without evaluate"):
        steps.evaluate(alone)


def test_scores_are_of_contexts_left_out_or_of_the_truth(job):
    measured, names = job.measured(), SETTINGS.methods
    found = steps.evaluate(Job(BatchTask("t0", job.task.measured, settings=SETTINGS), job.out))
    scores = leave_contexts_out(measured, 2, names, rng=np.random.default_rng(0))
    xr.testing.assert_identical(load_netcdf(job.folder / "scores.nc"), scores)
    means = summarise(scores)["methods"]
    assert json.loads((job.folder / "scores.json").read_text())["methods"] == means
    assert found.figures == {
        "error": means["bracketing"]["ndtw_scaled"],
        "baseline": means["bracketing"]["ndtw_scaled"],
    }
    steps.evaluate(job)
    scores = score_methods(measured, job.truth(), names)
    xr.testing.assert_identical(load_netcdf(job.folder / "scores.nc"), scores)


def test_a_plan_is_that_of_the_model(job):
    assert steps.plan(job).files == ["plan.csv"]
    planned = plan_contexts(job.model(), 3)
    planned.write(job.out / "wanted.csv")
    assert (job.folder / "plan.csv").read_text() == (job.out / "wanted.csv").read_text()


@pytest.mark.usefixtures("panels_without_layout")
def test_a_report_is_of_the_same_task_and_the_same_bytes(job):
    found = steps.report(job)
    assert sorted(found.files) == ["report.html", "report.json"]
    page = (job.folder / "report.html").read_bytes()
    summary = json.loads((job.folder / "report.json").read_text())["summary"]
    assert list(WORDS)[int(found.figures["grade"])] == summary["grade"]
    steps.report(job)
    assert (job.folder / "report.html").read_bytes() == page
    assert set(steps.STEPS) == {"bound", "evaluate", "plan", "report"}  # each is tried here
