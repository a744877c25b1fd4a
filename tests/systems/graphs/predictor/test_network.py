import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.systems.graphs.predictor.network import (
    RELATIONS,
    TYPES,
    Batch,
    NetworkSettings,
    attend,
    forward,
    joined,
    new_network,
    on_tensors,
    softmax_by,
)
from needing import needs_torch

pytestmark = needs_torch
SMALL = NetworkSettings(width=8, layers=2, heads=2)


def random_graph(rng, tasks=5, resources=3, memories=2):
    count = dict(zip(TYPES, (tasks, resources, memories)))
    pairs = {
        name: np.argwhere(rng.random((count[a], count[b])) < 0.5).T.reshape(2, -1)
        for name, (a, b) in RELATIONS.items()
    }
    return Batch(
        features={name: rng.normal(size=(n, 4)) for name, n in count.items()},
        member={name: np.zeros(n, dtype=np.int64) for name, n in count.items()},
        edges=pairs,
        weights={name: rng.normal(size=(p.shape[1], 3)) for name, p in pairs.items()},
        n=1,
    )


def attention_by_loops(parameters, layer, hidden, batch, settings):
    """Equations 11 to 13, one node and one head after another."""
    d = settings.width // settings.heads
    result = {}
    for kind in hidden:
        rows = []
        for v in range(len(hidden[kind])):
            new = np.zeros(settings.width)
            for head in range(settings.heads):
                part = slice(head * d, (head + 1) * d)
                scores, values = [], []
                for name, (start, end) in settings.relations.items():
                    if end != kind:
                        continue
                    own = f"{layer} {settings.weights_of(name)}"
                    w = parameters[f"{own} transform"]
                    for k, (u, goal) in enumerate(batch.edges[name].T):
                        if goal != v:
                            continue
                        sent = (hidden[start][u] @ w)[part]
                        here = (hidden[end][v] @ w)[part]
                        phi = np.maximum(
                            batch.weights[name][k] @ parameters[f"{own} edge weight"]
                            + parameters[f"{own} edge bias"],
                            0,
                        )
                        score = (
                            parameters[f"{own} from"][head] @ sent
                            + parameters[f"{own} to"][head] @ here
                            + parameters[f"{own} along"][:, head] @ phi
                        )
                        scores.append(score if score > 0 else 0.2 * score)
                        values.append(sent)
                if scores:
                    share = np.exp(scores) / np.exp(scores).sum()
                    new[part] = share @ np.array(values)
            z = hidden[kind][v] + new
            rows.append(np.where(z > 0, z, np.expm1(z)))
        result[kind] = np.array(rows)
    return result


@pytest.mark.parametrize("typed", [True, False])
def test_attention_is_that_of_slow_loops(typed):
    import torch

    rng = np.random.default_rng(1)
    settings = NetworkSettings(width=8, layers=1, heads=2, typed_edges=typed)
    graph = random_graph(rng)
    parameters = new_network(settings, graph.sizes, 2, seed=3)
    hidden = {name: rng.normal(size=(len(graph.features[name]), 8)) for name in TYPES}
    wide = {name: value.double() for name, value in parameters.items()}
    found = attend(
        wide,
        0,
        {name: torch.tensor(value) for name, value in hidden.items()},
        on_tensors(graph, torch.float64),
        settings,
    )
    arrays = {name: value.detach().double().numpy() for name, value in parameters.items()}
    wanted = attention_by_loops(arrays, 0, hidden, graph, settings)
    for name in TYPES:
        assert np.allclose(found[name].detach().numpy(), wanted[name], atol=1e-12)


def test_shares_of_the_edges_to_a_node_sum_to_one_whatever_their_logits():
    import torch

    logits = torch.tensor([[1e4, -1e4], [1e4, 0.0], [3.0, 3.0]])
    share = softmax_by(logits, torch.tensor([0, 0, 2]), 3)
    assert torch.allclose(share, torch.tensor([[0.5, 0.0], [0.5, 1.0], [1.0, 1.0]]))


def answers(graph, parameters, settings=SMALL):
    import torch

    with torch.no_grad():
        return torch.cat(forward(parameters, on_tensors(graph), settings), dim=1).numpy()


@pytest.mark.parametrize("settings", [SMALL, NetworkSettings(8, 2, 2, memories=False)])
def test_graphs_of_a_batch_do_not_see_each_other(settings):
    rng = np.random.default_rng(2)
    graphs = [random_graph(rng, tasks=n) for n in (1, 4, 7)]
    parameters = new_network(settings, graphs[0].sizes, 2, seed=0)
    together = answers(joined(graphs), parameters, settings)
    alone = np.concatenate([answers(g, parameters, settings) for g in graphs])
    assert together.shape == (3, 8)
    assert np.allclose(together, alone, atol=1e-5)
    assert np.all(together[:, 2:] > 0)  # ν, α, β
    assert np.all(together[:, 4:6] > 1)  # α


def test_shapes_that_are_none_are_refused():
    with pytest.raises(ArgumentError, match="multiple of heads"):
        NetworkSettings(width=10, heads=4)
    with pytest.raises(ArgumentError, match="dropout is 1"):
        NetworkSettings(dropout=1.0)
    with pytest.raises(ArgumentError, match="layers is 0"):
        NetworkSettings(layers=0)
