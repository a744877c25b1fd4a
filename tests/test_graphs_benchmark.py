"""The benchmark of task graphs: its scores on made-up answers, its peers on a toy board."""

from concurrent.futures import ThreadPoolExecutor

import agents_study
import graphs_peers
import graphs_splits
import graphs_study as study
import numpy as np
import pytest

import episodes
from msbgen.systems.graphs.boards import Board, prepare_graph
from msbgen.systems.graphs.devices import device_contexts
from msbgen.systems.graphs.kinds import read_kinds
from msbgen.systems.graphs.predictor.features import GraphShape, plain_features
from toy_board import CYCLES, GRAPHS, device_of, profiles_of


@pytest.fixture
def answers(tmp_path):
    """Predictions of 60 runs of 12 graphs of two families on one device, in two seeds."""
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        log = rng.normal(size=(60, 2))
        kept = {
            "log": log,
            "graph": np.repeat([f"g{i}" for i in range(12)], 5),
            "family": np.repeat(["one", "other"], 30),
            "device": np.repeat("tx2", 60),
            "floor": np.array([0.03, 0.02]),
        }
        for name, held_out in (("contexts", np.arange(60) % 2 == 0), ("families 0", log[:, 0] < 9)):
            kept[f"{name}|held"] = held_out
            kept[f"{name}|default"] = log[held_out] + [0.1, -0.05]
            kept[f"{name}|list schedule"] = log[held_out] + [-0.1, 0.05]
            kept[f"{name}|ridge"] = log[held_out] + [0.3 + 0.1 * seed, 0.3]
            kept[f"{name}|low"] = log[held_out] - [0.2, 0.1]
            kept[f"{name}|high"] = log[held_out] + [0.2, -0.05]
        np.savez(tmp_path / f"graph-{seed}-ours.npz", **kept)
    return tmp_path


def test_scores_are_those_of_the_predictions(answers):
    found = study.summary(answers, range(5))  # of the seeds that are there
    assert found["floor"] == pytest.approx([0.03, 0.02])
    assert study.means(found, "default", "families")[:3] == pytest.approx((0.1, 0.05, 1.0))
    assert study.means(found, "ridge", "contexts")[0] == pytest.approx(0.35)
    assert study.means(found, "network", "contexts")[3] == 0
    inside = [row["inside"] for row in found["intervals"]]
    assert np.allclose(inside, [1.0, 0.0])
    assert np.allclose([row["width"] for row in found["intervals"]], [0.4, 0.05])
    assert found["tests"]["ridge"]["effect"] == 1.0
    assert found["tests"]["ridge"]["graphs"] == 24
    assert found["tests"]["ridge"]["corrected"] < 1e-3
    assert found["worst against the schedule"] == pytest.approx({"time": 1.0, "energy": 1.0})


def test_tables_mark_missing_methods(answers):
    found = study.summary(answers, (0, 1))
    table = study.error_table(found)
    assert "| default | 0.100 / 0.050 (1.00; 2) | 0.100 / 0.050 (1.00; 2) | — | — |" in table
    assert "≤ 0.054 / 0.040" in table
    assert "| network | — | — | — | — |" in table
    assert "conformal, families | 100.0 / 0.0 %" in study.interval_table(found)
    assert "| ridge | " in study.test_table(found)


def test_every_family_and_every_device_is_held_out_once():
    n = 90
    names = np.array([f"f{i % 18}" for i in range(n)])
    device = np.array(["a", "b", "c"])[np.arange(n) % 3]
    table = graphs_splits.Table(np.zeros((n, 2)), np.zeros((n, 1)), names, names, device)
    found = graphs_splits.splits(table, 3)
    families = np.sum([h for name, h in found.items() if name.startswith("families")], axis=0)
    devices = np.sum([h for name, h in found.items() if name.startswith("platform")], axis=0)
    assert np.all(families == 1)
    assert np.all(devices == 1)
    assert 10 < found["contexts"].sum() < 40


@pytest.fixture(scope="module")
def table():
    kinds = read_kinds({kind: profiles_of(kind) for kind in CYCLES})
    board = Board(device_of(), kinds)
    contexts = device_contexts(board.device)[::5]
    rows, start = board.rows(contexts), np.full(len(contexts), 30.0)
    graphs = list(GRAPHS.values())[:8]
    return kinds, np.concatenate(
        [plain_features(GraphShape(prepare_graph(g, kinds), board), rows, start) for g in graphs]
    )


