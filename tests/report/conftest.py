"""What reports of a small task are made of."""

import pytest

import batches
import browsing


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
def report_inputs():
    """A whole report's, judged by twelve contexts between the levels of the task."""
    return batches.whole_material()


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests of a process."""
    with browsing.browser() as started:
        yield started
