"""Boosted trees."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.learn import boosting
from msbgen.learn.boosting import BoostingSettings, fit_boosting

QUICK = BoostingSettings(rounds=60, rate=0.2, subsample=1.0, columns=1.0)


def steps(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((n, 3))
    return x, np.stack([np.where(x[:, 0] > 0.5, 2.0, -1.0), 4.0 * x[:, 1]], axis=1)


def test_each_output_is_learned_from_its_own_feature():
    x, y = steps()
    model = fit_boosting(x, y, QUICK, seed=0)
    assert np.abs(model.predict(x) - y).mean() < 0.05
    gains = model.importances(3)
    assert gains[2] < 0.05
    assert gains.sum() == pytest.approx(1.0)


def test_rows_that_miss_an_output_are_left_out_of_it_only():
    x, y = steps()
    gaps = y.copy()
    gaps[::2, 0] = np.nan
    whole, part = (fit_boosting(x, of, QUICK, seed=1) for of in (y, gaps))
    np.testing.assert_array_equal(part.predict(x)[:, 1], whole.predict(x)[:, 1])
    assert not np.array_equal(part.predict(x)[:, 0], whole.predict(x)[:, 0])


def test_equal_seeds_give_equal_bits_on_any_number_of_cores(monkeypatch):
    x, y = steps()
    settings = BoostingSettings(rounds=20)
    one = fit_boosting(x, y, settings, seed=3).predict(x)
    monkeypatch.setattr(boosting, "available_cores", lambda: 1)
    np.testing.assert_array_equal(fit_boosting(x, y, settings, seed=3).predict(x), one)
    assert not np.array_equal(fit_boosting(x, y, settings, seed=4).predict(x), one)


def test_settings_out_of_range_are_refused():
    with pytest.raises(ArgumentError, match="rounds is 0"):
        BoostingSettings(rounds=0)
    with pytest.raises(ArgumentError, match="rate is -1"):
        BoostingSettings(rate=-1)
