"""The task whose reports the tests look at."""

import pytest

from batches import model, report_inputs, task, unseen  # noqa: F401 - fixtures
from msbgen.output.report.numbers import numbers_of


@pytest.fixture(scope="session")
def numbers(report_inputs):  # noqa: F811
    return numbers_of(report_inputs)
