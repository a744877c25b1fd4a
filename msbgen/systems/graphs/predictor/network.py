"""The paper's network: attention over tasks, cores and memories, in plain torch.

Nodes are tasks, resources (cores) and memories.  Edges have seven *relations*: the paper's four,
with separate relations for both directions (:data:`RELATIONS`).  N_r(v) are the sources of the
edges of relation r to v:

    h_v ← ELU(h_v + Σ_r Σ_{u ∈ N_r(v)} α_uvr W_r h_u)
    α_uvr = softmax over all u and all r of LeakyReLU(a_r · [W_r h_u ‖ W_r h_v ‖ φ_r(e_uvr)])

with several heads (GraphPerf-RT, equations 11 to 13: one softmax over all relations).  An MLP for
each type of node comes before.  Pooling of each type and a normal-inverse-gamma head for each
output follow (equations 10, 14, 15).

A network is a set of parameters, named tensors, and functions of them.  The graphs of a batch are
concatenated, edges are pairs of indices, and nothing is padded.  `torch` is imported when a network
is first made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.core.records import Count, ShareOrNone, Within, check_fields
from msbgen.systems.learn.extras import load_library

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

Floats = NDArray[np.float64]
Parameters = dict[str, Tensor]
Hidden = dict[str, Tensor]

TYPES = ("task", "resource", "memory")
# Relations, with the types of their source and target nodes.
RELATIONS = {
    "precedes": ("task", "task"),
    "follows": ("task", "task"),
    "runs on": ("task", "resource"),
    "hosts": ("resource", "task"),
    "shares": ("resource", "resource"),
    "uses": ("resource", "memory"),
    "serves": ("memory", "resource"),
}
# Slope of LeakyReLU below 0, and the size of φ.
_LEAK = 0.2
_EDGE_WIDTH = 16
# Least values of the evidence, so that first intervals are finite.
_LEAST = 1e-4


@dataclass(frozen=True)
class NetworkSettings:
    """Shape of a network."""

    width: Annotated[int, Within(2)] = 128
    layers: Count = 3
    heads: Count = 4
    # Probability of dropout in encoders and heads.
    dropout: ShareOrNone = 0.1
    # Whether each relation has weights of its own, or all share one set.
    typed_edges: bool = True
    # Whether memories are part of the graph.
    memories: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        if self.width % self.heads:
            raise ArgumentError(f"width is {self.width}; a multiple of heads is wanted.")

    @property
    def relations(self) -> dict[str, tuple[str, str]]:
        """Relations that the network uses."""
        if self.memories:
            return RELATIONS
        return {name: ends for name, ends in RELATIONS.items() if "memory" not in ends}

    def weights_of(self, relation: str) -> str:
        """Name of the weights of a relation."""
        return relation if self.typed_edges else "any"


@dataclass(frozen=True, eq=False)
class Batch:
    """Concatenated graphs, of arrays or of tensors.

    `features` (n_nodes, d) of each type of node; `member` (n_nodes,): the number of the graph of
    each node; `edges` (2, n_edges) of each relation: indices of source and target nodes; `weights`
    (n_edges, d): features of the edges; `n`: the number of graphs.
    """

    features: Mapping[str, Any]
    member: Mapping[str, Any]
    edges: Mapping[str, Any]
    weights: Mapping[str, Any]
    n: int

    @property
    def sizes(self) -> dict[str, int]:
        """Number of features of each type of node and of each relation's edges."""
        parts = {**self.features, **self.weights}
        return {name: int(array.shape[1]) for name, array in parts.items()}


def joined(batches: list[Batch]) -> Batch:
    """Concatenation of batches of arrays."""
    offset = {name: np.cumsum([0, *(len(b.features[name]) for b in batches)]) for name in TYPES}
    graph = np.cumsum([0, *(b.n for b in batches)])
    member = {
        name: np.concatenate([b.member[name] + graph[i] for i, b in enumerate(batches)])
        for name in TYPES
    }
    edges = {
        name: np.concatenate(
            [
                b.edges[name] + np.array([[offset[ends[0]][i]], [offset[ends[1]][i]]])
                for i, b in enumerate(batches)
            ],
            axis=1,
        )
        for name, ends in RELATIONS.items()
    }
    return Batch(
        features={name: np.concatenate([b.features[name] for b in batches]) for name in TYPES},
        member=member,
        edges=edges,
        weights={name: np.concatenate([b.weights[name] for b in batches]) for name in RELATIONS},
        n=int(graph[-1]),
    )


