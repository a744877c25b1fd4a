"""Calibrate a fitted model: bounds that hold in contexts that were not measured.

Known contexts are left out in turn and predicted from the others; how far their runs exceed these
predictions says how far a new run in a new context will (:mod:`msbgen.bounds.calibration`).  That
is a theorem where new contexts are drawn like the known ones.  Where this departs from it, and what
is done:

- The prediction at a new context uses all n contexts, at a left-out one n − 1 (the jackknife):
  bounds are a little wide.  Contexts left out alone are predicted in closed form (`Trend.loo`),
  which keeps the length scales that were chosen with the left-out context present: a few
  parameters against hundreds of runs.  ``folds=K`` repeats every choice instead.  Residuals of the
  bridge at the left-out context are never used.
- Known contexts are mostly a grid, new ones lie between its levels: they are not drawn alike.
  Contexts left out alone are too easy inside the grid (their neighbours give away the level) and
  too hard at its edge.  So each inner level is left out as a whole too, with three quarters of the
  weight, and scores are pooled by how far the left-out context was from the rest.  Pools are used
  as far as their contexts support the rate.
- What happens only between two levels leaves no trace at the known contexts: a working set that
  begins to fit the cache there is covered by no calibration.
- All contexts of a clock level share where the ends of the sampling intervals fall in the program,
  and so the error of placing counts within them.  Where phases are shorter than the interval the
  level, not the context, is what is exchangeable for the bands of the counters, and three inner
  levels are too few for a rate of 5 %: with a clock level of gzip left out of everything, the
  counters' bands hold for 1 to 90 % of its runs, with a level of ways or bandwidth for 91 to 100 %.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.bounds.calibration import Calibration
from msbgen.bounds.heldout import HeldOut, doubt_of, in_segments
from msbgen.data.schema import count_array, counter_names
from msbgen.errors import ProfileError
from msbgen.generate.clock import sharpen, uniform_knots
from msbgen.generate.model import ProfileModel
from msbgen.generate.progress_law import ProgressLaw
from msbgen.trend.fit import fit_trend

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

BOUNDS_SCHEMA = "msbgen-bounds/1"

# Weight of the whole levels among what is left out: new contexts mostly lie between levels.
_LEVELS = 0.75

_PREFIX = "calibration_"


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
        ValueError
            Contexts of the wrong form; a rate that the known contexts cannot support, with the
            number of runs that it needs.
        """
        return self.calibration.duration_bound(self.checked(contexts), miscoverage)

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
        rng = np.random.default_rng(0)  # a mean is not drawn
        counts, duration = self.law.profiles(query, "mean", rng=rng)
        bound = self.calibration.duration_bound(query, miscoverage)
        return Answer(counts[0], float(duration[0]), float(bound[0]))

    def bounds(self, contexts: ArrayLike, miscoverage: float = 0.05) -> xr.Dataset:
        """The bounds of :meth:`duration_bound` with their labels.

        Returns
        -------
        xarray.Dataset
            Over ``context``: ``duration_bound`` [s]; ``extrapolated``, 1 outside the hull of the
            known contexts; ``beyond``, 1 where a context is farther from the known ones than any
            that was left out, so that its bound is a guess.  The attributes name the
            miscoverage and the head.
        """
        query = self.checked(contexts)
        bound = self.calibration.duration_bound(query, miscoverage)
        outside = self._hull.outside(query).astype(np.int8)
        beyond = self.calibration.beyond(query).astype(np.int8)
        text = f"execution time that a new run exceeds with probability {miscoverage:g}"
        far = "context is farther from the measured ones than any that was left out"
        hull = "context lies outside the hull of the measured ones"
        return xr.Dataset(
            {
                "duration_bound": ("context", bound, {"units": "s", "long_name": text}),
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
                "head": self.calibration.head(miscoverage),
            },
        )

    def _as_dataset(self) -> xr.Dataset:
        arrays = self.calibration.held.to_arrays()
        arrays["left_out"] = arrays["left_out"].astype(np.int8)
        named = {f"{_PREFIX}{name}": array for name, array in arrays.items()}
        return (
            super()
            ._as_dataset()
            .assign(
                {
                    name: (tuple(f"{name}_{i}" for i in range(array.ndim)), array)
                    for name, array in named.items()
                }
            )
            .assign_attrs(quantities=json.dumps(self.calibration.quantities))
        )

    @classmethod
    def _from_dataset(cls, ds: xr.Dataset, source: str) -> CalibratedModel:
        model = ProfileModel._from_dataset(ds, source)
        law = model.law
        if not isinstance(law, ProgressLaw) or "quantities" not in ds.attrs:
            raise ProfileError(f"{source}: the model was not calibrated; see calibrate_model.")
        arrays = {
            str(name).removeprefix(_PREFIX): variable.values
            for name, variable in ds.data_vars.items()
            if str(name).startswith(_PREFIX)
        }
        try:
            held = HeldOut.from_arrays(law.trend, arrays)
            quantities = tuple(json.loads(ds.attrs["quantities"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ProfileError(
                f"{source}: the calibration is not whole ({error!r}); save it again."
            ) from None
        return cls(**vars(model), calibration=Calibration(held, quantities))


def calibrate_model(
    model: ProfileModel,
    dataset: xr.Dataset,
    *,
    folds: int = 0,
    rng: np.random.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CalibratedModel:
    """Predict the known contexts of a fitted model from one another.

    Parameters
    ----------
    model : ProfileModel
    dataset : xarray.Dataset
        What it was fitted to.
    folds : int
        0: each context alone in closed form, and each inner level of a resource, with the
        parameters of the trend kept.  K ≥ 2: K random groups of contexts, with every choice of
        the trend made anew without them; K fits of the trend.
        For scattered contexts: on a grid random groups leave no level out, and bounds come out
        too small between its levels.
    rng : numpy.random.Generator
        Forms the groups.
    progress : callable
        Called with (done, total) fits.

    Returns
    -------
    CalibratedModel
        Generates as `model` does.

    Raises
    ------
    ValueError
        A model without a trend or of other contexts; a number of folds that the contexts do not
        make.
    """
    law = model.law
    if not isinstance(law, ProgressLaw):
        raise ValueError("the model has no trend; fit it with ProgressSettings.")
    if law.clock == 0:
        raise ValueError(
            "the clock is wall time, bounds need a counter: name one that counts work in the "
            "attribute 'progress'."
        )
    counts, n = count_array(dataset), len(law.contexts)
    if counts.shape[:2] != law.duration.shape or counter_names(dataset) != list(model.counters):
        raise ValueError("the dataset is not the one that the model was fitted to.")
    if folds != 0 and not 2 <= folds <= n:
        raise ValueError(f"folds is {folds}; 0, or 2 to {n} of the {n} contexts, is wanted.")
    groups, weight = _random_groups(n, folds, rng) if folds else _singles_and_levels(law.contexts)
    used, means = np.isfinite(law.total), _known_states(law)
    predicted, state = [], []
    for done, group in enumerate(groups):
        prior = _left_out_prediction(law, means, used, group, anew=folds > 0)
        predicted.append(in_segments(prior, law.settings.segments))
        place, run = np.nonzero(used[group])
        runs = (counts[group[place], run], law.duration[group[place], run], law.interval)
        own = sharpen(*runs, prior[place], knots=uniform_knots(prior.shape[1]), clock=law.clock)
        state.append(in_segments(own.state, law.settings.segments))
        if progress:
            progress(done + 1, len(groups))
    left_out = np.repeat([np.isin(np.arange(n), g) for g in groups], [*map(len, groups)], axis=0)
    held = HeldOut(
        trend=law.trend,
        context=np.concatenate(groups),
        left_out=left_out,
        weight=weight,
        doubt=doubt_of(law.trend, groups),
        predicted=np.concatenate(predicted),
        run_context=np.nonzero(used)[0],
        duration=law.duration[used],
        state=np.concatenate(state),
    )
    counters = list(model.counters)
    quantities = ("duration", *counters[: law.clock - 1], *counters[law.clock :])
    own = {name: getattr(model, name) for name in ("law", "resources", "counters", "attrs")}
    return CalibratedModel(**own, calibration=Calibration(held, quantities))


def _left_out_prediction(
    law: ProgressLaw, means: Floats, used: NDArray[np.bool_], group: Indices, *, anew: bool
) -> Floats:
    """Amounts per bin of a group of known contexts from all others, (group, bins, k)."""
    if len(group) == 1 and not anew:
        return law.trend.loo[group]
    kept = np.setdiff1d(np.arange(len(law.contexts)), group)
    worth = used.sum(axis=1)[kept]
    if anew:
        trend = fit_trend(
            law.contexts[kept],
            means[kept],
            weights=worth,
            segments=law.settings.segments,
        )
    else:
        trend = replace(law.trend, contexts=law.contexts[kept])
        trend = trend.refit(means[kept], weights=worth, held_out=False)
    return trend.predict(law.contexts[group])


def _known_states(law: ProgressLaw) -> Floats:
    """Mean measured amounts per bin of each known context, (n, bins, k), as the law has them."""
    return law.trend.predict(law.contexts) * np.exp(law.departure)


def _random_groups(
    n: int, folds: int, rng: np.random.Generator | None
) -> tuple[list[Indices], Floats]:
    rng = np.random.default_rng() if rng is None else rng
    groups = [np.sort(group) for group in np.array_split(rng.permutation(n), folds)]
    return groups, np.full(n, 1.0 / n)


def _singles_and_levels(contexts: Floats) -> tuple[list[Indices], Floats]:
    """Each context alone and each level of a resource that lies between others; their weights."""
    n, levels = len(contexts), []
    for column in contexts.T:
        values = np.unique(column)
        if 3 <= len(values) <= n // 2:
            levels += [np.flatnonzero(column == value) for value in values[1:-1]]
    count = sum(map(len, levels))
    share = _LEVELS if levels else 0.0
    weight = np.repeat([(1.0 - share) / n, share / max(count, 1)], [n, count])
    return [np.array([i]) for i in range(n)] + levels, weight
