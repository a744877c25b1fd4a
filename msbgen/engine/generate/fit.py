"""Fit of a model to the measured profiles of a task.

``fit_profiles(dataset, settings) -> ProfileModel`` validates, detects and corrects faults, and fits
the distribution of the settings (:mod:`msbgen.engine.generate.progress_distribution`, or the
paper's).
"""

import logging
from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError, quoted
from msbgen.core.machine import OnProgress
from msbgen.data.check import validate_profiles
from msbgen.data.durations_only import has_time_axis, with_interval
from msbgen.data.partial import doubt_total, is_partial, partial_attrs, unended_counters
from msbgen.data.quality import doubt_clock, doubt_counts, warn_of_generated
from msbgen.data.schema import (
    clock_name,
    complete_array,
    context_table,
    count_array,
    counter_attrs,
    counter_names,
    describe_context,
    duration_array,
    file_of,
    inherited_attrs,
    is_generated,
    lost_array,
    resource_attrs,
    sampling_interval,
    started_array,
    trusting,
    unordered_resources,
)
from msbgen.engine.faults.findings import Findings
from msbgen.engine.generate.distribution import ProfileDistribution
from msbgen.engine.generate.elapsed_distribution import ElapsedDistribution, ElapsedSettings
from msbgen.engine.generate.faults import (
    dataset_faults,
    describe_faults,
    log_faults,
    without_absurd_counts,
)
from msbgen.engine.generate.measurements import Measurements
from msbgen.engine.generate.model import FITTED_TO, ProfileModel
from msbgen.engine.generate.progress_distribution import ProgressDistribution, ProgressSettings
from msbgen.engine.generate.word_columns import WordColumns

Floats = NDArray[np.float64]

_log = logging.getLogger("msbgen")

# The settings of the paper's authors: ε = 0.1, scaling to [0, 0.1] per snapshot, snapshots every
# 50 ms, Hilbert tolerance 1e-12, context coordinates part of the cost.
PAPER = ElapsedSettings()
DEFAULT = ProgressSettings()

Settings = ProgressSettings | ElapsedSettings
PRESETS: dict[str, Settings] = {"default": DEFAULT, "paper": PAPER}


def fit_profiles(
    dataset: xr.Dataset,
    settings: Settings = DEFAULT,
    *,
    rng: np.random.Generator | int = 0,
    keep_all: bool = False,
    part: bool = False,
    progress: OnProgress | None = None,
) -> ProfileModel:
    """Model of a task's profiles, fitted to its measurements.

    Parameters
    ----------
    dataset : xarray.Dataset
        Measured profiles, all or some contexts of a file; they are validated here.
    settings : ProgressSettings or ElapsedSettings
        See :data:`PRESETS`.
    rng : numpy.random.Generator or int
        Random start of the paper's solver, or its seed.
    keep_all : bool
        Trust every run: look for no faults.  ``dataset.assign_attrs(keep_all=1)`` means the same,
        also to the other functions.
    part : bool
        The dataset is a part of measurements whose faults were logged: faults are corrected as
        always, but not logged again; nor is it logged again that profiles are generated ones.
    progress : callable
        Called with (done, total) stages of the fit, or pairs or sweeps of a solver.

    Returns
    -------
    ProfileModel

    Raises
    ------
    ProfileError
        The dataset breaks the contract.
    MeasurementError
        Its runs are too short, or its progress counter counted nothing.
    msbgen.bridge.solve.NotConvergedError
        The solver of the paper's preset did not reach its tolerance; the default preset solves
        later, see :meth:`ProfileModel.prepare`.
    """
    if type(settings) not in _FITS:
        raise ArgumentError(
            f"settings is {quoted(settings)}; ProgressSettings or ElapsedSettings, e.g. "
            f"msbgen.PRESETS['paper'], is wanted."
        )
    validate_profiles(dataset, part=True)
    dataset = with_interval(dataset)
    if keep_all:
        dataset = trusting(dataset)
    if not part:
        warn_of_generated(dataset)
    try:
        distribution, findings = _FITS[type(settings)](dataset, settings, rng, part, progress)
    except MeasurementError as error:
        raise MeasurementError(f"{file_of(dataset)}: {error}") from None
    if not part:
        for sentence in doubt_counts(without_absurd_counts(dataset, findings)):
            _log.warning("%s: %s", file_of(dataset), sentence)
    partial = partial_attrs(dataset, interpolated=isinstance(settings, ElapsedSettings))
    attrs = {**inherited_attrs(dataset), **partial}
    if is_generated(dataset):
        attrs[FITTED_TO] = "generated"
    if findings:
        attrs["faults"] = describe_faults(dataset, findings)
    resources = resource_attrs(dataset)
    return ProfileModel(
        distribution, resources, counter_attrs(dataset), attrs, findings,
        WordColumns.of(resources, context_table(dataset)),
    )  # fmt: skip


