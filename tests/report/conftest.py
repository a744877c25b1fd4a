"""The task whose reports the tests look at."""

from batches import model, report_inputs, task, unseen  # noqa: F401 - fixtures
