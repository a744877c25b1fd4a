import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.systems.graphs.predictor.network import RELATIONS, TYPES, Batch, NetworkSettings
from msbgen.systems.graphs.predictor.training import FeatureScaling, NetworkTraining, fit_network
from needing import needs_torch

pytestmark = needs_torch
SMALL = NetworkSettings(width=16, layers=2, heads=2, dropout=0.02)
SHORT = NetworkTraining(
    epochs=10, evidential_epochs=4, rate=1e-2, evidential_rate=1e-3, rows=12, noise=0.02
)

BRIEF = NetworkTraining(epochs=1, evidential_epochs=1, rows=12)


def chains(n, seed=0):
    """Chains on one core; the outputs are the longest task's feature and the core's."""
    rng = np.random.default_rng(seed)
    batches, outputs = [], []
    none = {name: np.empty((2, 0), dtype=np.int64) for name in RELATIONS}
    for _ in range(n):
        tasks = rng.integers(2, 5)
        task, core = rng.normal(size=(tasks, 2)), rng.normal(size=(1, 2))
        path = np.stack([np.arange(tasks - 1), np.arange(1, tasks)])
        home = np.stack([np.zeros(tasks, dtype=np.int64), np.arange(tasks)])
        edges = {**none, "precedes": path, "follows": path[::-1], "hosts": home}
        edges |= {"runs on": home[::-1], "uses": np.zeros((2, 1), np.int64)}
        batches.append(
            Batch(
                features={"task": task, "resource": core, "memory": np.ones((1, 1))},
                member={name: np.zeros(k, dtype=np.int64) for name, k in zip(TYPES, (tasks, 1, 1))},
                edges=edges,
                weights={name: np.ones((e.shape[1], 1)) for name, e in edges.items()},
                n=1,
            )
        )
        outputs.append([task[:, 0].max(), core[0, 0] + 3.0 * task[:, 1].mean()])
    return batches, np.array(outputs) * 10 + 100


BATCHES, OUTPUTS = chains(160)
HELD = np.arange(160) % 4 == 0


@pytest.fixture(scope="module")
def trained():
    return fit_network(BATCHES, OUTPUTS, HELD, settings=SMALL, training=SHORT, seed=1)


def test_what_was_learned_holds_for_graphs_never_shown(trained):
    batches, outputs = chains(80, seed=9)
    error = np.sqrt(((trained.predict(batches).gamma - outputs) ** 2).mean(axis=0))
    assert np.all(error < 0.5 * outputs.std(axis=0))


def test_widened_intervals_cover_what_was_held_back_and_about_as_much_of_the_rest(trained):
    low, high = trained.interval([b for b, h in zip(BATCHES, HELD) if h])
    inside = (low <= OUTPUTS[HELD]) & (OUTPUTS[HELD] <= high)
    assert np.all(inside.mean(axis=0) >= 0.95)
    batches, outputs = chains(80, seed=9)
    low, high = trained.interval(batches)
    assert np.all(((low <= outputs) & (outputs <= high)).mean(axis=0) > 0.8)


def test_the_likelihood_is_that_of_outputs_in_their_own_units():
    """A network of the same outputs in tenths: every interval is ten times as wide."""
    once, tenfold = (
        fit_network(BATCHES[:40], factor * OUTPUTS[:40], HELD[:40], settings=SMALL, training=BRIEF)
        for factor in (1, 10)
    )
    one, other = once.predict(BATCHES[:5]), tenfold.predict(BATCHES[:5])
    assert np.allclose(other.gamma, 10 * one.gamma, rtol=1e-4)
    assert np.allclose(other.half_width(0.1), 10 * one.half_width(0.1), rtol=1e-3)


def test_dropout_at_prediction_spreads_answers_around_the_one_without(trained):
    draws = np.stack([trained.predict_dropped(BATCHES[:10], seed) for seed in range(40)])
    assert np.all(draws.std(axis=0) > 0)
    assert np.array_equal(draws[3], trained.predict_dropped(BATCHES[:10], 3))
    off = draws.mean(axis=0) - trained.predict(BATCHES[:10]).gamma
    assert np.all(np.abs(off) < 3 * draws.std(axis=0))


def test_scaling_leaves_constant_features_finite():
    scaling = FeatureScaling.of(BATCHES, OUTPUTS)
    scaled = scaling.scaled(BATCHES[0])
    assert np.array_equal(scaled.features["memory"], np.zeros((1, 1)))
    assert all(np.isfinite(v).all() for v in (*scaled.features.values(), *scaled.weights.values()))


def test_what_cannot_be_trained_is_refused():
    with pytest.raises(MeasurementError, match="0 of 160 graphs are held back"):
        fit_network(BATCHES, OUTPUTS, np.zeros(160, dtype=bool))
    with pytest.raises(ArgumentError, match="160 are wanted"):
        fit_network(BATCHES, OUTPUTS[:5], HELD)
    with pytest.raises(ArgumentError, match="lost_edges is 1"):
        NetworkTraining(lost_edges=1.0)
    with pytest.raises(ArgumentError, match="epochs is 0"):
        NetworkTraining(epochs=0)
    with pytest.raises(ArgumentError, match="noise is -1"):
        NetworkTraining(noise=-1)
