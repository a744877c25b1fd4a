"""The paper's distribution in wall time, on arrays."""

import dataclasses

import numpy as np
import pytest

import oracles
from msbgen.core.errors import MeasurementError
from msbgen.engine.generate.elapsed_distribution import ElapsedDistribution, ElapsedSettings

KINDS = ("max_likelihood", "mean", "sample")
INTERVAL = 0.01
CONTEXTS = np.array([[2.0, 1.0], [4.0, 1.0], [4.0, 2.0], [8.0, 2.0]])
# whole numbers of intervals, such as 0.29 / 0.01 just below one, and partial ones; one missing run
DURATION = np.array(
    [[0.29, 0.285, 0.301], [0.20, 0.241, 0.233], [0.12, np.nan, 0.145], [0.07, 0.082, 0.096]]
)
SETTINGS = ElapsedSettings(snapshot_interval=0.02, bandwidth=0.8, method="pairwise")


def share_of_intervals(duration, n_times):
    """How much of each interval a run covers, (context, run, time); NaN after its end."""
    filled = np.clip(duration[..., None] / INTERVAL - np.arange(n_times), 0, 1)
    return np.where(filled > 1e-9, filled, np.nan)


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(3)
    rates = 100 + 900 * rng.random((*DURATION.shape, 31, 2))
    return rates * share_of_intervals(DURATION, 31)[..., None]


@pytest.fixture(scope="module")
def distribution(counts):
    return ElapsedDistribution.fit(counts, DURATION, CONTEXTS, INTERVAL, SETTINGS)


def profiles(distribution, query, kind, n_samples=1, seed=0):
    rng = np.random.default_rng(seed)
    return distribution.profiles(np.asarray(query), kind, n_samples=n_samples, rng=rng)


def test_a_snapshot_holds_the_runs_with_a_whole_interval_there(counts, distribution):
    whole = [[29, 28, 30], [20, 24, 23], [12, 0, 14], [7, 8, 9]]
    assert [s.row for s in distribution.snapshots] == list(range(0, 30, 2))
    for snapshot in distribution.snapshots:
        there = [
            (c, r) for c, lengths in enumerate(whole) for r, n in enumerate(lengths)
            if n > snapshot.row
        ]  # fmt: skip
        assert snapshot.context.tolist() == [c for c, _ in there]
        expected = [counts[c, r, snapshot.row] for c, r in there]
        np.testing.assert_array_equal(snapshot.states, expected)


QUERY = np.array([[2.0, 1.0], [3.0, 1.5], [6.0, 1.8], [5.0, 1.1], [8.0, 2.0]])


def test_durations_are_the_kernel_weighted_mean_and_median(distribution):
    present = np.isfinite(DURATION)
    for kind in ("mean", "max_likelihood"):
        _, got = profiles(distribution, QUERY, kind)
        for query, duration in zip(QUERY, got):
            kernel = oracles.scott_weights(CONTEXTS, query, SETTINGS.bandwidth)
            weights = np.repeat(kernel[:, None], 3, axis=1)[present]
            if kind == "mean":
                expected = (weights * DURATION[present]).sum() / weights.sum()
            else:
                expected = oracles.weighted_median(DURATION[present], weights)
            assert duration == pytest.approx(expected, rel=1e-9)


def test_potentials_of_an_edited_model_give_a_sentence_and_no_counts(distribution):
    far = 1e9 * distribution.start_potential, -1e9 * distribution.end_potential
    edited = dataclasses.replace(distribution, start_potential=far[0], end_potential=far[1])
    with pytest.raises(MeasurementError, match=r"context \[2\.0, 1\.0\] are not finite"):
        profiles(edited, QUERY, "mean")


@pytest.mark.parametrize("kind", KINDS)
def test_states_beyond_single_precision_give_a_sentence_and_no_warning(distribution, kind):
    edited = dataclasses.replace(distribution, states=distribution.states * 1e40)
    with pytest.raises(MeasurementError, match="are not finite"):
        profiles(edited, QUERY, kind, n_samples=2)


def test_sampled_durations_have_the_kernel_weights(distribution):
    n = 2000
    _, drawn = profiles(distribution, QUERY[1:2], "sample", n_samples=n)
    present = np.isfinite(DURATION)
    kernel = oracles.scott_weights(CONTEXTS, QUERY[1], SETTINGS.bandwidth)
    weights = np.repeat(kernel[:, None], 3, axis=1)[present]
    weights /= weights.sum()
    share = [(drawn == d).mean() for d in DURATION[present]]
    assert np.all(np.abs(share - weights) <= 5 * np.sqrt(weights * (1 - weights) / n))


@pytest.mark.parametrize("kind", KINDS)
def test_a_partial_last_interval_holds_its_share_of_events(kind):
    counts = 600.0 * share_of_intervals(DURATION, 31)[..., None] * [1.0, 0.5]
    distribution = ElapsedDistribution.fit(counts, DURATION, CONTEXTS, INTERVAL, SETTINGS)
    generated, duration = profiles(distribution, QUERY, kind, n_samples=5)
    expected = 600.0 * duration / INTERVAL
    total = np.nansum(generated, axis=-2)
    np.testing.assert_allclose(total[..., 0], expected, rtol=1e-5)
    np.testing.assert_allclose(total[..., 1], 0.5 * expected, rtol=1e-5)
    assert np.any(np.abs(duration / INTERVAL - np.round(duration / INTERVAL)) > 0.1)


def test_a_duration_of_whole_intervals_has_no_row_of_rounding():
    counts = 600.0 * share_of_intervals(DURATION, 31)[..., None]
    distribution = ElapsedDistribution.fit(counts, DURATION, CONTEXTS, INTERVAL, SETTINGS)
    generated, duration = profiles(distribution, QUERY, "sample", n_samples=50)
    running = np.isfinite(generated[..., 0]).sum(axis=-1)
    np.testing.assert_array_equal(running, np.ceil(duration / INTERVAL - 1e-6))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_between_snapshots_mix_them_and_rows_after_the_last_repeat_it(kind):
    # one run: snapshots in rows 0 and 5, three whole rows after it and half a one
    counts = np.array([3.0, 9, 9, 9, 9, 13, 40, 50, 60, 35])[None, None, :, None]
    settings = ElapsedSettings(snapshot_interval=0.05)
    distribution = ElapsedDistribution.fit(
        counts, np.array([[0.095]]), np.array([[4.0]]), INTERVAL, settings
    )
    assert [s.row for s in distribution.snapshots] == [0, 5]
    generated, _ = profiles(distribution, [[4.0]], kind)
    expected = [3, 5, 7, 9, 11, 13, 13, 13, 13, 6.5]
    np.testing.assert_allclose(generated.reshape(-1), expected, rtol=1e-6)
