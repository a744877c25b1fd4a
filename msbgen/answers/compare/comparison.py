"""The comparison of two versions of a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.answers.compare.alignment import Alignment
from msbgen.answers.compare.band import ratios_everywhere
from msbgen.answers.compare.changes import find_changes
from msbgen.answers.compare.matching import match_profiles, versions_of
from msbgen.answers.compare.models import compare_models
from msbgen.answers.compare.pairs import Pair, pair_profiles
from msbgen.answers.compare.rates import align_pair
from msbgen.answers.compare.ratio import Differences, Ratio, ratio_of_amounts
from msbgen.answers.compare.results import AmountsByProgress, CompareSettings, Comparison, Verdict
from msbgen.answers.compare.stretches import mean_run
from msbgen.answers.compare.versions import amounts_of
from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.data.durations_only import WHOLE_RUN
from msbgen.data.schema import checked_contexts, labels_of
from msbgen.engine.generate.progress import uniform_knots

Floats = NDArray[np.float64]

_DEFAULT = CompareSettings()
# Pairs, their ratio, totals, alignment, ratios of contexts, changes.
_STAGES = 6


def compare_profiles(
    old: xr.Dataset,
    new: xr.Dataset,
    *,
    weights: ArrayLike | None = None,
    contexts: ArrayLike | None = None,
    settings: CompareSettings = _DEFAULT,
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> Comparison:
    """Whether a program became slower, in which contexts, and in which stretches of its work.

    Parameters
    ----------
    old, new : xarray.Dataset
        Measured profiles of both versions, whose common contexts are compared: durations alone
        where one of them has no time axis.  Without a common context,
        models of both are fitted, and compared in the contexts of either.
    weights : array_like, (n,)
        Weights of the contexts of `old` in the ratio over all contexts; default: equal, but less
        for contexts whose runs vary much more than those of others.
    contexts : array_like, (q, m)
        Contexts of which the ratio is wanted; default: the compared ones.
    settings : CompareSettings
        Tolerance, confidence, resolution and number of permutations.
    rng : numpy.random.Generator or int
        Permutations and draws, or their seed; equal seeds give equal results.
    progress : callable, optional
        Called with (done, total): models that are fitted; or parts of many contexts in which
        faults are detected, of one version after the other, and then the stages of the comparison.

    Returns
    -------
    Comparison

    Raises
    ------
    ProfileError
        The files differ in resources, units or the measure of progress.
    MeasurementError
        Faults leave no context, their weights are all 0, or the noise cannot be estimated.
    ArgumentError
        Weights or contexts of another shape.
    """
    first, second = versions_of(old, new)
    shared = match_profiles(first, second)
    draws = generator(rng)
    names = list(first.resources)
    if contexts is not None:
        contexts = checked_contexts(contexts, names)
    described: dict[str, Any] = {
        "files": (first.source, second.source),
        "task": second.task or second.source,
        "resources": tuple(names),
        "units": tuple(str(attrs.get("units", "1")) for attrs in first.resources.values()),
        "labels": {name: labels_of(attrs) for name, attrs in first.resources.items()},
        "settings": settings,
    }
    if not len(shared.old_rows):
        rows = np.arange(len(first.contexts))
        given = None if weights is None else _normalised(weights, rows, len(rows))
        modelled = compare_models(
            (first, second), given, contexts, settings.confidence, draws, progress=progress
        )
        return Comparison(
            verdict=_verdict(modelled.time, settings.tolerance),
            time=modelled.time,
            detectable=modelled.time.detectable(settings.confidence),
            more_runs=None,
            totals={},
            contexts=modelled.contexts,
            value=modelled.value,
            low=modelled.low,
            high=modelled.high,
            changes=(),
            same_program=None,
            stretched_runs=None,
            stretched_p=None,
            runs=modelled.runs,
            noise="models",
            left_out=modelled.contexts[:0],
            notes=modelled.notes,
            course=None,
            **described,
        )
    pair = pair_profiles(first, second, shared, progress)
    stages = iter(range(1, _STAGES + 1))

    def step() -> None:
        if progress:
            progress(next(stages), _STAGES)

    step()
    share = None if weights is None else _normalised(weights, pair.rows, len(first.contexts))
    differences = Differences.of(
        pair.columns, pair.old.duration, pair.new.duration, are_paired=pair.are_paired
    )
    time = differences.mean(share, settings.confidence)
    step()
    totals = _totals(pair, share, settings.confidence)
    step()
    aligned = align_pair(pair, totals) if first.is_timed else None
    step()
    targets = pair.contexts if contexts is None else contexts
    value, low, high = ratios_everywhere(
        differences, pair.words.encode(targets), settings.confidence, draws
    )
    step()
    changes = () if aligned is None else find_changes(pair, aligned, settings, draws)
    step()
    n_old, n_new = (int(np.isfinite(v.duration).sum()) for v in (pair.old, pair.new))
    stretched = pair.stretched
    return Comparison(
        verdict=_verdict(time, settings.tolerance),
        time=time,
        detectable=time.detectable(settings.confidence),
        more_runs=_more_runs(time, settings, min(n_old, n_new) / len(pair.contexts)),
        totals=totals,
        contexts=targets,
        value=value,
        low=low,
        high=high,
        changes=changes,
        same_program=None if aligned is None else aligned.is_same_program,
        stretched_runs=stretched,
        stretched_p=_stretched_p(stretched, (n_old, n_new)),
        runs=(n_old, n_new),
        noise="neighbours" if differences.from_neighbours else "runs",
        left_out=pair.left_out,
        notes=pair.notes,
        course=None if aligned is None else _course(pair, aligned, settings.bins),
        **described,
    )


def _stretched_p(stretched: tuple[int, int], kept: tuple[int, int]) -> float:
    """Fisher's p-value of the hypothesis that runs of both versions are stretched as often."""
    if not any(stretched):
        return 1.0
    from scipy.stats import fisher_exact  # here, as its import takes most of a second

    return float(np.asarray(fisher_exact([*zip(stretched, kept)]))[1])


