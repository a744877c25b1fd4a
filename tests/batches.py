"""A small task for jobs of a whole task, and everything that is told of it, worked out once."""

from functools import cache

import numpy as np

from conftest import synthetic_task
from msbgen.batch.report_data import collect_report_data
from msbgen.bounds.model import calibrate_model
from msbgen.generate.model import fit_profiles

GRID = np.array([(w, f) for w in (2.0, 3.0, 4.0, 6.0, 8.0) for f in (1.0, 1.2, 1.5, 1.8, 2.0)])
BETWEEN = np.array([(w, f) for w in (2.5, 5.0, 7.0) for f in (1.1, 1.35, 1.6, 1.9)])


def small_task(contexts, n_runs=4):
    """A task of the platform of :func:`conftest.synthetic_task`, its levels without 3 ways."""
    return synthetic_task(contexts, n_runs)


@cache
def reported_task():
    """25 contexts, four runs each, of a platform of which three clocks were not measured."""
    task = small_task(GRID)
    task["frequency"].attrs["levels"] = [1.0, 1.25, 1.75, 2.5]
    return task


@cache
def unseen_contexts():
    """12 contexts between the levels of the task, six runs each."""
    return small_task(BETWEEN, 6)


@cache
def fitted_model():
    """The model of the task, calibrated."""
    task = reported_task()
    return calibrate_model(fit_profiles(task), task)


@cache
def whole_material():
    """A whole report's, judged by the unseen contexts."""
    return collect_report_data(
        reported_task(),
        source="task.nc",
        truth=unseen_contexts(),
        model=fitted_model(),
        command="msbgen",
    )
