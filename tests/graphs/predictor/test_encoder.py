import numpy as np
import pytest

from msbgen.graphs.predictor.encoder import TELEMETRY, GraphEncoder
from msbgen.graphs.predictor.network import RELATIONS, TYPES, joined
from toy_board import device_of, layered


@pytest.fixture(scope="module")
def scene(board):
    return GraphEncoder(layered("abcd", 2), board)


def batch(scene, context, start=30.0, **how):
    return scene.batch(scene.board.rows([context])[0], start, **how)


ALL = [2, 2.0, 2, 1.0, 8, 800]


def test_edges_are_those_of_the_graph_in_both_directions(scene):
    found, graph = batch(scene, ALL), scene.dataset
    pairs = np.stack([graph["source"].values, graph["target"].values])
    assert np.array_equal(found.edges["precedes"], pairs)
    assert np.array_equal(found.edges["follows"], pairs[::-1])
    for name, (start, end) in RELATIONS.items():
        edges = found.edges[name]
        assert edges.shape[1] == len(found.weights[name])
        if edges.size:
            assert edges[0].max() < len(found.features[start])
            assert edges[1].max() < len(found.features[end])


def test_each_task_is_placed_once_on_a_core_that_is_given(scene):
    for context, given in ((ALL, {0, 1, 2, 3}), ([1, 2.0, 0, 1.0, 8, 800], {0})):
        found = batch(scene, context)
        tasks, cores = found.edges["runs on"]
        assert sorted(tasks.tolist()) == list(range(scene.dataset.sizes["task"]))
        assert set(cores.tolist()) <= given
        assert np.array_equal(found.edges["hosts"], found.edges["runs on"][::-1])
        assert set(found.edges["shares"].ravel().tolist()) == (given if len(given) > 1 else set())


def test_cores_use_their_cache_and_the_memory(scene, kinds):
    found = batch(scene, ALL)
    assert len(found.features["memory"]) == 3
    pairs = set(map(tuple, found.edges["uses"].T.tolist()))
    assert pairs == {(0, 0), (1, 0), (2, 1), (3, 1), (0, 2), (1, 2), (2, 2), (3, 2)}
    shared = GraphEncoder(
        layered("abcd", 2), type(scene.board)(device_of(shared_by="device"), kinds)
    )
    assert len(batch(shared, ALL).features["memory"]) == 2


def test_telemetry_is_all_that_the_temperature_changes(scene):
    cold, hot = batch(scene, ALL, 25.0), batch(scene, ALL, 60.0)
    differ = np.flatnonzero((cold.features["resource"] != hot.features["resource"]).any(axis=0))
    assert tuple(differ) == TELEMETRY
    blind = [batch(scene, ALL, t, telemetry=False).features["resource"] for t in (25.0, 60.0)]
    assert np.array_equal(*blind)


def test_features_are_finite_and_batches_join(scene):
    parts = [batch(scene, ALL), batch(scene, [0, 0.5, 1, 0.5, 4, 800])]
    whole = joined(parts)
    assert whole.n == 2
    for name in TYPES:
        assert np.isfinite(whole.features[name]).all()
        assert np.bincount(whole.member[name]).tolist() == [len(p.features[name]) for p in parts]
