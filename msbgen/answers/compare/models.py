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
from numpy.typing import NDArray
from scipy import special

from msbgen.answers.compare.pooled import equal_weights
from msbgen.answers.compare.ratio import Ratio
from msbgen.core.errors import MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.data.profiles import Profiles
from msbgen.data.schema import labels_of, level_text, same_level
from msbgen.engine.generate.detection import describe_faults, known_faults, without_faults
from msbgen.engine.generate.fit import fit_model

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
    versions: tuple[Profiles, Profiles],
    weights: Floats | None,
    contexts: Floats | None,
    confidence: float,
    rng: np.random.Generator,
    *,
    progress: OnProgress | None = None,
) -> ModelledRatio:
    """Ratio of the execution times that models of two versions predict.

    Parameters
    ----------
    versions : (Profiles, Profiles)
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
    names = list(versions[0].resources)
    tables = [v.contexts[:, [list(v.resources).index(n) for n in names]] for v in versions]
    overall = tables[0] if weights is not None else np.concatenate(tables)
    weights = equal_weights(len(overall)) if weights is None else weights
    # weight of the contexts that each version was not measured in
    of_old = np.arange(len(overall)) < len(tables[0])
    elsewhere = float(weights[~of_old].sum()), float(weights[of_old].sum())
    targets = np.concatenate(tables) if contexts is None else contexts
    asked = np.concatenate([overall, targets])
    logs, variance, spread, free, n_runs = [], 0.0, 0.0, 0, []
    files = " and ".join(version.source for version in versions)
    notes = [
        f"{files} share no context: fitted models of both are compared, and stretches of the work "
        f"are not; measure both in the same contexts."
    ]
    for i, version in enumerate(versions):
        found = known_faults(version)
        notes += [f"{version.source}: {sentence}" for sentence in describe_faults(version, found)]
        clean = without_faults(version, found)
        usable = np.isfinite(clean.mean_duration)
        if usable.sum() < _FEWEST:
            raise MeasurementError(
                f"{version.source}: {usable.sum()} contexts with complete runs are too few to "
                f"compare versions without a shared context; measure {_FEWEST}, or the same "
                f"contexts in both versions."
            )
        clean = clean.of_contexts(usable)
        order = [names.index(n) for n in version.resources]
        _check_levels(clean, asked[:, order])
        n_runs.append(int(np.isfinite(clean.ended).sum()))
        log_measured = np.log(clean.mean_duration)
        error = np.empty(len(log_measured))
        parts = np.array_split(rng.permutation(len(error)), _FOLDS)
        for f, part in enumerate(parts):
            kept = np.setdiff1d(np.arange(len(error)), part)
            left_out = clean.contexts[part]
            error[part] = _log_durations(clean.of_contexts(kept), left_out) - log_measured[part]
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


def _check_levels(version: Profiles, asked: Floats) -> None:
    """Raise where a model would have to guess how a resource acts between two levels, or beyond."""
    for r, (name, attrs) in enumerate(version.resources.items()):
        levels = np.unique(version.contexts[:, r])
        known = np.asarray(same_level(asked[:, r, None], levels[None])).any(axis=1)
        if len(levels) < _LEVELS and not known.all():
            level = level_text(float(asked[:, r][~known][0]), labels_of(attrs))
            raise MeasurementError(
                f"{version.source}: {len(levels)} levels of '{name}' do not show what happens at "
                f"{level}, where the other version was measured; measure a third level, or the "
                f"same contexts in both versions."
            )


def _log_durations(measured: Profiles, contexts: Floats) -> Floats:
    """Logarithms of the mean durations that a model predicts, (n,)."""
    generated = fit_model(measured).generate(contexts, kind="mean")
    return np.log(Profiles.of(generated).mean_duration)
