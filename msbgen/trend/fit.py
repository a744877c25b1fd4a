"""How the state depends on the resource context at fixed progress, learned from few contexts.

The state s(β, p) > 0 of context β in bin p of progress has k quantities, the first of which is
the time that the bin takes.  With scaled coordinates z(β) (one of log, reciprocal or linear per
resource, each spanning one unit over the known contexts) the trend is, per quantity,

    log(s(z, p) + offset) = mean(p) + f_p(z),

f_p a Gaussian process with a linear trend and a product of Matérn-5/2 kernels, one length scale
per resource and quantity, shared by all bins (a separable process); or a local-linear smoother
with the same parameters.  Everything is chosen by the error on held-out *known* contexts: each
context alone and, because a grid's neighbours give away the levels of a resource, each inner
level of a resource as a whole.  Held-out predictions are in closed form.

A resource can cap the rate of a counter (a roofline, Section 5.7 of the method).  Time is then

    t = E max(u, c·X),   c = counter / (rate · level),   log X ~ N(−w²/2, w²),

u the unthrottled time, which is smooth, and X the unevenness of the counter within a bin, which
rounds the knee.  Where the cap binds, an observed t says little about u; the share
∂ log t / ∂ log u of u in t weighs it.  Which counter is capped by which resource, at which rate,
and whether there is a cap at all is decided by the data; by sums over many bins, as a bin shorter
than a sampling interval holds the noise of placing counts in it, under which a cap is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.trend import _kernels
from msbgen.trend.covariance import prior_covariance

Floats = NDArray[np.float64]

COORDINATES = ("log", "reciprocal", "linear")
FORMS = ("gaussian-process", "local-linear")

_LENGTHS = np.array([0.15, 0.25, 0.4, 0.6, 1.0, 1.6, 2.5, 4.0, 8.0])
_NUGGETS = np.array([1e-5, 1e-4, 1e-3, 1e-2, 1e-1])
_DEFAULT_LENGTH = 5  # 1.6
_DEFAULT_NUGGET = 2
# A share below this carries no information about the unthrottled time.
_LEAST_SHARE = 0.02
# Nor does a time that exceeds what the cap demands by less than its own noise may do.
_EXCESS = 0.05
# Widths of the knee that the search for a cap starts from.
_WIDTHS = (0.03, 0.1, 0.3)
# Beyond the known values the log state may move by half their range, and 5 %, not farther.
_ROOM, _ROOM_MIN = 0.5, 0.05
# A choice that makes the model less plain has to lower the held-out error by this factor.
_COORDINATE_GAIN, _FORM_GAIN, _CAP_GAIN = 0.8, 0.9, 0.75


@dataclass(frozen=True, eq=False)
class Cap:
    """A resource caps the rate of a counter: counter per second ≤ rate · level.

    Attributes
    ----------
    counter : int
        Column of the state.
    resource : int
        Column of the contexts.
    rate : float
        Events per second and unit of the resource.
    width : float
        Unevenness of the counter within a bin: standard deviation of its logarithm.
    gain : float
        Held-out squared error over that without a cap, of sums of bins, where it was found.
    lengths : ndarray, (m,)
        Length scales of the unthrottled time.
    nugget : float
    mean, highest : ndarray, (bins,)
        Mean and upper limit of the logarithm of the unthrottled time.
    coefficients : ndarray, (n, bins)
    """

    counter: int
    resource: int
    rate: float
    width: float
    gain: float
    lengths: Floats
    nugget: float
    mean: Floats
    highest: Floats
    coefficients: Floats


@dataclass(frozen=True, eq=False)
class Trend:
    """A fitted trend; see :func:`fit_trend`.

    Attributes
    ----------
    contexts : ndarray, (n, m)
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
    loo : ndarray, (n, bins, k)
        Prediction of each known context from all others.
    error : ndarray, (k,)
        Root mean square of log(predicted / known) on held-out contexts, weighted by the amount
        that a bin holds.
    """

    contexts: Floats
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
    loo: Floats
    error: Floats

    @property
    def metric(self) -> Floats:
        """Length scale per resource in scaled coordinates, (m,): geometric mean of quantities."""
        return np.exp(np.mean(np.log(self.lengths), axis=0))

    def scaled(self, contexts: ArrayLike) -> Floats:
        """Coordinates of (q, m) contexts in which the known ones span [−1/2, 1/2]."""
        return _scaled(_contexts(contexts, self.coordinates), self._range, self.coordinates)

    @cached_property
    def _range(self) -> list[tuple[float, float]]:
        return _ranges(self.contexts, self.coordinates)

    @cached_property
    def _known(self) -> Floats:
        return self.scaled(self.contexts)

    def distance(self, contexts: ArrayLike) -> Floats:
        """Distance of (q, m) contexts to each known one in the learned metric, (q, n)."""
        steps = (self.scaled(contexts)[:, None] - self._known) / self.metric
        return np.sqrt((steps**2).sum(axis=2))

    def outside(self, contexts: ArrayLike) -> Floats:
        """How far (q, m) contexts lie beyond the known range of any resource, (q,).

        In units of that range in the chosen coordinate; 0 within the box of known contexts,
        where the trend interpolates.
        """
        return np.maximum(np.abs(self.scaled(contexts)) - 0.5 - 1e-9, 0.0).max(axis=1)

    def predict(self, contexts: ArrayLike) -> Floats:
        """State at (q, m) contexts, (q, bins, k), not negative.

        O(q · n · bins · k).
        """
        z, known = self.scaled(contexts), self._known
        n_quantities, bins = self.mean.shape
        state = np.empty((len(z), bins, n_quantities))
        for k in range(n_quantities):
            rows = _rows(self.form, z, known, self.lengths[k], self.nugget[k])
            value = rows @ self.coefficients[k]
            value += self.mean[k]
            np.clip(value, self.lowest[k], self.highest[k], out=value)
            state[..., k] = np.maximum(np.exp(value, out=value) - self.offset[k], 0.0)
        for cap in self.caps:
            value = prior_covariance(z, known, cap.lengths) @ cap.coefficients
            value += cap.mean
            np.minimum(value, cap.highest, out=value)
            levels = _contexts(contexts, self.coordinates)[:, cap.resource, None]
            floor = state[..., cap.counter] / (cap.rate * levels)
            state[..., 0] = throttled(np.exp(value), floor, cap.width)[0]
        return state

    def refit(self, states: ArrayLike, *, weights: ArrayLike = 1.0, held_out: bool = True) -> Trend:
        """The trend of other states of the same contexts, nothing chosen anew.

        Parameters and errors as :func:`fit_trend`; coordinates, form, length scales, nuggets
        and the parameters of the caps are kept.  Without `held_out` the predictions of known
        contexts from all others, half of the work, are left out: `loo` and `error` are NaN.
        O(n³), with a cap O(n³) per bin.
        """
        known, amounts, worth = _checked(self.contexts, states, weights)
        if amounts.shape[2] != len(self.offset):
            raise ValueError(
                f"states has {amounts.shape[2]} quantities; the {len(self.offset)} of the trend."
            )
        return _assemble(
            known,
            amounts,
            worth,
            self.offset,
            self.coordinates,
            self.form,
            self.lengths,
            self.nugget,
            lambda seeker: tuple(seeker.again(cap) for cap in self.caps),
            held_out=held_out,
        )

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
        return cls(
            coordinates=tuple(COORDINATES[int(i)] for i in np.asarray(arrays["coordinates"])),
            form=FORMS[int(np.asarray(arrays["form"]))],
            caps=tuple(caps),
            **{name: np.asarray(arrays[name], dtype=float) for name in _ARRAYS},
        )


_ARRAYS = (
    "contexts", "lengths", "nugget", "offset", "mean", "lowest", "highest", "coefficients",
    "loo", "error",
)  # fmt: skip
_CAP_ARRAYS = (
    "counter", "resource", "rate", "width", "gain", "lengths", "nugget", "mean", "highest",
    "coefficients",
)  # fmt: skip


def fit_trend(
    contexts: ArrayLike,
    states: ArrayLike,
    *,
    weights: ArrayLike = 1.0,
    form: str = "auto",
    coordinates: str | tuple[str, ...] = "auto",
    find_caps: bool = True,
    segments: int = 0,
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
    segments : int
        Whether there is a cap is decided on sums of neighbouring bins, so many of them; 0 for the
        bins themselves.
    floor : float
        The offset within the logarithm, relative to the mean of the quantity: amounts below it
        are treated additively.  Time has none.

    Returns
    -------
    Trend

    Raises
    ------
    ValueError
        Shapes that do not fit, contexts that are not finite, a quantity that is negative or
        never positive, an unknown form or coordinate.

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
    n, m = known.shape
    if form not in ("auto", *FORMS):
        raise ValueError(f"form is {form!r}; 'auto', {FORMS[0]!r} or {FORMS[1]!r} is wanted.")
    if not 0 <= segments <= amounts.shape[1]:
        raise ValueError(f"segments is {segments}; 0 to {amounts.shape[1]}, the bins, is wanted.")
    chosen = _checked_coordinates(coordinates, known)
    measured = np.isfinite(amounts)
    offset = _offset(amounts, floor)
    logs, noise, share = _logs(amounts, worth, offset)
    _, centred = _centre(logs, noise)
    tests = _Tests.of(known)
    choose = n >= m + 3

    few = [_few_columns(centred[..., k], noise[..., k], share[k]) for k in range(amounts.shape[2])]

    def search(axes: tuple[str, ...], shape: str, start: list[_Choice]) -> list[_Choice]:
        z = _scaled(known, _ranges(known, axes), axes)
        return [_search(z, tests, shape, *columns, first) for columns, first in zip(few, start)]

    default = _Choice((_DEFAULT_LENGTH,) * m, _DEFAULT_NUGGET, np.inf)
    choices = [default] * amounts.shape[2]
    shape = FORMS[0] if form == "auto" else form
    if choose:
        choices = search(chosen, shape, choices)
        if coordinates == "auto":
            chosen, choices = _search_coordinates(chosen, choices, known, shape, search)

    wanted = find_caps and choose and amounts.shape[2] > 1 and bool(measured.all())
    summed = _summed(amounts, segments) if wanted else amounts

    def assemble(shape: str, choices: list[_Choice]) -> Trend:
        lengths = np.array([_LENGTHS[list(c.lengths)] for c in choices])
        nugget = np.array([_NUGGETS[c.nugget] for c in choices])

        def seek(seeker: _CapSearch) -> tuple[Cap, ...]:
            if not wanted:
                return ()
            z, own_offset = seeker.z, _offset(summed, floor)
            fit = _fit_all(z, tests, summed, worth, own_offset, shape, lengths, nugget)
            coarse = replace(
                seeker,
                amounts=summed,
                noise=fit.noise,
                share=fit.share[0],
                held_out=fit.predicted(own_offset),
            )
            return seeker.run(lengths[0], nugget[0], coarse)

        return _assemble(known, amounts, worth, offset, chosen, shape, lengths, nugget, seek)

    trend = assemble(shape, choices)
    if choose and form == "auto":
        other = search(chosen, FORMS[1], [default] * amounts.shape[2])
        if _total(other) < _FORM_GAIN * _total(choices):
            # a cap may explain what the other form is better at
            local = assemble(FORMS[1], other)
            if (local.error**2).sum() < _FORM_GAIN * (trend.error**2).sum():
                return local
    return trend


@dataclass(frozen=True)
class _Fit:
    """Every quantity fitted with given parameters, caps left aside.

    Attributes
    ----------
    logs, noise : ndarray, (n, bins, k)
    share : ndarray, (k, bins)
    mean : ndarray, (bins, k)
    coefficients : ndarray, (k, n, bins)
    held_out : ndarray, (rows, bins, k)
        Predicted logarithms of the held-out contexts, within the known range and some room.
    lowest, highest : ndarray, (bins, k)
    """

    logs: Floats
    noise: Floats
    share: Floats
    mean: Floats
    coefficients: Floats
    held_out: Floats
    lowest: Floats
    highest: Floats

    def predicted(self, offset: Floats) -> Floats:
        """Amounts of the held-out contexts, (rows, bins, k)."""
        return np.maximum(np.exp(self.held_out) - offset, 0.0)


def _fit_all(
    z: Floats,
    tests: _Tests,
    amounts: Floats,
    worth: Floats,
    offset: Floats,
    shape: str,
    lengths: Floats,
    nugget: Floats,
) -> _Fit:
    """Fit amounts (n, bins, k) at z (n, m); lengths are (k, m), nugget and offset (k,)."""
    logs, noise, share = _logs(amounts, worth, offset)
    mean, centred = _centre(logs, noise)
    lowest, highest = np.nanmin(logs, axis=0), np.nanmax(logs, axis=0)
    room = _ROOM * (highest - lowest) + _ROOM_MIN
    lowest, highest = lowest - room, highest + room
    coefficients = np.empty((amounts.shape[2], *amounts.shape[:2]))
    held_out = np.empty((len(tests.index), *amounts.shape[1:]))
    for k in range(amounts.shape[2]):
        coefficients[k], errors = _fit(
            z, tests, shape, centred[..., k], noise[..., k], lengths[k], nugget[k]
        )
        held_out[..., k] = logs[tests.index, :, k] - errors
    np.clip(held_out, lowest, highest, out=held_out)
    return _Fit(logs, noise, share, mean, coefficients, held_out, lowest, highest)


def _assemble(
    known: Floats,
    amounts: Floats,
    worth: Floats,
    offset: Floats,
    chosen: tuple[str, ...],
    shape: str,
    lengths: Floats,
    nugget: Floats,
    seek: Callable[[_CapSearch], tuple[Cap, ...]],
    *,
    held_out: bool = True,
) -> Trend:
    """The trend with given parameters; `seek` finds the caps once the rest is known."""
    n = len(known)
    tests = _Tests.of(known) if held_out else _Tests.none()
    z = _scaled(known, _ranges(known, chosen), chosen)
    fit = _fit_all(z, tests, amounts, worth, offset, shape, lengths, nugget)
    predicted = fit.predicted(offset)
    seeker = _CapSearch(known, z, amounts, fit.noise, fit.share[0], tests, predicted)
    caps = seek(seeker)
    loo, error = np.full(amounts.shape, np.nan), np.full(amounts.shape[2], np.nan)
    if held_out:
        loo = predicted[:n].copy()
        squares = np.nan_to_num((fit.held_out - fit.logs[tests.index]) ** 2)
        error = np.sqrt(np.einsum("r,rbk,kb->k", tests.weight, squares, fit.share))
        for cap in caps:
            loo[..., 0], error[0] = seeker.held_out_time(cap)
    return Trend(
        known, chosen, shape, lengths, nugget, offset, fit.mean.T.copy(), fit.lowest.T.copy(),
        fit.highest.T.copy(), fit.coefficients, caps, loo, error,
    )  # fmt: skip


# Noise variance of what was not measured, over that of a measured value.
_UNKNOWN = 1e8


@dataclass(frozen=True)
class _Choice:
    """Indices of the length scales and of the nugget, and their held-out mean squared error."""

    lengths: tuple[int, ...]
    nugget: int
    error: float


@dataclass(frozen=True)
class _Tests:
    """Held-out predictions to make: blocks of contexts, each predicted from all the others.

    Attributes
    ----------
    index : ndarray of int, (rows,)
        Context that each row predicts.
    single : int
        The first rows are the contexts 0 to single − 1, each held out alone.
    blocks : tuple of slice
        The other rows, held out together: one inner level of a resource.
    resource : ndarray of int, (rows,)
        Whose level is held out, −1 for contexts alone.
    weight : ndarray, (rows,)
        Sums to 1: half on the contexts alone, half on the levels, all levels alike.
    """

    index: NDArray[np.intp]
    single: int
    blocks: tuple[slice, ...]
    resource: NDArray[np.intp]
    weight: Floats

    @classmethod
    def of(cls, known: Floats) -> _Tests:
        n, m = known.shape
        members = []
        for r in range(m):
            levels = np.unique(known[:, r])
            if 3 <= len(levels) <= n // 2:
                members += [(r, np.flatnonzero(known[:, r] == v)) for v in levels[1:-1]]
        return cls._build(n, members)

    @classmethod
    def none(cls) -> _Tests:
        return cls._build(0, [])

    @classmethod
    def _build(cls, n: int, members: list[tuple[int, NDArray[np.intp]]]) -> _Tests:
        parts, resource, weight = [np.arange(n)], [np.full(n, -1)], [np.full(n, 1.0 / max(n, 1))]
        blocks, start = [], n
        for r, rows in members:
            parts.append(rows)
            resource.append(np.full(len(rows), r))
            weight.append(np.full(len(rows), 1.0 / (len(members) * len(rows))))
            blocks.append(slice(start, start + len(rows)))
            start += len(rows)
        weights = np.concatenate(weight)
        return cls(
            np.concatenate(parts), n, tuple(blocks), np.concatenate(resource),
            weights / max(weights.sum(), 1e-300),
        )  # fmt: skip

    def about(self, resource: int, *, alone: bool) -> tuple[_Tests, NDArray[np.intp]]:
        """Levels of one resource, with the contexts alone or without; rows of self they are.

        Where the resource has no inner level the contexts alone stand in.
        """
        blocks = [b for b in self.blocks if self.resource[b.start] == resource]
        n = self.single if alone or not blocks else 0
        tests = _Tests._build(n, [(resource, self.index[b]) for b in blocks])
        rows = [np.arange(n), *(np.arange(b.start, b.stop) for b in blocks)]
        return tests, np.concatenate(rows)


def _total(choices: list[_Choice]) -> float:
    return float(sum(c.error for c in choices))


def _checked(
    contexts: ArrayLike, states: ArrayLike, weights: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    known, amounts = np.array(contexts, dtype=float), np.array(states, dtype=float)
    if known.ndim != 2 or 0 in known.shape or not np.all(np.isfinite(known)):
        raise ValueError(f"contexts has shape {known.shape}; (n, m) finite levels are wanted.")
    if amounts.ndim != 3 or len(amounts) != len(known) or 0 in amounts.shape:
        raise ValueError(f"states has shape {amounts.shape}; ({len(known)}, bins, k) is wanted.")
    if len(np.unique(known, axis=0)) < len(known):
        raise ValueError("contexts holds a context twice; average its runs first.")
    if np.any(amounts < 0) or np.any(np.isinf(amounts)):
        raise ValueError("states holds negative or infinite amounts.")
    worth = np.broadcast_to(np.asarray(weights, dtype=float), (len(known),))
    if not np.all(worth > 0) or not np.all(np.isfinite(worth)):
        raise ValueError("weights must be positive numbers, one per context.")
    if not np.isfinite(amounts).any(axis=0).all():
        raise ValueError("states has a bin that no context has measured; use fewer bins.")
    if not np.nanmax(amounts[..., 0]) > 0:
        raise ValueError("states has no time in its first quantity.")
    return known, amounts, worth / worth.mean()


def _checked_coordinates(coordinates: str | tuple[str, ...], known: Floats) -> tuple[str, ...]:
    """One coordinate a resource; what has levels of zero or less can only be linear."""
    positive = known.min(axis=0) > 0
    if coordinates == "auto":
        return tuple("log" if p else "linear" for p in positive)
    m = known.shape[1]
    chosen = (coordinates,) * m if isinstance(coordinates, str) else tuple(coordinates)
    if len(chosen) != m or any(c not in COORDINATES for c in chosen):
        raise ValueError(f"coordinates is {coordinates!r}; 'auto' or {m} of {COORDINATES} wanted.")
    if any(c != "linear" and not p for c, p in zip(chosen, positive)):
        raise ValueError(f"coordinates is {coordinates!r}; levels of zero or less want 'linear'.")
    return chosen


def _contexts(contexts: ArrayLike, coordinates: tuple[str, ...]) -> Floats:
    values, m = np.asarray(contexts, dtype=float), len(coordinates)
    if values.ndim != 2 or values.shape[1] != m:
        raise ValueError(f"contexts has shape {values.shape}; (q, {m}) levels are wanted.")
    curved = [r for r, name in enumerate(coordinates) if name != "linear"]
    if not np.all(values[:, curved] > 0):
        row = int(np.argmin((values[:, curved] > 0).all(axis=1)))
        raise ValueError(
            f"contexts have a level that is not positive at row {row}: {values[row].tolist()}; "
            f"levels like the measured ones are wanted."
        )
    return values


def _mapped(values: Floats, name: str) -> Floats:
    """One resource in its coordinate."""
    if name == "log":
        return np.log(values)
    return -1.0 / values if name == "reciprocal" else values


def _ranges(known: Floats, coordinates: tuple[str, ...]) -> list[tuple[float, float]]:
    """Least value and span of each resource in its coordinate."""
    columns = [_mapped(known[:, r], name) for r, name in enumerate(coordinates)]
    return [(float(column.min()), float(np.ptp(column))) for column in columns]


def _scaled(
    contexts: Floats, ranges: list[tuple[float, float]], coordinates: tuple[str, ...]
) -> Floats:
    z = np.zeros_like(contexts)
    for r, ((least, span), name) in enumerate(zip(ranges, coordinates)):
        if span > 0:  # one level says nothing about the others
            z[:, r] = (_mapped(contexts[:, r], name) - least) / span - 0.5
    return z


def _offset(amounts: Floats, floor: float) -> Floats:
    """What is added within the logarithm, (k,): next to nothing to time."""
    average = np.nanmean(amounts, axis=(0, 1))
    offset = np.where(average > 0, floor * average, 1.0)
    offset[0] = 1e-9 * average[0]
    return offset


def _summed(amounts: Floats, segments: int) -> Floats:
    """Sums of neighbouring bins, (n, segments, k)."""
    if segments == 0:
        return amounts
    first = np.arange(segments) * amounts.shape[1] // segments
    return np.add.reduceat(amounts, first, axis=1)


def _logs(amounts: Floats, worth: Floats, offset: Floats) -> tuple[Floats, Floats, Floats]:
    """Log states, noise variances (n, bins, k), and the share of the amount per bin (k, bins)."""
    noise = np.where(np.isfinite(amounts), 1.0 / worth[:, None, None], _UNKNOWN)
    share = np.nanmean(amounts, axis=0).T
    return (
        np.log(amounts + offset),
        noise,
        share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300),
    )


def _centre(logs: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Mean over the contexts (bins, k) and what is left (n, bins, k), 0 where not measured."""
    weight = np.where(noise < _UNKNOWN, 1.0 / noise, 0.0)
    values = np.where(weight > 0, logs, 0.0)
    mean = (weight * values).sum(axis=0) / weight.sum(axis=0)
    return mean, np.where(weight > 0, values - mean, 0.0)


