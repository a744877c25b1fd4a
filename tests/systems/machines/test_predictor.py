"""The predictor as a whole, on machines whose times are known."""

import numpy as np
import pytest

from machines import MACHINES, QUICK, made_runs
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.systems.machines.dataset import runtimes_of
from msbgen.systems.machines.predictor import RelativePredictor, cross_predict


@pytest.fixture(scope="module")
def fitted():
    runs = made_runs(40, noise=0.01)
    return RelativePredictor(**QUICK).fit(runs).calibrate(runs, folds=4)


NEW = made_runs(10, noise=0.01, seed=9)
KILOBYTES = NEW.assign_coords(units=("counter", ["1", "kB"]))
BARE = RelativePredictor(**QUICK)


def off(seconds, truth):
    return np.abs(np.log(seconds / truth)).mean()


def test_unseen_programs_are_predicted_from_any_machine(fitted):
    truth = runtimes_of(NEW)
    for m, name in enumerate(MACHINES):
        seconds = fitted.predict(NEW, name)
        np.testing.assert_array_equal(seconds[:, m], truth[:, m])
        constant = truth[:, [m]] * np.exp(np.log(truth / truth[:, [m]]).mean(axis=0))
        assert off(seconds, truth) < 0.5 * off(constant, truth)


def test_predictions_need_the_source_alone(fitted):
    seconds = fitted.predict(NEW, "new")
    np.testing.assert_array_equal(fitted.predict(NEW.sel(machine=["new"]), "new"), seconds)
    turned = NEW.isel(machine=[2, 0, 1])
    np.testing.assert_array_equal(fitted.predict(turned, "new"), seconds)


def test_intervals_hold_the_prediction_and_cover(fitted):
    seconds = fitted.predict(NEW, "old")
    low, high = fitted.predict_interval(NEW, "old", 0.1)
    assert (low <= seconds).all()
    assert (seconds <= high).all()
    np.testing.assert_array_equal(low[:, 0], high[:, 0])
    truth = runtimes_of(NEW)
    assert ((low <= truth) & (truth <= high)).mean() > 0.8
    wide = fitted.predict_interval(NEW, "old", 0.05)
    assert (wide[0] <= low).all()
    assert (high <= wide[1]).all()


def test_runs_that_were_not_run_everywhere_are_learned_from():
    runs = made_runs(30, per_machine=True).copy(deep=True)
    times = runs["runtime"].values
    times[::3, 2] = np.nan
    times[1::5, 0] = np.nan
    runs["counters"].values[np.isnan(times)] = np.nan
    new = made_runs(10, seed=9, per_machine=True)
    truth = runtimes_of(new)
    predictor = RelativePredictor(**QUICK).fit(runs)
    for name in MACHINES:
        assert off(predictor.predict(new, name), truth) < 0.4


@pytest.mark.parametrize(
    "ablated",
    [{"parts": "boosting"}, {"parts": "kriging"}, {"parts": "trees"}, {"source_time": False}],
)
def test_each_part_predicts_alone(ablated):
    predictor = RelativePredictor(**QUICK, **ablated).fit(made_runs(30))
    assert off(predictor.predict(NEW, "new"), runtimes_of(NEW)) < 0.4
    assert predictor.get_params()["random_state"] == 0


def test_beyond_the_range_of_known_work_kriging_is_replaced_by_boosting(fitted):
    far = NEW.copy(deep=True)
    far["counters"][{"counter": 0, "run": slice(4)}] *= 1e6
    parts = fitted.predict_parts(far)
    np.testing.assert_array_equal(parts.kriged[:4], parts.ratio[:4])
    assert not np.allclose(parts.kriged[4:], parts.ratio[4:])
    alone = RelativePredictor(**QUICK, parts="kriging").fit(made_runs(10))
    assert np.isfinite(alone.predict(far, "old")).all()


def test_runs_unlike_all_that_were_learned_from_are_marked(fitted):
    known = made_runs(40, noise=0.01)
    assert not fitted.extrapolates(known, [*MACHINES]).any()
    low, high = np.exp(fitted.ranges_[1].T)
    for ends, beyond in ((low * 0.999, True), (low * 1.001, False), (high * 1.001, True)):
        work, pace = ends
        runs = known.isel(run=[0]).copy(deep=True)
        runs["counters"][:, 0] = work
        runs["runtime"][:] = work * np.exp(fitted.ranges_[1, 1].mean())
        assert fitted.extrapolates(runs, "new").tolist() == [beyond]  # by its work
        runs["counters"][:, 0] = np.exp(fitted.ranges_[1, 0].mean())
        runs["runtime"][:] = pace * np.exp(fitted.ranges_[1, 0].mean())
        assert fitted.extrapolates(runs, "new").tolist() == [beyond]  # by its time
    other = known.assign(configuration=("run", ["another"] * known.sizes["run"]))
    assert fitted.extrapolates(other, "old").all()
    with pytest.raises(MeasurementError, match="has no time on machine 'new'"):
        fitted.extrapolates(known.sel(machine=["old"]), "new")