def _normalised(weights: ArrayLike, rows: NDArray[np.int64], n: int) -> Floats:
    """Weights of the compared contexts, rows of n of the old version, which sum to 1."""
    given = np.asarray(weights, dtype=float)
    if given.shape != (n,) or not np.all((given >= 0) & (given < np.inf)):
        raise ArgumentError(
            f"weights have shape {given.shape}; one finite number ≥ 0 for each of the "
            f"{n} contexts of the old version is wanted."
        )
    used = given[rows]
    if used.sum() <= 0:
        raise MeasurementError(
            f"weights of all {len(rows)} contexts of both versions are 0; weigh one of them, or "
            f"measure more contexts of both."
        )
    return used / used.sum()


def _totals(pair: Pair, weights: Floats | None, confidence: float) -> dict[str, Ratio]:
    """Ratios of the totals of each counter, over the contexts in which both versions have them."""
    totals = {}
    for k, name in enumerate(pair.counters):
        if name == WHOLE_RUN:
            continue
        ratio = ratio_of_amounts(
            pair.columns,
            pair.old.totals[..., k],
            pair.new.totals[..., k],
            weights=weights,
            confidence=confidence,
            are_paired=pair.are_paired,
        )
        if ratio is not None:
            totals[name] = ratio
    return totals


def _course(pair: Pair, aligned: Alignment, bins: int) -> AmountsByProgress:
    """Both versions by their progress, and its places on a common axis."""
    knots = uniform_knots(bins)
    lengths = np.maximum(np.diff(aligned.old), np.diff(aligned.new))
    common = np.append(0.0, np.cumsum(lengths)) / lengths.sum()
    edges = [np.interp(knots, places, common) for places in (aligned.old, aligned.new)]
    versions = (mean_run(amounts_of(version, knots))[:, 0] for version in (pair.old, pair.new))
    old, new = (np.nan_to_num(np.nanmean(version, axis=0)) for version in versions)
    return AmountsByProgress(pair.quantities, edges[0], edges[1], old, new)


def _verdict(time: Ratio, tolerance: float) -> Verdict:
    if time.low > 1:
        return "slower"
    if time.high < 1:
        return "faster"
    if time.low > 1 - tolerance and time.high < 1 + tolerance:
        return "same"
    return "undecided"


def _more_runs(time: Ratio, settings: CompareSettings, runs: float) -> int:
    """Further runs of each version in every context after which the interval would decide.

    They are those of a true change as large as the one found with `runs` of a context.
    """
    if _verdict(time, settings.tolerance) != "undecided":
        return 0
    half = np.log(time.high / time.value)
    change = abs(np.log(time.value))
    # the interval must exclude 1, or lie within the tolerance
    needed = max(change, np.log1p(settings.tolerance) - change)
    return max(int(np.ceil(runs * ((half / needed) ** 2 - 1))), 1)
