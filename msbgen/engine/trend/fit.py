"""How the state depends on the resource context at fixed progress, learned from few contexts.

The state s(β, p) > 0 of context β in bin p of progress has k quantities, the first of which is the
time of the bin.  z(β) are scaled coordinates: one of log, reciprocal or linear per resource, each
spanning one unit over the known contexts.  The trend is, per quantity,

    log(s(z, p) + offset) = mean(p) + f_p(z).

f_p is a Gaussian process with a linear trend and a product of Matérn-5/2 kernels.  It has one
length scale per resource and quantity, shared by all bins (a separable process).  The alternative
is a local-linear smoother with the same parameters (:mod:`msbgen.engine.trend.smooth`).

Forms, coordinates and parameters are those with the least error in held-out known contexts
(:mod:`msbgen.engine.trend.search`).  Each context is held out alone, and each inner level of a
resource with all its contexts.  The reason for whole levels: on a grid, the neighbours of a single
held-out context have its levels, so that it does not test a new level.

Where a resource caps the rate of a counter (:mod:`msbgen.engine.trend.caps`) the time has a knee,
and the time without the cap is smooth.  The data decide whether there is a cap, on which counter,
by which resource and at which rate.  The decision is made on sums over many bins: a bin shorter
than a sampling interval has the noise of deconvolution, which hides caps.

With too few contexts to choose parameters, the time of the bins is scaled by a fit of the duration
(:mod:`msbgen.engine.trend.whole_time`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arrays import LOGARITHMS, NOT_NEGATIVE, POSITIVE, Stored
from msbgen.core.contexts import are_many, representative_contexts
from msbgen.core.errors import ArgumentError, quoted
from msbgen.core.parts import Given, Sizes, stored_property
from msbgen.engine.trend.caps import Cap, find_cap, left_out_time, refit_cap
from msbgen.engine.trend.coordinates import COORDINATES, Coordinates, check_names, default_names
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.problem import Problem, SmoothingParameters, offsets
from msbgen.engine.trend.search import ParameterChoice, ParameterSearch, default_choice
from msbgen.engine.trend.smooth import FORMS, SMOOTHERS, Smoother, gaussian_process
from msbgen.engine.trend.time_model import (
    TimeModel,
    TimeProblem,
    Windows,
    fit_time_model,
    left_out_times,
    refit_time_model,
)
from msbgen.engine.trend.whole_time import WholeTime, stacked_share

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Contexts of which a fit to many chooses coordinates, parameters and caps.
_CHOOSING = 300
# The local-linear form must lower the held-out error by this factor.
_FORM_GAIN = 0.9


# States of left-out contexts, as a model stores them.
_LeftOut = Annotated[Floats, Stored(("known", "bin", "quantity"), NOT_NEGATIVE)]


@dataclass(frozen=True, eq=False)
class Trend:
    """A fitted trend; see :func:`fit_trend`."""

    contexts: Annotated[Floats, Given("contexts")]  # (n, m)
    # (n, bins, k): amounts per bin in each fitted context, time first
    states: Annotated[Floats, Stored(("known", "bin", "quantity"), NOT_NEGATIVE, missing=True)]
    weights: Annotated[Floats, Stored(("known",), POSITIVE)]  # (n,) of the contexts, mean 1
    coordinates: tuple[str, ...]  # "log", "reciprocal" or "linear" per resource
    form: str  # "gaussian-process" or "local-linear"
    # (k, m): length scales in scaled coordinates
    lengths: Annotated[Floats, Stored(("quantity", "column"), POSITIVE)]
    # (k,): noise variance over that of the smooth part, or the ridge
    nugget: Annotated[Floats, Stored(("quantity",), NOT_NEGATIVE)]
    offset: Annotated[Floats, Stored(("quantity",), NOT_NEGATIVE)]  # (k,)
    # (k, bins) of the logarithm, and limits of the predicted one
    mean: Annotated[Floats, Stored(("quantity", "bin"), LOGARITHMS)]
    lowest: Annotated[Floats, Stored(("quantity", "bin"), LOGARITHMS)]
    highest: Annotated[Floats, Stored(("quantity", "bin"), LOGARITHMS)]
    # (k, n, bins) of the kernel; centred log states in the local-linear form
    coefficients: Annotated[Floats, Stored(("quantity", "known", "bin"))]
    caps: tuple[Cap, ...]  # none or one
    # none, or with a time model one: the trend of the counters' sums over all bins.  The counters
    # are scaled to it, by the weights of that model
    sums: Annotated[tuple[Trend, ...], Sizes(bin=1)]
    time_model: tuple[TimeModel, ...]  # none or one, fitted to all sampling intervals at once
    whole_time: tuple[WholeTime, ...] = ()  # none, or one of few contexts

    @property
    def parameters(self) -> SmoothingParameters:
        """The parameters of the fit, without those of caps."""
        return SmoothingParameters(self.form, self.lengths, self.nugget)

    @property
    def mean_lengths(self) -> Floats:
        """Geometric mean over the quantities of the length scale of each resource, (m,)."""
        return np.exp(np.mean(np.log(self.lengths), axis=0))

    def scaled(self, contexts: ArrayLike) -> Floats:
        """Coordinates (q, m) of contexts (q, m) in which the known ones span [−1/2, 1/2]."""
        return self._coordinates.scaled(contexts)

    @cached_property
    def _coordinates(self) -> Coordinates:
        return Coordinates.of(self.coordinates, self.contexts)

    @cached_property
    def _known(self) -> Floats:
        return self.scaled(self.contexts)

    @cached_property
    def _smoother(self) -> Smoother:
        return SMOOTHERS[self.form](self._known)

    @cached_property
    def _process(self) -> Smoother:
        return self._smoother if self.form == FORMS[0] else gaussian_process(self._known)

    def distance(self, contexts: ArrayLike) -> Floats:
        """Distance of contexts (q, m) to each known one in mean length scales, (q, n)."""
        steps = (self.scaled(contexts)[:, None] - self._known) / self.mean_lengths
        return np.sqrt((steps**2).sum(axis=2))

    def predict(self, contexts: ArrayLike, only: slice = slice(None)) -> Floats:
        """State at contexts (q, m), (q, bins, k), not negative.  O(q · n · bins · k).

        Of the quantities `only`.  ArgumentError for contexts of another shape, or outside the
        domain of the coordinates.
        """
        return np.ascontiguousarray(self._state(contexts)[0][..., only])

    def times(self, contexts: ArrayLike) -> tuple[Floats, Floats]:
        """Time of bins at contexts (q, m) [s], and the share of the time without caps, (q, bins).

        The share is the derivative ∂ log t / ∂ log u of the time t by the time u without caps: 1
        where no cap binds, 0 where the cap determines the time.
        """
        state, share = self._state(contexts)
        return state[..., 0], share

    def _state(self, contexts: ArrayLike) -> tuple[Floats, Floats]:
        """State (q, bins, k), each quantity contiguous, and the free share (q, bins)."""
        z, levels = self.scaled(contexts), np.asarray(contexts, dtype=float)
        values = self._smoother.predict(z, self.coefficients, self.lengths, self.nugget)
        values += self.mean[:, None]
        np.maximum(values, self.lowest[:, None], out=values)
        np.minimum(values, self.highest[:, None], out=values)
        np.exp(values, out=values)
        values -= self.offset[:, None, None]
        np.maximum(values, 0.0, out=values)
        state, share = values.transpose(1, 2, 0), np.ones(values.shape[1:])
        if self.time_model:
            (model,), (sums,) = self.time_model, self.sums
            _scale_sums(state[..., 1:], sums.predict(contexts)[..., 1:], model.summed)
            state[..., 0], share = model.time(levels, state[..., 1:], self.caps)
            return state, share
        for cap in self.caps:  # the time without the cap is a Gaussian process in any form
            given = cap.coefficients[None], cap.lengths[None], np.array([cap.nugget])
            (smooth,) = self._process.predict(z, *given)
            state[..., 0], share = cap.throttle(
                smooth, levels[:, cap.resource], state[..., cap.counter]
            )
        for whole in self.whole_time:
            whole.scale(state[..., 0], levels, self.contexts)
        return state, share

    def refit(
        self, states: ArrayLike, *, weights: ArrayLike = 1.0, contexts: ArrayLike | None = None
    ) -> Trend:
        """The trend of other states, of the same or other contexts, with the same parameters.

        Parameters and errors as of :func:`fit_trend`.  Coordinates, form, length scales, nuggets
        and the parameters of the caps are kept.  O(n³), with a cap O(n³) per bin.
        """
        if contexts is not None:
            levels = np.array(contexts, dtype=float)
            sums = tuple(replace(one, contexts=levels) for one in self.sums)
            return replace(self, contexts=levels, sums=sums).refit(states, weights=weights)
        known, amounts, weight = _checked(self.contexts, states, weights)
        if amounts.shape[2] != len(self.offset):
            raise ArgumentError(
                f"states has {amounts.shape[2]} quantities; the {len(self.offset)} of the trend "
                f"are wanted."
            )
        folds = Folds.alone(len(amounts))
        smoothers = {} if are_many(known) else {self.form: self._smoother}
        problem = Problem(self._known, amounts, weight, self.offset, folds, smoothers)
        caps = tuple(refit_cap(problem, known, cap) for cap in self.caps)
        sums = amounts.sum(axis=1, keepdims=True)
        trend = _assemble(problem, known, self.coordinates, self.parameters, caps)
        whole = [WholeTime.fit(known, sums[:, 0, 0], weight, one.share) for one in self.whole_time]
        of_sums = tuple(trend.refit(sums, weights=weight) for trend in self.sums)
        trend = replace(trend, sums=of_sums, time_model=self.time_model, whole_time=tuple(whole))
        models = tuple(refit_time_model(one, trend._time_problem(one)) for one in self.time_model)
        return replace(trend, time_model=models)

    def _time_problem(self, model: TimeModel) -> TimeProblem:
        """The problem of a time model, with one window per bin."""
        windows, counts = Windows.of_bins(self.states[..., 0]), self.predict(self.contexts)[..., 1:]
        return TimeProblem(windows, self.contexts, counts, self.caps, self.weights, model.costly)

    def with_time_model(self, windows: Windows) -> Trend:
        """The trend with a time model that is fitted to windows of progress.

        The sums of counters over the bins are means of two predictions: that of the bins, and that
        of a trend of the sums.  Their weights follow from their errors in left-out contexts.
        """
        sums, folds = self.states.sum(axis=1, keepdims=True), Folds.of(self.contexts)
        of_sums = fit_trend(self.contexts, sums, weights=self.weights, find_caps=False)
        plain = replace(self, sums=(), time_model=())
        known = np.maximum(sums[folds.index, 0, 1:], 1e-300)

        def square(trend: Trend) -> Floats:
            predicted = np.maximum(trend.left_out(folds)[..., 1:].sum(axis=1), 1e-300)
            return (folds.weight @ np.abs(np.log(predicted / known))) ** 2

        errors = square(plain), square(of_sums)
        summed = errors[0] / np.maximum(errors[0] + errors[1], 1e-300)
        counts = plain.predict(self.contexts)[..., 1:]
        _scale_sums(counts, of_sums.predict(self.contexts)[..., 1:], summed)
        problem = TimeProblem(windows, self.contexts, counts, self.caps, self.weights)
        model = fit_time_model(problem, summed)
        return replace(self, sums=(of_sums,), time_model=(model,), whole_time=())

    def with_time_model_of(self, other: Trend, windows: Windows, rows: Indices) -> Trend:
        """The trend with the time model of another one, refitted to windows of progress.

        The windows are of the contexts `rows` alone, enough to determine the parts of each bin.
        """
        sums = self.states.sum(axis=1, keepdims=True)
        of_sums = other.sums[0].refit(sums, weights=self.weights, contexts=self.contexts)
        (model,), levels = other.time_model, self.contexts[rows]
        counts = replace(self, sums=(), time_model=()).predict(levels)[..., 1:]
        _scale_sums(counts, of_sums.predict(levels)[..., 1:], model.summed)
        weights = self.weights[rows]
        problem = TimeProblem(windows, levels, counts, self.caps, weights, model.costly)
        return replace(self, sums=(of_sums,), time_model=(refit_time_model(model, problem),))

    @stored_property
    def left_out_alone(self) -> _LeftOut:
        """States of the known contexts, each predicted from all others, (n, bins, k).

        In closed form, with the parameters of the trend: the prediction of a :meth:`refit` to the
        others, except for the mean and limits of the logarithm.  Computed at first use, and stored
        with the trend from then on; O(n³), with a cap O(n³) per bin.
        """
        return self.left_out(Folds.alone(len(self.contexts)))

    def left_out(self, folds: Folds) -> Floats:
        """States of contexts that are left out in groups, as `left_out_alone`, (rows, bins, k)."""
        problem = self._problem_of(folds)
        left_out = problem.left_out(self.parameters)
        if self.time_model:
            (model,), (sums,) = self.time_model, self.sums
            _scale_sums(left_out[..., 1:], sums.left_out(folds)[..., 1:], model.summed)
            times = left_out_times(model, self._time_problem(model), folds, left_out[..., 1:])
            left_out[..., 0] = times
            return left_out
        times = [left_out_time(problem, self.contexts, cap, left_out) for cap in self.caps]
        for time in times:
            left_out[..., 0] = time
        for whole in self.whole_time:
            given = self.contexts, self._durations, self.weights
            whole.scale_left_out(left_out[..., 0], *given, folds)
        return left_out

    @property
    def _durations(self) -> Floats:
        """Time over all bins in each fitted context, (n,)."""
        return self.states[..., 0].sum(axis=1)

    def _problem_of(self, folds: Folds) -> Problem:
        """The fitted problem, with other folds."""
        return Problem(self._known, self.states, self.weights, self.offset, folds)

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored trend."""
        names, forms = self.coordinates, FORMS[:1] if are_many(self.contexts) else FORMS
        if len(names) != self.contexts.shape[1] or not {*names} <= {*COORDINATES}:
            yield "coordinates", names, f"one of {', '.join(COORDINATES)} of each resource"
        elif not (self.contexts[:, np.array(names) != "linear"] > 0).all():
            yield "coordinates", names, "linear at 0"
        if self.form not in forms:
            yield "form", quoted(self.form), " or ".join(forms)
        if not len(self.offset):
            yield "offset", "empty", "one quantity or more"
        for name in ("caps", "sums", "time_model", "whole_time"):
            if (many := len(getattr(self, name))) > 1:
                yield name, f"of {many}", "none or one"
        if len(self.time_model) > len(self.sums):
            yield "time_model", "alone", "a trend of the sums beside it"
        divided = np.zeros(self.contexts.shape[1], dtype=bool)  # resources of positive levels
        for cap in self.caps:
            divided[cap.resource] = True
        for model in self.time_model:
            wanted = len(divided) + len(self.offset)
            shapes = len(model.parts), len(model.common), len(model.summed)
            if shapes != (wanted, wanted + 1, len(self.offset) - 1):
                yield "time_model", f"of {shapes} parts", f"({wanted}, ...)"
                return
            if not model.parts.any(axis=0).all():
                yield "time_model.0.parts", "0 in some bin", "a positive part"
            divided |= model.parts[: len(divided)].any(axis=1)
        for whole in self.whole_time:
            if len(whole.parts) != len(divided) + 1 or not whole.parts.any():
                yield "whole_time.0.parts", whole.parts, f"{len(divided) + 1}, not all 0,"
                return
            divided |= whole.parts[1:] > 0
        if not (self.contexts[:, divided] > 0).all():
            yield "contexts", "0 at a resource that divides", "levels > 0"


