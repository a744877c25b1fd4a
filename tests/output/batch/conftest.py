"""The task whose reports the tests look at."""

import pytest

from batches import model, report_inputs, task, unseen  # noqa: F401 - fixtures


@pytest.fixture(autouse=True, scope="module")
def _coarse(coarse):
    """No test of batches is one of the models' accuracy."""
