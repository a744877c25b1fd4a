"""The towers: gradients beside differences, batches, and what is learned."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.systems.runtimes.embeddings import LEAK, Embeddings
from msbgen.systems.runtimes.towers import Model, TowerSettings, draw_batch, train_towers
from observing import drawn_runs


@pytest.mark.parametrize("width", [0.3, None])
def test_gradients_agree_with_differences(width):
    rng = np.random.default_rng(4)
    runs = drawn_runs(rng)
    settings = TowerSettings(rank=3, hidden=6, learned=2, width=width, quantiles=(0.8,))
    features = rng.normal(size=(5, 3)), rng.normal(size=(4, 2))
    model = Model(*features, settings, [rng])
    target = (0.5 * rng.normal(size=len(runs))).astype(np.float32)
    weight = np.full(len(runs), 1.0 / len(runs), np.float32)

    def loss():
        error = (model.embeddings().products().residual(runs)[0] - target).astype(float)
        first = np.hypot(error[0], width) if width else error[0] ** 2
        pinball = np.where(error[1] < 0, -0.8 * error[1], 0.2 * error[1])
        return float((first + pinball) @ weight)

    gradient = model.gradient(runs, target, weight)
    for parameter, slope in zip(model.parameters, gradient):
        flat = parameter.reshape(-1)
        for place in rng.integers(flat.size, size=4):
            before, step = flat[place], 2e-3
            flat[place] = before + step
            high = loss()
            flat[place] = before - step
            difference = (high - loss()) / (2 * step)
            flat[place] = before
            assert slope.reshape(-1)[place] == pytest.approx(difference, abs=3e-3)


@given(st.integers(0, 10_000), st.integers(0, 2), st.integers(0, 3))
def test_both_ways_to_the_gradient_agree(seed, types, slots):
    rng = np.random.default_rng(seed)
    runs = drawn_runs(rng, slots=slots)
    settings = TowerSettings(rank=3, hidden=4, learned=2, types=types, quantiles=(0.5, 0.9))
    model = Model(rng.normal(size=(5, 3)), rng.normal(size=(4, 2)), settings, [rng])
    target = (0.5 * rng.normal(size=len(runs))).astype(np.float32)
    weight = rng.random(len(runs)).astype(np.float32)
    dense = model.gradient(runs, target, weight)
    gather_cells = model.batch_gradient(runs, target, weight)
    for one, other in zip(dense, gather_cells):
        np.testing.assert_allclose(one, other, atol=2e-4)


@pytest.mark.parametrize("batch", [None, 16])
def test_training_lowers_the_error_and_equal_seeds_give_equal_bits(batch):
    rng = np.random.default_rng(0)
    runs = drawn_runs(rng, n=60)
    truth = 0.5 * rng.normal(size=(5, 4)).ravel()[runs.cell]
    truth += 0.3 * (runs.beside >= 0).sum(axis=1)
    settings = TowerSettings(
        rank=8, hidden=32, infinity_norm=batch == 16, steps=150, decay=0.0, batch=batch
    )
    features = np.empty((5, 0)), np.empty((4, 0))
    fitted = [
        train_towers(runs, truth, features, settings, [np.random.default_rng(1)]) for _ in range(2)
    ]
    for name in ("workload", "platform"):
        np.testing.assert_array_equal(getattr(fitted[0], name), getattr(fitted[1], name))
    error = np.abs(fitted[0].residual(runs)[0, 0] - truth).mean()
    assert error < 0.5 * np.abs(truth).mean()


def test_pairs_of_towers_are_trained_together_as_each_alone():
    rng = np.random.default_rng(5)
    runs, features = drawn_runs(rng, n=40, slots=2), (rng.normal(size=(5, 2)), np.empty((4, 0)))
    truth = 0.5 * rng.normal(size=len(runs))
    settings = TowerSettings(rank=4, hidden=8, steps=30)

    def trained(*seeds):
        rngs = [np.random.default_rng(seed) for seed in seeds]
        return train_towers(runs, truth, features, settings, rngs)

    together, alone = trained(1, 2, 3), trained(2)
    np.testing.assert_allclose(together.workload[1], alone.workload[0], atol=1e-4)
    np.testing.assert_allclose(together.platform[1], alone.platform[0], atol=1e-4)
    assert np.abs(together.workload[0] - together.workload[1]).max() > 0.1


def test_batches_have_as_many_runs_alone_as_beside_others():
    rng = np.random.default_rng(2)
    alone, beside, none = np.arange(10), np.arange(10, 200), np.arange(0)
    rows, weight = draw_batch((alone, beside), 64, 0.5, rng)
    assert (rows < 10).sum() == 32
    assert weight[rows < 10].sum() == pytest.approx(2 / 3)
    rows, weight = draw_batch((alone, none), 64, 0.5, rng)
    assert len(rows) == 64
    assert weight.sum() == pytest.approx(1.0)


def test_invalid_settings_are_refused():
    for wrong in ({"rank": 0}, {"rate": 0.0}, {"quantiles": (1.0,)}, {"decay": -1.0}, {"batch": 1}):
        with pytest.raises(ArgumentError, match=f"^{next(iter(wrong))} is "):
            TowerSettings(**wrong)


def embeddings(rng, heads=2, types=2, shape=(5, 4), rank=3):
    def drawn(n, size):
        return rng.normal(size=(n, size, rank)).astype(np.float32)

    return Embeddings(drawn(heads, shape[0]), drawn(1 + 2 * types, shape[1]))


@given(st.integers(0, 10_000))
def test_a_residual_is_that_of_the_formula(seed):
    rng = np.random.default_rng(seed)
    runs, at = drawn_runs(rng, n=12), embeddings(rng)
    w, p = at.workload.astype(float), at.platform.astype(float)
    for n in range(len(runs)):
        i, j, near = runs.workload[n], runs.platform[n], [k for k in runs.beside[n] if k >= 0]
        for h in range(2):
            wanted = w[h, i] @ p[0, j]
            for t in range(2):
                pushed = sum(w[0, k] @ p[3 + t, j] for k in near)
                wanted += w[h, i] @ p[1 + t, j] * max(pushed, LEAK * pushed)
            assert at.residual(runs)[h, n] == pytest.approx(wanted, rel=1e-4, abs=1e-4)


@given(st.integers(0, 10_000), st.integers(0, 2), st.integers(0, 3))
def test_vectors_and_matrices_agree(seed, types, slots):
    rng = np.random.default_rng(seed)
    runs, at = drawn_runs(rng, slots=slots), embeddings(rng, types=types)
    np.testing.assert_allclose(
        at.gather(runs).residual(), at.products().residual(runs), rtol=1e-4, atol=1e-4
    )


def test_several_pairs_of_towers_agree_with_each_alone():
    rng = np.random.default_rng(3)
    runs, all_of = drawn_runs(rng, slots=3), [embeddings(rng) for _ in range(4)]
    at = Embeddings(np.stack([e.workload for e in all_of]), np.stack([e.platform for e in all_of]))
    each = [e.residual(runs) for e in all_of]
    np.testing.assert_allclose(at.residual(runs), each, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(at.each()[2].platform, all_of[2].platform)
