"""The ratio of execution times of two versions that share no context, through fitted models.

A model of each version predicts mean durations in the contexts of both.  Left-out folds of contexts
show its errors e, logarithms of predicted over measured durations.  With m_v,f their mean in fold f
of F, the variance of the ratio's logarithm is Σ_v max(Σ_f m_v,f² / F², s_v² mean e_v²).  The first
term keeps a bias that folds share.  The second one is for contexts of weight s_v in which a version
was not measured: the model may err to one side in all of them, as between the corners of a design.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import special

from msbgen.answers.compare.pooled import equal_weights
from msbgen.answers.compare.ratio import Ratio
from msbgen.core.errors import MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.data.schema import (
    context_table,
    ended_durations,
    file_of,
    level_labels,
    level_text,
    mean_duration,
    resource_names,
    same_level,
)
from msbgen.engine.generate.faults import describe_faults, known_faults, without_faults
from msbgen.engine.generate.fit import fit_profiles

Floats = NDArray[np.float64]

# Folds of left-out contexts, and the fewest contexts of a version for them.
_FOLDS, _FEWEST = 4, 8
# Fewest levels of a resource that show how a program behaves at others.
_LEVELS = 3


@dataclass(frozen=True, eq=False)
class ModelledRatio:
    """Ratios from models: over all contexts, and in each with a simultaneous band."""

    time: Ratio
    contexts: Floats
    value: Floats
    low: Floats
    high: Floats
    runs: tuple[int, int]
    notes: tuple[str, ...]


def compare_models(
    versions: tuple[xr.Dataset, xr.Dataset],
    weights: Floats | None,
    contexts: Floats | None,
    confidence: float,
    rng: np.random.Generator,
    *,
    progress: OnProgress | None = None,
) -> ModelledRatio:
    """Ratio of the execution times that models of two valid datasets predict.

    Parameters
    ----------
    versions : (Dataset, Dataset)
        Measured profiles of the old and the new version.
    weights : (n,)
        Weights of the contexts of the old version, which sum to 1; default: those of either version
        count alike.
    contexts : (q, m)
        Contexts of the ratios; default: those of either version.

    Raises
    ------
    MeasurementError
        A version has too few contexts for folds or for a model, or too few levels of a resource.
    """
    names = resource_names(versions[0])
    tables = [context_table(v)[:, [resource_names(v).index(n) for n in names]] for v in versions]
    overall = tables[0] if weights is not None else np.concatenate(tables)
    weights = equal_weights(len(overall)) if weights is None else weights
    # weight of the contexts that each version was not measured in
    of_old = np.arange(len(overall)) < len(tables[0])
    elsewhere = float(weights[~of_old].sum()), float(weights[of_old].sum())
    targets = np.concatenate(tables) if contexts is None else contexts
    asked = np.concatenate([overall, targets])
    logs, variance, spread, free, n_runs = [], 0.0, 0.0, 0, []
    files = " and ".join(map(file_of, versions))
    notes = [
        f"{files} share no context: fitted models of both are compared, and stretches of the work "
        f"are not; measure both in the same contexts."
    ]
    for i, version in enumerate(versions):
        found = known_faults(version)
        notes += [f"{file_of(version)}: {sentence}" for sentence in describe_faults(version, found)]
        clean = without_faults(version, found)
        usable = np.isfinite(mean_duration(clean))
        if usable.sum() < _FEWEST:
            raise MeasurementError(
                f"{file_of(version)}: {usable.sum()} contexts with complete runs are too few to "
                f"compare versions without a shared context; measure {_FEWEST}, or the same "
                f"contexts in both versions."
            )
        clean = clean.isel(context=usable)
        order = [names.index(n) for n in resource_names(version)]
        _check_levels(clean, asked[:, order])
        n_runs.append(int(np.isfinite(ended_durations(clean)).sum()))
        log_measured = np.log(mean_duration(clean))
        error = np.empty(len(log_measured))
        parts = np.array_split(rng.permutation(len(error)), _FOLDS)
        for f, part in enumerate(parts):
            kept = np.setdiff1d(np.arange(len(error)), part)
            left_out = context_table(clean)[part]
            error[part] = _log_durations(clean.isel(context=kept), left_out) - log_measured[part]
            if progress:
                progress(i * (_FOLDS + 1) + f + 1, 2 * (_FOLDS + 1))
        logs.append(_log_durations(clean, asked[:, order]))
        noise = sum(float(error[part].mean()) ** 2 for part in parts) / _FOLDS**2
        square = float(np.mean(error**2))
        variance += max(noise, elsewhere[i] ** 2 * square)
        spread += square
        free += len(error) - 1
    change = logs[1] - logs[0]
    mean = float(weights @ change[: len(overall)])
    time = Ratio.of(mean, variance**0.5, 2.0 * (_FOLDS - 1), confidence)
    each = change[len(overall) :]
    half = float(special.stdtrit(free, 1 - (1 - confidence) / 2 / len(targets))) * spread**0.5
    value, low, high = (np.exp(each + step) for step in (0.0, -half, half))
    return ModelledRatio(time, targets, value, low, high, (n_runs[0], n_runs[1]), tuple(notes))


def _check_levels(version: xr.Dataset, asked: Floats) -> None:
    """Raise where a model would have to guess how a resource acts between two levels, or beyond."""
    labels = level_labels(version)
    for r, name in enumerate(resource_names(version)):
        levels = np.unique(context_table(version)[:, r])
        known = np.asarray(same_level(asked[:, r, None], levels[None])).any(axis=1)
        if len(levels) < _LEVELS and not known.all():
            level = level_text(float(asked[:, r][~known][0]), labels[name])
            raise MeasurementError(
                f"{file_of(version)}: {len(levels)} levels of '{name}' do not show what happens at "
                f"{level}, where the other version was measured; measure a third level, or the "
                f"same contexts in both versions."
            )


def _log_durations(measured: xr.Dataset, contexts: Floats) -> Floats:
    """Logarithms of the mean durations that a model predicts, (n,)."""
    return np.log(mean_duration(fit_profiles(measured).generate(contexts, kind="mean")))
