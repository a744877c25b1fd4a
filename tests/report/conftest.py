"""What reports of a small task are made of."""

import pytest

from batches import BETWEEN, GRID, small_task
from msbgen.batch.material import gather_material
from msbgen.generate.model import fit_profiles


@pytest.fixture(scope="session")
def task():
    """25 contexts, four runs each, of a platform of which two clocks were not measured."""
    task = small_task(GRID)
    task["frequency"].attrs["levels"] = [1.0, 1.25, 1.75, 2.5]
    return task


@pytest.fixture(scope="session")
def model(task):
    return fit_profiles(task)


@pytest.fixture(scope="session")
def material(task, model):
    """A whole report's, judged by twelve contexts between the levels of the task."""
    truth = small_task(BETWEEN, 6)
    return gather_material(task, source="task.nc", truth=truth, model=model, command="msbgen")
