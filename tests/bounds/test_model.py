import dataclasses
from itertools import pairwise

import numpy as np
import pytest

import oracles
from conftest import synthetic_task
from msbgen.bounds.calibration import Calibration
from msbgen.bounds.heads import BAND_HEADS, HEADS
from msbgen.bounds.heldout import HeldOut
from msbgen.bounds.model import CalibratedModel, calibrate_model
from msbgen.data.schema import count_array, duration_array
from msbgen.errors import ProfileError
from msbgen.generate.clock import sharpen, uniform_knots
from msbgen.generate.elapsed_law import ElapsedSettings
from msbgen.generate.model import ProfileModel, fit_profiles
from msbgen.generate.progress_law import ProgressSettings
from msbgen.trend.fit import fit_trend

QUICK = ProgressSettings(bins=40, segments=5, sharpenings=1)
GRID = np.array([(w, f) for w in (2.0, 3.0, 4.0, 6.0, 8.0) for f in (1.0, 1.2, 1.5, 1.8, 2.0)])
BETWEEN = np.array([(w, f) for w in (2.5, 5.0, 7.0) for f in (1.1, 1.35, 1.6, 1.9)])


@pytest.fixture(scope="module")
def task():
    return synthetic_task(GRID, n_runs=4)


@pytest.fixture(scope="module")
def model(task):
    return fit_profiles(task, QUICK)


@pytest.fixture(scope="module")
def calibrated(task, model):
    return calibrate_model(model, task)


@pytest.fixture(scope="module")
def calibration(calibrated):
    return calibrated.calibration


def drawn(rng, *, n=40, runs=3, noise=None, error=0.0, bins=1):
    """A calibration whose scores are known: predictions of one second, alone left out.

    `noise` is the deviation of the log execution times in each context.
    """
    noise = np.full(n, 0.02) if noise is None else noise
    contexts = np.linspace(1.0, 2.0, n)[:, None]
    trend = fit_trend(contexts[:: n - 1], np.ones((2, bins, 1)), find_caps=False)
    trend = dataclasses.replace(trend, contexts=contexts, coefficients=np.zeros((1, n, bins)))
    run_context = np.repeat(np.arange(n), runs)
    log = error * rng.standard_normal(n)[run_context]
    log += noise[run_context] * rng.standard_normal(n * runs)
    held = HeldOut(
        trend=trend,
        context=np.arange(n),
        left_out=np.eye(n, dtype=bool),
        weight=np.full(n, 1 / n),
        doubt=np.full(n, 0.1),
        predicted=np.ones((n, 1, 1)),
        run_context=run_context,
        duration=np.exp(log),
        state=np.exp(log)[:, None, None],
    )
    return Calibration(held, ("duration",))


def test_bounds_with_a_chosen_head_cover_new_runs():
    rng = np.random.default_rng(4)
    rate, trials, covered = 0.1, 200, []
    for _ in range(trials):
        # the head at the new context is the same function of the others as at known ones
        all_of_them = drawn(rng, n=40, error=0.01).held
        place = int(rng.integers(40))
        mine = all_of_them.run_context == place
        known = dataclasses.replace(
            all_of_them,
            context=np.delete(all_of_them.context, place),
            left_out=np.delete(all_of_them.left_out, place, axis=0),
            weight=np.full(39, 1 / 39),
            doubt=np.full(39, 0.1),
            predicted=np.ones((39, 1, 1)),
            run_context=all_of_them.run_context[~mine],
            duration=all_of_them.duration[~mine],
            state=all_of_them.state[~mine],
        )
        bound = Calibration(known, ("duration",)).duration_bound(
            known.trend.contexts[[place]], rate
        )
        covered += [np.mean(all_of_them.duration[mine] <= bound)]
    mean, slack = np.mean(covered), 4 * np.std(covered) / np.sqrt(trials)
    assert 1 - rate - slack <= mean <= 1 - rate + 1 / 40 + slack


def test_a_rate_that_the_contexts_cannot_support_is_refused(calibration):
    calibration.duration_bound(BETWEEN, 1 / 26)
    with pytest.raises(ValueError, match=r"at least 99 runs .* 100 runs of 25 contexts"):
        calibration.duration_bound(BETWEEN, 0.01)
    with pytest.raises(ValueError, match="at least 26 runs"):
        calibration.bands(BETWEEN, 1 / 26.5)
    with pytest.raises(ValueError, match=r"miscoverage is 1\.5"):
        calibration.duration_bound(BETWEEN, 1.5)


def test_smaller_rates_never_give_smaller_bounds(calibration):
    rates = np.linspace(0.9, 0.04, 40)
    bounds = np.array([calibration.duration_bound(BETWEEN, rate) for rate in rates])
    assert np.all(np.diff(bounds, axis=0) >= 0)
    assert np.all(bounds[-1] > bounds[0])
    for holds in ("run", "segment"):
        bands = [calibration.bands(BETWEEN, rate, holds=holds) for rate in (0.5, 0.2, 0.1, 0.04)]
        for (lower, upper), (wider_lower, wider_upper) in pairwise(bands):
            assert np.all(wider_lower <= lower)
            assert np.all(wider_upper >= upper)


