"""Kriging beside the same posterior mean from dense matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import MeasurementError
from msbgen.systems.runtimes import kriging, shrinkage
from msbgen.systems.runtimes import predictor as completion
from msbgen.systems.runtimes.kriging import fit_fields
from msbgen.systems.runtimes.predictor import RuntimePredictor
from msbgen.systems.runtimes.runs import Observations
from msbgen.systems.runtimes.scaling import check_connected, fit_scaling
from msbgen.systems.runtimes.shrinkage import krige_platforms, shrunk_mean
from msbgen.systems.runtimes.towers import TowerSettings
from observing import drawn_runs


def dense_posterior(runs, residual, features):
    """Posterior mean at the runs themselves, by a solve with the whole covariance."""

    def likeness(table):
        scaled = table / table.std(axis=0)
        square = ((scaled[:, None] - scaled) ** 2).sum(-1) / scaled.shape[1]
        return np.exp(-0.5 * square / kriging._LENGTH**2)

    workloads, platforms = (likeness(f) for f in features)
    n_platforms = runs.shape[1]
    one_w, one_p = np.eye(runs.shape[0]), np.eye(n_platforms)
    signal = np.zeros((len(residual), len(residual)))
    for process, shares in enumerate(kriging._SHARES):
        cells = np.zeros((len(residual), runs.shape[0] * n_platforms))
        for r in range(len(residual)):
            near = [k for k in runs.beside[r] if k >= 0]
            if process == 2:
                for k in near:
                    cells[r, k * n_platforms + runs.platform[r]] += 1
            elif process == 0 or near:
                cells[r, runs.workload[r] * n_platforms + runs.platform[r]] += 1
        covariance = (
            shares[0] * np.kron(one_w, one_p)
            + shares[1] * np.kron(workloads, one_p)
            + shares[2] * np.kron(one_w, platforms)
            + shares[3] * np.kron(workloads, platforms)
        )
        signal += cells @ covariance @ cells.T
    noise = np.where((runs.beside >= 0).any(axis=1), kriging._NOISE[1], kriging._NOISE[0])
    return signal @ np.linalg.solve(signal + np.diag(noise), residual)


@given(st.integers(0, 10_000))
def test_kriging_agrees_with_dense_matrices(seed):
    rng = np.random.default_rng(seed)
    shape = (4, 3)
    runs = drawn_runs(rng, 15, shape)
    features = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
    residual = rng.normal(size=15)
    fields = fit_fields(runs, residual, features)
    np.testing.assert_allclose(
        fields.at(runs), dense_posterior(runs, residual, features), atol=5e-3
    )


def test_the_scale_does_not_matter_and_zero_residuals_give_zero():
    rng = np.random.default_rng(1)
    runs, features = drawn_runs(rng, 40, (6, 5)), (rng.normal(size=(6, 2)), rng.normal(size=(5, 2)))
    residual = rng.normal(size=40)
    once = fit_fields(runs, residual, features).at(runs)
    np.testing.assert_allclose(
        fit_fields(runs, 7 * residual, features).at(runs), 7 * once, rtol=1e-4
    )
    assert not fit_fields(runs, np.zeros(40), features).at(runs).any()


def test_the_effect_of_an_outlier_is_bounded():
    rng = np.random.default_rng(2)
    runs, features = drawn_runs(rng, 40, (6, 5)), (rng.normal(size=(6, 2)), rng.normal(size=(5, 2)))
    residual = rng.normal(size=40)
    far, farther = residual.copy(), residual.copy()
    far[0], farther[0] = 1e3, 1e6
    np.testing.assert_allclose(
        fit_fields(runs, far, features).at(runs), fit_fields(runs, farther, features).at(runs)
    )


def observed(rng, shape, share):
    """Cells of a table, such that every row and column is connected to the first."""
    cells = rng.random(shape) < share
    cells[0] = cells[:, 0] = True
    return np.argwhere(cells).T


@given(st.integers(0, 10_000))
def test_scaling_is_the_least_squares_solution(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 7, 2))
    workload, platform = observed(rng, shape, 0.5)
    again = rng.integers(len(workload), size=5)  # some cells are observed twice
    workload, platform = np.append(workload, workload[again]), np.append(platform, platform[again])
    log_runtime = rng.normal(size=len(workload))
    design = np.zeros((len(workload), sum(shape)))
    design[np.arange(len(workload)), workload] = 1
    design[np.arange(len(workload)), shape[0] + platform] = 1
    wanted = design @ np.linalg.lstsq(design, log_runtime, rcond=None)[0]
    fitted = fit_scaling(workload, platform, log_runtime, shape)
    np.testing.assert_allclose(fitted.log_runtime(workload, platform), wanted, atol=1e-8)
    assert abs(fitted.platform.mean()) < 1e-9


def test_platforms_that_share_no_workload_are_named():
    with pytest.raises(MeasurementError, match="platform 1 shares no workload with platform 0"):
        fit_scaling(np.array([0, 1]), np.array([0, 1]), np.zeros(2), (2, 2))
    with pytest.raises(MeasurementError, match="platform 0 shares no workload with platform 1"):
        fit_scaling(np.array([1, 0]), np.array([1, 0]), np.zeros(2), (2, 2))
    with pytest.raises(
        MeasurementError, match="platform 'm1' shares no workload with platform 'pi'"
    ):
        check_connected(np.array([0, 1]), np.array([0, 1]), (2, 2), ["pi", "m1"])


def test_workloads_never_observed_have_no_length():
    fitted = fit_scaling(np.array([0, 2]), np.array([0, 0]), np.zeros(2), (3, 2))
    assert np.isnan(fitted.workload).tolist() == [False, True, False]
    assert np.isnan(fitted.platform).tolist() == [False, True]


WIDE = (-50.0, 50.0)


def cells(pairs, shape):
    table = np.array(pairs)
    return Observations(table[:, 0], table[:, 1], np.empty((len(table), 0), np.int64), shape)


def example(rng, n_workloads=12, n_platforms=3):
    """Residuals that follow a feature, half the cells known; members that disagree by about 1."""
    feature = rng.normal(size=(n_workloads, 1))
    truth = feature * rng.normal(size=n_platforms)
    known = rng.random(truth.shape) < 0.6
    known[:2] = True
    runs = cells(np.argwhere(known), truth.shape)
    members = (truth + rng.normal(size=(4, *truth.shape))).astype(np.float32)
    return runs, truth[known], members, feature


def test_nothing_changes_where_members_agree():
    runs, residual, members, feature = example(np.random.default_rng(0))
    same = np.repeat(members[:1], 4, axis=0)
    np.testing.assert_array_equal(krige_platforms(runs, residual, same, WIDE, feature), 0.0)
    members[:, :, 1] = members[0, :, 1]
    moved = krige_platforms(runs, residual, members, WIDE, feature)
    np.testing.assert_allclose(moved[:, 1], 0.0, atol=1e-6)
    assert np.abs(moved[:, [0, 2]]).max() > 0.1


def test_kriging_is_the_conditional_mean_and_variance_of_a_gaussian():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(8, 30)) / np.sqrt(30)
    covariance = root @ root.T
    covariance /= np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    known, values = np.array([0, 3, 4, 6]), rng.normal(size=4)
    mean, variance = shrinkage._kriged(covariance.astype(np.float32), known, values)
    system = covariance[np.ix_(known, known)] + 0.03 * np.eye(4)
    centred = values - values.mean()
    factor = centred @ np.linalg.inv(system) @ centred / 4
    for i in range(8):  # of cell i and the known ones jointly: the inverse of the precision matrix
        joint = np.block(
            [[np.array([[1.03]]), covariance[i, known][None]],
             [covariance[known, i][:, None], system]]
        )  # fmt: skip
        if i in known:
            continue
        precision = np.linalg.inv(joint)
        assert mean[i] == pytest.approx(
            values.mean() - precision[0, 1:] @ centred / precision[0, 0], rel=1e-4, abs=1e-5
        )
        assert variance[i] == pytest.approx(factor / precision[0, 0], rel=1e-4)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4), st.booleans())
def test_degenerate_tables_have_finite_results(seed, n_workloads, n_platforms, constant):
    rng = np.random.default_rng(seed)
    runs = cells([(0, 0)] + [(i, 0) for i in range(n_workloads)], (n_workloads, n_platforms))
    residual = np.zeros(len(runs)) if constant else rng.normal(size=len(runs))
    members = rng.normal(size=(2, n_workloads, n_platforms)).astype(np.float32)
    moved = krige_platforms(runs, residual, members, WIDE, np.empty((n_workloads, 0)))
    assert moved.dtype == np.float32
    assert np.isfinite(moved).all()
    np.testing.assert_array_equal(moved[:, 1:], 0.0)  # nothing was observed there


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 10.0))
def test_interference_is_shrunk_towards_zero_and_not_beyond(seed, usual):
    members = np.random.default_rng(seed).normal(size=(4, 5))
    found, mean = shrunk_mean(members, usual), members.mean(axis=0)
    assert (np.abs(found) <= np.abs(mean) * (1 + 1e-12)).all()
    assert (found * mean >= 0).all()
    agreed = np.full((4, 5), 0.7)
    np.testing.assert_allclose(shrunk_mean(agreed, max(usual, 0.01)), 0.7)


def test_interference_of_one_outlying_member_is_shrunk_strongly():
    members = np.array([[2.1], [6.6], [0.0], [0.05]])  # a run on a board unlike all others
    assert members.mean() > 2.1
    assert shrunk_mean(members, 0.15)[0] < 0.1


def test_similar_workloads_improve_a_platform_that_members_disagree_on(monkeypatch):
    rng = np.random.default_rng(5)
    feature = rng.normal(size=(20, 2))
    slope = rng.normal(size=(8, 2))
    table = np.argwhere(np.ones((20, 8), dtype=bool))
    residual = np.tanh(feature) @ slope.T
    new = (table[:, 1] == 3) & (table[:, 0] % 3 == 0)
    runtime = np.exp(residual[table[:, 0], table[:, 1]])
    train = completion.train_towers

    def wild(*args, **more):
        made, rngs = train(*args, **more), args[-1]
        for platform, rng in zip(made.platform, rngs):
            platform[0, 3] += 1.0 * rng.standard_normal(platform[0, 3].shape)
        return made

    monkeypatch.setattr(completion, "train_towers", wild)

    def errors():
        towers = TowerSettings(rank=8, hidden=16, steps=100)
        model = RuntimePredictor(feature, towers=towers).fit(table[~new], runtime[~new])
        return np.abs(np.log(model.predict(table[new]) / runtime[new]))

    with_opinion = errors()
    monkeypatch.setattr(
        completion, "krige_platforms", lambda runs, *rest: np.zeros(runs.shape, np.float32)
    )
    without = errors()
    assert with_opinion.mean() < 0.6 * without.mean()
    assert with_opinion.max() < without.max()