# ------------------------------------------------------------------ smoothers


def _local_linear_rows(
    z: Floats, known: Floats, lengths: Floats, ridge: float, allowed: NDArray[np.bool_]
) -> Floats:
    """Weights (q, n) of the known values in local-linear fits around each of z.

    Minimises Σ_i κ_i (y_i − a − b·(z_i − z))² + ridge·|b|², κ Gaussian with the length scales.
    """
    step = known[None] - z[:, None]
    squared = ((step / lengths) ** 2).sum(axis=2)
    squared = np.where(allowed, squared, np.inf)
    weight = np.exp(-0.5 * (squared - squared.min(axis=1, keepdims=True)))
    design = np.concatenate([np.ones((*step.shape[:2], 1)), step], axis=2)
    normal = np.matmul((weight[..., None] * design).transpose(0, 2, 1), design)
    index = np.arange(1, design.shape[2])
    normal[:, index, index] += ridge * weight.sum(axis=1, keepdims=True)
    first = np.zeros((len(z), design.shape[2], 1))
    first[:, 0] = 1.0
    return np.matmul(design, np.linalg.solve(normal, first))[..., 0] * weight


def _rows(form: str, z: Floats, known: Floats, lengths: Floats, nugget: float) -> Floats:
    if form == FORMS[0]:
        return prior_covariance(z, known, lengths)
    everyone = np.ones((len(z), len(known)), dtype=bool)
    return _local_linear_rows(z, known, lengths, nugget, everyone)


