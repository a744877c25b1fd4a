"""Peers that predict runtimes: each learns from some runs and predicts the log of all.

Linear scaling, matrix factorisation, two networks and attention follow Appendix B.4 of the Pitot
paper. Gradient boosting on the residual of linear scaling is tuned on known runs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from runtimes_networks import BATCH, CHECK_EVERY, AdaMax, Attention, NeuralNetwork, train

from msbgen.systems.runtimes.embeddings import sum_by_index
from msbgen.systems.runtimes.runs import Observations
from msbgen.systems.runtimes.scaling import fit_scaling
from msbgen.systems.runtimes.towers import standardised

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Matrix factorisation, as in the paper.
RANK, STEPS, RATE = 32, 20_000, 1e-3
# Boosting: depths, chosen by a tenth of the known runs, and principal components of the workloads'
# features. All 141 features take four times as long.
DEPTHS = (6, 10)
MOST_TREES, PATIENCE, LEARNING_RATE, COMPONENTS = 400, 20, 0.25, 20


@dataclass(frozen=True, eq=False)
class Data:
    """Every run, and the features of workloads (n_workloads, d) and platforms (n_platforms, d')."""

    runs: Observations
    log_runtime: Floats
    features: tuple[Floats, Floats]


def linear_scaling(data: Data, kept: Mask, rng: np.random.Generator) -> Floats:
    alone = kept & (data.runs.n_neighbours == 0)
    fitted = fit_scaling(
        data.runs.workload[alone], data.runs.platform[alone], data.log_runtime[alone],
        data.runs.shape,
    )  # fmt: skip
    return fitted.log_runtime(data.runs.workload, data.runs.platform)


def matrix_factorisation(data: Data, kept: Mask, rng: np.random.Generator) -> Floats:
    """Log runtime alone = w_i·p_j over their mean; blind to features and to neighbours."""
    alone = np.flatnonzero(kept & (data.runs.n_neighbours == 0))
    checked = rng.random(len(alone)) < 0.1
    check, rows = alone[checked], alone[~checked]
    i, j, wanted = data.runs.workload, data.runs.platform, data.log_runtime
    mean = wanted[rows].mean()
    tables = [rng.standard_normal((n, RANK)).astype(np.float32) for n in data.runs.shape]
    tables = [table / np.float32(RANK**0.25) for table in tables]
    optimiser, best, kept_tables = AdaMax(tables), np.inf, [t.copy() for t in tables]
    for step in range(1, STEPS + 1):
        some = rows[rng.integers(len(rows), size=BATCH)]
        w, p = tables[0][i[some]], tables[1][j[some]]
        slope = ((w * p).sum(axis=1) - (wanted[some] - mean).astype(np.float32)) / (0.5 * BATCH)
        slope = slope.astype(np.float32)[:, None]
        both = zip(tables, (i, j), (p, w))
        gradients = [sum_by_index(of[some], len(t), slope * other) for t, of, other in both]
        optimiser.step(gradients, RATE)
        if step % CHECK_EVERY == 0:
            error = (tables[0][i[check]] * tables[1][j[check]]).sum(axis=1) + mean - wanted[check]
            if (loss := float((error**2).mean())) < best:
                best, kept_tables = loss, [t.copy() for t in tables]
    return (kept_tables[0] @ kept_tables[1].T).astype(float)[i, j] + mean


def boosting(data: Data, kept: Mask, rng: np.random.Generator) -> Floats:
    """Trees on features, lengths and speeds, for the residual of linear scaling."""
    import xgboost

    linear = linear_scaling(data, kept, rng)
    table = boosting_table(data, kept)
    checked = kept & (rng.random(len(kept)) < 0.1)
    learned = kept & ~checked
    residual = data.log_runtime - linear
    learn = xgboost.QuantileDMatrix(table[learned], residual[learned])
    check = xgboost.QuantileDMatrix(table[checked], residual[checked], ref=learn)
    tried = []
    for depth in DEPTHS:
        settings = {
            "objective": "reg:squarederror", "max_depth": depth, "learning_rate": LEARNING_RATE,
            "subsample": 0.8, "colsample_bytree": 0.5, "eval_metric": "mae",
            "seed": int(rng.integers(2**31)), "nthread": 1,
        }  # fmt: skip
        fitted = xgboost.train(
            settings, learn, MOST_TREES, evals=[(check, "check")], verbose_eval=False,
            early_stopping_rounds=PATIENCE,
        )  # fmt: skip
        tried.append((fitted.best_score, depth, fitted))
    best = min(tried)[2]
    found = best.inplace_predict(table, iteration_range=(0, best.best_iteration + 1))
    return linear + found.astype(float)


def boosting_table(data: Data, kept: Mask) -> NDArray[np.float32]:
    """Features of a run for trees: features, length and speed, and those of its neighbours."""
    runs, (workloads, platforms) = data.runs, data.features
    alone = kept & (runs.n_neighbours == 0)
    scaling = fit_scaling(
        runs.workload[alone], runs.platform[alone], data.log_runtime[alone], runs.shape
    )
    scaled = standardised(workloads)
    main = scaled @ np.linalg.svd(scaled, full_matrices=False)[2][:COMPONENTS].T
    mine = np.column_stack([main, scaling.workload]).astype(np.float32)
    where = np.column_stack([platforms, scaling.platform]).astype(np.float32)
    # without a neighbour the length is missing, which trees treat apart
    near = np.full((len(runs), mine.shape[1]), np.nan, np.float32)
    row, neighbour = runs.neighbour
    near[runs.interfered] = sum_by_index(row, len(runs.interfered), mine[neighbour])
    return np.hstack([mine[runs.workload], where[runs.platform], near])


def neural_network(data: Data, kept: Mask, rng: np.random.Generator) -> Floats:
    return _network(NeuralNetwork, data, kept, rng)


def attention(data: Data, kept: Mask, rng: np.random.Generator) -> Floats:
    return _network(Attention, data, kept, rng)


def _network(kind, data: Data, kept: Mask, rng: np.random.Generator) -> Floats:
    return train(kind, data.runs.some(kept), data.log_runtime[kept], data.features, data.runs, rng)


PEERS: dict[str, Callable[[Data, Mask, np.random.Generator], Floats]] = {
    "linear scaling": linear_scaling,
    "matrix factorisation": matrix_factorisation,
    "boosting": boosting,
    "neural network": neural_network,
    "attention": attention,
}
