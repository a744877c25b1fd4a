"""Calibration of a fitted model: bounds for contexts that were not measured.

Known contexts are left out in turn and predicted from the others.  The excess of their runs over
these predictions bounds that of a new run in a new context
(:mod:`msbgen.engine.bounds.calibration`).  The guarantee and its assumptions:

- Each group that is left out has the same weight: each context alone, and each inner level of a
  resource with all its contexts, since these have a common error.  A new run of a new context is
  covered with probability 1 − α or more if the context is drawn like the left-out groups, for any
  distribution of the noise.  The widths were learned from the same contexts; with hundreds of runs
  this effect is small.
- The prediction at a new context uses all n contexts, at a left-out one n − 1 (the jackknife):
  bounds are slightly wide.  Contexts left out alone are predicted in closed form, with length
  scales that were chosen with the left-out context present: a few parameters against hundreds of
  runs.  ``folds=K`` chooses them anew.
- Known contexts are mostly a grid, and new ones lie between its levels, so that they are not drawn
  like the known ones.  There the guarantee is as good as the estimated growth of errors, which
  comes from the left-out levels.  Errors of the execution time grow with the gap to the measured
  levels.  A part of the errors of a band is the same at any new level, as sampling intervals of all
  runs of a level end at the same places of the program; left-out levels show how large it is.  If a
  resource has three levels, both rest on a single one.
- What happens only between two levels, such as a working set that begins to fit the cache, does not
  show at the known contexts.  The calibration does not cover it.  Bands of counts are wider in gaps
  that may hide it (:mod:`msbgen.engine.generate.cliffs`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.conformal import groups_needed, supported_rate
from msbgen.core.draws import numbers_of
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.core.machine import OnProgress
from msbgen.data.build import array_variable
from msbgen.data.profiles import Profiles
from msbgen.data.schema import ENERGY_BOUND, ENERGY_UNITS, file_of
from msbgen.engine.bounds.calibration import Calibration
from msbgen.engine.bounds.choices import RefittedLevels
from msbgen.engine.bounds.left_out import LeftOut, leave_out
from msbgen.engine.generate.model import ProfileModel

Floats = NDArray[np.float64]

BOUNDS_SCHEMA = "msbgen-bounds/1"

_log = logging.getLogger("msbgen")

# Fields of the fitted model that a calibrated model shares.
_SHARED = ("distribution", "resources", "counters", "attrs", "findings", "words")


@dataclass(frozen=True, eq=False)
class Answer:
    """Mean profile, duration and bound of one context, without labels.

    Attributes
    ----------
    counts : ndarray, (n_times, n_counters)
        Mean profile: expected events per sampling interval.
    duration : float
        Mean execution time [s].
    bound : float
        Execution time [s] that a new run exceeds with at most the given probability.
    """

    counts: NDArray[np.float32]
    duration: float
    bound: float


@dataclass(frozen=True, eq=False, repr=False)
class CalibratedModel(ProfileModel):
    """A fitted model with bounds on the error of its predictions.

    Attributes
    ----------
    left_out : LeftOut
        Left-out predictions of the known contexts.
    refitted : RefittedLevels or None
        Those for bounds on chosen contexts, after :meth:`for_choices`.
    """

    left_out: LeftOut = field(kw_only=True)
    refitted: RefittedLevels | None = field(default=None, kw_only=True)

    @cached_property
    def calibration(self) -> Calibration:
        """Bounds and bands on arrays."""
        clock, counters = self.distribution.centre.clock, list(self.counters)
        return Calibration(self.left_out, ("duration", *counters[: clock - 1], *counters[clock:]))

    def for_choices(self) -> CalibratedModel:
        """The same model with the fits that bounds on chosen contexts take, to save it with them.

        Of 27 contexts they take .3 s, of 125 some seconds.
        """
        if self.refitted:
            return self
        return replace(self, refitted=RefittedLevels.fit(self.left_out, self.distribution))

    @cached_property
    def _of_choices(self) -> Calibration:
        """Calibration of bounds on chosen contexts."""
        refitted = self.refitted or RefittedLevels.fit(self.left_out, self.distribution)
        left_out = refitted.replaced(self.left_out)
        return Calibration(left_out, self.calibration.quantities, chosen=True)

    def duration_bound(
        self, contexts: ArrayLike, miscoverage: float = 0.05, *, chosen: bool = False
    ) -> Floats:
        """Execution time [s] that a new run exceeds with probability at most `miscoverage`.

        Parameters
        ----------
        contexts : array_like, (n_query, n_resources)
        miscoverage : float
            α in (0, 1); smaller rates never give smaller bounds.
        chosen : bool
            Whether contexts are chosen by their bounds.  Bounds are then wider: their errors are
            those of levels that no fit knew (:mod:`msbgen.engine.bounds.choices`), in either
            direction.

        Returns
        -------
        ndarray, (n_query,)

        Raises
        ------
        ArgumentError
            Contexts of the wrong form; a rate outside (0, 1).
        MeasurementError
            More contexts are needed for this rate; the message says how many, and
            :meth:`supported_rate` the smallest rate that those at hand support.
        """
        return self._durations(contexts, miscoverage, chosen=chosen)[1]

    def _durations(
        self, contexts: ArrayLike, miscoverage: float, *, chosen: bool
    ) -> tuple[Floats, Floats]:
        calibration = self._of_choices if chosen else self.calibration
        return calibration.durations(self.columns(contexts), miscoverage)

    def energy_bound(self, contexts: ArrayLike, miscoverage: float = 0.05) -> Floats:
        """Energy [J] that a new run exceeds with probability at most `miscoverage`.

        As :meth:`duration_bound`, for the counter in joules.

        Raises
        ------
        ArgumentError
            As :meth:`duration_bound`; no counter is in joules, or several are and none is called
            ``energy``, or it is the progress counter.
        MeasurementError
            As :meth:`duration_bound`; some run took no energy.
        """
        joules = self._joules()
        if len(joules) != 1:
            what = f"{', '.join(joules)} are" if joules else "no counter beside the clock is"
            raise ArgumentError(f"{what} in joules; one counter of energy, 'energy', is wanted.")
        query = self.columns(contexts)
        return self.calibration.of_total(joules[0]).duration_bound(query, miscoverage)

    def _joules(self) -> list[str]:
        """Counters in joules, or "energy" alone where there is one of that name."""
        names = [
            name
            for name, attrs in self.counters.items()
            if attrs.get("units") == ENERGY_UNITS and name in self.calibration.quantities
        ]
        return ["energy"] if "energy" in names else names

    def answer(self, context: ArrayLike, miscoverage: float = 0.05) -> Answer:
        """Mean profile and duration bound of one context, in some milliseconds.

        As `generate` (kind "mean") and `duration_bound`, for inner loops: without labels, and with
        everything that does not depend on the context computed once.  It does not say where it
        extrapolates: ask :meth:`bounds` about all candidates before the loop.

        Parameters
        ----------
        context : array_like, (n_resources,)
            A level of each resource; names, as of a series, are in the order of the resources.
        miscoverage : float
            Probability that a new run takes longer than the bound.

        Raises
        ------
        ArgumentError, MeasurementError
            As :meth:`duration_bound`.
        """
        query = self.columns(numbers_of(context, "context", self.resources)[None])
        counts, duration = self.distribution.profiles(query, "mean")
        bound = self.calibration.duration_bound(query, miscoverage)
        return Answer(counts[0], float(duration[0]), float(bound[0]))

    def beyond(self, contexts: ArrayLike) -> NDArray[np.bool_]:
        """Contexts whose bounds are guesses (:meth:`Calibration.beyond`), (n_query,)."""
        return self.calibration.beyond(self.columns(contexts))

    def supported_rate(self, contexts: ArrayLike, miscoverage: float) -> float:
        """`miscoverage`, or with a warning the smallest larger rate that bounds there support.

        All measured contexts support a rate together; the runs of a measured context may support a
        smaller one there.  `contexts` as :meth:`duration_bound`.
        """
        left_out = self.left_out
        if self.calibration.by_runs(self.columns(contexts), miscoverage).all():
            return miscoverage
        n, unit = left_out.n_contexts, "contexts with a complete run"
        if n == 0:
            n, unit = len(left_out.duration), "complete runs of the context"
        rate = supported_rate(miscoverage, n)
        if rate != miscoverage:
            _log.warning(
                "%s: bounds are for a miscoverage of %g, not of %g, which takes %d %s; there are "
                "%d: measure more (msbgen plan).",
                self.attrs.get("task", "dataset"), rate, miscoverage, groups_needed(miscoverage),
                unit, n,
            )  # fmt: skip
        return rate

    def bounds(
        self, contexts: ArrayLike, miscoverage: float = 0.05, *, chosen: bool = False
    ) -> xr.Dataset:
        """The bounds of :meth:`duration_bound` with their labels.

        Returns
        -------
        xarray.Dataset
            Over ``context``: ``expected_duration`` and ``duration_bound`` [s], and where energy was
            counted ``energy_bound`` [J]; ``extrapolated``, 1 outside the hull of the known
            contexts; ``beyond``, 1 where the bound is a guess.  It is a guess if the context is
            farther from the known ones than any that was left out, or at a new level of a
            resource without a left-out level (one measured at one or two levels).  The attribute
            ``miscoverage`` holds the rate.
        """
        query = self.checked(contexts)
        expected, bound = self._durations(query, miscoverage, chosen=chosen)
        exceeded = f"that a new run exceeds with probability {miscoverage:g}"
        columns: dict[str, tuple[NDArray[Any], str, str]] = {
            "expected_duration": (expected, "s", "expected execution time"),
            "duration_bound": (bound, "s", f"execution time {exceeded}"),
        }
        if len(self._joules()) == 1:
            joules = self.energy_bound(query, miscoverage)
            columns[ENERGY_BOUND] = (joules, ENERGY_UNITS, f"energy {exceeded}")
        outside = "context lies outside the hull of the measured ones"
        columns["extrapolated"] = (self.extrapolated(query).astype(np.int8), "1", outside)
        guess = "bound is a guess: nothing that was left out lay as far from the rest"
        columns["beyond"] = (self.beyond(query).astype(np.int8), "1", guess)
        return xr.Dataset(
            {
                name: array_variable("context", column, {"units": units, "long_name": text})
                for name, (column, units, text) in columns.items()
            },
            coords={
                name: array_variable("context", column, attrs)
                for (name, attrs), column in zip(self.resources.items(), query.T)
            },
            attrs={
                **self.attrs,
                "schema": BOUNDS_SCHEMA,
                "source": f"bounds by msbgen from {self.origin}",
                "miscoverage": miscoverage,
            },
        )

    @staticmethod
    def any_of_file(content: xr.Dataset) -> ProfileModel:
        """Model of the content of its file: calibrated where that holds a calibration.

        ProfileError where the content is no model.
        """
        return (CalibratedModel if _is_calibrated(content) else ProfileModel).of_file(content)

    @classmethod
    def of_file(cls, content: xr.Dataset) -> Self:
        """Model of the content of its file; ProfileError where that is no calibrated one."""
        if not _is_calibrated(content):
            ProfileModel.of_file(content)
            raise ProfileError(
                f"{file_of(content)}: the model was not calibrated; save it with msbgen "
                f"bound --model, or see calibrate_model."
            )
        return super().of_file(content)

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored model."""
        yield from super().problems()
        if self.refitted is None:
            return
        if self.refitted.predicted.shape != self.left_out.predicted.shape:
            yield "refitted", "of other rows", "the left-out ones"
        if not (self.refitted.predicted[..., 0].sum(axis=1) > 0).all():
            yield "refitted.predicted", "0 for the time of a row", "a positive number"
        if not abs(self.refitted.weight.sum() - 1.0) < 1e-6:
            yield "refitted.weight", f"of sum {self.refitted.weight.sum():g}", "a sum of 1"