def _fit(
    z: Floats,
    tests: _Tests,
    form: str,
    centred: Floats,
    noise: Floats,
    lengths: Floats,
    nugget: float,
) -> tuple[Floats, Floats]:
    """Coefficients (n, bins), and known minus held-out predictions (rows, bins)."""
    n, single = len(z), tests.single
    if form == FORMS[1]:
        allowed = np.ones((len(tests.index), n), dtype=bool)
        allowed[np.arange(single), tests.index[:single]] = False
        for block in tests.blocks:
            allowed[block, tests.index[block]] = False
        rows = _local_linear_rows(z[tests.index], z, lengths, nugget, allowed)
        return centred, centred[tests.index] - rows @ centred
    kernel = prior_covariance(z, z, lengths)
    coefficients = np.empty_like(centred)
    errors = np.empty((len(tests.index), centred.shape[1]))
    # bins of equal noise share one inverse; elsewhere each bin has its own
    for bins in _equal_columns(noise):
        if len(tests.index) == 0 and len(bins) == 1:
            matrix = kernel + nugget * np.diag(noise[:, bins[0]])
            coefficients[:, bins[0]] = _solution(matrix, centred[:, bins[0]])
            continue
        inverse = _inverse(kernel + nugget * np.diag(noise[:, bins[0]]))
        mine = inverse @ centred[:, bins]
        coefficients[:, bins] = mine
        # known minus predicted from all others: (K⁻¹_gg)⁻¹ (K⁻¹ y)_g
        errors[:single, bins] = mine[:single] / np.diag(inverse)[:single, None]
        for block in tests.blocks:
            g = tests.index[block]
            errors[block, bins] = np.linalg.solve(inverse[np.ix_(g, g)], mine[g])
    return coefficients, errors


