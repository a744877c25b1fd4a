"""The data of a report, as records of profiles and arrays.

The page does not depend on models: :mod:`msbgen.output.batch.report_data` fits, generates, bounds
and plans, and passes the results in these records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.data.profiles import Profiles
from msbgen.data.tables import Groups

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Unavailable:
    """A part that the report lacks, with the reason in one sentence."""

    why: str


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on the execution time that a new run exceeds with probability `miscoverage`."""

    miscoverage: float
    duration: Floats  # bound of each context [s], (n,)
    beyond: NDArray[np.bool_]  # guesses: no context of the calibration was as far away, (n,)


@dataclass(frozen=True, eq=False)
class ShownContext:
    """A held-out context with a panel: the best, median or worst one by score."""

    place: str  # "best", "median" or "worst"
    row: int  # index of the held-out context
    mean: Floats  # counts of the generated mean profile, (t, k)
    samples: Floats | Unavailable  # counts of random profiles, (samples, t, k)


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of generated profiles against measured runs that the model was not fitted to."""

    how: str  # origin of the held-out contexts, in words
    truth: Profiles  # their measured runs
    method: str  # the reported method, one of those scored
    scores: xr.Dataset  # "score" (method, context, metric), see msbgen.evaluate.scores
    summary: Mapping[str, Any]  # means over the contexts where every method is defined
    counters: xr.Dataset  # "score" (method, context, counter) of `method` and bracketing
    # Mean distance by metric between two halves of the measured runs of a context; empty where
    # contexts have a single run.  Methods are compared with the mean of all runs, which is less
    # noisy, so that they may have smaller errors.
    halves: Mapping[str, float]
    extrapolated: NDArray[np.bool_]  # outside of the hull of the fit's contexts, (n_contexts,)
    bounds: Bounds | Unavailable
    shown: tuple[ShownContext, ...]
    left_out: int = 0  # measured contexts that each prediction lacks; 0 where it lacks none


@dataclass(frozen=True, eq=False)
class SampleSpread:
    """Range of a few random runs of each context in every sampling interval.

    The smallest and the largest counts are (n, times, n_counters), 0 after the end of a run.
    """

    runs: int
    lowest: NDArray[np.float32]
    highest: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class AllContexts:
    """Generated profiles of the contexts of the platform."""

    profiles: Profiles  # mean profiles
    extrapolated: NDArray[np.bool_]  # outside of the hull of the known contexts, (n,)
    near_cliff: NDArray[np.bool_]  # between levels where a count may change suddenly, (n,)
    bounds: Bounds | Unavailable
    spread: SampleSpread | Unavailable  # of random profiles, at the times of `profiles`
    notes: tuple[str, ...] = ()  # sentences on the selection of contexts


@dataclass(frozen=True, eq=False)
class Convergence:
    """Convergence of the solver of the bridge."""

    status: str
    epsilon: float  # weight of the entropy [squared units of the scaled coordinates]
    tol: float  # tolerance of the L1 error of the marginals of a pair
    errors: Floats  # L1 error of the marginals of each pair of snapshots, (pairs,)


@dataclass(frozen=True, eq=False)
class PlanSummary:
    """A plan of measurements: rows of contexts, runs and predicted durations."""

    contexts: Floats  # (rows, n_resources)
    runs: NDArray[np.int64]  # (rows,)
    seconds: Floats  # predicted durations [s], (rows,)
    # Expected error before and after each row, relative to the largest counts, (1 + rows,).
    error: Floats
    noise: float  # difference of one run from the mean of its context, in the same units
    calibrated: bool  # errors are calibrated on held-out contexts; else only ratios are meaningful
    again: int  # number of first rows that repeat faulty measurements
    pays: int  # rows that are worth measuring
    advice: str  # the same in words; "" where all rows are
    commands: tuple[str, ...]  # commands that measure the plan
    note: str = ""  # on placeholders in the commands
    groups: Groups = ()  # groups of counters that take turns; empty where each run counts all


@dataclass(frozen=True, eq=False)
class ReportData:
    """The data of a report."""

    source: str  # name of the measured file
    measured: Profiles  # runs; those of a saved model have durations and no counters
    warnings: tuple[str, ...]  # on the accuracy, one sentence each
    held_out: HeldOutScores | Unavailable
    everywhere: AllContexts
    convergence: Convergence | Unavailable
    next: PlanSummary | Unavailable
    seed: int = 0
    command: str = ""  # command line of the report
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the model, as JSON values
    versions: Mapping[str, str] = field(default_factory=dict)  # of the libraries, by name
