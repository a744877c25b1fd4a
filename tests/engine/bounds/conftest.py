"""A small task on a grid, fitted and calibrated once."""

import numpy as np
import pytest

from conftest import synthetic_task
from msbgen.engine.bounds.model import calibrate_model
from msbgen.engine.generate.fit import fit_profiles
from msbgen.engine.generate.progress_distribution import ProgressSettings

QUICK = ProgressSettings(bins=40, segments=5, deconvolutions=1)
GRID = np.array([(w, f) for w in (2.0, 3.0, 4.0, 6.0, 8.0) for f in (1.0, 1.2, 1.5, 1.8, 2.0)])


@pytest.fixture(scope="session")
def quick():
    return QUICK


@pytest.fixture(scope="session")
def grid():
    """25 contexts: ways × clock."""
    return GRID


@pytest.fixture(scope="session")
def between():
    """Contexts between the levels of the grid."""
    return np.array([(w, f) for w in (2.5, 5.0, 7.0) for f in (1.1, 1.35, 1.6, 1.9)])


@pytest.fixture(scope="session")
def task():
    return synthetic_task(GRID, n_runs=4)


@pytest.fixture(scope="session")
def model(task):
    return fit_profiles(task, QUICK)


@pytest.fixture(scope="session")
def calibrated(task, model):
    return calibrate_model(model, task)


@pytest.fixture(scope="session")
def calibration(calibrated):
    return calibrated.calibration
