"""The predictor of runtimes: planted tables, invariances, coverage, and refusals."""

import time

import numpy as np
import pandas as pd
import pytest

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.systems.runtimes import predictor as completion
from msbgen.systems.runtimes.predictor import RuntimePredictor
from msbgen.systems.runtimes.runs import Observations
from msbgen.systems.runtimes.spread import WIDTHS, fit_spread
from msbgen.systems.runtimes.towers import TowerSettings

QUICK = TowerSettings(rank=8, hidden=32, steps=200, decay=0.0)


def planted(rng, n=3000, shape=(20, 15), slots=2, noise=0.03):
    """Runs of known factors: lengths, speeds, one product, and interference of up to two others."""
    length, speed = rng.normal(size=shape[0]), 2.0 * rng.normal(size=shape[1])
    w, p = rng.normal(size=(shape[0], 2)), 0.3 * rng.normal(size=(shape[1], 2))
    interfered, made = rng.random(shape[0]), 0.4 * rng.random(shape[0])
    runs = np.column_stack(
        [rng.integers(shape[0], size=n), rng.integers(shape[1], size=n)]
        + [np.maximum(rng.integers(-shape[0], shape[0], size=n), -1) for _ in range(slots)]
    )
    runs[: n // 2, 2:] = -1
    near = np.where(runs[:, 2:] >= 0, made[runs[:, 2:]], 0.0).sum(axis=1)
    log = length[runs[:, 0]] + speed[runs[:, 1]] + (w[runs[:, 0]] * p[runs[:, 1]]).sum(axis=1)
    log = log + interfered[runs[:, 0]] * near + noise * rng.normal(size=n)
    features, order = (np.column_stack([w, interfered, made]), p), rng.permutation(n)
    return runs[order], np.exp(log)[order], features


@pytest.fixture(scope="module")
def fitted():
    runs, runtime, features = planted(np.random.default_rng(0))
    model = RuntimePredictor(*features, members=2, towers=QUICK)
    model.fit(runs[:1800], runtime[:1800]).calibrate(runs[1800:2400], runtime[1800:2400])
    return model, runs[2400:], runtime[2400:]


def test_planted_factors_are_predicted_within_the_noise(fitted):
    model, runs, runtime = fitted
    error = np.abs(model.predict(runs) / runtime - 1)
    for degree in (0, 1, 2):
        assert error[(runs[:, 2:] >= 0).sum(axis=1) == degree].mean() < 0.08  # noise alone: 0.024


def test_bounds_cover_and_do_not_fall_with_the_rate(fitted):
    model, runs, runtime = fitted
    before = np.zeros(len(runs))
    for rate in (0.5, 0.2, 0.1, 0.05, 0.02):
        bound = model.predict_bound(runs, rate)
        assert (bound >= before).all()
        assert (runtime > bound).mean() <= rate + 3 * np.sqrt(rate * (1 - rate) / 400)
        before = bound


def test_equal_seeds_give_equal_bits_and_members_differ():
    runs, runtime, features = planted(np.random.default_rng(3), n=400)
    towers = TowerSettings(rank=4, hidden=8, steps=30)
    made = [
        RuntimePredictor(*features, members=2, towers=towers, random_state=s)
        .fit(runs, runtime)
        .predict(runs)
        for s in (5, 5, 6)
    ]
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).any()


def test_an_interrupt_ends_all_members(monkeypatch):
    """Those of large tables are trained in threads, which know of no Ctrl-C."""
    steps = []

    def member(self, observed, residual, settings, members, progress):
        if members == [0]:
            raise KeyboardInterrupt
        for step in range(500):
            time.sleep(0.001)
            steps.append(step)
            progress(step, 500)

    monkeypatch.setattr(completion, "_SMALL", 0)
    monkeypatch.setattr(RuntimePredictor, "_members_of", member)
    with pytest.raises(KeyboardInterrupt):
        RuntimePredictor(members=2).fit(CELLS, TIMES)
    assert len(steps) < 400


def test_single_runs_and_parts_agree_with_all_runs(fitted, monkeypatch):
    model, runs, _ = fitted
    predicted, bounds = model.predict(runs), model.predict_bound(runs, 0.1)
    monkeypatch.setattr(completion, "_PART", 100)
    np.testing.assert_array_equal(model.predict(runs), predicted)
    np.testing.assert_array_equal(model.predict_bound(runs, 0.1), bounds)
    for row in range(5):
        one = runs[row : row + 1]
        np.testing.assert_allclose(model.predict(one), predicted[row], rtol=1e-5)
        np.testing.assert_allclose(model.predict_bound(one, 0.1), bounds[row], rtol=1e-5)


def test_features_can_be_learned():
    runs, runtime, _ = planted(np.random.default_rng(6), slots=1)
    model = RuntimePredictor(members=2, towers=QUICK).fit(runs[:2400], runtime[:2400])
    assert model.score(runs[2400:], runtime[2400:]) > -0.1


