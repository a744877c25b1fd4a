"""Fit of a model to the measured profiles of a task.

``fit_profiles(dataset, settings) -> ProfileModel`` validates; ``fit_model`` detects and corrects
faults, and fits the distribution of the settings
(:mod:`msbgen.engine.generate.progress_distribution`, or the paper's).
"""

import logging
from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError, quoted
from msbgen.core.machine import OnProgress
from msbgen.data.check import checked_profiles
from msbgen.data.gaps import LOST
from msbgen.data.partial import doubt_total, is_partial, partial_attrs, unended_counters
from msbgen.data.profiles import Profiles
from msbgen.data.quality import doubt_clock, doubt_counts, warn_of_generated
from msbgen.engine.faults.findings import Findings
from msbgen.engine.generate.detection import (
    describe_faults,
    detect_faults,
    log_faults,
    without_absurd_counts,
)
from msbgen.engine.generate.distribution import ProfileDistribution
from msbgen.engine.generate.elapsed_distribution import ElapsedDistribution, ElapsedSettings
from msbgen.engine.generate.measurements import Measurements
from msbgen.engine.generate.model import FITTED_TO, ProfileModel
from msbgen.engine.generate.progress_distribution import ProgressDistribution, ProgressSettings
from msbgen.engine.generate.word_columns import WordColumns

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
    progress: OnProgress | None = None,
) -> ProfileModel:
    """Model of a task's profiles, fitted to its measurements.

    Parameters
    ----------
    dataset : xarray.Dataset
        Measured profiles, all or some contexts of a file; they are validated here.  With
        ``dataset.assign_attrs(keep_all=1)`` every run is trusted: no faults are looked for.
    settings : ProgressSettings or ElapsedSettings
        See :data:`PRESETS`.
    rng : numpy.random.Generator or int
        Random start of the paper's solver, or its seed.
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
    msbgen.bridge.NotConvergedError
        The solver of the paper's preset did not reach its tolerance; the default preset solves
        later, see :meth:`ProfileModel.prepare`.
    """
    profiles = checked_profiles(dataset, part=True)
    return fit_model(profiles, settings, rng=rng, progress=progress)


def fit_model(
    profiles: Profiles,
    settings: Settings = DEFAULT,
    *,
    rng: np.random.Generator | int = 0,
    quiet: bool = False,
    progress: OnProgress | None = None,
) -> ProfileModel:
    """Model of valid profiles; arguments and errors as :func:`fit_profiles`.

    `quiet`: they are a part of measurements whose faults and doubts were logged.  Faults are
    corrected as always, but nothing is logged again.
    """
    if type(settings) not in _FITS:
        raise ArgumentError(
            f"settings is {quoted(settings)}; ProgressSettings or ElapsedSettings, e.g. "
            f"msbgen.PRESETS['paper'], is wanted."
        )
    if not quiet:
        warn_of_generated(profiles)
    try:
        distribution, findings = _FITS[type(settings)](profiles, settings, rng, quiet, progress)
    except MeasurementError as error:
        raise MeasurementError(f"{profiles.source}: {error}") from None
    if not quiet:
        for sentence in doubt_counts(without_absurd_counts(profiles, findings)):
            _log.warning("%s: %s", profiles.source, sentence)
    partial = partial_attrs(profiles, interpolated=isinstance(settings, ElapsedSettings))
    attrs = {**profiles.inherited_attrs, **partial}
    if profiles.is_generated:
        attrs[FITTED_TO] = "generated"
    if findings:
        attrs["faults"] = describe_faults(profiles, findings)
    return ProfileModel(
        distribution, profiles.resources, profiles.counter_attrs, attrs, findings,
        WordColumns.of(profiles.resources, profiles.contexts),
    )  # fmt: skip


def _fit_progress(
    profiles: Profiles,
    settings: ProgressSettings,
    _: object,
    quiet: bool,
    progress: OnProgress | None,
) -> tuple[ProgressDistribution, Findings]:
    clock = progress_clock(profiles, settings)
    for sentence in unended_counters(profiles):
        raise MeasurementError(sentence)
    findings = detect_faults(profiles, clock)
    if not quiet:
        log_faults(profiles, findings)
        for sentence in doubt_clock(profiles) if settings.clock is None else ():
            _log.warning("%s: %s", profiles.source, sentence)
    repaired = findings.repair(
        profiles.counts, profiles.duration, profiles.contexts, profiles.started
    )
    measurements = Measurements(
        repaired.counts,
        repaired.duration,
        WordColumns.of(profiles.resources, profiles.contexts).encode(repaired.contexts),
        profiles.interval,
        clock,
        complete=profiles.complete[repaired.kept],
        slowdown=repaired.slowdown,
        reliability=repaired.weights,
        time_imputed=repaired.estimated,
        lost=profiles.missing_samples((LOST,))[repaired.kept],
        untimed=repaired.untimed,
    )
    distribution = ProgressDistribution.fit(measurements, settings, progress=progress)
    if not quiet:
        _warn_of_lost_counts(profiles, distribution, repaired.kept)
    return distribution, findings


def _fit_elapsed(
    profiles: Profiles,
    settings: ElapsedSettings,
    rng: np.random.Generator | int,
    _: bool,
    progress: OnProgress | None,
) -> tuple[ElapsedDistribution, Findings]:
    if problem := paper_problem(profiles):
        raise MeasurementError(problem)
    distribution = ElapsedDistribution.fit(
        profiles.counts, profiles.duration, profiles.contexts, profiles.interval, settings,
        rng=rng, progress=progress,
    )  # fmt: skip
    return distribution, Findings()  # the paper's distribution corrects no faults


def paper_problem(profiles: Profiles) -> str:
    """Why the paper's preset cannot be fitted to profiles, as a sentence; empty where it can."""
    if not profiles.is_timed:
        return (
            "the durations have no course in time, which the paper's preset models; take the "
            "default preset."
        )
    if is_partial(profiles):
        return (
            "some runs lack counters or were cut; the paper's preset wants whole ones: take the "
            "default preset, or keep the runs that hold everything."
        )
    words = WordColumns.of(profiles.resources, profiles.contexts)
    for name, codes in zip(profiles.resources, words.codes):
        if codes:
            return (
                f"resource '{name}' has runs with more than two words, which have no order; "
                f"the paper's preset wants numbers: take the default preset."
            )
    return ""


_FITS: dict[type, Callable[..., tuple[ProfileDistribution, Findings]]] = {
    ProgressSettings: _fit_progress,
    ElapsedSettings: _fit_elapsed,
}


def progress_clock(profiles: Profiles, settings: ProgressSettings = DEFAULT) -> int:
    """Index of the progress counter: 0 for wall time, 1 + k for counter k."""
    names = ("time", *profiles.counters)
    # validation has checked that its progress counter is one of its counters
    wanted = profiles.clock_name if settings.clock is None else settings.clock
    if wanted not in names:
        raise ArgumentError(
            f"the progress counter is {quoted(wanted)}; one of {', '.join(names)} is wanted."
        )
    return names.index(wanted)


def _warn_of_lost_counts(
    profiles: Profiles, distribution: ProgressDistribution, kept: NDArray[np.int64]
) -> None:
    for context, run in np.argwhere(
        np.isfinite(distribution.duration) & ~np.isfinite(distribution.centre.total)
    ):
        row = int(kept[context])
        reason = doubt_total(profiles, row, int(run))
        _log.warning("run %d of %s %s", run, profiles.describe_context(row), reason)
