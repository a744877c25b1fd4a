"""The data of a report, as records of datasets and arrays.

The page does not depend on models: :mod:`msbgen.batch.report_data` fits, generates, bounds and
plans, and passes the results in these records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.data.tables import Groups

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Unavailable:
    """A part that the report lacks, with the reason in one sentence."""

    why: str


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on the execution time.

    Attributes
    ----------
    miscoverage : float
        Probability that a new run exceeds its bound.
    duration : ndarray, (n,)
        Bound of each context [s].
    beyond : ndarray of bool, (n,)
        Guesses: no context of the calibration was as far from the others.
    """

    miscoverage: float
    duration: Floats
    beyond: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ShownContext:
    """A held-out context with a panel.

    Attributes
    ----------
    place : str
        "best", "median" or "worst" of the held-out contexts, by score.
    row : int
        Index of the held-out context.
    mean : xarray.Dataset
        Generated mean profile, dims (time), or (context, time) with one context.
    samples : xarray.Dataset or Unavailable
        Random profiles, dims (context, sample, time) with one context.
    """

    place: str
    row: int
    mean: xr.Dataset
    samples: xr.Dataset | Unavailable


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of generated profiles against measured runs that the model was not fitted to.

    Attributes
    ----------
    how : str
        Origin of the held-out contexts, in words.
    truth : xarray.Dataset
        Their measured runs, dims (context, run, time).
    method : str
        The reported method, one of those scored.
    scores : xarray.Dataset
        ``score`` (method, context, metric), see :mod:`msbgen.evaluate.scores`.
    summary : mapping
        Their means over the contexts where every method is defined.
    counters : xarray.Dataset
        ``score`` (method, context, counter) of `method` and bracketing.
    halves : mapping of metric to float
        Mean distance between two halves of the measured runs of a context.  Methods are compared
        with the mean of all runs, which is less noisy, so that they may have smaller errors.
        Empty where contexts have a single run.
    extrapolated : ndarray of bool, (n_contexts,)
        Outside of the hull of the contexts of the fit.
    bounds : Bounds or Unavailable
    shown : tuple of ShownContext
    """

    how: str
    truth: xr.Dataset
    method: str
    scores: xr.Dataset
    summary: Mapping[str, Any]
    counters: xr.Dataset
    halves: Mapping[str, float]
    extrapolated: NDArray[np.bool_]
    bounds: Bounds | Unavailable
    shown: tuple[ShownContext, ...]


@dataclass(frozen=True, eq=False)
class SampleSpread:
    """Range of a few random runs of each context in every sampling interval.

    Attributes
    ----------
    runs : int
        Random runs of each context.
    lowest, highest : ndarray, (n, times, n_counters)
        Smallest and largest counts; 0 after the end of a run.
    """

    runs: int
    lowest: NDArray[np.float32]
    highest: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class AllContexts:
    """Generated profiles of the contexts of the platform.

    Attributes
    ----------
    profiles : xarray.Dataset
        Mean profiles, dims (context, time), with ``duration`` and ``extrapolated``.
    bounds : Bounds or Unavailable
    spread : SampleSpread or Unavailable
        Range of random profiles, at the times of `profiles`.
    notes : tuple of str
        Sentences on the selection of contexts.
    """

    profiles: xr.Dataset
    bounds: Bounds | Unavailable
    spread: SampleSpread | Unavailable
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Convergence:
    """Convergence of the solver of the bridge.

    Attributes
    ----------
    status : str
    epsilon, tol : float
        Weight of the entropy [squared units of the scaled coordinates]; tolerance of the L1 error
        of the marginals of a pair.
    errors : ndarray, (pairs,)
        L1 error of the marginals of each pair of snapshots.
    """

    status: str
    epsilon: float
    tol: float
    errors: Floats


@dataclass(frozen=True, eq=False)
class PlanSummary:
    """A plan of measurements.

    Attributes
    ----------
    contexts : ndarray, (rows, n_resources)
    runs : ndarray of int, (rows,)
    seconds : ndarray, (rows,)
        Predicted durations [s].
    error : ndarray, (1 + rows,)
        Expected error before and after each row, relative to the largest counts.
    noise : float
        Difference of one run from the mean of its context, in the same units.
    calibrated : bool
        Whether errors are calibrated on held-out contexts; otherwise only ratios are meaningful.
    again : int
        Number of first rows that repeat faulty measurements.
    pays : int
        Rows that are worth measuring.
    advice : str
        The same in words; "" where all rows are.
    commands : tuple of str
        Commands that measure the plan.
    note : str
        Note on placeholders in the commands.
    groups : tuple of tuple of str
        Groups of counters that take turns in the runs; empty where each run counts all.
    """

    contexts: Floats
    runs: NDArray[np.int64]
    seconds: Floats
    error: Floats
    noise: float
    calibrated: bool
    again: int
    pays: int
    advice: str
    commands: tuple[str, ...]
    note: str = ""
    groups: Groups = ()


@dataclass(frozen=True, eq=False)
class ReportData:
    """The data of a report.

    Attributes
    ----------
    source : str
        Name of the measured file.
    measured : xarray.Dataset
    warnings : tuple of str
        Warnings on the accuracy, one sentence each.
    held_out : HeldOutScores or Unavailable
    everywhere : AllContexts
    convergence : Convergence or Unavailable
    next : PlanSummary or Unavailable
    seed : int
    command : str
        Command line of the report.
    settings : mapping
        Settings of the model as JSON values.
    versions : mapping of name to version
    """

    source: str
    measured: xr.Dataset
    warnings: tuple[str, ...]
    held_out: HeldOutScores | Unavailable
    everywhere: AllContexts
    convergence: Convergence | Unavailable
    next: PlanSummary | Unavailable
    seed: int = 0
    command: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
