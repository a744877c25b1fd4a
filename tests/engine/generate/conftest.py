"""One fit of the default distribution for all tests that only ask it."""

import pytest

from tasks import GRID, fit_distribution, task


@pytest.fixture(scope="session")
def runs():
    return task(GRID, 12)


@pytest.fixture(scope="session")
def distribution(runs):
    return fit_distribution(*runs)
