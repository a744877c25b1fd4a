"""Peers of predictions of graphs: bounds, tables, homogeneous and other heterogeneous networks.

Each predicts logarithms of time and energy. Tabular peers see the features that need no schedule,
of all devices at once. Networks see the same as ours and are trained as long.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.systems.graphs.kinds import Kind
from msbgen.systems.graphs.predictor.features import columns
from msbgen.systems.graphs.predictor.network import (
    TYPES,
    Batch,
    NetworkSettings,
    Parameters,
    linear,
    node_places,
    softmax_by,
)
from msbgen.systems.learn.boosting import BoostingSettings, fit_boosting

Floats = NDArray[np.float64]
# From features and logarithms of known runs, and features of others, to their logarithms.
Tabular = Callable[[Floats, Floats, Floats, int], Floats]


@dataclass(frozen=True)
class Budget:
    """Training of every network, on one core: runs to learn from, and epochs of both stages.

    Peers without evidence have all epochs in the first stage. ``members`` are those of an ensemble,
    ``draws`` those of dropout.
    """

    runs: int = 400
    epochs: int = 10
    evidential: int = 3
    members: int = 5
    draws: int = 5


# The budget of the study, and a longer one for one trial.
BUDGET, LONGER = Budget(), Budget(runs=1600, epochs=24, evidential=6)
ENSEMBLE = f"HGT × {BUDGET.members}"
TRAINED_LONGER = "network, nine times the training"
BOOSTING = BoostingSettings(rounds=400, depth=6, rate=0.05, least=5.0)


def brent(kinds: tuple[Kind, ...]) -> Tabular:
    """Brent's bound, and the power of all busy cores, with a constant fitted to each."""
    names = columns(kinds)

    def bound_of(table: Floats) -> Floats:
        bound = table[:, names.index("log Brent")]
        always, full = (table[:, names.index(n)] for n in ("always", "full power"))
        # work over (span + work over cores): how many of the cores are busy, at most
        busy = 1.0 / (1.0 + np.exp(-table[:, names.index("work over span")]))
        return np.stack([bound, bound + np.log(always + (full - always) * busy)], axis=1)

    def answer(shown: Floats, log: Floats, new: Floats, seed: int) -> Floats:
        return bound_of(new) + np.median(log - bound_of(shown), axis=0)

    return answer


def ridge(shown: Floats, log: Floats, new: Floats, seed: int) -> Floats:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13)))
    return model.fit(shown, log).predict(new)


def forest(shown: Floats, log: Floats, new: Floats, seed: int) -> Floats:
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(100, max_features=0.33, n_jobs=1, random_state=seed)
    return model.fit(shown, log).predict(new)


def boosting(shown: Floats, log: Floats, new: Floats, seed: int) -> Floats:
    return fit_boosting(shown, log, BOOSTING, seed).predict(new)


def perceptron(shown: Floats, log: Floats, new: Floats, seed: int) -> Floats:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    layers = MLPRegressor(
        hidden_layer_sizes=(128, 128, 128),
        early_stopping=True,
        max_iter=60,
        learning_rate_init=1e-3,
        random_state=seed,
    )
    model = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), layers), transformer=StandardScaler()
    )
    return model.fit(shown, log).predict(new)


def tabular(kinds: tuple[Kind, ...]) -> dict[str, Tabular]:
    return {
        "Brent": brent(kinds),
        "ridge": ridge,
        "forest": forest,
        "boosting": boosting,
        "MLP": perceptron,
    }


def convolve(
    parameters: Parameters, layer: int, hidden: dict, batch: Batch, settings: NetworkSettings
) -> dict:
    """A graph convolution: all edges alike, each weighted by the degrees of its ends."""
    import torch

    first, total = node_places(hidden)
    ends = settings.relations
    source = torch.cat([batch.edges[n][0] + first[a] for n, (a, _) in ends.items()])
    goal = torch.cat([batch.edges[n][1] + first[b] for n, (_, b) in ends.items()])
    own = torch.arange(total)
    source, goal = torch.cat([source, own]), torch.cat([goal, own])
    degree = torch.bincount(goal, minlength=total).clamp(min=1).to(torch.float32)
    weight = (degree[source] * degree[goal]).rsqrt()
    sent = torch.cat(list(hidden.values())) @ parameters[f"{layer} any transform"]
    gathered = torch.zeros_like(sent).index_add(
        0, goal, weight[:, None] * sent.index_select(0, source)
    )
    parts = torch.relu(gathered).split([len(value) for value in hidden.values()])
    return dict(zip(hidden, parts))


def transform(
    parameters: Parameters, layer: int, hidden: dict, batch: Batch, settings: NetworkSettings
) -> dict:
    """A layer of the heterogeneous graph transformer (Hu et al. 2020, Section 3)."""
    import torch

    first, total = node_places(hidden)
    heads, width = settings.heads, settings.width
    keys, queries, values = (
        {
            kind: linear(parameters, f"{layer} {what} {kind}", value).view(
                -1, heads, width // heads
            )
            for kind, value in hidden.items()
        }
        for what in ("key", "query", "value")
    )
    logits, messages, goals = [], [], []
    for name, (start, end) in settings.relations.items():
        own = f"{layer} {name}"
        attention = parameters[f"{own} attention"].view(heads, width // heads, -1)
        message = parameters[f"{own} message"].view(heads, width // heads, -1)
        key = torch.einsum("nhi,hij->nhj", keys[start], attention)
        sent = torch.einsum("nhi,hij->nhj", values[start], message)
        source, goal = batch.edges[name]
        logit = (key.index_select(0, source) * queries[end].index_select(0, goal)).sum(-1) * (
            width // heads
        ) ** -0.5
        logits.append(logit * parameters[f"{own} prior"][0])
        messages.append(sent.index_select(0, source))
        goals.append(goal + first[end])
    goal = torch.cat(goals)
    share = softmax_by(torch.cat(logits), goal, total)
    weighted = (share[:, :, None] * torch.cat(messages)).reshape(-1, width)
    gathered = torch.zeros(total, width).index_add(0, goal, weighted)
    parts = torch.nn.functional.gelu(gathered).split([len(value) for value in hidden.values()])
    result = {}
    for (kind, value), part in zip(hidden.items(), parts):
        gate = torch.sigmoid(parameters[f"{layer} skip {kind}"][0])
        result[kind] = gate * linear(parameters, f"{layer} out {kind}", part) + (1 - gate) * value
    return result


def transformer_start(
    settings: NetworkSettings, sizes: dict[str, int], n_outputs: int, seed: int
) -> Parameters:
    """Initial parameters of the transformer."""
    from msbgen.systems.graphs.predictor.network import (
        ParameterShapes,
        initial_parameters,
        pooled_width,
    )

    shapes, width = ParameterShapes(), settings.width
    for kind in TYPES:
        shapes.linear(f"encode {kind} 0", sizes[kind], width)
        shapes.linear(f"encode {kind} 1", width, width)
    for layer in range(settings.layers):
        for kind in TYPES:
            for what in ("key", "query", "value", "out"):
                shapes.linear(f"{layer} {what} {kind}", width, width)
            shapes.matrix(f"{layer} skip {kind}", 1, 1)
        for name in settings.relations:
            for what in ("attention", "message"):
                shapes.matrix(f"{layer} {name} {what}", width, width // settings.heads)
            shapes.matrix(f"{layer} {name} prior", 1, settings.heads)
    shapes.heads(pooled_width(settings), width, n_outputs)
    return initial_parameters(shapes, seed)
