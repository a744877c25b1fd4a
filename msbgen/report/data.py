"""What a report is made of: datasets and numbers, however they came to be.

The page knows no model: what is told of a task is fitted, generated, bounded and planned elsewhere
(:mod:`msbgen.batch.report_data` does all of it), and handed over in these records.
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
    """A part of the report that there is not, and why, in one sentence."""

    why: str


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on the execution time.

    Attributes
    ----------
    miscoverage : float
        Share of runs in a new context that may take longer.
    duration : ndarray, (n,)
        Bound of each context [s].
    beyond : ndarray of bool, (n,)
        Where the bound is a guess: nothing that was left out lay as far from the rest.
    """

    miscoverage: float
    duration: Floats
    beyond: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ShownContext:
    """A held-out context whose profiles are drawn.

    Attributes
    ----------
    place : str
        "best", "median" or "worst" of the held-out contexts, by score.
    row : int
        Which of the held-out contexts it is.
    mean : xarray.Dataset
        Its generated mean profile, dims (time), or (context, time) with one context.
    samples : xarray.Dataset or Unavailable
        Random profiles of it, dims (context, sample, time) with one context.
    """

    place: str
    row: int
    mean: xr.Dataset
    samples: xr.Dataset | Unavailable


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Generated profiles beside measured runs that the model has not seen.

    Attributes
    ----------
    how : str
        Where the held-out contexts come from, in words.
    truth : xarray.Dataset
        Their measured runs, dims (context, run, time).
    method : str
        The method that the report is about, one of those scored.
    scores : xarray.Dataset
        ``score`` (method, context, metric), as :mod:`msbgen.evaluate.scores` makes them.
    summary : mapping
        Their means over the contexts where every method is defined.
    counters : xarray.Dataset
        ``score`` (method, context, counter) of `method` and bracketing, each counter by itself.
    halves : mapping of metric to float
        Mean distance between two halves of the measured runs of a context.  Methods are beside the
        mean of all runs, which is less noisy than those of halves, and may be better than this.
        Empty where contexts have a single run.
    extrapolated : ndarray of bool, (n_contexts,)
        Outside the hull of what the model had seen.
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
    """How far a few random runs of each context are apart in every sampling interval.

    Attributes
    ----------
    runs : int
        So many of each context.
    lowest, highest : ndarray, (n, times, n_counters)
        The least and the largest of their counts; 0 once a run has ended.
    """

    runs: int
    lowest: NDArray[np.float32]
    highest: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class AllContexts:
    """What is generated for the contexts of the platform.

    Attributes
    ----------
    profiles : xarray.Dataset
        Mean profiles, dims (context, time), with ``duration`` and ``extrapolated``.
    bounds : Bounds or Unavailable
    spread : SampleSpread or Unavailable
        Of random profiles, with as many times as `profiles` has.
    notes : tuple of str
        Sentences: which contexts these are, and which of the platform's are left out.
    """

    profiles: xr.Dataset
    bounds: Bounds | Unavailable
    spread: SampleSpread | Unavailable
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Convergence:
    """How the solver of the bridge ended.

    Attributes
    ----------
    status : str
    epsilon, tol : float
        Weight of the entropy, in squared units of the scaled coordinates; largest L1 error of a
        pair's marginals that is asked.
    errors : ndarray, (pairs,)
        L1 error of the marginals of each pair of snapshots.
    """

    status: str
    epsilon: float
    tol: float
    errors: Floats


@dataclass(frozen=True, eq=False)
class PlanSummary:
    """What to measure next.

    Attributes
    ----------
    contexts : ndarray, (rows, n_resources)
    runs : ndarray of int, (rows,)
    seconds : ndarray, (rows,)
        Predicted [s].
    error : ndarray, (1 + rows,)
        Expected error before, and after each row, as a share of the largest counts.
    noise : float
        What one run differs from the mean of its context, in the same units.
    calibrated : bool
        Whether errors are calibrated on held-out contexts; else only their ratios mean something.
    again : int
        So many rows, the first ones, measure again what looks wrong.
    pays : int
        Rows after which measuring stops paying; all of them where it never does.
    advice : str
        That in words; "" where it never does.
    commands : tuple of str
        What to type for it.
    note : str
        What in the commands stands for a file, or where it comes from.
    groups : tuple of tuple of str
        Counters that the runs of each row count, in turn; empty where every run counts all.
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
    """Everything that a report tells of a task.

    Attributes
    ----------
    source : str
        Name of the measured file.
    measured : xarray.Dataset
    warnings : tuple of str
        Sentences on what limits the trust in what is told.
    held_out : HeldOutScores or Unavailable
    everywhere : AllContexts
    convergence : Convergence or Unavailable
    next : PlanSummary or Unavailable
    seed : int
    command : str
        What made the report.
    settings : mapping
        Of the model, as JSON knows them.
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
