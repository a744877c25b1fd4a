"""A law and its rest: who counts where."""

import numpy as np
import pytest

from msbgen.kernels.predictor import structured as module
from msbgen.kernels.predictor.structured import RestSettings, fit_structured, no_trees


def data(rest, n=150, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 10, (n, 2))
    return x, (3 * x[:, 0] + x[:, 1]) * np.exp(rest(x))


def fitted(x, y, settings=RestSettings()):  # noqa: B008
    return fit_structured(x, np.log(x), x, y, np.arange(len(y)), settings, 0)


def test_of_a_law_alone_nothing_is_left():
    x, y = data(lambda x: 0 * x[:, 0])
    model = fitted(x, y, RestSettings(process=False, trees=False))
    np.testing.assert_allclose(model.weights, [3, 1], rtol=1e-6)
    np.testing.assert_allclose(np.exp(model.predict(x, np.log(x), x)), y, rtol=1e-6)
    assert model.share == 0


def test_steps_are_for_trees_and_waves_for_the_process():
    pytest.importorskip("sklearn")
    rough = data(lambda x: 0.5 * (np.floor(7.3 * x[:, 0]) % 2), n=400)
    smooth = data(lambda x: 0.3 * np.sin(x[:, 0]))
    assert fitted(*rough).share > 0.5
    assert fitted(*smooth).share == 0


def test_few_kernels_are_no_forest(monkeypatch):
    x, y = data(lambda x: 0.1 * x[:, 0], n=module.FEWEST_FOR_TREES - 1)
    monkeypatch.setattr(module, "fit_trees", None)  # whoever asks for it fails
    assert fitted(x, y).share == 0
    assert len(no_trees().root) == 0


def test_without_terms_the_mean_is_the_law():
    x, y = data(lambda x: 0 * x[:, 0])
    model = fitted(x, y, RestSettings(terms=False, process=False, trees=False))
    np.testing.assert_allclose(model.predict(x, x, x), np.log(y).mean())
