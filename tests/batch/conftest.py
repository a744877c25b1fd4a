"""A small task on a grid, fitted once, and everything that is told of it."""

import pytest

from batches import BETWEEN, GRID, small_task
from msbgen.batch.material import gather_material
from msbgen.generate.model import fit_profiles


@pytest.fixture(scope="session")
def task():
    """25 contexts, four runs each; of the platform's levels two clocks were not measured."""
    task = small_task(GRID)
    task["frequency"].attrs["levels"] = [1.0, 1.25, 1.75]
    return task


@pytest.fixture(scope="session")
def unseen():
    """12 contexts between the levels of the task, six runs each."""
    return small_task(BETWEEN, 6)


@pytest.fixture(scope="session")
def model(task):
    return fit_profiles(task)


@pytest.fixture(scope="session")
def gathered(task, unseen, model):
    return gather_material(task, source="task.nc", truth=unseen, model=model)
