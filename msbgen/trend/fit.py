"""How the state depends on the resource context at fixed progress, learned from few contexts.

The state s(β, p) > 0 of context β in bin p of progress has k quantities, the first of which is
the time that the bin takes.  With scaled coordinates z(β) (one of log, reciprocal or linear per
resource, each spanning one unit over the known contexts) the trend is, per quantity,

    log(s(z, p) + offset) = mean(p) + f_p(z),

f_p a Gaussian process with a linear trend and a product of Matérn-5/2 kernels, one length scale
per resource and quantity, shared by all bins (a separable process); or a local-linear smoother
with the same parameters (:mod:`msbgen.trend.smooth`).  Everything is chosen by the error on
held-out *known* contexts (:mod:`msbgen.trend.search`): each context alone and, because a grid's
neighbours give away the levels of a resource, each inner level of a resource as a whole.

Where a resource caps the rate of a counter (:mod:`msbgen.trend.caps`) the time has a knee, and what
is smooth is the time without the cap.  Which counter is capped by which resource, at which rate,
and whether there is a cap at all is decided by the data; by sums over many bins, as a bin shorter
than a sampling interval holds the noise of placing counts in it, under which a cap is not seen.

Where runs last few sampling intervals that noise hides even corners from bins and segments; the
time as a whole is known better than its parts.  So a trend of the sums over all bins is fitted too,
and where it predicts the time of held-out contexts better by a wide margin, the bins' time is
scaled to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError
from msbgen.trend.caps import Cap, find_cap, held_out_time, refit_cap
from msbgen.trend.coordinates import COORDINATES, Coordinates, check_names, default_names
from msbgen.trend.folds import Folds
from msbgen.trend.joint import Joint, Windows, fit_joint, left_out_times, refit_joint
from msbgen.trend.problem import Parameters, Problem, offsets
from msbgen.trend.search import Choice, Search, default_choice
from msbgen.trend.smooth import FORMS, SMOOTHERS, GaussianProcess, Smoother

Floats = NDArray[np.float64]

# The local-linear form has to lower the held-out error by this factor.
_FORM_GAIN = 0.9
# The trend of the sums has to lower the held-out error of the whole time by this factor, and by
# the square of this share of the time: departures of known contexts mend what is less.
_WHOLE_GAIN, _WHOLE_LEAST = 0.5, 0.02


@dataclass(frozen=True, eq=False)
class Trend:
    """A fitted trend; see :func:`fit_trend`.

    Attributes
    ----------
    contexts : ndarray, (n, m)
    states : ndarray, (n, bins, k)
        Amounts per bin of each context that it was fitted to; the first quantity is time.
    weights : ndarray, (n,)
        Of the contexts, mean 1.
    coordinates : tuple of str
        "log", "reciprocal" or "linear" per resource.
    form : str
        "gaussian-process" or "local-linear".
    lengths : ndarray, (k, m)
        Length scales per quantity and resource, in units of the known range in the chosen
        coordinate.
    nugget : ndarray, (k,)
        Noise variance over that of the smooth part (the ridge of the local-linear form).
    offset : ndarray, (k,)
    mean, lowest, highest : ndarray, (k, bins)
        Of the logarithm.
    coefficients : ndarray, (k, n, bins)
        Kernel coefficients, or the centred log states in the local-linear form.
    caps : tuple of Cap
        None or one.
    whole : tuple of Trend
        None, or that of the sums over all bins, which the time of the bins is scaled to; under a
        joint law of time the counters are instead, as far as it says.
    joint : tuple of Joint
        None, or the law of time that was fitted to all sampling intervals at once.
    """

    contexts: Floats
    states: Floats
    weights: Floats
    coordinates: tuple[str, ...]
    form: str
    lengths: Floats
    nugget: Floats
    offset: Floats
    mean: Floats
    lowest: Floats
    highest: Floats
    coefficients: Floats
    caps: tuple[Cap, ...]
    whole: tuple[Trend, ...]
    joint: tuple[Joint, ...]

    @property
    def parameters(self) -> Parameters:
        """What was chosen before the fit, caps left aside."""
        return Parameters(self.form, self.lengths, self.nugget)

    @property
    def mean_lengths(self) -> Floats:
        """Length scale per resource in scaled coordinates, (m,): geometric mean of quantities."""
        return np.exp(np.mean(np.log(self.lengths), axis=0))

    def scaled(self, contexts: ArrayLike) -> Floats:
        """Coordinates of (q, m) contexts in which the known ones span [−1/2, 1/2]."""
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

    def distance(self, contexts: ArrayLike) -> Floats:
        """Distance of (q, m) contexts to each known one in mean length scales, (q, n)."""
        steps = (self.scaled(contexts)[:, None] - self._known) / self.mean_lengths
        return np.sqrt((steps**2).sum(axis=2))

    def predict(self, contexts: ArrayLike) -> Floats:
        """State at (q, m) contexts, (q, bins, k), not negative.

        O(q · n · bins · k).

        Raises
        ------
        ArgumentError
            Contexts of another shape, or that have no place in the coordinates.
        """
        state, times = self._with_times(contexts)
        for time, _ in times:
            state[..., 0] = time
        if not self.joint:
            for whole in self.whole:
                _sum_up(state[..., :1], whole.predict(contexts)[..., :1])
        return state

    def free_share(self, contexts: ArrayLike) -> Floats:
        """How far the time of (q, m) contexts follows the smooth part, (q, bins).

        ∂ log t / ∂ log u of the time t by the unthrottled time u: 1 where no cap binds, 0 where
        the time is all the cap's.
        """
        state, times = self._with_times(contexts)
        if not times:
            return np.ones(state.shape[:2])
        return times[-1][1]

    def _with_times(self, contexts: ArrayLike) -> tuple[Floats, list[tuple[Floats, Floats]]]:
        """State of a free process (q, bins, k); under a cap or law the time and its free share."""
        z = self.scaled(contexts)
        lengths, nugget = self._every_length
        if self.form == FORMS[0]:  # the unthrottled times are processes as well
            rows = self._smoother.rows(z, lengths, nugget)
        else:
            rows = self._smoother.rows(z, self.lengths, self.nugget)
            if self.caps:
                process, k = GaussianProcess(self._known), len(self.lengths)
                rows = np.concatenate([rows, process.rows(z, lengths[k:], nugget[k:])])
        values = rows[: len(self.lengths)] @ self.coefficients
        values += self.mean[:, None]
        np.maximum(values, self.lowest[:, None], out=values)
        np.minimum(values, self.highest[:, None], out=values)
        np.exp(values, out=values)
        values -= self.offset[:, None, None]
        state = np.empty((*values.shape[1:], len(values)))
        np.maximum(values.transpose(1, 2, 0), 0.0, out=state)
        levels = np.asarray(contexts, dtype=float)
        if self.joint:
            (law,), (whole,) = self.joint, self.whole
            _sum_up(state[..., 1:], whole.predict(contexts)[..., 1:], law.summed)
            return state, [law.time(levels, state[..., 1:], self.caps)]
        return state, [
            cap.throttle(own, levels[:, cap.resource], state[..., cap.counter])
            for cap, own in zip(self.caps, rows[len(self.lengths) :])
        ]

    @cached_property
    def _every_length(self) -> tuple[Floats, Floats]:
        """Length scales (k + caps, m) and nuggets (k + caps,): of the quantities, of the caps."""
        lengths = np.array([*self.lengths, *(cap.lengths for cap in self.caps)])
        return lengths, np.array([*self.nugget, *(cap.nugget for cap in self.caps)])

    def refit(self, states: ArrayLike, *, weights: ArrayLike = 1.0) -> Trend:
        """The trend of other states of the same contexts, nothing chosen anew.

        Parameters and errors as :func:`fit_trend`; coordinates, form, length scales, nuggets
        and the parameters of the caps are kept.  O(n³), with a cap O(n³) per bin.
        """
        known, amounts, worth = _checked(self.contexts, states, weights)
        if amounts.shape[2] != len(self.offset):
            raise ArgumentError(
                f"states has {amounts.shape[2]} quantities; the {len(self.offset)} of the trend "
                f"are wanted."
            )
        problem = self._problem(amounts, worth)
        caps = tuple(refit_cap(problem, known, cap) for cap in self.caps)
        sums = amounts.sum(axis=1, keepdims=True)
        whole = tuple(trend.refit(sums, weights=worth) for trend in self.whole)
        trend = _assemble(problem, known, self.coordinates, self.parameters, caps, whole)
        trend = replace(trend, joint=self.joint)
        laws = tuple(
            refit_joint(law, known, amounts[..., 0], trend.predict(known)[..., 1:], caps, worth)
            for law in self.joint
        )
        return replace(trend, joint=laws)

    def joined(self, windows: Windows) -> Trend:
        """The trend with its time from one law that is fitted to windows of progress.

        The sums of counters over the bins are means of what the bins and what a trend of the sums
        say, weighted by how well they predict the sums of left-out contexts.
        """
        sums, folds = self.states.sum(axis=1, keepdims=True), Folds.of(self.contexts)
        whole = fit_trend(self.contexts, sums, weights=self.weights, find_caps=False)
        plain = replace(self, whole=(), joint=())
        known = np.maximum(sums[folds.index, 0, 1:], 1e-300)

        def square(trend: Trend) -> Floats:
            predicted = np.maximum(trend.left_out(folds)[..., 1:].sum(axis=1), 1e-300)
            return (folds.weight @ np.abs(np.log(predicted / known))) ** 2

        errors = square(plain), square(whole)
        summed = errors[0] / np.maximum(errors[0] + errors[1], 1e-300)
        state = plain.predict(self.contexts)
        _sum_up(state[..., 1:], whole.predict(self.contexts)[..., 1:], summed)
        law = fit_joint(windows, self.contexts, state[..., 1:], self.caps, summed, self.weights)
        return replace(self, whole=(whole,), joint=(law,))

    @cached_property
    def held_out(self) -> Floats:
        """States of the known contexts, each predicted from all others, (n, bins, k).

        In closed form, with the parameters of the trend: what :meth:`refit` to the others would
        predict, but for the mean and limits of the logarithm.  Worked out when first asked for;
        O(n³), with a cap O(n³) per bin.
        """
        return self.left_out(Folds.alone(len(self.contexts)))

    def left_out(self, folds: Folds) -> Floats:
        """The same of groups of contexts that are left out together, (rows, bins, k)."""
        problem = self._problem_of(folds)
        left_out = problem.held_out(self.parameters)
        if self.joint:
            (law,), (whole,) = self.joint, self.whole
            _sum_up(left_out[..., 1:], whole.left_out(folds)[..., 1:], law.summed)
            counts = self.predict(self.contexts)[..., 1:]
            known = self.contexts, self.states[..., 0], counts, self.caps, self.weights
            left_out[..., 0] = left_out_times(law, *known, folds, left_out[..., 1:])
            return left_out
        times = [held_out_time(problem, self.contexts, cap, left_out) for cap in self.caps]
        for time in times:
            left_out[..., 0] = time
        for whole in self.whole:
            _sum_up(left_out[..., :1], whole.left_out(folds)[..., :1])
        return left_out

    def _problem(self, amounts: Floats, worth: Floats) -> Problem:
        """Of states of the known contexts, each of which is a fold."""
        return Problem(self._known, amounts, worth, self.offset, Folds.alone(len(amounts)))

    def _problem_of(self, folds: Folds) -> Problem:
        """That which was fitted, judged by some folds."""
        return Problem(self._known, self.states, self.weights, self.offset, folds)

    def to_arrays(self) -> dict[str, NDArray]:
        """Everything as plain arrays, for :meth:`from_arrays`; no object among them."""
        arrays: dict[str, NDArray] = {
            "coordinates": np.array([COORDINATES.index(c) for c in self.coordinates]),
            "form": np.array(FORMS.index(self.form)),
        }
        for name in _ARRAYS:
            arrays[name] = np.asarray(getattr(self, name))
        for name in _CAP_ARRAYS:
            values = [np.asarray(getattr(cap, name), dtype=float) for cap in self.caps]
            arrays[f"cap_{name}"] = np.stack(values) if values else np.empty(0)
        for whole in self.whole:
            arrays |= {f"whole_{name}": array for name, array in whole.to_arrays().items()}
        for law in self.joint:
            arrays |= {f"joint_{name}": np.asarray(getattr(law, name)) for name in _JOINT_ARRAYS}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, ArrayLike]) -> Trend:
        """The trend that :meth:`to_arrays` described."""
        caps = []
        for i in range(len(np.asarray(arrays["cap_rate"]))):
            value = {name: np.asarray(arrays[f"cap_{name}"])[i] for name in _CAP_ARRAYS}
            scalars = {n: float(value.pop(n)) for n in ("rate", "width", "gain", "nugget")}
            indices = {n: int(value.pop(n)) for n in ("counter", "resource")}
            caps.append(Cap(**indices, **scalars, **value))
        whole = {name[6:]: array for name, array in arrays.items() if name.startswith("whole_")}
        joint = {name[6:]: np.asarray(a) for name, a in arrays.items() if name.startswith("joint_")}
        return cls(
            coordinates=tuple(COORDINATES[int(i)] for i in np.asarray(arrays["coordinates"])),
            form=FORMS[int(np.asarray(arrays["form"]))],
            caps=tuple(caps),
            whole=(cls.from_arrays(whole),) if whole else (),
            joint=(Joint(**joint),) if joint else (),
            **{name: np.asarray(arrays[name], dtype=float) for name in _ARRAYS},
        )


_ARRAYS = (
    "contexts", "states", "weights", "lengths", "nugget", "offset", "mean", "lowest", "highest",
    "coefficients",
)  # fmt: skip
_CAP_ARRAYS = (
    "counter", "resource", "rate", "width", "gain", "lengths", "nugget", "mean", "highest",
    "coefficients",
)  # fmt: skip
_JOINT_ARRAYS = ("parts", "width", "common", "summed")


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
    """Learn the smooth dependence of the state on the context from the known contexts.

    Parameters
    ----------
    contexts : array_like, (n, m)
        Levels of the resources; a logarithm or reciprocal is only tried where all are positive.
    states : array_like, (n, bins, k)
        Amounts per bin of progress of each known context (mean over its runs); the first
        quantity is time.  Not negative; NaN where not measured.
    weights : array_like, broadcastable to (n,)
        How much each context is worth, e.g. its number of runs: noise variances are inverse.
    form : {"auto", "gaussian-process", "local-linear"}
        "auto" takes the local-linear form only where it predicts held-out contexts 10 % better
        in mean square.
    coordinates : {"auto", "log", "reciprocal", "linear"} or one of the latter per resource
        "auto" starts from the logarithm.
    find_caps : bool
        Look for a resource that caps the rate of a counter.  Needs time as first quantity.
    segments : int, optional
        Whether there is a cap is decided on sums of neighbouring bins, so many of them; without,
        on the bins themselves.
    floor : float
        The offset within the logarithm, relative to the mean of the quantity: amounts below it
        are treated additively.  Time has none.

    Returns
    -------
    Trend

    Raises
    ------
    ArgumentError
        Shapes that do not fit, contexts that are not finite, a quantity that is negative or
        never positive, an unknown form or coordinate.
    MeasurementError
        Contexts that are too alike to tell a trend.

    Notes
    -----
    O(n³) per candidate set of parameters, some hundred of them; with a cap O(n³) per bin.
    Fewer than m + 3 contexts cannot choose parameters: the logarithm and the default length
    scales are used then, and no cap is sought.

    Examples
    --------
    >>> clock = np.array([[1.0], [1.25], [1.6], [2.0], [2.5]])  # GHz
    >>> time = 0.3 + 1.0 / clock  # memory time does not scale with the clock
    >>> trend = fit_trend(clock, time[:, :, None])
    >>> bool(abs(trend.predict([[1.4]])[0, 0, 0] / (0.3 + 1 / 1.4) - 1) < 1e-3)
    True
    """
    known, amounts, worth = _checked(contexts, states, weights)
    n, bins, k = amounts.shape
    if form not in ("auto", *FORMS):
        raise ArgumentError(f"form is {form!r}; 'auto', {FORMS[0]!r} or {FORMS[1]!r} is wanted.")
    if segments is not None and not 1 <= segments <= bins:
        raise ArgumentError(f"segments is {segments}; 1 to {bins}, the bins, is wanted.")
    names = default_names(known) if coordinates == "auto" else check_names(coordinates, known)
    offset, folds = offsets(amounts, floor), Folds.of(known)

    def problem_in(names: tuple[str, ...]) -> Problem:
        z = Coordinates.of(names, known).scaled(known)
        return Problem(z, amounts, worth, offset, folds)

    choice = default_choice(names, FORMS[0] if form == "auto" else form, k)
    enough = n >= known.shape[1] + 3
    if not enough:
        return _assemble(problem_in(names), known, names, choice.parameters, (), ())
    search = Search(known, problem_in(names))
    choice = search.improve(choice)
    if coordinates == "auto":
        choice = search.improve_coordinates(choice)
    problem = problem_in(choice.names)
    summed = problem if segments is None else problem.in_segments(segments, floor)
    wanted = find_caps and k > 1 and bool(np.isfinite(amounts).all())

    def caps(choice: Choice) -> tuple[Cap, ...]:
        return find_cap(problem, summed, known, choice.parameters) if wanted else ()

    found = caps(choice)
    if form == "auto":
        other = search.improve(default_choice(choice.names, FORMS[1], k))
        if other.error < _FORM_GAIN * choice.error:
            # a cap may explain what the other form is better at
            caps_there = caps(other)
            errors = [
                _held_out_error(problem, known, parameters, caps)
                for parameters, caps in ((choice.parameters, found), (other.parameters, caps_there))
            ]
            if errors[1] < _FORM_GAIN * errors[0]:
                choice, found = other, caps_there
    whole: tuple[Trend, ...] = ()
    if bins > 1 and np.isfinite(amounts).all():
        sums = fit_trend(
            known, amounts.sum(axis=1, keepdims=True), weights=worth, form=form,
            coordinates=coordinates, find_caps=find_caps, floor=floor,
        )  # fmt: skip
        errors = [
            _whole_error(problem, known, choice.parameters, found),
            _whole_error(sums._problem_of(folds), known, sums.parameters, sums.caps),
        ]
        if errors[1] < min(_WHOLE_GAIN * errors[0], errors[0] - _WHOLE_LEAST**2):
            whole = (sums,)
    return _assemble(problem, known, choice.names, choice.parameters, found, whole)


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
        worth = np.broadcast_to(np.asarray(weights, dtype=float), (len(known),))
    except ValueError:
        worth = np.zeros(1)
    if not np.all(worth > 0) or not np.all(np.isfinite(worth)):
        raise ArgumentError(
            f"weights is {weights}; one positive number, or one a context, is wanted."
        )
    if not np.isfinite(amounts).any(axis=0).all():
        raise ArgumentError("states has a bin that no context has measured; fewer bins are wanted.")
    if not np.nanmax(amounts[..., 0]) > 0:
        raise ArgumentError("states has no time in its first quantity; positive times are wanted.")
    return known, amounts, worth / worth.mean()


def _held_out_error(
    problem: Problem, known: Floats, parameters: Parameters, caps: tuple[Cap, ...]
) -> float:
    """Weighted mean square of log(predicted / known) on the folds, summed over the quantities."""
    squares = problem.held_out_errors(problem.held_out_logs(parameters))
    for cap in caps:
        held_out = problem.held_out(parameters)
        time = held_out_time(problem, known, cap, held_out)[..., None]
        squares[0] = problem.held_out_errors(np.log(np.maximum(time, 1e-300)))[0]
    return float(squares.sum())


def _whole_error(
    problem: Problem, known: Floats, parameters: Parameters, caps: tuple[Cap, ...]
) -> float:
    """Weighted mean square of log(predicted / known) of the whole time on the folds."""
    held_out = problem.held_out(parameters)
    time = held_out[..., 0]
    for cap in caps:
        time = held_out_time(problem, known, cap, held_out)
    measured = problem.amounts[problem.folds.index, :, 0].sum(axis=1)
    logs = np.log(np.maximum(time.sum(axis=1), 1e-300) / measured)
    return float(problem.folds.weight @ logs**2)


def _sum_up(state: Floats, sums: Floats, share: ArrayLike = 1.0) -> None:
    """Move sums over bins of (q, bins, j), in place, by a share (j,) towards others (q, 1, j)."""
    own = state.sum(axis=1, keepdims=True)
    ratio = np.divide(sums, own, out=np.ones_like(own), where=own > 0)
    state *= np.power(ratio, np.asarray(share, dtype=float))


def _assemble(
    problem: Problem,
    known: Floats,
    names: tuple[str, ...],
    parameters: Parameters,
    caps: tuple[Cap, ...],
    whole: tuple[Trend, ...],
) -> Trend:
    fit = problem.fit(parameters)
    return Trend(
        known, problem.amounts, problem.worth, names, parameters.form, parameters.lengths,
        parameters.nugget, problem.offset, fit.mean, fit.lowest, fit.highest, fit.coefficients,
        caps, whole, (),
    )  # fmt: skip
