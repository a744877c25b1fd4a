"""Kriging beside the same posterior mean from dense matrices."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from msbgen.runtimes import kriging
from msbgen.runtimes.kriging import fit_fields
from msbgen.runtimes.runs import Observations
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


def test_the_numbering_of_workloads_and_platforms_does_not_matter():
    rng = np.random.default_rng(2)
    shape = (6, 5)
    runs, features = drawn_runs(rng, 40, shape), [rng.normal(size=(n, 2)) for n in shape]
    residual = rng.normal(size=40)
    workloads, platforms = (rng.permutation(n) for n in shape)
    other = Observations(
        workloads[runs.workload],
        platforms[runs.platform],
        np.where(runs.beside >= 0, workloads[runs.beside], -1),
        shape,
    )
    again = features[0][np.argsort(workloads)], features[1][np.argsort(platforms)]
    np.testing.assert_allclose(
        fit_fields(other, residual, again).at(other),
        fit_fields(runs, residual, (features[0], features[1])).at(runs),
        atol=1e-3,
    )