def test_bounds_lie_above_medians_and_cover_the_truth(calibration):
    truth = duration_array(synthetic_task(BETWEEN, n_runs=8))
    bound = calibration.duration_bound(BETWEEN, 0.05)
    assert np.all(bound > np.median(truth, axis=1))
    assert np.mean(truth <= bound[:, None]) >= 0.9
    assert np.mean(bound[:, None] / truth - 1) < 0.1


def test_bands_hold_the_runs_of_new_contexts(calibration):
    truth = synthetic_task(BETWEEN, n_runs=4)
    own = sharpen(
        count_array(truth),
        duration_array(truth),
        0.01,
        calibration.held.trend.predict(BETWEEN)[:, None],
        knots=uniform_knots(40),
    ).state
    own = own.reshape(*own.shape[:2], 5, 8, 3).sum(axis=3)
    assert calibration.quantities == ("duration", "cache_requests", "cache_misses")
    inside = {}
    for holds in ("run", "segment"):
        lower, upper = calibration.bands(BETWEEN, 0.1, holds=holds)
        assert np.all(lower >= 0)
        inside[holds] = (own >= lower[:, None]) & (own <= upper[:, None])
    assert inside["run"].all(axis=2)[..., 0].mean() >= 0.8
    assert inside["segment"][..., 0].mean() >= 0.8
    assert inside["run"].mean() >= inside["segment"].mean()
    assert calibration.band_head(0.1, 0) in BAND_HEADS
    with pytest.raises(ValueError, match="holds is 'all'"):
        calibration.bands(BETWEEN, 0.1, holds="all")


def test_the_tightest_head_is_chosen():
    rng = np.random.default_rng(5)
    even = drawn(rng, n=60, runs=10)
    assert even.head(0.1) == "mean"
    # noise that grows sixteenfold along the resource: one width for all would waste the quiet end
    noise = np.geomspace(0.005, 0.08, 60)
    uneven = drawn(rng, n=60, runs=10, noise=noise)
    assert uneven.head(0.05) in {"spread", "local", "doubt", "quantile 0.9"}
    quiet, loud = np.log(uneven.duration_bound(uneven.held.trend.contexts[[5, -5]], 0.05))
    assert quiet < 0.5 * loud
    assert set(HEADS) >= {even.head(0.1), uneven.head(0.05)}


def test_far_contexts_get_their_own_pool():
    rng = np.random.default_rng(6)
    held = drawn(rng, n=100, error=0.0).held
    far = np.arange(100) % 2 == 1
    loud = np.where(far[held.run_context], 10.0, 1.0)
    held = dataclasses.replace(
        held,
        doubt=np.where(far, 2.0, 0.05),
        duration=np.exp(np.log(held.duration) * loud),
    )
    calibration = Calibration(held, ("duration",))
    near, away = calibration._offsets("mean", 0.1, 0.1)
    assert away > 5 * near
    # 50 contexts a pool do not support this rate, 100 do
    assert len(calibration._offsets("mean", 0.015, 0.015)) == 1


def test_doubt_is_that_of_the_trend_without_the_left_out_contexts(calibration):
    held = calibration.held
    for row in (0, 7, 30, len(held.context) - 1):
        kept = ~held.left_out[row]
        wanted = oracles.kriging_deviation(
            held.trend.scaled(held.trend.contexts)[kept],
            held.trend.scaled(held.trend.contexts[[held.context[row]]])[0],
            held.trend.lengths[0],
            held.trend.nugget[0],
        )
        assert held.doubt[row] == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    assert np.all(held.doubt_at(GRID) < held.doubt[:25])
    assert not calibration.beyond(BETWEEN).any()


def test_levels_and_single_contexts_are_left_out(calibration):
    held = calibration.held
    assert len(held.context) == 25 + 6 * 5
    assert held.weight.sum() == pytest.approx(1)
    assert held.weight[:25].sum() == pytest.approx(0.25)
    assert np.all(held.left_out[np.arange(55), held.context])
    np.testing.assert_allclose(held.predicted[:25].sum(axis=1), held.trend.loo.sum(axis=1))


def test_a_segment_that_happens_to_agree_does_not_widen_the_band_of_all_others():
    rng = np.random.default_rng(8)
    n, segments, runs = 200, 10, 2
    held = drawn(rng, n=n, runs=runs, bins=segments).held
    noise = np.full(segments, 0.02)
    noise[3] = 1e-5
    log = noise * rng.standard_normal((n * runs, segments))
    log.reshape(n, runs, segments)[::16, :, 3] += 0.004  # little, in one context out of 16
    state = np.exp(log)[..., None]
    held = dataclasses.replace(held, predicted=np.ones((n, segments, 1)), state=state)
    _, upper = Calibration(held, ("duration",)).bands(held.trend.contexts[:1], 0.05)
    assert np.all(upper < np.exp(3.3 * 0.02))  # the largest of nine normal errors: 2.8
    assert upper[0, 3, 0] < upper[0, 4, 0]


