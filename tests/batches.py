"""A small task on a grid, its model and the data of its report, each made once in a process.

``conftest.py`` of the folders that use them imports the fixtures.
"""

from functools import cache

import numpy as np
import pytest

from conftest import synthetic_task
from msbgen.engine.bounds.model import calibrate_model
from msbgen.engine.generate.fit import fit_profiles
from msbgen.engine.generate.progress_distribution import ProgressSettings
from msbgen.output.batch.report_data import collect_report_data

GRID = np.array([(w, f) for w in (2.0, 3.0, 4.0, 6.0, 8.0) for f in (1.0, 1.2, 1.5, 1.8, 2.0)])
BETWEEN = np.array([(w, f) for w in (2.5, 5.0, 7.0) for f in (1.1, 1.35, 1.6, 1.9)])


def small_task(contexts, n_runs=4):
    """A task of the platform of :func:`conftest.synthetic_task`, its levels without 3 ways."""
    return synthetic_task(contexts, n_runs)


@cache
def _all():
    task, unseen = small_task(GRID), small_task(BETWEEN, 6)
    task["frequency"].attrs["levels"] = [1.0, 1.25, 1.75, 2.5]
    model = calibrate_model(fit_profiles(task, ProgressSettings(bins=50)), task)
    inputs = collect_report_data(
        task, source="task.nc", truth=unseen, model=model, command="msbgen"
    )
    return task, unseen, model, inputs


@pytest.fixture(scope="session")
def task():
    """25 contexts, four runs each, of a platform of which three clocks were not measured."""
    return _all()[0]


@pytest.fixture(scope="session")
def unseen():
    """12 contexts between the levels of the task, six runs each."""
    return _all()[1]


@pytest.fixture(scope="session")
def model():
    """The model of the task, calibrated."""
    return _all()[2]


@pytest.fixture(scope="session")
def report_inputs():
    """The data of a whole report, scored on the unseen contexts."""
    return _all()[3]