def on_tensors(batch: Batch, dtype: Any = None) -> Batch:
    """The batch with tensors in place of arrays; numbers of type `dtype`, by default float32."""
    torch = _torch()

    def tensors(arrays: Mapping[str, Any], dtype: Any) -> dict[str, Tensor]:
        return {k: torch.as_tensor(np.ascontiguousarray(v), dtype=dtype) for k, v in arrays.items()}

    return replace(
        batch,
        features=tensors(batch.features, dtype or torch.float32),
        weights=tensors(batch.weights, dtype or torch.float32),
        member=tensors(batch.member, torch.int64),
        edges=tensors(batch.edges, torch.int64),
    )


# ----------------------------------------------------------------------------------- parameters


def new_network(
    settings: NetworkSettings, sizes: Mapping[str, int], n_outputs: int, seed: int
) -> Parameters:
    """Initial parameters; `sizes` are as :attr:`Batch.sizes`."""
    return initial_parameters(parameter_shapes(settings, sizes, n_outputs), seed)


def parameter_shapes(
    settings: NetworkSettings, sizes: Mapping[str, int], n_outputs: int
) -> dict[str, tuple[int, ...]]:
    """Shape of each parameter of a network; `sizes` are as :attr:`Batch.sizes`."""
    shapes, width, heads = ParameterShapes(), settings.width, settings.heads
    for name in TYPES:
        shapes.linear(f"encode {name} 0", sizes[name], width)
        shapes.linear(f"encode {name} 1", width, width)
    shared = dict.fromkeys(settings.weights_of(name) for name in settings.relations)
    for layer in range(settings.layers):
        for name in shared:
            size = sizes[name] if name in sizes else max(sizes[r] for r in settings.relations)
            shapes.matrix(f"{layer} {name} transform", width, width)
            shapes.matrix(f"{layer} {name} from", heads, width // heads)
            shapes.matrix(f"{layer} {name} to", heads, width // heads)
            shapes.linear(f"{layer} {name} edge", size, _EDGE_WIDTH)
            shapes.matrix(f"{layer} {name} along", _EDGE_WIDTH, heads)
    shapes.heads(pooled_width(settings), width, n_outputs)
    return shapes


def pooled_width(settings: NetworkSettings) -> int:
    """Number of pooled features of a graph."""
    return settings.width * (4 if settings.memories else 3)


class ParameterShapes(dict[str, tuple[int, ...]]):
    """Shapes of parameters by name, in the order in which they are drawn."""

    def matrix(self, name: str, rows: int, columns: int) -> None:
        """Add a matrix."""
        self[name] = rows, columns

    def linear(self, name: str, rows: int, columns: int) -> None:
        """Add a matrix and a bias."""
        self.matrix(f"{name} weight", rows, columns)
        self[f"{name} bias"] = (columns,)

    def heads(self, pooled: int, width: int, n_outputs: int) -> None:
        """Add the trunk that outputs share, and the head with four numbers for each."""
        self.linear("trunk 0", pooled, width)
        self.linear("trunk 1", width, width)
        self.linear("head", width, 4 * n_outputs)


def initial_parameters(shapes: Mapping[str, tuple[int, ...]], seed: int) -> Parameters:
    """Glorot's uniform numbers for matrices, zeros for biases; drawn from a separate generator."""
    torch = _torch()
    generator = torch.Generator().manual_seed(seed % 2**63)
    parameters: Parameters = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            value = torch.zeros(shape)
        else:
            limit = (6.0 / sum(shape)) ** 0.5
            value = torch.rand(shape, generator=generator) * 2 * limit - limit
        parameters[name] = value.requires_grad_()
    return parameters


def numbers_of(parameters: Parameters) -> dict[str, NDArray[np.float32]]:
    """Parameters as arrays."""
    return {name: value.detach().numpy().copy() for name, value in parameters.items()}


def tensors_of(arrays: Mapping[str, NDArray[Any]]) -> Parameters:
    """Parameters from arrays."""
    torch = _torch()
    return {name: torch.tensor(a, dtype=torch.float32) for name, a in arrays.items()}


# -------------------------------------------------------------------------------------- forward

# Computes the hidden states of the next layer.
Layer = Callable[[Parameters, int, Hidden, Batch, NetworkSettings], Hidden]
# Dropout; the identity outside of training.
Drop = Callable[[Tensor], Tensor]


def attend(
    parameters: Parameters, layer: int, hidden: Hidden, batch: Batch, settings: NetworkSettings
) -> Hidden:
    """Hidden states after one layer of attention (equations 11 to 13)."""
    import torch

    first, total = node_places(hidden)
    heads, width = settings.heads, settings.width
    logits, messages, goals = [], [], []
    for name, (start, end) in settings.relations.items():
        prefix = f"{layer} {settings.weights_of(name)}"
        transform = parameters[f"{prefix} transform"]
        sent = hidden[start] @ transform
        split = sent.view(-1, heads, width // heads)
        by_source = (split * parameters[f"{prefix} from"]).sum(-1)
        # a · W h_v = (W a) · h_v saves transforming the targets
        toward = (transform.view(width, heads, -1) * parameters[f"{prefix} to"]).sum(-1)
        by_goal = hidden[end] @ toward
        by_edge = edge_terms(parameters, prefix, batch.weights[name])
        source, goal = batch.edges[name]
        logit = by_source.index_select(0, source) + by_goal.index_select(0, goal) + by_edge
        logits.append(torch.nn.functional.leaky_relu(logit, _LEAK))
        messages.append(split.index_select(0, source))
        goals.append(goal + first[end])
    goal = torch.cat(goals)
    share = softmax_by(torch.cat(logits), goal, total)
    weighted = (share[:, :, None] * torch.cat(messages)).reshape(-1, width)
    gathered = torch.zeros(total, width, dtype=weighted.dtype).index_add(0, goal, weighted)
    parts = gathered.split([len(hidden[name]) for name in hidden])
    return {name: torch.nn.functional.elu(hidden[name] + part) for name, part in zip(hidden, parts)}


def edge_terms(parameters: Parameters, prefix: str, weights: Tensor) -> Tensor:
    """Terms of the logits from the features of edges, (n_edges, n_heads)."""
    import torch

    matrix = parameters[f"{prefix} edge weight"][: weights.shape[1]]
    projected = torch.relu(weights @ matrix + parameters[f"{prefix} edge bias"])
    return projected @ parameters[f"{prefix} along"]


def node_places(hidden: Hidden) -> tuple[dict[str, int], int]:
    """Offset of the nodes of each type in their concatenation, and the number of nodes."""
    first, total = {}, 0
    for name, value in hidden.items():
        first[name] = total
        total += len(value)
    return first, total


def softmax_by(logits: Tensor, goal: Tensor, n: int) -> Tensor:
    """Softmax over the edges to the same node, for each head, (n_edges, n_heads)."""
    import torch

    where = goal[:, None].expand_as(logits)
    start = torch.full((n, logits.shape[1]), -torch.inf, dtype=logits.dtype)
    largest = start.scatter_reduce(0, where, logits.detach(), "amax")
    grown = torch.exp(logits - largest.index_select(0, goal))
    total = torch.zeros_like(start).index_add(0, goal, grown)
    return grown / total.index_select(0, goal)


def forward(
    parameters: Parameters,
    batch: Batch,
    settings: NetworkSettings,
    *,
    layer: Layer = attend,
    drop: Drop = lambda value: value,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Outputs of the heads for each graph: γ, ν, α, β, each (n, n_outputs).

    The batch is of tensors (:func:`on_tensors`).  Peers use a `layer` of their own in place of
    attention; `drop` is dropout, while training.
    """
    import torch

    types = [name for name in TYPES if settings.memories or name != "memory"]
    hidden = {}
    for name in types:
        first = torch.relu(linear(parameters, f"encode {name} 0", batch.features[name]))
        hidden[name] = linear(parameters, f"encode {name} 1", drop(first))
    for number in range(settings.layers):
        hidden = layer(parameters, number, hidden, batch, settings)
    pooled = [_mean_by(hidden[name], batch.member[name], batch.n) for name in types]
    pooled.insert(1, _largest_by(hidden["task"], batch.member["task"], batch.n))
    trunk = torch.relu(linear(parameters, "trunk 0", torch.cat(pooled, dim=1)))
    trunk = torch.relu(linear(parameters, "trunk 1", drop(trunk)))
    gamma, nu, alpha, beta = linear(parameters, "head", trunk).chunk(4, dim=1)
    softplus = torch.nn.functional.softplus
    return gamma, softplus(nu) + _LEAST, softplus(alpha) + 1.0 + _LEAST, softplus(beta) + _LEAST**2


def linear(parameters: Parameters, name: str, value: Tensor) -> Tensor:
    """Apply a linear layer of the network."""
    return value @ parameters[f"{name} weight"] + parameters[f"{name} bias"]


def _mean_by(values: Tensor, member: Tensor, n: int) -> Tensor:
    import torch

    total = torch.zeros(n, values.shape[1], dtype=values.dtype).index_add(0, member, values)
    count = torch.bincount(member, minlength=n).clamp(min=1)
    return total / count[:, None].to(values.dtype)


def _largest_by(values: Tensor, member: Tensor, n: int) -> Tensor:
    import torch

    start = torch.full((n, values.shape[1]), -torch.inf, dtype=values.dtype)
    return start.scatter_reduce(0, member[:, None].expand_as(values), values, "amax")


def _torch() -> Any:
    return load_library("torch", "graph", "networks of task graphs")
