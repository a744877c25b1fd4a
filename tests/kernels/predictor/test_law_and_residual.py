"""A law and its residual: the weight of each part."""

import numpy as np
import pytest

from msbgen.kernels.predictor import law_and_residual as module
from msbgen.kernels.predictor.law_and_residual import ModelParts, fit_law_and_residual


def data(residual, n=150, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 10, (n, 2))
    return x, (3 * x[:, 0] + x[:, 1]) * np.exp(residual(x))


def fitted(x, y, parts=ModelParts()):  # noqa: B008
    return fit_law_and_residual(x, np.log(x), x, y, np.arange(len(y)), parts, 0)


def test_terms_alone_recover_their_weights():
    x, y = data(lambda x: 0 * x[:, 0])
    model = fitted(x, y, ModelParts(process=False, trees=False))
    np.testing.assert_allclose(model.weights, [3, 1], rtol=1e-6)
    np.testing.assert_allclose(np.exp(model.predict(x, np.log(x), x)), y, rtol=1e-6)
    assert model.share == 0


def test_trees_fit_steps_and_the_process_fits_waves():
    pytest.importorskip("sklearn")
    rough = data(lambda x: 0.5 * (np.floor(7.3 * x[:, 0]) % 2), n=250)
    smooth = data(lambda x: 0.3 * np.sin(x[:, 0]))
    assert fitted(*rough).share > 0.5
    assert fitted(*smooth).share == 0


def test_few_kernels_have_no_trees(monkeypatch):
    x, y = data(lambda x: 0.1 * x[:, 0], n=module.FEWEST_FOR_TREES - 1)
    monkeypatch.setattr(module, "fit_trees", None)  # a call fails
    assert fitted(x, y).share == 0


def test_without_terms_the_law_is_the_mean():
    x, y = data(lambda x: 0 * x[:, 0])
    model = fitted(x, y, ModelParts(terms=False, process=False, trees=False))
    np.testing.assert_allclose(model.predict(x, x, x), np.log(y).mean())
