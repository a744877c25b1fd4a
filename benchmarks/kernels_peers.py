"""Peers of the models of kernels: the paper's boosting, tuned, and simpler ones.

All see raw parameters and clocks, and logarithms of runtimes and powers, as in the paper.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# From known rows (features, targets, group) and features of others to their targets.
Peer = Callable[[Floats, Floats, NDArray[np.int64], Floats], Floats]

# Table 2 of the paper.
TREES, DEPTH, CHILD = (100, 3000), (5, 11), (5, 8)
SHARE, RATE, PENALTY = (0.8, 1.0), (0.005, 0.1), (1e-4, 1e-2)
# Trials of a study, its rows, and the parts left out.
TRIALS, MOST_ROWS, PARTS = 30, 4000, 4


def boosting(known: Floats, target: Floats, group: NDArray[np.int64], new: Floats) -> Floats:
    from xgboost import XGBRegressor

    model = XGBRegressor(n_estimators=500, max_depth=6, learning_rate=0.05, n_jobs=1)
    return np.exp(model.fit(known, np.log(target)).predict(new).astype(float))


def forest(known: Floats, target: Floats, group: NDArray[np.int64], new: Floats) -> Floats:
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(200, random_state=0, n_jobs=1)
    return np.exp(model.fit(known, np.log(target)).predict(new))


def mean_curve(known: Floats, target: Floats, group: NDArray[np.int64], new: Floats) -> Floats:
    """The mean logarithm of all kernels at the clock (the last column), linear between clocks."""
    clocks = np.unique(known[:, -1])
    means = [np.log(target[known[:, -1] == clock]).mean() for clock in clocks]
    return np.exp(np.interp(new[:, -1], clocks, means))


PEERS: dict[str, Peer] = {"boosting": boosting, "forest": forest, "mean curve": mean_curve}


def tuned_boosting(
    known: Floats, target: Floats, group: NDArray[np.int64], new: Floats, **study: Any
) -> Floats:
    """The paper's model: xgboost, searched by TPE with Hyperband over its Table 2.

    The settings of the study are those of :func:`tune`.
    """
    import xgboost

    best = tune(known, target, group, **study)
    rounds = int(best.pop("n_estimators"))
    matrix = xgboost.DMatrix(known, np.log(target))
    model = xgboost.train({**best, "nthread": 1, "seed": study.get("seed", 0)}, matrix, rounds)
    return np.exp(model.predict(xgboost.DMatrix(new)).astype(float))


def tune(
    known: Floats,
    target: Floats,
    group: NDArray[np.int64],
    *,
    journal: Path,
    name: str,
    trials: int = TRIALS,
    seed: int = 0,
) -> dict[str, float]:
    """Hyper-parameters with the least error on left-out groups.

    A journal keeps the study, which goes on after an interruption. Equal seeds and names give equal
    trials.
    """
    import optuna
    import xgboost
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rng = np.random.default_rng(seed)
    few = np.sort(rng.permutation(len(target))[:MOST_ROWS])
    table, log, unit = known[few], np.log(target[few]), group[few]
    part = rng.permutation(int(unit.max()) + 1)[unit] % PARTS
    folds = [
        (xgboost.DMatrix(table[part != k], log[part != k]), table[part == k], log[part == k])
        for k in range(PARTS)
    ]
    steps = (100, 300, 1000, 3000)

    def trial_error(trial: optuna.Trial) -> float:
        parameters = {
            "max_depth": trial.suggest_int("max_depth", *DEPTH),
            "min_child_weight": trial.suggest_int("min_child_weight", *CHILD),
            "subsample": trial.suggest_float("subsample", *SHARE),
            "colsample_bytree": trial.suggest_float("colsample_bytree", *SHARE),
            "learning_rate": trial.suggest_float("learning_rate", *RATE, log=True),
            "reg_alpha": trial.suggest_float("reg_alpha", *PENALTY, log=True),
            "reg_lambda": trial.suggest_float("reg_lambda", *PENALTY, log=True),
            "nthread": 1,
            "seed": seed,
        }
        most = trial.suggest_int("n_estimators", *TREES)
        models: list[Any] = [None] * PARTS
        grown, error = 0, np.inf
        for step in [s for s in steps if s < most] + [most]:
            off = []
            for k, (matrix, left_out, truth) in enumerate(folds):
                models[k] = xgboost.train(parameters, matrix, step - grown, xgb_model=models[k])
                off.append(np.abs(models[k].predict(xgboost.DMatrix(left_out)) - truth).mean())
            grown, error = step, float(np.mean(off))
            trial.report(error, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return error

    journal.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name=name,  # brackets of Hyperband are drawn from the name and the trial's number
        storage=JournalStorage(JournalFileBackend(str(journal))),
        sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True),
        pruner=optuna.pruners.HyperbandPruner(100, 3000, 3),
        load_if_exists=True,
    )
    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    while (done := len(study.get_trials(states=states))) < trials:
        # seeded by the number of finished trials, so that an interrupted study draws the same
        study.sampler = optuna.samplers.TPESampler(seed=seed + done, multivariate=True)
        study.optimize(trial_error, n_trials=1)
    return dict(study.best_params)


def curve_of_others(
    others: Floats, known: Floats, given: NDArray[np.int64], contexts: Floats
) -> Floats:
    """The mean curve of the others, moved to the measured values, (n,)."""
    mean = np.nanmean(np.log(others), axis=0)
    return np.exp(mean + np.mean(np.log(known[given]) - mean[given]))


def line_in_clock(
    others: Floats, known: Floats, given: NDArray[np.int64], contexts: Floats
) -> Floats:
    """a + b/f through the measured values, neither negative; (n,)."""
    from scipy.optimize import nnls

    columns = np.stack([np.ones(len(contexts)), 1.0 / contexts[:, 0]], axis=1)
    weight, _ = nnls(columns[given] / known[given, None], np.ones(len(given)))
    return np.maximum(columns @ weight, 1e-300)


def boosted_ratio(
    others: Floats, known: Floats, given: NDArray[np.int64], contexts: Floats
) -> Floats:
    """Boosting of log ratios to the first measured value, from those of the others, (n,)."""
    from xgboost import XGBRegressor

    model = XGBRegressor(n_estimators=300, max_depth=6, learning_rate=0.05, n_jobs=1)
    return _ratios(model, others, known, given, contexts)


def forest_ratio(
    others: Floats, known: Floats, given: NDArray[np.int64], contexts: Floats
) -> Floats:
    """The same by a forest, (n,)."""
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(100, random_state=0, n_jobs=1)
    return _ratios(model, others, known, given, contexts)


def _ratios(
    model: Any, others: Floats, known: Floats, given: NDArray[np.int64], contexts: Floats
) -> Floats:
    log, own = np.log(others), np.log(known)
    complete = np.isfinite(log).all(axis=1)
    log = log[complete]

    def rows(table: Floats) -> Floats:
        n, m = len(table), len(contexts)
        ratios = table[:, given[1:]] - table[:, given[:1]]
        return np.hstack([np.repeat(ratios, m, axis=0), np.tile(contexts, (n, 1))])

    target = (log - log[:, given[:1]]).ravel()
    predicted = model.fit(rows(log), target).predict(rows(own[None]))
    return np.exp(own[given[0]] + predicted.astype(float))


CURVES = {
    "mean curve": curve_of_others,
    "a + b/f": line_in_clock,
    "boosting": boosted_ratio,
    "forest": forest_ratio,
}


# From the curve of others over the contexts [log], contexts (clock, batch), measured ones and their
# values, and whether these are times, to all values.
Surface = Callable[[Floats, Floats, NDArray[np.int64], Floats, bool], Floats]


def mean_surface(
    curve: Floats, contexts: Floats, given: NDArray[np.int64], known: Floats, is_time: bool
) -> Floats:
    """The others' mean curve times a power of the batch, (n,)."""
    columns = np.stack([np.ones(len(contexts)), np.log(contexts[:, 1])], axis=1)
    log_ratio = np.log(known[given]) - curve[given]
    return np.exp(curve + columns @ np.linalg.lstsq(columns[given], log_ratio, rcond=None)[0])


def line_surface(
    curve: Floats, contexts: Floats, given: NDArray[np.int64], known: Floats, is_time: bool
) -> Floats:
    """Times a + b/f + batch·(c + d/f), powers a + b·f + batch·(c + d·f); none negative, (n,)."""
    from scipy.optimize import nnls

    clock, batch = contexts.T
    own = 1.0 / clock if is_time else clock
    columns = np.stack([np.ones(len(clock)), own, batch, batch * own], axis=1)
    columns /= columns.max(axis=0)
    weight, _ = nnls(columns[given] / known[given, None], np.ones(len(given)))
    return np.maximum(columns @ weight, 1e-300)


def surface_of(peer: Peer) -> Surface:
    """A surface by a peer that learns from the measured values."""
    return lambda curve, contexts, given, known, is_time: peer(
        contexts[given], known[given], given, contexts
    )


SURFACES: dict[str, Surface] = {
    "mean curve": mean_surface,
    "a + b/f": line_surface,
    "boosting": surface_of(boosting),
    "forest": surface_of(forest),
}
