"""A small task on a grid, fitted once, and everything that is told of it."""

import pytest

import batches


@pytest.fixture(scope="session")
def task():
    """25 contexts, four runs each, of a platform of which three clocks were not measured."""
    return batches.reported_task()


@pytest.fixture(scope="session")
def unseen():
    """12 contexts between the levels of the task, six runs each."""
    return batches.unseen_contexts()


@pytest.fixture(scope="session")
def model():
    """The model of the task, calibrated."""
    return batches.fitted_model()


@pytest.fixture(scope="session")
def gathered():
    """A whole report's, judged by the unseen contexts."""
    return batches.whole_material()