def fit_trend(
    contexts: ArrayLike,
    states: ArrayLike,
    *,
    weights: ArrayLike = 1.0,
    form: str = "auto",
    coordinates: str | tuple[str, ...] = "auto",
    find_caps: bool = True,
    segments: int | None = None,
    floor: float = 0.1,
) -> Trend:
    """The smooth dependence of the state on the context, fitted to the known contexts (n, m).

    States (n, bins, k) are mean amounts per bin of progress, time first; NaN where not measured.
    Noise variances are inverse to the weights (n,) of the contexts, such as their numbers of runs.
    The form "auto" takes the local-linear one only where its held-out mean square is 10 % lower;
    coordinates are one name for all resources, or one each, and "auto" starts from the logarithm.
    A cap is decided on so many `segments`, sums of neighbouring bins; by default on the bins.
    Amounts below `floor` times the mean of a quantity are treated additively; time has no floor.

    O(n³) per candidate set of parameters, some hundred of them; with a cap O(n³) per bin.  Of more
    than 400 contexts, 300 choose the parameters, and a covariance of low rank takes O(n).  With
    fewer than m + 3 contexts nothing is chosen: logarithms, default length scales and no cap.  Time
    then follows a fit of the duration, too; without `find_caps` the first quantity is no time.

    Raises
    ------
    ArgumentError
        Wrong shapes, contexts that are not finite, a quantity that is negative or never positive,
        an unknown form or coordinate.
    MeasurementError
        Contexts too close together to determine a trend.

    Examples
    --------
    >>> clock = np.array([[1.0], [1.25], [1.6], [2.0], [2.5]])  # GHz
    >>> time = 0.3 + 1.0 / clock  # memory time does not scale with the clock
    >>> trend = fit_trend(clock, time[:, :, None])
    >>> bool(abs(trend.predict([[1.4]])[0, 0, 0] / (0.3 + 1 / 1.4) - 1) < 1e-3)
    True
    """
    known, amounts, weight = _checked(contexts, states, weights)
    n, bins, k = amounts.shape
    if are_many(known):
        part = choosing_contexts(known)
        chosen = fit_trend(
            known[part], amounts[part], weights=weight[part], floor=floor, segments=segments,
            form=FORMS[0] if form == "auto" else form, coordinates=coordinates, find_caps=find_caps,
        )  # fmt: skip
        return chosen.refit(amounts, weights=weight, contexts=known)
    if form not in ("auto", *FORMS):
        raise ArgumentError(f"form is {form!r}; 'auto', {FORMS[0]!r} or {FORMS[1]!r} is wanted.")
    if segments is not None and not 1 <= segments <= bins:
        raise ArgumentError(f"segments is {segments}; 1 to {bins}, the bins, is wanted.")
    names = default_names(known) if coordinates == "auto" else check_names(coordinates, known)
    offset, folds = offsets(amounts, floor), Folds.of(known)

    def problem_in(names: tuple[str, ...]) -> Problem:
        z = Coordinates.of(names, known).scaled(known)
        return Problem(z, amounts, weight, offset, folds)

    choice = default_choice(names, FORMS[0] if form == "auto" else form, k)
    enough = n >= known.shape[1] + 3
    if not enough:
        trend = _assemble(problem_in(names), known, names, choice.parameters, ())
        if not (find_caps and bins > 1 and np.isfinite(amounts).all()):
            return trend
        return replace(trend, whole_time=_whole_time(trend, folds))
    search = ParameterSearch(known, problem_in(names))
    choice = search.improve(choice)
    if coordinates == "auto":
        choice = search.improve_coordinates(choice)
    problem = problem_in(choice.names)
    in_segments = problem if segments is None else problem.in_segments(segments, floor)
    wanted = find_caps and k > 1 and bool(np.isfinite(amounts).all())

    def search_cap(choice: ParameterChoice) -> tuple[Cap, ...]:
        return find_cap(problem, in_segments, known, choice.parameters) if wanted else ()

    caps = search_cap(choice)
    if form == "auto":
        other = search.improve(default_choice(choice.names, FORMS[1], k))
        if other.error < _FORM_GAIN * choice.error:
            # a cap may be why the other form is better
            caps_of_other = search_cap(other)
            errors = [
                _left_out_error(problem, known, choice.parameters, caps),
                _left_out_error(problem, known, other.parameters, caps_of_other),
            ]
            if errors[1] < _FORM_GAIN * errors[0]:
                choice, caps = other, caps_of_other
    return _assemble(problem, known, choice.names, choice.parameters, caps)


