"""Fits to a dataset, and scores on held-out observations."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.systems.runtimes import predictor as completion
from msbgen.systems.runtimes.dataset import make as make_runtimes
from msbgen.systems.runtimes.evaluation import evaluate, score_predictions
from msbgen.systems.runtimes.fitting import fit
from msbgen.systems.runtimes.splits import removable
from msbgen.systems.runtimes.towers import TowerSettings


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
    rows = evaluate(dataset(), train=0.6, replicates=2)
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
    """Runs that predictors were fitted to and calibrated with, in the order of the calls."""
    calls = []
    for name in ("fit", "calibrate"):
        method = getattr(completion.RuntimePredictor, name)

        def called(self, runs, runtime, *, name=name, method=method, **more):
            calls.append((name, np.asarray(runs), np.asarray(runtime)))
            return method(self, runs, runtime, **more)

        monkeypatch.setattr(completion.RuntimePredictor, name, called)
    return calls


def test_every_cell_is_left_out_once_and_all_are_in_the_last_fit(quick, parts):
    measured = dataset()
    fit(measured)
    names, runs, runtimes = zip(*parts)
    assert names == ("fit", "calibrate") * 5 + ("fit",)
    cells = [{tuple(row) for row in table[:, :2].tolist()} for table in runs]
    for fitted, held in zip(cells[:-1:2], cells[1::2]):
        assert not fitted & held
        assert fitted | held == cells[-1]
    assert sorted(np.concatenate(runtimes[1::2])) == sorted(measured["runtime"].values)
    assert sorted(runtimes[-1]) == sorted(measured["runtime"].values)


def test_a_large_table_is_fitted_once(quick, parts):
    rng = np.random.default_rng(0)
    cells = np.array([(i, j) for i in range(36) for j in range(22)])
    measured = make_runtimes(
        np.exp(rng.normal(size=len(cells))), *cells.T, np.empty((len(cells), 0)),
        np.arange(len(cells)), workloads=[f"w{i}" for i in range(36)],
        platforms=[f"p{j}" for j in range(22)],
    )  # fmt: skip
    predictor = fit(measured)
    assert [name for name, *_ in parts] == ["fit", "calibrate"]
    assert predictor.pools_[0].n_units == 99


def repeated(rng, shape, repeats, hidden):
    """Runtimes with repeats of all but some cells, these cells, and a new run of each [s]."""
    log = rng.normal(size=shape[0])[:, None] + rng.normal(size=shape[1])
    log = log + 0.2 * rng.normal(size=shape)
    cells = np.argwhere(np.ones(shape))
    held = removable(cells, np.isin(np.arange(len(cells)), rng.permutation(len(cells))[:hidden]))
    runs = np.repeat(cells[~held], repeats, axis=0)
    noise = 0.02 * rng.normal(size=len(runs) + held.sum())
    times = np.exp(log[tuple(runs.T)] + noise[: len(runs)])
    new = np.exp(log[tuple(cells[held].T)] + noise[len(runs) :])
    names = ([f"{letter}{k}" for k in range(n)] for letter, n in zip("wp", shape))
    measured = make_runtimes(
        times, *runs.T, np.empty((len(runs), 0)), np.arange(len(runs)),
        **dict(zip(("workloads", "platforms"), names)),
    )  # fmt: skip
    return measured, cells[held], new


def test_bounds_hold_in_cells_that_were_never_measured(quick):
    """Repeats of known cells deviate by 2 % from their mean, new cells by 20 %."""
    covered = []
    for seed in range(12):
        measured, cells, new = repeated(np.random.default_rng(seed), (12, 5), 4, 12)
        predictor = fit(measured, rng=seed)
        assert predictor.pools_[0].n_units >= 45  # cells, not the 4 runs of each
        covered += (new <= predictor.predict_bound(cells, 0.1)).tolist()
    assert len(covered) > 130
    assert np.mean(covered) > 0.85


def test_few_cells_with_many_repeats_are_extrapolated(quick):
    measured, _, _ = repeated(np.random.default_rng(1), (4, 2), 6, 0)
    assert fit(measured).extrapolates([[0, 0], [3, 1]]).all()
    measured, _, _ = repeated(np.random.default_rng(1), (4, 3), 1, 0)
    assert not fit(measured).extrapolates([[0, 0], [3, 1]]).any()


@pytest.mark.parametrize("seed", range(10))
def test_small_tables_have_a_model_for_every_seed(quick, seed):
    measured, _, _ = repeated(np.random.default_rng(2), (5, 3), 1, 0)
    few = measured.isel(observation=slice(0, 14))
    predictor = fit(few, rng=seed)
    assert predictor.supported_rate([[4, 2]], 0.05) <= 0.11
    assert predictor.supported_rate([[4, 2]], 0.5) == 0.5
    square = few.isel(observation=[0, 1, 3, 4])  # two workloads on two platforms
    assert fit(square, rng=seed).supported_rate([[0, 0]], 0.05) == 0.2


def test_a_table_in_which_every_cell_is_needed_has_a_model_without_bounds(quick):
    measured, _, _ = repeated(np.random.default_rng(3), (5, 1), 3, 0)
    predictor = fit(measured)
    assert np.isfinite(predictor.predict([[2, 0]])).all()
    with pytest.raises(MeasurementError, match=r"row 0 has 0 neighbours; .* calibrated for none"):
        predictor.predict_bound([[2, 0]])
    equal = measured.assign(runtime=measured["runtime"] * 0 + 1.0)
    np.testing.assert_allclose(fit(equal).predict([[2, 0]]), 1.0)


def test_no_observations_and_replicates_are_refused(quick):
    with pytest.raises(MeasurementError, match="there are no observations to fit"):
        fit(dataset(), subset=np.zeros(900, dtype=bool))
    with pytest.raises(ArgumentError, match="replicates is 0"):
        evaluate(dataset(), replicates=0)
    with pytest.raises(ArgumentError, match="train is 1; a number above 0 and below 1"):
        evaluate(dataset(), train=1)


def test_rows_of_all_replicates_have_the_same_columns(quick):
    """Of few runs beside others, some replicates keep enough for a bound and others do not."""
    rows = evaluate(dataset(n=420), train=0.6, replicates=3, rng=1)
    assert len({tuple(row) for row in rows}) == 1


def test_a_workload_observed_alone_once_is_scored(quick):
    """Its only cell alone is never held out, and no run beside two others calibrates."""
    few = dataset(n=300)
    beside = np.column_stack([few["beside"].values[:, 0], np.full(300, -1)])
    beside[np.flatnonzero(few["workload_index"].values == 9)[1:], 0] = 4
    beside[:9:3, 1] = 4
    few = few.drop_vars("beside").assign(beside=(("observation", "slot"), beside))
    for seed in (0, 1, 5):
        rows = evaluate(few, train=0.7, replicates=1, rng=seed)
        assert all(np.isfinite(row["error"]) for row in rows)


def test_an_empty_test_set_is_refused(quick):
    with pytest.raises(MeasurementError, match="of 900 observations none can be held out"):
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