@pytest.mark.parametrize("name", ["Brent", "ridge", "forest", "boosting"])
def test_tabular_peers_learn_a_power_of_the_bound(name, table):
    kinds, rows = table
    names = graphs_peers.columns(kinds)
    bound = rows[:, names.index("log Brent")]
    log = np.stack([bound + 0.5, bound + 2.0], axis=1)
    held_out = np.arange(len(rows)) % 4 == 0
    peer = graphs_peers.tabular(kinds)[name]
    predicted = peer(rows[~held_out], log[~held_out], rows[held_out], 0)
    error = np.sqrt(((predicted - log[held_out]) ** 2).mean(axis=0))
    assert error[0] < 0.3 * log[held_out].std(axis=0)[0]


@pytest.mark.parametrize("peer", ["GCN", "HGT"])
def test_network_peers_predict_each_graph_alone(peer):
    torch = pytest.importorskip("torch", reason="torch is missing; pip install msbgen[graph]")
    torch.set_num_threads(1)
    from msbgen.systems.graphs.predictor import network
    from msbgen.systems.graphs.predictor.encoder import GraphEncoder

    kinds = read_kinds({kind: profiles_of(kind) for kind in CYCLES})
    board = Board(device_of(), kinds)
    row = board.rows([[2, 2.0, 2, 1.0, 8, 800]])[0]
    batches = [GraphEncoder(g, board).batch(row, 30.0) for g in list(GRAPHS.values())[:3]]
    settings = network.NetworkSettings(width=8, layers=2, heads=2, typed_edges=peer == "HGT")
    start = graphs_peers.transformer_start if peer == "HGT" else network.new_network
    layer = graphs_peers.transform if peer == "HGT" else graphs_peers.convolve
    parameters = start(settings, batches[0].sizes, 2, 0)

    def answer(batch):
        with torch.no_grad():
            tensors = network.on_tensors(batch)
            return network.forward(parameters, tensors, settings, layer=layer)[0].numpy()

    together, alone = answer(network.joined(batches)), np.concatenate([answer(b) for b in batches])
    assert np.allclose(together, alone, rtol=1e-3, atol=1e-3 * np.abs(alone).max())
    assert not np.allclose(alone[0], alone[1])


def test_the_study_of_agents_runs_once_and_resumes(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is missing; pip install msbgen[graph]")
    world = episodes.world(length=3)
    truth = agents_study.play.Oracle(world)
    made = agents_study.Setting(0, world, world, episodes.TX2, truth, truth)
    seeds, put = [], {}
    # jobs run in this process, where what is replaced below stays so

    monkeypatch.setattr(agents_study, "setting_of", lambda work, seed: seeds.append(seed) or made)
    monkeypatch.setattr(agents_study, "all_kinds", lambda work, processes: None)
    monkeypatch.setattr(agents_study, "ProcessPoolExecutor", ThreadPoolExecutor)
    for name, value in {"EPISODES": 2, "HEATED": 2, "DEADLINES": 1, "SHORT": 3, "LONG": 4}.items():
        monkeypatch.setattr(agents_study, name, value)
    monkeypatch.setattr(agents_study, "AGENTS", {"D3QN": 0})
    monkeypatch.setattr(agents_study, "LONG_AGENTS", {agents_study.TABLE: 0})
    monkeypatch.setattr(agents_study, "RESULTS", tmp_path)
    monkeypatch.setattr(agents_study, "publish", put.update)
    agents_study.run(tmp_path, seeds=1, long=1, processes=1)
    assert seeds == [0, 0, 0]
    names = [line.split(" | ")[0].strip("| ") for line in put["graph-choice"].splitlines()[2:]]
    assert names[0] == agents_study.ORACLE
    assert {"search, cautious", "tabular Q, 3 episodes", "tabular Q, 4 episodes"} <= set(names)
    assert "D3QN, 3 episodes" in names
    rows = dict(zip(names, put["graph-choice"].splitlines()[2:]))
    assert rows[agents_study.ORACLE].split(" | ")[1] == rows["search"].split(" | ")[1]  # the truth
    assert "| bounds | " in put["graph-deadlines"]
    agents_study.run(tmp_path, seeds=1, long=1, processes=1)
    assert seeds == [0, 0, 0]  # nothing was left to do
