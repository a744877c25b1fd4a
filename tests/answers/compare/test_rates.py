"""Rates of blocks of work, as the alignment of two versions gets them."""

import numpy as np
import pytest

from conftest import MEASURED, synthetic_task
from msbgen.answers.compare import rates
from msbgen.answers.compare.alignment import BLOCKS
from msbgen.answers.compare.matching import match_profiles
from msbgen.answers.compare.pairs import pair_profiles
from msbgen.answers.compare.rates import align_pair
from msbgen.answers.compare.ratio import Ratio
from msbgen.answers.compare.versions import amounts_of
from msbgen.data.profiles import Profiles
from msbgen.engine.generate.progress import uniform_knots


@pytest.fixture
def given(monkeypatch):
    """What `align` is called with."""
    calls = []
    monkeypatch.setattr(rates, "align", lambda *args, **named: calls.append((args, named)))
    return calls


@pytest.fixture(scope="module")
def pair():
    old, new = (Profiles.of(synthetic_task(MEASURED, seed=seed)) for seed in (7, 8))
    return pair_profiles(old, new, match_profiles(old, new))


def work(value=1.0, error=1e-4):
    return {"instructions": Ratio.of(np.log(value), error, 50.0, 0.95)}


@pytest.mark.parametrize(
    ("value", "error", "passed"),
    [(1.01, 0.002, 1.01), (1.01, 0.003, 1.0), (0.99, 0.002, 0.99), (1.001, 1e-5, 1.0)],
)
def test_works_differ_by_several_errors_and_a_least_share(given, pair, value, error, passed):
    align_pair(pair, work(value, error))
    assert given[0][1]["work"] == pytest.approx(passed)


def test_rates_are_means_of_contexts_with_the_noise_of_their_runs(given, pair):
    """All contexts of few levels: groups are the levels of the resource that changes rates most."""
    align_pair(pair, work())
    (old, _), named = given[0]
    amounts = amounts_of(pair.old, uniform_knots(BLOCKS))
    mean = amounts.mean(axis=1)
    shown = mean + 0.02 * mean.mean(axis=1, keepdims=True)
    total = pair.old.totals[..., pair.clock - 1].mean(axis=1)
    logs = np.log(shown / total[:, None, None])
    variance = ((amounts - mean[:, None]) / shown[:, None]).var(axis=1, ddof=1) / amounts.shape[1]
    for column in pair.contexts.T:
        groups = [np.flatnonzero(column == level) for level in np.unique(column)]
        expected = np.stack([logs[rows].mean(axis=0) for rows in groups])
        if expected.shape == old.shape and np.allclose(expected, old):
            noise = [variance[rows].sum(axis=0) / len(rows) ** 2 for rows in groups]
            np.testing.assert_allclose(named["noise"][0], np.stack(noise))
            break
    else:
        pytest.fail("the rates are those of no resource's levels")