def choosing_contexts(contexts: Floats) -> Indices:
    """Rows of the contexts that choose the form and parameters of a fit to many contexts (n, m)."""
    return representative_contexts(contexts, _CHOOSING)


def _checked(
    contexts: ArrayLike, states: ArrayLike, weights: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Contexts (n, m), states (n, bins, k), and weights (n,) of mean 1."""
    known, amounts = np.array(contexts, dtype=float), np.array(states, dtype=float)
    if known.ndim != 2 or 0 in known.shape or not np.all(np.isfinite(known)):
        raise ArgumentError(f"contexts has shape {known.shape}; (n, m) finite levels are wanted.")
    if amounts.ndim != 3 or len(amounts) != len(known) or 0 in amounts.shape:
        raise ArgumentError(f"states has shape {amounts.shape}; ({len(known)}, bins, k) is wanted.")
    if len(np.unique(known, axis=0)) < len(known):
        raise ArgumentError("contexts holds a context twice; the mean of its runs is wanted.")
    if np.any(amounts < 0) or np.any(np.isinf(amounts)):
        raise ArgumentError("states holds negative or infinite amounts; others are wanted.")
    try:
        weight = np.broadcast_to(np.asarray(weights, dtype=float), (len(known),))
    except ValueError:
        weight = np.zeros(1)
    if not np.all(weight > 0) or not np.all(np.isfinite(weight)):
        raise ArgumentError(
            f"weights is {weights}; one positive number, or one per context, is wanted."
        )
    if not np.isfinite(amounts).any(axis=0).all():
        raise ArgumentError("states has a bin without a measured context; fewer bins are wanted.")
    if not np.nanmax(amounts[..., 0]) > 0:
        raise ArgumentError("states has no time in its first quantity; positive times are wanted.")
    return known, amounts, weight / weight.mean()


def _left_out_error(
    problem: Problem, known: Floats, parameters: SmoothingParameters, caps: tuple[Cap, ...]
) -> float:
    """Weighted mean square of log(predicted / known) on the folds, summed over the quantities."""
    squares = problem.left_out_errors(problem.left_out_logs(parameters))
    for cap in caps:
        left_out = problem.left_out(parameters)
        time = left_out_time(problem, known, cap, left_out)[..., None]
        squares[0] = problem.left_out_errors(np.log(np.maximum(time, 1e-300)))[0]
    return float(squares.sum())


def _whole_time(trend: Trend, folds: Folds) -> tuple[WholeTime, ...]:
    """Fit of the duration beside a trend; none where its parts are undetermined.

    Its share follows from the errors of both in left-out contexts; it is 0 where the rest does not
    determine the parts.
    """
    given = trend.contexts, trend._durations, trend.weights
    spare = WholeTime.spare(trend.contexts, trend.coordinates)
    if spare < 0:
        return ()
    if spare == 0:
        return (WholeTime.fit(*given, share=0.0),)
    predicted = np.empty((2, len(folds.index)))
    for row, left, kept in folds.splits(len(trend.contexts)):
        contexts, durations, weights = (array[kept] for array in given)
        others = trend.refit(trend.states[kept], weights=weights, contexts=contexts)
        predicted[0, row] = others.predict(trend.contexts[left])[..., 0].sum(axis=1)
        whole = WholeTime.fit(contexts, durations, weights)
        predicted[1, row] = whole.predict(trend.contexts[left])
    logs = np.log(np.maximum(predicted, 1e-300))
    logs -= np.log(np.maximum(trend._durations[folds.index], 1e-300))
    share = stacked_share(*(np.abs(logs) @ folds.weight).tolist())
    return (WholeTime.fit(*given, share=share),)


def _scale_sums(state: Floats, sums: Floats, share: ArrayLike = 1.0) -> None:
    """Scale (q, bins, j), in place, so that its sums over bins become `sums` (q, 1, j).

    `share` (j,) is the exponent of the factor: 1 the whole way, 0 none.
    """
    present = state.sum(axis=1, keepdims=True)
    ratio = np.divide(sums, present, out=np.ones_like(present), where=present > 0)
    state *= np.power(ratio, np.asarray(share, dtype=float))


def _assemble(
    problem: Problem,
    known: Floats,
    names: tuple[str, ...],
    parameters: SmoothingParameters,
    caps: tuple[Cap, ...],
) -> Trend:
    fit = problem.fit(parameters)
    trend = Trend(
        known, problem.amounts, problem.weights, names, parameters.form, parameters.lengths,
        parameters.nugget, problem.offset, fit.mean, fit.lowest, fit.highest, fit.coefficients,
        caps, (), (),
    )  # fmt: skip
    if not are_many(known):  # what a smoother of few contexts has computed is small
        vars(trend)["_smoother"] = problem.smoother(parameters.form)
    return trend