def test_folds_make_every_choice_anew(task, model):
    folded = calibrate_model(model, task, folds=3, rng=np.random.default_rng(0))
    held = folded.calibration.held
    assert sorted(held.context) == list(range(25))
    assert set(held.left_out.sum(axis=1)) == {8, 9}
    bound = folded.duration_bound(BETWEEN, 0.1)
    assert np.all(bound > held.trend.predict(BETWEEN)[..., 0].sum(axis=1))
    with pytest.raises(ValueError, match="folds is 1"):
        calibrate_model(model, task, folds=1)


def test_one_run_a_context_is_enough(task):
    few = task.isel(run=[0])
    calibrated = calibrate_model(fit_profiles(few, QUICK), few)
    bound = calibrated.duration_bound(BETWEEN, 0.1)
    truth = duration_array(synthetic_task(BETWEEN, n_runs=4))
    assert np.mean(truth <= bound[:, None]) > 0.7
    assert calibrated.calibration.head(0.1) not in ("median", "spread")  # noise was never seen


def test_what_is_saved_answers_alike(calibrated, model, tmp_path):
    path = tmp_path / "calibrated.nc"
    calibrated.save(path)
    again = CalibratedModel.load(path)
    assert again.bounds(BETWEEN, 0.1).identical(calibrated.bounds(BETWEEN, 0.1))
    np.testing.assert_array_equal(
        again.calibration.bands(BETWEEN, 0.1), calibrated.calibration.bands(BETWEEN, 0.1)
    )
    assert again.calibration.quantities == calibrated.calibration.quantities
    # a calibrated model is a model: both generate what the plain one does
    wanted = model.generate(BETWEEN, kind="mean")
    for one in (again, calibrated, ProfileModel.load(path)):
        assert one.generate(BETWEEN, kind="mean").identical(wanted)
    with pytest.raises(FileExistsError):
        calibrated.save(path)


def test_bounds_carry_their_labels(calibrated):
    contexts = np.vstack([BETWEEN, [[40.0, 3.0]]])
    bounds = calibrated.bounds(contexts, 0.1)
    np.testing.assert_array_equal(bounds["cache_ways"], contexts[:, 0])
    np.testing.assert_array_equal(
        bounds["duration_bound"], calibrated.duration_bound(contexts, 0.1)
    )
    assert bounds["duration_bound"].attrs["units"] == "s"
    assert bounds["extrapolated"].values.tolist() == [0] * 12 + [1]
    assert bounds["beyond"].values[-1] == 1
    assert bounds.attrs["miscoverage"] == 0.1
    assert bounds.attrs["head"] in HEADS
    with pytest.raises(ValueError, match=r"rows × 2 columns \(cache_ways, frequency\)"):
        calibrated.bounds([[1.0]])


def test_one_context_is_answered_as_many_are(calibrated):
    answer = calibrated.answer(BETWEEN[5], 0.1)
    mean = calibrated.generate(BETWEEN[[5]], kind="mean")
    np.testing.assert_array_equal(answer.counts, count_array(mean)[0, 0])
    assert answer.duration == mean["duration"].item()
    assert answer.bound == calibrated.duration_bound(BETWEEN[[5]], 0.1).item()
    with pytest.raises(ValueError, match="contexts have shape"):
        calibrated.answer(BETWEEN)


def test_what_is_asked_twice_is_not_worked_out_twice(calibrated, monkeypatch):
    first = calibrated.duration_bound(BETWEEN[:1], 0.07)

    def refuse(*_, **__):
        raise AssertionError("a quantile was taken again")

    monkeypatch.setattr("msbgen.conformal.weighted_quantile", refuse)
    np.testing.assert_array_equal(calibrated.duration_bound(BETWEEN[:1], 0.07), first)


def test_models_and_foreign_files_are_refused(task, model, tmp_path):
    model.save(tmp_path / "model.nc")
    with pytest.raises(ProfileError, match=r"model\.nc: the model was not calibrated"):
        CalibratedModel.load(tmp_path / "model.nc")
    task.to_netcdf(tmp_path / "task.nc")
    with pytest.raises(ProfileError, match="a model file says"):
        CalibratedModel.load(tmp_path / "task.nc")
    with pytest.raises(ValueError, match="the dataset is not the one"):
        calibrate_model(model, task.isel(context=slice(1, None)))
    few = task.isel(context=slice(0, 6))
    with pytest.raises(ValueError, match="ProgressSettings"):
        calibrate_model(fit_profiles(few, ElapsedSettings()), few)
    with pytest.raises(ValueError, match="wall time"):
        calibrate_model(fit_profiles(few, dataclasses.replace(QUICK, clock="time")), few)
