"""Peers of relative performance, and variants without parts.

Peers see what the paper's models see: counters, configuration and the source machine, but not the
time there. They predict plain relative times of all machines. Each is a function of known runs,
their rows (run, source), and new runs, and gives times [s], (n, n_sources, n_machines).
"""

from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.systems.learn.boosting import BoostingSettings, fit_boosting
from msbgen.systems.learn.gaussian import conditional_gain, residual_covariance
from msbgen.systems.learn.randomised import TreesSettings, fit_trees
from msbgen.systems.machines.dataset import machines_of, relative_times, runtimes_of
from msbgen.systems.machines.evaluation import constant_times
from msbgen.systems.machines.features import FeatureMap, learn_features
from msbgen.systems.machines.kriging import KrigingSettings, fit_kriging
from msbgen.systems.machines.predictions import WEIGHTS

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]
Peer = Callable[[xr.Dataset, Masks, xr.Dataset], Floats]

# Least relative time: a linear model can predict less for some programs.
LEAST = 1e-3
FOLDS = 5
# Trees of the forest, and most trees of each booster.
TREES = 100


def mean(known: xr.Dataset, rows: Masks, new: xr.Dataset) -> Floats:
    return constant_times(runtimes_of(known), runtimes_of(new), each_source=False)


def median(known: xr.Dataset, rows: Masks, new: xr.Dataset) -> Floats:
    return constant_times(runtimes_of(known), runtimes_of(new), each_source=True)


def linear(known: xr.Dataset, rows: Masks, new: xr.Dataset) -> Floats:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return _fitted(make_pipeline(StandardScaler(), Ridge(1.0)), known, rows, new)


def forest(known: xr.Dataset, rows: Masks, new: xr.Dataset) -> Floats:
    from sklearn.ensemble import RandomForestRegressor

    # a third of the features at each split is better and faster than the library's default
    model = RandomForestRegressor(TREES, max_features=1 / 3, n_jobs=1, random_state=0)
    return _fitted(model, known, rows, new)


def boosting(known: xr.Dataset, rows: Masks, new: xr.Dataset) -> Floats:
    """The paper's: absolute error, plain ratios; the mean of five, each stopped by a fifth."""
    from xgboost import XGBRegressor

    features = learn_features(known)
    x, y = _table(features, known, rows)
    fold = np.random.default_rng(0).permutation(len(x)) % FOLDS
    tested = _table(features, new, np.ones(runtimes_of(new).shape, dtype=bool))[0]
    predicted = np.zeros((len(tested), y.shape[1]))
    for k in range(FOLDS):
        model = XGBRegressor(
            n_estimators=TREES, objective="reg:absoluteerror", max_bin=64,
            early_stopping_rounds=20, n_jobs=1, random_state=k,
        )  # fmt: skip
        own = fold != k
        model.fit(x[own], y[own], eval_set=[(x[~own], y[~own])], verbose=False)
        predicted += model.predict(tested) / FOLDS
    return _times(predicted, new)


def lookup(known: xr.Dataset, rows: Masks, new: xr.Dataset) -> Floats:
    """No model: the row with the most similar counters, seen from any machine."""
    from sklearn.neighbors import KNeighborsRegressor

    features = learn_features(known)
    source = machines_of(known)[0]
    seen = rows.any(axis=1)
    # relative to the first machine; a row relative to another holds the same
    ratio = relative_times(known, source)[seen]
    model = KNeighborsRegressor(1).fit(features.program(known, source)[seen], ratio)
    predicted = model.predict(features.program(new, source))
    return runtimes_of(new)[:, :, None] * predicted[:, None, :] / predicted[:, :, None]


PEERS: dict[str, Peer] = {
    "mean": mean,
    "median per source": median,
    "linear": linear,
    "forest": forest,
}
# The slowest peer is a part of its own.
PAPER: dict[str, Peer] = {"boosting (paper)": boosting}


def plain(known: xr.Dataset, new: xr.Dataset) -> Floats:
    """All parts without logarithms: ratios, and times per instruction."""
    features, machines = learn_features(known), machines_of(known)
    times, new_times = runtimes_of(known), runtimes_of(new)
    table, target = (features.program(runs, machines[0]) for runs in (known, new))
    work, wanted = (np.exp(features.log_work(runs, machines[0])) for runs in (known, new))
    program = np.unique(known["program"].values.astype(str), return_inverse=True)[1]
    per = times / work[:, None]
    # one factor for all, so that nothing is too small for single precision
    scale = per.mean()
    trees, seen = fit_trees(table, per / scale, program, TreesSettings(), 0)
    left = per / scale - trees.predict_without(table, seen)
    covariance = residual_covariance(left, 1.0 / np.bincount(program)[program])
    prior = trees.predict(target)[0]
    found = np.empty((len(new_times), len(machines), len(machines)))
    for s, source in enumerate(machines):
        there = np.arange(len(machines)) == s
        seen_here = (new_times[:, s] / wanted / scale - prior[:, s])[:, None]
        by_trees = (prior + seen_here @ conditional_gain(covariance, there).T) * scale
        by_trees = by_trees * wanted[:, None] / new_times[:, [s]]
        ratio = np.delete(times / times[:, [s]], s, axis=1)
        model = fit_boosting(
            features.timed(known, source, np.log(times[:, s])), ratio, BoostingSettings(), 0
        )
        predicted = model.predict(features.timed(new, source, np.log(new_times[:, s])))
        here, then = (
            features.by_kind(runs, source, np.log(of[:, s]))
            for runs, of in ((known, times), (new, new_times))
        )
        words = len(features.configurations)
        kriging = fit_kriging(here, ratio, program, words, KrigingSettings(), 0)
        parts = {
            "boosting": np.insert(predicted, s, 1.0, axis=1),
            "kriging": np.insert(kriging.predict(then), s, 1.0, axis=1),
            "trees": by_trees,
        }
        weights = [WEIGHTS[name] for name in parts]
        mean = np.average(list(parts.values()), axis=0, weights=weights)
        mean[:, s] = 1.0
        found[:, s] = new_times[:, [s]] * np.maximum(mean, LEAST)
    return found


def _fitted(model, known: xr.Dataset, rows: Masks, new: xr.Dataset) -> Floats:
    features = learn_features(known)
    everyone = np.ones(runtimes_of(new).shape, dtype=bool)
    model.fit(*_table(features, known, rows))
    return _times(model.predict(_table(features, new, everyone)[0]), new)


def _table(features: FeatureMap, runs: xr.Dataset, rows: Masks) -> tuple[Floats, Floats]:
    """Features and relative times of rows, source by source."""
    tables, ratios = [], []
    for s, source in enumerate(features.machines):
        own = np.flatnonzero(rows[:, s])
        part = runs.isel(run=own)
        tables.append(np.hstack([features.program(part, source), features.where(source, part)]))
        ratios.append(relative_times(part, source))
    return np.vstack(tables), np.vstack(ratios)


def _times(ratio: Floats, new: xr.Dataset) -> Floats:
    """Times from relative times of all rows, source by source."""
    seconds = runtimes_of(new)
    split = np.stack(np.split(ratio, seconds.shape[1]), axis=1)
    return seconds[:, :, None] * np.maximum(split, LEAST)
