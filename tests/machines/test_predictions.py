"""Times that follow from the predictions of the parts."""

from dataclasses import replace

import numpy as np
import pytest

from machines import made_predictions
from msbgen.machines.predictions import joined
from msbgen.machines.predictor import PARTS


def predictions(*parts, source_time=True, n=3, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(2, 3, 3))
    seconds = np.exp(rng.normal(size=(n, 3)))
    ratio, kriged, prior = (rng.normal(size=(n, 3, 3)) for _ in range(3))
    return made_predictions(
        ratio, seconds=seconds, kriged=kriged, prior=prior, parts=parts or PARTS,
        covariance=root @ root.transpose(0, 2, 1), fit=np.arange(n) % 2, source_time=source_time,
    )  # fmt: skip


def test_by_ratios_the_time_is_that_on_the_source_times_the_ratio():
    a = predictions("boosting")
    log_times = a.log_times([1])
    np.testing.assert_allclose(log_times[:, 0], a.log[:, 1] + a.ratio[:, 1, 0])
    np.testing.assert_array_equal(log_times[:, 1], a.log[:, 1])
    a = predictions("kriging")  # from two sources, the mean of both
    expected = (a.log[:, [0, 1]] + a.kriged[:, [0, 1], 2]).mean(axis=1)
    np.testing.assert_allclose(a.log_times([0, 1])[:, 2], expected)


def test_by_the_trees_it_is_the_conditional_expectation():
    a = predictions("trees")
    got = a.log_times([2])
    for i in range(3):
        c = a.covariance[i % 2]
        want = a.prior[i, 2] + c[:, 2] / c[2, 2] * (a.log[i, 2] - a.prior[i, 2, 2])
        np.testing.assert_allclose(got[i], want)


@pytest.mark.parametrize("sources", [[0, 2], [2, 0]])
def test_several_machines_measured_in_any_order(sources):
    a = predictions("trees")
    got = a.log_times(sources)
    for i in range(3):
        c, prior = a.covariance[i % 2], a.prior[i, [0, 2]].mean(axis=0)
        gain = c[1, [0, 2]] @ np.linalg.inv(c[np.ix_([0, 2], [0, 2])])
        np.testing.assert_allclose(
            got[i, 1], prior[1] + gain @ (a.log[i] - prior)[[0, 2]], rtol=1e-6
        )
    np.testing.assert_array_equal(got[:, [0, 2]], a.log[:, [0, 2]])


def test_all_is_the_weighted_mean_in_log():
    boosting, kriging, trees = (predictions(part).log_times([0]) for part in PARTS)
    want = 0.3 * boosting + 0.6 * kriging + 0.1 * trees
    np.testing.assert_allclose(predictions().log_times([0]), want)


def test_without_the_sources_time_the_trees_keep_their_ratios():
    a = predictions("trees", source_time=False)
    got = a.log_times([0])
    np.testing.assert_allclose(got[:, 1] - got[:, 0], a.prior[:, 0, 1] - a.prior[:, 0, 0])


def test_predictions_of_several_fits_keep_their_covariances():
    parts = [
        replace(part, covariance=part.covariance[:1], fit=0 * part.fit)
        for part in (predictions("trees", n=4, seed=seed) for seed in (1, 2))
    ]
    whole = joined(parts)
    np.testing.assert_allclose(whole.log_times([1]), np.vstack([p.log_times([1]) for p in parts]))
    np.testing.assert_allclose(whole.some(np.array([5])).log_times([1]), whole.log_times([1])[5:6])
