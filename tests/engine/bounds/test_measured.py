"""Bounds at settings that were measured, from tables of durations alone."""

import numpy as np
import pytest

from msbgen import MeasurementError, calibrate_model, choose_context, fit_profiles, make_profiles


def table(levels, seconds, name="threads", platform=None):
    """Durations (n, runs) [s] by level, with a counter that counts nothing but whole runs."""
    seconds = np.asarray(seconds, dtype=float)
    attrs = {"task": "t", "platform": "p", "source": "measured", "progress": "work"}
    return make_profiles(
        np.ones((*seconds.shape, 1, 1)), seconds, np.asarray(levels, dtype=float)[:, None],
        interval=1.001 * float(seconds.max()),
        resources={name: {"units": "1", **({"levels": platform} if platform else {})}},
        counters={"work": {}}, attrs=attrs,
    )  # fmt: skip


def calibrated(dataset):
    return calibrate_model(fit_profiles(dataset), dataset)


@pytest.fixture(scope="module")
def saturated():
    """64 s on one thread, and no gain from the last doubling; three runs within 0.4 %."""
    mean = np.array([64.0, 32.0, 16.0, 8.0, 4.0, 4.0])
    levels = [1, 2, 4, 8, 16, 32]
    runs = mean[:, None] * np.array([1.0, 1.002, 1.004])
    return table(levels, runs, platform=[float(n) for n in range(1, 33)])


def test_agreeing_repeats_of_a_saturated_setting_are_believed(saturated):
    model = calibrated(saturated)
    assert not model.findings
    (bound,) = model.duration_bound([[32.0]], 0.2)
    assert 4.016 <= bound <= 4.2
    mean = model.generate([[32.0]], kind="mean")["duration"].item()
    assert mean == pytest.approx(4.008, rel=0.01)


def test_no_choice_is_late_in_all_of_its_runs(saturated):
    model = calibrated(saturated)
    candidates = np.arange(1.0, 33.0)[:, None]
    bounds = model.bounds(candidates, 0.2, chosen=True)
    assert (bounds["duration_bound"] > 3.0).all()
    with pytest.raises(MeasurementError, match="which no context keeps"):
        choose_context(bounds, 3.0, {"threads": 1.0})


def test_a_quota_beyond_the_need_is_bounded_by_its_runs():
    quota = np.arange(10, 101, 10)
    mean = 100.0 / np.minimum(quota, 90)
    runs = mean[:, None] * np.array([0.998, 1.0, 1.002])
    model = calibrated(table(quota, runs, "cpu_quota"))
    bound = model.duration_bound([[90.0], [100.0]], 0.1)
    assert (bound >= runs[-2:].max(axis=1)).all()
    assert (bound < 1.03 * runs[-2:].max(axis=1)).all()


def test_a_setting_with_enough_runs_is_bounded_by_their_quantile():
    runs = np.sort(np.random.default_rng(0).gamma(2.0, size=24) + 1.0)
    model = calibrated(table([4], runs[None]))
    assert model.duration_bound([[4.0]], 0.05).item() == runs[23]  # rank ⌈25 · 0.95⌉
    assert model.duration_bound([[4.0]], 0.2).item() == runs[19]
    assert model.bounds([[4.0]], 0.2)["beyond"].item() == 0
    assert model.supported_rate([[4.0]], 0.01) == pytest.approx(1 / 25)
    with pytest.raises(MeasurementError, match="take 2 or more"):
        model.duration_bound([[8.0]], 0.2)
    with pytest.raises(MeasurementError, match="at least 99 runs of the context"):
        model.duration_bound([[4.0]], 0.01)


def test_many_runs_of_two_settings_support_a_rate_there_only():
    runs = np.sort(np.random.default_rng(0).gamma(2.0, size=(2, 24)) + 1.0)
    model = calibrated(table([4, 8], runs))
    rate = model.supported_rate([[4.0], [8.0]], 0.05)
    assert rate == 0.05
    assert (model.duration_bound([[4.0], [8.0]], rate) == runs[:, 23]).all()
    assert model.supported_rate([[4.0], [6.0]], 0.05) == pytest.approx(1 / 3, abs=1e-3)


