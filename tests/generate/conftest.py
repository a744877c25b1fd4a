"""One fit of the default law for all tests that only ask it."""

import pytest

from tasks import GRID, fit_law, task


@pytest.fixture(scope="session")
def runs():
    return task(GRID, 12)


@pytest.fixture(scope="session")
def law(runs):
    return fit_law(*runs)
