"""Runs that were cut, and contexts in which a counter was not measured."""

from unittest.mock import patch

import numpy as np
import pytest

import partials
from msbgen.core.errors import MeasurementError
from msbgen.data.profiles import Profiles
from msbgen.data.schema import duration_array
from msbgen.engine.generate.fit import PRESETS, fit_profiles
from msbgen.engine.generate.model import ProfileModel
from msbgen.engine.generate.partial import expected_totals, fill_means
from msbgen.engine.generate.progress_distribution import ProgressSettings
from msbgen.engine.trend.fit import fit_trend

SMALL = ProgressSettings(bins=50, segments=10)
CUT = [(c, r) for c in (0, 1, 2) for r in (0, 2)]


@pytest.fixture(scope="module")
def whole():
    return fit_profiles(partials.whole(), SMALL)


def durations(model):
    return model.distribution.durations(partials.GRID)


def test_the_expected_total_of_a_cut_run_is_the_median_of_its_context():
    ds = partials.cut(partials.whole(), [(0, 1), *((5, r) for r in range(4))])
    counts, duration = Profiles.of(ds).counts, duration_array(ds)
    counts[0, 0, :, 0] *= 1.1  # so that mean and median differ
    got = expected_totals(counts, duration, partials.GRID, 1, ds["complete"].values == 1)
    total = np.nansum(counts[..., 0], axis=2)
    assert got[0, 1] == pytest.approx(np.median(total[0, [0, 2, 3]]))
    assert got[5] == pytest.approx(np.median(total[np.arange(9) != 5]), rel=0.02)
    assert np.isfinite(got).sum() == 5


def test_missing_bins_are_scaled_by_the_measured_ones():
    contexts = np.array([[1.0], [2.0], [4.0], [8.0], [16.0]])
    states = np.repeat((1.0 / contexts)[:, None], 6, axis=1)
    trend = fit_trend(contexts, states)
    means = 1.1 * states
    means[2, 4:] = np.nan
    np.testing.assert_allclose(fill_means(means, trend)[2], 1.1 * states[2], rtol=0.01)
    means[2] = np.nan
    np.testing.assert_allclose(fill_means(means, trend)[2], states[2], rtol=0.01)


def test_cut_runs_hardly_change_what_is_generated(whole):
    model = fit_profiles(partials.cut(partials.whole(), CUT), SMALL)
    # time model is only sought where every run is whole
    np.testing.assert_allclose(durations(model), durations(whole), rtol=0.015)
    means = [m.generate(partials.GRID, kind="mean") for m in (model, whole)]
    for name in ("instructions", "cache_misses"):
        totals = [d[name].sum("time").values for d in means]
        np.testing.assert_allclose(*totals, rtol=0.02)
    assert np.isnan(model.distribution.duration).sum() == len(CUT)


def test_a_context_whose_every_run_was_cut_is_generated_and_marked(whole, tmp_path):
    ds = partials.cut(partials.whole(), [(4, r) for r in range(4)], share=0.6)
    model = fit_profiles(ds, SMALL)
    answer = model.generate(partials.GRID, kind="mean")
    assert answer["extrapolated"].values.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    np.testing.assert_allclose(durations(model)[4], durations(whole)[4], rtol=0.02)
    assert "context 4" in answer.attrs["cut"]
    model.save(tmp_path / "model.nc")
    again = ProfileModel.load(tmp_path / "model.nc").generate(partials.GRID, kind="mean")
    assert again.identical(answer)


def test_a_context_may_lack_a_group():
    ds = partials.in_groups(partials.whole())
    ds["duration"][4, 1::2] = np.nan
    for name in ("instructions", "cache_requests", "cache_misses"):
        ds[name][4, 1::2] = np.nan
    model, grouped = (
        fit_profiles(ds, SMALL),
        fit_profiles(partials.in_groups(partials.whole()), SMALL),
    )
    misses = [
        m.generate(partials.GRID, kind="mean")["cache_misses"].sum("time").values
        for m in (model, grouped)
    ]
    np.testing.assert_allclose(misses[0], misses[1], rtol=0.05)


@pytest.mark.parametrize("kind", ["carried", "lost"])
def test_gaps_hardly_change_what_is_generated(whole, kind):
    model = fit_profiles(partials.with_gaps(partials.whole(), kind), SMALL)
    np.testing.assert_allclose(durations(model), durations(whole), rtol=0.005)
    assert "gaps" not in model.counters["cache_misses"]


def test_the_law_is_fitted_again_to_imputed_samples(whole):
    gappy, truth = (
        partials.with_gaps(partials.whole(), "lost"),
        Profiles.of(partials.whole()).counts,
    )

    def true_counts(counts, lost, *_):
        np.testing.assert_allclose(counts[~lost], truth[~lost])
        assert lost.any(axis=(0, 1, 2)).all()
        return truth

    with patch("msbgen.engine.generate.progress_distribution.fill_lost", true_counts):
        model = fit_profiles(gappy, SMALL)
    np.testing.assert_array_equal(
        model.distribution.known_states(), whole.distribution.known_states()
    )


def test_measurements_without_enough_complete_runs_are_refused():
    every = [(c, r) for c in range(9) for r in range(4)]
    with pytest.raises(MeasurementError, match="no run went on to its end"):
        fit_profiles(partials.cut(partials.whole(), every))
    odd = [(c, r) for c in range(9) for r in (1, 3)]
    with pytest.raises(MeasurementError, match="'cache_misses' is in no run that went on"):
        fit_profiles(partials.cut(partials.in_groups(partials.whole()), odd))
    with pytest.raises(MeasurementError, match="the paper's preset wants whole ones"):
        fit_profiles(partials.in_groups(partials.whole()), PRESETS["paper"])
