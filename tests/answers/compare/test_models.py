"""Versions without a shared context: the variance of their ratio, with models of known errors."""

import numpy as np
import pytest
from scipy import stats

from conftest import synthetic_task
from msbgen.answers.compare import models
from msbgen.answers.compare.models import compare_models
from msbgen.core.errors import MeasurementError
from msbgen.data.profiles import Profiles

GRID = np.array([(w, f) for w in (2.0, 4.0, 6.0, 8.0) for f in (1.0, 1.3, 1.6, 1.8, 2.0)])
IS_OLD = np.isin(np.arange(20), [0, 3, 6, 9, 11, 12, 15, 18])
OLD, NEW = GRID[IS_OLD], GRID[~IS_OLD]
# Errors of the models' logarithms in contexts that they do not know.
ERRORS = {"old": 0.02, "new": -0.03}


@pytest.fixture
def versions(monkeypatch):
    """Versions of equal times, and models with the same error in all unknown contexts."""
    both = {}
    for name, contexts in (("old", OLD), ("new", NEW)):
        task = synthetic_task(contexts, 2).assign_attrs(task=name)
        task["frequency"].attrs.pop("levels", None)
        both[name] = Profiles.of(task)
    times = {
        tuple(row): np.log(time)
        for one in both.values()
        for row, time in zip(one.contexts, one.mean_duration)
    }

    def predicted(measured, contexts):
        known = {tuple(row) for row in measured.contexts}
        error = ERRORS[measured.source]
        return np.array([times[tuple(c)] + error * (tuple(c) not in known) for c in contexts])

    monkeypatch.setattr(models, "_log_durations", predicted)
    return both["old"], both["new"]


def compared(versions, weights=None):
    return compare_models(versions, weights, None, 0.95, np.random.default_rng(0))


def test_errors_of_folds_count_unless_a_version_was_measured_elsewhere_only(versions):
    first, second = (error**2 for error in ERRORS.values())
    found = compared(versions)
    # the mean of each of four folds is the error; 12 of 20 contexts are not the old version's
    assert found.time.error**2 == pytest.approx(max(1 / 4, 0.6**2) * first + second / 4)
    assert found.time.freedom == 6
    assert np.log(found.time.value) == pytest.approx((12 * -0.02 + 8 * -0.03) / 20)
    # weights of the old version's contexts: the new one was measured in none of them
    weighted = compared(versions, np.full(8, 1 / 8))
    assert weighted.time.error**2 == pytest.approx(first / 4 + second)
    assert np.log(weighted.time.value) == pytest.approx(-0.03)


def test_the_band_by_context_is_as_wide_as_the_left_out_errors(versions):
    found = compared(versions)
    half = stats.t.ppf(1 - 0.05 / 2 / 20, 8 + 12 - 2) * np.hypot(*ERRORS.values())
    np.testing.assert_allclose(found.high / found.value, np.exp(half))
    np.testing.assert_allclose(found.value / found.low, np.exp(half))
    np.testing.assert_allclose(np.log(found.value), np.where(np.arange(20) < 8, -0.03, -0.02))


def test_few_contexts_or_levels_do_not_show_a_version(versions):
    old, new = versions
    with pytest.raises(MeasurementError, match="old: 7 contexts with complete runs are too few"):
        compared((old.of_contexts(slice(7)), new))