_ALIKE = "contexts are so alike that no trend over them is determined."


def _solution(matrix: Floats, right: Floats) -> Floats:
    """Solution of a positive definite system, serially, a third of the work of the inverse."""
    x = right.copy()
    if not _kernels.solve_positive(matrix, x):
        raise ValueError(_ALIKE)
    return x


def _inverse(matrix: Floats) -> Floats:
    """Inverse of a positive definite matrix, serially.

    At this size the threads of a library bring little, and on a busy machine they cost a
    hundredfold.
    """
    inverse = np.empty_like(matrix)
    if not _kernels.invert_positive(matrix, inverse):
        raise ValueError(_ALIKE)
    return inverse


def _equal_columns(noise: Floats) -> list[NDArray[np.intp]]:
    """Columns of (n, bins) in groups that are equal."""
    if np.all(noise == noise[:, :1]):
        return [np.arange(noise.shape[1])]
    which = np.unique(noise, axis=1, return_inverse=True)[1].reshape(-1)
    order = np.argsort(which, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(which[order])) + 1)


# ------------------------------------------------------------------ choosing parameters


def _few_columns(centred: Floats, noise: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Values of one quantity (n, columns) and their noise that stand for all bins in a search."""
    values = centred * np.sqrt(share)
    if np.all(noise == noise[:, :1]):
        # an orthogonal change of the bins keeps the sum of squares and leaves few columns
        u, s, _ = np.linalg.svd(values, full_matrices=False)
        kept = s > 1e-5 * max(s[0], 1e-300)
        return u[:, kept] * s[kept], noise[:, : kept.sum()]
    some = np.argsort(-share)[:: max(1, len(share) // 40)]
    return values[:, some], noise[:, some]


def _search(
    z: Floats,
    tests: _Tests,
    form: str,
    values: Floats,
    noise: Floats,
    start: _Choice,
) -> _Choice:
    """Coordinate descent over length scales and nugget on the held-out error of one quantity."""
    seen: dict[tuple[tuple[int, ...], int], float] = {}

    def error(lengths: tuple[int, ...], nugget: int) -> float:
        if (lengths, nugget) not in seen:
            _, errors = _fit(
                z, tests, form, values, noise, _LENGTHS[list(lengths)], float(_NUGGETS[nugget])
            )
            seen[lengths, nugget] = float(tests.weight @ (errors**2).sum(axis=1))
        return seen[lengths, nugget]

    if values.shape[1] == 0 or not np.any(values):
        return _Choice(start.lengths, start.nugget, 0.0)
    best = _Choice(start.lengths, start.nugget, error(start.lengths, start.nugget))
    for _ in range(4):
        before = best.error
        for r in range(z.shape[1] + 1):
            if r < z.shape[1] and np.ptp(z[:, r]) == 0:
                continue
            for step in (1, -1):
                while True:
                    lengths, nugget = list(best.lengths), best.nugget
                    if r < z.shape[1]:
                        lengths[r] += step
                    else:
                        nugget += step
                    if min(lengths) < 0 or max(lengths) >= len(_LENGTHS):
                        break
                    if not 0 <= nugget < len(_NUGGETS):
                        break
                    tried = error(tuple(lengths), nugget)
                    if tried >= best.error * (1 - 1e-3):
                        break
                    best = _Choice(tuple(lengths), nugget, tried)
        if best.error > before * (1 - 1e-2):
            break
    return best


def _search_coordinates(chosen, choices, known, form, search):
    """Replace the logarithm of one resource after the other where held-out contexts gain."""
    for r in range(known.shape[1]):
        if len(np.unique(known[:, r])) < 3 or known[:, r].min() <= 0:
            continue  # two levels fit any coordinate, and zero has no logarithm
        for name in COORDINATES[1:]:
            axes = (*chosen[:r], name, *chosen[r + 1 :])
            tried = search(axes, form, choices)
            if _total(tried) < _COORDINATE_GAIN * _total(choices):
                chosen, choices = axes, tried
    return chosen, choices


# ------------------------------------------------------------------ caps


def throttled(free: Floats, least: Floats, width: float) -> tuple[Floats, Floats]:
    """Time E max(free, least·X), X log-normal of mean 1, and the share ∂ log t / ∂ log free.

    Free and least times of any shapes that broadcast, not negative [s]; width > 0, the standard
    deviation of log X.  Section 5.7 of the method.
    """
    free, least = np.broadcast_arrays(free, least)
    time, share = np.empty(free.shape), np.empty(free.shape)
    flat = (np.ascontiguousarray(free).ravel(), np.ascontiguousarray(least).ravel())
    _kernels.throttled(*flat, width, time.ravel(), share.ravel())
    return time, share


def _unthrottled(time: Floats, least: Floats, width: float) -> Floats:
    """Logarithm of the free time that gives `time`, by bisection; far below where none does."""
    high = np.log(time)
    low = high - 6.0
    for _ in range(24):
        middle = 0.5 * (low + high)
        above = throttled(np.exp(middle), least, width)[0] > time
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    return 0.5 * (low + high)


@dataclass(frozen=True)
class _Candidate:
    """A cap under trial."""

    counter: int
    resource: int
    rate: float
    width: float
    lengths: Floats
    nugget: float

    @classmethod
    def of(cls, cap: Cap) -> _Candidate:
        return cls(cap.counter, cap.resource, cap.rate, cap.width, cap.lengths, cap.nugget)


def _starts(
    counter: int, resource: int, rate: float, lengths: Floats, nugget: float
) -> list[_Candidate]:
    """Where the search for a cap starts from."""
    # what a cap explains the unthrottled time need not: it may hardly see the resource
    free = np.where(np.arange(len(lengths)) == resource, _LENGTHS[-1], lengths)
    return [
        _Candidate(counter, resource, rate, width, scales, nugget)
        for scales, width in product((lengths, free), _WIDTHS)
    ]


def _shapes(cap: _Candidate) -> list[list[_Candidate]]:
    """Other rates, other widths of the knee."""
    return [
        [replace(cap, rate=f * cap.rate) for f in (0.97, 0.985, 1.015, 1.03)],
        [
            replace(cap, width=float(np.clip(f * cap.width, 0.02, 1.0)))
            for f in (0.35, 0.7, 1.4, 2.8)
        ],
    ]


def _smoothnesses(cap: _Candidate) -> list[list[_Candidate]]:
    """Other length scales, one resource after the other, and other nuggets."""
    tried = []
    for r in range(len(cap.lengths)):
        scale = np.where(np.arange(len(cap.lengths)) == r, 1.0, 0.0)
        tried.append(
            [replace(cap, lengths=np.clip(cap.lengths * f**scale, 0.1, 8.0)) for f in (2.0, 0.5)]
        )
    tried.append(
        [replace(cap, nugget=float(np.clip(f * cap.nugget, 1e-5, 0.1))) for f in (5.0, 0.2)]
    )
    return tried


@dataclass(frozen=True)
class _CapSearch:
    """Finds the cap that best explains the time of held-out contexts.

    Attributes
    ----------
    known, z : ndarray, (n, m)
        Contexts, as levels and in scaled coordinates.
    amounts, noise : ndarray, (n, bins, k)
    share : ndarray, (bins,)
        Of the time.
    tests : _Tests
    held_out : ndarray, (rows, bins, k)
        Amounts of the held-out contexts without a cap.
    """

    known: Floats
    z: Floats
    amounts: Floats
    noise: Floats
    share: Floats
    tests: _Tests
    held_out: Floats

    def run(self, lengths: Floats, nugget: float, coarse: _CapSearch) -> tuple[Cap, ...]:
        """The cap, or none, starting from the length scales and nugget of time.

        Whether there is one, and of what, is decided on `coarse`, the same over sums of bins; its
        rate is that at which bins pile up.
        """
        time = self.amounts[..., 0]
        if not np.all(time > 0):
            return ()
        weight = time / time.sum()
        gain, found = _CAP_GAIN, ()
        for r in range(self.known.shape[1]):
            if np.ptp(self.known[:, r]) == 0 or self.known[:, r].min() <= 0:
                continue
            for k in range(1, self.amounts.shape[2]):
                rate = _pile_up(self.amounts[..., k] / time / self.known[:, r, None], weight)
                starts = _starts(k, r, rate, lengths, nugget) if rate > 0 else []
                if starts and (gained := coarse._best(starts)[0]) <= gain:
                    gain, found = gained, starts
        if not found:
            return ()
        cap = self._best(found)[1]
        some = self._telling_bins()
        cap = self._descend(cap, _shapes, some, *self.tests.about(cap.resource, alone=False))
        cap = self._descend(cap, _smoothnesses, some, *self.tests.about(cap.resource, alone=True))
        return (self._cap(cap, gain),)

    def _best(self, caps: Sequence[_Candidate]) -> tuple[float, _Candidate]:
        """The cap with the least held-out error, of several of one resource, and its gain."""
        some = self._telling_bins()
        tests, rows = self.tests.about(caps[0].resource, alone=False)
        errors = [self._error(cap, some, tests, rows) for cap in caps]
        best = int(np.argmin(errors))
        plain = self._square(self.held_out[rows][:, some, 0], tests, some)
        return errors[best] / plain if plain > 0 else np.inf, caps[best]

    def again(self, cap: Cap) -> Cap:
        """The cap with its parameters kept and the unthrottled time fitted anew."""
        return self._cap(_Candidate.of(cap), cap.gain)

    def _cap(self, cap: _Candidate, gain: float) -> Cap:
        every = np.arange(self.amounts.shape[1])
        tests = _Tests.none()
        coefficients, mean, highest, _ = self._solve(cap, every, tests, tests.index)
        return Cap(
            cap.counter, cap.resource, cap.rate, cap.width, gain, cap.lengths, cap.nugget,
            mean, highest, np.ascontiguousarray(coefficients),
        )  # fmt: skip

    def held_out_time(self, cap: Cap) -> tuple[Floats, float]:
        """Time of each known context predicted from all others (n, bins); held-out error."""
        candidate = _Candidate.of(cap)
        every = np.arange(self.amounts.shape[1])
        rows = np.arange(len(self.tests.index))
        predicted = self._solve(candidate, every, self.tests, rows)[3]
        square = self._square(predicted, self.tests, every)
        return predicted[: self.tests.single], float(np.sqrt(square))

    def _telling_bins(self) -> NDArray[np.intp]:
        """Bins for the search: every few of the longest three quarters."""
        count = 14 if len(self.known) <= 200 else 6
        long = np.argsort(-self.share, kind="stable")[: max(1, 3 * len(self.share) // 4)]
        return long[:: max(1, len(long) // count)]

    def _square(self, predicted: Floats, tests: _Tests, some: NDArray[np.intp]) -> float:
        """Mean squared log error of predicted times (rows, some)."""
        share = self.share[some] / self.share[some].sum()
        known = self.amounts[:, some, 0][tests.index]
        return float(tests.weight @ np.log(np.maximum(predicted, 1e-300) / known) ** 2 @ share)

    def _error(self, cap: _Candidate, some, tests: _Tests, rows) -> float:
        return self._square(self._solve(cap, some, tests, rows)[3], tests, some)

    def _descend(self, cap, neighbours, some, tests, rows) -> _Candidate:
        """Two sweeps of coordinate descent; `neighbours(cap)` lists one try-list per axis."""
        error = self._error(cap, some, tests, rows)
        for _ in range(2):
            before = error
            for axis in range(len(neighbours(cap))):
                for tried in neighbours(cap)[axis]:
                    value = self._error(tried, some, tests, rows)
                    if value < 0.998 * error:
                        cap, error = tried, value
                        break
            if error > 0.98 * before:
                break
        return cap

    def _solve(self, cap: _Candidate, some, tests: _Tests, rows):
        """Coefficients, mean and limit of the log free time; held-out times (rows, some)."""
        time = self.amounts[:, some, 0]
        levels = cap.rate * self.known[:, cap.resource, None]
        least = self.amounts[:, some, cap.counter] / levels
        free = _unthrottled(time, least, cap.width)
        share = throttled(np.exp(free), least, cap.width)[1]
        share = np.where(share > 0.99, 1.0, share)
        # where the cap binds nothing is known of the free time but that it is shorter
        seen = (share > _LEAST_SHARE) & (time > (1.0 + _EXCESS) * least)
        noise = np.where(
            seen, self.noise[:, some, 0] / np.maximum(share, _LEAST_SHARE) ** 2, _UNKNOWN
        )
        confidence = np.where(seen, 1.0 / (cap.nugget * noise + 0.02), 1e-12)
        mean = (free * confidence).sum(axis=0) / confidence.sum(axis=0)
        centred = np.where(seen, free - mean, 0.0)
        highest = np.log(time.max(axis=0)) + 1.0
        coefficients, errors = _fit(
            self.z, tests, FORMS[0], centred, noise, cap.lengths, cap.nugget
        )
        value = np.exp(np.minimum(mean + centred[tests.index] - errors, highest))
        floor = self.held_out[rows][:, some, cap.counter] / levels[tests.index]
        return coefficients, mean, highest, throttled(value, floor, cap.width)[0]


def _pile_up(ratio: Floats, weight: Floats) -> float:
    """Rate at which a counter's rate per level saturates, 0 where it does not.

    The lowest rate that is exceeded by a tenth in at most 0.5 % of the time, if at least 3 % of
    the time is spent within 15 % of it or above.
    """
    order = np.argsort(ratio, axis=None)
    value, passed = ratio.ravel()[order], np.cumsum(weight.ravel()[order])
    for quantile in (0.9, 0.95, 0.98, 0.99, 0.995):
        rate = float(value[min(np.searchsorted(passed, quantile), len(value) - 1)])
        near, above = weight[ratio > 0.85 * rate].sum(), weight[ratio > 1.1 * rate].sum()
        if above <= 0.005:
            return rate if near >= 0.03 and rate > 0 else 0.0
    return 0.0
