"""Real programs that some tests need: skipped with the remedy where one is not, unless it must be.

``MSBGEN_TESTS_NEED`` names those that must be there, as ``.ci/run`` does: then the tests fail.
"""

import os

import pytest

_NEEDED = os.environ.get("MSBGEN_TESTS_NEED", "").split()


def needs(name, lacking):
    """Mark of tests that need a program; `lacking` is "", or the sentence that says what to do."""
    return pytest.mark.skipif(bool(lacking) and name not in _NEEDED, reason=lacking)