def test_the_paper_preset_has_quantiles_that_bound():
    runs, runtime, features = planted(np.random.default_rng(7), n=2000, slots=1)
    towers = TowerSettings(
        rank=8, hidden=32, learned=1, steps=300, rate=6e-3, width=None, decay=0.0,
        quantiles=(0.8, 0.95), batch=128, infinity_norm=True,
    )  # fmt: skip
    model = RuntimePredictor(*features, preset="paper", towers=towers)
    model.fit(runs[:1200], runtime[:1200]).calibrate(runs[1200:1600], runtime[1200:1600])
    assert model.score(runs[1600:], runtime[1600:]) > -0.2
    held = (runtime[1600:] <= model.predict_bound(runs[1600:], 0.1)).mean()
    assert held >= 0.9 - 3 * np.sqrt(0.09 / 200)


def test_rarely_observed_workloads_are_extrapolated():
    runs = np.array([(i, j) for i in range(5) for j in range(5)] + [(5, 0)] * 4)
    runtime = 1.0 + runs.sum(axis=1).astype(float)
    model = RuntimePredictor(members=1, towers=TowerSettings(steps=5)).fit(runs, runtime)
    requested = np.array([(0, 0, -1), (5, 3, -1), (0, 0, 1)])
    assert model.extrapolates(requested).tolist() == [False, True, True]


CELLS = np.array([(i, j, -1) for i in range(4) for j in range(3)])
TIMES = np.arange(1.0, 13.0)


@pytest.mark.parametrize(
    ("runs", "runtime", "sentence"),
    [
        (CELLS[:, :1], TIMES, "runs has shape"),
        (CELLS, TIMES[:-1], r"runtime has shape \(11,\); \(12,\) is wanted"),
        (CELLS + 0.5, TIMES, "whole numbers are wanted"),
        ([[0, 1], [0, 1, 2]], TIMES[:2], "all of one length, are wanted"),
        ([["sort", "pi"]], TIMES[:1], "runs are .*; numbers in rows of workload, platform"),
        (np.where(CELLS == 0, -2, CELLS), TIMES, "has -2 in row 0"),
    ],
)
def test_wrong_shapes_and_values_are_refused(runs, runtime, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        RuntimePredictor(towers=TowerSettings(steps=2)).fit(runs, runtime)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"members": 1.5}, "members is 1.5; a whole number ≥ 1"),
        ({"workload_features": [["long"]] * 4}, "workload_features holds a value"),
        ({"platform_features": 3.0}, "index from 0 to 0 is wanted"),
    ],
)
def test_wrong_parameters_are_refused(parameters, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        RuntimePredictor(**{"towers": TowerSettings(steps=2), **parameters}).fit(CELLS, TIMES)


def test_unfitted_and_uncalibrated_predictors_are_refused():
    bare = RuntimePredictor(members=1, towers=TowerSettings(steps=2))
    for ask in (bare.answers, bare.predict):
        with pytest.raises(ArgumentError, match="not fitted"):
            ask(CELLS)
    bare.fit(CELLS, TIMES)
    with pytest.raises(MeasurementError, match=r"row 0 has 0 neighbours; .* calibrated for none"):
        bare.supported_rate(CELLS, 0.1)
    for row in ([-1, 0], [4, 0], [0, 3]):
        with pytest.raises(ArgumentError, match=f"in row 0, column {row.index(max(row, key=abs))}"):
            bare.answers([row])
    with pytest.raises(ArgumentError, match=r"runtime has shape \(3,\)"):
        bare.score(CELLS, TIMES[:3])
    with pytest.raises(MeasurementError, match=r"runtime is 0\.0 s in row 0"):
        bare.score(CELLS, 0 * TIMES)
    hidden = np.ma.masked_array(CELLS, np.arange(CELLS.size).reshape(CELLS.shape) == 0)
    exchanged = pd.DataFrame({"platform": [1], "workload": [0]})
    for ask in (bare.predict, bare.extrapolates, bare.answers):
        with pytest.raises(ArgumentError, match="runs are masked in part"):
            ask(hidden)
        with pytest.raises(ArgumentError, match="columns of runs are platform, workload; workload"):
            ask(exchanged)
    named = exchanged[["workload", "platform"]].assign(beside=-1)
    assert bare.predict(named) == bare.predict([[0, 1, -1]])
    with pytest.raises(ArgumentError, match=r"miscoverage is \[0\.4\]; a number from"):
        bare.calibrate(CELLS, TIMES).predict_bound(CELLS, [0.4])  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [0.0, np.inf])
def test_runtimes_that_are_not_positive_are_refused_with_their_row(wrong):
    runtime = TIMES.copy()
    runtime[7] = wrong
    with pytest.raises(MeasurementError, match=r"in row 7; a positive number is wanted"):
        RuntimePredictor(towers=TowerSettings(steps=2)).fit(CELLS, runtime)