def test_times_alone_are_learned_from():
    names = ["counters", "counter", "units", "group"]
    runs, new = (of.drop_vars(names) for of in (made_runs(30), NEW))
    del runs.attrs["work"], new.attrs["work"]
    predictor = RelativePredictor(**QUICK).fit(runs)
    assert off(predictor.predict(new, "old"), runtimes_of(NEW)) < 0.5


def test_importances_are_shares_of_the_gain(fitted):
    gains = fitted.importances()
    assert set(gains) == {"instructions", "loads", "time", "time per instructions"}
    assert sum(gains.values()) == pytest.approx(1.0)
    # seconds an instruction are a function of the loads, and so is the ratio
    assert gains["loads"] + gains["time per instructions"] > 0.8
    with pytest.raises(ArgumentError, match="parts is 'trees'"):
        RelativePredictor(**QUICK, parts="trees").fit(made_runs(4)).importances()


def test_cross_predictions_do_not_use_the_left_out_program():
    runs = made_runs(12)
    predictor = RelativePredictor(**QUICK)
    predicted = cross_predict(runs, predictor, folds=2)
    assert predicted.shape == (24, 3, 3)
    np.testing.assert_array_equal(predicted[:, [0, 1, 2], [0, 1, 2]], runtimes_of(runs))
    # the times of a program that is held back on other machines do not matter to it
    other = runs.copy(deep=True)
    other["runtime"][:2, 1:] = 1.0
    again = cross_predict(other, predictor, folds=2)
    np.testing.assert_array_equal(again[:2, 0], predicted[:2, 0])


def test_caution_adds_more_where_predictions_miss_more():
    runs = made_runs(40, noise=0.02).copy(deep=True)
    rng = np.random.default_rng(3)
    runs["runtime"][:, 2] *= np.exp(0.5 * rng.standard_normal(80))  # unpredictable
    plain, careful, more = (
        cross_predict(runs, RelativePredictor(**QUICK), folds=2, caution=c) for c in (0, 1, 2)
    )
    added = np.log(careful / plain)
    np.testing.assert_array_equal(added[:, [0, 1, 2], [0, 1, 2]], 0.0)
    assert added[:, 0, 2].mean() > 4 * added[:, 0, 1].mean() > 0
    np.testing.assert_allclose(np.log(more / plain), 2 * added, atol=1e-12)
    truth = runtimes_of(runs)
    assert (truth[:, 2] > plain[:, 0, 2]).mean() - (truth[:, 2] > more[:, 0, 2]).mean() > 0.25


def without_times(*cells):
    runs = made_runs(6).copy(deep=True)
    for cell in cells:
        runs["runtime"][cell] = np.nan
    return runs


ONCE = without_times(np.s_[2:, 2])  # one program alone ran there


@pytest.mark.parametrize(
    ("sentence", "runs", "folds"),
    [
        ("'old' and 'new' share no run", without_times(np.s_[:6, 0], np.s_[6:, 1]), 0),
        ("one machine, 'old'", made_runs(6).isel(machine=[0]), 0),
        ("'old' and 'odd' share 2 runs, all held back at", ONCE, 3),
        ("1 program beside those held back; at least two", made_runs(2), 2),
        ("1 program; at least two", made_runs(1), 0),
    ],
)
def test_runs_that_do_not_support_a_fit_are_refused(sentence, runs, folds):
    with pytest.raises(MeasurementError, match=sentence):
        RelativePredictor(**QUICK).fit(runs).calibrate(runs, folds=folds)


@pytest.mark.parametrize(
    ("error", "sentence", "runs", "source"),
    [
        (MeasurementError, "'loads' is in 'kB', and was learned in '1'", KILOBYTES, "old"),
        (ArgumentError, "source is 'oldd'.* the nearest name is 'old'", NEW, "oldd"),
        (MeasurementError, "run 0, of program 'p0', has no time", NEW.sel(machine=["new"]), "old"),
        (MeasurementError, "at least 99 runs of as many different programs", NEW, "old"),
    ],
)
def test_runs_that_cannot_be_predicted_are_refused(fitted, error, sentence, runs, source):
    with pytest.raises(error, match=sentence):
        fitted.predict_interval(runs, source, 0.01)


@pytest.mark.parametrize(
    ("sentence", "ask"),
    [
        ("not fitted", lambda runs: RelativePredictor().predict(runs, "old")),
        ("not calibrated", lambda runs: BARE.fit(runs).predict_interval(runs, "old")),
        ("parts is 'third'", lambda runs: RelativePredictor(parts="third").fit(runs)),
        ("caution is -1", lambda runs: cross_predict(runs, BARE, caution=-1.0)),
        ("rows hold", lambda runs: cross_predict(runs, BARE, caution=1.0, split="rows")),
    ],
)
def test_wrong_calls_are_refused(sentence, ask):
    with pytest.raises(ArgumentError, match=sentence):
        ask(made_runs(4))