def _is_calibrated(content: xr.Dataset) -> bool:
    return any(str(name).startswith("left_out.") for name in content.variables)


def calibrate_model(
    model: ProfileModel,
    dataset: xr.Dataset,
    *,
    folds: int | None = None,
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> CalibratedModel:
    """Calibrated model, from left-out predictions of the known contexts of a fitted one.

    Parameters
    ----------
    model : ProfileModel
    dataset : xarray.Dataset
        The measurements that the model was fitted to.
    folds : int, optional
        K ≥ 2: K random groups of contexts, with a new fit of the trend without each.  For scattered
        contexts: on a grid random groups leave no level out, and bounds are too small between its
        levels.  By default each context alone in closed form, and each inner level of a resource,
        with the parameters of the trend kept.  Up to 400 contexts, counts are deconvolved again
        without each level; a level takes about a thirtieth of the time of the fit.
    rng : numpy.random.Generator or int
        Generator of the random groups or its seed.
    progress : callable
        Called with (done, total) fits.

    Returns
    -------
    CalibratedModel
        It generates the same profiles as `model`.

    Raises
    ------
    ArgumentError
        A model without a trend or of other contexts; folds that are not 2 to the number of
        contexts.
    MeasurementError
        Progress is wall time; a single context; generated profiles that are no samples.
    """
    return calibrate(model, Profiles.of(dataset), folds=folds, rng=rng, progress=progress)


def calibrate(
    model: ProfileModel,
    profiles: Profiles,
    *,
    folds: int | None = None,
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> CalibratedModel:
    """Calibrated model; arguments and errors as :func:`calibrate_model`."""
    check_has_runs(profiles)
    counts = profiles.counts
    whole = max((i for fault in model.findings for i in fault.contexts), default=0) < len(counts)
    if whole:
        counts = model.findings.repair(counts, profiles.duration, profiles.contexts).counts
    same = whole and counts.shape[:2] == model.distribution.duration.shape
    if not same or list(profiles.counters) != list(model.counters):
        raise ArgumentError(
            f"the dataset holds {counts.shape[0]} contexts × {counts.shape[1]} runs of "
            f"{', '.join(profiles.counters)}; the one that the model was fitted to is wanted."
        )
    left_out = leave_out(model.distribution, counts, folds=folds, rng=rng, progress=progress)
    shared = {name: getattr(model, name) for name in _SHARED}
    return CalibratedModel(**shared, left_out=left_out)


def check_has_runs(profiles: Profiles) -> None:
    """Raise MeasurementError for one generated profile per context, which bounds no run."""
    if profiles.is_generated and not profiles.replicate:
        raise MeasurementError(
            f"{profiles.source}: holds one generated profile per context, which does not "
            f"show how runs differ; measured runs, or samples (msbgen generate --kind sample), are "
            f"wanted."
        )
