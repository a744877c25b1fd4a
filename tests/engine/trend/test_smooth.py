"""Both smoothers against their definitions, one prediction at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msbgen.core.errors import MeasurementError
from msbgen.engine.trend import smooth
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.smooth import FORMS, SMOOTHERS

SEEDS = st.integers(0, 2**32 - 1)


def predicted(form, z, query, values, noise, lengths, nugget):
    """Values (n,) at z (n, m) smoothed to one query (m,), from the definition."""
    if form == "gaussian-process":

        def covariance(a, b):
            product = 1.0
            for x, y, length in zip(a, b, lengths):
                d = np.sqrt(5) * abs(x - y) / length
                product *= (1 + d + d * d / 3) * np.exp(-d)
            return 100 * (1 + 12 * np.dot(a, b)) + product

        gram = np.array([[covariance(a, b) for b in z] for a in z]) + nugget * np.diag(noise)
        return np.array([covariance(query, b) for b in z]) @ np.linalg.solve(gram, values)
    # least squares with rows √κ (1, z − query), and √(ridge Σκ) for each slope
    step = z - query
    squared = ((step / lengths) ** 2).sum(axis=1)
    near = np.exp(-0.5 * (squared - squared.min()))
    root = np.sqrt(near)[:, None]
    ridge = np.sqrt(nugget * near.sum()) * np.eye(z.shape[1] + 1)[1:]
    design = np.vstack([root * np.column_stack([np.ones(len(z)), step]), ridge])
    right = np.concatenate([root[:, 0] * values, np.zeros(z.shape[1])])
    return np.linalg.lstsq(design, right, rcond=None)[0][0]


def drawn(seed, n=9, m=2, columns=3):
    rng = np.random.default_rng(seed)
    z = rng.uniform(-0.5, 0.5, (n, m))
    noise = np.repeat(rng.uniform(0.5, 2.0, (n, 1)), columns, axis=1)
    return z, rng.standard_normal((n, columns)), noise, rng.uniform(0.3, 3.0, m)


@settings(max_examples=20)
@given(st.sampled_from(FORMS), st.floats(1e-4, 0.1), SEEDS)
def test_coefficients_give_the_prediction(form, nugget, seed):
    z, values, noise, lengths = drawn(seed)
    smoother = SMOOTHERS[form](z)
    for queries in (z[:2] + 0.01, np.linspace(-0.6, 0.6, 20).reshape(10, 2)):  # few, and many
        coefficients = smoother.coefficients(values, noise, lengths, nugget)[None]
        (found,) = smoother.predict(queries, coefficients, lengths[None], np.array([nugget]))
        for query, row in zip(queries, found):
            for value, column, variance in zip(row, values.T, noise.T):
                wanted = predicted(form, z, query, column, variance, lengths, nugget)
                assert value == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@settings(max_examples=20)
@given(st.sampled_from(FORMS), st.booleans(), SEEDS)
def test_left_out_in_closed_form_equals_refitting(form, unequal_noise, seed):
    z, values, noise, lengths = drawn(seed, n=12)
    z[:, 0] = np.repeat([-0.5, -0.1, 0.2, 0.5], 3)  # levels to leave out
    if unequal_noise:
        noise = noise * np.random.default_rng(seed).uniform(0.5, 2.0, noise.shape)
    folds = Folds.of(z)
    assert len(folds.ends) == 2
    found = SMOOTHERS[form](z).left_out(values, noise, lengths, 1e-3, folds)
    groups = [[i] for i in range(12)] + [folds.members[g].tolist() for g in folds.groups]
    rows = iter(found)
    for group in groups:
        rest = np.setdiff1d(np.arange(12), group)
        for i in group:
            errors = next(rows)
            for c in range(3):
                wanted = values[i, c] - predicted(
                    form, z[rest], z[i], values[rest, c], noise[rest, c], lengths, 1e-3
                )
                assert errors[c] == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_columns_are_smoothed_equally_alone_together_and_in_threads(monkeypatch):
    z, values, _, lengths = drawn(4, n=10, columns=40)
    noise = np.random.default_rng(5).uniform(0.5, 2.0, (10, 40))
    noise[:, 7] = noise[:, 3]  # some columns share their system
    process, folds = SMOOTHERS["gaussian-process"](z), Folds.alone(10)
    found = {}
    for cores in (1, 3):
        monkeypatch.setattr(smooth, "available_cores", lambda cores=cores: cores)
        found[cores] = (
            process.coefficients(values, noise, lengths, 1e-3),
            process.left_out(values, noise, lengths, 1e-3, folds),
        )
    for one, three in zip(found[1], found[3]):
        np.testing.assert_array_equal(one, three)
    for c in range(40):
        alone = process.coefficients(values[:, [c]], noise[:, [c]], lengths, 1e-3)
        np.testing.assert_allclose(found[1][0][:, [c]], alone, rtol=1e-7, atol=1e-9)


def test_points_that_differ_only_by_rounding_are_refused():
    process, folds = SMOOTHERS["gaussian-process"](np.zeros((30, 1))), Folds.alone(30)
    values = np.ones((30, 1))
    for nugget in (0.0, -1e-9):  # of a sum of squares rounding may leave either sign
        with pytest.raises(MeasurementError, match="contexts are so close"):
            process.coefficients(values, values, np.ones(1), nugget)
        with pytest.raises(MeasurementError, match="contexts are so close"):
            process.left_out(values, values, np.ones(1), nugget, folds)