def test_workloads_never_observed_cannot_be_predicted():
    features = np.zeros((6, 1)), np.zeros((3, 1))
    model = RuntimePredictor(*features, members=1, towers=TowerSettings(steps=2))
    model.fit(CELLS, TIMES)
    with pytest.raises(MeasurementError, match="workload 5 on platform 0, one of which was never"):
        model.predict(np.array([[5, 0]]))
    with pytest.raises(ArgumentError, match="index from 0 to 2 is wanted"):
        model.predict(np.array([[0, 3]]))


def test_bounds_need_enough_calibration_runs_with_as_many_neighbours(fitted):
    model, _, _ = fitted
    bare = RuntimePredictor(members=1, towers=TowerSettings(steps=2)).fit(CELLS, TIMES)
    with pytest.raises(MeasurementError, match=r"row 0 has 0 neighbours; .* calibrated for none"):
        bare.predict_bound(CELLS)
    with pytest.raises(MeasurementError, match=r"3 neighbours; bounds are calibrated for 0, 1, 2"):
        model.predict_bound(np.array([[0, 0, 1, 2, 3]]))
    with pytest.raises(MeasurementError, match="at least 9999 runs of as many different cells"):
        model.predict_bound(np.array([[0, 0, -1, -1]]), 1e-4)


def test_a_run_alone_is_needed():
    beside = CELLS.copy()
    beside[:, 2] = 1
    with pytest.raises(MeasurementError, match="no run is alone"):
        RuntimePredictor(towers=TowerSettings(steps=2)).fit(beside, TIMES)


def scattered(rng, n=40_000, shape=(8, 6)):
    workload, platform = rng.integers(shape[0], size=n), rng.integers(shape[1], size=n)
    beside = rng.integers(-1, shape[0], (n, 1))
    shares = [rng.normal(size=k) * 0.5 for k in (shape[0], shape[1], shape[0])]
    log = -3.0 + shares[0][workload] + shares[1][platform]
    log = log + np.where(beside[:, 0] >= 0, 0.7 + shares[2][beside[:, 0]], 0.0)
    return Observations(workload, platform, beside, shape), np.exp(log) * rng.normal(size=n), log


def width_of(spread, name, runs, deviation, correction):
    return spread.widths(runs, deviation, correction)[WIDTHS.index(name)]


def spread_of(runs, residual):
    """Without features, members that differ, or corrections."""
    features = np.empty((8, 0)), np.empty((6, 0))
    return fit_spread(runs, residual, *np.zeros((2, len(residual))), features)


def test_planted_widths_are_recovered_up_to_a_factor():
    rng = np.random.default_rng(3)
    runs, residual, log = scattered(rng)
    width = width_of(spread_of(runs, residual), "additive", runs, *np.zeros((2, len(runs))))
    away = np.log(width) - log
    assert away.std() < 0.08  # of shares with a deviation of 0.9


def test_a_cell_that_scatters_more_than_its_row_and_column_is_wider():
    rng = np.random.default_rng(6)
    runs, residual, _ = scattered(rng)
    odd = (runs.workload == 3) & (runs.platform == 2) & (runs.n_neighbours == 0)
    residual = np.where(odd, 10.0 * residual, residual)
    spread = spread_of(runs, residual)
    widths = {
        name: width_of(spread, name, runs, *np.zeros((2, len(runs))))
        for name in ("additive", "local")
    }
    same = (runs.workload == 3) & (runs.platform == 1) & (runs.n_neighbours == 0)
    apart = {name: np.log(w[odd][0] / w[same][0]) for name, w in widths.items()}
    assert apart["local"] > apart["additive"] / 2 + 0.4  # its additive share has the exponent 1/2


@pytest.mark.parametrize("name", WIDTHS)
def test_widths_are_positive_and_grow_with_disagreement_and_correction(name):
    rng = np.random.default_rng(4)
    runs, residual, _ = scattered(rng, n=500)
    spread, low, high = spread_of(runs, residual), np.zeros(len(runs)), np.full(len(runs), 0.3)
    width = width_of(spread, name, runs, low, low)
    assert (width > 0).all()
    assert (width_of(spread, name, runs, high, low) > width).all() == (WIDTHS.index(name) > 1)
    assert (width_of(spread, name, runs, low, high) > width).all() == (WIDTHS.index(name) > 2)


@pytest.mark.parametrize("name", WIDTHS)
def test_residuals_of_zero_have_a_width_too(name):
    rng = np.random.default_rng(5)
    runs, residual, _ = scattered(rng, n=50)
    width = width_of(spread_of(runs, np.zeros_like(residual)), name, runs, *np.zeros((2, 50)))
    assert np.isfinite(width).all()
    assert (width > 0).all()