def test_a_saved_model_of_one_setting_bounds_it(tmp_path):
    runs = np.random.default_rng(0).gamma(2.0, size=24) + 1.0
    model = calibrated(table([4], runs[None]))
    model.save(tmp_path / "model.nc")
    again = type(model).load(tmp_path / "model.nc")
    assert again.duration_bound([[4.0]]) == model.duration_bound([[4.0]])


@pytest.mark.parametrize("runs", [1, 2, 3, 10])
def test_a_bound_is_never_below_what_the_runs_of_its_setting_support(runs):
    rng = np.random.default_rng(runs)
    levels = np.array([1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0])
    seconds = (1.0 + 40.0 / levels)[:, None] * np.exp(rng.normal(0.0, 0.05, (8, runs)))
    model = calibrated(table(levels, seconds))
    for rate in (0.5, 0.2, 0.12):
        rank = min(int(np.ceil((runs + 1) * (1 - rate) - 1e-9)), runs)
        assert (model.duration_bound(levels[:, None], rate) >= np.sort(seconds)[:, rank - 1]).all()


def test_new_runs_of_measured_settings_end_by_their_bounds():
    """Three runs a setting: at 20 %, repeats of eight settings tell how runs differ."""
    rng, held = np.random.default_rng(3), []
    levels = np.array([1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0])
    mean = (1.0 + 40.0 / levels)[:, None]
    for _ in range(12):
        model = calibrated(table(levels, mean * np.exp(rng.normal(0.0, 0.05, (8, 3)))))
        new = mean * np.exp(rng.normal(0.0, 0.05, (8, 50)))
        bound = model.duration_bound(levels[:, None], 0.2)
        held.append((new <= bound[:, None]).mean())
    assert 0.78 < np.mean(held) < 0.93


def test_equal_times_and_six_decades_have_bounds():
    equal = calibrated(table([1, 2, 4, 8, 16], np.full((5, 3), 2.0)))
    np.testing.assert_allclose(equal.duration_bound([[2.0], [3.0]], 0.3), 2.0, rtol=1e-3)
    wide = np.geomspace(1e-3, 1e3, 7)
    model = calibrated(table(2.0 ** np.arange(7), wide[::-1, None]))
    assert (model.duration_bound(2.0 ** np.arange(7)[:, None], 0.2) >= wide[::-1]).all()


def test_two_settings_with_enough_runs_are_bounded_by_them():
    runs = np.array([2.0, 1.0])[:, None] * (1.0 + 0.01 * np.random.default_rng(0).random((2, 24)))
    model = calibrated(table([1, 2], runs))
    np.testing.assert_array_equal(model.duration_bound([[1.0], [2.0]], 0.05), runs.max(axis=1))


def test_samples_at_a_measured_setting_are_as_its_runs(saturated):
    model = fit_profiles(saturated)
    levels = np.array([[1.0], [2.0], [4.0], [8.0], [16.0], [32.0]])
    samples = model.generate(levels, kind="sample", n_samples=200)["duration"].values
    assert (samples.std(axis=1) < 0.02 * samples.mean(axis=1)).all()
    between = model.generate([[24.0]], kind="sample", n_samples=200)["duration"].values
    assert between.std() > 0.02 * between.mean()


def test_far_extrapolations_follow_a_power_law():
    model = fit_profiles(table([1, 2, 4], np.array([[4.0], [2.3], [1.0]])))
    (far,) = model.generate([[64.0]], kind="mean")["duration"].values
    assert 0.005 < far < 0.5


def test_times_over_six_decades_that_go_up_and_down_are_believed():
    seconds = np.array([1.0, 1e3, 1e-3, 10.0, 1e2, 1e-2, 5.0])[:, None]
    seconds = seconds * np.exp(np.random.default_rng(0).normal(0.0, 0.01, (7, 3)))
    levels = 2.0 ** np.arange(7)
    model = fit_profiles(table(levels, seconds))
    predicted = model.generate(levels[:, None], kind="mean")["duration"].values
    np.testing.assert_allclose(predicted, seconds.mean(axis=1), rtol=0.01)
