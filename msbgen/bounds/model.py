"""Calibrate a fitted model: bounds that hold in contexts that were not measured.

Known contexts are left out in turn and predicted from the others; how far their runs exceed these
predictions says how far a new run in a new context will (:mod:`msbgen.bounds.calibration`).  What
is promised, and on what it rests:

- Everything that is left out as a whole has one vote: each context alone, and each inner level of
  a resource with all its contexts, since these err alike.  A new run of a new context that is drawn
  like what was left out is covered with probability 1 − α or more, whatever the law of its noise;
  the widths were learned from the same contexts, which is worth little beside hundreds of runs.
- The prediction at a new context uses all n contexts, at a left-out one n − 1 (the jackknife):
  bounds are a little wide.  Contexts left out alone are predicted in closed form,
  `Centre.held_out`, which keeps the length scales chosen with the left-out context present: a few
  parameters against hundreds of runs.  ``folds=K`` repeats every choice instead.  Residuals of the
  bridge at the left-out context are never used.
- Known contexts are mostly a grid, new ones lie between its levels: they are not drawn alike.
  There the promise is as good as a model of how errors grow, learned from the levels left out:
  those of the execution time with the gap to the measured levels, those of a band by as much at
  any new level, as all runs of a level share where the sampling intervals end in the program.
  With three levels of a resource this rests on a single one.
- What happens only between two levels leaves no trace at the known contexts: a working set that
  begins to fit the cache there is covered by no calibration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.bounds.calibration import Calibration
from msbgen.bounds.heldout import HeldOut, leave_out
from msbgen.core.arrays import StoredArrays
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.core.machine import OnProgress
from msbgen.data.schema import (
    ENERGY_BOUND,
    ENERGY_UNITS,
    context_table,
    count_array,
    counter_names,
    duration_array,
)
from msbgen.generate.model import ProfileModel

Floats = NDArray[np.float64]

BOUNDS_SCHEMA = "msbgen-bounds/1"

# Of the names of its arrays in a file.
_PREFIX = "calibration_"
# What a calibrated model takes over from the fitted one.
_OWN = ("law", "resources", "counters", "attrs", "findings")


@dataclass(frozen=True, eq=False)
class Answer:
    """What an allocator asks of one context, without labels.

    Attributes
    ----------
    counts : ndarray, (n_times, n_counters)
        Mean profile: expected events per sampling interval.
    duration : float
        Mean execution time [s].
    bound : float
        Execution time [s] that a new run seldom exceeds.
    """

    counts: NDArray[np.float32]
    duration: float
    bound: float


@dataclass(frozen=True, eq=False)
class CalibratedModel(ProfileModel):
    """A fitted model that knows how far its predictions can be trusted.

    Attributes
    ----------
    calibration : Calibration
        Bounds and bands on arrays.
    """

    calibration: Calibration = field(kw_only=True)

    def duration_bound(self, contexts: ArrayLike, miscoverage: float = 0.05) -> Floats:
        """Execution time [s] that a new run exceeds with probability at most `miscoverage`.

        Parameters
        ----------
        contexts : array_like, (n_query, n_resources)
        miscoverage : float
            α in (0, 1); smaller rates never give smaller bounds.

        Returns
        -------
        ndarray, (n_query,)

        Raises
        ------
        ArgumentError
            Contexts of the wrong form; a rate that is none.
        MeasurementError
            A rate that the known contexts cannot support, with the number of runs that it needs.
        """
        return self.calibration.duration_bound(self.checked(contexts), miscoverage)

    def energy_bound(self, contexts: ArrayLike, miscoverage: float = 0.05) -> Floats:
        """Energy [J] that a new run exceeds with probability at most `miscoverage`.

        As :meth:`duration_bound`, for the counter in joules.

        Raises
        ------
        ArgumentError
            As :meth:`duration_bound`; no counter is in joules, or several are and none is called
            ``energy``, or it is the clock.
        MeasurementError
            As :meth:`duration_bound`; some run took no energy.
        """
        joules = self._joules()
        if len(joules) != 1:
            what = f"{', '.join(joules)} are" if joules else "no counter beside the clock is"
            raise ArgumentError(f"{what} in joules; one counter of energy, 'energy', is wanted.")
        query = self.checked(contexts)
        return self.calibration.of_total(joules[0]).duration_bound(query, miscoverage)

    def _joules(self) -> list[str]:
        """Counters of energy: the one that is called so, where there is one."""
        found = [
            name
            for name, attrs in self.counters.items()
            if attrs.get("units") == ENERGY_UNITS and name in self.calibration.quantities
        ]
        return ["energy"] if "energy" in found else found

    def answer(self, context: ArrayLike, miscoverage: float = 0.05) -> Answer:
        """Mean profile and duration bound of one context, in milliseconds.

        As `generate` (kind "mean") and `duration_bound`, for inner loops: nothing is labelled, and
        what does not depend on the context is worked out once.

        Parameters
        ----------
        context : array_like, (n_resources,)
        miscoverage : float
        """
        query = self.checked(np.asarray(context, dtype=float)[None])
        counts, duration = self.law.profiles(query, "mean")
        bound = self.calibration.duration_bound(query, miscoverage)
        return Answer(counts[0], float(duration[0]), float(bound[0]))

    def bounds(self, contexts: ArrayLike, miscoverage: float = 0.05) -> xr.Dataset:
        """The bounds of :meth:`duration_bound` with their labels.

        Returns
        -------
        xarray.Dataset
            Over ``context``: ``duration_bound`` [s], and where energy was counted
            ``energy_bound`` [J]; ``extrapolated``, 1 outside the hull of the
            known contexts; ``beyond``, 1 where its bound is a guess, as no left-out prediction had
            to reach as far: the context is farther from the known ones than any that was left out,
            or at a new level of a resource of which none was tried (one that was measured at two
            levels, say, or at one).  An attribute names the miscoverage.
        """
        query = self.checked(contexts)
        bound = self.calibration.duration_bound(query, miscoverage)
        outside = self.extrapolated(query).astype(np.int8)
        beyond = self.calibration.beyond(query).astype(np.int8)
        text = f"execution time that a new run exceeds with probability {miscoverage:g}"
        far = "bound is a guess: nothing that was left out lay as far from the rest"
        hull = "context lies outside the hull of the measured ones"
        energy: dict[str, Any] = {}
        if len(self._joules()) == 1:
            joules = self.energy_bound(query, miscoverage)
            said = f"energy that a new run exceeds with probability {miscoverage:g}"
            energy[ENERGY_BOUND] = "context", joules, {"units": ENERGY_UNITS, "long_name": said}
        return xr.Dataset(
            {
                "duration_bound": ("context", bound, {"units": "s", "long_name": text}),
                **energy,
                "extrapolated": ("context", outside, {"units": "1", "long_name": hull}),
                "beyond": ("context", beyond, {"units": "1", "long_name": far}),
            },
            coords={
                name: ("context", column, attrs)
                for (name, attrs), column in zip(self.resources.items(), query.T)
            },
            attrs={
                **self.attrs,
                "schema": BOUNDS_SCHEMA,
                "source": f"bounds by msbgen from {len(self.law.contexts)} measured contexts",
                "miscoverage": miscoverage,
            },
        )

    def _as_dataset(self) -> xr.Dataset:
        arrays = {
            f"{_PREFIX}{name}": ([f"{_PREFIX}{dim}" for dim in dims], array)
            for name, (dims, array) in self.calibration.held.to_arrays().items()
        }
        return super()._as_dataset().assign(arrays)

    @classmethod
    def _from_dataset(cls, ds: xr.Dataset, source: str) -> CalibratedModel:
        model = ProfileModel._from_dataset(ds, source)
        whole = StoredArrays(source, {str(n): v.values for n, v in ds.data_vars.items()})
        stored = whole.part(_PREFIX)
        if not stored.arrays:
            raise ProfileError(f"{source}: the model was not calibrated; see calibrate_model.")
        try:
            return _calibrated(model, HeldOut.from_arrays(model.law, stored))
        except ArgumentError as error:
            raise ProfileError(f"{source}: {error}") from None


def calibrate_model(
    model: ProfileModel,
    dataset: xr.Dataset,
    *,
    folds: int | None = None,
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> CalibratedModel:
    """Predict the known contexts of a fitted model from one another.

    Parameters
    ----------
    model : ProfileModel
    dataset : xarray.Dataset
        What it was fitted to.
    folds : int, optional
        K ≥ 2: K random groups of contexts, with every choice of the trend made anew without them;
        K fits of the trend.  For scattered contexts: on a grid random groups leave no level out,
        and bounds come out too small between its levels.
        Otherwise each context alone in closed form, and each inner level of a resource, with the
        parameters of the trend kept.
    rng : numpy.random.Generator or int
        Forms the groups; equal ones form equal groups.
    progress : callable
        Called with (done, total) fits.

    Returns
    -------
    CalibratedModel
        Generates as `model` does.

    Raises
    ------
    ArgumentError
        A model without a trend or of other contexts; a number of folds that the contexts do not
        make.
    MeasurementError
        The clock is wall time; a single context.
    """
    counts, duration = count_array(dataset), duration_array(dataset)
    whole = max((i for fault in model.findings for i in fault.contexts), default=0) < len(counts)
    if whole:
        counts = model.findings.mend(counts, duration, context_table(dataset)).counts
    same = whole and counts.shape[:2] == model.law.duration.shape
    if not same or counter_names(dataset) != list(model.counters):
        raise ArgumentError(
            f"the dataset holds {counts.shape[0]} contexts × {counts.shape[1]} runs of "
            f"{', '.join(counter_names(dataset))}; the one that the model was fitted to is wanted."
        )
    return _calibrated(model, leave_out(model.law, counts, folds=folds, rng=rng, progress=progress))


def _calibrated(model: ProfileModel, held: HeldOut) -> CalibratedModel:
    clock, counters = model.law.centre.clock, list(model.counters)
    quantities = ("duration", *counters[: clock - 1], *counters[clock:])
    own = {name: getattr(model, name) for name in _OWN}
    return CalibratedModel(**own, calibration=Calibration(held, quantities))
