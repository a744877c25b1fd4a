"""Training of a network in the paper's three stages: squared errors, evidence, widening.

1. AdamW on the squared error of γ, in units of each output's standard deviation.
2. A smaller rate on the evidential loss, the squared error, a penalty of evidence with large
   errors, and a penalty of pairs of rows whose upper ends are in the wrong order.
3. Intervals are widened by one factor for each output, fitted to held-back rows.

Held-back rows are scored after each epoch, and the best parameters are kept.  Edges are dropped,
features get noise, gradients are clipped (GraphPerf-RT, Section 4.4 and Appendix J).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import NOT_NEGATIVE, POSITIVE, Stored
from msbgen.core.errors import ArgumentError, MeasurementError, quoted
from msbgen.core.machine import OnProgress
from msbgen.core.parts import Given
from msbgen.core.records import Count, NotNegative, Positive, ShareOrNone, Within, check_fields
from msbgen.systems.graphs.predictor import evidential, network

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# A feature counts as constant if its deviation is below this share of its size.
_CONSTANT = 1e-9
# Largest norm of gradients.
_CLIP = 1.0
# Rows that are evaluated together.
_ROWS = 64


@dataclass(frozen=True)
class NetworkTraining:
    """Settings of the training of a network."""

    # Of the first and of the second stage; 0 of the second trains on squared errors alone.
    epochs: Count = 30
    evidential_epochs: Annotated[int, Within(0)] = 8
    # Learning rates.
    rate: Positive = 1e-3
    evidential_rate: Positive = 1e-4
    # Of a batch.
    rows: Count = 32
    # Weights, beside the evidential loss, of squared errors, of evidence with large errors, and of
    # pairs in the wrong order.
    squares: NotNegative = 20.0
    charge: NotNegative = 0.001
    ranking: NotNegative = 0.1
    # Share of the edges that are dropped from a batch.
    lost_edges: ShareOrNone = 0.1
    # Standard deviation of the noise on features, in units of theirs.
    noise: NotNegative = 0.05

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, eq=False)
class FeatureScaling:
    """Shift and unit of each type of node, each relation's edges, and ``output``."""

    shift: dict[str, Annotated[Floats, Stored(("column",))]]
    unit: dict[str, Annotated[Floats, Stored(("column",), POSITIVE)]]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored scaling."""
        names = {*network.TYPES, *network.RELATIONS, "output"}
        for of in ("shift", "unit"):
            if names != {*getattr(self, of)}:
                yield of, f"of {', '.join(getattr(self, of))}", ", ".join(names)
                return
        if any(len(self.unit[name]) != len(shift) for name, shift in self.shift.items()):
            yield "unit", "of other sizes", "the sizes of 'shift'"

    @classmethod
    def of(cls, batches: Sequence[network.Batch], outputs: Floats) -> FeatureScaling:
        """Means and standard deviations of training graphs."""
        shift, unit = {}, {}
        groups = {name: [b.features[name] for b in batches] for name in network.TYPES}
        groups |= {name: [b.weights[name] for b in batches] for name in network.RELATIONS}
        for name, parts in {**groups, "output": [outputs]}.items():
            rows = np.concatenate(parts)
            if len(rows) == 0:
                rows = np.zeros((1, rows.shape[1]))
            deviation = rows.std(axis=0)
            constant = deviation <= _CONSTANT * np.abs(rows).max(axis=0)
            shift[name] = rows.mean(axis=0)
            unit[name] = np.where(constant, 1.0, deviation)
        return cls(shift, unit)

    def scaled(self, batch: network.Batch) -> network.Batch:
        """The batch with scaled features."""
        return replace(
            batch,
            features={n: (v - self.shift[n]) / self.unit[n] for n, v in batch.features.items()},
            weights={n: (v - self.shift[n]) / self.unit[n] for n, v in batch.weights.items()},
        )


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A trained network with the scaling of its inputs and outputs and the widening of intervals.

    `arrays` are its parameters.  Intervals were widened by `tau`, (n_outputs,), for the miscoverage
    `rate`.
    """

    arrays: dict[str, Annotated[NDArray[np.float32], Stored(None, dtype="f4")]]
    scaling: FeatureScaling
    settings: network.NetworkSettings
    rate: Annotated[float, Given("miscoverage")]
    tau: Annotated[Floats, Stored(("output",), NOT_NEGATIVE)]
    layer: Annotated[network.Layer, Given("layer")] = network.attend

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored network."""
        if self.settings.layers > len(self.arrays):  # before the shapes of all layers are listed
            yield "settings.layers", self.settings.layers, "parameters of each"
            return
        sizes = {name: len(shift) for name, shift in self.scaling.shift.items()}
        n_outputs = sizes.pop("output")
        if len(self.tau) != n_outputs:
            yield "tau", f"of {len(self.tau)}", str(n_outputs)
        shapes = {name: array.shape for name, array in self.arrays.items()}
        for name, shape in network.parameter_shapes(self.settings, sizes, n_outputs).items():
            if shapes.get(name) != shape:
                yield "arrays", f"{quoted(name)} of shape {shapes.get(name)}", str(shape)

    @cached_property
    def _parameters(self) -> dict[str, Tensor]:
        return network.tensors_of(self.arrays)

    def predict(self, batches: Sequence[network.Batch]) -> evidential.Evidence:
        """Evidence of each graph, in units of the outputs."""
        return self._evidence(batches)

    def predict_dropped(self, batches: Sequence[network.Batch], seed: int) -> Floats:
        """One draw of γ of each graph with dropout (Monte Carlo dropout), (n, n_outputs)."""
        return self._evidence(batches, _dropout(self.settings.dropout, seed)).gamma

    def interval(self, batches: Sequence[network.Batch]) -> tuple[Floats, Floats]:
        """Lower and upper ends of the widened intervals, (n, n_outputs) each."""
        evidence = self.predict(batches)
        half = self.tau * evidence.half_width(self.rate)
        return evidence.gamma - half, evidence.gamma + half

    def _evidence(
        self, batches: Sequence[network.Batch], drop: Callable[[Tensor], Tensor] | None = None
    ) -> evidential.Evidence:
        parameters, settings, layer = self._parameters, self.settings, self.layer
        scaled = _evaluate(parameters, batches, settings, layer, scaling=self.scaling, drop=drop)
        unit = self.scaling.unit["output"]
        gamma = scaled.gamma * unit + self.scaling.shift["output"]
        return evidential.Evidence(gamma, scaled.nu, scaled.alpha, scaled.beta * unit**2)


def fit_network(
    batches: Sequence[network.Batch],
    outputs: Floats,
    held_back: NDArray[np.bool_],
    *,
    settings: network.NetworkSettings | None = None,
    training: NetworkTraining | None = None,
    miscoverage: float = 0.05,
    seed: int = 0,
    layer: network.Layer = network.attend,
    start: Callable[
        [network.NetworkSettings, dict[str, int], int, int], dict[str, Tensor]
    ] = network.new_network,
    progress: OnProgress | None = None,
) -> TrainedNetwork:
    """Train a network on batches of one graph each, with outputs (n, n_outputs).

    The held-back graphs (n,) are not trained on; they choose the best epoch and the widening of
    intervals for the miscoverage.  `layer` and `start`, the initial parameters, may be of another
    network. `progress` is called with (done, total) epochs.

    :class:`ArgumentError`: torch is not installed; arrays of other lengths.
    :class:`MeasurementError`: no graph to train on, or no held-back graph.
    """
    settings, training = settings or network.NetworkSettings(), training or NetworkTraining()
    n = len(batches)
    if outputs.shape[:1] != (n,) or held_back.shape != (n,):
        raise ArgumentError(
            f"outputs are of {len(outputs)}, held_back of {len(held_back)} graphs; {n} are wanted."
        )
    if held_back.all() or not held_back.any():
        raise MeasurementError(
            f"{int(held_back.sum())} of {n} graphs are held back; some to train on and some to "
            f"score are wanted."
        )
    train, test = np.flatnonzero(~held_back), np.flatnonzero(held_back)
    scaling = FeatureScaling.of([batches[i] for i in train.tolist()], outputs[train])
    scaled = [scaling.scaled(batch) for batch in batches]
    target = (outputs - scaling.shift["output"]) / scaling.unit["output"]
    parameters = start(settings, scaled[0].sizes, outputs.shape[1], seed)
    trainer = _Trainer(parameters, settings, training, layer, np.random.default_rng(seed), seed)
    for stage, epochs in enumerate((training.epochs, training.evidential_epochs)):
        best, kept = np.inf, network.numbers_of(parameters)
        trainer.begin(stage, epochs * -(-len(train) // training.rows))
        for epoch in range(epochs):
            trainer.epoch([scaled[i] for i in train], target[train])
            evidence = trainer.evaluate([scaled[i] for i in test])
            error = trainer.score(evidence, target[test])
            if error < best:
                best, kept = error, network.numbers_of(parameters)
            if progress:
                done = epoch + 1 + stage * training.epochs
                progress(done, training.epochs + training.evidential_epochs)
        if epochs:
            trainer.restore(kept)
    evidence = trainer.evaluate([scaled[i] for i in test])
    tau = evidential.widening(evidence, target[test], miscoverage)
    return TrainedNetwork(
        network.numbers_of(parameters), scaling, settings, miscoverage, tau, layer
    )


class _Trainer:
    """Parameters in training."""

    def __init__(
        self,
        parameters: dict[str, Tensor],
        settings: network.NetworkSettings,
        training: NetworkTraining,
        layer: network.Layer,
        rng: np.random.Generator,
        seed: int,
    ) -> None:
        self.parameters, self.settings, self.training = parameters, settings, training
        self.layer, self.rng, self.stage = layer, rng, 0
        self.drop = _dropout(settings.dropout, seed)

    def begin(self, stage: int, steps: int) -> None:
        """Start a stage with a new optimiser; its rate falls to a tenth over the stage."""
        import torch

        self.stage = stage
        rate = self.training.evidential_rate if stage else self.training.rate
        self.optimiser = torch.optim.AdamW(list(self.parameters.values()), lr=rate)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            self.optimiser, max(steps, 1), eta_min=rate / 10
        )

    def epoch(self, batches: Sequence[network.Batch], target: Floats) -> None:
        """Train on every graph once."""
        import torch

        order = self.rng.permutation(len(batches))
        for rows in np.split(order, range(self.training.rows, len(order), self.training.rows)):
            batch = network.on_tensors(
                self._disturbed(network.joined([batches[i] for i in rows.tolist()]))
            )
            y = torch.as_tensor(target[rows], dtype=torch.float32)
            outputs = network.forward(
                self.parameters, batch, self.settings, layer=self.layer, drop=self.drop
            )
            loss = self._loss(y, outputs)
            self.optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), _CLIP)
            self.optimiser.step()
            self.schedule.step()

    def _loss(self, y: Tensor, outputs: tuple[Tensor, ...]) -> Tensor:
        gamma, nu, alpha, beta = outputs
        squares = ((y - gamma) ** 2).mean()
        if self.stage == 0:
            return squares
        training = self.training
        scale = (beta * (1.0 + nu) / (nu * alpha)).sqrt()
        return (
            evidential.evidential_loss(y, gamma, nu, alpha, beta).mean()
            + training.squares * squares
            + training.charge * evidential.overconfidence(y, gamma, nu, alpha, beta).mean()
            + training.ranking * evidential.ranking_loss(y[:, 0], (gamma + 2.0 * scale)[:, 0])
        )

    def _disturbed(self, batch: network.Batch) -> network.Batch:
        """The batch with noise on the features of nodes and dropped edges between tasks."""
        training, rng = self.training, self.rng
        features = {
            name: value + training.noise * rng.standard_normal(value.shape)
            for name, value in batch.features.items()
        }
        edges, weights = dict(batch.edges), dict(batch.weights)
        kept = rng.random(edges["precedes"].shape[1]) >= training.lost_edges
        for name in ("precedes", "follows"):
            # both directions of an edge have the same index
            edges[name], weights[name] = edges[name][:, kept], weights[name][kept]
        return replace(batch, features=features, edges=edges, weights=weights)

    def evaluate(self, scaled: Sequence[network.Batch]) -> evidential.Evidence:
        """Evidence of scaled graphs, in units of the scaled outputs."""
        return _evaluate(self.parameters, scaled, self.settings, self.layer)

    def score(self, evidence: evidential.Evidence, target: Floats) -> float:
        """Loss that chooses the best epoch: absolute error, in stage two the evidential loss."""
        if self.stage == 0:
            return float(np.abs(evidence.gamma - target).mean())
        return float(evidence.negative_log_likelihood(target).mean())

    def restore(self, arrays: dict[str, NDArray[np.float32]]) -> None:
        """Set the parameters to stored ones."""
        import torch

        with torch.no_grad():
            for name, value in self.parameters.items():
                value.copy_(torch.as_tensor(arrays[name]))


def _evaluate(
    parameters: dict[str, Tensor],
    batches: Sequence[network.Batch],
    settings: network.NetworkSettings,
    layer: network.Layer,
    *,
    scaling: FeatureScaling | None = None,
    drop: Callable[[Tensor], Tensor] | None = None,
) -> evidential.Evidence:
    """Evidence of each graph, evaluated in parts; inputs are scaled where a scaling is given."""
    import torch

    parts = []
    for first in range(0, len(batches), _ROWS):
        whole = network.joined(list(batches[first : first + _ROWS]))
        inputs = network.on_tensors(whole if scaling is None else scaling.scaled(whole))
        with torch.inference_mode():
            outputs = network.forward(
                parameters, inputs, settings, layer=layer, drop=drop or (lambda value: value)
            )
        parts.append([output.double().numpy() for output in outputs])
    return evidential.Evidence(*map(np.concatenate, zip(*parts)))


def _dropout(share: float, seed: int) -> Callable[[Tensor], Tensor]:
    """Dropout of a share of the values, with a separate generator."""
    import torch

    generator = torch.Generator().manual_seed(seed % 2**63)

    def drop(value: Tensor) -> Tensor:
        kept = torch.rand(value.shape, generator=generator) >= share
        return value * kept / (1.0 - share)

    return drop if share else lambda value: value