def _measured(dataset: xr.Dataset) -> tuple[Floats, Floats, Floats, float]:
    """Counts, durations, contexts and interval of a dataset as arrays."""
    table, interval = context_table(dataset), sampling_interval(dataset)
    return count_array(dataset), duration_array(dataset), table, interval


def _fit_progress(
    dataset: xr.Dataset,
    settings: ProgressSettings,
    _: object,
    part: bool,
    progress: OnProgress | None,
) -> tuple[ProgressDistribution, Findings]:
    clock, complete = progress_clock(dataset, settings), complete_array(dataset)
    for sentence in unended_counters(dataset):
        raise MeasurementError(sentence)
    counts, duration, table, interval = _measured(dataset)
    findings = dataset_faults(dataset, clock)
    if not part:
        log_faults(dataset, findings)
        for sentence in doubt_clock(dataset) if settings.clock is None else ():
            _log.warning("%s: %s", file_of(dataset), sentence)
    repaired = findings.repair(counts, duration, table, started_array(dataset))
    measurements = Measurements(
        repaired.counts,
        repaired.duration,
        WordColumns.of(resource_attrs(dataset), table).encode(repaired.contexts),
        interval,
        clock,
        complete=complete[repaired.kept],
        slowdown=repaired.slowdown,
        reliability=repaired.weights,
        time_imputed=repaired.estimated,
        lost=lost_array(dataset)[repaired.kept],
        untimed=repaired.untimed,
    )
    distribution = ProgressDistribution.fit(measurements, settings, progress=progress)
    if not part:
        _warn_of_lost_counts(dataset, distribution, repaired.kept)
    return distribution, findings


def _fit_elapsed(
    dataset: xr.Dataset,
    settings: ElapsedSettings,
    rng: np.random.Generator | int,
    _: bool,
    progress: OnProgress | None,
) -> tuple[ElapsedDistribution, Findings]:
    if problem := paper_problem(dataset):
        raise MeasurementError(problem)
    distribution = ElapsedDistribution.fit(
        *_measured(dataset), settings, rng=rng, progress=progress
    )
    return distribution, Findings()  # the paper's distribution corrects no faults


def paper_problem(dataset: xr.Dataset) -> str:
    """Why the paper's preset cannot be fitted to a dataset, as a sentence; empty where it can."""
    if not has_time_axis(dataset):
        return (
            "the durations have no course in time, which the paper's preset models; take the "
            "default preset."
        )
    if is_partial(dataset):
        return (
            "some runs lack counters or were cut; the paper's preset wants whole ones: take the "
            "default preset, or keep the runs that hold everything."
        )
    if unordered := unordered_resources(dataset):
        return (
            f"resource '{unordered[0]}' has runs with more than two words, which have no order; "
            f"the paper's preset wants numbers: take the default preset."
        )
    return ""


_FITS: dict[type, Callable[..., tuple[ProfileDistribution, Findings]]] = {
    ProgressSettings: _fit_progress,
    ElapsedSettings: _fit_elapsed,
}


def progress_clock(dataset: xr.Dataset, settings: ProgressSettings = DEFAULT) -> int:
    """Index of the progress counter: 0 for wall time, 1 + k for counter k."""
    names = counter_names(dataset)
    # validation has checked that its progress counter is one of its counters
    wanted = clock_name(dataset) if settings.clock is None else settings.clock
    if wanted not in ("time", *names):
        raise ArgumentError(
            f"the progress counter is {quoted(wanted)}; one of time, {', '.join(names)} is wanted."
        )
    return 0 if wanted == "time" else 1 + names.index(wanted)


def _warn_of_lost_counts(
    dataset: xr.Dataset, distribution: ProgressDistribution, kept: NDArray[np.int64]
) -> None:
    for context, run in np.argwhere(
        np.isfinite(distribution.duration) & ~np.isfinite(distribution.centre.total)
    ):
        row = int(kept[context])
        reason = doubt_total(dataset, row, int(run))
        _log.warning("run %d of %s %s", run, describe_context(dataset, row), reason)
