"""Fits to a dataset, and scores on held-out observations."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.runtimes import predictor as completion
from msbgen.runtimes.dataset import make as make_runtimes
from msbgen.runtimes.dataset import run_table
from msbgen.runtimes.evaluation import evaluate, score_predictions
from msbgen.runtimes.fitting import CALIBRATION, fit
from msbgen.runtimes.splits import hold_out, units_of
from msbgen.runtimes.towers import TowerSettings


@pytest.fixture
def quick(monkeypatch):
    settings = TowerSettings(rank=4, hidden=8, steps=40)
    monkeypatch.setattr(completion.RuntimePredictor, "_settings", lambda self: settings)


def dataset(n=900, seed=0):
    rng = np.random.default_rng(seed)
    workload, platform = rng.integers(10, size=n), rng.integers(8, size=n)
    beside = np.where(np.arange(n) % 3 == 0, rng.integers(10, size=n), -1)
    log = 0.5 * workload + 0.7 * platform + 0.2 * (beside >= 0) + 0.05 * rng.normal(size=n)
    return make_runtimes(
        np.exp(log), workload, platform, beside[:, None], np.arange(n) // 2,
        workloads=[f"w{i}" for i in range(10)], platforms=[f"p{i}" for i in range(8)],
    )  # fmt: skip


def test_scores_have_a_row_for_each_replicate_and_number_of_neighbours(quick):
    rows = evaluate(dataset(), train=0.6, replicates=2, split="runs")
    assert [(row["replicate"], row["neighbours"]) for row in rows] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    for row in rows:
        assert 0 < row["error"] < 0.2
        assert row["tenfold"] == 0
        assert row["coverage_0.1"] > 0.7
        assert "margin_0.01" not in row  # it needs 99 runs of each number of neighbours


@pytest.fixture
def parts(monkeypatch):
    """Runtimes that the last predictor was fitted to and calibrated with."""
    runtimes = {}
    for name in ("fit", "calibrate"):
        method = getattr(completion.RuntimePredictor, name)

        def called(self, runs, runtime, *, name=name, method=method, **more):
            runtimes[name] = set(map(float, runtime))
            return method(self, runs, runtime, **more)

        monkeypatch.setattr(completion.RuntimePredictor, name, called)
    return runtimes


def test_calibration_runs_are_not_fitted(quick, parts):
    measured = dataset()
    n = measured.sizes["observation"]
    fit(measured)
    assert not parts["fit"] & parts["calibrate"]
    assert len(parts["fit"]) + len(parts["calibrate"]) == n
    assert len(parts["calibrate"]) == pytest.approx(CALIBRATION * n, rel=0.3)


def test_too_few_observations_and_replicates_are_refused(quick):
    few = dataset().isel(observation=slice(0, 1))
    with pytest.raises(MeasurementError, match="too few to calibrate bounds"):
        fit(few)
    with pytest.raises(ArgumentError, match="replicates is 0"):
        evaluate(dataset(), replicates=0)


def test_a_subset_drawn_with_the_same_seed_still_leaves_calibration_runs(quick):
    measured = dataset()
    unit = units_of(run_table(measured), measured["run"].values, "rows")
    subset = hold_out(unit, 0.5, 0)
    predictor = fit(measured, split="rows", subset=subset, rng=0)
    assert sum(len(pool.unit) for pool in predictor.pools_.values()) > 0.05 * subset.sum()


def test_rows_of_all_replicates_have_the_same_columns(quick):
    """Of few runs beside others, some replicates keep enough for a bound and others do not."""
    rows = evaluate(dataset(n=420), train=0.6, replicates=3, rng=1)
    assert len({tuple(row) for row in rows}) == 1


def test_scores_leave_out_workloads_never_observed_alone(quick):
    """By chance a workload is observed only beside others, or no such run calibrates."""
    few = dataset(n=300)
    beside = np.column_stack([few["beside"].values[:, 0], np.full(300, -1)])
    beside[np.flatnonzero(few["workload_index"].values == 9)[1:], 0] = 4
    beside[:9:3, 1] = 4
    few = few.drop_vars("beside").assign(beside=(("observation", "slot"), beside))
    for seed in (0, 1, 5):
        rows = evaluate(few, train=0.7, replicates=1, split="rows", rng=seed)
        assert all(np.isfinite(row["error"]) for row in rows)


def test_an_empty_test_set_is_refused(quick):
    with pytest.raises(MeasurementError, match="of 900 observations no held-out one can be"):
        evaluate(dataset(), train=1 - 1e-9, replicates=1)


def test_workloads_and_platforms_that_cannot_be_fitted_are_named(quick):
    measured = dataset(n=200)
    one = measured["workload_index"].values == 3
    beside = np.where(one[:, None], 2, measured["beside"].values)
    crowded = measured.assign(beside=(("observation", "slot"), beside))
    with pytest.raises(MeasurementError, match="workload 'w3' was never observed alone"):
        fit(crowded)
    odd = (measured["workload_index"].values % 2) == (measured["platform_index"].values % 2)
    with pytest.raises(
        MeasurementError, match=r"platform 'p.' shares no workload with platform 'p"
    ):
        fit(measured.isel(observation=odd))


def test_other_datasets_and_subsets_are_refused(quick):
    with pytest.raises(ProfileError, match="'schema' is None"):
        fit(dataset().assign_attrs(schema=1).drop_attrs())
    for subset in (np.ones(3, dtype=bool), np.arange(900)):
        with pytest.raises(ArgumentError, match=r"subset holds .*; \(900,\) of bool is wanted"):
            fit(dataset(), subset=subset)


def test_scores_by_hand():
    runtime, near = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0, 0, 1, 1])
    predicted, bound = np.array([1.1, 1.0, 4.0, 800.0]), np.array([1.5, 1.9, 4.0, 16.0])
    alone, beside = score_predictions(runtime, near, predicted, {0.1: bound})
    assert alone["error"] == pytest.approx((0.1 + 0.5) / 2)
    assert (alone["coverage_0.1"], alone["margin_0.1"]) == (0.5, 0.25)
    assert (beside["tenfold"], beside["coverage_0.1"], beside["margin_0.1"]) == (1, 1.0, 0.5)
