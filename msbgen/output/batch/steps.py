"""Steps of a batch after generation: bounds, scores, plan and report.

A step writes files into the folder of its task and returns their names.  Repeated anywhere, it
writes the same bytes.
"""

import math
from typing import Any

import numpy as np

from msbgen.answers.evaluate.scores import (
    leave_contexts_out,
    score_methods,
    scored_contexts,
    summarise,
)
from msbgen.answers.plan.plan import parse_budget, plan_contexts
from msbgen.core.errors import MeasurementError
from msbgen.data.files import write_json
from msbgen.data.profiles import Profiles
from msbgen.data.store import save_netcdf
from msbgen.engine.bounds.model import calibrate_model
from msbgen.output.batch import PARTS
from msbgen.output.batch.execute import BatchStep, StepResult
from msbgen.output.batch.index import BASELINE, ERROR, GRADE, REPORT
from msbgen.output.batch.job import Job
from msbgen.output.batch.report_data import collect_report_data
from msbgen.output.report.numbers import numbers_of
from msbgen.output.report.page import write_report
from msbgen.output.report.summary import WORDS

_BRACKETING = "bracketing"


def bound(job: Job) -> StepResult:
    """Bounds of the task's contexts, ``bounds.nc``."""
    calibrated = calibrate_model(job.model(), job.measured())
    contexts = job.contexts()
    rate = calibrated.supported_rate(contexts, job.task.settings.miscoverage)
    bounds = calibrated.bounds(contexts, rate)
    save_netcdf(bounds, job.folder / "bounds.nc", overwrite=True)
    return StepResult(["bounds.nc"])


def evaluate(job: Job) -> StepResult:
    """Scores on held-out contexts: those of the truth, or measured ones in turn."""
    settings, measured = job.task.settings, job.measured()
    names = settings.methods
    if job.task.truth is not None:
        scores = score_methods(measured, job.truth(), names)
    else:
        rng, size = np.random.default_rng(settings.seed), _left_out(job)
        if size is None:
            raise MeasurementError(
                "One measured context cannot be left out: in a TOML of tasks, name a 'truth', or "
                "'steps' without evaluate."
            )
        scores = leave_contexts_out(measured, size, names, rng=rng)
    summary = summarise(scores)
    save_netcdf(scores, job.folder / "scores.nc", overwrite=True)
    write_json(summary, job.folder / "scores.json", overwrite=True)
    means: dict[str, dict[str, Any]] = summary["methods"]
    figures = {ERROR: means[names[0]].get("ndtw_scaled", math.nan)}
    if _BRACKETING in means:
        figures[BASELINE] = means[_BRACKETING].get("ndtw_scaled", math.nan)
    return StepResult(["scores.nc", "scores.json"], figures)


def _left_out(job: Job) -> int | None:
    """Number of measured contexts left out at a time; None where there is only one."""
    n = len(scored_contexts(Profiles.of(job.measured()))[0])
    return None if n < 2 else job.task.settings.leave_out or math.ceil(n / PARTS)


def plan(job: Job) -> StepResult:
    """Contexts to measure next, ``plan.csv``.

    Where every context is measured, a budget of contexts is the time that their runs took: runs are
    repeated where they help most.
    """
    budget, profiles = job.task.settings.budget, Profiles.of(job.measured())
    levels = [np.unique(attrs.get("levels", ())).size for attrs in profiles.resources.values()]
    if parse_budget(budget).is_time or math.prod(levels) != len(profiles.contexts):
        planned = plan_contexts(job.model(), budget)
    else:
        planned = plan_contexts(job.model(), f"{np.nansum(profiles.duration):g}s")
    planned.write(job.folder / "plan.csv", overwrite=True)
    return StepResult(["plan.csv"])


def report(job: Job) -> StepResult:
    """The report of the task, ``report.html``, with its numbers beside it."""
    settings = job.task.settings
    data = collect_report_data(
        job.measured(), source=job.task.measured.name, path=str(job.task.measured),
        truth=job.truth() if job.task.truth is not None else None,
        leave_out=None if job.task.truth is not None else _left_out(job),
        contexts=None if settings.contexts == "all" else job.contexts(), model=job.model(),
        miscoverage=settings.miscoverage, budget=settings.budget, seed=settings.seed,
    )  # fmt: skip
    files = [path.name for path in write_report(job.folder / REPORT, data, overwrite=True)]
    grade = numbers_of(data)["summary"]["grade"]
    return StepResult(files, {GRADE: list(WORDS).index(grade)})


STEPS = {
    "bound": BatchStep(bound),
    "evaluate": BatchStep(evaluate),
    "plan": BatchStep(plan),
    "report": BatchStep(report),
}
